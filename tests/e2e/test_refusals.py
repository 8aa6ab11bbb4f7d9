#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where isolation cannot be had: a message with cause and fix, no cell run,
status 7, and the rest of the program works."""

import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import replay  # noqa: E402
import tap  # noqa: E402
from pty_session import PtySession, run_piped  # noqa: E402
from refusals import (BWRAP, CHROOT, HIDDEN, MASKED, NO_USERNS,  # noqa: E402
                      NO_PROCESSES, ONLY_ROOT, can, fake_bwrap)
from replay import program, write_replay  # noqa: E402
from sandbox_session import attack  # noqa: E402

STATUS = 7
SANITIZED = bool(os.environ.get("SANDPIPER_SANITIZERS", "").strip())

# What a cell would do if it ran: print what no message holds.
CANARY = "print('ran' * 2, 6 * 7 * 1000003)"
TRACE = b"42000126"

class Place(replay.Place):
    def __init__(self, bwrap=None, config=None):
        if bwrap:
            config = "sandbox:\n  bwrap: %s\n" % bwrap
        super().__init__(CANARY, config)
        self.csv = os.path.join(self.top, "t.csv")
        with open(self.csv, "w") as f:
            f.write("a\n1\n")

    def ask(self, prefix=(), env=None, stdin=b"", more=("-c", "go")):
        return run_piped(list(prefix) + [program()] + self.options +
                         list(more), stdin=stdin, env=env, timeout=40)


def check_refused(done, cause, fix):
    text = done.stderr.decode()
    assert done.status == STATUS, done
    assert re.search(cause, text), (cause, text)
    assert re.search(r"fix: .*" + fix, text), (fix, text)
    assert TRACE not in done.stdout + done.stderr, done
    # Said once, not with every operation.
    assert len(re.findall(cause, text)) == 1, text
    assert b"All done." not in done.stdout, done


# ---- the messages ----------------------------------------------------------

@tap.timeout(60)
def test_configured_bwrap_is_missing():
    with Place("/nonexistent/bwrap") as p:
        check_refused(p.ask(), "sandbox.bwrap: /nonexistent/bwrap",
                      "install.*bubblewrap")


@attack(67)
@tap.timeout(60)
def test_bwrap_is_not_installed():
    """In a mount namespace in which no fixed place has a program. It is not looked
    for in PATH, where it may be anybody's."""
    if not can(HIDDEN):
        tap.skip("nothing can be mounted here")
    with Place() as p:
        fake = os.path.join(p.top, "bwrap")
        with open(fake, "w") as f:
            f.write("#!/bin/sh\necho 42000126 >&2\n")
        os.chmod(fake, 0o755)
        done = p.ask(HIDDEN, env={"PATH": p.top + ":/usr/bin:/bin"})
        check_refused(done, "is not installed",
                      "install.*bubblewrap")


@attack(67)
@tap.timeout(60)
def test_bwrap_of_the_working_directory_is_not_run():
    with Place("./bwrap") as p:
        work = os.path.join(p.top, "work")
        os.makedirs(work, exist_ok=True)
        fake = os.path.join(work, "bwrap")
        with open(fake, "w") as f:
            f.write("#!/bin/sh\necho 42000126 >&2\n")
        os.chmod(fake, 0o755)
        done = run_piped([program()] + p.options + ["-c", "go"], cwd=work,
                         timeout=40)
        check_refused(done, "sandbox.bwrap: ./bwrap is no absolute path",
                      "leave it out")
    # Nor where PATH begins with that directory and nothing is configured.
    with Place() as p:
        fake = os.path.join(p.top, "bwrap")
        with open(fake, "w") as f:
            f.write("#!/bin/sh\necho not-the-real-one >&2\n")
        os.chmod(fake, 0o755)
        done = run_piped([program()] + p.options + ["-c", "go"], cwd=p.top,
                         env={"PATH": ".:%s:/usr/bin:/bin" % p.top},
                         timeout=40)
        assert done.status == 0 and TRACE in done.stderr, done
        assert b"not-the-real-one" not in done.stderr + done.stdout, done


@attack(67)
@tap.timeout(60)
def test_set_uid_bwrap():
    """Whoever it would become: root, or the user whose program it is."""
    for mode in (0o4755, 0o2755):
        with Place() as p:
            copy = os.path.join(p.top, "bwrap-suid")
            shutil.copy(BWRAP, copy)
            os.chmod(copy, mode)
            with Place(copy) as q:
                check_refused(q.ask(), "set-uid", "chmod u-s")


@attack(68)
@tap.timeout(60)
def test_no_user_namespaces():
    if not can(NO_USERNS):
        tap.skip("max_user_namespaces cannot be set here")
    with Place() as p:
        check_refused(p.ask(NO_USERNS), "user namespaces can be made",
                      "user.max_user_namespaces")


@tap.timeout(60)
def test_root_that_cannot_become_another():
    """A container with one user: root cannot be given up, so no cell runs,
    and the advice is not about the mode of some file. Where that root is an
    ordinary user outside, nothing need be given up."""
    if not can(ONLY_ROOT):
        tap.skip("no user namespaces")
    with Place() as p:
        done = p.ask(ONLY_ROOT)
        if os.getuid() != 0:
            assert done.status == 0 and TRACE in done.stderr, done
            return
        check_refused(done, "error: ", "")
        assert b"chmod 755" not in done.stderr, done


@tap.timeout(60)
def test_bwrap_that_is_no_bwrap():
    """Fails in a way nobody knows: what it said is passed on."""
    with Place("/usr/bin/false") as p:
        done = p.ask()
        assert done.status == STATUS, done
        assert b"fix: " in done.stderr and TRACE not in done.stderr, done


