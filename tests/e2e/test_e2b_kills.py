#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""At every step of a session something is taken away: the connection, the
sandbox, the service. It ends in bounded time, says so once, runs nothing twice,
leaves nothing that costs money, and the conversation stays valid.

A session without trouble is recorded first: its requests are the steps. make
check takes every tenth pair of a step and a way to fail, SANDPIPER_E2B_EVERY=1
(make check-e2b-all) all of them.
"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]

import tap  # noqa: E402
from claude_server import ClaudeServer, reply  # noqa: E402
from e2b_server import KEY, unavailable  # noqa: E402
from e2b_session import check_service  # noqa: E402
from e2b_steps import MARKS, WAYS, CountingServer, Step  # noqa: E402
from program import FACTOR, Place, messages, run  # noqa: E402
from service_run import NAME, write_entry  # noqa: E402

EVERY = int(os.environ.get("SANDPIPER_E2B_EVERY") or 10)
BOUND_S = 100 * FACTOR
WORDS = ("first", "second")
CELLS = tuple("open(%r, 'a').write(%r)\n" % (MARKS, word) + code
              for word, code in zip(WORDS, (
                  "print('rows', len(sales))\n"
                  "import matplotlib.pyplot as plt\n"
                  "plt.plot([1, 3, 2])\nplt.title('Sales')\nplt.show()",
                  "import os\nos.makedirs('output', exist_ok=True)\n"
                  "sales.to_csv('output/out.csv')\nprint('written')")))
TROUBLE = re.compile(r"^(?:error|warning): .*", re.MULTILINE)
# That a file is not copied is said of each, whatever the reason.
NOT_COPIED = "warning: the cell left "


def answer(request):
    """The next cell, or the end: as many were run as have a result."""
    n = sum(block["type"] == "tool_result"
            for _, content in messages(request) for block in content)
    return reply([run(CELLS[n])] if n < len(CELLS) else ["All done."])


class Ran:
    """What came of one session."""

    def __init__(self, server):
        with Place() as place, ClaudeServer([answer],
                                            repeat=True) as claude:
            place.file("sales.csv")
            write_entry(place.homes, server)
            done = place.script(claude, "--sandbox", NAME, "-c", "how many?",
                                "sales.csv", timeout=BOUND_S)
            self.status = done.status
            self.text = done.stderr.decode("utf-8", "replace")
            assert KEY.encode() not in done.stdout + done.stderr, done
            self.said = TROUBLE.findall(self.text)
            # That something is left which costs is said besides.
            self.left = [line for line in self.said
                         if "could not be ended" in line]
            self.trouble = [line for line in self.said
                            if not line.startswith(NOT_COPIED)
                            and line not in self.left]
            self.results = []
            if claude.message_requests:
                self.results = statuses(claude.message_requests[-1])
            self.files = place_files(place)

    @property
    def is_whole(self):
        return (self.status == 0 and self.files == ["out.csv", "png"]
                and self.results == ["ok"] * len(CELLS))


def statuses(request):
    """The status of each cell, as the model was told it."""
    found = []
    for _, content in messages(request):
        for block in content:
            if block["type"] == "tool_result":
                text = str(block.get("content", ""))
                said = re.search(r"\[status: (\w+)", text)
                found.append(said.group(1) if said else text[:200])
    return found


def place_files(place):
    """What was brought out, the chart by its kind."""
    found = set()
    for _, _, names in os.walk(os.path.join(place.state, "sessions")):
        found |= {"png" if n.endswith(".png") else n for n in names}
    return sorted(found & {"png", "out.csv"})


def record():
    """The steps: requests of a session without trouble."""
    with CountingServer() as server:
        done = Ran(server)
        assert done.is_whole, (done.results, done.files, done.text)
        assert not done.trouble, done.text
        check_service(server)
        for word in WORDS:
            assert server.ran(word) == 1, server.counted
        return ["%s %s" % (r.method, r.path) for r in server.requests]


def check_step(steps, number, way):
    what = "%s at step %d of %d, %s" % (way, number, len(steps),
                                        steps[number])
    server = CountingServer()
    try:
        step = Step(server, number, way)
        done = Ran(server)
        step.join()
        tap.diag("%s: status %d, %s %s" % (what, done.status, done.results,
                                           done.trouble))
        assert step.reached.is_set() or done.is_whole, what
        # What was of no consequence may be passed over.
        least = 0 if done.is_whole else 1
        assert least <= len(done.said), (what, done.text)
        assert len(done.trouble) <= 1, (what, done.text)
        assert len(done.left) <= (way == "die"), (what, done.text)
        if way == "die":
            server.check()
        else:
            check_service(server)
    finally:
        server.close()
    for word in WORDS:
        assert server.ran(word) <= 1, (what, server.counted, server.requests)
        # Nothing is said to have gone well that has not run.
        assert server.ran(word) or not done.is_whole, (what, done.text)


def main():
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip() and EVERY > 1:
        tap.skip_all("the back end is tried in this build by test_e2b.py")
    if unavailable():
        tap.skip_all(unavailable())
    steps = []

    def test_recorded():
        steps.extend(record())
        tap.diag("\n".join(steps))

    def test_way(way):
        def test():
            assert steps, "no session was recorded"
            for number in range(len(steps)):
                if (number + 3 * WAYS.index(way)) % EVERY == 0:
                    check_step(steps, number, way)
        return tap.timeout(280 if EVERY > 1 else 3600)(test)
    # Each way alone needs the record too.
    tests = [("recorded", tap.timeout(200)(test_recorded))]
    named = sys.argv[1:] and [a for a in sys.argv[1:] if a[:1] != "-"]
    tests += [(way, test_way(way)) for way in WAYS]
    sys.exit(tap.run_tests(tests, sys.argv[1:] + (["recorded"] if named
                                                  else [])))


if __name__ == "__main__":
    main()
