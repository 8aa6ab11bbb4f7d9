#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts: a program in a process of its own, in a directory of the workspace,
at both levels of isolation. What ends it leaves the variables of cells alone."""

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from limit_cells import must_work  # noqa: E402
from sandbox_session import (FORGE, Sandbox, landlock_abi,  # noqa: E402
                             wait_until)

MIB = 1 << 20


def at_each_level(function):
    """A test of one sandbox, at both levels: sb(options) opens it."""
    def test():
        for level in ("full", "reduced"):
            if level == "reduced" and landlock_abi() < 6:
                tap.diag("reduced: Landlock is too old here")
                continue
            function(lambda *options, **more: Sandbox(
                *options, level=level, **more))
    test.tap_timeout = 180
    test.__name__ = function.__name__
    return test


def until(sb, text):
    """Reads until it has been printed: Python may write it in parts."""
    found = ""
    while text not in found:
        found += sb.wait("bytes")["text"]
    assert found == text, found


def ended(cell, outcome, exit=-1, signal=0):
    assert cell.end == "done" and cell.outcome == outcome, cell
    assert (cell.exit, cell.signal) == (exit, signal), cell
    assert not cell.lost, cell


# ---- what it gets, and what it gives ----------------------------------------

SHOW = """
import os, sys
import lib.tools
print(sys.argv[1:])
print(os.path.basename(os.getcwd()), sorted(os.listdir(".")))
print(os.environ["A"], os.environ["B"], os.environ.get("C"))
def is_open(fd):
    try:
        return bool(os.fstat(fd))
    except OSError:
        return False
print([fd for fd in range(100) if is_open(fd)])
print(os.getpgrp() == os.getpid(), repr(sys.stdin.read()))
print("x" in globals(), lib.tools.NAME, os.stat("lib/tools.py").st_uid ==
      os.getuid())
print("wrong", file=sys.stderr)
sys.exit(7)
"""


@at_each_level
def test_fresh_process(sandbox):
    """Its arguments, directory, environment and descriptors, and nothing that
    cells have done."""
    with sandbox() as sb:
        sb.cell("import os\nx = 1\nos.environ['C'] = 'c'\n"
                "os.environ['B'] = 'no'\nos.chdir('/')\n")
        files = {"analyze.py": SHOW, "lib/tools.py": "NAME = 'é'", "e": ""}
        cell = sb.script(["python3", "analyze.py", "a b", "", "é\n"], files,
                         dir="jobs/one", env=["A=1=2", "B="])
        ended(cell, "error", 7)
        assert cell.stdout.split("\n") == [
            "['a b', '', 'é\\n']", "one ['analyze.py', 'e', 'lib']",
            "1=2  None", "[0, 1, 2]", "True ''", "False é True", ""], cell
        assert cell.stderr == "wrong\n", cell
        assert sorted(sb.list()) == ["jobs/one/" + n for n in sorted(files)]
        # Other files: those before stay, and those of the same names go.
        cell = sb.script(["/bin/cat", "e", "lib/tools.py"],
                         {"e": "new"}, dir="jobs/one")
        ended(cell, "ok", 0)
        assert cell.stdout == "newNAME = 'é'", cell
        must_work(sb, True)


@at_each_level
def test_python_is_that_of_the_cells(sandbox):
    with sandbox() as sb:
        mine = sb.cell("import sys\nprint(sys.executable)").stdout
        for name in ("python3", "python"):
            cell = sb.script([name, "-c", "import sys\nprint(sys.executable)"],
                             env=["PATH=/nowhere"])
            assert cell.stdout == mine, (cell, mine)


@at_each_level
def test_output_as_it_comes(sandbox):
    """From Python as well, though it is a pipe; the end comes behind it."""
    code = ("import os, sys, time\nprint('first')\n"
            "while not os.path.exists('go'):\n    time.sleep(0.02)\n"
            "sys.stdout.write('x' * 300000 + 'last')\n")
    with sandbox() as sb:
        sb.start_script(["python3", "a.py"], {"a.py": code})
        sb.wait("begin")
        until(sb, "first\n")
        open(os.path.join(sb.workspace(), "job", "go"), "w").close()
        cell = sb.finish_cell()
        ended(cell, "ok", 0)
        assert cell.stdout == "x" * 300000 + "last", len(cell.stdout)
        assert [e["event"] for e in sb.events][-1] == "script"


@at_each_level
def test_ends(sandbox):
    with sandbox() as sb:
        ended(sb.python("raise SystemExit(255)"), "error", 255)
        ended(sb.python("import os\nos.abort()"), "error", signal=6)
        for argv, name in ((["nothing"], "FileNotFoundError"),
                           (["./a.txt"], "PermissionError")):
            cell = sb.script(argv, {"a.txt": ""})
            ended(cell, "error")
            assert cell.error == name and argv[0] in cell.value, cell
        sb.cell("x = 1")
        cell = sb.python("import os\nos.kill(os.getppid(), 9)\n"
                         "os.abort()")
        assert cell.end == "restarted" and cell.lost, cell
        assert cell.outcome == "died" and cell.exit == -1, cell
        cell = sb.cell("print('x' in globals())")
        assert cell.stdout == "False\n" and cell.lost, cell


@at_each_level
def test_after_cells_that_break_things(sandbox):
    with sandbox() as sb:
        for code in ("import os\nfor fd in (0, 1, 2):\n    os.close(fd)",
                     "import signal\nsignal.signal(signal.SIGCHLD, "
                     "signal.SIG_IGN)\nsignal.signal(signal.SIGINT, "
                     "signal.SIG_IGN)",
                     "import builtins\ndel builtins.len\n"
                     "builtins.isinstance = lambda *_: 1 / 0"):
            sb.cell(code)
            cell = sb.python("print('works')")
            ended(cell, "ok", 0)
            assert cell.stdout == "works\n", cell


# The signal comes when the program has been started, or has ended.
RING = """
import signal, subprocess
rang = []
def ring(*_):
    rang.append(1)
    raise TimeoutError
