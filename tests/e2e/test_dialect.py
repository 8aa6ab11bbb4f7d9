#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers of other vendors that speak a part of the protocol.

Each imitates one: what it sends, with its gaps, and what it refuses."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import KEY, Place, messages, results  # noqa: E402

import tap  # noqa: E402
from claude_server import (ClaudeServer, KeyTrap, reply,  # noqa: E402
                           response, tool_use)

FULL = {"thinking", "output_config", "cache_control"}


class Other(KeyTrap):
    """A server that takes anything; one answer for each request."""

    def __init__(self, answers):
        super().__init__()
        self._answers = list(answers)

    def _route(self, request):
        request.body = json.loads(request.raw)
        if not self._answers:
            self._violation("a request too many")
            return response(500, [b""]), None
        answer = self._answers.pop(0)
        return (answer(request) if callable(answer) else answer), None

    def check(self):
        super().check()
        if self._answers:
            raise AssertionError("%d answers left" % len(self._answers))


def refuse(status, body, kind="application/json"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    # No request id and no organization: that is how the vendor is known.
    return response(status, [data], {
        "content-type": kind, "request-id": None,
        "anthropic-organization-id": None})


def stream(*events, named=True, end=b""):
    data = b""
    for event in events:
        if named:
            data += b"event: %s\n" % event["type"].encode()
        data += b"data: " + json.dumps(event).encode() + b"\n\n"
    return response(200, [data + end], {
        "content-type": "text/event-stream", "request-id": None,
        "anthropic-organization-id": None})


def start(**message):
    return {"type": "message_start", "message": dict({
        "type": "message", "role": "assistant", "content": []}, **message)}


def text(words, index=0):
    return [{"type": "content_block_start", "index": index,
             "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": index,
             "delta": {"type": "text_delta", "text": words}},
            {"type": "content_block_stop", "index": index}]


def call(code, call_id, index=0):
    return [{"type": "content_block_start", "index": index,
             "content_block": {"type": "tool_use", "id": call_id,
                               "name": "run_python", "input": {}}},
            {"type": "content_block_delta", "index": index,
             "delta": {"type": "input_json_delta",
                       "partial_json": json.dumps({"code": code})}},
            {"type": "content_block_stop", "index": index}]


def end(reason, **more):
    return dict({"type": "message_delta",
                 "delta": {"stop_reason": reason}}, **more)


STOP = {"type": "message_stop"}


def ask(answers, config, question="how is it?"):
    with Place() as place, Other(answers) as server:
        place.config("model:\n" + "".join("  %s\n" % line
                                          for line in config))
        done = place.script(server, "-c", question)
        assert KEY.encode() not in done.stdout + done.stderr, done
        return done, server.requests


def is_compatible(request):
    return not FULL & set(request.body) and \
        b"cache_control" not in request.raw and \
        request.header("anthropic-beta") is None


def is_full(request):
    return request.body["thinking"]["type"] == "adaptive" and \
        "cache_control" in request.body


# ---- imitations -------------------------------------------------------------

def conversation(first, second, config):
    """A call, its answer, and a reply."""
    done, requests = ask([first, second], config)
    assert done.status == 0, done
    assert done.stdout.endswith(b"It is 42.\n"), done
    assert all(is_compatible(r) for r in requests), requests
    (told, is_error), = results(requests[1])
    assert "42" in told and not is_error, told
    return requests


@tap.timeout(60)
def test_ollama():
    """No usage to speak of, end_turn or tool_use, nothing behind it."""
    conversation(
        stream(start(id="msg_1", model="qwen3:8b",
                     usage={"input_tokens": 10, "output_tokens": 0}),
               *call("print(42)", "call_k2x9"),
               end("tool_use", usage={"output_tokens": 3}), STOP),
        stream(start(id="msg_2", model="qwen3:8b"), *text("It is 42."),
               end("end_turn"), STOP), ["name: qwen3:8b"])


@tap.timeout(60)
def test_llama_cpp():
    """Ids of its own, no event lines, end_turn with a call, no
    message_stop."""
    conversation(
        stream(start(id="chatcmpl-Zx81", model="gpt-oss", usage=None),
               *text("I look."), *call("print(42)", "call:0/a", 1),
               end("end_turn", usage=None), named=False),
        stream(start(id="chatcmpl-Zx82"), *text("It is 42."),
               end("end_turn"), named=False, end=b"data: [DONE]\n\n"),
        ["name: gpt-oss"])


@tap.timeout(60)
def test_vllm():
    """Thinking without a signature, null wherever something may be."""
    requests = conversation(
        stream(start(id="chatcmpl-77", model=None, stop_reason=None,
                     usage={"input_tokens": None, "output_tokens": None}),
               {"type": "content_block_start", "index": 0,
                "content_block": {"type": "thinking", "thinking": ""}},
               {"type": "content_block_delta", "index": 0, "delta": {
                   "type": "thinking_delta", "thinking": "Let me see."}},
               {"type": "content_block_stop", "index": 0},
               *call("print(42)", "chatcmpl-tool-5", 1),
               end("tool_use", usage={"output_tokens": None}), STOP),
        stream(start(id="chatcmpl-78"), *text("It is 42."), end("end_turn"),
               STOP), ["name: some/model", "dialect: compatible"])
    kinds = [block["type"] for block in messages(requests[1])[1][1]]
    assert kinds == ["thinking", "tool_use"], kinds


@tap.timeout(60)
def test_a_call_that_was_cut_is_not_run():
    broken = stream(start(), *call("print('half')", "t")[:2],
                    end("max_tokens"), STOP)
    for second in (broken, refuse(400, {"error": "max_tokens is too large"})):
        done, requests = ask([broken, second], ["name: m"])
        assert b"half" not in done.stdout and len(requests) == 2, done
        assert done.status == 8, done
        assert b"in the middle of a call: model.max_tokens\n" in done.stderr
        assert [r.body["max_tokens"] for r in requests] == [32000, 128000]
    early = stream(start(), *call("print('half')", "t")[:2])
    done, requests = ask([early], ["name: m", "max_attempts: 1"])
    assert done.status == 5, done
    assert b"ended early" in done.stderr and len(requests) == 1, done


# ---- gaps -------------------------------------------------------------------

CALLS = [tool_use("run_python", {"code": "print(6 * 7)"}),
         tool_use("run_python", {"code": "print(6 * 9)"})]


def gappy(without, calls=(CALLS, CALLS), status=0, dialect="compatible"):
    """Two replies with calls and an answer, from a server that leaves things
    out; what is sent back is held to all rules."""
    script = [reply(["I look."] + list(some), without=without)
              for some in calls]
    if not status:
        script.append(reply(["It is 42."], without=without))
    with Place() as place, ClaudeServer(script) as server:
        place.config("model:\n  name: claude-opus-5-5\n  dialect: %s\n"
                     "  max_attempts: 1\n" % dialect)
        done = place.script(server, "-c", "how is it?")
        assert done.status == status, done
        requests = server.requests
    if not status:
        assert b"It is 42." in done.stdout, done
        for request in requests[1:]:
            assert [told.count("42") + told.count("54")
                    for told, _ in results(request)] == [1, 1], results(request)
    return done, requests


def call_ids(request):
    """Of all calls in a request, in order."""
    return [block["id"] for _, content in messages(request)
            for block in content if block["type"] == "tool_use"]


@tap.timeout(120)
def test_what_other_servers_leave_out_is_filled_in():
    for without in (("message_start",), ("index",), ("id",),
                    ("message_start", "index", "id")):
        _, requests = gappy(without)
        ids = call_ids(requests[-1])
        assert len(ids) == len(set(ids)) == 4, ids
        # What was sent once stays as it is.
        assert call_ids(requests[1]) == ids[:2], (requests[1], ids)


@tap.timeout(120)
def test_ids_that_a_server_uses_again_are_made_new():
    def same(*ids):
        return [tool_use("run_python", {"code": "print(%s)" % n}, id=call_id)
                for n, call_id in zip(("42", "54"), ids)]

    _, requests = gappy(("organization",),
                        (same("call_0", "call_1"), same("call_0", "call_1")))
    ids = call_ids(requests[-1])
    assert ids[:2] == ["call_0", "call_1"] and len(set(ids)) == 4, ids
    _, requests = gappy(("organization",),
                        (same("call_0", "call_0"), same("call_0", "call_0")))
    ids = call_ids(requests[-1])
    assert ids[0] == "call_0" and len(set(ids)) == 4, ids


@tap.timeout(120)
def test_the_vendor_may_leave_nothing_out():
    for without, words in ((("message_start",), b"out of order"),
                           (("index",), b"out of order"),
                           (("id",), b"a tool without an id")):
        done, requests = gappy(without, [CALLS], 5, "anthropic")
        assert words in done.stderr and len(requests) == 1, done


# ---- without a key ----------------------------------------------------------

FINE = stream(start(), *text("It is 42."), end("end_turn"), STOP)


def ask_without_a_key(config, env=None, answers=(FINE,)):
    with Place() as place, Other(answers) as server:
        place.config("model:\n" + "".join("  %s\n" % line
                                          for line in config))
        return (place.script(server, "-c", "how is it?", env=env, key=None),
                server.requests)


@tap.timeout(60)
def test_a_server_on_this_machine_needs_no_key():
    done, (request,) = ask_without_a_key(["name: qwen3:8b"])
    assert done.status == 0 and done.stdout == b"It is 42.\n", done
    assert request.header("authorization") is None
    assert request.header("x-api-key") is None


@tap.timeout(60)
def test_no_proxy_stands_before_a_server_on_this_machine():
    # Nobody listens there.
    done, requests = ask_without_a_key(
        ["name: m", "max_attempts: 1"],
        dict.fromkeys(("http_proxy", "all_proxy"), "http://127.0.0.1:1"))
    assert done.status == 0 and len(requests) == 1, done


@tap.timeout(60)
def test_a_server_on_this_machine_that_wants_a_key_after_all():
    done, (request,) = ask_without_a_key(
        ["name: m"], answers=[refuse(401, {"error": "no api key passed in"})])
    assert done.status == 4 and b"no api key passed in" in done.stderr, done


@tap.timeout(60)
def test_headers_take_the_place_of_the_key():
    for line, name, value in (
            ("Authorization: Basic dXNlcg==", "authorization",
             "Basic dXNlcg=="),
            ("X-Api-Key: sk-header-0123456789", "x-api-key",
             "sk-header-0123456789")):
        done, (request,) = ask_without_a_key(
            ["name: m"], {"ANTHROPIC_CUSTOM_HEADERS": line})
        assert done.status == 0, done
        assert request.header(name) == value, request.headers
        assert len([key for key, _ in request.headers
                    if key in ("authorization", "x-api-key")]) == 1
        assert value.encode() not in done.stdout + done.stderr


@tap.timeout(60)
def test_headers_that_do_not_travel_unencrypted():
    with Place() as place:
        done = place.script("http://gateway.invalid", "-c", "hello", key=None,
                            env={"ANTHROPIC_CUSTOM_HEADERS":
                                 "X-Gateway-Token: secret-0123456789"})
        assert done.status == 3 and b"X-Gateway-Token" in done.stderr, done
        assert b"secret-0123456789" not in done.stderr, done


@tap.timeout(60)
def test_a_gateway_takes_any_header_and_the_vendor_does_not():
    env = {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: data"}
    with Place() as place:
        place.config("model:\n  max_attempts: 1\n")
        # Nobody listens there: the request was on its way.
        done = place.script("https://gateway.invalid", "-c", "hello", key=None,
                            env=dict(env, HTTPS_PROXY="http://127.0.0.1:1"))
        assert done.status == 5 and b"no key" not in done.stderr, done
        done = place.script("https://gateway.invalid", "-c", "hello", key=None)
        assert done.status == 4 and b"no key" in done.stderr, done
        done = place.script(None, "-c", "hello", key=None, env=env)
        assert done.status == 4 and b"no key" in done.stderr, done


# ---- refusals ---------------------------------------------------------------

@tap.timeout(60)
def test_errors_in_other_forms():
    for status, body, words, expect in (
            (500, {"error": "model requires more memory"},
             b"model requires more memory", 5),
            (404, {"error": "model 'm' not found, try pulling it first"},
             b"try pulling it", 5),
            (401, {"error": {"message": "Invalid API Key", "code": 401}},
             b"Invalid API Key", 4),
            (400, {"object": "error", "message": "too long", "code": 400},
             b"too long", 5),
            (422, {"detail": "unknown field"}, b"unknown field", 5),
            (503, {"error": {"message": "Loading model", "code": 503}},
             b"Loading model", 6),
            (400, [1, 2], b"(400)", 5), (400, b"\xff\x00", b"(400)", 5)):
        done, requests = ask([refuse(status, body)],
                             ["name: m", "max_attempts: 1"])
        assert done.status == expect, (body, done)
        assert words in done.stderr and len(requests) == 1, (body, done)


@tap.timeout(60)
def test_a_server_that_knows_less_is_found_out():
    fine = stream(start(), *text("It is 42."), end("end_turn"), STOP)
    for status, body in ((400, {"error": "unknown field thinking"}),
                         (422, {"detail": [{"loc": ["cache_control"]}]})):
        done, requests = ask([refuse(status, body), fine],
                             ["name: claude-local"])
        assert done.status == 0 and done.stdout == b"It is 42.\n", done
        assert is_full(requests[0]) and is_compatible(requests[1])
        assert b"model.dialect" in done.stderr, done


@tap.timeout(60)
def test_a_server_that_refuses_both():
    done, requests = ask([refuse(400, {"error": "no such model"}),
                          refuse(400, {"error": "no tools"})],
                         ["name: claude-local"])
    assert done.status == 5 and len(requests) == 2, done
    assert b"no such model" in done.stderr, done
    assert b"no tools" not in done.stderr, done


@tap.timeout(60)
def test_the_dialect_that_is_named_is_kept_to():
    no = refuse(400, {"error": "no"})
    done, requests = ask([no], ["name: m", "dialect: anthropic"])
    assert done.status == 5 and is_full(requests[0]), done
    done, requests = ask([no], ["name: claude-x", "dialect: compatible"])
    assert done.status == 5 and is_compatible(requests[0]), done


@tap.timeout(60)
def test_the_vendor_behind_a_gateway_is_held_to_the_protocol():
    """Its answers carry a header that no other server sends."""
    with Place() as place, ClaudeServer([
            reply([tool_use("run_python", {"code": "print('no')"})],
                  stop_reason="end_turn")]) as server:
        done = place.script(server, "-c", "how is it?")
        assert done.status == 1 and len(server.requests) == 1, done
        assert is_full(server.requests[0])


if __name__ == "__main__":
    tap.main(globals())
