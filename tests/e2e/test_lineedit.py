#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line editor and the keyboard on a pseudo-terminal."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
import tap  # noqa: E402
from pty_session import Failure, PtySession  # noqa: E402

DRIVER = os.environ.get("LINEEDIT_DRIVER") or os.path.join(
    os.environ.get("abs_top_builddir", os.path.join(HERE, "..", "..")),
    "tests", "helpers", "lineedit_driver")

PASTE = b"\x1b[200~"
PASTED = b"\x1b[201~"
DA1 = b"\x1b[?62;4;22c"
# What terminals answer; the title report has a CR in it.
REPLIES = [b"\x1bP>|foot(1.13.1)\x1b\\", b"\x1b]11;rgb:ffff/ffff/ffff\x07",
           b"\x1b_Gi=31;OK\x1b\\", b"\x1b[?1;0;1024S", b"\x1b[6;15;7t",
           b"\x1b[I", b"\x1b]lrm -rf /\r\x1b\\", DA1]


class Driver(PtySession):
    """The driver, and what it reports."""

    def __init__(self, profile="mute", argv=None, **kw):
        super().__init__(argv or [DRIVER, "results"], profile=profile, **kw)

    def start(self, prompt="> "):
        self.expect(prompt.encode())
        return self

    def event(self, timeout=None):
        """The next event, as (name, value)."""
        match = self.expect(re.compile(rb"\[([A-Z]+) (\d+)\]\r?\n"), timeout)
        with open(os.path.join(self.cwd, "results"), "rb") as f:
            line = f.read().split(b"\n")[int(match[2]) - 1]
        name, _, rest = line.decode().partition(" ")
        return name, json.loads(rest) if name == "LINE" else rest

    def line(self, timeout=None):
        name, value = self.event(timeout)
        assert name == "LINE", (name, value)
        return value

    def type(self, data):
        """Types, then Enter; the line that came of it."""
        self.send(data)
        self.settle()
        self.send("\r")
        return self.line()

    def settle(self, ms=120):
        """Lets the time pass that ends a paste, while output is read."""
        try:
            self._pump(lambda: False, ms / 1000, "")
        except Failure:
            if self._eof:
                raise


def with_inputrc(text, **kw):
    with tempfile.NamedTemporaryFile("w", suffix=".inputrc",
                                     delete=False) as f:
        f.write(text)
    os.chmod(f.name, 0o644)
    try:
        env = dict(kw.pop("env", {}), INPUTRC=f.name)
        session = Driver(env=env, **kw)
        session.start()
        return session
    finally:
        os.unlink(f.name)


# ---- keys -----------------------------------------------------------------

def test_keys_of_readline():
    rows = [
        ("plain", b"hello", "hello"),
        ("utf-8", "zürich 東京".encode(), "zürich 東京"),
        ("start and end", b"bc\x01a\x05d", "abcd"),
        ("arrows", b"ac\x1b[Db\x1b[C!", "abc!"),
        ("application arrows", b"ac\x1bODb", "abc"),
        ("backspace", b"abx\x7fc", "abc"),
        ("delete", b"abxc\x1b[D\x1b[D\x1b[3~", "abc"),
        ("undo", b"abc def\x17\x1f", "abc def"),
        ("kill and yank", b"one two\x17\x01\x19 ", "two one "),
        ("argument", b"\x1b3x", "xxx"),
        ("meta word", b"one two\x1bbX", "one Xtwo"),
        ("rxvt meta arrow", b"a\x1b\x1b[Zb", "ab"),
        ("unbound sequence", b"a\x1b[1;9Qb\x1b[57399~c", "abc"),
        ("linux console key", b"a\x1b[[Ab", "ab"),
        ("meta enter", b"one\x1b\rtwo", "one\ntwo"),
        ("escape before a wide letter", b"a\x1b" + "é".encode(), "aé"),
        ("ctrl-x before a wide letter", b"a\x18" + "é".encode(), "aé"),
        ("broken utf-8", b"a\xffb\xc3c\xed\xa0\x80d", "abcd"),
        ("bidi", "a\u202eb\u2066c\x9bd".encode(), "abcd"),
        ("quoted interrupt", b"a\x16\x03b", "a\x03b"),
        ("quoted enter", b"a\x16\rb", "a\nb"),
        ("key after a quoted one", b"a\x16\x01\x01b", "ba\x01"),
    ]
    with Driver().start() as s:
        for name, keys, expected in rows:
            got = s.type(keys)
            assert got == expected, (name, got)
            s.expect(b"> ")


