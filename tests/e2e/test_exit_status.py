#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exit status says what kind of thing happened: one test for each."""

import os
import signal
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import KEY, SANDPIPER, STEP_S, Place  # noqa: E402

import tap  # noqa: E402
from claude_server import (ClaudeServer, error, hang,  # noqa: E402
                           reply, text, tool_use)
from pty_session import build_env, make_home  # noqa: E402

# A signal that whoever began this test ignores would be ignored there too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def status_of(script, *args, config="", key=KEY, files=()):
    with Place() as place, ClaudeServer(list(script)) as server:
        for name in files:
            place.file(name)
        place.config(config)
        done = place.script(server, *(args or ("-c", "how is it?")), key=key)
        said = b"error: " in done.stderr or b"warning: stopped" in done.stderr
    assert (done.status == 0) == (not said), done
        return done.status


def start(place, server, stdout):
    return subprocess.Popen(
        [SANDPIPER, "-c", "how is it?"], stdin=subprocess.DEVNULL,
        stdout=stdout, stderr=subprocess.DEVNULL,
        env=build_env(make_home(place.dir), "dumb", place.env(server)),
        start_new_session=True)


def end(child):
    try:
        return child.wait(STEP_S)
    finally:
        child.kill()
        child.wait()


def test_0_success():
    assert status_of([reply(["Well."])]) == 0


def test_1_no_answer():
    assert status_of([reply([])]) == 1
    assert status_of([reply(["x"], stop_reason="refusal", stop_details={
        "type": "refusal", "category": None,
        "explanation": "not this"})]) == 1


def test_2_usage():
    assert status_of([], "--no-such-option") == 2
    assert status_of([], "-c") == 2


def test_3_configuration():
    assert status_of([], config="model:\n  nme: x\n") == 3
    assert status_of([], config="model: [\n") == 3


def test_4_authentication_or_payment():
    assert status_of([], key=None) == 4
    assert status_of([error(401)]) == 4
    assert status_of([error(402)]) == 4
    assert status_of([error(403)]) == 4
    assert status_of([error(429, details={
        "error_code": "enforced_spend_limit_reached"})]) == 4


def test_5_network_or_service():
    config = "model:\n  max_attempts: 1\n"
    assert status_of([error(400)], config=config) == 5
    assert status_of([error(404)], config=config) == 5
    assert status_of([error(500)], config=config) == 5
    assert status_of([reply(["x"], finish=False)], config=config) == 5
    with Place() as place, socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        place.config(config)
        done = place.script("http://127.0.0.1:%d" % sock.getsockname()[1],
                            "-c", "how is it?")
        assert done.status == 5, done


@tap.timeout(60)
def test_6_limits_and_overload():
    config = "model:\n  max_attempts: 2\n"
    soon = {"retry-after-ms": "1"}
    assert status_of([error(429, headers=soon)] * 2, config=config) == 6
    assert status_of([error(529, headers=soon)] * 2, config=config) == 6
    assert status_of([error(529, headers={"retry-after": "900"})]) == 6


@tap.timeout(60)
def test_7_sandbox():
    """The model cannot run anything, so the turn ends."""
    assert status_of([reply([tool_use("run_python", {"code": "1"})])],
                     config="sandbox:\n  bwrap: /nonexistent\n") == 7


@tap.timeout(60)
def test_8_limit():
    assert status_of([reply([tool_use("run_python", {"code": "1"})])],
                     config="limits:\n  rounds: 1\n") == 8


@tap.timeout(60)
def test_9_data():
    assert status_of([], "missing.csv", "-c", "how is it?") == 9


def test_130_interrupted():
    with Place() as place, ClaudeServer(
            [reply([text("It ", hang())])]) as server:
        child = start(place, server, subprocess.PIPE)
        with child.stdout:
            assert child.stdout.read(2) == b"It"
            child.send_signal(signal.SIGINT)
            assert end(child) == 130


def test_141_reader_gone():
    with Place() as place, ClaudeServer(
            [reply(["A long answer. " * 20000])]) as server:
        reader, writer = os.pipe()
        child = start(place, server, writer)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        assert end(child) == 141


if __name__ == "__main__":
    tap.main(globals())