signal.signal(signal.SIGALRM, ring)
class Popen(subprocess.Popen):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        if %r == "start":
            signal.raise_signal(signal.SIGALRM)
    def wait(self, *args, **more):
        if %r == "end":
            signal.raise_signal(signal.SIGALRM)
        return super().wait(*args, **more)
subprocess.Popen = Popen
"""


@at_each_level
def test_handlers_that_raise_around_it(sandbox):
    """What has been started is waited for, and its end is told."""
    for when in ("start", "end"):
        with sandbox() as sb:
            assert sb.cell(RING % (when, when)).outcome == "ok"
            cell = sb.python("import time\ntime.sleep(0.3)\nprint('done')")
            ended(cell, "ok", 0)
            assert cell.stdout == "done\n", (when, cell)
            # What is imported ahead may start a program as well.
            cell = sb.cell("print(len(rang) > 0)")
            assert cell.stdout == "True\n", (when, cell)


@at_each_level
def test_what_cells_ignore_and_mask(sandbox):
    """Is not what a script begins with, and is the cells' again later."""
    code = ("import os, signal\nprint(int(signal.getsignal(signal.SIGTERM)), "
            "int(signal.getsignal(signal.SIGCHLD)), os.umask(0))")
    with sandbox() as sb:
        first = sb.python(code).stdout
        assert first.startswith("0 0 "), first
        sb.cell("import os, signal\nsignal.signal(signal.SIGTERM, "
                "signal.SIG_IGN)\nsignal.signal(signal.SIGCHLD, "
                "signal.SIG_IGN)\nos.umask(0o777)")
        cell = sb.python(code)
        ended(cell, "ok", 0)
        assert cell.stdout == first, cell
        cell = sb.cell(code)
        assert cell.stdout == "1 1 511\n", cell


@at_each_level
def test_handlers_of_cells(sandbox):
    """One that raises while a script is waited for; the cell's own handler of
    the ends of children is back afterwards, and called then."""
    with sandbox() as sb:
        sb.cell("import signal, time\n"
                "def ring(*_): raise TimeoutError\n"
                "ends = []\ndef child(*_): ends.append(1)\n"
                "signal.signal(signal.SIGALRM, ring)\n"
                "signal.signal(signal.SIGCHLD, child)\n"
                "signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)")
        cell = sb.python("import time\ntime.sleep(1)\nprint('done')")
        ended(cell, "ok", 0)
        assert cell.stdout == "done\n", cell
        cell = sb.cell("signal.setitimer(signal.ITIMER_REAL, 0)\n"
                       "print(signal.getsignal(signal.SIGCHLD) is child, ends)")
        assert cell.stdout == "True [1]\n", cell


# ---- stopping ---------------------------------------------------------------

# Of three generations, one in a session of its own, each deaf.
TREE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("up")
        while True:
            time.sleep(1000)
    while True:
        pass
while True:
    time.sleep(1000)
