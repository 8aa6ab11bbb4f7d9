#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A crash inside starts no program of the host.

The kernel runs the program behind the "|" of core_pattern outside of any
namespace, as root. The setting is one for the whole machine: it is changed for
as long as this test takes, and put back even when the test is killed.
"""

import ctypes
import os
import resource
import shutil
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from sandbox_session import Sandbox, attack, cell_uid, wait_until  # noqa: E402

PR_SET_DUMPABLE = 4

PATTERN = "/proc/sys/kernel/core_pattern"

HANDLER = """#!/bin/sh
: >"%s/ran.$1.$2"
cat >/dev/null
"""


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


class Handler:
    """A handler that leaves a file named by the pid and the user of what
    crashed, as they are outside."""

    def __enter__(self):
        with open(PATTERN) as f:
            self.before = f.read()
        self.dir = tempfile.mkdtemp(prefix="cores-")
        path = os.path.join(self.dir, "handler")
        write(path, HANDLER % self.dir)
        os.chmod(path, 0o700)
        self.guard()
        try:
            write(PATTERN, "|%s %%P %%u" % path)
        except OSError as exc:
            self.__exit__()
            tap.skip("core_pattern cannot be set here: %s" % exc.strerror)
        return self

    def guard(self):
        """A process that puts the setting back when this one is gone."""
        r, self.hold = os.pipe()
        self.guardian = os.fork()
        if self.guardian == 0:
            try:
                os.close(self.hold)
                os.setsid()
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                os.read(r, 1)
                write(PATTERN, self.before)
            finally:
                os._exit(0)
        os.close(r)

    def __exit__(self, *_):
        os.close(self.hold)
        os.waitpid(self.guardian, 0)
        with open(PATTERN) as f:
            assert f.read() == self.before
        shutil.rmtree(self.dir, ignore_errors=True)

    def ran(self):
        return sorted(n for n in os.listdir(self.dir)
                      if n.startswith("ran."))

    def crash_outside(self):
        """As the same user; returns the name of the file."""
        pid = os.fork()
        if pid == 0:
            try:
                os.setgid(cell_uid())
                os.setuid(cell_uid())
                # What has changed its identity is otherwise left out.
                ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                os.kill(os.getpid(), signal.SIGSEGV)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return "ran.%d.%d" % (pid, cell_uid())


CRASHES = """
import subprocess
def crash(name, function):
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(0)
    report(name, os.WTERMSIG(os.waitpid(pid, 0)[1]))
crash("null", lambda: ctypes.string_at(0))
crash("segv", lambda: os.kill(os.getpid(), 11))
crash("abort", os.abort)
crash("quit", lambda: os.kill(os.getpid(), 3))
crash("trap", lambda: os.kill(os.getpid(), 5))
def own_session():
    os.setsid()
    os.kill(os.getpid(), 11)
crash("session", own_session)
def dumpable():
    _libc.prctl(4, 1, 0, 0, 0)
    os.kill(os.getpid(), 11)
crash("dumpable", dumpable)
for name, argv in (("program", ["/bin/sh", "-c", "kill -SEGV $$"]),
                   ("limit 0", ["/bin/sh", "-c", "ulimit -c 0 2>/dev/null; "
                                "kill -SEGV $$"]),
                   ("python", [sys.executable, "-c", "import os; os.abort()"])):
    report(name, -subprocess.run(argv, stderr=subprocess.DEVNULL).returncode)
"""


@attack(37)
@tap.timeout(90)
def test_crash_starts_no_handler_of_the_host():
    if os.getuid() != 0:
        tap.skip("only root can change core_pattern, which is the same for "
                 "the cells of all users")
    with Handler() as handler:
        with Sandbox() as sb:
            found = sb.attack(CRASHES)
            assert len(found) == 10, found
            assert all(n in (3, 5, 6, 11) for n in found.values()), found
            # The interpreter itself, and pid 1 with it.
            cell = sb.cell("import ctypes\nctypes.string_at(0)")
            assert cell.end == "restarted", cell
            assert "segmentation fault" in cell.reason, cell
            # The control, which also comes last: it is started outside, and
            # for a limit of 0 too.
            expected = handler.crash_outside()
            wait_until(lambda: expected in handler.ran(), 20,
                       "the handler runs")
            assert handler.ran() == [expected], handler.ran()


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has hardly a part in it")
    tap.main(globals())
