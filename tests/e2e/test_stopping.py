#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ctrl-C in a cell that does not obey: the prompt does not wait for it.

What shows that the prompt did not wait is the order of what the program said,
and what the cell itself was told: nothing here is measured with a clock.
"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (DEAF, FACTOR, STEP_S, Place, messages,  # noqa: E402
                     question, results, run, wait_until)

import tap  # noqa: E402
from claude_server import ClaudeServer, hang, mark, reply, text  # noqa: E402
from processes import descendants_of, process_table  # noqa: E402

# It says so where the cell ends for the person, ...
STOPPING = "not ended yet"
# ... and this where it really does.
KEPT = "cell 1 has ended; variables are kept"
LOST = "did not stop when asked"

# Two SIGINTs are needed: the second one is sent when the prompt is there.
SLOW = ("import signal\nx = 41\nn = 0\n"
        "def count(*_):\n"
        "    global n\n"
        "    n += 1\n"
        "signal.signal(signal.SIGINT, count)\n"
        "out = open('part.csv', 'w')\n"
        "out.write('a\\n'); out.flush()\n"
        "print('deaf')\n"
        "while n < 2: pass\n"
        "print('late words')\n"
        "out.write('1\\n' * 1000)\n"
        "out.close()\n")


def stop(s):
    """Ctrl-C in the cell that says that it is deaf, then the prompt."""
    s.shows("│ deaf")
    s.send(b"\x03")
    s.at_prompt()
    s.has(STOPPING)


def order(s, *words):
    """All words were sent to the terminal, in this order."""
    at = 0
    sent = bytes(s.transcript)
    for word in words:
        found = sent.find(word.encode(), at)
        assert found >= 0, "no %r behind byte %d of %r" % (word, at, sent)
        at = found + len(word)


@tap.timeout(90)
def test_one_that_ends_a_little_later():
    """Its variables are kept, what it prints late is not shown, and its file
    comes whole, after the next cell."""
    with Place() as place, ClaudeServer([
            reply([run(SLOW)]), reply([run("print('x is', x)")]),
            reply(["Still there."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("be slow")
        stop(s)
        s.shows(KEPT)
        order(s, STOPPING, KEPT)
        s.has_not("part.csv ·")
        s.ask("what is x?")
        (told, is_error), = results(server.requests[2])
        assert "x is 41" in told and not is_error, told
        assert LOST not in str(messages(server.requests[2]))
        (stopped, is_error), = results(server.requests[1])
        assert STOPPING in stopped and "deaf" in stopped and is_error, stopped
        # In the code that is shown, and nowhere else.
        s.ask(":full 1")
        assert s.text().count("late words") == 1, s.text()
        s.has("part.csv ·")
        found = [os.path.join(folder, "part.csv")
                 for folder, _, files in os.walk(place.state)
                 if "part.csv" in files]
        assert found, s.text()
        for path in found:
            with open(path) as copy:
                assert copy.read() == "a\n" + "1\n" * 1000, path


@tap.timeout(90)
def test_one_that_never_ends():
    """It costs the variables: said to the person when it is known, and to the
    model with the next question."""
    with Place() as place, ClaudeServer([
            reply([run(DEAF)]), reply([run("print('x' in globals())")]),
            reply(["They are gone."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("be deaf")
        stop(s)
        s.shows(LOST)
        order(s, STOPPING, LOST)
        s.at_prompt()
        s.ask("go on")
        asked = question(server.requests[1])
        assert "[cell 1: " in asked and LOST in asked, asked
        assert "Variables and imports are gone" in asked, asked
        (told, is_error), = results(server.requests[2])
        assert "False" in told and not is_error, told
        assert str(messages(server.requests[2])).count(LOST) == 1


@tap.timeout(90)
def test_the_next_cell_waits():
    """Asked at once: the model hears of the loss once, with the question or
    with the cell, and the files are there again."""
    with Place() as place, ClaudeServer([
            reply([run(DEAF)]), reply([run("print(len(sales))")]),
            reply(["Four."]), reply(["Yes."])]) as server:
        path = place.file("sales.csv")
        with place.repl(server, path) as s:
            s.at_prompt()
            s.type_line("be deaf")
            stop(s)
            s.ask("go on")
            s.has("Four.")
            (told, is_error), = results(server.requests[2])
            assert "\n4\n" in told and not is_error, told
            s.has(LOST)
            s.ask("really?")
            talk = str(messages(server.requests[3]))
            assert talk.count(LOST) == 1, talk
            assert talk.count("Loaded again: sales") == 1, talk


@tap.timeout(90)
def test_the_wait_for_it_can_be_stopped():
    with Place() as place, ClaudeServer([
            reply([run(DEAF)]),
            reply([run("print('never')")]),
            reply([run("print(6 * 7)")]), reply(["Works."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("be deaf")
        stop(s)
        s.type_line("go on")
        # Unless the interpreter was ended meanwhile, this cell is waiting.
        s.shows(re.compile("waiting for the sandbox|never"))
        s.send(b"\x03")
        s.at_prompt()
        s.ask("again")
        s.has("Works.")
        assert "42" in results(server.requests[3])[0][0]


@tap.timeout(90)
def test_leaving_while_it_stops():
    """Nothing is left of a cell that does not even take notice."""
    with Place() as place, ClaudeServer([
            reply([run(DEAF)])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("be deaf")
        s.shows("│ deaf")
        inside = descendants_of(s.pid)
        assert inside or s.service
        stop(s)
        s.send(b"\x04")
        assert s.wait_exit(20 * FACTOR) == 0
        wait_until(lambda: not set(inside) & set(
            pid for pid, (_, state, _) in process_table().items()
            if state not in "ZX"), "a process is left")


@tap.timeout(90)
def test_while_the_next_answer_is_written():
    """Said in the middle of it, and the model hears before it is asked
    again."""
    with Place() as place, ClaudeServer([
            reply([run(DEAF)]),
            reply([text("Half of it", mark("there"), hang())]),
            reply(["Yes."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("be deaf")
        stop(s)
        s.type_line("talk")
        server.wait_reached("there", STEP_S)
        s.shows(LOST)
        s.send(b"\x03")
        s.at_prompt()
        s.ask("go on")
        talk = str(messages(server.requests[2]))
        assert talk.count(LOST) == 1, talk


if __name__ == "__main__":
    tap.main(globals())
