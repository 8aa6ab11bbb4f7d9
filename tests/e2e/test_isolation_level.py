#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option --isolation and the key sandbox.isolation: a level is named, and
no other is ever taken in its place."""

import ctypes
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import replay  # noqa: E402
import tap  # noqa: E402
from pty_session import run_piped  # noqa: E402
from replay import program  # noqa: E402

STATUS = 7
CODE = ("import os\nprint('product', 6 * 7 * 1000003)\n"
        "print('workspace', os.path.exists('/workspace'))\n"
        "print('home', os.access('/root', os.R_OK))")
TRACE = b"product 42000126"

HELPERS = os.path.join(HERE, "..", "helpers")
NO_USERNS = [sys.executable, os.path.join(HELPERS, "in_userns.py"),
             "--no-userns"]
NO_LANDLOCK = [sys.executable, os.path.join(HELPERS, "without_landlock.py")]
LANDLOCK_CREATE_RULESET = 444


def landlock_abi():
    return ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)


class Place(replay.Place):
    def __init__(self, config=None):
        super().__init__(CODE, config)

    def ask(self, *options, prefix=()):
        return run_piped(list(prefix) + [program()] + self.options +
                         list(options) + ["-c", "go"], timeout=40)


def check_ran(done, workspace):
    text = done.stderr
    assert done.status == 0 and TRACE in text, done
    assert b"workspace %s" % str(workspace).encode() in text, text
    assert b"home False" in text, text


def check_refused(done, *words):
    assert done.status == STATUS, done
    assert TRACE not in done.stdout + done.stderr, done
    for word in words:
        assert word in done.stderr, (word, done.stderr)


def need_landlock():
    if landlock_abi() < 6:
        tap.skip("Landlock ABI %d is below 6" % landlock_abi())


@tap.timeout(120)
def test_reduced_when_it_is_named():
    """On the command line or in the file; bubblewrap is not needed."""
    need_landlock()
    with Place() as p:
        check_ran(p.ask("--isolation", "reduced"), False)
        check_ran(p.ask(), True)
    with Place("sandbox:\n  isolation: reduced\n"
               "  bwrap: /nonexistent/bwrap\n") as p:
        check_ran(p.ask(), False)
        # The command line has the last word.
        check_refused(p.ask("--isolation=full"), b"/nonexistent/bwrap")


@tap.timeout(120)
def test_reduced_without_user_namespaces():
    need_landlock()
    if subprocess.run(NO_USERNS + ["true"], capture_output=True).returncode:
        tap.skip("max_user_namespaces cannot be set here")
    with Place() as p:
        check_refused(p.ask(prefix=NO_USERNS), b"fix: ")
        check_ran(p.ask("--isolation", "reduced", prefix=NO_USERNS), False)


@tap.timeout(60)
def test_reduced_without_landlock():
    """Refused, and nothing else is tried."""
    with Place("sandbox:\n  isolation: reduced\n") as p:
        check_refused(p.ask(prefix=NO_LANDLOCK), b"needs Landlock ABI 6",
                      b"this system has none", b"fix: use Linux 6.12")


@tap.timeout(60)
def test_full_without_proc():
    with Place() as p:
        done = p.ask("--isolation", "full-without-proc")
        check_ran(done, True)
        assert done.stderr.count(b"without /proc") == 1, done


@tap.timeout(60)
def test_levels_that_there_are_not():
    for word in ("none", "FULL", "reduced,full"):
        with Place() as p:
            done = p.ask("--isolation", word)
            assert done.status == 2 and TRACE not in done.stderr, (word, done)
            assert b"full|full-without-proc|reduced" in done.stderr, done
        with Place("sandbox:\n  isolation: '%s'\n" % word) as p:
            done = p.ask()
            assert done.status not in (0, 1) and TRACE not in done.stderr, done


if __name__ == "__main__":
    tap.main(globals())
