#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""--doctor and :doctor: what is found in good places and bad ones, what is to
be done about it on which system, and that a running interpreter is left
alone."""

import os
import re
import shutil
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
import program  # noqa: E402
from program import SANDPIPER, SANITIZED, Repl, check_clean  # noqa: E402
from program import check_no_escape  # noqa: E402
from pty_session import run_piped  # noqa: E402
from refusals import BWRAP, CHROOT, HIDDEN, IN_USERNS, MASKED  # noqa: E402
from refusals import NO_PROCESSES, NO_USERNS, ONLY_ROOT, can, fake_bwrap  # noqa: E402
from replay import write_replay  # noqa: E402
from test_isolation_level import NO_LANDLOCK, landlock_abi  # noqa: E402

STATUS = 7
TIMEOUT = 90

GOOD = "cells can run"
BAD = "cells cannot run: see what is marked FAIL"


class Place(program.Place):
    """One whose programs the user that cells get can run, too."""

    def __init__(self):
        super().__init__()
        os.chmod(self.dir, 0o755)
        os.makedirs(self.work, exist_ok=True)
        os.chmod(self.work, 0o755)


class Report:
    """What the doctor printed, taken apart."""

    LINE = re.compile(r"(ok|warn|FAIL|-) +([^:]+): (.*)")

    def __init__(self, text):
        self.text = text
        self.findings = {}
        self.verdict = text.rstrip("\n").split("\n")[-1]
        for line in text.split("\n"):
            found = self.LINE.match(line)
            if found:
                last = self.findings[found[2]] = [found[1], found[3], ""]
            elif line.startswith("      "):
                last[2] += line.strip() + "\n"

    def check(self, topic, status, what="", rest=""):
        found = self.findings.get(topic)
        assert found, "nothing on %s in\n%s" % (topic, self.text)
        assert found[0] == status, self.text
        assert re.search(what, found[1]), self.text
        assert re.search(rest, found[2]), self.text

    def failures(self):
        return [topic for topic, found in self.findings.items()
                if found[0] == "FAIL"]


def examine(place, prefix=(), args=(), env=None, expect=None,
            binary=SANDPIPER):
    """Runs --doctor in pipes, without a key; the report."""
    done = run_piped(list(prefix) + [binary, "--doctor"] + list(args),
                     env=place.env(None, env, key=None), timeout=TIMEOUT,
                     dir=place.dir)
    check_no_escape(done.stdout + done.stderr)
    report = Report(done.stdout.decode())
    assert done.stderr == b"", done
    assert report.verdict.startswith("cells "), done
    good = not report.verdict.startswith(BAD)
    assert done.status == (0 if good else STATUS), done
    assert good == (not report.failures()), done
    if expect is not None:
        assert good == expect, done
    return report


def need(prefix):
    if not can(prefix):
        tap.skip("the system cannot be changed in this way here")


def os_release(place, text):
    path = place.file("os-release", text)
    os.chmod(path, 0o644)
    return ["--over", path, os.path.realpath("/etc/os-release")]


# ---- a good place ----------------------------------------------------------

@tap.timeout(120)
def test_good_place():
    with Place() as place:
        report = examine(place, expect=True)
        for topic in ("system", "processor", "kernel", "identity",
                      "bubblewrap", "user namespaces", "workspace",
                      "processes", "memory", "sandbox", "Python",
                      "interpreter", "pandas", "matplotlib", "charts"):
            assert topic in report.findings, (topic, report.text)
        report.check("interpreter", "ok", "a cell ran in it")
        report.check("Python", "ok", r"version 3\.\d+\.\d+")
        report.check("pandas", "ok", r"version \d")
        uid = os.getuid()
        report.check("identity", "ok",
                     "user %d, as you do" % uid if uid else "root is given up")
        # No session was begun.
        assert not os.path.exists(os.path.join(place.state, "sessions"))


@tap.timeout(120)
def test_settings_do_not_matter_but_those_of_the_sandbox():
    """Nothing of the service is looked at, not even its address."""
    with Place() as place:
        place.config("model:\n  base_url: https://localhost:1\n  name: x\n")
        examine(place, expect=True)


@tap.timeout(60)
def test_usage():
    with Place() as place:
        place.file("t.csv", "a\n1\n")
        for args in (("t.csv",), ("-c", "go"), ("--demo",)):
            done = place.script(None, "--doctor", *args)
            assert done.status == 2, done
            assert b"--doctor takes no file" in done.stderr, done
            assert done.stdout == b"", done


def widest(screen):
    """Up to where the program of the build tree is named: a path may be longer
    than a line."""
    text = screen.all_text().split("charts:")[0]
    return max(len(line.rstrip()) for line in text.split("\n"))


@tap.timeout(120)
def test_on_a_terminal():
    """Fitted to it, and without a control that is not the program's own."""
    for cols, profile in ((80, "xterm"), (40, "xterm"), (40, "silent")):
        with Place() as place:
            with Repl([SANDPIPER, "--doctor"], cols=cols, rows=60,
                      profile=profile, env=place.env(None, key=None), dir=place.dir) as s:
                assert s.wait_exit(TIMEOUT) == 0
                text = s.text()
                assert GOOD in text, text
                # No word is broken by the terminal itself.
                assert "interpreter: ready" in text, text
                assert widest(s.screen) < cols, text
                check_clean(s.transcript)


