#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Without a terminal, or with one that can do nothing, not one escape byte is
written; with NO_COLOR no colour."""

import os
import re
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from pty_session import PtySession, run_piped  # noqa: E402
from replay import program, write_replay  # noqa: E402

SGR = re.compile(rb"\x1b\[[0-9;:]*m")
ESCAPES = re.compile(rb"[\x1b\x9b\x07\x0e\x0f]")

# Everything that has a look of its own: text on both streams, a table, a
# chart, an error, a file, hostile bytes.
CELLS = [
    "import sys\nprint('out text')\nprint('err text', file=sys.stderr)\n"
    "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('T')\n"
    "plt.show()\nopen('/workspace/report.txt', 'w').write('r')",
    "print('\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07 \\x9b5m \\x0e \\x07')\n"
    "import pandas as pd\n"
    "pd.DataFrame({'\\x1b[1mbold': ['\\x1b[2J', '\\x9b1m']})",
    "raise ValueError('\\x1b[31mbad')",
]
ANSWER = "The answer is \x1b[1m42\x1b[0m, **surely**.\n\n| a | b |\n|---|---|\n" \
    "| 1 | 2 |\n\n```\ncode\n```\n"


def folder():
    top = tempfile.mkdtemp(prefix="plain-")
    os.chmod(top, 0o755)
    with open(os.path.join(top, "t.csv"), "w") as f:
        f.write("n,v\na\x1b[31m,1\nb,\n")
    return top


def no_escape(data, what):
    found = ESCAPES.search(data)
    if found:
        raise AssertionError("%s: %r" % (
            what, data[max(0, found.start() - 60):found.end() + 60]))


@tap.timeout(120)
def test_demo_in_a_pipe():
    """TERM says colour and COLORTERM more; there is no terminal."""
    done = run_piped([program(), "--demo"], term="xterm-256color",
                     env={"COLORTERM": "truecolor"}, timeout=100)
    assert done.status == 0, done
    no_escape(done.stdout, "stdout")
    no_escape(done.stderr, "stderr")


@tap.timeout(120)
def test_demo_on_a_dumb_terminal():
    with PtySession([program(), "--demo"], profile="silent", cols=90,
                    rows=30) as s:
        assert s.wait_exit(100) == 0
        assert b"ANTHROPIC_API_KEY" in s.transcript
        no_escape(bytes(s.transcript), "dumb terminal")


@tap.timeout(60)
def test_question_and_hostile_bytes_in_a_pipe():
    top = folder()
    try:
        replay = write_replay(top, CELLS, ANSWER)
        done = run_piped([program(), "--replay-model", replay, "-c", "what?",
                          os.path.join(top, "t.csv")],
                         term="xterm-256color", timeout=50)
        assert done.status == 0, done
        assert b"42" in done.stdout and b"out text" in done.stderr, done
        no_escape(done.stdout, "stdout")
        no_escape(done.stderr, "stderr")
    finally:
        shutil.rmtree(top)


@tap.timeout(60)
def test_lines_in_a_pipe():
    top = folder()
    try:
        replay = write_replay(top, CELLS, ANSWER)
        lines = ":load %s/t.csv\n:files\n:help\nwhat?\n:code 1\n:trace 4\n" \
            ":quit\n" % top
        done = run_piped([program(), "--replay-model", replay],
                         stdin=lines.encode(), term="xterm-256color",
                         timeout=50)
        assert done.status == 0, done
        no_escape(done.stdout, "stdout")
        no_escape(done.stderr, "stderr")
    finally:
        shutil.rmtree(top)


def repl(profile, env=None):
    """A whole session on a terminal; its transcript."""
    top = folder()
    try:
        replay = write_replay(top, CELLS, ANSWER)
        with PtySession([program(), "--replay-model", replay,
                         os.path.join(top, "t.csv")], profile=profile,
                        env=env, cols=90, rows=40) as s:
            s.expect("missing", 30)
            s.send("what?\r")
            s.expect("surely", 40)
            # The end of the turn: an Enter typed ahead submits nothing.
            s.expect("4 cells", 10)
            s.send(":help\r")
            s.expect(":quit")
            s.send(":trace 4\r")
            s.expect("ValueError")
            s.send(":nonsense\r")
            s.expect(re.compile(rb":nonsense[^>]*\n[^>]*> "))
            s.send("\x04")
            assert s.wait_exit(10) == 0
            return bytes(s.transcript), s.screen
    finally:
        shutil.rmtree(top)


@tap.timeout(90)
def test_session_on_a_dumb_terminal():
    data, _ = repl("silent")
    no_escape(data, "dumb terminal")


@tap.timeout(90)
def test_no_color():
    data, screen = repl("vt340", {"NO_COLOR": "1"})
    found = SGR.search(data)
    assert not found, data[max(0, found.start() - 80):found.end() + 80]
    # Colour is not all that a terminal can do.
    assert screen.images, "the chart is drawn all the same"


@tap.timeout(90)
def test_colour_without_no_color():
    """The control of the test above; an empty NO_COLOR counts as none."""
    data, screen = repl("vt340", {"NO_COLOR": ""})
    assert SGR.search(data)
    assert screen.images
    assert screen.unexpected == [], screen.unexpected


@tap.timeout(60)
def test_hostile_bytes_on_a_terminal():
    """What the cell and the model wrote as sequences does not arrive as one."""
    data, screen = repl("vt340")
    for bad in (b"\x1b]0;title", b"\x1b[31mred", b"\x1b[2J\x1b", b"\x9b5m",
                b"\x1b[1mbold"):
        assert bad not in data, bad
    assert screen.strings == [] or all(
        b"title" not in text for _, text in screen.strings), screen.strings
    assert screen.unexpected == [], screen.unexpected
    assert screen.bells == 0


if __name__ == "__main__":
    tap.main(globals())
