#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network that delivers one byte at a time: Ctrl-C while bytes go on coming,
and tries again."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (PROMPT_S, STEP_S, Place, messages, question,  # noqa: E402
                     run)

import tap  # noqa: E402
from claude_server import (ClaudeServer, cut, error_event,  # noqa: E402
                           mark, ping, reply, response, text, thinking,
                           tool_use)

ANSWER = "All is well, é and 😀 too."

# Takes the service minutes to send.
MANY = 60000


def single(items, **options):
    return reply(items, chunk=1, **options)


def stop_while_it_flows(first, shown, rest=()):
    """Ctrl-C while the bytes come, at mark "there" or later; asks again, and
    returns the conversation as it then was."""
    with Place() as place, ClaudeServer(
            list(rest) + [first, single([ANSWER])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("first question")
        server.wait_reached("there", STEP_S)
        if shown:
            s.shows(shown)
        seconds = s.interrupt()
        stopped = server.requests[-1]
        assert seconds <= PROMPT_S, "the prompt took %.3f s" % seconds
        tap.diag("prompt after %.0f ms" % (seconds * 1000))
        # It was still being sent, and is not any more.
        stopped.wait_closed(STEP_S)
        s.ask("second question")
        s.has(ANSWER)
        assert "second question" in question(server.requests[-1])
        return messages(server.requests[-1])


def kinds(talk):
    return [b["type"] for _, content in talk for b in content]


@tap.timeout(60)
def test_stop_in_text():
    talk = stop_while_it_flows(
        single([text("Some words ", mark("there"), "word " * MANY, split=5)]),
        "Some words")
    assert [role for role, _ in talk] == ["user", "assistant", "user"], talk
    kept = talk[1][1][0]["text"]
    assert kept.startswith("Some words") and kept == kept.rstrip(), kept[:99]


@tap.timeout(60)
def test_stop_in_thinking():
    talk = stop_while_it_flows(
        single([thinking("Let me see ", mark("there"), "more " * MANY,
                         split=5), text("never")]), "Let me see")
    assert "thinking" not in kinds(talk), kinds(talk)


@tap.timeout(60)
def test_stop_in_the_input_of_a_tool():
    talk = stop_while_it_flows(
        single([text("I run it."), tool_use("run_python", fragments=[
            '{"code": "', mark("there"), "x = 1\\n" * MANY, '"}'],
            split=7)]), "I run it.")
    assert "tool_use" not in kinds(talk), kinds(talk)


@tap.timeout(60)
def test_stop_in_pings():
    talk = stop_while_it_flows(
        single(["never"], leading=[mark("there")] + [ping()] * MANY), None)
    assert kinds(talk)[0] == "text" and talk[0][0] == "user", talk


@tap.timeout(60)
def test_stop_in_a_block_nobody_knows():
    """Not shown, but read all the same."""
    stop_while_it_flows(
        single([text("Look: ", mark("there")), thinking(
            *["so on"] * MANY, signature="c2ln"), text("never")]), "Look:")


@tap.timeout(60)
def test_stop_behind_a_cell():
    talk = stop_while_it_flows(
        single([text("So ", mark("there"), "on " * MANY, split=3)]), "So",
        rest=[single([run("print('it ran')", split=2)])])
    assert kinds(talk).count("tool_result") == 1, kinds(talk)


def asked_again(faults, n_void=None):
    """All come in single bytes; the answer then is there, once."""
    with Place() as place, ClaudeServer(
            list(faults) + [single([thinking("Hm."), run("print('ran')")]),
                            single([ANSWER], crlf=True)]) as server:
        place.config("model:\n  max_attempts: 8\n")
        done = place.script(server, "-c", "how is it?")
        assert done.status == 0, done
        assert done.stdout.decode().count(ANSWER) == 1, done
        assert done.stderr.decode().count("│ ran\n") == 1, done
        assert n_void in (None, done.stderr.count(b"is void")), done
        asked = server.message_requests
        assert len(asked) == len(faults) + 2, asked
        for request in asked[1:len(faults) + 1]:
            assert request.raw == asked[0].raw


@tap.timeout(60)
def test_statuses():
    asked_again([response(status, [json.dumps({
        "type": "error", "error": {"type": kind, "message": "é " * 20}}
        ).encode()], {"content-type": "application/json",
                      "retry-after-ms": "20"}, chunk=1)
        for status, kind in ((529, "overloaded_error"), (500, "api_error"),
                             (429, "rate_limit_error"))], 0)


# Two at a time: each fault behind another is waited for twice as long.

@tap.timeout(60)
def test_faults_in_the_stream():
    half = [thinking("Hm."), text("Half of it, ")]
    asked_again([single(half + [error_event()]),
                 single(half + [cut("reset")])], 2)
    asked_again([single(half, finish=False),
                 single([text("Half ", cut("close"))])], 2)


@tap.timeout(120)
def test_resets_at_many_bytes():
    """Before, in and behind each kind of event. Nothing runs twice."""
    for pair in ((1, 40), (700, 900), (1100, 1250)):
        asked_again([single([run("print('never')")], cut_after=n)
                     for n in pair])


if __name__ == "__main__":
    tap.main(globals())
