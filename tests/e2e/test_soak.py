#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The soak of tests/soak for a short time, with a seed that stays."""

import io
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "soak")]

import messages  # noqa: E402
import soak  # noqa: E402
import tap  # noqa: E402
from claude_faults import Sent  # noqa: E402

SECONDS = 12
SEED = 2


def made(words=(), cells=(), **fields):
    sent = Sent(1, None)
    sent.words = ["t1-%d." % i for i in range(words)] if words else []
    sent.cells = list(cells)
    sent.__dict__.update(fields)
    return sent


def is_found(sents, shown, stopped=False):
    try:
        soak.check_turn(sents, shown, stopped)
    except AssertionError:
        return True
    return False


def test_it_finds_what_it_looks_for():
    """Rows of what a terminal may show, and whether that is a finding."""
    whole = made(3, answer=True)
    void = made(3, whole=False, is_void=True)
    cell = made(1, ["1-1"], runs=True)
    cases = [
        ("whole", [whole], "t1-0. t1-1. t1-2.", False),
        ("broken at the margin", [whole], "t1-0. t1-\n1. t1-2.", False),
        ("lost in the middle", [whole], "t1-0. t1-2.", True),
        ("lost at the end", [whole], "t1-0. t1-1.", True),
        ("shown twice", [whole], "t1-0. t1-1. t1-1. t1-2.", True),
        ("out of order", [whole], "t1-1. t1-0. t1-2.", True),
        ("void and said", [void], "t1-0. t1\nerror: it broke off", False),
        ("void and not said", [void, whole], "t1-0.\n", True),
        ("no answer and no word", [void], "", True),
        ("ran", [cell, whole], "t1-0. t1-1. t1-2.\n│ ran-1-1.\n", True),
        ("did not run", [cell], "t1-0.\nerror: no", True),
        ("ran twice", [cell], "t1-0.\n│ ran-1-1.\n│ ran-1-1.\nerror: no",
         True),
        ("ran once", [cell], "t1-0.\n│ ran-1-1.\nerror: no", False),
        ("ran though it was void", [made(1, ["1-1"], whole=False)],
         "│ ran-1-1.\nerror: no", True),
    ]
    for name, sents, shown, wanted in cases:
        if name == "ran":
            # Its result was not sent on.
            whole.request = type("R", (), {"body": {"messages": [
                {"role": "user", "content": "hi"}]}})
        assert is_found(sents, shown) == wanted, name


def test_messages_that_are_known():
    shown = ("error: the service is overloaded (529,\n  request req_1)\n"
             "warning: it is Tuesday\n> error: typed\nplain\n")
    assert messages.lines_of(shown) == [
        "error: the service is overloaded (529, request req_1)",
        "warning: it is Tuesday"]
    assert messages.unknown(shown) == ["warning: it is Tuesday"]


@tap.timeout(SECONDS + 300)
def test_an_analyst():
    out = io.StringIO()
    findings = soak.Analyst(SEED, out=out).run(SECONDS)
    tap.diag(out.getvalue())
    assert findings == 0, "%d findings" % findings


if __name__ == "__main__":
    tap.main(globals())
