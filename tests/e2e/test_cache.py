#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was sent once is read from the service's cache, not paid again."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import Place, run  # noqa: E402

import tap  # noqa: E402
from claude_cache import Cache  # noqa: E402
from claude_server import ClaudeServer, error, reply, thinking  # noqa: E402


def converse(script, n_questions, **options):
    """The figures of each request, and the requests."""
    cache = Cache()
    with Place() as place, ClaudeServer(script, cache=cache,
                                        **options) as server:
        if "models" in options:
            place.config("model:\n  name: %s\n" % options["models"][0])
        lines = "".join("question %d, and some more words\n" % i
                        for i in range(n_questions))
        done = place.script(server, stdin=lines)
        assert done.status == 0, done
        return cache.figures, server.message_requests


def is_read(figures):
    """From the second on, all that the request before had is read."""
    for before, now in zip(figures, figures[1:]):
        assert now.read >= before.read + before.written, figures
        assert now.read > 0, figures
        assert now.plain == 0, figures


# ---- the measure itself -----------------------------------------------------

def body(n_blocks, marks=(), top=True, **more):
    content = [{"type": "text", "text": "block %d" % i} for i in
               range(n_blocks)]
    for i in marks:
        content[i]["cache_control"] = {"type": "ephemeral"}
    out = {"model": "m", "system": "s" * 4000,
           "messages": [{"role": "user", "content": content}]}
    if top:
        out["cache_control"] = {"type": "ephemeral"}
    out.update(more)
    return out


def test_the_measure():
    cache = Cache()
    first = cache.read(body(5))
    assert first["cache_read_input_tokens"] == 0, first
    assert first["cache_creation_input_tokens"] > 1000, first
    again = cache.read(body(5))
    assert again["cache_read_input_tokens"] == \
        first["cache_creation_input_tokens"], again
    assert again["cache_creation_input_tokens"] == 0, again
    assert cache.read(body(25))["cache_read_input_tokens"] == \
        again["cache_read_input_tokens"]
    # Too many blocks at once are not looked through.
    assert cache.read(body(46))["cache_read_input_tokens"] == 0
    # But are from a mark in between.
    cache = Cache()
    cache.read(body(5))
    assert cache.read(body(46, marks=[10]))["cache_read_input_tokens"] > 0


def test_what_the_measure_does_not_find():
    for change in ({"model": "n"}, {"system": "t" * 4000},
                   {"tools": [{"name": "x"}]},
                   {"thinking": {"type": "adaptive"}}):
        cache = Cache()
        cache.read(body(3))
        assert cache.read(body(3, **change))["cache_read_input_tokens"] == 0
    cache = Cache()
    cache.read(body(3, system="short"))
    assert cache.read(body(3, system="short")) \
        ["cache_read_input_tokens"] == 0
    cache = Cache()
    cache.read(body(3, top=False))
    assert cache.read(body(3))["cache_read_input_tokens"] == 0


# ---- the program ------------------------------------------------------------

@tap.timeout(120)
def test_ten_turns():
    script = []
    for i in range(10):
        script += [reply([thinking("Hm, %d." % i), run("print(%d)" % i)]),
                   reply([thinking("So."), "It is %d." % i])]
    figures, requests = converse(script, 10)
    assert len(figures) == 20
    is_read(figures)
    for request in requests:
        assert request.raw.count(b"cache_control") == 2


@tap.timeout(120)
def test_a_turn_of_many_calls():
    """One reply with so many calls that the service would not look back to
    the last request from the end."""
    calls = [run("print(%d)" % i) for i in range(12)]
    figures, requests = converse(
        [reply([thinking("All at once.")] + calls), reply(["Done."]),
         reply([thinking("Again.")] + calls), reply(["Done."]),
         reply(["Bye."])], 3)
    is_read(figures)
    marks = [request.raw.count(b"cache_control") for request in requests]
    assert marks == [2, 3, 2, 3, 2], marks


@tap.timeout(60)
def test_a_failed_request_does_not_move_the_mark():
    calls = [run("print(%d)" % i) for i in range(12)]
    figures, requests = converse(
        [reply(calls), error(529, headers={"retry-after-ms": "1"}),
         reply(["Done."])], 1)
    assert len(requests) == 3 and requests[1].raw == requests[2].raw
    is_read(figures)


@tap.timeout(60)
def test_no_marks_for_others():
    figures, requests = converse([reply(["One."]), reply(["Two."])], 2,
                                 models=("local-model",))
    for request in requests:
        assert b"cache_control" not in request.raw
    assert not any(f.read or f.written for f in figures)


if __name__ == "__main__":
    tap.main(globals())
