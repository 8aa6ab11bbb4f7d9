#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exit status says what kind of thing went wrong, whatever the thing was:
one test for each status, and the manual's table against both."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import STEP_S, Place, run  # noqa: E402

import tap  # noqa: E402
from certs import make_certs  # noqa: E402
from claude_server import (ClaudeServer, cut, error, error_event,  # noqa: E402
                           gate, hang, mark, reply, text, thinking)

TOP = os.path.join(HERE, "..", "..")
FEW = "model:\n  max_attempts: 2\n"
SPENT = {"error_code": "enforced_spend_limit_reached"}


def read(*names):
    with open(os.path.join(TOP, *names), encoding="utf-8") as source:
        return source.read()


def ask(status, script, *args, config=FEW, stdin=b"", words=(), url=None,
        key="sk-test", files=None, server_options=None, mark="error"):
    """Runs the program once. With a status of failure there is exactly one
    line that begins with the mark, and the words are there."""
    with Place() as place:
        if config:
            place.config(config)
        for name, data in (files or {}).items():
            place.file(name, data)
        with ClaudeServer(list(script), **(server_options or {})) as server:
            done = place.script(url or server, *(args or ("-c", "why?")),
                                stdin=stdin, key=key)
    assert done.status == status, (status, done)
    lines = re.findall(r"^(?:stdin:\d+: )?%s: .*" % mark,
                       done.stderr.decode(), re.M)
    assert len(lines) == (1 if status else 0), (lines, done)
    for word in words:
        assert re.search(word, done.stderr.decode(), re.I), (word, done)
    return done


# ---- 0 to 3 ----------------------------------------------------------------

@tap.timeout(120)
def test_0_success():
    done = ask(0, [reply(["It is so."])])
    assert done.stdout == b"It is so.\n", done
    ask(0, [], "--version")
    ask(0, [], "--help")
    ask(0, [reply(["One."])], "sales.csv", stdin=b"one?\n:quit\ntwo?\n",
        files={"sales.csv": "a\n1\n"})
    # What the service did not do at once does not show in the status.
    ask(0, [error(529), reply(["In the end."])])


@tap.timeout(120)
def test_1_no_answer():
    ask(1, [reply([text("Half ")], stop_reason="refusal", stop_details={
        "type": "refusal", "category": "cyber",
        "explanation": "This is not for me."})], words=["not for me"])
    ask(1, [reply([], stop_reason="refusal")], words=["declined"])
    ask(1, [reply([])], words=["without an answer"])
    ask(1, [reply([thinking("A thought and no more.")])],
        words=["without an answer"])
    # Asked once more behind a cell, and still nothing.
    ask(1, [reply([run("1")]), reply([]), reply([])],
        words=["without an answer"])


@tap.timeout(60)
def test_2_usage():
    for args in (("--no-such-option",), ("-c",), ("--graphics", "oil"),
                 ("--demo", "-c", "x")):
        ask(2, [], *args)
    for line in (b":nothing\n", b":code x\n", b":save\n", b"a\0b\n"):
        ask(2, [], "--graphics", "none", stdin=line, words=["stdin:1: "])


@tap.timeout(60)
def test_3_configuration():
    for config in ("model:\n  name: [\n", "model:\n  nmae: x\n",
                   "limits:\n  rounds: 0\n", "limits:\n  rounds: many\n"):
        ask(3, [], config=config)
    ask(3, [], "--config", "/nonexistent/config.yaml", "-c", "x")
    for url in ("nonsense", "ftp://x", "https://", "https://:1", "https://x/?y",
                "http://127.0.0.1:99999"):
        ask(3, [], url=url)
    with Place() as place:
        place.config("model:\n  api_key: sk-x\n", 0o644)
        done = place.script("http://127.0.0.1:1", "-c", "x")
        assert done.status == 3, done


# ---- the service -----------------------------------------------------------