def test_search_in_history():
    with Driver(env={"DRIVER_HISTORY": "hist"}).start() as s:
        for line in ("alpha one", "beta two"):
            assert s.type(line) == line
            s.expect(b"> ")
        s.send(b"\x12alp")
        s.expect_screen("alpha one")
        assert s.type(b"\x05!") == "alpha one!"
        s.expect(b"> ")
        assert s.type(b"\x1b[A\x1b[A") == "beta two"
        s.expect(b"> ")
        s.send(b"\x12zzz")
        s.settle()
        s.send(b"\x03")
        assert s.event() == ("INTERRUPT", "0")
        s.expect(b"> ")
        assert s.type("next") == "next"


def test_quoted_escape():
    with Driver().start() as s:
        s.send(b"a\x16\x1b")
        s.settle()
        assert s.type("b") == "a\x1bb"


def test_escape_alone_waits_in_emacs_mode():
    with Driver().start() as s:
        s.send(b"one two\x1b")
        s.settle(200)
        assert s.type(b"bX") == "one Xtwo"


def test_interrupt_behind_escape():
    with Driver().start() as s:
        s.send(b"abc\x1b")
        s.settle()
        s.send(b"\x03")
        assert s.event() == ("INTERRUPT", "0")


def test_vi_mode():
    with with_inputrc("set editing-mode vi\nset show-mode-in-prompt on\n") \
            as s:
        s.send(b"one two\x1b")
        s.expect_screen("(cmd)", 5)
        s.send(b"bcwTWO\x1b")
        s.expect_screen(lambda screen: "(cmd)> one TWO" in screen.text(), 5)
        s.send(b"0x")
        s.send(b"\r")
        assert s.line() == "ne TWO"
        s.expect(b"> ")
        # Typed too quickly for the time of ESC.
        assert s.type(b"abc\x1bhX") == "bc"
        s.expect(b"> ")
        s.send(b"ab\x1b")
        s.settle()
        s.send(b"fx")
        s.send(b"A!\r")
        assert s.line() == "ab!"


def test_end_of_file():
    with Driver().start() as s:
        s.send(b"ab\x01\x04\x04")
        s.settle()
        s.send(b"\x04")
        assert s.event() == ("EOF", "")
        assert s.wait_exit() == 0


@tap.timeout(60)
def test_many_fast_characters_submit_nothing():
    with Driver().start() as s:
        s.send(b"x" * 30000)
        assert s.type("") == "x" * 30000
        s.expect(b"> ")


def test_stdin_is_not_touched():
    with Driver(argv=["sh", "-c", "echo piped | { %s results; cat; }"
                      % DRIVER]).start() as s:
        assert s.type("typed") == "typed"
        s.expect(b"> ")
        s.send(b"\x04")
        s.event()
        s.expect(b"piped")
        assert s.wait_exit() == 0


# ---- replies --------------------------------------------------------------

@tap.timeout(60)
def test_replies_are_swallowed():
    modes = [("emacs", ""), ("vi", "set editing-mode vi\n")]
    for name, inputrc in modes:
        with with_inputrc(inputrc, env={"DRIVER_PROBE": "300"}) as s:
            s.send(b"ab" + b"".join(REPLIES[:-1]))
            # Cut everywhere.
            for reply in REPLIES:
                for cut in range(1, len(reply)):
                    s.send(reply[:cut])
                    s.send(reply[cut:])
            assert s.event()[0] == "CAPS", name
            s.send(b"".join(REPLIES) + b"cd")
            assert s.type(b"ef") == "abcdef", name


