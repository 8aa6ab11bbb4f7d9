# SPDX-License-Identifier: GPL-3.0-or-later
"""The test tools themselves: tap, screen, pty_session."""

import io
import json
import os
import re
import signal
import sys
import threading
import time
from contextlib import redirect_stdout

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
import tap  # noqa: E402
from pty_session import Failure, PtySession, run_piped  # noqa: E402
from screen import Screen  # noqa: E402

def raises(kind, function, *args, **kw):
    try:
        function(*args, **kw)
    except kind as exc:
        return exc
    raise AssertionError("no %s" % kind.__name__)


# ---- tap ------------------------------------------------------------------

def _tap(namespace, *argv):
    out = io.StringIO()
    with redirect_stdout(out):
        status = tap.run(namespace, list(argv))
    return status, out.getvalue()


def _good():
    pass


def _bad():
    assert "\x1b" == "no"


def _skipped():
    tap.skip("not\ntoday")


def test_tap_report():
    status, out = _tap({"test_a": _good, "test_b": _bad, "test_c": _skipped,
                        "other": _bad})
    assert status == 1
    assert out.startswith("1..3\nok 1 - test_a\nnot ok 2 - test_b\n# "), out
    assert "\nok 3 - test_c # SKIP not today\n" in out, out
    assert all(line.startswith(("1..", "ok", "not ok", "# "))
               for line in out.splitlines()), out
    assert _tap({"test_a": _good, "test_c": _skipped})[0] == 0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_tap_selection():
    names = {"test_a": _good, "test_ab": _bad, "test_c": _bad}
    assert _tap(names, "test_a")[1] == "1..1\nok 1 - test_a\n"
    assert "1..1\nnot ok 1 - test_c" in _tap(names, "_c")[1]
    status, out = _tap(names, "nothing")
    assert status == 1 and out.startswith("Bail out!")
    assert _tap(names, "--list") == (0, "test_a\ntest_ab\ntest_c\n")


def test_tap_timeout():
    @tap.timeout(0.05)
    def stuck():
        try:
            threading.Event().wait(20)
        except Exception:
            pass
    outer = signal.getitimer(signal.ITIMER_REAL)
    handler = signal.getsignal(signal.SIGALRM)
    start = time.monotonic()
    status, out = _tap({"test_stuck": stuck})
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, outer[0], outer[1])
    assert status == 1 and "timed out after" in out, out
    assert time.monotonic() - start < 10 * tap.FACTOR


# ---- screen ---------------------------------------------------------------

SCREENS = [
    ("plain", b"ab\r\ncd", ["ab", "cd", ""], (1, 2)),
    ("line feed keeps column", b"ab\ncd", ["ab", "  cd", ""], (1, 4)),
    ("wrap is deferred", b"12345678", ["12345678", "", ""], (0, 7)),
    ("cr after full line", b"12345678\r\nx", ["12345678", "x", ""], (1, 1)),
    ("wrap", b"123456789", ["12345678", "9", ""], (1, 1)),
    ("scroll", b"a\r\nb\r\nc\r\n4", ["b", "c", "4"], (2, 1)),
    ("move", b"\x1b[2;3Hx\x1b[Ay\x1b[3Gz", ["  zy", "  x", ""], (0, 3)),
    ("erase to end", b"abcd\x1b[2D\x1b[K", ["ab", "", ""], (0, 2)),
    ("erase line", b"abcd\x1b[2K", ["", "", ""], (0, 4)),
    ("erase below", b"a\r\nb\r\nc\x1b[2;1H\x1b[J", ["a", "", ""], (1, 0)),
    ("clear", b"a\r\nb\x1b[H\x1b[2Jx", ["x", "", ""], (0, 1)),
    ("sgr", b"\x1b[1;38;5;9mred\x1b[0m", ["red", "", ""], (0, 3)),
    ("tab", b"\tx", ["       x", "", ""], (0, 7)),
    ("backspace", b"abc\b\bX", ["aXc", "", ""], (0, 2)),
    ("utf-8", "é€".encode(), ["é€", "", ""], (0, 2)),
    ("combining", "e\u0301x".encode(), ["e\u0301x", "", ""], (0, 2)),
    ("wide", "日本x".encode(), ["日本x", "", ""], (0, 5)),
    ("wide wraps", "1234567日".encode(), ["1234567", "日", ""], (1, 2)),
    ("half of wide overwritten", "日\x1b[2Gx".encode(), [" x", "", ""],
     (0, 2)),
    ("other half of wide overwritten", "日b\x1b[1Gx".encode(),
     ["x b", "", ""], (0, 1)),
    ("insert and delete", b"abcd\x1b[1G\x1b[2P\x1b[@", [" cd", "", ""],
     (0, 0)),
    ("osc", b"\x1b]0;title\x07a\x1b]8;;u\x1b\\b", ["ab", "", ""], (0, 2)),
    ("region", b"1\r\n2\r\n3\x1b[1;2r\x1b[2;1H\n", ["2", "", "3"], (1, 0)),
    ("reverse index", b"a\r\nb\x1b[H\x1bM", ["", "a", "b"], (0, 0)),
    ("save", b"ab\x1b7\r\n\n\x1b8c", ["abc", "", ""], (0, 3)),
    ("alternate", b"a\x1b[?1049h\x1b[2Jzz\x1b[?1049lb", ["ab", "", ""],
     (0, 2)),
]


