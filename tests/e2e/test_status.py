#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each status of the service, and what its headers and events say: whether it
is asked again, the sentence, and the exit status."""

import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import KEY, Place  # noqa: E402

import tap  # noqa: E402
from claude_server import (ClaudeServer, cut, error,  # noqa: E402
                           error_event, reply, response, text, thinking,
                           tool_use)

ANSWER = "All is well."
SOON = {"retry-after-ms": "1"}
SPEND = {"error_code": "enforced_spend_limit_reached"}


def ask(script, config="", env=None):
    with Place() as place, ClaudeServer(list(script)) as server:
        place.config(config)
        done = place.script(server, "-c", "how is it?", env=env)
        assert KEY.encode() not in done.stdout + done.stderr, done
        return done, server.message_requests


def error_line(done):
    lines = [line for line in done.stderr.decode().splitlines()
             if line.startswith("error: ")]
    assert len(lines) == 1, done
    return lines[0]


# status, keyword arguments of error(), exit status, words of the sentence
FINAL = (
    (400, {"message": "that was odd"}, 5, ("that was odd",)),
    (400, {"message": "disabled", "details":
           {"error_code": "organization_on_hold"}}, 4, ("on hold", "disabled")),
    (401, {}, 4, ("key", r"model\.api_key")),
    (402, {"message": "no credit"}, 4, ("billing", "no credit")),
    (402, {"message": "limit", "details": {
        "error_code": "linked_organization_spend_limit_reached"}}, 4,
     ("billing",)),
    (403, {"message": "not this model"}, 4, ("permit", "not this model")),
    (404, {"message": "model: claude-none"}, 5,
     (r"model\.name", "claude-none")),
    (413, {}, 8, ("too large", "new session")),
    (418, {"message": "teapot"}, 5, ("teapot",)),
    (429, {"details": SPEND}, 4, ("spend limit",)),
    (429, {"details": {"error_code": "contract_spend_limit_reached"}}, 4,
     ("spend limit",)),
    (429, {"details": SPEND, "headers": {"retry-after": "1"}}, 4,
     ("spend limit",)),
    (429, {"details": SPEND, "headers": {"x-should-retry": "true"}}, 4,
     ("spend limit",)),
    (307, {}, 5, ("redirect",)),
)

AGAIN = (
    (408, 5, "waited too long"),
    (409, 5, "conflict"),
    (429, 6, "limits how often"),
    (500, 5, "internal problem"),
    (501, 5, "internal problem"),
    (502, 5, "internal problem"),
    (503, 6, "overloaded"),
    (504, 5, "took too long"),
    (529, 6, "overloaded"),
)


@tap.timeout(90)
def test_statuses_that_are_final():
    for status, more, expect, words in FINAL:
        done, requests = ask([error(status, **more)])
        line = error_line(done)
        assert len(requests) == 1, (status, more)
        assert done.status == expect, (status, done)
        assert done.stdout.strip() == b"", done
        for word in words + (r"\(%d, request req_fake\d+\)" % status,):
            assert re.search(word, line), (word, line)


@tap.timeout(90)
def test_statuses_that_are_tried_again():
    for status, expect, words in AGAIN:
        done, requests = ask([error(status, headers=SOON), reply([ANSWER])])
        assert done.status == 0, (status, done)
        assert done.stdout.decode() == ANSWER + "\n", done
        assert requests[0].raw == requests[1].raw, status
        done, requests = ask([error(status, headers=SOON)] * 2,
                             "model:\n  max_attempts: 2\n")
        assert len(requests) == 2 and done.status == expect, (status, done)
        line = error_line(done)
        assert words in line and "(%d, request req_" % status in line, line
        assert line.endswith("; tried 2 times"), line


@tap.timeout(60)
def test_pages_of_a_gateway():
    """An answer that is no JSON is judged by its status alone."""
    for status, expect in ((413, 8), (502, 5), (403, 4)):
        page = b"<html><body><h1>\x1b[31mNo</h1></body></html>"
        done, requests = ask([error(status, body=page, headers=SOON,
                                    content_type="text/html")],
                             "model:\n  max_attempts: 1\n")
        assert done.status == expect, done
        assert b"html" not in done.stderr and b"\x1b" not in done.stderr, done
        assert "(%d" % status in error_line(done), done


@tap.timeout(60)
def test_a_login_page_is_no_reply():
    done, requests = ask([response(200, [b"<html>log in</html>"],
                                   {"content-type": "text/html"})])
    assert done.status == 5 and len(requests) == 1, done
    assert "model.base_url" in error_line(done), done


# ---- headers ----------------------------------------------------------------

def gap(headers):
    done, requests = ask([error(529, headers=headers), reply([ANSWER])])
    assert done.status == 0, done
    return requests[1].time - requests[0].time


@tap.timeout(60)
def test_milliseconds_win_over_seconds():
    assert gap({"retry-after-ms": "20", "retry-after": "30"}) < 15
    waited = gap({"retry-after-ms": "1200", "retry-after": "0"})
    assert waited >= 1.19, waited


@tap.timeout(60)
def test_a_date_is_understood():
    def answer(request):
        # A date has whole seconds: two of them are more than one away.
        when = time.strftime("%a, %d %b %Y %H:%M:%S GMT",
                             time.gmtime(time.time() + 2.2))
        return error(529, headers={"retry-after": when})

    done, requests = ask([answer, reply([ANSWER])])
    assert done.status == 0, done
    waited = requests[1].time - requests[0].time
    assert waited >= 1.1, waited


@tap.timeout(60)
def test_nonsense_is_no_time():
    for value in ("soon", "-1", "0", ""):
        waited = gap({"retry-after": value, "retry-after-ms": value})
        assert 0.3 < waited, (value, waited)


@tap.timeout(60)
def test_the_service_decides_about_trying_again():
    done, requests = ask([error(529, headers=dict(SOON, **{
        "x-should-retry": "false"}))])
    assert done.status == 6 and len(requests) == 1, done
    done, requests = ask([error(400, headers=dict(SOON, **{
        "x-should-retry": "true"})), reply([ANSWER])])
    assert done.status == 0 and len(requests) == 2, done
    done, requests = ask([error(529, headers=dict(SOON, **{
        "x-should-retry": "perhaps"})), reply([ANSWER])])
    assert done.status == 0, done


@tap.timeout(60)
def test_the_limit_that_is_used_up_is_named():
    reset = time.strftime("%Y-%m-%dT%H:%M:%SZ",
                          time.gmtime(time.time() + 3000))
    done, _ = ask([error(429, headers={
        "anthropic-ratelimit-requests-remaining": "12",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": reset,
        "retry-after": "3000"})])
    assert done.status == 6, done
    line = error_line(done)
    assert re.search(r"no input tokens are left for (49|50) min", line), line
    assert "3000 s" in line, line
    done, _ = ask([error(429, headers={
        "anthropic-ratelimit-requests-remaining": "12"})],
        "model:\n  max_attempts: 1\n")
    assert "left" not in error_line(done), done


# ---- events -----------------------------------------------------------------

@tap.timeout(90)
def test_errors_in_mid_stream():
    again = ("overloaded_error", "api_error", "rate_limit_error",
             "timeout_error", "conflict_error", "some_new_error")
    for kind in again:
        done, requests = ask([
            reply([text("It is", error_event(kind, "trouble"))],
                  headers=SOON, finish=False), reply([ANSWER])])
        assert done.status == 0 and len(requests) == 2, (kind, done)
        assert requests[0].raw == requests[1].raw, kind
        assert b"broke off" in done.stderr, (kind, done)
    for kind, expect in (("invalid_request_error", 5),
                         ("authentication_error", 4), ("billing_error", 4),
                         ("permission_error", 4), ("not_found_error", 5),
                         ("request_too_large", 8)):
        done, requests = ask([
            reply([text("It is", error_event(kind, "trouble"))],
                  finish=False)])
        assert done.status == expect and len(requests) == 1, (kind, done)
        assert "(request req_fake" in error_line(done), (kind, done)
    done, requests = ask([
        reply([text("It is", error_event("rate_limit_error", "trouble",
                                         SPEND))], finish=False)])
    assert done.status == 4 and len(requests) == 1, done
    assert "spend limit" in error_line(done), done


@tap.timeout(60)
def test_an_error_before_anything_else():
    done, requests = ask([
        reply([], leading=[error_event("overloaded_error")], headers=SOON),
        reply([ANSWER])])
    assert done.status == 0 and len(requests) == 2, done


@tap.timeout(60)
def test_resets_at_every_stage():
    for script in (
            [reply(["x"], before=[cut()])],
            [reply(["x"], leading=[cut()])],
            [reply([thinking("Hm", cut())])],
            [reply([text("It is", cut("close"))])],
            [reply([tool_use("run_python", fragments=["{\"code\":", cut()])])],
            [reply(["x"], finish=False)]):
        done, requests = ask(script + [reply([ANSWER])])
        assert done.status == 0 and len(requests) == 2, done
        assert done.stdout.decode().endswith(ANSWER + "\n"), done
        assert requests[0].raw == requests[1].raw


@tap.timeout(60)
def test_a_broken_reply_has_its_request_named():
    for how in ("reset", "close", "end"):
        done, _ = ask([reply([text("It is", cut(how))])],
                      "model:\n  max_attempts: 1\n")
        assert done.status == 5, done
        assert "(request req_fake" in error_line(done), done


# ---- the model --------------------------------------------------------------

@tap.timeout(60)
def test_a_pause_goes_on():
    done, requests = ask([
        reply([thinking("Hm."), "First part."], stop_reason="pause_turn"),
        reply(["Second part."], stop_reason="pause_turn"),
        reply([ANSWER])])
    assert done.status == 0, done
    roles = [[m["role"] for m in request.body["messages"]]
             for request in requests]
    assert roles == [["user"], ["user", "assistant"],
                     ["user", "assistant", "assistant"]], roles
    assert "thinking" in requests[2].raw.decode().split('"messages"')[1]


@tap.timeout(120)
def test_pauses_without_end_are_capped():
    done, requests = ask(
        [reply(["Part."], stop_reason="pause_turn")] * 3,
        "limits:\n  rounds: 3\n")
    assert len(requests) == 3, done


def invalid(message="messages.1.content.0: Invalid `signature` in `thinking` "
            "block. The block is bound to a different conversation."):
    return error(400, message=message)


def thoughts(request):
    return [block for message in request.body["messages"]
            for block in message["content"]
            if block["type"] in ("thinking", "redacted_thinking")]


def two_questions(place, server):
    return place.script(server, stdin="first\nsecond\nthird\n")


@tap.timeout(60)
def test_thinking_that_is_refused_is_left_out():
    with Place() as place, ClaudeServer([
            reply([thinking("Hm."), "One."]), invalid(),
            reply([thinking("Ha."), "Two."]),
            reply([thinking("Ho."), "Three."])]) as server:
        done = two_questions(place, server)
        assert done.status == 0, done
        assert done.stdout == b"One.\n\nTwo.\n\nThree.\n", done
        assert b"goes on without it" in done.stderr, done
        counts = [len(thoughts(r)) for r in server.message_requests]
        assert counts == [0, 1, 0, 1], counts


@tap.timeout(60)
def test_a_refusal_for_another_reason_changes_nothing():
    with Place() as place, ClaudeServer([
            reply([thinking("Hm."), "One."]), invalid("first reason"),
            invalid("second reason")]) as server:
        done = two_questions(place, server)
        assert done.status == 5, done
        assert b"first reason" in done.stderr, done
        assert b"second reason" not in done.stderr, done
        assert b"goes on without it" not in done.stderr, done


if __name__ == "__main__":
    tap.main(globals())