def test_late_replies():
    with Driver(env={"DRIVER_PROBE": "50"}).start() as s:
        s.send("ab")
        assert s.event() == ("CAPS", "0 0")
        s.settle()
        for reply in REPLIES:
            s.send(reply)
            s.settle(60)
            s.send(b"x")
        assert s.type(b"") == "ab" + "x" * len(REPLIES)


def test_probe_answered():
    with Driver(profile="vt340", env={"DRIVER_PROBE": "5000"}) as s:
        assert s.event() == ("CAPS", "1 1")
        assert s.type(b"ok") == "ok"
    with Driver(profile="silent", env={"DRIVER_PROBE": "5000"}) as s:
        assert s.event() == ("CAPS", "0 0")


# ---- pastes ---------------------------------------------------------------

def test_pastes():
    rows = [
        ("two rows", b"one\rtwo", "one\ntwo"),
        ("crlf", b"one\r\ntwo\r\n", "one\ntwo\n"),
        ("controls", b"a\x03b\x1ac\x04\x1b[Ad\x00\x7f", "abc[Ad"),
        ("tab", b"a\tb", "a\tb"),
        ("bad text", b"a\xff\xc2\x9bb" + "\u202ec".encode(), "abc"),
        ("end inside", b"a" + PASTED + b"b\r", "ab\n"),
        ("end inside, control inside", b"a" + PASTED + b"b\x0f\x03", "ab"),
        ("start inside", b"a" + PASTE + b"b", "a[200~b"),
    ]
    with Driver().start() as s:
        for name, text, expected in rows:
            got = s.type(PASTE + text + PASTED)
            assert got == expected, (name, got)
            s.expect(b"> ")


def test_paste_byte_by_byte():
    with Driver().start() as s:
        for c in PASTE + "zü\r\nx".encode() + PASTED:
            s.send(bytes([c]))
        assert s.type(b"") == "zü\nx"


def test_paste_is_one_undo():
    with Driver().start() as s:
        s.send(b"ab" + PASTE + b"one\rtwo" + PASTED)
        s.settle()
        s.send(b"c\x1f\x1f")
        assert s.type(b"") == "ab"


def test_paste_then_enter_of_a_tool():
    with Driver().start() as s:
        s.send(PASTE + b"one\rtwo" + PASTED + b"\r")
        assert s.line() == "one\ntwo"


def test_paste_without_end():
    with Driver().start() as s:
        s.send(PASTE + b"one\rtwo")
        s.expect(b"warning: the end of the paste did not come", 10)
        # Still the paste, not keys.
        s.send(b"\rthree\r" + PASTED)
        assert s.type(b"") == "one\ntwo\nthree\n"


def test_paste_in_half_way_states():
    rows = [
        ("search", b"\x12", b"zz\rz", b"\x07", ""),
        ("argument", b"\x1b5", b"abc", b"", "abc"),
        ("ctrl-x", b"\x18", b"abc", b"", "abc"),
        ("quoted", b"\x16", "éab".encode(), b"", "éab"),
    ]
    with Driver().start() as s:
        for name, before, text, after, expected in rows:
            s.send(before)
            s.settle(60)
            s.send(PASTE + text + PASTED)
            s.settle()
            assert s.type(after) == expected, name
            s.expect(b"> ")


@tap.timeout(90)
def test_large_paste():
    with Driver().start() as s:
        text = b"0123456789 abcdefghij\r" * 48000
        before = len(s.transcript)
        s.send(PASTE + text + PASTED)
        s.settle(500)
        got = s.type(b"")
        assert got == text.decode().replace("\r", "\n")
        # The one row that is shown, not the whole.
        assert len(s.transcript) - before < 200000


# ---- the screen -----------------------------------------------------------

def test_taller_than_the_screen():
    with Driver(cols=20, rows=6).start() as s:
        s.send(b"start")
        s.expect_screen("> start")
        s.send(b"x" * 200)
        s.expect_screen(lambda screen: "<" in screen.text())
        s.send(b"\x01")
        s.expect_screen("> startx")
        s.send(b"\x0b")
        s.expect_screen(lambda screen: screen.text().rstrip().endswith(">"))
        assert s.type(b"end") == "end"


