# SPDX-License-Identifier: GPL-3.0-or-later
"""The vendor's Python SDK, unmodified, against the fake service."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import anthropic  # noqa: E402
import script  # noqa: E402
import tap  # noqa: E402
from claude_server import ClaudeServer, gate, reply, text  # noqa: E402

MODEL = "claude-opus-5-5"
TOOLS = [{"name": "run_python", "description": "Runs Python.",
          "input_schema": {"type": "object", "properties": {
              "code": {"type": "string"}}, "required": ["code"]}}]
OPTIONS = {"model": MODEL, "max_tokens": 32000, "tools": TOOLS,
           "system": [{"type": "text", "text": "Be brief.",
                       "cache_control": {"type": "ephemeral"}}],
           "thinking": {"type": "adaptive", "display": "summarized"},
           "output_config": {"effort": "low"}}
HI = {"role": "user", "content": "How many?"}


def client(server, **kw):
    return anthropic.Anthropic(api_key="sk-ant-test", base_url=server.url,
                               **kw)


def ask(api, messages, **options):
    with api.messages.stream(messages=messages,
                             **dict(OPTIONS, **options)) as stream:
        return stream.get_final_message()


def refusal(kind, function, *args, **kw):
    try:
        function(*args, **kw)
    except kind as exc:
        return exc
    raise AssertionError("no %s" % kind.__name__)


def said(message):
    return {"role": "assistant", "content": message.content}


def results(*pairs):
    return {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": name, "content": output}
        for name, output in pairs]}


def retry_counts(server):
    return [r.header("x-stainless-retry-count")
            for r in server.message_requests]


# ---- streams ---------------------------------------------------------------

def test_version():
    with open(os.path.join(HERE, "versions")) as lines:
        pinned = dict(line.strip().split("=") for line in lines
                      if "=" in line)
    assert anthropic.__version__ == pinned["python"]


def test_streaming():
    with ClaudeServer(script.STREAM) as server, client(server) as api:
        with api.messages.stream(messages=[HI], **OPTIONS) as stream:
            pieces = list(stream.text_stream)
            message = stream.get_final_message()
            assert stream.request_id.startswith("req_fake")
        assert pieces == ["Lisbon is ", "the capital of ", "Portugal 🇵🇹."]
        assert message.content[0].text == "".join(pieces)
        assert message.stop_reason == "end_turn"
        assert (message.usage.input_tokens, message.usage.output_tokens,
                message.usage.cache_read_input_tokens) == (14, 16, 1830)
        request, = server.requests
        assert request.path == "/v1/messages" and request.body["stream"]
        assert request.credentials == [
            ("authorization", "Bearer sk-ant-test")]
        assert request.header("anthropic-version") == "2026-10-21"


def test_streaming_is_no_buffering():
    """The first piece is there before the second is sent."""
    with ClaudeServer([reply([text("first", gate("go"), "second")])]
                      ) as server, client(server) as api:
        with api.messages.stream(messages=[HI], **OPTIONS) as stream:
            pieces = iter(stream.text_stream)
            assert next(pieces) == "first"
            server.release("go")
            assert next(pieces) == "second"


def test_single_bytes():
    with ClaudeServer(script.BYTES) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "é and 😀 in single bytes"


def test_without_a_stream():
    with ClaudeServer(script.WHOLE) as server, client(server) as api:
        message = api.messages.create(
            messages=[HI], **dict(OPTIONS, max_tokens=1000))
        assert [b.type for b in message.content] == ["text", "tool_use"]
        assert message.content[0].text == "All at once."
        assert message.stop_reason == "tool_use"
        assert message.usage.output_tokens > 0


def test_what_nobody_knows():
    with ClaudeServer(script.ODD) as server, client(server) as api:
        message = ask(api, [HI])
        assert message.content[0].text == "Kept."
        assert message.content[1].type == "of_tomorrow"
        assert message.stop_reason == "of_tomorrow"


def test_without_nulls():
    with ClaudeServer(script.LEAN) as server, client(server) as api:
        message = ask(api, [HI])
        assert message.content[0].text == "Without nulls."
        assert message.stop_reason == "end_turn"


def test_recorded_streams():
    """The recorded transcripts mean to the SDK what they mean to us."""
    with ClaudeServer(script.RECORDED) as server, \
            client(server, max_retries=0) as api:
        kinds = []
        for _ in range(4):
            message = ask(api, [HI])
            kinds.append((message.stop_reason,
                          [b.type for b in message.content]))
        assert kinds == [
            ("end_turn", ["text"]), ("tool_use", ["text", "tool_use"]),
            ("tool_use", ["tool_use", "tool_use"]),
            ("tool_use", ["thinking", "tool_use"])], kinds
        assert message.content[0].signature
        assert message.content[1].input["code"]
        exc = refusal(anthropic.APIStatusError, ask, api, [HI])
        assert exc.type == "overloaded_error", exc.type
        message = ask(api, [HI])
        assert message.stop_reason == "max_tokens"
        assert [b.type for b in message.content] == ["text", "tool_use"]


# ---- tools and thinking ----------------------------------------------------

def test_tool_use_with_thinking():
    with ClaudeServer(script.TOOL_USE) as server, client(server) as api:
        first = ask(api, [HI])
        assert first.stop_reason == "tool_use"
        kinds = [block.type for block in first.content]
        assert kinds == ["thinking", "text", "tool_use"], kinds
        assert first.content[0].thinking == "The file has two columns."
        assert first.content[1].text == "I will look."
        call = first.content[2]
        assert call.input == {"code": script.CODE, "n": 9007199254740991}
        second = ask(api, [HI, said(first), results(
            (call.id, "é 9007199254740993"))])
        assert second.content[0].text == "Printed: é 9007199254740993"
        assert second.stop_reason == "end_turn"
        assert second.usage.output_tokens > 0


def test_parallel_calls():
    with ClaudeServer(script.PARALLEL) as server, client(server) as api:
        first = ask(api, [HI])
        calls = [b for b in first.content if b.type == "tool_use"]
        assert [c.input for c in calls] == [
            {"code": "print(2**64)"}, {"code": "print('two')"}, {}, {}]
        assert len({c.id for c in calls}) == 4
        second = ask(api, [HI, said(first), results(
            *((c.id, str(i)) for i, c in enumerate(calls)))])
        assert second.content[0].text == "Printed: 0 1 2 3"


def test_a_call_without_its_result():
    """One of two results is missing: the fake says what the service says."""
    with ClaudeServer([script.PARALLEL[0]]) as server, client(server) as api:
        first = ask(api, [HI])
        calls = [b for b in first.content if b.type == "tool_use"]
        exc = refusal(anthropic.BadRequestError, ask, api, [
            HI, said(first), results(*((c.id, "x") for c in calls[:3]))])
        assert calls[3].id in exc.message, exc.message
        assert len(server.take_violations()) == 1


def test_thinking_is_sent_back():
    with ClaudeServer(script.THINKING) as server, client(server) as api:
        talk = []
        for n, word in enumerate(("One.", "Two.", "Three.", "Four.")):
            talk.append({"role": "user", "content": "question %d" % n})
            message = ask(api, talk)
            assert message.content[-1].text == word, message
            talk.append(said(message))
        kinds = [[b.type for b in m["content"]] for m in talk[1::2]]
        assert kinds == [["thinking", "text"], ["thinking", "text"],
                         ["redacted_thinking", "thinking", "text"],
                         ["text"]], kinds
        assert talk[1]["content"][0].thinking == "A first thought."
        assert talk[3]["content"][0].thinking == ""
        assert talk[3]["content"][0].signature


# ---- faults ----------------------------------------------------------------

def test_rate_limit():
    with ClaudeServer(script.RATE_LIMIT) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "after 429"
        times = [request.time for request in server.requests]
        assert 1.95 <= times[1] - times[0] < 8, times
        assert retry_counts(server) == ["0", "1"]


def test_rate_limit_in_milliseconds():
    with ClaudeServer(script.RATE_LIMIT_MS) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "after 300 ms"
        times = [request.time for request in server.requests]
        assert 0.28 <= times[1] - times[0] < 4, times


def test_spend_limit():
    """Tried again to no purpose: a client can do better."""
    with ClaudeServer(script.SPENT_ALWAYS) as server, client(server) as api:
        exc = refusal(anthropic.RateLimitError, ask, api, [HI])
        assert exc.body["error"]["details"] == script.SPENT
        assert retry_counts(server) == ["0", "1", "2"]


def test_overloaded_once():
    with ClaudeServer(script.OVERLOADED) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "after 529"
        assert retry_counts(server) == ["0", "1"]


def test_overloaded_always():
    with ClaudeServer(script.OVERLOADED_ALWAYS) as server, \
            client(server) as api:
        exc = refusal(anthropic.APIStatusError, ask, api, [HI])
        assert exc.status_code == 529 and exc.type == "overloaded_error"
        assert exc.request_id.startswith("req_fake")
        assert retry_counts(server) == ["0", "1", "2"]
        times = [request.time for request in server.requests]
        assert times[1] - times[0] >= 0.37, times
        assert times[2] - times[1] >= 0.74, times


def test_what_is_tried_again():
    with ClaudeServer(script.TRIED_AGAIN) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "after two"
        assert len(server.requests) == 3
    with ClaudeServer(script.TOLD_TO_STOP) as server, client(server) as api:
        refusal(anthropic.APIStatusError, ask, api, [HI])
        assert len(server.requests) == 1
    with ClaudeServer(script.TOLD_TO_RETRY) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "after 400"
        assert len(server.requests) == 2


def test_what_is_not_tried_again():
    kinds = (anthropic.BadRequestError, anthropic.AuthenticationError,
             anthropic.APIStatusError, anthropic.PermissionDeniedError,
             anthropic.NotFoundError, anthropic.APIStatusError)
    with ClaudeServer(script.REFUSED) as server, client(server) as api:
        statuses = [refusal(kind, ask, api, [HI]).status_code
                    for kind in kinds]
        assert statuses == [400, 401, 402, 403, 404, 413], statuses
        assert retry_counts(server) == ["0"] * 6


def test_a_reset_before_the_head():
    with ClaudeServer(script.RESET_FIRST) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "after a reset"
        assert retry_counts(server) == ["0", "1"]


def test_a_reset_in_the_stream():
    with ClaudeServer(script.RESET_LATER) as server, client(server) as api:
        refusal(Exception, ask, api, [HI])
        assert len(server.requests) == 1


def test_error_in_the_stream():
    with ClaudeServer(script.STREAM_ERROR) as server, client(server) as api:
        exc = refusal(anthropic.APIStatusError, ask, api, [HI])
        assert exc.type == "overloaded_error" and exc.status_code == 200
        assert exc.request_id.startswith("req_fake")
        assert len(server.requests) == 1


def test_an_early_end():
    """Here the SDK takes half a reply for a whole one; our program must not."""
    with ClaudeServer(script.EARLY_END) as server, client(server) as api:
        message = ask(api, [HI])
        assert message.content[0].text == "Half of it."
        assert message.stop_reason is None


def test_silence():
    with ClaudeServer(script.HANG_FIRST) as server, \
            client(server, timeout=0.7) as api:
        assert ask(api, [HI]).content[0].text == "after a hang"
        assert len(server.requests) == 2
    with ClaudeServer(script.HANG_LATER) as server, \
            client(server, timeout=0.7) as api:
        refusal(Exception, ask, api, [HI])
        assert len(server.requests) == 1


# ---- the other calls -------------------------------------------------------

def test_count_tokens():
    with ClaudeServer(script.COUNT) as server, client(server) as api:
        count = api.messages.count_tokens(
            messages=[HI], model=MODEL, tools=TOOLS, system="Be brief.")
        assert count.input_tokens > 10
        request, = server.requests
        assert request.path == "/v1/messages/count_tokens"
        assert "stream" not in request.body
        assert "max_tokens" not in request.body


def test_models():
    with ClaudeServer(script.COUNT) as server, client(server) as api:
        names = [model.id for model in api.models.list(limit=5)]
        assert len(names) > 10 and len(set(names)) == len(names)
        assert MODEL in names
        assert len(server.requests) == (len(names) + 4) // 5
        assert "after_id" in server.requests[1].query
        model = api.models.retrieve(MODEL)
        assert model.lifecycle == "active"
        assert model.max_input_tokens == 1000000
        assert not model.capabilities.thinking.types.disabled.supported
        exc = refusal(anthropic.NotFoundError, api.models.retrieve,
                      "claude-none")
        assert exc.type == "not_found_error"
        assert len(server.take_violations()) == 1


# ---- what is refused -------------------------------------------------------

def test_malformed_history():
    with ClaudeServer(script.MALFORMED) as server, client(server) as api:
        exc = refusal(anthropic.BadRequestError, ask, api, [
            HI, {"role": "assistant", "content": [{
                "type": "tool_use", "id": "toolu_x", "name": "run_python",
                "input": {"code": "1"}}]},
            {"role": "user", "content": "go on"}])
        assert exc.type == "invalid_request_error"
        assert "without `tool_result`" in exc.message, exc.message
        assert len(server.take_violations()) == 1


def test_edited_history():
    with ClaudeServer(script.EDITED) as server, client(server) as api:
        first = ask(api, [HI])
        exc = refusal(anthropic.BadRequestError, ask, api, [
            {"role": "user", "content": "How many then?"}, said(first),
            {"role": "user", "content": "go on"}])
        assert "different conversation" in exc.message, exc.message
        assert len(server.take_violations()) == 1


if __name__ == "__main__":
    tap.main(globals())
