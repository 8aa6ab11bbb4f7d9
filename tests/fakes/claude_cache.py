# SPDX-License-Identifier: GPL-3.0-or-later
"""The prompt cache of the service, as far as a client can tell.

    cache = Cache()
    with ClaudeServer([...], cache=cache) as server: ...
    cache.figures        one Figures for each request that was answered

A request is a row of blocks: tools, system, then those of the messages.  A mark
(cache_control) on a block keeps the prefix that ends there; the one at the top
of the request is a mark on the last block that may carry one.  From each mark
the service looks back 20 blocks for a prefix that was kept before.  A prefix
below the least size is not kept, and nothing is said about it.  A change of
the tools, the system prompt or the thinking option changes what follows it.
"""

import hashlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from claude_values import canonical  # noqa: E402

LOOK_BACK = 20
LEAST_TOKENS = 512
UNMARKABLE = ("thinking", "redacted_thinking")


class Figures:
    """tokens that were read from the cache, written to it, and neither."""

    def __init__(self, read, written, plain, marks):
        self.read = read
        self.written = written
        self.plain = plain
        self.marks = marks

    @property
    def total(self):
        return self.read + self.written + self.plain

    def __repr__(self):
        return "read %d, written %d, plain %d, marks at %s" % (
            self.read, self.written, self.plain, self.marks)


def _bare(value):
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items()
                if key != "cache_control"}
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return value


def _rows(body):
    """(what is hashed, the block) for each block, in the order of the
    cache."""
    for tool in body.get("tools", []):
        yield ("tool", tool)
    system = body.get("system", [])
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    for block in system:
        yield ("system", block)
    options = canonical([body.get("thinking"), body.get("output_config"),
                         body.get("tool_choice")])
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content:
            yield (options + message["role"], block)


def _is_markable(block):
    return block.get("type") not in UNMARKABLE and \
        not (block.get("type") == "text" and not block["text"].strip())


class Cache:
    def __init__(self, least=LEAST_TOKENS, look_back=LOOK_BACK):
        self.figures = []
        self._least = least
        self._look_back = look_back
        self._kept = set()

    def read(self, body):
        """The usage of a request, which is kept from now on."""
        digest = hashlib.sha256(body["model"].encode())
        size, sizes, digests, marks, last = 0, [], [], [], None
        for i, (kind, block) in enumerate(_rows(body)):
            text = canonical(_bare(block))
            digest.update((kind + text).encode())
            size += len(text) // 4 + 1
            sizes.append(size)
            digests.append(digest.hexdigest())
            if "cache_control" in block:
                marks.append(i)
            if _is_markable(block):
                last = i
        if "cache_control" in body and last is not None and \
                last not in marks:
            marks.append(last)
        figures = self._count(sizes, digests, sorted(marks))
        self.figures.append(figures)
        return {"input_tokens": figures.plain,
                "cache_read_input_tokens": figures.read,
                "cache_creation_input_tokens": figures.written,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": figures.written,
                    "ephemeral_1h_input_tokens": 0}}

    def _count(self, sizes, digests, marks):
        found = -1
        for mark in marks:
            for i in range(mark, max(mark - self._look_back, 0) - 1, -1):
                if digests[i] in self._kept:
                    found = max(found, i)
                    break
        kept = [m for m in marks if sizes[m] >= self._least]
        self._kept.update(digests[m] for m in kept)
        read = sizes[found] if found >= 0 else 0
        end = max([sizes[m] for m in kept] + [read])
        return Figures(read, end - read, sizes[-1] - end, marks)
