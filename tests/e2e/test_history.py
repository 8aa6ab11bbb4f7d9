#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of input lines, within a session and from one to the next."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import Place, question  # noqa: E402

import tap  # noqa: E402
from claude_server import ClaudeServer, reply  # noqa: E402

UP, DOWN = b"\x1b[A", b"\x1b[B"


def line(s):
    return s.screen.lines()[s.screen.row].rstrip()


@tap.timeout(60)
def test_up_and_down():
    with Place() as place, ClaudeServer([reply(["One."]), reply(["Two."]),
                                         reply(["Three."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("first question")
        s.ask("second question")
        s.send(UP)
        s.expect_screen(lambda sc: line(s) == "> second question")
        s.send(UP)
        s.expect_screen(lambda sc: line(s) == "> first question")
        s.send(DOWN)
        s.expect_screen(lambda sc: line(s) == "> second question")
        s.send(UP)
        s.expect_screen(lambda sc: line(s) == "> first question")
        s.typed(", again")
        s.send("\r")
        s.shows("Three.")
        assert question(server.requests[2]) == "first question, again"


@tap.timeout(60)
def test_it_outlives_the_session():
    with Place() as place:
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.ask(":files")
            s.ask(":help")
            s.send(b"\x04")
            assert s.wait_exit(10) == 0
        path = os.path.join(place.state, "history")
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(place.state).st_mode & 0o777 == 0o700
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.send(UP)
            s.expect_screen(lambda sc: line(s) == "> :help")
            s.send(UP)
            s.expect_screen(lambda sc: line(s) == "> :files")


@tap.timeout(60)
def test_what_is_not_kept():
    """Repeats, blank lines, and lines that begin with a space."""
    with Place() as place:
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.ask(":files")
            s.ask(":files")
            s.send("\r")
            s.ask("   :help")
            s.send(UP)
            s.expect_screen(lambda sc: line(s) == "> :files")
            s.send(UP)
            s.send(b"\x05")
            s.typed("x")
            assert line(s) == "> :filesx", s.screen.text()


@tap.timeout(60)
def test_a_pasted_text_comes_back_whole():
    with Place() as place, ClaudeServer([reply(["One."])]) as server:
        with place.repl(server) as s:
            s.at_prompt()
            s.send(b"\x1b[200~line one\nline two\x1b[201~")
            s.shows("line two")
            s.typed(" end")
            s.send("\r")
            s.shows("One.")
            s.at_prompt()
            s.send(b"\x04")
            assert s.wait_exit(10) == 0
        assert question(server.requests[0]) == "line one\nline two end"
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.send(UP)
            s.shows("line two end")
            s.has("> line one")


@tap.timeout(60)
def test_a_file_that_cannot_be_written():
    with Place() as place:
        os.makedirs(os.path.join(place.state, "history"))
        with place.repl(None, key=None) as s:
            s.at_prompt()
            s.shows("history is not")
            s.ask(":files")
            s.ask(":files")
            s.has("no file is loaded")
            assert s.text().count("the history is not kept") <= 1, s.text()


@tap.timeout(60)
def test_no_home():
    """Without a place for it the program works, and says what is missing."""
    with Place() as place:
        nowhere = os.path.join(place.dir, "not-a-directory")
        with open(nowhere, "w"):
            pass
        env = {"HOME": nowhere, "XDG_STATE_HOME": nowhere + "/state"}
        with place.repl(None, key=None, env=env) as s:
            s.at_prompt()
            s.ask(":files")
            s.has("no file is loaded")
            s.has("warning: ")


if __name__ == "__main__":
    tap.main(globals())