def test_screen_cases():
    for name, data, lines, cursor in SCREENS:
        for step in (len(data), 1):
            screen = Screen(8, 3)
            for i in range(0, len(data), step):
                screen.feed(data[i:i + step])
            assert screen.lines() == lines, (name, step, screen.lines())
            assert screen.cursor == cursor, (name, step, screen.cursor)
            assert screen.unexpected == [], (name, screen.unexpected)


def test_screen_history_and_resize():
    screen = Screen(8, 2)
    screen.feed(b"a\r\nb\r\nc\r\n4")
    assert screen.all_lines() == ["a", "b", "c", "4"]
    screen.resize(4, 3)
    assert screen.lines() == ["c", "4", ""] and screen.cursor == (1, 1)
    screen.resize(4, 1)
    assert screen.all_text() == "a\nb\nc\n4"


def test_screen_sixel():
    data = b'\x1bP0;1;0q"1;1;30;45#0;2;0;0;0#0!30~-!30~\x1b\\'
    screen = Screen(20, 10, cell=(10, 20))
    screen.feed(b"ab" + data + b"x")
    image = screen.images[0]
    assert (image.row, image.col, image.width, image.height) == (0, 2, 30, 45)
    assert screen.cursor == (2, 3) and screen.lines()[0] == "ab"
    below = Screen(20, 10, cell=(10, 20), sixel_below=True)
    below.feed(b"\x1bPq#1!7~$#2!3?!9A-~\x1b\\")
    assert (below.images[0].width, below.images[0].height) == (12, 12)
    assert below.cursor == (1, 0)


def test_screen_reports_the_unexpected():
    screen = Screen()
    screen.feed(b"\x01\x1b[5z\xc2\x9b1m\x1b_G1\x1b\\\x1bP$qm\x1b\\")
    assert screen.unexpected == ["control 01", "CSI 5z", "C1 9b"]
    assert screen.strings == [("APC", b"G1"), ("DCS", b"$qm")]


# ---- pty ------------------------------------------------------------------

def _python(code, **kw):
    return PtySession([sys.executable, "-Iuc", code], **kw)


def test_pty_environment():
    os.environ["LEAKED_SECRET"] = "1"
    os.dup2(1, 50, inheritable=True)
    try:
        with _python("import os, sys, json\nprint(json.dumps([dict("
                     "os.environ), os.getcwd(), os.isatty(0), "
                     "os.listdir('/proc/self/fd')]))\n", cols=2000) as s:
            match = s.expect(re.compile(rb"\[\{.*\]\r"))
            env, cwd, tty, fds = json.loads(match.group())
            assert s.wait_exit() == 0
    finally:
        del os.environ["LEAKED_SECRET"]
        os.close(50)
    assert "LEAKED_SECRET" not in env
    assert (env["TERM"], env["LANG"], env["TZ"], env["INPUTRC"]) == \
        ("dumb", "C.UTF-8", "UTC", "/dev/null")
    assert env["HOME"] == s.home and env["XDG_CONFIG_HOME"].startswith(s.dir)
    assert cwd == s.cwd and tty and not os.path.exists(s.dir)
    assert sorted(fds) == ["0", "1", "2", "3"], fds


def test_pty_dialogue():
    with _python("name = input('who? '); print('hello', name)") as s:
        s.expect("who? ")
        sent = s.send("Ada\r")
        s.expect(re.compile(rb"hello (\w+)"))
        assert 0 <= s.match_time - sent < 5
        assert s.seen(b"who?") and s.seen(re.compile(rb"hello Ada"))
        s.expect_screen("who? Ada\nhello Ada")
        assert s.wait_exit() == 0


def test_pty_failures_show_the_output():
    with _python("print('\\x1b[1mone'); input()") as s:
        message = str(raises(Failure, s.expect, "two", 0.2))
        assert "expected 'two': not within 0.2 s" in message, message
        assert "\\x1b[1mone" in message and "|one" in message, message
        assert "\x1b" not in message
        s.send("\r")
        message = str(raises(Failure, s.expect, "two", 20))
        assert "the terminal was closed" in message, message


def test_pty_expect_absent():
    with _python("print('one two end one'); input()") as s:
        s.expect_absent("three", "end")
        s.expect_absent("two", "one")
    with _python("print('one two end'); input()") as s:
        raises(Failure, s.expect_absent, "two", "end")


