# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that the service refuses or takes, and builders for more."""

import base64
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "helpers"))
from png_chunks import SIGNATURE, ihdr  # noqa: E402

TOOL = {"name": "run_python", "description": "Runs Python.",
        "input_schema": {"type": "object", "properties": {
            "code": {"type": "string"}}, "required": ["code"]}}


def request_body(*messages, **more):
    body = {"model": "claude-opus-5-5", "max_tokens": 1000, "stream": True,
            "system": "Be brief.", "tools": [TOOL],
            "messages": list(messages) or [user("hi")]}
    body.update(more)
    return {key: value for key, value in body.items() if value is not None}


def user(*content):
    return {"role": "user", "content": [
        {"type": "text", "text": c} if isinstance(c, str) else c
        for c in content]}


def assistant(*content):
    return dict(user(*content), role="assistant")


def result(tool_id, output="1\n"):
    return {"type": "tool_result", "tool_use_id": tool_id,
            "content": [{"type": "text", "text": output}]}


def call(tool_id="toolu_x", code="1"):
    return {"type": "tool_use", "id": tool_id, "name": "run_python",
            "input": {"code": code}}


def png(width, height):
    return SIGNATURE + ihdr(width, height, depth=1, colour=0)


def image(width, height, **source):
    return {"type": "image", "source": dict({
        "type": "base64", "media_type": "image/png",
        "data": base64.b64encode(png(width, height)).decode()}, **source)}


LONG = [user("a"), assistant(call("t1"), call("t2"))]
MARK = {"type": "ephemeral"}