@tap.timeout(120)
def test_colours_can_be_switched_off():
    with Place() as place:
        with Repl([SANDPIPER, "--doctor"], profile="xterm", dir=place.dir,
                  env=place.env(None, {"NO_COLOR": "1"}, key=None)) as s:
            assert s.wait_exit(TIMEOUT) == 0
            check_clean(s.transcript, colours=False)


# ---- levels ----------------------------------------------------------------

REDUCED = ("--isolation", "reduced")


def need_landlock():
    if landlock_abi() < 6:
        tap.skip("Landlock ABI %d is below 6" % landlock_abi())


@tap.timeout(120)
def test_memory_is_bounded_by_what_was_seen():
    """There is a group, or systemd's own reason why there is none."""
    with Place() as place:
        report = examine(place, expect=True)
        report.check("isolation", "ok", "^full$")
        report.check("memory", "ok", r"by a cgroup that systemd has made|"
                     r"every 200 ms; no cgroup: (there is no systemd manager|"
                     r"systemd |busctl |the limit of )")


@tap.timeout(120)
def test_reduced():
    """What bubblewrap needs is not looked at, and not missed."""
    need_landlock()
    with Place() as place:
        place.config("sandbox:\n  bwrap: /nonexistent/bwrap\n")
        places = [()] + [where for where in (NO_USERNS, MASKED) if can(where)]
        for where in places:
            report = examine(place, where, REDUCED, expect=True)
            report.check("isolation", "ok", "^reduced: Landlock")
            report.check("Landlock", "ok", r"ABI \d")
            report.check("warden", "ok", "/sandpiper-warden$")
            report.check("sandbox", "ok", "by the warden")
            report.check("interpreter", "ok", "a cell ran in it")
            for topic in ("bubblewrap", "user namespaces", "/proc",
                          "AppArmor"):
                assert topic not in report.findings, report.text


@tap.timeout(120)
def test_reduced_without_landlock():
    """Nothing is tried then, at no other level either."""
    with Place() as place:
        report = examine(place, NO_LANDLOCK, REDUCED, expect=False)
        report.check("Landlock", "FAIL", "needs Landlock ABI 6",
                     "fix: use Linux 6.12")
        report.check("sandbox", "-", "not tried")
        assert report.failures() == ["Landlock"], report.text
        assert "interpreter" not in report.findings, report.text