def test_up_and_down_in_several_rows():
    with Driver(env={"DRIVER_HISTORY": "hist"}).start() as s:
        assert s.type("old") == "old"
        s.expect(b"> ")
        s.send(PASTE + b"abcdef\rxy\rlmnopq" + PASTED)
        s.settle()
        s.send(b"\x1b[A1\x1b[A2")
        # Column 6 is behind the short row, and remembered from it only while
        # the arrows go on.
        s.send(b"\x1b[B\x1b[B!")
        assert s.type(b"") == "abc2def\nxy1\nlmno!pq"
        s.expect(b"> ")
        s.send(PASTE + b"abcdef\rxy\rlmnopq" + PASTED)
        s.settle()
        assert s.type(b"\x1b[A\x1b[A!") == "abcdef!\nxy\nlmnopq"
        s.expect(b"> ")
        assert s.type(b"\x1b[A\x1bOA" + b"\x1b[A" * 5) == "old"


@tap.timeout(120)
def test_printing_above():
    texts = [b"", b"short", b"x" * 15, b"x" * 18, b"x" * 55,
             "東京".encode() * 9, b"one\ntwo"]
    states = [b"", b"\x01", b"\x12sh", b"\x1b5", b"\x18", b"\x16"]
    for cols in (10, 20, 40):
        for text in texts:
            with Driver(cols=cols, rows=40).start() as s:
                if b"\n" in text:
                    s.send(PASTE + text + PASTED)
                else:
                    s.send(text)
                s.settle(130)
                for state in states:
                    s.send(state)
                    s.settle(20)
                    # Once before: in a prompt of several rows readline itself
                    # leaves a character behind.
                    s.signal(signal.SIGUSR2)
                    s.expect(b"second row")
                    s.settle(20)
                    lines = s.screen.lines()
                    place = s.screen.row, s.screen.col
                    first = next(i for i in range(len(lines) - 1, -1, -1)
                                 if lines[i].startswith((">", "(")))
                    s.signal(signal.SIGUSR2)
                    s.expect(re.compile(rb"above \d+\r?\nsecond row\r?\n"))
                    s.settle(20)
                    after = s.screen.lines()
                    moved = s.screen.row - place[0]
                    assert moved == 2, (cols, text, state, place)
                    assert s.screen.col == place[1], (cols, text, state)
                    assert after[first + 2:] == lines[first:-2], \
                        (cols, text, state, lines, after)
                    assert after[first].startswith("above"), after
                    s.send(b"\x07")
                    s.settle(20)


def test_status_line_only_without_prompt():
    with Driver(env={"DRIVER_STATUS": "working hard"}).start() as s:
        assert s.type("turn") == "turn"
        s.expect_screen("working hard")
        s.send("typed")
        s.signal(signal.SIGUSR1)
        s.expect_screen("> typed")
        assert "working" not in s.screen.text()


@tap.timeout(60)
def test_narrow_terminals():
    for cols in range(1, 11):
        with Driver(cols=cols, rows=2) as s:
            s.send("hello world")
            s.settle()
            assert s.type(b"\x01\x1b[C!") == "h!ello world", cols


def test_resize():
    with Driver(cols=40, rows=10).start() as s:
        s.send("word " * 10)
        s.settle()
        s.resize(60, 10)
        s.settle(150)
        s.resize(30, 10)
        s.settle(150)
        s.send("end")
        s.expect_screen("end")
        assert s.type(b"") == "word " * 10 + "end"