"""


@at_each_level
def test_all_its_processes_end(sandbox):
    """By the interrupt, and at the time limit."""
    with sandbox() as sb:
        sb.cell("x = 1")
        before = sb.descendants()
        for limit in (None, 5000):
            more = {"timeout_ms": limit} if limit else {}
            sb.start_script(["python3", "a.py"], {"a.py": TREE}, **more)
            until(sb, "up\n")
            assert len(sb.descendants()) >= len(before) + 3
            if limit is None:
                sb.interrupt()
            cell = sb.finish_cell()
            ended(cell, "timeout" if limit else "interrupted", signal=9)
            assert cell.ms >= 3000, cell
            wait_until(lambda: sb.descendants() == before, 20,
                       "only the interpreter is left")
            must_work(sb, True)


@at_each_level
def test_interrupt_comes_first(sandbox):
    """A script can take care of it, and of more than one."""
    code = ("import time\ntry:\n    print('up')\n    time.sleep(1000)\n"
            "except KeyboardInterrupt:\n    print('cleaned')\n")
    with sandbox() as sb:
        sb.cell("x = 1")
        sb.start_script(["python3", "a.py"], {"a.py": code})
        until(sb, "up\n")
        sb.interrupt()
        cell = sb.finish_cell()
        ended(cell, "interrupted", 0)
        assert cell.stdout == "cleaned\n", cell
        assert cell.reason == "Stopped; variables are kept.", cell
        cell = sb.python(code, timeout_ms=5000)
        assert cell.stdout == "up\ncleaned\n", cell
        ended(cell, "timeout", 0)
        assert "after 5.0 s" in cell.reason, cell
        # Without a handler of its own.
        cell = sb.script(["/bin/sleep", "1000"], timeout_ms=300)
        ended(cell, "timeout", signal=2)
        must_work(sb, True)


@at_each_level
def test_waiting_ones_are_cancelled(sandbox):
    with sandbox() as sb:
        sb.start_cell("import time\nprint('up', flush=True)\ntime.sleep(1)")
        sb.wait("bytes")
        sb.start_script(["python3", "-c", "print('ran')"])
        sb.interrupt()
        event = sb.wait("script")
        assert event["code"] == "cancelled", event
        assert sb.finish_cell().outcome == "ok"
        assert sb.list() == {}, sb.list()


def test_left_behind():
    """Whoever does not wait is answered; the next operation does wait."""
    with Sandbox() as sb:
        sb.start_script(["python3", "a.py"], {"a.py": TREE})
        until(sb, "up\n")
        sb.request(op="leave")
        event = sb.wait("script")
        assert event["late"] and event["outcome"] == "interrupted", event
        assert sb.cell("print(1)").stdout == "1\n"
        late = [e for e in sb.events if e["event"] == "late"]
        assert [(e["cell"], e["loss"]) for e in late] == [(0, None)], late


# ---- limits -----------------------------------------------------------------

@at_each_level
def test_output_limit(sandbox):
    with sandbox("output=10000") as sb:
        sb.cell("x = 1")
        cell = sb.python("while True:\n    print('y' * 99)")
        assert cell.outcome == "output_limit" and cell.dropped > 0, cell
        assert len(cell.text) == 10000, len(cell.text)
        must_work(sb, True)


@at_each_level
def test_memory_limit(sandbox):
    """Each process by itself, and all of them together: they are ended, and
    the interpreter is not."""
    many = ("import os, time\nfor i in range(6):\n    if os.fork() == 0:\n"
            "        kept = b'x' * (150 << 20)\n        time.sleep(1000)\n"
            "time.sleep(1000)\n")
    with sandbox("memory=%d" % (600 * MIB)) as sb:
        sb.cell("x = 1")
        cell = sb.python("x = bytearray(700 << 20)")
        ended(cell, "error", 1)
        assert "MemoryError" in cell.stderr, cell
        cell = sb.python(many)
        assert cell.outcome == "memory" and not cell.lost, cell
        assert "memory limit of 600 MiB" in cell.reason, cell
        must_work(sb, True)


@at_each_level
def test_disk_limit(sandbox):
    with sandbox("workspace=%d" % (16 * MIB)) as sb:
        sb.cell("x = 1")
        cell = sb.python("open('big', 'wb').write(b'x' * (40 << 20))")
        assert cell.outcome == "disk_limit" and not cell.lost, cell
        # No more of them until there is room.
        cell = sb.python("print(1)")
        assert cell.end == "error" and cell.code == "limit", cell
        assert "too large" in cell.message, cell
        sb.cell("import os\nos.unlink('job/big')")
        ended(sb.python("print(1)"), "ok", 0)
        must_work(sb, True)


@at_each_level
def test_process_limit(sandbox):
    code = ("import os, time\nn = 0\ntry:\n    while n < 500:\n"
            "        if os.fork() == 0:\n            time.sleep(1000)\n"
            "        n += 1\nexcept OSError as e:\n"
            "    print(type(e).__name__)\nos.killpg(0, 9)")
    with sandbox("processes=40") as sb:
        cell = sb.python(code)
        assert cell.stdout == "BlockingIOError\n", cell
        ended(cell, "error", signal=9)


# ---- names, links, sizes ----------------------------------------------------

OUTSIDE = ["..", ".", "", "/", "/tmp", "a/..", "a/../b", "./a", "a//b", "a/",
           "/a", "a" * 256]


@at_each_level
def test_names_that_lead_out(sandbox):
    with sandbox() as sb:
        sb.opened()
        kept = sorted(os.listdir(sb.workspace()))
        for name in OUTSIDE + ["data", "data/x", ".state", ".state/x"]:
            cell = sb.script(["/bin/echo", "ran"], {"f": "x"}, dir=name)
            assert cell.end == "error" and cell.code == "usage", (name, cell)
        for name in OUTSIDE:
            cell = sb.script(["/bin/echo", "ran"], {"f": "x", name: "x"})
            assert cell.end == "error" and cell.code == "usage", (name, cell)
            assert cell.stdout == "", cell
        assert sorted(os.listdir(sb.workspace())) == kept
        ended(sb.script(["/bin/cat", "data/f"], {"data/f": ""},
                        dir="data2"), "ok", 0)


@at_each_level
def test_links_are_not_followed(sandbox):
    """To a directory or a file outside, which the program itself could write
    to; and inside."""
    with tempfile.TemporaryDirectory(prefix="outside-") as top:
        os.chmod(top, 0o777)
        os.mkdir(top + "/lib", 0o777)
        with open(top + "/f", "w") as f:
            f.write("kept")
        os.chmod(top + "/f", 0o666)
        with sandbox() as sb:
            sb.opened()
            workspace = sb.workspace()
            for name in ("", "/lib"):
                os.symlink(top + name, workspace + "/to" + name.strip("/"))
            for dir in ("to", "to/job", "tolib"):
                cell = sb.script(["/bin/echo", "ran"], {"f": "x"}, dir=dir)
                assert cell.end == "error", cell
                assert cell.code == "unsupported", cell
                assert cell.stdout == "", cell
            os.mkdir(workspace + "/job")
            os.chmod(workspace + "/job", 0o777)
            os.symlink(top, workspace + "/job/d")
            cell = sb.script(["/bin/echo", "ran"], {"d/g": "x"})
            assert cell.code == "unsupported" and cell.stdout == "", cell
            # What is under the name of a file is replaced.
            os.symlink(top + "/f", workspace + "/job/f")
            os.mkfifo(workspace + "/job/p")
            os.link(top + "/f", workspace + "/job/h")
            ended(sb.script(["/bin/cat", "f", "p", "h"],
                            {"f": "1", "p": "2", "h": "3"}), "ok", 0)
            os.mkdir(workspace + "/job/full")
            cell = sb.script(["/bin/echo"], {"full": "x"})
            assert cell.end == "error" and "full" in cell.message, cell
        with open(top + "/f") as f:
            assert f.read() == "kept"
        assert sorted(os.listdir(top)) == ["f", "lib"]
        assert os.listdir(top + "/lib") == []


def test_sizes():
    with Sandbox() as sb:
        ended(sb.script(["/bin/true"], {"f": "x" * (8 * MIB)}), "ok", 0)
        for files, argv, more in (
                ({"f": "x" * (8 * MIB), "g": "x"}, ["true"], {}),
                ({"f%d" % i: "" for i in range(101)}, ["true"], {}),
                ({}, ["true"] + ["x"] * 1000, {}),
                ({}, ["true", "x" * 131072], {}),
                ({}, ["true", "x" * 70000], {"env": ["A=" + "x" * 70000]})):
            cell = sb.script(argv, files, **more)
            assert cell.end == "error" and cell.code == "too_large", cell
        for env in (["A"], ["=x"]):
            cell = sb.script(["true"], env=env)
            assert cell.end == "error" and cell.code == "usage", cell
        for argv in ([], [""]):
            cell = sb.script(argv)
            assert cell.end == "error" and cell.code == "usage", cell


def test_forged_ends():
    """An end of the other kind is none."""
    with Sandbox() as sb:
        cell = sb.cell(FORGE + "forge(ev='script', id=me, exit=0)\n"
                       "import time\ntime.sleep(0.3)\nprint('on')")
        assert cell.outcome == "ok" and cell.stdout == "on\n", cell
        for ev, more in (("script", "exit=-5"), ("script", "exit=10**12"),
                         ("script", "exit='0'"), ("script", "signal=10**12"),
                         ("done", "status='ok'"),
                         ("done", "status='interrupted'")):
            sb.cell(FORGE + """
import threading, time
def later():
    s = kernel()
    while s.id == me:
        time.sleep(0.01)
    forge(ev=%r, id=s.id, %s)
threading.Thread(target=later, daemon=True).start()
""" % (ev, more))
            cell = sb.python("import time\ntime.sleep(1)")
            ended(cell, "error")


if __name__ == "__main__":
    tap.main(globals())