@tap.timeout(120)
def test_reduced_without_the_warden():
    """The program alone, without its other parts."""
    need_landlock()
    with Place() as place:
        alone = shutil.copy(SANDPIPER, place.work)
        report = examine(place, args=REDUCED, binary=alone)
        if report.findings["warden"][0] == "ok":
            tap.skip("it is installed on this system")
        report.check("warden", "FAIL", "", "fix: install the program")
        report.check("sandbox", "-", "not tried")
        assert report.failures() == ["warden"], report.text


@tap.timeout(120)
def test_without_proc():
    """Where it cannot be mounted, and where it only is not wanted."""
    with Place() as place:
        for where, what in ((MASKED, "covers /proc/fs"), ((), "")):
            if not can(where):
                continue
            report = examine(place, where,
                             ("--isolation", "full-without-proc"), expect=True)
            report.check("isolation", "ok", "^full-without-proc$")
            report.check("/proc", "warn", what, "cells run without /proc")
            report.check("sandbox", "ok", "every argument but --proc")
            report.check("interpreter", "ok", "a cell ran in it")


# ---- bad places ------------------------------------------------------------

@tap.timeout(120)
def test_no_user_namespaces():
    need(NO_USERNS)
    with Place() as place:
        report = examine(place, NO_USERNS, expect=False)
        report.check("user namespaces", "FAIL", "max_user_namespaces is 0",
                     "fix: .*user.max_user_namespaces")
        report.check("sandbox", "FAIL", "could not be made",
                     "as said of user namespaces above")


@tap.timeout(120)
def test_masked_proc():
    need(MASKED)
    with Place() as place:
        report = examine(place, MASKED, expect=False)
        report.check("/proc", "FAIL", "covers /proc/fs",
                     "fix: .*--isolation=full-without-proc")


@tap.timeout(120)
def test_no_bwrap():
    need(HIDDEN)
    with Place() as place:
        report = examine(place, HIDDEN, expect=False)
        report.check("bubblewrap", "FAIL", "is not installed",
                     "fix: install the package bubblewrap")
        report.check("sandbox", "-", "not tried")
        # The rest is looked at all the same.
        report.check("Python", "ok")
        report.check("workspace", "ok")


@tap.timeout(120)
def test_chroot():
    need(CHROOT)
    with Place() as place:
        report = examine(place, CHROOT, expect=False)
        report.check("user namespaces", "FAIL", "",
                     "why: within a chroot.*\nfix: .*systemd-nspawn")


@tap.timeout(120)
def test_root_that_cannot_become_another():
    need(ONLY_ROOT)
    if os.getuid() != 0:
        tap.skip("that root is an ordinary user")
    with Place() as place:
        report = examine(place, ONLY_ROOT, expect=False)
        report.check("identity", "FAIL", "cannot be given up",
                     "fix: .*sandbox.drop_uid")
        assert report.failures() == ["identity"], report.text
        # Nothing is run as root, not even for its version.
        assert report.findings["bubblewrap"][1] == BWRAP, report.text


@tap.timeout(120)
def test_set_uid_bwrap():
    """Nothing of it is run, not even for its version."""
    with Place() as place:
        path = place.file("bwrap")
        shutil.copy(BWRAP, path)
        os.chmod(path, 0o4755)
        place.config("sandbox:\n  bwrap: %s\n" % path)
        report = examine(place, expect=False)
        report.check("bubblewrap", "FAIL", "set-uid", "fix: .*chmod u-s")
        assert "version 0" not in report.findings["bubblewrap"][1]


@tap.timeout(240)
def test_old_bwrap():
    with Place() as place:
        for version, lacks, good in (
                ("0.6.3", ["disable-userns", "assert-userns-disabled", "size"],
                 False),
                ("0.7.0", ["disable-userns", "assert-userns-disabled"], True),
                ("0.4.1", ["disable-userns", "assert-userns-disabled",
                           "clearenv", "size"], False)):
            path = fake_bwrap(place.work, version=version, lacks=lacks)
            place.config("sandbox:\n  bwrap: %s\n" % path)
            report = examine(place, expect=good)
            report.check("bubblewrap", "warn" if good else "FAIL",
                         "version " + re.escape(version),
                         "0.8.0" if good else "fix: .*0.7.0 or newer")
            report.check("sandbox", "ok" if good else "FAIL")


