#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program killed by SIGKILL at random moments, its start included: no
process of its sandbox lives on. KILL_ROUNDS and KILL_SEED change the number
of rounds (fewer with sanitizers) and repeat a failure."""

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from pty_session import build_env, make_home  # noqa: E402
from replay import program, write_replay  # noqa: E402
from sandbox_session import (PR_SET_CHILD_SUBREAPER,  # noqa: E402
                             attack, process_table, wait_until)

ROUNDS = int(os.environ.get(
    "KILL_ROUNDS",
    "50" if os.environ.get("SANDPIPER_SANITIZERS", "").strip() else "200"))
SEED = int(os.environ.get("KILL_SEED", str(int(time.time()))))

# Seconds until everything must be gone.
DEADLINE = 5

CELLS = [
    "import os, subprocess\n"
    "subprocess.Popen(['/usr/bin/sleep', '600'], start_new_session=True)\n"
    "if os.fork() == 0:\n    os.setsid()\n    while True: pass\n"
    "print(1)",
    "import time\ntime.sleep(600)",
]


def orphans(known):
    """Processes that have become ours: what outlived the program. With every
    child of a killed program handed to this one, none can hide."""
    me = os.getpid()
    left = []
    for pid, (parent, state, *_) in process_table().items():
        if parent != me or pid in known:
            continue
        if state in "ZX":
            try:
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                pass
        else:
            left.append(pid)
    return left


def describe(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return pid, f.read()[:200]
    except OSError:
        return pid, b"?"


def temp_dirs():
    """Directories of workspaces, and their times."""
    found = set()
    for top in ("/tmp", "/var/lib/sandpiper"):
        try:
            found |= {os.path.join(top, n) for n in os.listdir(top)
                      if n.startswith("sandpiper-") and
                      not n.startswith("sandpiper-user.")}
        except OSError:
            pass
    return {d for d in found if os.path.isdir(d)}


# For root a user of this test alone: others may run sandboxes meanwhile.
CELL_UID = os.getuid() or 62000 + os.getpid() % 3000


def owned_since(before):
    """New directories that are ours: other programs run beside the test."""
    mine = set()
    for path in temp_dirs() - before:
        try:
            uid = os.stat(path).st_uid
        except OSError:
            continue
        if uid == CELL_UID:
            mine.add(path)
    return mine


def below(pid):
    """All processes that came from pid. While the first cell runs these are
    bwrap twice, the kernel, a sleep and a spinning child."""
    table = process_table()
    found = {pid}
    grew = True
    while grew:
        more = {p for p, (parent, *_) in table.items()
                if parent in found} - found
        found |= more
        grew = bool(more)
    return found - {pid}


class Rounds:
    def __init__(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.top = tempfile.mkdtemp(prefix="kill-")
        os.chmod(self.top, 0o755)
        self.replay = write_replay(self.top, CELLS, "Never said.")
        self.env = build_env(make_home(self.top))
        self.known = set(orphans(set()))
        self.dirs = temp_dirs()
        self.config = os.path.join(self.top, "config.yaml")
        with open(self.config, "w") as f:
            f.write("sandbox:\n  drop_uid: %d\n" % CELL_UID)
        os.chmod(self.config, 0o600)

    def start(self):
        return subprocess.Popen(
            [program(), "--config", self.config, "--replay-model",
             self.replay, "-c", "go"],
            env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, cwd=self.top)

    def one(self, delay):
        child = self.start()
        time.sleep(delay)
        child.kill()
        child.wait()

    def gone(self):
        wait_until(lambda: not orphans(self.known), DEADLINE,
                   "left: %s" % [describe(p) for p in orphans(self.known)])

    def close(self):
        for pid in orphans(self.known):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        shutil.rmtree(self.top, ignore_errors=True)
        for path in owned_since(self.dirs):
            shutil.rmtree(path, ignore_errors=True)


@attack(65)
@tap.timeout(250)
def test_nothing_lives_on_after_sigkill():
    """Protections: --die-with-parent, the lifeline (tie_lifeline() in
    local_bwrap.c) and the kernel that ends with descriptor 3."""
    tap.diag("KILL_SEED=%d KILL_ROUNDS=%d" % (SEED, ROUNDS))
    rng = random.Random(SEED)
    rounds = Rounds()
    try:
        for n in range(ROUNDS):
            # Half within the start, where the windows are; the rest later.
            delay = rng.uniform(0, 0.06) if n % 2 else rng.uniform(0, 0.6)
            rounds.one(delay)
            try:
                rounds.gone()
            except AssertionError as exc:
                raise AssertionError("round %d, killed after %.4f s: %s" % (
                    n, delay, exc))
    finally:
        rounds.close()


@attack(65)
@tap.timeout(60)
def test_killed_at_each_step_of_the_start():
    """As soon as bwrap is there, its second process, and the interpreter."""
    rounds = Rounds()
    try:
        for n in (1, 2, 3) * 5:
            child = rounds.start()
            wait_until(lambda: len(below(child.pid)) >= n, 30,
                       "%d processes" % n, step=0.0005)
            child.kill()
            child.wait()
            rounds.gone()
    finally:
        rounds.close()


@tap.timeout(60)
def test_the_search_finds_what_is_left():
    """The control: a process that does outlive its parent is seen."""
    rounds = Rounds()
    try:
        child = subprocess.Popen(
            ["sh", "-c", "setsid sleep 60 & echo up; wait"],
            stdout=subprocess.PIPE, start_new_session=True)
        child.stdout.readline()
        child.kill()
        child.wait()
        child.stdout.close()
        left = wait_until(lambda: orphans(rounds.known), 5, "it is seen")
        assert left
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        rounds.gone()
    finally:
        rounds.close()


@attack(51, 65)
@tap.timeout(60)
def test_all_processes_end_while_a_cell_runs():
    """Daemons, sessions of their own, a spinning child."""
    rounds = Rounds()
    try:
        child = rounds.start()

        wait_until(lambda: len(below(child.pid)) >= 5, 30, "the cell runs")
        child.kill()
        child.wait()
        rounds.gone()
    finally:
        rounds.close()


@attack(65)
@tap.timeout(60)
def test_stopped_sandbox_ends_too():
    rounds = Rounds()
    try:
        child = rounds.start()

        wait_until(lambda: len(below(child.pid)) >= 5, 30, "the cell runs")
        for pid in below(child.pid):
            os.kill(pid, signal.SIGSTOP)
        child.kill()
        child.wait()
        rounds.gone()
    finally:
        rounds.close()


@tap.timeout(60)
def test_workspaces_left_behind_are_removed_by_the_next_start():
    before = temp_dirs()
    rounds = Rounds()
    try:
        left = []
        for _ in range(3):
            # Killed as soon as it has one, which it finishes first.
            child = rounds.start()
            left.append(wait_until(lambda: owned_since(before), 20,
                                   "there is a workspace"))
            child.kill()
            child.wait()
        rounds.gone()
        left = set.union(*left)
        assert left, left
        child = rounds.start()
        wait_until(lambda: owned_since(before) - left
                   and not owned_since(before) & left, 20,
                   "old workspaces of killed programs are removed")
        child.send_signal(signal.SIGTERM)
        child.wait(10)
        rounds.gone()
        wait_until(lambda: not owned_since(before), 20,
                   "a normal end leaves no directory")
    finally:
        rounds.close()


if __name__ == "__main__":
    tap.main(globals())
