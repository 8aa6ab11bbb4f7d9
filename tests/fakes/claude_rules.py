# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Messages API refuses, as a pure machine.

`Rules.check(...)` looks at one request and raises `Rejection` for the first
thing the service would not take.  It does no I/O.  It remembers, over the
life of the object, which thinking blocks and tool calls were issued and what
stood before them, because a thinking block is only valid behind the very
same system prompt, tools and messages.  Hand one Rules object to a second
server to go on with a session after a restart.
"""

import base64
import binascii
import hashlib
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from claude_values import (Rejection, canonical, image_size,  # noqa: E402
                           need)

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_IMAGE_BASE64 = 10 * 1024 * 1024
MAX_MESSAGES = 100000
MAX_CACHE_CONTROL = 4
MAX_SIDE_PX = 8000
MANY_IMAGES = 20
MAX_SIDE_MANY_PX = 2000

VERSIONS = ("2026-10-21", "2023-06-01")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
BETA_BINDING = "thinking-binding-controls-2026-08-01"
BETA_UPDATES = "thinking-display-updates-2026-08-18"
BETA_FAST = "fast-mode-2026-02-01"

# id -> (context window, largest output)
MODELS = {
    "claude-fable-5-2": (1000000, 128000),
    "claude-mythos-5-2": (1000000, 128000),
    "claude-haiku-5-5": (1000000, 128000),
    "claude-sonnet-5-5": (1000000, 128000),
    "claude-fable-5-1": (1000000, 128000),
    "claude-opus-5-5": (1000000, 128000),
    "claude-mythos-5-1": (1000000, 128000),
    "claude-sonnet-5": (1000000, 128000),
    "claude-fable-5": (1000000, 128000),
    "claude-mythos-5": (1000000, 128000),
    "claude-opus-5": (1000000, 128000),
    "claude-opus-4-8": (1000000, 128000),
    "claude-opus-4-7": (1000000, 128000),
    "claude-opus-4-6": (1000000, 128000),
    "claude-sonnet-4-6": (1000000, 128000),
    "claude-haiku-4-5": (200000, 64000),
}
ADAPTIVE_UNKNOWN = ("claude-haiku-4-5",)
SYSTEM_MESSAGE_UNKNOWN = ("claude-sonnet-5", "claude-opus-4-7",
                          "claude-opus-4-6", "claude-sonnet-4-6",
                          "claude-haiku-4-5")

TOP_FIELDS = frozenset((
    "model", "max_tokens", "messages", "system", "tools", "tool_choice",
    "thinking", "output_config", "cache_control", "stop_sequences", "stream",
    "metadata", "service_tier", "inference_geo", "container", "diagnostics",
    "speed"))
SAMPLING = ("temperature", "top_p", "top_k")
TOOL_FIELDS = frozenset((
    "name", "description", "input_schema", "type", "strict",
    "input_examples", "eager_input_streaming", "cache_control",
    "allowed_callers", "defer_loading"))
BLOCK_FIELDS = {
    "text": {"type", "text", "cache_control", "citations"},
    "image": {"type", "source", "cache_control", "transformations"},
    "document": {"type", "source", "cache_control", "title", "context",
                 "citations"},
    "search_result": {"type", "source", "title", "content", "cache_control",
                      "citations"},
    "tool_result": {"type", "tool_use_id", "content", "is_error",
                    "cache_control"},
    "tool_use": {"type", "id", "name", "input", "caller", "toolset_name",
                 "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
USER_BLOCKS = ("text", "image", "document", "search_result", "tool_result")
ASSISTANT_BLOCKS = ("text", "tool_use", "thinking", "redacted_thinking")
RESULT_BLOCKS = ("text", "image", "document", "search_result")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")


def _bare(block):
    """A block as far as its place in the history is bound."""
    out = {key: value for key, value in block.items()
           if key != "cache_control" and value is not None}
    if block.get("type") == "tool_result" and \
            isinstance(block.get("content"), list):
        out["content"] = [_bare(item) for item in block["content"]
                          if isinstance(item, dict)]
    return out


def _blocks(content):
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content


def is_thinking(block):
    return block.get("type") in ("thinking", "redacted_thinking")


def _is_blank_text(block):
    return block.get("type") == "text" and not block["text"].strip()


def _thinking_key(block):
    return block.get("signature") or block.get("data") or ""


class Prefix:
    """Running digest of everything that precedes a point of the history."""

    def __init__(self, system, tools):
        self._hash = hashlib.sha256()
        self._role = None
        self.signatures = []
        for part in _blocks(system if system is not None else []):
            self._hash.update(b"s" + canonical(_bare(part)).encode())
        for tool in tools or []:
            self._hash.update(b"t" + canonical(_bare(tool)).encode())

    def role(self, role):
        # Messages of one role in a row are one turn to the service.
        if role != self._role:
            self._hash.update(b"r" + role.encode())
            self._role = role

    def add(self, block):
        # Blank text may be filtered from what is sent back; dropping
        # thinking from the start or the end is allowed, so thinking is kept
        # out of the digest and its order is compared apart.
        if is_thinking(block):
            self.signatures.append(_thinking_key(block))
        elif not _is_blank_text(block):
            self._hash.update(b"b" + canonical(_bare(block)).encode())

    def digest(self):
        return self._hash.hexdigest()

    def copy(self):
        other = Prefix(None, None)
        other._hash = self._hash.copy()
        other._role = self._role
        other.signatures = list(self.signatures)
        return other


# ---- the checks -----------------------------------------------------------

def check_headers(headers, keys=None):
    """headers: list of (lower-case name, value). Returns the set of betas."""
    def values(name):
        return [value for key, value in headers if key == name]

    bearer, x_key = values("authorization"), values("x-api-key")
    need(bearer or x_key, "authentication: x-api-key or authorization header "
         "is required", 401)
    need(len(bearer) + len(x_key) == 1, "authentication: exactly one of "
         "x-api-key and authorization may be sent")
    if bearer:
        need(re.match(r"Bearer \S+$", bearer[0]),
             "authentication: not a Bearer token", 401)
    key = bearer[0][len("Bearer "):] if bearer else x_key[0]
    need(key.strip(), "authentication: empty key", 401)
    need(keys is None or key in keys, "invalid key", 401)

    version = values("anthropic-version")
    need(version, "anthropic-version: header is required")
    need(len(version) == 1 and version[0] in VERSIONS,
         "anthropic-version: %r is not a valid version" % ", ".join(version))
    return {name.strip() for value in values("anthropic-beta")
            for name in value.split(",") if name.strip()}


class Checked:
    """What a valid request left behind for the reply."""

    def __init__(self, prefix, transformations):
        self.prefix = prefix
        self.transformations = transformations


class Rules:
    def __init__(self, models=()):
        self.models = dict(MODELS)
        for name in models:
            self.models.setdefault(name, (1000000, 128000))
        self._thinking = {}
        self._tool_uses = {}
        self._other = set()
        self._paused = set()

    # -- what was issued --

    def issue(self, prefix, model, content):
        """Records a reply that was sent whole (up to message_stop)."""
        at = prefix.copy()
        at.role("assistant")
        for block in content:
            if is_thinking(block):
                self._thinking[_thinking_key(block)] = (
                    canonical(_bare(block)), at.digest(),
                    list(at.signatures), model)
            elif block["type"] == "tool_use":
                self._tool_uses[block["id"]] = block
            elif block["type"] not in BLOCK_FIELDS:
                self._other.add(canonical(_bare(block)))
            at.add(block)

    def pause(self, content):
        """Records a reply that is to be sent back with nothing behind it."""
        self._paused.add(canonical([_bare(block) for block in content]))

    def begin_tool_use(self, tool_id):
        """Records a call whose reply may still be cut off."""
        self._tool_uses.setdefault(tool_id, None)

    # -- one request --

    def check(self, body, betas=(), version=VERSIONS[0], counting=False):
        need(isinstance(body, dict), "The request body is not a JSON object")
        self._check_top(body, betas, counting)
        model = body["model"]
        self._check_thinking_option(body, betas, model)
        self._check_tools(body)
        self._check_cache_control(body)
        self._check_messages(body, model, version)
        self._check_tool_pairs(body)
        self._check_images(body)
        return self._check_binding(body, model)

    def _check_top(self, body, betas, counting):
        for name in SAMPLING:
            need(name not in body, "%s: Extra inputs are not permitted"
                 % name)
        allowed = TOP_FIELDS - {"max_tokens", "stream"} if counting \
            else TOP_FIELDS
        for name in body:
            need(name in allowed, "%s: Extra inputs are not permitted" % name)
        for name in ("model", "messages") + \
                (() if counting else ("max_tokens",)):
            need(name in body, "%s: Field required" % name)
        model = body["model"]
        need(isinstance(model, str) and model, "model: must be a string")
        need(model in self.models, "model: %s" % model, 404)
        if not counting:
            tokens = body["max_tokens"]
            need(isinstance(tokens, int) and not isinstance(tokens, bool)
                 and tokens >= 1, "max_tokens: must be at least 1")
            need(tokens <= self.models[model][1], "max_tokens: %d > %d, the "
                 "maximum of %s" % (tokens, self.models[model][1], model))
            need(isinstance(body.get("stream", False), bool),
                 "stream: must be a boolean")
        need("speed" not in body or (BETA_FAST in betas and body["speed"] in
                                     ("standard", "fast")),
             "speed: Extra inputs are not permitted")
        need(body.get("service_tier", "auto") in ("auto", "standard_only"),
             "service_tier: unknown value")
        stops = body.get("stop_sequences", [])
        need(isinstance(stops, list) and
             all(isinstance(s, str) and s.strip() for s in stops),
             "stop_sequences: each must contain non-whitespace")
        meta = body.get("metadata", {})
        need(isinstance(meta, dict) and set(meta) <= {"user_id"},
             "metadata: Extra inputs are not permitted")
        self._check_system(body.get("system", []))
        self._check_output_config(body.get("output_config", {}))

    @staticmethod
    def _check_system(system):
        if isinstance(system, str):
            return
        need(isinstance(system, list), "system: must be a string or an array")
        for i, block in enumerate(system):
            where = "system.%d" % i
            need(isinstance(block, dict) and block.get("type") == "text",
                 "%s: only text blocks are allowed" % where)
            _check_fields(block, BLOCK_FIELDS["text"], where)
            _check_text(block, where)

    @staticmethod
    def _check_output_config(config):
        need(isinstance(config, dict), "output_config: must be an object")
        _check_fields(config, {"effort", "format"}, "output_config")
        need(config.get("effort", "high") in EFFORTS,
             "output_config.effort: unknown value")
        if "format" in config:
            form = config["format"]
            need(isinstance(form, dict) and form.get("type") == "json_schema"
                 and isinstance(form.get("schema"), dict),
                 "output_config.format: must be a json_schema")

    @staticmethod
    def _check_thinking_option(body, betas, model):
        if "thinking" not in body:
            return
        option = body["thinking"]
        need(isinstance(option, dict), "thinking: must be an object")
        kind = option.get("type")
        need(kind not in ("enabled", "disabled"),
             "thinking.type: \"%s\" is not supported by %s" % (kind, model))
        need(kind in ("adaptive", "between_tools"),
             "thinking.type: unknown value %r" % kind)
        need(model not in ADAPTIVE_UNKNOWN,
             "thinking.type: \"%s\" is not supported by %s" % (kind, model))
        if kind == "between_tools":
            need(model == "claude-sonnet-5-5",
                 "thinking.type: \"between_tools\" is not supported by %s"
                 % model)
            _check_fields(option, {"type"}, "thinking")
            need(body.get("output_config", {}).get("effort", "high")
                 in ("low", "medium", "high"),
                 "thinking.type: \"between_tools\" needs a lower effort")
            return
        allowed = {"type", "display"}
        if BETA_BINDING in betas:
            allowed.add("block_binding")
        _check_fields(option, allowed, "thinking")
        displays = ["omitted", "summarized"]
        if BETA_UPDATES in betas:
            displays.append("updates")
        need(option.get("display", "omitted") in displays,
             "thinking.display: unknown value")
        binding = option.get("block_binding", {})
        need(isinstance(binding, dict), "thinking.block_binding: not an "
             "object")
        need(binding.get("prefix_mismatch_behavior", "error")
             in ("error", "drop_block"),
             "thinking.block_binding.prefix_mismatch_behavior: unknown value")

    @staticmethod
    def _check_tools(body):
        tools = body.get("tools", [])
        need(isinstance(tools, list), "tools: must be an array")
        names = set()
        for i, tool in enumerate(tools):
            where = "tools.%d" % i
            need(isinstance(tool, dict), "%s: must be an object" % where)
            _check_fields(tool, TOOL_FIELDS, where)
            need(tool.get("type", "custom") == "custom",
                 "%s.type: unknown tool type" % where)
            name = tool.get("name")
            need(isinstance(name, str) and
                 re.match(r"[a-zA-Z0-9_-]{1,64}\Z", name),
                 "%s.name: must match ^[a-zA-Z0-9_-]{1,64}$" % where)
            need(name not in names, "tools: Tool names must be unique")
            names.add(name)
            need(isinstance(tool.get("description", ""), str),
                 "%s.description: must be a string" % where)
            schema = tool.get("input_schema")
            need(isinstance(schema, dict) and schema.get("type") == "object",
                 "%s.input_schema.type: must be \"object\"" % where)
            need(isinstance(tool.get("eager_input_streaming", False), bool),
                 "%s.eager_input_streaming: must be a boolean" % where)
        if "tool_choice" not in body:
            return
        choice = body["tool_choice"]
        need(isinstance(choice, dict), "tool_choice: must be an object")
        need(tools, "tool_choice: may only be specified while providing "
             "tools")
        need(choice.get("type") in ("auto", "none"),
             "tool_choice.type: %r is not supported by this model"
             % choice.get("type"))
        _check_fields(choice, {"type", "disable_parallel_tool_use"}
                      if choice["type"] == "auto" else {"type"},
                      "tool_choice")
        need(isinstance(choice.get("disable_parallel_tool_use", False), bool),
             "tool_choice.disable_parallel_tool_use: must be a boolean")

    @staticmethod
    def _check_cache_control(body):
        marks = []

        def look(holder, where):
            if not isinstance(holder, dict):
                return
            mark = holder.get("cache_control")
            if mark is None:
                return
            need(not is_thinking(holder), "%s.cache_control: cannot be set "
                 "on thinking blocks" % where)
            need(isinstance(mark, dict) and mark.get("type") == "ephemeral"
                 and set(mark) <= {"type", "ttl"} and
                 mark.get("ttl", "5m") in ("5m", "1h"),
                 "%s.cache_control: malformed" % where)
            marks.append(mark.get("ttl", "5m"))

        for i, tool in enumerate(body.get("tools", [])):
            look(tool, "tools.%d" % i)
        system = body.get("system")
        for i, block in enumerate(system if isinstance(system, list) else []):
            look(block, "system.%d" % i)
        messages = body["messages"]
        need(isinstance(messages, list), "messages: must be an array")
        for i, message in enumerate(messages):
            content = message.get("content") if isinstance(message, dict) \
                else None
            for j, block in enumerate(content if isinstance(content, list)
                                      else []):
                where = "messages.%d.content.%d" % (i, j)
                inner = block.get("content") if isinstance(block, dict) \
                    else None
                for k, item in enumerate(inner if isinstance(inner, list)
                                         else []):
                    look(item, "%s.content.%d" % (where, k))
                look(block, where)
        look(body, "top")
        need(len(marks) <= MAX_CACHE_CONTROL, "A maximum of %d blocks with "
             "cache_control may be provided. Found %d."
             % (MAX_CACHE_CONTROL, len(marks)))
        need("1h" not in marks[marks.index("5m"):] if "5m" in marks else True,
             "cache_control: a ttl of 1h must not come after one of 5m")

    # -- messages --

    def _check_messages(self, body, model, version):
        messages = body["messages"]
        need(messages, "messages: at least one message is required")
        need(len(messages) <= MAX_MESSAGES, "messages: too many")
        for i, message in enumerate(messages):
            where = "messages.%d" % i
            need(isinstance(message, dict), "%s: must be an object" % where)
            _check_fields(message, {"role", "content"}, where)
            role = message.get("role")
            need(role in ("user", "assistant", "system"),
                 "%s.role: must be user, assistant or system" % where)
            need("content" in message, "%s.content: Field required" % where)
            content = message["content"]
            if isinstance(content, str):
                _check_text({"text": content}, where)
                continue
            need(isinstance(content, list), "%s.content: must be a string or "
                 "an array" % where)
            need(content, "%s: must have non-empty content" % where)
            for j, block in enumerate(content):
                self._check_block(block, role, "%s.content.%d" % (where, j),
                                  version)
            if role == "assistant":
                need(not is_thinking(content[-1]), "%s: the final block of "
                     "an assistant message cannot be thinking" % where)
        need(messages[0]["role"] == "user",
             "messages.0: first message must use the user role")
        last = messages[-1]
        need(last["role"] != "assistant" or
             canonical([_bare(block) for block in _blocks(last["content"])])
             in self._paused, "This model does not "
             "support assistant message prefill. The conversation must end "
             "with a user message.")
        self._check_system_messages(messages, model)

    @staticmethod
    def _check_system_messages(messages, model):
        for i, message in enumerate(messages):
            if message["role"] != "system":
                continue
            need(model not in SYSTEM_MESSAGE_UNKNOWN,
                 "messages.%d.role: system is not supported by %s"
                 % (i, model))
            need(messages[i - 1]["role"] == "user", "messages.%d: a system "
                 "message must follow a user message" % i)
            need(i + 1 == len(messages) or
                 messages[i + 1]["role"] == "assistant",
                 "messages.%d: a system message must be last or followed by "
                 "an assistant message" % i)

    def _check_block(self, block, role, where, version):
        need(isinstance(block, dict), "%s: must be an object" % where)
        kind = block.get("type")
        need(isinstance(kind, str), "%s.type: Field required" % where)
        if role == "assistant" and canonical(_bare(block)) in self._other:
            return
        allowed = {"user": USER_BLOCKS, "assistant": ASSISTANT_BLOCKS,
                   "system": ("text",)}[role]
        need(kind in allowed, "%s: Input tag '%s' is not allowed in a message "
             "of role %s" % (where, kind, role))
        # cache_control on thinking has had its own message already.
        _check_fields(block, BLOCK_FIELDS[kind], where)
        if kind == "text":
            _check_text(block, where)
            need(role == "assistant" or not block.get("citations") or
                 version != VERSIONS[0],
                 "%s.citations: not allowed in user text" % where)
        elif kind == "image":
            _check_image(block, where)
        elif kind == "tool_result":
            self._check_tool_result(block, where)
        elif kind == "tool_use":
            self._check_tool_use(block, where)
        elif kind == "thinking":
            need(isinstance(block.get("thinking"), str) and
                 isinstance(block.get("signature"), str),
                 "%s: thinking and signature are required" % where)
        elif kind == "redacted_thinking":
            need(isinstance(block.get("data"), str),
                 "%s.data: Field required" % where)

    @staticmethod
    def _check_tool_result(block, where):
        need(isinstance(block.get("tool_use_id"), str),
             "%s.tool_use_id: Field required" % where)
        need(isinstance(block.get("is_error", False), bool),
             "%s.is_error: must be a boolean" % where)
        content = block.get("content", "")
        if isinstance(content, str):
            return
        need(isinstance(content, list),
             "%s.content: must be a string or an array" % where)
        for k, item in enumerate(content):
            inner = "%s.content.%d" % (where, k)
            need(isinstance(item, dict) and item.get("type") in RESULT_BLOCKS,
                 "%s: not allowed in a tool_result" % inner)
            _check_fields(item, BLOCK_FIELDS[item["type"]], inner)
            if item["type"] == "text":
                _check_text(item, inner)
            elif item["type"] == "image":
                _check_image(item, inner)

    def _check_tool_use(self, block, where):
        need(isinstance(block.get("id"), str) and
             re.match(r"[a-zA-Z0-9_-]+\Z", block["id"]),
             "%s.id: must match ^[a-zA-Z0-9_-]+$" % where)
        need(isinstance(block.get("name"), str) and block["name"],
             "%s.name: Field required" % where)
        need(isinstance(block.get("input"), dict),
             "%s.input: must be an object" % where)
        if block["id"] not in self._tool_uses:
            return
        issued = self._tool_uses[block["id"]]
        need(issued is not None, "%s: tool_use %s is of a reply that was "
             "never finished" % (where, block["id"]))
        need(block["name"] == issued["name"] and
             (issued["input"] is None or canonical(block["input"]) ==
              canonical(issued["input"])),
             "%s: tool_use %s differs from the one issued"
             % (where, block["id"]))

    def _check_tool_pairs(self, body):
        messages = body["messages"]
        waiting, seen, used_tools = [], set(), False
        for i, message in enumerate(messages):
            where = "messages.%d" % i
            blocks = _blocks(message["content"])
            results = [b["tool_use_id"] for b in blocks
                       if b["type"] == "tool_result"]
            if waiting:
                missing = [w for w in waiting if w not in results]
                need(message["role"] == "user" and not missing,
                     "%s: `tool_use` ids were found without `tool_result` "
                     "blocks immediately after: %s"
                     % (where, ", ".join(missing or waiting)))
            for result in results:
                need(result in waiting, "%s: unexpected `tool_use_id` found "
                     "in `tool_result` blocks: %s" % (where, result))
            need(len(results) == len(set(results)),
                 "%s: each tool_use must have a single result" % where)
            if results:
                first_other = next((j for j, b in enumerate(blocks)
                                    if b["type"] != "tool_result"),
                                   len(blocks))
                need(first_other == len(results), "%s: `tool_result` blocks "
                     "must come before other content" % where)
            waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
            for j, block in enumerate(blocks[:-1]):
                need(block["type"] != "tool_use" or
                     blocks[j + 1]["type"] not in ("text", "thinking",
                                                   "redacted_thinking"),
                     "%s: `tool_use` blocks must stand at the end" % where)
            for tool_id in waiting:
                need(tool_id not in seen, "%s: `tool_use` ids must be unique"
                     % where)
                seen.add(tool_id)
            used_tools = used_tools or bool(waiting)
        need(not used_tools or body.get("tools"), "tools: must be defined "
             "when the history has `tool_use` blocks")

    def _check_images(self, body):
        found = []
        for i, message in enumerate(body["messages"]):
            for j, block in enumerate(_blocks(message["content"])):
                where = "messages.%d.content.%d" % (i, j)
                inner = block.get("content")
                found += [("%s.content.%d" % (where, k), item)
                          for k, item in enumerate(inner if
                                                   isinstance(inner, list)
                                                   else [])
                          if item.get("type") == "image"]
                if block["type"] == "image":
                    found.append((where, block))
        limit = 600 if self.models[body["model"]][0] >= 1000000 else 100
        need(len(found) <= limit, "too many images: %d > %d"
             % (len(found), limit))
        side = MAX_SIDE_MANY_PX if len(found) > MANY_IMAGES else MAX_SIDE_PX
        large = []
        for where, block in found:
            if block["source"]["type"] != "base64":
                continue
            size = image_size(base64.b64decode(block["source"]["data"]))
            if max(size[1:]) > side:
                large.append(where)
        need(not large, "image dimensions exceed %d pixels: %s"
             % (side, ", ".join(large)),
             details={"error_code": "image_dimensions_too_large",
                      "max_side_length_pixels": side, "paths": large})

    def _check_binding(self, body, model):
        binding = body.get("thinking", {}).get("block_binding", {})
        drop = binding.get("prefix_mismatch_behavior") == "drop_block"
        prefix = Prefix(body.get("system"), body.get("tools"))
        dropped = []
        for i, message in enumerate(body["messages"]):
            prefix.role(message["role"])
            for j, block in enumerate(_blocks(message["content"])):
                if is_thinking(block):
                    issued = self._thinking.get(_thinking_key(block))
                    if issued and issued[3] != model:
                        continue
                    where = "messages.%d.content.%d" % (i, j)
                    reason = _binding_fault(block, issued, prefix)
                    if reason and drop:
                        dropped.append({"type": "thinking_dropped",
                                        "path": where, "reason": reason})
                        continue
                    need(not reason, "%s: Invalid `signature` in `thinking` "
                         "block. %s" % (where, reason))
                prefix.add(block)
        return Checked(prefix, dropped)


def _binding_fault(block, issued, prefix):
    if issued is None:
        return "The signature was never issued."
    if canonical(_bare(block)) != issued[0]:
        return "The block differs from the one issued."
    before = prefix.signatures
    if prefix.digest() != issued[1] or \
            (before and issued[2][-len(before):] != before):
        return "The block is bound to a different conversation."
    return None


def _check_fields(holder, allowed, where):
    for name in holder:
        need(name in allowed, "%s.%s: Extra inputs are not permitted"
             % (where, name))


def _check_text(block, where):
    text = block.get("text")
    need(isinstance(text, str), "%s.text: must be a string" % where)
    need(text, "%s: text content blocks must be non-empty" % where)
    need(text.strip(), "%s: text content blocks must contain non-whitespace "
         "text" % where)


def _check_image(block, where):
    source = block.get("source")
    need(isinstance(source, dict), "%s.source: Field required" % where)
    kind = source.get("type")
    need(kind in ("base64", "url", "file"), "%s.source.type: unknown value"
         % where)
    if kind != "base64":
        need(isinstance(source.get("url" if kind == "url" else "file_id"),
                        str), "%s.source: Field required" % where)
        return
    _check_fields(source, {"type", "media_type", "data"}, where + ".source")
    need(source.get("media_type") in IMAGE_TYPES,
         "%s.source.media_type: unknown value" % where)
    data = source.get("data")
    need(isinstance(data, str), "%s.source.data: Field required" % where)
    need(len(data) <= MAX_IMAGE_BASE64, "%s.source: image exceeds 10 MB"
         % where)
    try:
        size = image_size(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise Rejection("%s.source.data: invalid base64" % where)
    need(size is not None, "%s.source: could not process image" % where)
    need(size[0] == source["media_type"], "%s.source: the image is %s, not "
         "%s" % (where, size[0], source["media_type"]))
