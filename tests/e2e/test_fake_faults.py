#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake service that fails at random: the same seed fails in the same way,
every fault occurs, and the rules hold. And: no other service is used."""

import collections
import http.client
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]

import tap  # noqa: E402
from claude_cases import (assistant, call, request_body,  # noqa: E402
                          result, user)
from claude_faults import (BREAKS, ENDS, STATUSES, Faults)  # noqa: E402
from claude_server import ClaudeServer, pause, reply, text  # noqa: E402

HEADERS = {"content-type": "application/json", "x-api-key": "k",
           "anthropic-version": "2026-10-21"}


class Asked:
    def __init__(self, *talk):
        self.body = request_body(*talk)


def post(server, body):
    """(status, body), or None where the connection broke."""
    conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        conn.request("POST", "/v1/messages", json.dumps(body), HEADERS)
        answer = conn.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        conn.close()


def draw(seed, n, rate=0.8):
    faults = Faults(seed, rate)
    for _ in range(n):
        faults(Asked())
    return faults


def test_the_same_seed():
    first, second, other = draw(7, 300), draw(7, 300), draw(8, 300)
    for a, b in zip(first.sent, second.sent):
        assert (a.kind, a.words, a.cells) == (b.kind, b.words, b.cells)
    assert [s.kind for s in first.sent] != [s.kind for s in other.sent]


def test_every_fault_occurs():
    seen = collections.Counter(s.kind for s in draw(1, 4000).sent)
    wanted = {row[0] for table in (STATUSES, BREAKS, ENDS) for row in table}
    assert set(seen) == wanted | {"plain"}, wanted ^ set(seen)


def test_no_fault_without_a_rate():
    assert {s.kind for s in draw(1, 300, 0).sent} == {"plain"}


@tap.timeout(120)
def test_what_is_sent():
    """Whole replies arrive with their words; others do not arrive whole."""
    faults = Faults(3, 0.7)
    with ClaudeServer([faults], repeat=True) as server:
        for _ in range(150):
            got = post(server, request_body())
            sent = faults.sent[-1]
            whole = got is not None and got[0] == 200 and \
                b"message_stop" in got[1]
            # They arrive whole, and are not kept all the same.
            if sent.kind.startswith(("refusal", "max_tokens in a call")):
                assert whole and not sent.whole, (sent, got)
                continue
            assert whole == sent.whole, (sent, got)
            if sent.whole and sent.words:
                data = "".join(re.findall(
                    r'"text": "((?:[^"\\]|\\.)*)"', got[1].decode()))
                assert sent.words[-1] in data, (sent, data)
        assert not faults.problems, faults.problems


def test_the_rules_hold():
    faults = Faults(3, 0.5)
    with ClaudeServer([faults], repeat=True) as server:
        for body in (request_body(user(" ")), request_body(
                user("a"), assistant(call("t1")), user("b"))):
            status, _ = post(server, body)
            assert status == 400
        assert len(server.take_violations()) == 2
        assert not faults.sent


def test_a_change_of_what_was_said_is_seen():
    first = [user("a"), assistant("b"), user("c")]
    cases = [
        ("appended", first + [assistant("d"), user("e")], False),
        ("the question is taken back", first[:2] + [user("another")], False),
        ("a mark of the cache", [user({
            "type": "text", "text": "a",
            "cache_control": {"type": "ephemeral"}})] + first[1:], False),
        ("an answer is gone", [user("a"), user("c")], True),
        ("an answer was edited", [user("a"), assistant("B"), user("c")],
         True),
        ("all is gone", [user("new")], True),
        ("a result was cut", None, True),
    ]
    for name, then, seen in cases:
        faults = Faults(1, 0)
        before = first
        if then is None:
            before = [user("a"), assistant(call("t")), user(result("t")),
                      assistant("b"), user("c")]
            then = before[:2] + [user(result("t", "2\n"))] + before[3:]
        faults(Asked(*before))
        faults(Asked(*then))
        assert bool(faults.problems) == seen, (name, faults.problems)


def test_a_change_of_the_system_prompt_is_seen():
    faults = Faults(1, 0)
    faults(Asked())
    request = Asked()
    request.body["system"] = "Be long."
    faults(request)
    assert faults.problems


def test_a_pause():
    with ClaudeServer([reply([text("a", pause(0.4), "b")])]) as server:
        start = time.monotonic()
        status, data = post(server, request_body())
        assert status == 200 and b"message_stop" in data
        assert time.monotonic() - start >= 0.39


def test_a_paused_turn_is_sent_back():
    """Stop reason pause_turn is the one after which a request may end with
    the model's own words, and only with those."""
    with ClaudeServer([reply(["So far."], stop_reason="pause_turn"),
                       reply(["Done."])]) as server:
        post(server, request_body())
        for words, status in (("So near.", 400), ("So far.", 200)):
            got = post(server, request_body(user("hi"), assistant(words)))
            assert got[0] == status, (words, got)
        assert len(server.take_violations()) == 1


# A test of its own service needs a reason: what it is for is no service.
OTHERS = {"test_e2b_harness.py": "ports of the strict fake of sandboxes",
          "test_hostile_cells.py": "nobody may come to it",
          "test_https.py": "answers a client of TLS without TLS",
          "test_interrupt.py": "a port that leads to the strict service",
          "test_proxy.py": "proxies in front of the strict service"}


def test_no_service_is_less_strict():
    """Every test of the program that has a service has this one."""
    foreign = re.compile(r"create_server|http\.server|socketserver|"
                         r"HTTPServer|\.listen\(")
    found = set()
    for name in sorted(os.listdir(HERE)):
        if not name.endswith(".py") or name == os.path.basename(__file__):
            continue
        with open(os.path.join(HERE, name), encoding="utf-8") as source:
            lines = source.read()
        if foreign.search(lines):
            found.add(name)
        # What is refused is asked for on purpose in tests of the fakes only.
        assert "take_violations" not in lines or \
            name.startswith(("test_fake_", "test_e2b_harness")), name
    assert found == set(OTHERS), found ^ set(OTHERS)


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has no part in it")
    tap.main(globals())
