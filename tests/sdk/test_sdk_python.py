# SPDX-License-Identifier: GPL-3.0-or-later
"""The vendor's Python SDK, unmodified, against the fake service."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import anthropic  # noqa: E402
import script  # noqa: E402
import tap  # noqa: E402
from claude_server import ClaudeServer  # noqa: E402

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


def test_version():
    with open(os.path.join(HERE, "versions")) as lines:
        pinned = dict(line.strip().split("=") for line in lines
                      if "=" in line)
    assert anthropic.__version__ == pinned["python"]


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
        second = ask(api, [HI, {"role": "assistant",
                                "content": first.content}, {
            "role": "user", "content": [{
                "type": "tool_result", "tool_use_id": call.id,
                "content": "é 9007199254740993"}]}])
        assert second.content[0].text == "Printed: é 9007199254740993"
        assert second.stop_reason == "end_turn"
        assert second.usage.output_tokens > 0


def test_rate_limit():
    with ClaudeServer(script.RATE_LIMIT) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "after 429"
        times = [request.time for request in server.requests]
        assert 0.95 <= times[1] - times[0] < 5, times


def test_overloaded():
    with ClaudeServer(script.OVERLOADED) as server, client(server) as api:
        assert ask(api, [HI]).content[0].text == "after 529"
        assert len(server.requests) == 2


def test_error_in_the_stream():
    with ClaudeServer(script.STREAM_ERROR) as server, client(server) as api:
        exc = refusal(anthropic.APIStatusError, ask, api, [HI])
        assert exc.type == "overloaded_error" and exc.status_code == 200
        assert exc.request_id.startswith("req_fake")
        assert len(server.requests) == 1


def test_count_tokens():
    with ClaudeServer(script.COUNT) as server, client(server) as api:
        count = api.messages.count_tokens(
            messages=[HI], model=MODEL, tools=TOOLS, system="Be brief.")
        assert count.input_tokens > 10
        assert MODEL in [model.id for model in api.models.list(limit=5)]


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
            {"role": "user", "content": "How many then?"},
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": "go on"}])
        assert "different conversation" in exc.message, exc.message
        assert len(server.take_violations()) == 1


def test_retries_end():
    start = time.monotonic()
    with ClaudeServer([script.error(529)] * 3) as server, \
            client(server) as api:
        refusal(anthropic.APIStatusError, ask, api, [HI])
        assert len(server.requests) == 3
    assert time.monotonic() - start < 20


if __name__ == "__main__":
    tap.main(globals())