@tap.timeout(120)
def test_apparmor():
    for says in ("loopback: Failed RTM_NEWADDR: Operation not permitted",
                 "setting up uid map: Permission denied"):
        with Place() as place:
            path = fake_bwrap(place.work, says=says)
            place.config("sandbox:\n  bwrap: %s\n" % path)
            report = examine(place, expect=False)
            report.check("sandbox", "FAIL", re.escape(says),
                         "fix: .*bwrap-userns-restrict")


@tap.timeout(120)
def test_no_processes_left():
    if os.getuid() == 0:
        tap.skip("root has no limit, and its cells share one")
    if SANITIZED:
        tap.skip("the search for leaks needs a thread")
    with Place() as place:
        report = examine(place, NO_PROCESSES, expect=False)
        report.check("processes", "FAIL", "of 1$", "fix: .*ulimit -u")


@tap.timeout(120)
def test_bwrap_that_is_none():
    with Place() as place:
        place.config("sandbox:\n  bwrap: /usr/bin/true\n")
        report = examine(place, expect=False)
        report.check("bubblewrap", "FAIL", "^/usr/bin/true, which is not "
                     "bubblewrap$", "says: true .*\nfix: .*sandbox.bwrap")
        report.check("sandbox", "-", "not tried")
        assert report.failures() == ["bubblewrap"], report.text


@tap.timeout(120)
def test_few_open_files():
    """None at all, no numbers as high as are needed, and not enough."""
    if SANITIZED:
        tap.skip("the sanitizers need some themselves")
    with Place() as place:
        for limit in (20, 40, 66):
            report = examine(place, ["prlimit", "--nofile=%d" % limit],
                             expect=False)
            report.check("open files", "FAIL", "may have %d at" % limit,
                         "fix: raise the limit: ulimit -n 1024")
            report.check("sandbox", "FAIL", "could not be made",
                         "as said of open files above")
            assert report.failures() == ["open files", "sandbox"], report.text


@tap.timeout(120)
def test_hostile_bwrap():
    """What it says is shown without its controls, and bounded."""
    with Place() as place:
        path = fake_bwrap(place.work, says="\\033]0;title\\007\\033[31mred "
                          "\\342\\200\\256 " + "x" * 5000)
        place.config("sandbox:\n  bwrap: %s\n" % path)
        report = examine(place, expect=False)
        assert "red" in report.text and "\u202e" not in report.text
        assert len(report.text) < 6000, len(report.text)


@tap.timeout(120)
def test_wrong_python():
    with Place() as place:
        script = place.file("python", "#!/bin/sh\n")
        os.chmod(script, 0o755)
        for path, topic, what in (
                ("/nonexistent/python", "Python", "is not there"),
                ("python3", "Python", "no absolute path"),
                (script, "Python", "a script"),
                ("/usr/bin/true", "interpreter", "does not run")):
            place.config("sandbox:\n  python: %s\n" % path)
            report = examine(place, expect=False)
            report.check(topic, "FAIL", "sandbox.python: " + path + ".*" + what,
                         "fix: ")


# ---- what to do, by distribution -------------------------------------------

SYSTEMS = (
    ("ID=debian\nVERSION_ID=12\n", "apt install bubblewrap"),
    ("ID=ubuntu\nVERSION_ID=24.04\n", "apt install bubblewrap"),
    ("ID=fedora\nVERSION_ID=42\n", "dnf install bubblewrap"),
    ("ID=rocky\nID_LIKE=\"rhel\"\nVERSION_ID=9.4\n", "dnf install bubblewrap"),
    ("ID=opensuse-leap\nVERSION_ID=15.6\n", "zypper install bubblewrap"),
    ("ID=arch\n", "pacman -S bubblewrap"),
    ("ID=alpine\nVERSION_ID=3.20\n", "apk add bubblewrap"),
    ("ID=other\n", "fix: install the package bubblewrap$"),
)