# (name, body or bytes, words of the message)
REFUSED = [
    ("no model", request_body(model=None), "model: Field required"),
    ("no max_tokens", request_body(max_tokens=None), "max_tokens: Field"),
    ("max_tokens 0", request_body(max_tokens=0), "max_tokens"),
    ("max_tokens over", request_body(max_tokens=128001), "128000"),
    ("max_tokens bool", request_body(max_tokens=True), "max_tokens"),
    ("no messages", request_body(messages=None), "messages: Field"),
    ("empty messages", request_body(messages=[]), "at least one"),
    ("temperature", request_body(temperature=1), "temperature: Extra"),
    ("top_p", request_body(top_p=1), "top_p: Extra"),
    ("top_k", request_body(top_k=1), "top_k: Extra"),
    ("unknown field", request_body(thread={}), "thread: Extra"),
    ("unknown in message", request_body(dict(user("a"), name="x")), "Extra"),
    ("unknown in block", request_body(user(
        {"type": "text", "text": "a", "x": 1})), "Extra"),
    ("thinking enabled", request_body(thinking={
        "type": "enabled", "budget_tokens": 1024}), "not supported"),
    ("thinking disabled", request_body(thinking={"type": "disabled"}),
     "not supported"),
    ("between_tools", request_body(thinking={"type": "between_tools"}),
     "not supported"),
    ("binding without beta", request_body(thinking={
        "type": "adaptive", "block_binding": {}}), "block_binding: Extra"),
    ("display", request_body(thinking={
        "type": "adaptive", "display": "full"}), "display"),
    ("effort", request_body(output_config={"effort": "huge"}), "effort"),
    ("speed", request_body(speed="fast"), "speed: Extra"),
    ("choice any", request_body(tool_choice={"type": "any"}), "'any'"),
    ("choice tool", request_body(tool_choice={
        "type": "tool", "name": "run_python"}), "'tool'"),
    ("choice without tools", request_body(
        tools=None, tool_choice={"type": "auto"}), "while providing tools"),
    ("tool name", request_body(tools=[dict(TOOL, name="a b")]), "name"),
    ("tool twice", request_body(tools=[TOOL, TOOL]), "unique"),
    ("tool schema", request_body(tools=[dict(TOOL, input_schema={})]),
     "input_schema"),
    ("blank text", request_body(user("")), "non-empty"),
    ("white text", request_body(user(" \n")), "non-whitespace"),
    ("white string", request_body({"role": "user", "content": "  "}),
     "non-whitespace"),
    ("blank system", request_body(system=[{"type": "text", "text": ""}]),
     "non-empty"),
    ("blank in result", request_body(user("a"), assistant(call("t")),
                                     user(result("t", ""))), "non-empty"),
    ("empty content", request_body(user()), "non-empty content"),
    ("prefill", request_body(user("a"), assistant("b")), "prefill"),
    ("first assistant", request_body(assistant("b"), user("a")),
     "first message"),
    ("role", request_body({"role": "tool", "content": "a"}), "role"),
    ("unanswered", request_body(*LONG + [user(result("t1"))]),
     "without `tool_result` blocks immediately after: t2"),
    ("unanswered at all", request_body(*LONG + [user("go on")]), "t1, t2"),
    ("answered late", request_body(*LONG + [
        user(result("t1")), user(result("t2"))]), "immediately after: t2"),
    ("orphan", request_body(user("a"), assistant("b"), user(result("t1"))),
     "unexpected `tool_use_id`"),
    ("orphan beside", request_body(*LONG + [
        user(result("t1"), result("t2"), result("t3"))]), "t3"),
    ("answered twice", request_body(*LONG + [
        user(result("t1"), result("t2"), result("t2"))]), "single result"),
    ("text first", request_body(*LONG + [
        user("so:", result("t1"), result("t2"))]), "before other content"),
    ("text between", request_body(*LONG + [
        user(result("t1"), "so:", result("t2"))]), "before other content"),
    ("id twice", request_body(
        user("a"), assistant(call("t")), user(result("t")),
        assistant(call("t")), user(result("t"))), "unique"),
    ("text after call", request_body(
        user("a"), assistant(call("t"), "b"), user(result("t"))),
     "at the end"),
    ("no tools with history", request_body(
        user("a"), assistant(call("t")), user(result("t")), tools=None),
     "tools: must be defined"),
    ("call in user", request_body(user(call())), "not allowed"),
    ("result in assistant", request_body(
        user("a"), assistant(result("t")), user("b")), "not allowed"),
    ("document in assistant", request_body(
        user("a"), assistant({"type": "document", "source": {}}),
        user("b")), "not allowed"),
    ("input no object", request_body(
        user("a"), assistant(dict(call("t"), input="x")),
        user(result("t"))), "input"),
    ("thinking never issued", request_body(
        user("a"), assistant({"type": "thinking", "thinking": "x",
                              "signature": "c2ln"}, "b"), user("c")),
     "Invalid `signature`"),
    ("ends in thinking", request_body(
        user("a"), assistant({"type": "thinking", "thinking": "x",
                              "signature": "c2ln"}), user("c")),
     "final block"),
    ("system first", request_body({"role": "system", "content": "x"},
                                  user("a")), "first message"),
    ("system after assistant", request_body(
        user("a"), assistant("b"), {"role": "system", "content": "x"}),
     "must follow a user"),
    ("system before user", request_body(
        user("a"), {"role": "system", "content": "x"}, user("b")),
     "followed by"),
    ("five marks", request_body(user(*[
        {"type": "text", "text": "a", "cache_control": MARK}] * 4),
        cache_control=MARK), "maximum of 4"),
    ("mark on thinking", request_body(user("a"), assistant(
        {"type": "thinking", "thinking": "x", "signature": "s",
         "cache_control": MARK}, "b"), user("c")), "cannot be set"),
    ("1h after 5m", request_body(
        system=[{"type": "text", "text": "s", "cache_control": MARK}],
        cache_control=dict(MARK, ttl="1h")), "1h"),
    ("citations", request_body(user(
        {"type": "text", "text": "a", "citations": [{}]})), "citations"),
    ("image of 8001", request_body(user(image(8001, 1))), "8000"),
    ("21 images", request_body(user(*[image(2001, 1)] * 21)), "2000"),
    ("601 images", request_body(user(*[image(1, 1)] * 601)), "601"),
    ("image type", request_body(user(image(
        1, 1, media_type="image/gif"))), "is image/png"),
    ("image base64", request_body(user(image(1, 1, data="a b"))), "base64"),
    ("not JSON", b"{", "not valid JSON"),
    ("not UTF-8", json.dumps(request_body(user("@"))).encode().replace(
        b"@", b"\xff"), "invalid UTF-8"),
    ("surrogate", json.dumps(request_body(user("@"))).encode().replace(
        b"@", b"\\ud83c"), "surrogate"),
    ("duplicate key", b'{"model":"a","model":"b"}', "duplicate"),
    ("NaN", json.dumps(request_body()).encode().replace(b"1000", b"NaN"),
     "NaN"),
]

