# SPDX-License-Identifier: GPL-3.0-or-later
"""A service and a model that fail at random, the same way for the same seed.

    faults = Faults(seed=7, rate=0.4)
    with ClaudeServer([faults], repeat=True) as server:
        ...
        for sent in faults.sent: ...

One Faults object is a whole script: it answers each request with a cell, with
several, or with an answer, and does to some replies what happens to replies.
The rules of the server hold as always.  Beside them it checks what only a look
at two requests can tell: that nothing which was answered before has changed,
and that the system prompt and the tools stay what they were.

Every piece of text has words of its own ("t12-3." is word 3 of reply 12) and
every cell prints one ("ran-12-1."), so that a test can find them where they
should be, and find them once.  `sent` lists what was sent; see Sent.
"""

import os
import random
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from claude_script import (block, cut, error, error_event, event,  # noqa: E402
                           pause, ping, raw_http, redacted_thinking, reply,
                           text, thinking, tool_use)
from claude_values import canonical  # noqa: E402

MAX_ROUNDS = 4

# Long enough to be seen, much shorter than what ends a silent stream.
STALL_S = 1.5

PLAIN_CELL = "print('ran-%s.' % '{name}')\n"


class Sent:
    """One reply.

    number   of the request, from 1
    kind     what was done to it; see STATUSES, BREAKS and ENDS
    words    the words of its text, in order
    whole    all of it was sent, and it is to be kept
    is_void  it was not, so that words that are on the screen are void
    cells    the names of the cells that it asks for
    runs     those may be run (the reply was whole and its calls are valid)
    answer   it ends the turn with an answer
    request  what it was the reply to
    """

    def __init__(self, number, request):
        self.number = number
        self.request = request
        self.kind = "plain"
        self.words = []
        self.cells = []
        self.whole = True
        self.is_void = False
        self.runs = False
        self.answer = False

    def __repr__(self):
        return "reply %d (%s)" % (self.number, self.kind)


# ---- before the stream -----------------------------------------------------

SPENT = {"error_code": "enforced_spend_limit_reached"}
PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
SOON = {"retry-after-ms": "60"}

# (name, weight, whether it is tried again, what is sent)
STATUSES = [
    ("429", 4, True, lambda: error(429, headers=SOON)),
    ("429 in seconds", 1, True,
     lambda: error(429, headers={"retry-after": "1"})),
    ("429 spent", 1, False, lambda: error(429, details=SPENT)),
    ("429 for long", 1, False,
     lambda: error(429, headers={"retry-after": "3600"})),
    ("529", 4, True, lambda: error(529, headers=SOON)),
    ("529 told to stop", 1, False,
     lambda: error(529, headers={"x-should-retry": "false"})),
    ("500", 3, True, lambda: error(500, headers=SOON)),
    ("502 page", 1, True,
     lambda: error(502, body=PAGE, content_type="text/html", headers=SOON)),
    ("504", 1, True, lambda: error(504, headers=SOON)),
    ("400 told to retry", 1, True,
     lambda: error(400, message="not at this moment",
                   headers={"x-should-retry": "true", **SOON})),
    ("401", 1, False, lambda: error(401, message="invalid x-api-key")),
    ("403", 1, False, lambda: error(403, message="not this model")),
    ("reset before the head", 3, True,
     lambda: reply(["never"], before=[cut("reset")])),
    ("closed before the head", 2, True, lambda: raw_http([cut("close")])),
    ("reset behind a pause", 1, True,
     lambda: reply(["never"], before=[pause(STALL_S), cut("reset")])),
]

# ---- in the stream ---------------------------------------------------------

# (name, weight, controls); they are put at any place of the reply.
BREAKS = [
    ("reset", 4, lambda: [cut("reset")]),
    ("closed", 2, lambda: [cut("close")]),
    ("ended early", 3, lambda: [cut("end")]),
    ("stalled, then reset", 1, lambda: [pause(STALL_S), cut("reset")]),
    ("overloaded in the stream", 4, lambda: [error_event()]),
    ("fault in the stream", 2,
     lambda: [error_event("api_error", "Internal server error")]),
    ("limit in the stream", 1,
     lambda: [error_event("rate_limit_error", "Slow down")]),
    ("fault nobody knows", 1,
     lambda: [error_event("error_of_tomorrow", "It is new")]),
]