@tap.timeout(60)
def test_4_authentication_and_payment():
    ask(4, [error(401, message="invalid x-api-key")], words=["401"])
    ask(4, [error(402, message="no credit is left")], words=["402"])
    ask(4, [error(403, message="not for you")], words=["403"])
    ask(4, [], key=None, url="https://gateway.invalid", words=["key"])


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@tap.timeout(60)
def test_4_spend_limit():
    """Not tried again: it does not pass by itself."""
    ask(4, [error(429, message="the limit is reached", details=SPENT)],
        words=["spend limit"])


@tap.timeout(60)
def test_5_no_way_to_the_service():
    ask(5, [], url="http://127.0.0.1:%d" % closed_port(),
        words=["127.0.0.1|refused|connect"])
    # No label of a name has so many bytes, so that nobody is asked for it.
    ask(5, [], url="https://%s.test" % ("a" * 70), words=["a" * 70])


@tap.timeout(60)
def test_5_what_the_service_says():
    ask(5, [error(400, message="messages: no")], words=["400"])
    ask(5, [error(404, message="model: claude-none")], words=["claude-none"])
    ask(5, [error(500)] * 2, words=["500"])
    ask(5, [error(504)] * 2, words=["504"])


@tap.timeout(60)
def test_5_a_connection_that_breaks():
    ask(5, [reply(["never"], before=[cut("reset")])] * 2)
    ask(5, [reply([text("Half ", cut("reset"), "of")])] * 2)
    ask(5, [reply([text("Half of it.")], finish=False)] * 2)
    ask(5, [reply([error_event("api_error", "It fell over.")])] * 2,
        words=["internal problem"])


@tap.timeout(60)
def test_5_tls():
    if not shutil.which("openssl"):
        tap.skip("no openssl command")
    with Place() as place:
        certs = make_certs(place.dir)
        ask(5, [], words=["certificate"],
            server_options={"tls": certs.untrusted})
        # A file of certificates that is not there is the configuration's.
        ask(3, [], config="model:\n  ca_file: /nonexistent/ca.pem\n",
            words=["ca.pem"], server_options={"tls": certs.right})


@tap.timeout(60)
def test_6_rate_limit_and_overload():
    soon = {"retry-after-ms": "10"}
    ask(6, [error(429, headers=soon)] * 2, words=["429"])
    ask(6, [error(529, headers=soon)] * 2, words=["529", "overloaded"])
    ask(6, [reply([error_event()])] * 2, words=["overloaded"])
    # What would take too long is not waited for.
    ask(6, [error(429, headers={"retry-after": "900"})], words=["900"])


# ---- here ------------------------------------------------------------------

@tap.timeout(60)
def test_7_sandbox():
    config = "sandbox:\n  bwrap: /nonexistent/bwrap\n"
    ask(7, [reply([run("print(1)")])], config=config, words=["fix: "])


@tap.timeout(60)
def test_8_rounds():
    ask(8, [reply([run("print(1)")])], config="limits:\n  rounds: 1\n",
        words=["limits.rounds"], mark="warning")


@tap.timeout(60)
def test_8_budget():
    # The first call alone could cost more than that.
    done = ask(8, [], config="model:\n  budget_usd: 0.01\n",
               words=["budget|limit"], mark="warning")
    assert b"$" in done.stderr, done


@tap.timeout(60)
def test_9_data():
    for files, name in (({}, "missing.csv"), ({"empty.csv": ""}, "empty.csv"),
                        ({"b.csv": b"\x89PNG\r\n\x1a\n" + bytes(99)},
                         "b.csv")):
        ask(9, [], "-c", "why?", "--", name, files=files, words=[name])
    ask(9, [], stdin=b":load missing.csv\n", words=["missing.csv"], config=FEW,
        *("--graphics", "none"))


# ---- ended from outside ----------------------------------------------------

def ended(script, act, stdout=subprocess.PIPE):
    """The status of a run that `act` ends, when the service is at "there"."""
    with Place() as place, ClaudeServer(list(script)) as server:
        with place.running(server, "-c", "why?", stdout=stdout) as child:
            server.wait_reached("there", STEP_S)
            act(child, server)
            child.stderr.read()
            return child.wait(STEP_S)


