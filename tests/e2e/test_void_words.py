#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Standard output that is no terminal has only words that count: those of a
reply that broke off, was refused or failed are never there."""

import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import SANDPIPER, STEP_S, Place, results, run  # noqa: E402

import tap  # noqa: E402
from claude_server import (ClaudeServer, cut, error_event,  # noqa: E402
                           gate, hang, reply, text, thinking,
                           tool_use)
from pty_session import build_env  # noqa: E402

ANSWER = "All is well."
ONE_TRY = "model:\n  max_attempts: 1\n"


def ask(script, config=None, stdin=None):
    """(what came of it, requests) of a question, or of lines, in a pipe."""
    args = ("-c", "how is it?") if stdin is None else ()
    with Place() as place, ClaudeServer(list(script)) as server:
        if config:
            place.config(config)
        done = place.script(server, *args, stdin=stdin or b"")
        return done, server.message_requests


# ---- asked for again --------------------------------------------------------

@tap.timeout(60)
def test_a_reply_that_breaks_off():
    """Only the second one is there, whatever ended the first."""
    for fault in (cut("reset"), cut("close"), cut("end"), error_event(),
                  error_event("api_error", "Internal server error")):
        done, requests = ask([
            reply([text("Void words.\nAnd ", fault)],
                  headers={"retry-after-ms": "1"}), reply([ANSWER])])
        assert (done.status, len(requests)) == (0, 2), (fault.value, done)
        assert done.stdout.decode() == ANSWER + "\n", (fault.value, done)
        assert b"broke off" in done.stderr, (fault.value, done)
        assert b"Void" not in done.stderr, (fault.value, done)


@tap.timeout(60)
def test_paragraphs_that_break_off():
    done, _ = ask([
        reply([text("Void one."), thinking("Hm."), text("Void two."),
               tool_use("run_python", fragments=['{"code": "x', cut()])],
              headers={"retry-after-ms": "1"}),
        reply([text("One."), thinking("Hm."), text("Two.")])])
    assert (done.status, done.stdout) == (0, b"One.\n\nTwo.\n"), done


@tap.timeout(60)
def test_what_was_kept_before_stays():
    """A reply with a cell is kept; of the next one only the second try is."""
    done, requests = ask([
        reply([text("I will look."), run("print(6 * 7)")]),
        reply([text("Void", cut())], headers={"retry-after-ms": "1"}),
        reply([ANSWER])])
    assert (done.status, len(requests)) == (0, 3), done
    assert done.stdout.decode() == "I will look.\n\n%s\n" % ANSWER, done
    assert "42" in results(requests[2])[0][0]


# ---- never asked for again --------------------------------------------------

@tap.timeout(60)
def test_a_refusal_behind_words():
    done, _ = ask([reply([text("Void words.\nAnd more")],
                         stop_reason="refusal")])
    assert (done.status, done.stdout) == (1, b""), done
    assert b"declined" in done.stderr, done


@tap.timeout(60)
def test_a_failure_behind_words():
    for fault in (cut("reset"), error_event(),
                  error_event("invalid_request_error", "no")):
        done, _ = ask([reply([text("Void words.\n", fault)])],
                      config=ONE_TRY)
        assert done.status != 0 and done.stdout == b"", (fault.value, done)
        assert b"error: " in done.stderr, (fault.value, done)


@tap.timeout(60)
def test_the_next_line_does_not_bring_them_back():
    """In a script too, of which a failure is the end."""
    done, requests = ask(
        [reply(["One."]), reply([text("Void", error_event())])],
        stdin=b"first\nsecond\nthird\n", config=ONE_TRY)
    assert len(requests) == 2, done
    assert done.status == 6 and done.stdout == b"One.\n", done


# ---- what is kept comes -----------------------------------------------------

@tap.timeout(60)
def test_a_reply_comes_once_it_is_kept():
    """What precedes a cell is there before the answer is."""
    with Place() as place, ClaudeServer([
            reply([text("I will look."), run("print(1)")]),
            reply([text("Half", gate("go"), " and half.")])]) as server:
        with place.running(server, "-c", "how is it?") as child:
            line = child.stdout.readline()
            assert line == b"I will look.\n", line
            server.release("go")
            rest = child.stdout.read()
            assert rest == b"\nHalf and half.\n", rest
            assert child.wait(STEP_S) == 0


@tap.timeout(60)
def test_words_that_an_interrupt_keeps():
    """They are in the conversation, so they are shown too."""
    half = reply([text("Half a word"), thinking("Hm.\n", hang())])
    with Place() as place, ClaudeServer([half]) as server:
        place.config("limits:\n  turn_seconds: 3\n")
        done = place.script(server, "-c", "how is it?")
        assert (done.status, done.stdout) == (8, b"Half a word\n"), done
    with Place() as place, ClaudeServer([half]) as server:
        with place.running(server, "-c", "how is it?") as child:
            while child.stderr.readline() != b"Hm.\n":
                assert child.poll() is None
            os.killpg(child.pid, signal.SIGINT)
            assert child.stdout.read() == b"Half a word\n"
            assert child.wait(STEP_S) == 130


@tap.timeout(60)
def test_in_the_order_in_which_they_belong():
    """Into one pipe: the words, then the cell that follows them."""
    with Place() as place, ClaudeServer([
            reply([text("I will look."), run("print(6 * 7)")]),
            reply([ANSWER])]) as server:
        child = subprocess.run(
            [SANDPIPER, "-c", "how is it?"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=place.work, timeout=STEP_S,
            env=build_env(place.homes, "dumb", place.env(server)))
        places = [child.stdout.find(part) for part in (
            b"I will look.", b"print(6 * 7)", b" 42", ANSWER.encode())]
        assert -1 not in places and places == sorted(places), child


@tap.timeout(60)
def test_paragraphs_are_parted_by_one_line():
    done, _ = ask([reply([text(" \n One.\n\n"), text(" \n"),
                          text("\n\nTwo.\n \n"), run("x = 1")]),
                   reply([text("Three.\n\nFour. \n"), thinking("Hm.")])])
    assert done.status == 0, done
    assert done.stdout == b"One.\n\nTwo.\n\nThree.\n\nFour.\n", done


@tap.timeout(60)
def test_tables_are_parted():
    """Where only the answer goes, nothing else stands between them."""
    frame = "import pandas as pd\npd.DataFrame({'%s': [1]})"
    done, _ = ask([reply([text("I look."), run(frame % "a"),
                          run(frame % "b")]), reply([ANSWER])])
    assert done.status == 0, done
    assert done.stdout.decode() == (
        "I look.\n\n a\n\u2500\u2500\u2500\n 1\n\n b\n\u2500\u2500\u2500"
        "\n 1\n\n%s\n" % ANSWER), done


@tap.timeout(60)
def test_a_terminal_shows_them_as_they_come():
    """Also where the question is an option: there somebody reads along."""
    master, slave = os.openpty()
    with Place() as place, os.fdopen(master, "rb", 0) as screen, ClaudeServer([
            reply([text("First line.\nHalf", gate("go"), " and half.")])
            ]) as server:
        with place.running(server, "-c", "how is it?",
                           stdout=slave) as child:
            os.close(slave)
            data = b""
            while b"First line." not in data:
                data += screen.read(4096)
            server.release("go")
            assert child.wait(STEP_S) == 0


if __name__ == "__main__":
    tap.main(globals())