class Tmux:
    """A terminal that re-wraps, seen from outside."""

    def __init__(self, top):
        self.base = ["tmux", "-S", os.path.join(top, "socket"), "-f",
                     "/dev/null"]
        self.top = top

    def run(self, *args):
        return subprocess.run(
            self.base + list(args), stdout=subprocess.PIPE, check=True,
            timeout=10, env={"PATH": os.environ["PATH"], "HOME": self.top,
                             "LANG": "C.UTF-8", "INPUTRC": "/dev/null",
                             "DRIVER_PROBE": "20000"}).stdout.decode()

    def shown(self):
        return [row for row in self.run("capture-pane", "-S", "-",
                                        "-p").split("\n") if row]

    def wait(self, what):
        deadline = time.monotonic() + 10 * tap.FACTOR
        while not what(self.shown()):
            if time.monotonic() > deadline:
                raise Failure("\n".join(self.shown()))

    def resize(self, cols, rows):
        """Until the program can know it: tmux breaks its lines anew first."""
        self.run("resize-window", "-x", str(cols), "-y", str(rows))
        with open(self.run("display", "-p", "#{pane_tty}").strip()) as tty:
            deadline = time.monotonic() + 10 * tap.FACTOR
            while os.get_terminal_size(tty.fileno()) != (cols, rows):
                if time.monotonic() > deadline:
                    raise Failure("tmux told no new size")
                select.select([], [], [], 0.01)


@tap.timeout(60)
def test_resize_in_tmux():
    if not shutil.which("tmux"):
        tap.skip("tmux is not installed")
    with tempfile.TemporaryDirectory() as top:
        tmux = Tmux(top)
        tmux.run("new-session", "-d", "-x", "60", "-y", "14", "cd %s && %s r"
                 % (top, DRIVER))
        try:
            tmux.wait(lambda rows: rows and rows[0].startswith("[CAPS 1]"))
            tmux.run("send-keys", "-l", "kept")
            tmux.run("send-keys", "Enter")
            tmux.wait(lambda rows: "[LINE 2]" in rows)
            text = "the quick brown fox jumps over the lazy dog " * 2 + "end"
            tmux.run("send-keys", "-l", text)
            tmux.wait(lambda rows: rows[-1].endswith("end"))
            for cols, rows in ((40, 14), (75, 14), (30, 14), (120, 14),
                               (25, 9), (60, 14)):
                tmux.resize(cols, rows)
                line = "> " + text
                expected = ["[CAPS 1]", "> kept", "[LINE 2]"] + [
                    line[i:i + cols].rstrip()
                    for i in range(0, len(line), cols)]
                tmux.wait(lambda shown: shown == expected)
                # Also when everything has settled.
                tmux.run("send-keys", "x")
                tmux.wait(lambda shown: shown[-1].endswith("x"))
                tmux.run("send-keys", "BSpace")
                tmux.wait(lambda shown: shown == expected)
        finally:
            tmux.run("kill-server")


def test_dumb_terminal():
    for env in ({}, {"TERM": None}):
        with Driver(profile="silent", env=env).start() as s:
            assert s.type("hello\x01\x05!") == "hello!"
            s.expect(b"> ")
            # Fast rows are a paste, although nothing says so.
            s.send("one\rtwo\rthree")
            s.settle(200)
            assert s.type("") == "one\ntwo\nthree"
            s.expect(b"> ")
            s.send("abc")
            s.settle(20)
            s.signal(signal.SIGUSR2)
            s.expect(b"second row")
            assert s.type("d") == "abcd"
            s.expect(b"> ")
            s.send("x" * 200)
            s.settle()
            s.resize(40, 10)
            s.settle(150)
            assert s.type("y") == "x" * 200 + "y"
            s.expect(b"> ")
            s.send("\x04")
            s.event()
            assert s.wait_exit() == 0
            assert b"\x1b" not in s.transcript


def test_no_colour():
    with Driver(env={"NO_COLOR": "1"}).start() as s:
        assert s.type("x") == "x"
        s.expect(b"> ")
        s.send("\x04")
        s.event()
        assert s.wait_exit() == 0
        assert not re.search(rb"\x1b\[[0-9;]*m", s.transcript)


# ---- completion -----------------------------------------------------------

