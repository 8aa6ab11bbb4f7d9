#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""An interpreter that ends takes the variables with it: the person and the
model are told, once each, whatever it was that ended it."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import DEAF, Place, messages, question, results, run  # noqa: E402

import tap  # noqa: E402
from claude_server import ClaudeServer, reply  # noqa: E402

GONE = "ariables and imports"
LOOK = "print('x' in globals())"
STOPPING = "not ended yet"


def set_up(*codes):
    """Exchanges for questions with a cell each; x is looked for in the last."""
    out = []
    for code in codes + (LOOK,):
        out += [reply([run(code)]), reply(["Done."])]
    return out


def check_told(s, server):
    """What the last question led to: x is gone, and both know."""
    (told, is_error), = results(server.requests[-1])
    assert "False" in told and not is_error, told
    talk = str(messages(server.requests[-1]))
    assert talk.count(GONE) == 1, talk
    shown = " ".join(s.text().split())
    assert shown.count(GONE) == 1, s.text()


@tap.timeout(90)
def test_a_load_that_takes_it():
    code = ("x = 5\nimport os, pandas\n"
            "pandas.read_csv = lambda *a, **k: os._exit(3)\n")
    with Place() as place, ClaudeServer(set_up(code)) as server:
        place.file("sales.csv")
        with place.repl(server) as s:
            s.at_prompt()
            s.ask("set x")
            s.ask(":load sales.csv")
            assert GONE in " ".join(s.text().split()), s.text()
            s.ask("is it there?")
            assert GONE in question(server.requests[2])
            check_told(s, server)


@tap.timeout(90)
def test_our_own_work_that_takes_it():
    """The copy for :full is removed when the prompt is there already. pyplot,
    which removes files of its own, is not imported ahead any more then."""
    table = ("x = 5\nimport os, pandas, matplotlib.pyplot\n"
             "pandas.DataFrame({'a': range(99)})")
    code = "def die(*a, **k): os._exit(3)\nos.unlink = die"
    with Place() as place, ClaudeServer(set_up(table, code)) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("make a table")
        s.ask("break it")
        s.ask(":full 1")
        s.shows(GONE)
        s.at_prompt()
        s.ask("is it there?")
        assert GONE in question(server.requests[4])
        check_told(s, server)


@tap.timeout(90)
def test_a_table_that_takes_it():
    """It ends while the table is written for :full, or before that."""
    table = "x = 5\nimport os, pandas\npandas.DataFrame({'a': range(99)})"
    code = "pandas.DataFrame.to_csv = lambda *a, **k: os._exit(3)"
    with Place() as place, ClaudeServer(set_up(table, code)) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("make a table")
        s.ask("break it")
        s.ask(":full 1")
        s.has(GONE)
        s.has("the table of cell 1 is gone")
        s.ask("is it there?")
        assert GONE in question(server.requests[4])
        check_told(s, server)


@tap.timeout(90)
def test_an_end_while_nothing_runs():
    code = ("x = 5\nimport os, threading, time\n"
            "def end():\n"
            "    while not os.path.exists('/workspace/now'):\n"
            "        time.sleep(0.01)\n"
            "    time.sleep(0.2)\n"
            "    os._exit(3)\n"
            "threading.Thread(target=end).start()")
    with Place() as place, ClaudeServer(
            set_up(code, "f = open('/workspace/now', 'w')")) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("set x")
        s.ask("let it end")
        s.shows("while no cell ran")
        s.at_prompt()
        s.ask("is it there?")
        check_told(s, server)


def be_deaf(s):
    s.at_prompt()
    s.type_line("be deaf")
    s.shows("│ deaf")
    s.send(b"\x03")
    s.at_prompt()
    s.has(STOPPING)


@tap.timeout(90)
def test_a_cell_behind_it_that_fails():
    """Its own failure is said, and the loss not as a part of it."""
    with Place() as place, ClaudeServer([
            reply([run(DEAF)]), reply([run("1 / 0")]),
            reply(["I see."])]) as server, place.repl(server) as s:
        be_deaf(s)
        s.ask("divide")
        s.has("ZeroDivisionError")
        assert " ".join(s.text().split()).count(GONE) == 1, s.text()
        assert str(messages(server.requests[2])).count(GONE) == 1


@tap.timeout(90)
def test_what_is_kept_behind_it():
    """At a limit: the variables of the cell that ran in the new one."""
    with Place() as place, ClaudeServer([
            reply([run(DEAF)]), reply([run("y = 5")]),
            reply([run("z = 6")])]) as server:
        place.config("limits:\n  rounds: 2\n")
        with place.repl(server) as s:
            be_deaf(s)
            s.ask("go on")
            s.has("limits.rounds")
            s.has("cell 2 and its variables are kept")


@tap.timeout(90)
def test_a_cell_that_never_began():
    """Nothing is said of variables that the cell before it may take along."""
    with Place() as place, ClaudeServer([
            reply([run(DEAF)]), reply([run("print('never')")]),
            reply(["Well."])]) as server, place.repl(server) as s:
        be_deaf(s)
        s.type_line("go on")
        s.shows("Ctrl-C stops")
        s.shows("── 2 python")
        s.send(b"\x03")
        s.at_prompt()
        if "│ never" in s.text():
            tap.skip("the interpreter was ended before Ctrl-C came")
        s.has("cell 2: stopped before it began")
        s.has_not("variables are kept")
        s.ask("and now?")
        (told, is_error), = results(server.requests[2])
        assert "Not executed" in told and is_error, told


if __name__ == "__main__":
    tap.main(globals())
