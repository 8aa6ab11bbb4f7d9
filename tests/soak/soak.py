#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""An analyst for an hour: the program on a terminal, the fake service with
faults at random, and somebody who loads files, asks, and presses Ctrl-C
whenever he likes.

    SANDPIPER=./sandpiper soak.py [SECONDS [SEED]]

Looked for: a history that the service would refuse, a hang, text or output
that is lost or shown twice, a message that nobody can act on, memory that
grows, processes that are left. A finding is printed with what was done
before; the session is ended and another begun. Status 1 if there was one.
The seed decides what is sent and typed; what is hit by Ctrl-C also depends on
the machine.
"""

import collections
import os
import random
import re
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

from program import (FACTOR, SALES, SANDPIPER, SANITIZED,  # noqa: E402
                     STEP_S, Place, Repl, results)

import cells  # noqa: E402
import messages  # noqa: E402
from claude_faults import Faults  # noqa: E402
from claude_server import ClaudeServer  # noqa: E402
from pty_session import Failure  # noqa: E402

SECONDS = 3600.0
TURNS = (20, 60)

# A turn has at most five replies, each with three cells of three seconds that
# may take the interpreter with them.
TURN_S = 240 * FACTOR

# Something moves at least once a second while a person waits: the live line.
SILENCE_S = 30 * FACTOR
STOP_S = 20 * FACTOR

# The program, bubblewrap twice, the interpreter, the picture program; and one
# that is just ending.
MAX_PROCESSES = 8

# What the program may grow by in a session, beside its conversation.
MAX_GROWTH_KB = 48 * 1024
COPIES = 8

# Of the screen, with a finding.
SHOWN_LINES = 120

CONFIG = """\
model:
  max_attempts: 3
limits:
  cell_seconds: 3
  rounds: 6