def test_completion():
    words = "sales.csv|salt.csv|dir/|:load|na\x1bme|" + "wo\u202erd"
    with Driver(env={"DRIVER_WORDS": words}).start() as s:
        rows = [("single", b"x :lo\t!", "x :load !"),
                ("directory", b"d\tx", "dir/x"),
                ("prefix", b"s\te\t", "sales.csv "),
                ("none", b"zz\t!", "zz!"),
                ("insert all", b"sa\x1b*", "sales.csv salt.csv ")]
        for name, keys, expected in rows:
            assert s.type(keys) == expected, name
            s.expect(b"> ")
        s.send(b"sal\t")
        s.expect_screen(lambda screen: re.search(
            r"^sales\.csv +salt\.csv\n> sal$", screen.text(), re.M))
        assert s.type(b"") == "sal"
        s.expect(b"> ")
        s.send(b"\t")
        s.expect(re.compile(rb"dir/ +na\\eme +sales\.csv +salt\.csv\r?\n"))
        s.settle()
        # Of names with controls no byte goes through.
        assert b"\x1bme" not in s.transcript
        assert "\u202e".encode() not in s.transcript


def test_completion_of_thousands():
    words = "|".join("name%04d" % i for i in range(3000))
    with Driver(rows=10, cols=60, env={"DRIVER_WORDS": words}).start() as s:
        s.send(b"n\t")
        s.expect(re.compile("… \\d+ more".encode()), 5)
        s.expect_screen("> name")
        lines = s.screen.lines()
        assert lines[-2].startswith("…") or lines[8].startswith("…"), lines
        assert all(len(line) < 60 for line in lines)
        assert s.type(b"0001\t") == "name0001 "


# ---- interrupt, turns -----------------------------------------------------

def test_interrupt_in_all_states():
    states = [b"", b"abc", b"\x12", b"\x12a", b"\x1b5", b"\x18", b"\x1b",
              b"x" * 200]
    with Driver().start() as s:
        for state in states:
            s.send(state)
            s.settle(60)
            s.send(b"\x03")
            name, empty = s.event()
            assert name == "INTERRUPT", state
            assert (empty == "1") == (state in (b"", b"\x1b5", b"\x18",
                                                b"\x1b")), (state, empty)
            s.expect(b"> ")
            assert s.type("next") == "next", state
            s.expect(b"> ")


def test_interrupt_keeps_the_order():
    with Driver().start() as s:
        s.send(b"abc\x03def")
        assert s.event() == ("INTERRUPT", "0")
        s.expect(b"> ")
        assert s.type(b"") == "def"


def test_typed_ahead():
    with Driver().start() as s:
        assert s.type("turn") == "turn"
        start = len(s.transcript)
        s.send(b"ab\x7f\rcd\r\x0f\r")
        s.settle()
        assert s.transcript[start:] == b"", s.transcript[start:]
        s.signal(signal.SIGUSR1)
        s.expect_screen("cd")
        assert s.type(b"!") == "a\ncd!"


def test_cancel_drops_what_was_typed_before():
    with Driver().start() as s:
        assert s.type("turn") == "turn"
        s.send(b"before\r\x03after")
        assert s.event() == ("CANCEL", "")
        assert s.type(b"") == "after"


def test_typed_ahead_quickly():
    with Driver().start() as s:
        assert s.type("turn") == "turn"
        s.send(b"y" * 10000)
        s.signal(signal.SIGUSR1)
        assert s.type(b"") == "y" * 10000


# ---- inputrc --------------------------------------------------------------

def test_inputrc():
    text = ("$if sandpiper\n\"\\C-t\": \"mac\\C-bX\"\n$endif\n"
            "\"\\e[A\": beginning-of-line\n"
            "set enable-bracketed-paste on\nset bell-style audible\n"
            "\"\\C-o\": \"one\\ntwo\\n\"\n")
    with with_inputrc(text) as s:
        assert s.type(b"\x14") == "maXc"
        s.expect(b"> ")
        got = s.type(b"bc\x1b[Aa")
        assert got == "abc", got
        s.expect(b"> ")
        s.send(b"\x0f")
        assert s.line() == "one"
        s.expect(b"> ")
        assert s.type("go") in ("go", "twogo")
        assert b"\x07" not in s.transcript


# ---- the end --------------------------------------------------------------