def test_pty_control_characters_and_status():
    code = ("import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
            "print('go')\nsignal.pause()")
    with _python(code) as s:
        s.expect("go")
        s.send(b"\x03")
        assert s.wait_exit() == -signal.SIGINT
    with _python("raise SystemExit(7)") as s:
        assert s.wait_exit() == 7
    with _python(code) as s:
        s.expect("go")
        assert "not within" in str(raises(Failure, s.wait_exit, 0.1))


def test_pty_resize():
    code = ("import os, signal\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})\n"
            "print(*os.get_terminal_size())\n"
            "signal.sigwait({signal.SIGWINCH})\n"
            "print(*os.get_terminal_size())\n")
    with _python(code, cols=90, rows=30) as s:
        s.expect("90 30")
        s.resize(61, 19)
        s.expect("61 19")
        assert (s.screen.cols, s.screen.rows) == (61, 19)


def _answers(profile, query):
    code = ("import os, termios, tty, sys\n"
            "tty.setraw(0); os.write(1, %r + b'\\x1b[6n')\n"
            "data = b''\n"
            "while not data.endswith(b'R'): data += os.read(0, 100)\n"
            "print(repr(data))\n" % query)
    with _python(code, profile=profile, cols=100, rows=20) as s:
        match = s.expect(re.compile(rb"b'([^']*)'"))
        return match[1].decode(), s


def test_pty_profiles():
    bundle = b"\x1b[>0q\x1b[?1;1;0S\x1b[?2;4;0S\x1b[16t\x1b[c"
    out, s = _answers("vt340", bundle)
    assert out == (r"\x1bP>|XTerm(379)\x1b\\\x1b[?1;0;1024S"
                   r"\x1b[?2;0;1000;1000S\x1b[?63;1;2;4;6;9;15;16;22;28c"
                   r"\x1b[1;1R"), out
    assert [name for name, _ in s.queries] == [
        "version", "graphics", "graphics", "size", "da1", "cursor"]
    out, _ = _answers("xterm", b"abc\x1b[c")
    assert out == r"\x1b[?64;1;2;6;9;15;16;17;18;21;22;28c\x1b[1;4R", out
    out, _ = _answers("kitty", b"\x1b_Gi=31,s=1,v=1,a=q,t=d;AAAA\x1b\\\x1b[c")
    assert out == r"\x1b_Gi=31;OK\x1b\\\x1b[?62;c\x1b[1;1R", out
    out, _ = _answers("foot", b"\x1b[14t")
    assert out == r"\x1b[4;400;1000t\x1b[1;1R", out
    with _python("import os; os.write(1, b'\\x1b[c\\x1b[6n'); input()",
                 profile="mute") as s:
        s.expect("\x1b[6n")
        s.answer(b"late\r")
        assert s.wait_exit() == 0
        assert [name for name, _ in s.queries] == ["da1", "cursor"]


def test_pty_cleanup_reaches_every_descendant():
    code = ("import os, subprocess, sys, time\n"
            "code = 'import os, time; os.setsid(); print(os.getpid(), "
            "flush=True); time.sleep(60)'\n"
            "a = subprocess.Popen([sys.executable, '-Iuc', code])\n"
            "if os.fork() == 0:\n"
            "    if os.fork() == 0:\n"
            "        os.setsid(); print(os.getpid()); time.sleep(60)\n"
            "    os._exit(0)\n"
            "time.sleep(60)\n")
    with _python(code) as s:
        number = re.compile(rb"(\d+)\r\n")
        pids = {int(s.expect(number)[1]), int(s.expect(number)[1])}
        assert pids < set(s.descendants()), s.descendants()
        s.signal(signal.SIGKILL)
        assert s.wait_exit() == -signal.SIGKILL
        assert set(s.descendants()) == pids, (s.descendants(), pids)
    for pid in pids:
        raises(ProcessLookupError, os.kill, pid, 0)


def test_pty_drops_privileges():
    if os.getuid() != 0:
        tap.skip("needs root")
    code = ("import os; open(os.path.expanduser('~/x'), 'w'); print(os."
            "getresuid(), os.getresgid(), os.getgroups())\n"
            "open('/dev/tty', 'w')\nopen(os.ttyname(0), 'w')\nprint('end')")
    # The system's Python: the one that runs this may be closed to others.
    with PtySession(["/usr/bin/python3", "-Iuc", code], uid=12345) as s:
        s.expect("(12345, 12345, 12345) (12345, 12345, 12345) []\r\nend")
        assert s.wait_exit() == 0


def test_pty_program_missing():
    assert "No such file" in str(raises(OSError, PtySession, ["/no/prog"]))


def test_piped():
    done = run_piped([sys.executable, "-Ic", "import sys; sys.stdout.write("
                      "sys.stdin.read()[::-1]); sys.exit('bad')"], b"abc")
    assert (done.status, done.stdout, done.stderr) == (1, b"cba", b"bad\n")
    raises(Failure, run_piped, [sys.executable, "-Ic",
                                "import time; time.sleep(60)"], timeout=0.5)


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has no part in it")
    tap.main(globals())