"""

FILES = {
    "sales.csv": SALES,
    "orders 2025.csv": "id;price\n1;1,5\n2;2,5\n" * 50,
    "events.jsonl": '{"a": 1, "b": "x"}\n{"a": 2}\n' * 20,
    "latin.csv": "name,n\nM\xfcller,1\n".encode("latin-1"),
    "empty.csv": "",
    "binary.csv": b"\x89PNG\r\n\x1a\n" + bytes(200),
}

VOID = re.compile(r"is void|is discarded")
LIMITED = re.compile(r"limits\.rounds|budget|has ended three times")
ENDED = re.compile(r"^(error|warning): |^. stopped", re.M)


class Session(Repl):
    """A terminal that forgets what was on it before this turn."""

    first_row = 0

    def forget(self):
        self._read()
        self.first_row = self.screen.row
        del self.transcript[:]
        self._position = self._scanned = 0
        self._arrivals = []
        self.queries = []
        self.screen.history.clear()

    def since(self):
        """What has been written since."""
        self._read()
        lines = self.screen.history + self.screen.lines()
        return "\n".join(lines[self.first_row:])

    def idle(self, seconds):
        """Reads for so long or until the prompt is there; whether it is."""
        try:
            self.expect_screen(self.is_at_prompt, seconds)
            return True
        except Failure:
            if self._eof:
                raise
            return False

    def turn_over(self):
        """Waits for the prompt as long as something moves."""
        end = time.monotonic() + TURN_S
        while time.monotonic() < end:
            had = len(self.transcript)
            if self.idle(SILENCE_S):
                return
            if len(self.transcript) == had:
                self._fail("hang: nothing in %g s" % SILENCE_S)
        self._fail("hang: the turn takes more than %g s" % TURN_S)

    def rss_kb(self):
        with open("/proc/%d/status" % self.pid) as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


# ---- what must be on the screen --------------------------------------------

def find_words(shown, words):
    """Where each word stands; a list of lists. A word that came in pieces
    may go on in the next line."""
    return [[m.start() for m in re.finditer(
        r"(?<![\w-])" + "\n?".join(map(re.escape, word)), shown)]
        for word in words]


def check_text(sent, shown, interrupted):
    """Whole text is there once and in order; of other text, the beginning."""
    places = find_words(shown, sent.words)
    twice = [w for w, at in zip(sent.words, places) if len(at) > 1]
    assert not twice, "%s: shown twice: %s" % (sent, twice)
    n = next((i for i, at in enumerate(places) if not at), len(places))
    assert not any(places[n:]), "%s: a hole at %s" % (sent, sent.words[n])
    order = [at[0] for at in places[:n]]
    assert order == sorted(order), "%s: out of order" % sent
    if sent.whole and not interrupted:
        assert n == len(places), "%s: lost text: %s" % (sent, sent.words[n:])
    if sent.is_void and n > 0 and not interrupted:
        rest = shown[order[-1]:]
        end = re.search(r"(?<![\w-])t(?!%d-)\d+-0\." % sent.number, rest)
        rest = rest[:end.start()] if end else rest
        assert VOID.search(rest) or ENDED.search(rest), \
            "%s: half a text is not marked void" % sent


def check_cells(sent, shown, interrupted):
    # An interpreter that imports on a busy machine takes none; that is said.
    interrupted = interrupted or "did not take the cell" in shown
    for name in sent.cells:
        n = len(re.findall(r"^\s*[│|] ran-%s\." % name, shown, re.M))
        assert n <= 1, "%s: cell %s ran %d times" % (sent, name, n)
        if not sent.runs:
            assert n == 0, "%s: cell %s ran" % (sent, name)
        elif not interrupted:
            assert n == 1, "%s: cell %s did not run" % (sent, name)


def check_results(sent, following):
    """Each call that was to be run was answered with what it printed; binary
    output is only named."""
    told = results(following.request)
    assert len(told) == len(sent.cells), (sent, told)
    for name, (text, _) in zip(sent.cells, told):
        n = sum(other.count("ran-%s." % name) for other, _ in told)
        assert n == 1 or n == 0 and "binary" in text, \
            "%s: the output of %s was sent %d times: %s" % (
                sent, name, n, text[:300])


def check_turn(sents, shown, interrupted):
    limited = LIMITED.search(shown) is not None
    for i, sent in enumerate(sents):
        # What is cut off, by Ctrl-C or by a limit, is at the end.
        is_last = i == len(sents) - 1
        check_text(sent, shown, interrupted and is_last)
        check_cells(sent, shown, (interrupted or limited) and is_last)
        if sent.runs and i + 1 < len(sents) and \
                "did not take the cell" not in shown:
            check_results(sent, sents[i + 1])
    if sents and not interrupted and not sents[-1].answer:
        assert ENDED.search(shown), "%s: no answer, and no word of why" % (
            sents[-1])


def asked_in(request):
    """The number of the question that a request belongs to."""
    for message in reversed(request.body["messages"]):
        found = re.findall(r"question (\d+) of the analyst",
                           str(message["content"]))
        if message["role"] == "user" and found:
            return int(found[-1])
    return None


# ---- what the analyst does -------------------------------------------------

class Analyst:
    def __init__(self, seed, rate=0.4, out=sys.stdout):
        self.rng = random.Random(seed)
        self.seed = seed
        self.rate = rate
        self.out = out
        self.done = collections.deque(maxlen=12)
        self.counts = collections.Counter()
        self.stops_ms = []
        self.findings = 0
        self.sentences = set()
        self.was_stopped = False

    def say(self, text):
        self.out.write("# %s\n" % text)
        self.out.flush()

    def note(self, what):
        self.done.append(what)
        self.counts[what.split()[0]] += 1

    # -- one session --

    def session(self, end):
        faults = Faults(self.rng.randrange(1 << 30), self.rate, cells.CELLS)
        cols, rows = self.rng.choice(((100, 40), (200, 50), (72, 24)))
        with Place() as place:
            place.config(CONFIG)
            for name, data in FILES.items():
                place.file(name, data)
            with ClaudeServer([faults], repeat=True) as server, Session(
                    [SANDPIPER] + self.rng.choice(([], ["sales.csv"])),
                    cols=cols, rows=rows, env=place.env(server),
                    profile=self.rng.choice(("xterm", "xterm", "silent")),
                    dir=place.dir, timeout=STEP_S) as s:
                self.note("start %dx%d" % (cols, rows))
                s.at_prompt()
                self.work(s, faults, server, end)
                self.leave(s)
        self.counts["sessions"] += 1
        self.counts["replies"] += len(faults.sent)

    def work(self, s, faults, server, end):
        turns = self.rng.randint(*TURNS)
        base_kb = None
        for turn in range(turns):
            if time.monotonic() > end:
                break
            s.forget()
            self.step(s, faults)
            assert not faults.problems, faults.problems
            assert not server.violations, server.violations
            self.check_processes(s)
            if turn == 8:
                base_kb = s.rss_kb()
        if base_kb is not None and not SANITIZED:
            sent_kb = max(len(x.request.raw) for x in faults.sent) // 1024
            grown_kb = s.rss_kb() - base_kb
            self.counts["max_grown_kb"] = max(self.counts["max_grown_kb"],
                                              grown_kb)
            assert grown_kb < MAX_GROWTH_KB + COPIES * sent_kb, \
                "grown by %d kB; the conversation has %d kB" % (
                    grown_kb, sent_kb)

    @staticmethod
    def check_processes(s):
        end = time.monotonic() + 10 * FACTOR
        while True:
            pids = s.descendants()
            if len(pids) <= MAX_PROCESSES:
                return
            assert time.monotonic() < end, "%d processes" % len(pids)
            s.idle(0.1)

    def leave(self, s):
        if self.rng.random() < 0.5:
            self.note("leave :quit")
            s.typed(":quit")
            s.send("\r")
        else:
            self.note("leave Ctrl-D")
            s.send(b"\x04")
        assert s.wait_exit(30 * FACTOR) == 0, "status %s" % s.status
        assert not s.descendants(), "left behind: %s" % s.descendants()

    # -- one step --

    def step(self, s, faults):
        what = self.rng.random()
        if what < 0.62:
            self.question(s, faults)
        elif what < 0.9:
            self.command(s, faults)
        elif what < 0.94:
            self.note("ctrl-c at the prompt")
            s.send(b"\x03")
            s.at_prompt()
        elif what < 0.97:
            self.note("resize")
            s.resize(self.rng.choice((60, 90, 140)), 40)
            s.idle(0.3)
        else:
            self.note("line taken back")
            s.typed("half a quest")
            s.send(b"\x15")
            s.at_prompt()

    def question(self, s, faults):
        start = len(faults.sent)
        stopped = False
        number = self.counts["question"] + 1
        self.note("question %d" % number)
        s.type_line("question %d of the analyst?" % number)
        if self.rng.random() < 0.35 and not s.idle(
                self.rng.choice((0.02, 0.3, 1, 3)) * self.rng.random()):
            stopped = True
            self.stop(s)
        else:
            if self.rng.random() < 0.2 and not s.idle(0.2):
                # Typed while it works, and taken back.
                self.note("type-ahead")
                s.send("half a thought\x15")
            s.turn_over()
        # The fake may see late what was asked before the last Ctrl-C.
        sents = [x for x in faults.sent[start:]
                 if asked_in(x.request) == number]
        self.note("got %s" % ", ".join(x.kind for x in sents))
        for sent in sents:
            self.counts["kind " + sent.kind] += 1
        self.check(sents, s.since(), stopped)
        self.was_stopped = stopped

    def check(self, sents, shown, stopped):
        for line in messages.unknown(shown):
            # Once, and not with the numbers that are in it.
            kind = re.sub(r"\d+", "0", line)
            if kind not in self.sentences:
                self.sentences.add(kind)
                self.findings += 1
                self.say("FINDING %d (seed %s): can nobody act on: %s" % (
                    self.findings, self.seed, line))
                self.say(repr(shown[max(shown.find(line[:30]), 0):][:400]))
        try:
            check_turn(sents, shown, stopped)
        except AssertionError:
            for line in shown.split("\n")[-SHOWN_LINES:]:
                self.say("|" + line)
            raise

    def stop(self, s):
        self.note("ctrl-c")
        start = s.send(b"\x03" * self.rng.choice((1, 1, 1, 2, 3)))
        took = s.at_prompt(STOP_S) - start
        if took > 0:
            self.stops_ms.append(int(took * 1000))

    def command(self, s, faults):
        n = self.rng.randint(1, max(self.counts["question"], 3))
        line = self.rng.choice((
            ":files", ":help", ":code %d" % n, ":trace %d" % n,
            ":save %d" % n, ":save %d out-%d.csv" % (n, n),
            ":load sales.csv", ":load 'orders 2025.csv'",
            ":load events.jsonl", ":load latin.csv", ":load empty.csv",
            ":load binary.csv", ":load missing.csv", ":code x", ":lode",
            ":cost", ":budget", ":full %d" % n, ":retry"))
        self.note("command %s" % line)
        start = len(faults.sent)
        s.type_line(line)
        stopped = self.rng.random() < 0.15 and not s.idle(
            0.1 * self.rng.random())
        if stopped:
            self.stop(s)
        else:
            s.turn_over()
        # One command asks; the fake may see late what was asked before.
        asked = line == ":retry" and not self.was_stopped
        self.check(faults.sent[start:] if asked else [], s.since(), stopped)
        self.was_stopped = stopped

    # -- all of it --

    def run(self, seconds):
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            self.done.clear()
            try:
                self.session(begin + seconds)
            except Exception:
                self.findings += 1
                self.say("FINDING %d (seed %s):" % (self.findings, self.seed))
                for what in self.done:
                    self.say("  did: " + what)
                for line in traceback.format_exc().splitlines():
                    self.say(line)
                if self.findings >= 20:
                    break
        self.report(time.monotonic() - begin)
        return self.findings

    def report(self, seconds):
        stops = sorted(self.stops_ms) or [0]
        self.say("%d s, seed %s: %d findings" % (seconds, self.seed,
                                                 self.findings))
        self.say("prompt after Ctrl-C: median %d ms, most %d ms (%d times)" % (
            stops[len(stops) // 2], stops[-1], len(self.stops_ms)))
        self.say(", ".join("%s %d" % (name, n) for name, n in sorted(
            self.counts.items())))


def main(argv):
    seconds = float(argv[0] if argv else
                    os.environ.get("SOAK_SECONDS") or SECONDS)
    seed = int(argv[1] if len(argv) > 1 else
               os.environ.get("SOAK_SEED") or random.randrange(1 << 30))
    return 1 if Analyst(seed).run(seconds) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
