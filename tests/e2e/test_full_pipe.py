#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A script's output into a pipe that nobody reads: signals still end the
program, and a reader that is only slow gets everything."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from program import FACTOR, wait_until  # noqa: E402
from pty_session import build_env, make_home  # noqa: E402
from replay import program, write_replay  # noqa: E402

ANSWER = "".join("line %d of an answer that is far too long\n" % i
                 for i in range(20000))

END_S = 2 * FACTOR


class Run:
    """The program with a pipe at stdout, and at stderr too if joined."""

    def __init__(self, joined=False):
        self.folder = tempfile.mkdtemp()
        self.reader, self.writer = os.pipe()
        variables = make_home(self.folder)
        self.process = subprocess.Popen(
            [program(), "--replay-model", write_replay(
                self.folder, [], ANSWER), "-c", "hi"],
            stdin=subprocess.DEVNULL, stdout=self.writer,
            stderr=self.writer if joined else subprocess.DEVNULL,
            env=build_env(variables))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.kill()
        self.process.wait()
        for fd in (self.reader, self.writer):
            if fd is not None:
                os.close(fd)
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self):
        wait_until(lambda: not select.select([], [self.writer], [], 0)[1],
                   "a full pipe")
        os.close(self.writer)
        self.writer = None

    def read(self):
        data = b""
        while True:
            more = os.read(self.reader, 65536)
            if not more:
                return data
            data += more

    def close(self):
        os.close(self.reader)
        self.reader = None


def ends_by(signo, joined):
    with Run(joined) as run:
        run.fill()
        start = time.monotonic()
        run.process.send_signal(signo)
        status = run.process.wait(20 * FACTOR)
        took = time.monotonic() - start
        assert status == 128 + signo, status
        assert took < END_S, took


@tap.timeout(120)
def test_signals_end_it():
    for signo in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        for joined in (False, True):
            ends_by(signo, joined)


@tap.timeout(60)
def test_a_slow_reader_gets_everything():
    with Run() as run:
        run.fill()
        assert run.read().decode() == ANSWER
        assert run.process.wait(20 * FACTOR) == 0


@tap.timeout(60)
def test_a_reader_that_goes_away():
    with Run() as run:
        run.fill()
        run.close()
        assert run.process.wait(20 * FACTOR) == 128 + signal.SIGPIPE


if __name__ == "__main__":
    tap.main(globals())