# (name, weight); see _end.
ENDS = [("refusal", 3), ("refusal behind text", 2), ("max_tokens", 3),
        ("max_tokens in a call", 3), ("max_tokens in a call, unclosed", 2),
        ("window", 1), ("stop_sequence", 2), ("empty", 3), ("only thinking", 2),
        ("unknown stop", 2), ("no stop", 1), ("pause_turn", 3),
        ("blank text", 2), ("input that is no JSON", 3),
        ("input that is no object", 1), ("NUL in the code", 2),
        ("half a surrogate", 2), ("no input", 2), ("another input", 2),
        ("another tool", 2)]


def _choose(rng, table):
    return rng.choices(table, [row[1] for row in table])[0]


class Faults:
    """rate: how many replies of hundred are not plain, 0 to 1. cells: what
    code is asked for, as (weight, code); {name} in it is the cell's name, and
    the first thing it does should be that of PLAIN_CELL."""

    def __init__(self, seed, rate=0.4, cells=((1, PLAIN_CELL),)):
        self.rng = random.Random(seed)
        self.rate = rate
        self.cells = list(cells)
        self.sent = []
        self.problems = []
        self._lock = threading.Lock()
        self._before = None
        self._fixed = None

    def __call__(self, request):
        with self._lock:
            sent = Sent(len(self.sent) + 1, request)
            self.sent.append(sent)
            self._check_history(request)
            return self._answer(sent)

    # -- the history --

    def _check_history(self, request):
        """All but the last message of a request is behind what is answered:
        a question that failed may be taken back, and nothing else; of one
        that was refused, all that came of it."""
        body = request.body
        fixed = canonical([_bare(body.get("system")), body.get("tools")])
        if self._fixed not in (None, fixed):
            self.problems.append("request %d: the system prompt or the tools "
                                 "have changed" % len(self.sent))
        self._fixed = fixed
        now = [canonical(_bare(m)) for m in body["messages"]]
        before = (self._before or [])[:-1]
        if len(self.sent) > 1 and self.sent[-2].kind.startswith("refusal"):
            before = before[:max(len(now) - 1, 0)]
        if now[:len(before)] != before:
            at = next((i for i, (a, b) in enumerate(zip(before, now))
                       if a != b), min(len(before), len(now)))
            self.problems.append("request %d: message %d of the request "
                                 "before is gone or has changed"
                                 % (len(self.sent), at))
        self._before = now

    # -- one reply --

    def _answer(self, sent):
        rng = self.rng
        if rng.random() < self.rate / 2:
            name, _, _, make = _choose(rng, STATUSES)
            sent.kind, sent.whole = name, False
            return make()
        if rng.random() < self.rate / 3:
            return self._end(sent, _choose(rng, ENDS)[0])
        items = self._items(sent, self._wants_cell(sent))
        if rng.random() < self.rate / 2:
            name, _, make = _choose(rng, BREAKS)
            sent.kind, sent.whole, sent.is_void = name, False, True
            sent.runs = sent.answer = False
            items = self._broken(items, make())
        return reply(items, **self._shape())

    def _wants_cell(self, sent):
        """Whether another cell is asked for, by what there was so far."""
        rounds = 0
        for message in reversed(sent.request.body["messages"]):
            content = message["content"]
            if message["role"] == "user" and not any(
                    b["type"] == "tool_result" for b in content):
                break
            rounds += message["role"] == "user"
        return rounds < MAX_ROUNDS and self.rng.random() < 0.6

    def _text(self, sent, least=3, most=30):
        words = ["t%d-%d." % (sent.number, len(sent.words) + i)
                 for i in range(self.rng.randint(least, most))]
        sent.words += words
        line = ""
        for word in words:
            line += word + (" " if self.rng.random() < 0.9 else "\n\n")
        return text(line, split=self.rng.choice((None, 1, 3, 11)))

    def _thinking(self):
        kind = self.rng.random()
        if kind < 0.3:
            return thinking()
        if kind < 0.4:
            return redacted_thinking("c2VjcmV0%04d" % self.rng.randrange(9999))
        return thinking("Let me see. ", "I think.", split=5)

    def _call(self, sent):
        name = "%d-%d" % (sent.number, len(sent.cells) + 1)
        code = _choose(self.rng, [(c, w) for w, c in self.cells])[0]
        sent.cells.append(name)
        return tool_use("run_python", {"code": code.replace("{name}", name)},
                        split=self.rng.choice((None, 1, 9)),
                        caller=self.rng.choice((None, {"type": "direct"})))

    def _items(self, sent, with_cell):
        rng = self.rng
        items = []
        if rng.random() < 0.5:
            items.append(self._thinking())
        if rng.random() < 0.2:
            items.append(ping())
        if rng.random() < 0.1:
            items.append(event("event_of_tomorrow", {
                "type": "event_of_tomorrow", "index": 0}))
        if not with_cell or rng.random() < 0.7:
            items.append(self._text(sent))
        if not with_cell and rng.random() < 0.1:
            items.append(block({"type": "block_of_tomorrow", "n": [1, None]},
                               [{"type": "delta_of_tomorrow", "a": "b"}]))
        if with_cell:
            items += [self._call(sent)
                      for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        if rng.random() < 0.1:
            items.insert(rng.randrange(len(items) + 1), pause(STALL_S / 3))
        sent.runs, sent.answer = with_cell, not with_cell
        return items

    def _broken(self, items, controls):
        """Puts controls between two events of the reply."""
        places = [(item.deltas, at) for item in items
                  if hasattr(item, "deltas")
                  for at in range(len(item.deltas) + 1)]
        places += [(items, at) for at in range(len(items) + 1)]
        where, at = self.rng.choice(places)
        where[at:at] = controls
        return items

    def _shape(self):
        rng = self.rng
        shape = {"chunk": rng.choice((None, None, None, 1, 7, 33)),
                 "crlf": rng.random() < 0.1, "lean": rng.random() < 0.1}
        if rng.random() < 0.1:
            shape["leading"] = [ping()]
        if rng.random() < 0.1:
            shape["deltas"] = [{"delta": {"stop_reason": None},
                                "usage": {"output_tokens": n}}
                               for n in (1, 2)]
        return shape

    # -- how a reply may end --

    def _end(self, sent, kind):
        sent.kind = kind
        shape = self._shape()
        method = getattr(self, "_end_" + kind.split()[0].split(",")[0], None)
        if method is None:
            method = self._end_input
        items, reason = method(sent, kind)
        return reply(items, stop_reason=reason, **shape)

    def _end_refusal(self, sent, kind):
        sent.whole = False
        items = [self._text(sent)] if kind != "refusal" else []
        return items, "refusal"

    def _end_max_tokens(self, sent, kind):
        items = [self._text(sent)]
        if kind != "max_tokens":
            items.append(tool_use(
                "run_python", fragments=["", '{"code": "print(1)\\n'],
                stop="unclosed" not in kind))
            sent.whole, sent.is_void = False, True
        sent.answer = kind == "max_tokens"
        return items, "max_tokens"

    def _end_window(self, sent, _):
        sent.answer = True
        return [self._text(sent)], "model_context_window_exceeded"

    def _end_stop_sequence(self, sent, _):
        sent.answer = True
        return [self._text(sent)], "stop_sequence"

    def _end_empty(self, _, __):
        return [], "end_turn"

    def _end_only(self, _, __):
        return [self._thinking()], "end_turn"

    def _end_unknown(self, sent, _):
        sent.answer = True
        return [self._text(sent)], "stop_of_tomorrow"

    def _end_no(self, sent, kind):
        if kind == "no input":
            return self._end_input(sent, kind)
        sent.whole, sent.is_void = False, True
        return [self._text(sent), cut("end")], "end_turn"

    def _end_pause_turn(self, sent, _):
        return [self._text(sent)], "pause_turn"

    def _end_blank(self, sent, _):
        sent.answer = True
        return [text(""), self._text(sent), text(" \n")], "end_turn"

    def _end_another(self, sent, kind):
        name = "run_ruby" if kind == "another tool" else "run_python"
        return [self._text(sent), tool_use(name, {"source": "1"})], "tool_use"

    def _end_input(self, sent, kind):
        fragments = {
            "input that is no JSON": ['{"code": "print(1)', "}"],
            "input that is no object": ['["print(1)"]'],
            "NUL in the code": ['{"code": "print(\'a\\u0000b\')"}'],
            "half a surrogate": ['{"code": "print(\'\\ud83c\')"}'],
            "no input": [],
        }[kind]
        return [self._text(sent),
                tool_use("run_python", fragments=fragments)], "tool_use"


def _bare(value):
    """A value without cache breakpoints, which may come and go."""
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items()
                if key != "cache_control"}
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return value
