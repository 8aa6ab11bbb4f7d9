#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wherever a reply is cut, the conversation goes on.

Six recorded replies, and one of another vendor's server that leaves out what
it can, are cut after each of their bytes, in four ways, and a second question
is asked.  Every request must be one the service takes, no
code runs twice or of half a reply, and no text is sent twice.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
sys.path.insert(0, os.path.join(HERE, "..", "fakes"))
import tap  # noqa: E402
from claude_rules import Rules, is_thinking  # noqa: E402
from claude_values import Rejection, parse_json  # noqa: E402

DRIVER = os.environ.get("TURN_DRIVER") or os.path.join(
    os.environ.get("abs_top_builddir", os.path.join(HERE, "..", "..")),
    "tests", "helpers", "turn_driver")
CORPUS = os.path.join(HERE, "..", "corpus", "fuzz_claude_stream")
NAMES = ("text", "tool", "two-tools", "thinking", "error", "max-tokens")
GAPS = "gaps"
QUESTIONS = ("First question?", "Second question?")
TEXT_KEYS = {"text_delta": "text", "thinking_delta": "thinking",
             "signature_delta": "signature"}


class Reply:
    """A recorded reply: its bytes, and what they add up to."""

    def __init__(self, name):
        self.name = name
        self.compatible = name == GAPS
        self.path = os.path.join(CORPUS, name + ".sse")
        with open(self.path, "rb") as f:
            self.data = f.read()
        self.content = []
        self.stop = None
        self.begins = {}        # id of a call: how many bytes name it
        self.stopped = None     # how many bytes say why it stopped
        self.complete = None    # how many bytes make it whole
        self._inputs = {}
        at = 0
        for part in self.data.split(b"\n\n")[:-1]:
            at += len(part) + 2
            self._add(json.loads(part.split(b"data: ", 1)[1]), at)
        for index, text in self._inputs.items():
            if self.stop == "tool_use":
                self.content[index]["input"] = json.loads(text or "{}")

    def _add(self, event, at):
        kind = event["type"]
        if kind == "content_block_start":
            self.content.append(dict(event["content_block"]))
        index = event.get("index", len(self.content) - 1)
        if kind == "content_block_start":
            if self.content[-1]["type"] == "tool_use":
                self._inputs[index] = ""
            if self.content[-1]["type"] == "tool_use" and not self.compatible:
                self.begins[self.content[-1]["id"]] = at
        elif kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "input_json_delta":
                self._inputs[index] += delta["partial_json"]
            else:
                key = TEXT_KEYS[delta["type"]]
                self.content[index][key] += delta[key]
        elif kind == "message_delta":
            self.stop = event["delta"]["stop_reason"]
            self.stopped = at
        elif kind == "message_stop":
            self.complete = at

    def text(self):
        return "".join(b["text"] for b in self.content if b["type"] == "text")

    def codes(self):
        """What is to run when the reply has come whole."""
        if self.stop != "tool_use":
            return []
        return [b["input"]["code"] for b in self.content
                if b["type"] == "tool_use"]