# Each of these is a field of the wrong shape.
REFUSED += [("shape of " + name, body, words) for name, body, words in [
    ("body", b"[]", "not a JSON object"),
    ("model", request_body(model=1), "model"),
    ("stream", request_body(stream=1), "stream"),
    ("tier", request_body(service_tier="x"), "service_tier"),
    ("stops", request_body(stop_sequences=[" "]), "stop_sequences"),
    ("metadata", request_body(metadata={"a": 1}), "metadata"),
    ("system", request_body(system=1), "system"),
    ("system block", request_body(system=[image(1, 1)]), "only text"),
    ("system field", request_body(system=[
        {"type": "text", "text": "a", "x": 1}]), "system.0.x: Extra"),
    ("config", request_body(output_config=1), "output_config"),
    ("config field", request_body(output_config={"task_budget": 1}),
     "task_budget: Extra"),
    ("format", request_body(output_config={"format": {}}), "format"),
    ("thinking", request_body(thinking=1), "thinking"),
    ("thinking type", request_body(thinking={"type": "x"}), "thinking.type"),
    ("thinking of old model", request_body(
        model="claude-haiku-4-5", thinking={"type": "adaptive"}),
     "not supported"),
    ("between_tools field", request_body(
        model="claude-sonnet-5-5", thinking={
            "type": "between_tools", "display": "omitted"}), "Extra"),
    ("between_tools effort", request_body(
        model="claude-sonnet-5-5", output_config={"effort": "max"},
        thinking={"type": "between_tools"}), "lower effort"),
    ("tools", request_body(tools={}), "tools"),
    ("tool", request_body(tools=[1]), "tools.0"),
    ("tool field", request_body(tools=[dict(TOOL, x=1)]), "x: Extra"),
    ("tool type", request_body(tools=[dict(TOOL, type="bash_1")]), "type"),
    ("description", request_body(tools=[dict(TOOL, description=1)]),
     "description"),
    ("eager", request_body(tools=[dict(TOOL, eager_input_streaming=1)]),
     "eager_input_streaming"),
    ("choice", request_body(tool_choice=1), "tool_choice"),
    ("choice field", request_body(tool_choice={
        "type": "none", "disable_parallel_tool_use": True}), "Extra"),
    ("parallel", request_body(tool_choice={
        "type": "auto", "disable_parallel_tool_use": 1}), "boolean"),
    ("mark", request_body(cache_control={"type": "x"}), "malformed"),
    ("messages", request_body(messages={"a": 1}), "array"),
    ("message", request_body("a"), "messages.0"),
    ("no content", request_body({"role": "user"}), "Field required"),
    ("content", request_body({"role": "user", "content": 1}), "array"),
    ("too many", request_body(
        messages=[{"role": "user", "content": "a"}] * 100001), "too many"),
    ("system message's model", request_body(
        user("a"), {"role": "system", "content": "x"},
        model="claude-sonnet-5"), "not supported"),
    ("block", request_body({"role": "user", "content": [1]}), "object"),
    ("block type", request_body(user({"text": "a"})), "type: Field"),
    ("text", request_body(user({"type": "text", "text": 1})), "string"),
    ("thinking block", request_body(user("a"), assistant(
        {"type": "thinking", "thinking": "x"}, "b"), user("c")),
     "are required"),
    ("redacted", request_body(user("a"), assistant(
        {"type": "redacted_thinking"}, "b"), user("c")), "data: Field"),
    ("result id", request_body(user({"type": "tool_result"})),
     "tool_use_id: Field"),
    ("is_error", request_body(user(dict(result("t"), is_error=0))),
     "boolean"),
    ("result content", request_body(user(dict(result("t"), content=1))),
     "array"),
    ("result block", request_body(user(dict(result("t"), content=[
        call()]))), "not allowed in a tool_result"),
    ("result field", request_body(user(dict(result("t"), content=[
        {"type": "text", "text": "a", "x": 1}]))), "x: Extra"),
    ("call id", request_body(user("a"), assistant(call("a b")),
                             user(result("a b"))), "id: must match"),
    ("call name", request_body(user("a"), assistant(dict(
        call("t"), name="")), user(result("t"))), "name: Field"),
    ("source", request_body(user({"type": "image"})), "source: Field"),
    ("source type", request_body(user(image(1, 1, type="x"))),
     "source.type"),
    ("source url", request_body(user(image(1, 1, type="url"))),
     "source: Field"),
    ("source field", request_body(user(image(1, 1, x=1))), "x: Extra"),
    ("media type", request_body(user(image(1, 1, media_type="image/x"))),
     "media_type: unknown"),
    ("image data", request_body(user(image(1, 1, data=1))), "data: Field"),
    ("image bytes", request_body(user(image(1, 1, data="AAAA"))),
     "could not process"),
    ("image size", request_body(user(image(1, 1, data="A" * (
        (10 << 20) + 4)))), "10 MB"),
]]

ACCEPTED = [
    ("least", request_body(tools=None, system=None, stream=None)),
    ("string", request_body({"role": "user", "content": "a"})),
    ("options", request_body(
        thinking={"type": "adaptive", "display": "summarized"},
        output_config={"effort": "low"}, cache_control=MARK,
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        metadata={"user_id": "u"}, stop_sequences=["x"],
        system=[{"type": "text", "text": "s", "cache_control": MARK}])),
    ("consecutive", request_body(user("a"), user("b"), assistant("c"),
                                 assistant("d"), user("e"))),
    ("interrupt", request_body(*LONG + [
        user(result("t1"), dict(result("t2"), is_error=True), "stop")])),
    ("no content", request_body(user("a"), assistant(call("t")), user(
        {"type": "tool_result", "tool_use_id": "t"}))),
    ("system message", request_body(
        user("a"), {"role": "system", "content": "x"}, assistant("b"),
        user("c"), {"role": "system", "content": "y"})),
    ("20 large images", request_body(user(*[image(2001, 8000)] * 20))),
    ("surrogate pair", json.dumps(request_body(user("😀"))).encode()),
]
