#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reply that the limit of tokens cuts in a call or in thinking is asked for
once more with a larger limit. And calls of a reply that did not end with them
are not run, and that is said."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import Place, messages, run  # noqa: E402

import tap  # noqa: E402
from claude_server import (ClaudeServer, error, reply, text,  # noqa: E402
                           thinking, tool_use)

ANSWER = "All is well."


def cut_call(*before, usage=None):
    return reply([*before, tool_use("run_python", fragments=[
        "", '{"code": "print(1)\\nprint(', "2"], stop=False)],
        stop_reason="max_tokens", usage=usage)


def cut_thinking():
    return reply([thinking("I could think for ever.")],
                 stop_reason="max_tokens")


def ask(script, config=None):
    with Place() as place, ClaudeServer(list(script)) as server:
        if config:
            place.config(config)
        done = place.script(server, "-c", "how is it?")
        return done, server.message_requests


def limits(requests):
    return [r.body["max_tokens"] for r in requests]


@tap.timeout(60)
def test_a_call_is_asked_for_again():
    done, requests = ask([
        cut_call(text("Void words.")),
        reply([text("I will look."), run("print(6 * 7)")]), reply([ANSWER])])
    assert done.status == 0, done
    assert done.stdout.decode() == "I will look.\n\n%s\n" % ANSWER, done
    assert limits(requests) == [32000, 128000, 128000], limits(requests)
    assert messages(requests[0]) == messages(requests[1])
    assert b"warning: the reply was cut at 32,000 tokens, in the middle of a " \
        b"call; what was shown of it is void, and it is asked for again " \
        b"with up to 128,000\n" in done.stderr, done


@tap.timeout(60)
def test_thinking_alone_is_asked_for_again():
    done, requests = ask([cut_thinking(), reply([ANSWER])],
                         config="model:\n  max_tokens: 2000\n")
    assert (done.status, done.stdout.decode()) == (0, ANSWER + "\n"), done
    assert limits(requests) == [2000, 128000], limits(requests)
    assert b"cut at 2,000 tokens, before it said anything" in done.stderr


@tap.timeout(60)
def test_the_same_request_is_sent_in_the_middle():
    """Behind a cell: what it printed is sent again, and it runs once."""
    done, requests = ask([
        reply([run("print('printed')")]), cut_call(),
        reply([ANSWER])])
    assert done.status == 0, done
    assert messages(requests[1]) == messages(requests[2])
    assert done.stderr.count("\u2502 printed".encode()) == 1, done


@tap.timeout(60)
def test_it_ends_when_it_is_cut_again():
    for script in ([cut_call(text("Void.")), cut_call(text("Void."))],
                   [cut_thinking(), cut_thinking()]):
        done, requests = ask(script)
        assert (done.status, done.stdout) == (8, b""), done
        assert len(requests) == 2, done
        lines = [line for line in done.stderr.decode().splitlines()
                 if line.startswith("warning: stopped: ")]
        assert len(lines) == 1, done
        assert lines[0].startswith(
            "warning: stopped: the reply was cut at 128,000 tokens, "), lines
        assert lines[0].endswith(": model.max_tokens"), lines
        assert "\u00b7 ask for smaller steps\n" in done.stderr.decode(), done


@tap.timeout(60)
def test_what_the_longer_request_is_refused_for_is_said():
    """A refusal of the limit ends it as a limit; one of the account does
    not."""
    done, _ = ask([cut_call(), error(400, message="No credit is left")])
    assert done.status == 8, done
    assert b"warning: the service refused the request: No credit is left " \
        in done.stderr, done
    done, _ = ask([cut_call(), error(400, message="disabled", details={
        "error_code": "organization_on_hold"})])
    assert done.status == 4, done
    assert b"error: the account is on hold: disabled" in done.stderr, done
    assert b"model.max_tokens" not in done.stderr, done


@tap.timeout(60)
def test_an_answer_says_where_it_was_cut():
    half = reply([text("Half of")], stop_reason="max_tokens")
    for script, config, where in (
            ([half], None, b"at model.max_tokens"),
            ([cut_call(), half], None, b"at 128,000 tokens"),
            ([half], "model:\n  name: claude-haiku-4-5\n"
             "  max_tokens: 100000\n", b"at 64,000 tokens")):
        done, _ = ask(script, config)
        assert (done.status, done.stdout) == (0, b"Half of\n"), done
        assert b"warning: the answer was cut " + where in done.stderr, done


@tap.timeout(60)
def test_there_is_no_larger_limit():
    done, requests = ask([cut_call()],
                         config="model:\n  max_tokens: 128000\n")
    assert (done.status, len(requests)) == (8, 1), done
    assert b"in the middle of a call: model.max_tokens\n" in done.stderr, done


@tap.timeout(60)
def test_the_budget_allows_no_more():
    """At the prompt, where a larger budget lets it go on."""
    usage = {"input_tokens": 10, "output_tokens": 5000}
    with Place() as place, ClaudeServer([
            cut_call(usage=usage), reply([ANSWER])]) as server:
        place.config("model:\n  budget_usd: 0.20\n")
        with place.repl(server, cols=200) as s:
            s.at_prompt()
            s.ask("how is it?")
            s.has("in the middle of a call, and the budget allows no longer "
                  "one: model.budget_usd")
            s.has("no answer yet \u00b7 :budget ")
            s.ask(":budget 5")
            s.ask(":retry")
            s.has(ANSWER)
            assert messages(server.requests[0]) == \
                messages(server.requests[1])


@tap.timeout(60)
def test_at_the_prompt_it_goes_on():
    with Place() as place, ClaudeServer([
            reply([run("kept = 41")]), cut_call(), cut_call(),
            reply([run("print('kept', kept + 1)")]),
            reply([ANSWER])]) as server, place.repl(server, cols=200) as s:
        s.at_prompt()
        s.ask("how is it?")
        s.has("cell 1 and its variables are kept \u00b7 :retry, or ask for "
              "smaller steps")
        s.ask(":retry")
        s.has("kept 42")
        s.has(ANSWER)
        said = str(messages(server.requests[3]))
        assert said.count("how is it?") == 1 and "print(1)" not in said, said


@tap.timeout(60)
def test_calls_that_are_left_out_are_told():
    for stop, status in (("end_turn", 0), ("stop_of_tomorrow", 0),
                         ("refusal", 1)):
        done, requests = ask([reply([text("Words."), run("print(6 * 7)"),
                                     run("print(43)")], stop_reason=stop)])
        assert (done.status, len(requests)) == (status, 1), done
        assert b" 42" not in done.stderr, done
        assert ("warning: the reply ended with %s, so its 2 calls were not "
                "run\n" % stop).encode() in done.stderr, done


if __name__ == "__main__":
    tap.main(globals())