@attack(67)
@tap.timeout(120)
def test_old_bwrap():
    """0.7 is used without the options that it lacks; an older one is not, since
    it cannot bound directories, and those are not left unbounded."""
    lacks = ["disable-userns", "assert-userns-disabled"]
    with Place() as p:
        for version, more in (("0.6.3", ["size"]), ("0.4.1",
                                                    ["clearenv", "size"])):
            old = fake_bwrap(p.top, version=version, lacks=lacks + more)
            with Place(old) as q:
                check_refused(q.ask(), "sandbox.bwrap: .*too old", "0\\.7\\.0")
        with Place(fake_bwrap(p.top, version="0.7.0", lacks=lacks)) as q:
            done = q.ask()
            assert done.status == 0 and TRACE in done.stderr, done


@tap.timeout(60)
def test_rhel_9():
    """A kernel that lets nobody forbid further namespaces: the filter does."""
    with Place() as p:
        path = fake_bwrap(p.top, lacks=["disable-userns"])
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(text.replace(
                "Unknown option --$option", "cannot open "
                "/proc/sys/user/max_user_namespaces: Permission denied"))
        with Place(path) as q:
            done = q.ask()
            assert done.status == 0 and TRACE in done.stderr, done


@tap.timeout(60)
def test_apparmor():
    for says in ("loopback: Failed RTM_NEWADDR: Operation not permitted",
                 "setting up uid map: Permission denied"):
        with Place() as p, Place(fake_bwrap(p.top, says=says)) as q:
            check_refused(q.ask(), "AppArmor takes", "bwrap-userns-restrict")


@tap.timeout(60)
def test_chroot():
    if not can(CHROOT):
        tap.skip("no chroot can be made here")
    with Place() as p:
        check_refused(p.ask(CHROOT), "within a chroot", "systemd-nspawn")


@tap.timeout(60)
def test_no_processes_left():
    if os.getuid() == 0:
        tap.skip("root has no limit, and its cells share one")
    if SANITIZED:
        tap.skip("the search for leaks needs a thread")
    with Place() as p:
        check_refused(p.ask(NO_PROCESSES), "limit of processes", "ulimit -u")


@tap.timeout(60)
def test_configured_python():
    for path, why in (("/nonexistent/python", "is not there"),
                      ("python3", "is no absolute path"),
                      ("/usr/bin/true", "does not run")):
        with Place(config="sandbox:\n  python: %s\n" % path) as p:
            check_refused(p.ask(), "sandbox.python: %s .*%s" % (path, why), "")


@tap.timeout(90)
def test_messages_differ():
    """Three causes, three messages."""
    seen = []
    with Place("/nonexistent/bwrap") as p:
        seen.append(fix_of(p.ask()))
    for prefix in (NO_USERNS, MASKED):
        if can(prefix):
            with Place() as p:
                seen.append(fix_of(p.ask(prefix)))
    assert None not in seen and len(set(seen)) == len(seen), seen
    if len(seen) < 3:
        tap.skip("namespaces cannot be changed here")


def fix_of(done):
    found = re.search(rb"fix: (.*)", done.stderr)
    return found and found[1]


# ---- masked /proc ----------------------------------------------------------

@tap.timeout(60)
def test_masked_proc_is_refused():
    if not can(MASKED):
        tap.skip("/proc cannot be masked here")
    with Place() as p:
        check_refused(p.ask(MASKED), "masked /proc",
                      "--isolation=full-without-proc")


@tap.timeout(60)
def test_masked_proc_when_allowed():
    """Cells run without /proc, never with the host's, and it is said."""
    if not can(MASKED):
        tap.skip("/proc cannot be masked here")
    with Place(config="sandbox:\n  isolation: full-without-proc\n") as p:
        write_replay(
            p.top, ["import os, pandas\n"
                    "print('proc', os.path.exists('/proc/self'))\n"
                    "print(pandas.Series([6 * 7 * 1000003]).sum())"],
            "All done.")
        done = p.ask(MASKED)
        text = done.stderr.decode()
        assert done.status == 0, done
        assert TRACE.decode() in text, text
        assert "proc False" in text, text
        assert len(re.findall("without /proc", text)) == 1, text
        assert b"All done." in done.stdout, done


# ---- the rest works --------------------------------------------------------

@tap.timeout(60)
def test_commands_work_without_a_sandbox():
    with Place("/nonexistent/bwrap") as p:
        done = p.ask(stdin=b":help\n:files\n:quit\n", more=())
        assert done.status == 0, done
        assert b":load" in done.stdout + done.stderr, done


@tap.timeout(60)
def test_load_without_a_sandbox():
    """A load needs a cell; it fails with the same message, runs nothing."""
    with Place("/nonexistent/bwrap") as p:
        done = p.ask(stdin=b":load %s\n:help\n" % p.csv.encode(), more=())
        assert done.status == STATUS, done
        assert b"/nonexistent/bwrap" in done.stderr, done
        assert b"stdin:1: " in done.stderr, done


@tap.timeout(60)
def test_session_without_a_sandbox():
    with Place("/nonexistent/bwrap") as p:
        with PtySession([program()] + p.options + [p.csv], profile="vt340",
                        cols=120, rows=40) as s:
            s.expect("/nonexistent/bwrap", 20)
            s.expect("fix: ")
            s.expect("> ")
            s.send(":files\r")
            s.expect(re.compile(rb":files[^>]*\n[^>]*> "), 20)
            s.send("go\r")
            s.expect(re.compile(rb"go\r.*fix: .*> ", re.S), 20)
            s.send(":help\r")
            s.expect(":quit", 20)
            assert not s.seen(TRACE)
            assert s.descendants() == [s.pid], s.descendants()
            s.send("\x04")
            s.wait_exit(10)


if __name__ == "__main__":
    tap.main(globals())
