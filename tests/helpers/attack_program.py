# SPDX-License-Identifier: GPL-3.0-or-later
"""For test programs of which each attacks one warm sandbox from inside.

    @attack(4)
    def test_something():
        found = inside('report("x", outcome(open, "/etc/shadow"))')
        all_are(found, "ENOENT")

    main(globals())

host() is the HostCheck of the program; CANARY is in its secret.txt and in the
environment of the client. test_reduced.py runs those
tests at the level reduced whose attacks must be refused there too.
"""

import hashlib
import os
import secrets
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tap  # noqa: E402
from host_check import HostCheck  # noqa: E402
from sandbox_session import cell_uid, level, open_session  # noqa: E402

CANARY = "CANARY-" + secrets.token_hex(12)
DIGEST = hashlib.sha256(CANARY.encode()).hexdigest()
DATA = "region,revenue\nnorth,1\nsouth,2\n"

# Hundreds of calls, each in a process of its own.
TIMEOUT_S = 110

_shared = {}


def host():
    if "host" not in _shared:
        _shared["host"] = HostCheck(cell_uid(), secret=CANARY, data=DATA)
    return _shared["host"]


def sandbox():
    if "sb" not in _shared:
        _shared["sb"] = open_session(
            "put=%s/sales.csv" % host().dir, "terminal=1", host=host(),
            timeout=TIMEOUT_S,
            env={"SANDPIPER_CANARY": CANARY, "ANTHROPIC_API_KEY": CANARY})
        event = _shared["sb"].opened()
        assert event["end"] == "done", event
    return _shared["sb"]


def inside(code, **more):
    """What the attack reports; nothing has changed outside. LEVEL is known to
    it."""
    return sandbox().attack("LEVEL = %r\n" % level() + code, **more)


def all_are(found, *allowed):
    wrong = {k: v for k, v in found.items() if v not in allowed}
    assert not wrong, "not refused: %s" % wrong


def tests_of(namespace):
    """The tests of a program, by their names."""
    tests = {name: f for name, f in namespace.items()
             if name.startswith("test_") and callable(f)}
    for function in tests.values():
        tap.timeout(max(TIMEOUT_S, getattr(function, "tap_timeout", 0)))(
            function)
    return tests


def finish():
    """Ends the sandbox, and looks what is left."""
    try:
        if "sb" in _shared:
            _shared.pop("sb").close()
    finally:
        if "host" in _shared:
            _shared.pop("host").close()


def test_nothing_is_left_outside():
    """The last one: processes, room on disks, the kernel's log."""
    finish()


def main(namespace):
    tests = tests_of(namespace)
    last = test_nothing_is_left_outside
    tests[last.__name__] = last
    try:
        status = tap.run(tests, sys.argv[1:])
    finally:
        finish()
    sys.exit(status)