@tap.timeout(60)
def test_restored_after_each_end():
    ends = [(b"quit", None, 0), (b"exit", None, 3),
            (b"abort", None, -signal.SIGABRT),
            (b"segv", None, -signal.SIGSEGV),
            (b"", signal.SIGTERM, 128 + signal.SIGTERM),
            (b"", signal.SIGHUP, 128 + signal.SIGHUP),
            (b"", signal.SIGQUIT, 128 + signal.SIGQUIT)]
    for line, number, status in ends:
        # The shell holds the terminal, so that its modes can be seen.
        argv = ["sh", "-c", "stty -g; %s results; echo status $?; stty -g; "
                "read x" % DRIVER]
        with Driver(argv=argv) as s:
            before = s.expect(re.compile(rb"([0-9a-f:]{40,})\r\n"))[1]
            s.expect(b"\x1b[?2004h")
            s.start()
            lflag = s.termios()[3]
            assert not lflag & (termios.ICANON | termios.ECHO)
            assert lflag & termios.NOFLSH
            if number:
                os.kill(next(pid for pid in s.descendants()
                             if pid != s.pid), number)
            else:
                s.send(line + b"\r")
            s.expect(b"\x1b[?2004l", 20)
            shown = int(s.expect(re.compile(rb"status (\d+)"), 20)[1])
            if status < 0 and "ASAN_OPTIONS" not in os.environ:
                assert shown == 128 - status, (line, shown)
            elif status >= 0:
                assert shown == status, (line, shown)
            after = s.expect(re.compile(rb"([0-9a-f:]{40,})\r\n"))[1]
            assert before == after, (line, number)


def test_terminal_goes_away():
    s = Driver()
    try:
        s.start()
        pid = s.pid
        os.close(s.master)
        s.master = os.open("/dev/null", os.O_RDWR)
        # SIGHUP or the end of input, whichever is first.
        s._eof = True
        assert s.wait_exit(10) in (129, 128 + signal.SIGHUP), pid
    finally:
        s.close()


def test_stop_and_continue():
    # A shell that leaves the modes as it finds them.
    argv = ["dash", "-i"]
    if not shutil.which("dash"):
        tap.skip("dash is not installed")
    with Driver(argv=argv, env={"PS1": "$ "}) as s:
        s.expect(b"$ ")
        s.send("%s results\r" % DRIVER)
        s.expect(b"\x1b[?2004h")
        s.start()
        s.send("hello")
        s.settle()
        s.send(b"\x1a")
        s.expect(b"Stopped", 10)
        s.expect(b"$ ")
        assert s.termios()[3] & termios.NOFLSH == 0
        assert s.termios()[3] & termios.ICANON
        assert s.transcript.rstrip().rfind(b"\x1b[?2004l") > \
            s.transcript.rfind(b"\x1b[?2004h")
        s.send("fg\r")
        s.expect(b"\x1b[?2004h")
        s.expect(b"hello", 10)
        assert not s.termios()[3] & termios.ICANON
        assert s.type(b"!") == "hello!"
        s.expect(b"> ")
        # Also in a turn.
        assert s.type("turn") == "turn"
        s.send("typed\x1a")
        s.expect(b"Stopped", 10)
        s.expect(b"$ ")
        s.send("fg\r")
        s.expect(b"\x1b[?2004h", 10)
        s.send(b"\x03")
        assert s.event() == ("CANCEL", "")
        s.expect(b"> ")
        # By somebody else.
        s.send("again")
        s.settle()
        os.kill(next(pid for pid in s.descendants() if pid != s.pid),
                signal.SIGTSTP)
        s.expect(b"Stopped", 10)
        s.expect(b"$ ")
        assert s.termios()[3] & termios.ICANON
        s.send("fg\r")
        s.expect(b"again", 10)
        assert s.type(b"!") == "again!"


def test_stop_in_an_orphaned_group():
    with Driver().start() as s:
        s.send("abc\x1a")
        s.settle()
        assert s.type(b"d") == "abcd"


@tap.timeout(60)
def test_interrupt_loses_no_output():
    with Driver().start() as s:
        for _ in range(200):
            s.signal(signal.SIGUSR2)
            s.send(b"\x03")
            assert s.event() == ("INTERRUPT", "1")
        s.settle()
        numbers = [int(n) for n in re.findall(rb"above (\d+)", s.transcript)]
        assert numbers == list(range(1, len(numbers) + 1))


if __name__ == "__main__":
    tap.main(globals())