@tap.timeout(60)
def test_130_interrupted():
    def interrupt(child, _):
        os.killpg(child.pid, signal.SIGINT)

    stalled = [[reply([text("Half ", mark("there"), hang())])],
               [reply(["never"], before=[mark("there"), hang()])]]
    for script in stalled:
        assert ended(script, interrupt) == 130


@tap.timeout(60)
def test_141_the_reader_is_gone():
    def leave(child, server):
        assert child.stdout.readline() == b"Line one.\n"
        child.stdout.close()
        server.release("there")

    with_gate = [reply([text("Line one.\n", mark("there"),
                             *["More of it.\n"] * 20000)])]
    assert ended(with_gate, leave) == 141


@tap.timeout(60)
def test_141_nothing_is_asked_and_run_for_nobody():
    """The reader leaves while the first reply comes: its cell does not run
    and no other request is sent. Nor is one for a reader that never was."""
    with Place() as place, ClaudeServer([
            reply([thinking("Hm.", gate("go"), "\n"),
                   run("print('ran-' + 'once')")])]) as server:
        reader, writer = os.pipe()
        with place.running(server, "-c", "why?", stdout=writer) as child:
            os.close(writer)
            server.wait_reached("go")
            os.close(reader)
            server.release("go")
            err = child.communicate(timeout=STEP_S)[1]
        assert child.returncode == 141, err
        assert b"ran-once" not in err, err
        assert b"error: standard output: Broken pipe\n" in err, err
    with Place() as place, ClaudeServer([]) as server:
        reader, writer = os.pipe()
        os.close(reader)
        with place.running(server, "-c", "why?", stdout=writer) as child:
            os.close(writer)
            err = child.communicate(timeout=STEP_S)[1]
        assert child.returncode == 141, err


@tap.timeout(60)
def test_141_a_full_disk_is_said():
    for args, n in ((("-c", "why?"), 1), (("--help",), 0)):
        with Place() as place, ClaudeServer([reply(["It is so."])] * n
                                            ) as server, \
                open("/dev/full", "wb") as full, \
                place.running(server, *args, stdout=full) as child:
            err = child.communicate(timeout=STEP_S)[1]
            assert child.returncode == 141, err
            assert b"error: standard output: No space left on device\n" \
                in err, err


# ---- the manual ------------------------------------------------------------

# A word that the manual has for each status.
MANUAL = {0: "success", 1: "no answer", 2: "usage", 3: "configuration",
          4: "key.*pay|pay.*key|authenticat.*pay",
          5: "network.*service|service.*network|connection.*service",
          6: "overloaded.*limit|limit.*overloaded", 7: "sandbox",
          8: "limit.*budget|budget.*limit", 9: "data", 129: "terminal",
          130: "interrupted", 141: "standard output"}


def manual():
    """status -> text of the manual's table."""
    page = read("man", "sandpiper.1")
    table = page.split(".Sh EXIT STATUS")[1].split(".El")[0]
    items = re.findall(r"^\.It (\d+)\n((?:(?!\.It ).*\n)+)", table, re.M)
    return {int(status): " ".join(words.split()) for status, words in items}


def test_the_manual_says_what_happens():
    table = manual()
    assert sorted(table) == sorted(MANUAL), sorted(table)
    for status, words in MANUAL.items():
        assert re.search(words, table[status], re.I), (status, table[status])


def test_the_table_of_the_program_is_the_manuals():
    """A code has a status of the manual, and each has a code or a test."""
    codes = re.findall(r"\[ERR_([A-Z_]+)\] = \{[^}]*?(\d+)\}",
                       read("src", "base", "error.c"))
    assert len(codes) > 15, codes
    statuses = {int(status) for _, status in codes}
    assert statuses <= set(manual()), statuses
    tested = {int(n) for n in re.findall(r"test_(\d+)_", " ".join(globals()))}
    assert tested == set(manual()) - {129}, tested
    assert statuses | {129, 141} == set(manual()), statuses


if __name__ == "__main__":
    tap.main(globals())
