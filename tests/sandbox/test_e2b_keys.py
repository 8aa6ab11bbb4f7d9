#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of a service from a command, and what happens when the service does
not accept it any more: keys may live for less long than sandboxes."""

import contextlib
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import tap  # noqa: E402
from driver_session import wait_until  # noqa: E402
from e2b_server import KEY, unavailable  # noqa: E402
from e2b_session import E2bSession  # noqa: E402

TIMEOUT_S = 180
NEXT = "e2b_another"


def ok(cell):
    assert cell.end == "done" and cell.outcome == "ok", cell
    return cell


class Changing:
    """A session whose key can become another one: at the service, and then in
    what the command prints."""

    def __init__(self, place):
        self.key = os.path.join(place, "key")
        self.runs = os.path.join(place, "runs")
        self.print(KEY)

    def print(self, text):
        with open(self.key, "w") as out:
            out.write(text)

    @property
    def n_runs(self):
        return os.path.getsize(self.runs)

    def change(self, printed=NEXT):
        self.print(printed)
        self.sb.server.keys = (NEXT,)


@contextlib.contextmanager
def changing(*options, **more):
    with tempfile.TemporaryDirectory() as place:
        c = Changing(place)
        with E2bSession(
                "key_command=printf x >>%s; cat %s" % (c.runs, c.key),
                *options, env={"E2B_API_KEY": ""}, **more) as c.sb:
            ok(c.sb.cell("x = 7"))
            assert c.n_runs == 1
            yield c


def answers(sb, words):
    return [r.status for r in sb.server.find(words)]


@tap.timeout(TIMEOUT_S)
def test_the_key_by_a_command():
    with changing() as c:
        assert ok(c.sb.cell("print(x)")).stdout == "7\n"
        assert c.n_runs == 1
    with E2bSession("key_command=echo no >&2; exit 3",
                    env={"E2B_API_KEY": ""}) as sb:
        cell = sb.cell("1", timeout=60)
        assert cell.end == "error" and "api_key_command" in cell.message, cell
        assert not sb.server.find("sandboxes")


@tap.timeout(TIMEOUT_S)
def test_another_key_while_it_is_looked_for():
    """The service refuses the one that made the sandbox: the command is run
    again, and the cell runs. Protection: e2b_ask_other_key() in on_looked(),
    e2b_loss.c."""
    with changing("auto_pause=1") as c:
        c.change()
        c.sb.server.advance(100000)
        assert ok(c.sb.cell("print(x)", timeout=60)).stdout == "7\n"
        assert c.n_runs == 2 and len(c.sb.server.created) == 1


@tap.timeout(TIMEOUT_S)
def test_another_key_for_a_renewal():
    """Else the sandbox would end under whoever uses it. Protection: the same
    in on_renewed(), e2b_life.c."""
    with changing("timeout_s=15") as c:
        c.change()
        wait_until(lambda: 401 in answers(c.sb, "POST /timeout"), 60,
                   "it is refused")
        wait_until(lambda: answers(c.sb, "POST /timeout")[-1] == 204, 60,
                   "it is renewed")
        assert c.n_runs == 2
        assert ok(c.sb.cell("print(x)")).stdout == "7\n"


@tap.timeout(TIMEOUT_S)
def test_another_key_for_the_end():
    """What is billed is ended with it. Protection: ask_other_key() in
    e2b_retire.c."""
    with changing() as c:
        c.change()
        c.sb.request(op="quit")
        assert c.sb.process.wait(60) == 0
        assert answers(c.sb, "DELETE /sandboxes/") == [401, 204]
        assert c.n_runs == 2
        assert not any(e["event"] == "left" for e in c.sb.events)


@tap.timeout(TIMEOUT_S)
def test_a_key_that_stays_wrong_is_not_asked_for_again_and_again():
    """A person may have to confirm each run of the command. Protection:
    other_key_was_asked in e2b_ask_other_key(), e2b_open.c."""
    with changing("timeout_s=15", may_leave=True) as c:
        c.change(printed="e2b_wrong")
        c.sb.server.advance(-1000)  # it lives on
        wait_until(lambda: answers(c.sb, "POST /timeout").count(401) >= 3, 60,
                   "it is refused")
        assert c.n_runs == 2
        assert ok(c.sb.cell("print(x)")).stdout == "7\n"
        c.sb.server.keys = (KEY, NEXT, "e2b_wrong")
        wait_until(lambda: answers(c.sb, "POST /timeout")[-1] == 204, 60,
                   "it is renewed")


if __name__ == "__main__":
    reason = unavailable()
    if reason:
        tap.skip_all(reason)
    tap.main(globals())
