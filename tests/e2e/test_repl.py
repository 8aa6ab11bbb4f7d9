#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prompt: commands, keys, and that nothing but the program itself speaks
to the terminal."""

import csv
import os
import re
import signal
import subprocess
import sys
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (FACTOR, SALES, SANDPIPER, STEP_S, Place,  # noqa: E402
                     check_clean, check_no_escape, question, run, wait_until)

import tap  # noqa: E402
from claude_server import (ClaudeServer, error, gate, hang, mark,  # noqa: E402
                           reply, text, thinking)
from pty_session import build_env  # noqa: E402


def after_cells(*codes):
    """A script of one question for each code."""
    out = []
    for code in codes:
        out += [reply([run(code)]), reply(["Done."])]
    return out


# ---- the start --------------------------------------------------------------

@tap.timeout(60)
def test_the_greeting():
    with Place() as place, ClaudeServer() as server, \
            place.repl(server, profile="silent") as s:
        s.at_prompt()
        first = s.text().splitlines()[0]
        assert first.startswith("\u00b7 sandpiper "), first
        assert "claude-opus-5-5" in first and "local sandbox" in first, first
        assert "no network" in first, first
        s.has(":help")
        # No command is named that does not exist.
        known = {"load", "files", "code", "save", "trace", "help", "quit"}
        assert set(re.findall(r":([a-z]+)\b", s.text())) <= known, s.text()


@tap.timeout(60)
def test_the_prompt_does_not_wait_for_the_sandbox():
    """Not even when its Python takes forever to start."""
    with Place() as place:
        slow = place.file("slow-python", "#!/bin/sh\nsleep 1000\n")
        os.chmod(slow, 0o755)
        place.config("sandbox:\n  python: %s\n" % slow)
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.ask(":help")
            s.has("leave")
            s.send(b"\x04")
            assert s.wait_exit(10) == 0


@tap.timeout(60)
def test_help_breaks_no_word():
    """However narrow the window is; every command is there."""
    with Place() as place:
        with place.repl(None, cols=100, rows=80) as s:
            s.at_prompt()
            s.ask(":help")
            wide = s.text().partition("> :help")[2].split()
        with place.repl(None, cols=40, rows=120) as s:
            s.at_prompt()
            s.ask(":help")
            narrow = s.text().partition("> :help")[2].split()
            assert narrow == wide, (narrow, wide)


@tap.timeout(60)
def test_files_of_the_command_line():
    with Place() as place:
        place.file("sales.csv")
        place.file("more.csv", "a\n1\n")
        with place.repl(None, "sales.csv", "more.csv", key=None) as s:
            s.shows("sales  4 rows")
            s.shows("more  1 row")
            s.at_prompt()
            s.ask(":files")
            shown = s.text()
            assert re.search(r"^sales +sales\.csv +4 rows × 4 columns, ",
                             shown, re.M), shown
            assert re.search(r"^more +more\.csv +1 rows? × 1 columns?, ",
                             shown, re.M), shown


# ---- commands ---------------------------------------------------------------

@tap.timeout(60)
def test_help_lists_all_commands():
    with Place() as place, place.repl(None, key=None) as s:
        s.at_prompt()
        s.ask(":help")
        for name in ("load FILE [as NAME]", "files", "code N",
                     "save N [PATH]", "trace N", "help", "quit"):
            assert ":%s" % name in s.text(), (name, s.text())
        assert "Ctrl-C" in s.text() and "Ctrl-D" in s.text()


@tap.timeout(60)
def test_an_unknown_command():
    with Place() as place, place.repl(None, key=None) as s:
        s.at_prompt()
        s.ask(":laod x.csv")
        s.has("there is no command ':laod'; the nearest is ':load'")
        s.ask(":xyzzyxyzzy")
        s.has("see :help")
        s.ask(":code")
        s.has("usage: :code N")
        s.ask(":help me")
        s.has("usage: :help")
        s.ask(":code 1")
        s.has("no cell has run yet")
        s.ask(":load 'open")
        s.has("not closed")


@tap.timeout(60)
def test_quit():
    for last in (":quit\r", "  :quit  \r", "\x04"):
        with Place() as place, place.repl(None, key=None) as s:
            s.at_prompt()
            s.send(last)
            assert s.wait_exit(10) == 0
            on = bytes(s.transcript).rfind(b"\x1b[?2004h")
            off = bytes(s.transcript).rfind(b"\x1b[?2004l")
            assert off > on >= 0, "the paste mode is left on"


@tap.timeout(60)
def test_the_terminal_is_given_back():
    for end in (b"\x04", signal.SIGTERM, signal.SIGHUP):
        with Place() as place, place.repl(None, key=None) as s:
            s.at_prompt()
            during = s.termios()
            if isinstance(end, bytes):
                s.send(end)
                assert s.wait_exit(10) == 0
            else:
                s.signal(end)
                assert s.wait_exit(10) == 128 + end, s.status
            after = s.termios()
            assert during[3] != after[3], "the local modes are as in raw mode"
            # Cooked again, with echo.
            assert after[3] & termios.ECHO and after[3] & termios.ICANON
            assert after[0] & termios.ICRNL
            assert not s.descendants(), s.descendants()


@tap.timeout(90)
def test_code_and_trace():
    with Place() as place, ClaudeServer(after_cells(
            "first = 'cell'\n", "1 / 0\n")) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("one")
        s.ask("two")
        s.ask(":code 1")
        assert s.text().count("first = 'cell'") == 2, s.text()
        assert s.text().count("\u2500\u2500 1 python") == 2, s.text()
        s.ask(":trace 2")
        s.has("Traceback")
        s.has("<cell 2>")
        s.ask(":trace 1")
        s.has("cell 1 has no traceback")
        for bad in ("0", "3", "-1", "x", "1x", "99999999999999999999", "1.1"):
            before = s.text().count("error:")
            s.ask(":code %s" % bad)
            assert s.text().count("error:") == before + 1, (bad, s.text())


@tap.timeout(90)
def test_save_a_whole_table():
    code = ("import pandas as pd\n"
            "big = pd.DataFrame({'n': range(5000), 'text': ['a, \"b\"'] * "
            "5000})\nbig\n")
    with Place() as place, ClaudeServer(after_cells(code)) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("make it")
        s.ask(":save 1")
        s.has("saved cell-1.csv")
        path = os.path.join(place.work, "cell-1.csv")
        with open(path, newline="") as data:
            rows = list(csv.reader(data))
        assert len(rows) == 5001, len(rows)
        assert rows[0][-2:] == ["n", "text"], rows[0]
        assert rows[5000][-2:] == ["4999", 'a, "b"'], rows[5000]
        assert os.stat(path).st_mode & 0o777 == 0o600
        # Never over a file that is there.
        s.ask(":save 1")
        s.has("cell-1.csv is there already")
        os.mkdir(os.path.join(place.work, "out dir"))
        s.ask(":save 1 'out dir'")
        assert os.path.exists(os.path.join(place.work, "out dir",
                                           "cell-1.csv"))
        s.ask(":save 1 /nowhere/x.csv")
        s.has("/nowhere/x.csv")
        s.ask(":save 1 named.csv")
        assert os.path.getsize(os.path.join(place.work, "named.csv")) == \
            os.path.getsize(path)
        # What :save does is no cell.
        s.ask(":code 2")
        s.has("cell")
        assert "\u2500\u2500 2 python" not in s.text()


@tap.timeout(120)
def test_a_save_that_is_stopped_leaves_nothing():
    """Neither by Ctrl-C nor by a signal, outside and inside."""
    code = ("import pandas as pd\n"
            "t = pd.DataFrame({c: range(2000000) for c in 'abc'}) / 7\nt\n")
    with Place() as place, ClaudeServer(after_cells(
            code, "import os\nprint(sorted(os.listdir('/workspace')))")
            ) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("make it")
        s.type_line(":save 1 t.csv")
        s.shows("saving \u00b7 1 s")
        assert os.listdir(place.work) == []
        s.send(b"\x03")
        s.shows("saving was stopped")
        s.at_prompt()
        assert os.listdir(place.work) == []
        s.ask("look")
        s.has("'data'")
        s.has_not("sandpiper-save")
        s.type_line(":save 1 t.csv")
        s.shows("saving \u00b7 1 s")
        s.signal(signal.SIGTERM)
        assert s.wait_exit(20) == 128 + signal.SIGTERM
        assert os.listdir(place.work) == []


@tap.timeout(60)
def test_save_whatever_cells_have_named():
    code = ("import pandas as pd, builtins\n"
            "display(pd.DataFrame({'n': [1, 2]}))\n"
            "globals().update((n, None) for n in dir(builtins)\n"
            "                 if n != '__build_class__')\n"
            "__import__ = sandpiper = os = pd = None\n")
    with Place() as place, ClaudeServer(after_cells(code)) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("make it")
        s.ask(":save 1 t.csv")
        s.has("saved t.csv")
        with open(os.path.join(place.work, "t.csv")) as data:
            assert data.read().split() == ["n", "1", "2"]


@tap.timeout(90)
def test_save_a_table_that_has_changed_since():
    """The table of the cell is saved, not what the variable is now."""
    code = ("import pandas as pd\n"
            "t = pd.DataFrame({'n': [1, 2]})\nt\n")
    with Place() as place, ClaudeServer(after_cells(
            code, "t = pd.DataFrame({'n': [9]})\ndel t")) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("make it")
        s.ask("change it")
        s.ask(":save 1 t.csv")
        with open(os.path.join(place.work, "t.csv"), newline="") as data:
            rows = [row[-1] for row in csv.reader(data)]
        assert rows == ["n", "1", "2"], rows


@tap.timeout(90)
def test_save_a_chart():
    code = ("import matplotlib.pyplot as plt\n"
            "plt.plot([1, 2])\nplt.title('Up')\n")
    with Place() as place, ClaudeServer(after_cells(
            code, "print('nothing to keep')")) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("plot", STEP_S * 2)
        s.ask("print")
        s.ask(":save 1 up.png")
        with open(os.path.join(place.work, "up.png"), "rb") as data:
            assert data.read(8) == b"\x89PNG\r\n\x1a\n"
        s.ask(":save 2")
        s.has("cell 2 shows no chart and no table")
        s.ask(":save 1.9")
        s.has("1.9")


@tap.timeout(90)
def test_save_the_second_output():
    code = ("import pandas as pd\n"
            "display(pd.DataFrame({'first': [1]}))\n"
            "pd.DataFrame({'second': [2]})\n")
    with Place() as place, ClaudeServer(after_cells(code)) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("two")
        s.ask(":save 1.2 second.csv")
        with open(os.path.join(place.work, "second.csv")) as data:
            assert "second" in data.read()
        s.ask(":save 1 first.csv")
        with open(os.path.join(place.work, "first.csv")) as data:
            assert "first" in data.read()


# ---- keys -------------------------------------------------------------------

@tap.timeout(60)
def test_control_c_at_the_prompt():
    with Place() as place, place.repl(None, key=None) as s:
        s.at_prompt()
        s.send(b"\x03")
        s.shows("Ctrl-D")
        s.at_prompt()
        s.typed("some words")
        s.send(b"\x03")
        s.at_prompt()
        s.ask(":files")
        s.has_not("some words:files")
        s.has("no file is loaded")


@tap.timeout(60)
def test_control_d_in_a_line_does_not_leave():
    with Place() as place, place.repl(None, key=None) as s:
        s.at_prompt()
        s.typed(":helpx")
        s.send(b"\x02\x04")
        s.send("\r")
        s.shows("list the commands")
        s.at_prompt()


@tap.timeout(60)
def test_completion_of_commands():
    with Place() as place, place.repl(None, key=None) as s:
        s.at_prompt()
        s.send(":he\t")
        s.shows("> :help")
        s.send("\r")
        s.shows("list the commands")
        s.at_prompt()
        # Nothing to complete in a question.
        s.send("he\t")
        s.typed("y")
        assert s.screen.lines()[s.screen.row].rstrip().endswith("> hey"), \
            s.screen.text()


@tap.timeout(60)
def test_completion_of_paths():
    with Place() as place:
        place.file("quarterly report.csv")
        place.file("deep/er/sales.csv")
        place.file(".hidden.csv")
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.send(":load qua\t")
            s.shows('"quarterly report.csv"')
            s.send("\r")
            s.shows("quarterly_report  4 rows")
            s.at_prompt()
            s.send(":load de\t")
            s.shows("> :load deep/")
            s.send("\t")
            s.shows("> :load deep/er/")
            s.send("\t")
            s.shows("> :load deep/er/sales.csv")
            s.send("\r")
            s.shows("sales  4 rows")
            s.at_prompt()
            s.has_not(".hidden")


@tap.timeout(60)
def test_completion_of_what_paths_have_in_common():
    """Also when one of them needs quotes."""
    with Place() as place:
        place.file("quarterly report.csv")
        place.file("quarterly.csv")
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.send(":load qu\t")
            s.shows('> :load "quarterly')
            s.send(".\t")
            s.shows("> :load quarterly.csv")
            s.send("\r")
            s.shows("quarterly  4 rows")


@tap.timeout(60)
def test_completion_shows_choices():
    with Place() as place:
        place.file("alpha-one.csv")
        place.file("alpha-two.csv")
        place.file("alpha-\x1b]0;x\x07\x1b[2J.csv")
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.send(":load al\t\t")
            s.shows("alpha-one.csv")
            s.shows("alpha-two.csv")
            data = bytes(s.transcript).replace(b"\x07", b"")
            check_clean(data)
            assert b"\x1b]" not in s.transcript


@tap.timeout(60)
def test_type_ahead_is_not_submitted():
    with Place() as place, ClaudeServer([
            reply([text("Part one", gate("go"), " and two.")]),
            reply(["Second answer."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("first")
        s.shows("Part one")
        s.send("ahead of time\r")
        server.release("go")
        s.shows("and two.")
        s.shows("> ahead of time")
        # A request would have come before what is typed next is echoed.
        s.typed("!")
        assert len(server.requests) == 1
        s.send("\r")
        s.shows("Second answer.")
        assert "ahead of time" in question(server.requests[1])


@tap.timeout(60)
def test_control_d_in_an_answer_does_not_leave():
    with Place() as place, ClaudeServer([
            reply([text("Part one", gate("go"), " and two.")]),
            reply(["Second answer."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("first")
        s.shows("Part one")
        s.send(b"\x04")
        s.send(b"ab\x04c")
        server.release("go")
        s.shows("> abc")
        s.ask("")
        s.has("Second answer.")
        assert question(server.requests[1]).endswith("abc")
        s.send(b"\x04")
        assert s.wait_exit(20) == 0


@tap.timeout(60)
def test_a_terminal_that_is_not_ours():
    """As in a container without -t: told what to do instead."""
    with Place() as place:
        master, slave = os.openpty()
        child = subprocess.Popen(
            [SANDPIPER], stdin=slave, stdout=slave, stderr=subprocess.PIPE,
            start_new_session=True,
            env=build_env(place.homes, "xterm", place.env(None)))
        try:
            _, err = child.communicate(timeout=STEP_S)
            assert child.returncode == 5, child.returncode
            assert b"error: there is no controlling terminal" in err, err
            assert b"-c QUESTION" in err, err
        finally:
            child.kill()
            child.wait()
            os.close(slave)
            os.close(master)


@tap.timeout(60)
def test_type_ahead_is_not_echoed_into_the_answer():
    with Place() as place, ClaudeServer([
            reply([text("Part one", mark("there"), gate("go"),
                        " and two.")])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("first")
        s.shows("Part one")
        s.send("xyzzy")
        server.release("go")
        s.shows("and two.")
        s.shows("> xyzzy")
        s.has("Part one and two.")


@tap.timeout(60)
def test_a_paste_is_one_line():
    with Place() as place, ClaudeServer([
            reply(["Got it."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.send(b"\x1b[200~first line\rsecond \x1b[31mline\x1b[201~")
        s.shows("second")
        assert not server.requests
        wait_a_tail()
        s.send("\r")
        s.shows("Got it.")
        assert "first line\nsecond " in question(server.requests[0])
        assert "\x1b" not in question(server.requests[0])


def wait_a_tail():
    """Enter within 100 ms of a paste belongs to the paste."""
    deadline = time.monotonic() + 0.3 * FACTOR
    wait_until(lambda: time.monotonic() > deadline, "time stands still")


@tap.timeout(60)
def test_editing():
    with Place() as place, ClaudeServer([
            reply(["Got it."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.send("hello wrld")
        s.send(b"\x1b[D\x1b[D\x1b[D")
        s.send("o")
        s.send(b"\x01")
        s.send("Say \u4e2d: ")
        s.send(b"\x05")
        s.typed("!")
        s.send("\r")
        s.shows("Got it.")
        assert question(server.requests[0]) == "Say \u4e2d: hello world!"


@tap.timeout(60)
def test_an_empty_line_asks_nothing():
    with Place() as place, ClaudeServer() as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.send("\r\r   \r")
        s.ask(":files")
        assert not server.requests


@tap.timeout(60)
def test_a_notice_above_the_line_keeps_the_line():
    """The sandbox cannot start; that is said above what is being typed."""
    with Place() as place:
        place.config("sandbox:\n  bwrap: /nowhere/bwrap\n")
        with place.repl(None, key=None) as s:
            s.expect(b"> ")
            s.send(":hel")
            s.shows("error: ")
            s.shows("/nowhere/bwrap")
            s.shows("> :hel")
            s.send("p\r")
            s.shows("list the commands")


# ---- the screen -------------------------------------------------------------

@tap.timeout(90)
def test_narrow():
    code = ("import pandas as pd\n"
            "pd.DataFrame({'region': ['South', 'East'], "
            "'a_long_name': [1.5, 22222.25], 'c': ['x' * 50] * 2, "
            "'d': [1, 2], 'e': [3, 4]})\n")
    with Place() as place, ClaudeServer(after_cells(code)) as server:
        place.file("sales.csv")
        with place.repl(server, "sales.csv") as s:
            s.shows("4 rows")
            s.at_prompt()
            s.resized(40, 30)
            s.typed("a question that is longer than forty columns are")
            s.send("\r")
            s.shows("Done.")
            s.at_prompt()
            start = bytes(s.transcript).rindex(b"python")
            rows = bytes(s.transcript)[start:].decode().split("\n")
            table = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "",
                            row).rstrip("\r").split("\r")[-1]
                     for row in rows if "\u2502" in row or "\u253c" in row]
            assert table, rows
            assert max(map(len, table)) <= 40, table
            assert "22,222.25" in "".join(table), table
            s.ask(":help")
            s.typed("0123456789" * 6)
            s.resized(100, 30)
            s.send(b"\x03")
            s.at_prompt()


@tap.timeout(60)
def test_a_table_fits_the_width():
    code = ("import pandas as pd\n"
            "pd.DataFrame({'c%d' % i: range(1000000, 1000100) "
            "for i in range(40)})\n")
    for cols in (40, 60, 80, 132):
        with Place() as place, ClaudeServer(after_cells(code)) as server, \
                place.repl(server, cols=cols, profile="silent") as s:
            s.at_prompt()
            s.ask("wide")
            shown = s.text()
            rows = [r for r in shown.splitlines() if "\u2502" in r]
            assert rows and max(map(len, rows)) <= cols, shown
            # A number is whole or left out.
            for row in rows[1:]:
                for value in re.findall(r"[\d,]+", row):
                    assert len(value) in (1, 2, 9), (cols, row)
            assert "40 columns" in shown and "100 rows" in shown, shown


HOSTILE = ("\x1b]0;pwned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b5m\u202egnp.exe"
           "\u2066x\u200f \x08\x08\x0b\x0c\x7f\x1bP1$r0m\x1b\\ \x1b[?1049h "
           "\x1b[6n \x1b[c end")


@tap.timeout(120)
def test_hostile_text_from_everywhere():
    code = ("import os, sys, pandas as pd\n"
            "bad = %r\n"
            "print(bad)\n"
            "print(bad, file=sys.stderr)\n"
            "sys.stdout.flush()\n"
            "os.write(1, bad.encode('latin-1', 'replace') + b'\\n')\n"
            "os.write(1, bytes(range(256)) + b'\\n')\n"
            "display(pd.DataFrame({bad: [bad, 1]}))\n"
            "os.makedirs('/workspace/output', exist_ok=True)\n"
            "open('/workspace/output/' + bad.replace('/', '') + '.txt', 'w')"
            ".write('x')\n"
            "raise ValueError(bad)\n" % HOSTILE)
    chart = ("import matplotlib.pyplot as plt\n"
             "plt.plot([1, 2])\nplt.title('\\x1b]0;x\\x07\\u202etitle')\n")
    with Place() as place, ClaudeServer([
            reply([thinking(HOSTILE), text(HOSTILE), run(code)]),
            reply([run(chart)]),
            reply([text(HOSTILE + "\n> fake\n\u00b7 fake note\nerror: fake\n"
                        "\u2502 fake\n\u2500\u2500 9 python\n")]),
            # The second time without the thinking of earlier replies.
            error(400, message=HOSTILE), error(400)]) as server:
        name = "h\x1b[2J\x07\u202e.csv"
        place.file(name, "a,%s\n1,%s\n" % (HOSTILE.replace("\n", ""),
                                           HOSTILE))
        with place.repl(server, name) as s:
            s.shows("1 row")
            s.at_prompt()
            s.ask("show all", STEP_S * 2)
            s.ask("again")
            s.shows("error: ")
            s.ask(":files")
            s.ask(":code 1")
            s.ask(":trace 1")
            s.send(b":load nowhere\xe2\x80\xae\x1b[31m\r")
            s.shows("nowhere: there is no such file")
            s.at_prompt()
            data = bytes(s.transcript)
            check_clean(data)
            for bad in (b"\x1b]", b"\x1b[2J", b"\x1b[?1049h", b"\x1bP",
                        b"\x1b[6n", b"\x07"):
                assert bad not in data, bad
            shown = s.text()
            # The program's voice is its own.
            for line in shown.splitlines():
                assert not re.match("(> fake|\u00b7 fake|error: fake|\u2502 "
                                    "fake|\u2500\u2500 9 python)", line), line
            assert " > fake" in shown and " error: fake" in shown, shown


@tap.timeout(120)
def test_a_dumb_terminal_gets_no_escape():
    code = ("import pandas as pd\nprint('\\x1b[31mred')\n"
            "display(pd.DataFrame({'a': [1]}))\n1 / 0\n")
    with Place() as place, ClaudeServer([
            reply([thinking("Hm."), text("I run it."), run(code)]),
            reply([text("Stopped", mark("there"), hang())])]) as server:
        place.file("sales.csv")
        with place.repl(server, "sales.csv", profile="silent") as s:
            s.shows("4 rows")
            s.at_prompt()
            s.type_line("go")
            s.shows("Stopped")
            s.send(b"\x03")
            s.at_prompt()
            s.ask(":help")
            s.typed("some text")
            s.send(b"\x01\x05\x08\x15")
            s.ask(":files")
            s.send(":he\t")
            s.shows("> :help")
            wait_a_tail()
            s.send("\r")
            s.at_prompt()
            s.send(b"\x04")
            assert s.wait_exit(10) == 0
            check_no_escape(s.transcript)


@tap.timeout(60)
def test_no_color():
    code = "print('\\x1b[31mred\\x1b[0m')\n1 / 0\n"
    for env, config in (({"NO_COLOR": "1"}, ""),
                        ({}, "display:\n  color: never\n")):
        with Place() as place, ClaudeServer(after_cells(code)) as server:
            place.config(config)
            with place.repl(server, env=env) as s:
                s.at_prompt()
                s.ask("go")
                found = re.findall(rb"\x1b\[[0-9;]*m", s.transcript)
                assert not [f for f in found if f not in
                            (b"\x1b[m", b"\x1b[0m")], found


@tap.timeout(60)
def test_the_terminal_goes_away():
    with Place() as place, ClaudeServer([
            reply([run("while True: pass")])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("spin")
        s.shows("while True: pass")
        s.signal(signal.SIGHUP)
        assert s.wait_exit(10) == 129, s.status
        wait_until(lambda: not s.descendants(), "processes are left")


@tap.timeout(60)
def test_a_kill_leaves_no_process():
    with Place() as place, ClaudeServer([
            reply([run("print('on')\nwhile True: pass")])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("spin")
        s.shows("\u2502 on")
        assert len(s.descendants()) > 1
        s.signal(signal.SIGKILL)
        s.wait_exit(5)
        wait_until(lambda: not s.descendants(), "processes are left")


@tap.timeout(60)
def test_without_a_key():
    with Place() as place:
        place.file("sales.csv", SALES)
        with place.repl(None, "sales.csv", key=None) as s:
            s.shows("sales  4 rows")
            s.at_prompt()
            s.ask("how many?")
            lines = s.text().split("how many?", 1)[1].splitlines()
            lines = [line for line in lines if line.strip()][:-1]
            said = " ".join(lines)
            assert len([x for x in lines if x.startswith(
                ("error: ", "\u00b7 "))]) == 3, lines
            for wanted in ("no key", "config.yaml", "ANTHROPIC_API_KEY",
                           "--demo"):
                assert wanted in said.replace(place.homes["HOME"], "~"), said
            s.ask(":files")
            s.has("4 rows × 4 columns")


if __name__ == "__main__":
    tap.main(globals())