@tap.timeout(240)
def test_fix_is_for_the_distribution():
    need(HIDDEN)
    with Place() as place:
        for text, expect in SYSTEMS:
            prefix = IN_USERNS + os_release(place, text) + HIDDEN[
                len(IN_USERNS):]
            report = examine(place, prefix, expect=False)
            found = report.findings["bubblewrap"][2]
            assert re.search(expect, found, re.M), (text, report.text)
            # In the start that fails, too.
            done = run_piped(
                prefix + [SANDPIPER, "--replay-model",
                          write_replay(place.work, ["print(1)"], "Done."),
                          "-c", "go"], timeout=TIMEOUT, dir=place.dir)
            assert done.status == STATUS, done
            assert re.search(expect, done.stderr.decode(), re.M), done


@tap.timeout(120)
def test_hostile_os_release():
    need(HIDDEN)
    with Place() as place:
        prefix = IN_USERNS + os_release(
            place, b"ID=\"\x1b]0;x\x07\nPRETTY_NAME=\"a\x1b[31mb\xff\xe2\x80"
            b"\xae\\\"c\nVERSION_ID=-99999999999999999999\n" + b"A=" * 20000)
        report = examine(place, prefix, expect=True)
        report.check("system", "ok", '^a.*b.*"c')
        assert "\u202e" not in report.text


# ---- the command -----------------------------------------------------------

@tap.timeout(120)
def test_command_leaves_the_interpreter_alone():
    with Place() as place:
        replay = write_replay(place.work, (["x = 41"], "Kept."),
                              (["print('x is', x + 1)"], "There."))
        with place.repl(None, "--replay-model", replay) as s:
            s.at_prompt()
            s.ask("keep it")
            s.ask(":doctor", TIMEOUT)
            s.has(GOOD)
            s.ask("still there?")
            s.has("x is 42")
            s.has_not("variables")


@tap.timeout(120)
def test_command_is_stopped():
    """Ctrl-C while a bubblewrap is looked at that says nothing for ever."""
    with Place() as place:
        path = fake_bwrap(place.work, hangs=True)
        place.config("sandbox:\n  bwrap: %s\n" % path)
        with place.repl(None) as s:
            s.at_prompt()
            s.type_line(":doctor")
            s.shows("looking at the sandbox")
            s.send(b"\x03")
            s.at_prompt()
            s.has(":doctor was stopped")
            s.ask(":files")


@tap.timeout(120)
def test_command_in_scripts():
    with Place() as place:
        done = place.script(None, stdin=":doctor\n:help\n", key=None)
        assert done.status == 0, done
        assert GOOD.encode() in done.stdout, done
        assert b"list the commands" in done.stdout, done
        # A script does not go on without cells.
        place.config("sandbox:\n  bwrap: /nonexistent/bwrap\n")
        done = place.script(None, stdin=":doctor\n:help\n", key=None)
        assert done.status == STATUS, done
        assert done.stdout.count(BAD.encode()) == 1, done
        assert b"list the commands" not in done.stdout, done
        assert b"error: " not in done.stderr, done


@tap.timeout(120)
def test_interrupt():
    """Ctrl-C, or SIGTERM: status as a shell has it, and nothing is left."""
    with Place() as place:
        path = fake_bwrap(place.work, hangs=True)
        place.config("sandbox:\n  bwrap: %s\n" % path)
        for stop, status in ((lambda s: s.send(b"\x03"), 130),
                             (lambda s: s.signal(signal.SIGTERM), 143)):
            with Repl([SANDPIPER, "--doctor"], profile="xterm",
                      env=place.env(None, key=None), dir=place.dir) as s:
                s.shows("looking at the sandbox")
                stop(s)
                assert s.wait_exit(TIMEOUT) == status


if __name__ == "__main__":
    tap.main(globals())