class Case:
    """One cut: what was done, checked step by step."""

    def __init__(self, reply, how, n_bytes):
        self.reply = reply
        self.how = how
        # Other vendors' servers may leave out what comes behind the reason.
        last = reply.stopped if reply.compatible and how == "ends" \
            else reply.complete
        self.whole = last is not None and n_bytes >= last
        self.n_bytes = n_bytes
        self.rules = Rules()
        self.requests = []
        self.runs = []
        self.turns = []

    def take(self, op):
        if op["op"] == "request":
            self._request(op["body"])
        elif op["op"] == "run":
            self.runs.append(op["code"])
        else:
            assert op["op"] == "turn", op
            self.turns.append(op)

    def _request(self, text):
        body = parse_json(text.encode())
        checked = self.rules.check(body)
        self.requests.append(body)
        n = len(self.requests)
        retried = self.how == "retry" and not self.whole
        if n == 1 and not (self.whole and self.how != "cancel"):
            for tool_id, at in self.reply.begins.items():
                if at <= self.n_bytes and not retried:
                    self.rules.begin_tool_use(tool_id)
        elif n == (2 if retried else 1):
            self._issue(checked, body)

    def _issue(self, checked, body):
        if self.reply.compatible:
            return
        if self.reply.stop == "tool_use":
            self.rules.issue(checked.prefix, body["model"],
                             self.reply.content)
        else:
            for tool_id in self.reply.begins:
                self.rules.begin_tool_use(tool_id)

    def _check_limits(self):
        """A call that the limit has cut is asked for again, with more."""
        most = [body["max_tokens"] for body in self.requests]
        at = 1 if self.how == "retry" and not self.whole else 0
        if self.reply.stop != "max_tokens" or at == 0 and (
                not self.whole or self.how == "cancel"):
            assert len(set(most)) == 1, most
            return
        assert self.requests[at]["messages"] == \
            self.requests[at + 1]["messages"], most
        assert most[at + 1] > most[at] == most[-1], most

    def finish(self):
        last = self.requests[-1]["messages"]
        self._check_limits()
        assert len(self.turns) == 2, self.turns
        assert self.turns[1]["outcome"] == "ok", self.turns
        assert self.turns[1]["shown"].startswith("Answer "), self.turns
        self._check_runs()
        self._check_texts(last)
        self._check_thinking(last)
        for before, after in zip(self.requests, self.requests[1:]):
            self._check_grown(before["messages"], after["messages"])

    def _check_runs(self):
        codes = self.reply.codes()
        if self.how == "retry" and self.reply.complete is not None:
            assert self.runs == codes, self.runs
        elif self.how == "cancel":
            # Cancelled in the same moment, it may or may not have begun.
            assert self.runs == codes[:len(self.runs)], self.runs
            assert self.whole or not self.runs, self.runs
        else:
            assert self.runs == (codes if self.whole else []), self.runs

    def _check_texts(self, messages):
        texts = [block["text"] for message in messages
                 for block in message["content"] if block["type"] == "text"]
        asked = [t for t in texts for q in QUESTIONS if q in t]
        assert texts[-1].endswith(QUESTIONS[1]), texts
        assert len(asked) == len(set(asked)) <= 2, texts
        assert len([t for t in asked if QUESTIONS[1] in t]) == 1, texts
        own = [t for t in texts if t not in asked]
        assert len(own) == len(set(own)), texts
        kept = [t for t in own if not t.startswith("Answer ")]
        whole = self.reply.text()
        for text in kept:
            # What was shown of a reply that was stopped, perhaps marked.
            common = os.path.commonprefix([text, whole])
            assert common.strip(), (text, whole)
        assert sum(t.count(whole) for t in own if whole) <= 1, texts
        shown = self.turns[0]["shown"].strip()
        if self.turns[0]["outcome"] == "interrupted" and shown:
            # What a person has read is not lost.
            assert len(kept) == 1 and kept[0].startswith(shown), texts

    def _check_thinking(self, messages):
        kept = [block for message in messages
                for block in message["content"] if is_thinking(block)]
        assert all(block in self.reply.content for block in kept), kept
        assert len(kept) <= 1, kept

    def _check_grown(self, before, after):
        """Only the first question may be taken back, with no answer to it."""
        if after[:len(before)] != before:
            assert len(before) == 1, (before, after)


def cut(how, names=NAMES, *options):
    """All cuts of one kind. Those with one outcome are checked once."""
    replies = {reply.path: reply for reply in map(Reply, names)}
    driver = subprocess.Popen([DRIVER, how] + list(options) + list(replies),
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE)
    seen, done = {}, set()
    ops, at = [], None

    def check(at, ops):
        reply = replies[at[0]]
        if ops == [{"op": "same"}]:
            ops = seen[at[0]]
        seen[at[0]] = ops
        case = Case(reply, how, at[1])
        # What was named by then changes what may come back.
        key = (at[0], case.whole, json.dumps(ops),
               tuple(begin <= at[1] for begin in reply.begins.values()))
        if key in done:
            return
        done.add(key)
        try:
            for op in ops:
                case.take(op)
            case.finish()
        except (AssertionError, Rejection) as exc:
            tap.diag("%s, %s after %d bytes" % (how, reply.name, at[1]))
            for op in ops:
                tap.diag(json.dumps(op))
            raise AssertionError("%s after %d bytes: %s"
                                 % (reply.name, at[1], exc)) from exc

    n_cuts = 0
    try:
        for line in driver.stdout:
            op = json.loads(line)
            if op["op"] != "cut":
                ops.append(op)
                continue
            if at:
                check(at, ops)
            n_cuts += 1
            ops, at = [], (op["file"], op["bytes"])
        check(at, ops)
    finally:
        driver.stdout.close()
        if driver.poll() is None and sys.exc_info()[0]:
            driver.kill()
        status = driver.wait()
    assert status == 0, "the driver ended with %d" % status
    assert n_cuts == sum(len(r.data) + 1 for r in replies.values()), n_cuts


def test_replies_are_what_they_are_recorded_for():
    stops = [Reply(name).stop for name in NAMES]
    assert stops == ["end_turn", "tool_use", "tool_use", "tool_use", None,
                     "max_tokens"], stops
    assert Reply("two-tools").codes() == ["print(3**40)",
                                          "import no_such_module"]
    assert any(is_thinking(b) for b in Reply("thinking").content)
    assert Reply("error").complete is None


@tap.timeout(120)
def test_the_connection_ends_after_each_byte():
    cut("ends")


@tap.timeout(120)
def test_the_connection_breaks_after_each_byte():
    cut("breaks")


@tap.timeout(120)
def test_the_turn_is_cancelled_after_each_byte():
    cut("cancel")


@tap.timeout(120)
def test_the_reply_is_asked_for_again_after_each_byte():
    cut("retry")


@tap.timeout(120)
def test_a_reply_with_gaps_is_cut_after_each_byte():
    assert Reply(GAPS).codes() == ["print(6 * %d)" % n for n in (7, 8, 9)]
    for how in ("ends", "breaks", "cancel", "retry"):
        cut(how, (GAPS,), "-c")


if __name__ == "__main__":
    tap.main(globals())
