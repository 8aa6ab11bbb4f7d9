#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A large file on its way to a service: little memory, the same bytes, progress
that is told and shown, and an end at once. The file is sparse, of UPLOAD_MIB
(64 if not set), and the fake hashes what it is sent and drops it."""

import hashlib
import os
import random
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]

import tap  # noqa: E402
from claude_server import ClaudeServer  # noqa: E402
from driver_session import peak_mib  # noqa: E402
from e2b_server import E2bServer, unavailable  # noqa: E402
from e2b_session import E2bSession, check_service  # noqa: E402
from program import FACTOR, SANITIZED, STEP_S, Place  # noqa: E402
from service_run import NAME, write_entry  # noqa: E402

MIB = 1 << 20
UPLOAD_MIB = int(os.environ.get("UPLOAD_MIB") or 64)
SIZE = UPLOAD_MIB * MIB
GROWTH_MIB = 16
STOP_MS = 200
# A busy machine answers late; make bench has the true figure.
PATIENCE = 10 * FACTOR
# What is slow: the fake, in Python, three times over the bytes.
SEND_S = (60 + UPLOAD_MIB / 5) * FACTOR
UPLOAD = "POST /files$"


class Large:
    """The file. One that is all zeros may be sent packed; the other has bytes
    at its beginning and in its middle that no packing makes fewer."""

    def __init__(self, is_dense=True):
        self.dense = {at: random.Random(at).randbytes(MIB)
                      for at in (0, SIZE // 2) if is_dense}

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="upload-")
        os.chmod(self.dir, 0o755)
        self.path = os.path.join(self.dir, "big.csv")
        self.write(self.path)
        return self

    def write(self, path):
        with open(path, "wb") as file:
            for at, data in self.dense.items():
                file.seek(at)
                file.write(data)
            file.truncate(SIZE)

    def __exit__(self, *_):
        os.unlink(self.path)
        os.rmdir(self.dir)

    def sha256(self, head=b"", tail=b""):
        """Of the bytes between a head and a tail."""
        found = hashlib.sha256(head)
        for at in range(0, SIZE, MIB):
            found.update(self.dense.get(at, bytes(MIB)))
        found.update(tail)
        return found.hexdigest()

    def expected(self, request):
        """The hash of the body that carries the file, in either of its
        forms."""
        kind = request.header("content-type")
        if kind == "application/octet-stream":
            return self.sha256()
        boundary = re.fullmatch(r'multipart/form-data; boundary="?([^"]+)"?',
                                kind).group(1).encode()
        head = request.raw[:request.raw.index(b"\r\n\r\n") + 4]
        return self.sha256(head, b"\r\n--" + boundary + b"--\r\n")


def upload_of(server):
    found = [r for r in server.find(UPLOAD) if r.content_size >= SIZE]
    assert len(found) == 1, [(r.path, r.size) for r in server.find(UPLOAD)]
    return found[0]


def upload(version, is_dense=True):
    """How much memory it took at most, in MiB."""
    with Large(is_dense) as large, E2bSession(
            fake={"drop": True, "version": version}) as sb:
        assert sb.opened()["end"] == "done", sb.events
        # What is read once at the first use of each part is no growth.
        sb.cell("1", timeout=60)
        before = peak_mib(sb.process.pid)
        # What is packed is small: of that, the first bytes.
        fault = sb.server.fail(UPLOAD, stall=SIZE // 2 if is_dense else 1)
        sb.request(op="put", path=large.path, name="big.csv")
        copy = sb.wait("copy", timeout=SEND_S)
        while copy["done"] == 0:
            copy = sb.wait("copy", timeout=SEND_S)
        assert copy["total"] == SIZE, copy
        assert copy["done"] < SIZE or not is_dense, copy
        fault.release()
        end = sb.wait("op", timeout=SEND_S, name="put")
        assert end["end"] == "done", end
        growth = peak_mib(sb.process.pid) - before
        tap.diag("%d MiB by envd %s: %.1f MiB more" % (UPLOAD_MIB, version,
                                                       growth))
        request = upload_of(sb.server)
        assert request.content_sha256 == large.expected(
            request), request.headers
        assert (request.size < SIZE // 10) == (not is_dense), request.size
        copies = [e["done"] for e in sb.events if e["event"] == "copy"]
        assert copies == sorted(copies) and copies[-1] == SIZE, copies
        assert sb.cell("import os\nprint(os.stat('data/big.csv').st_size)"
                       ).stdout == "%d\n" % SIZE
        return growth


def in_little_memory(*what):
    growth = upload(*what)
    if not SANITIZED:
        assert growth <= GROWTH_MIB, growth


@tap.timeout(2 * SEND_S)
def test_little_memory_and_the_same_bytes():
    in_little_memory("0.6.13")


@tap.timeout(2 * SEND_S)
def test_packed():
    in_little_memory("0.6.13", False)


@tap.timeout(2 * SEND_S)
def test_as_a_form():
    in_little_memory("0.5.2")


@tap.timeout(2 * SEND_S)
def test_one_that_is_stopped():
    """Nothing of it counts as there, and the next goes well."""
    with Large() as large, E2bSession(fake={"drop": True}) as sb:
        assert sb.opened()["end"] == "done", sb.events
        fault = sb.server.fail(UPLOAD, stall=SIZE // 2)
        sb.request(op="put", path=large.path, name="big.csv")
        assert fault.reached.wait(SEND_S)
        sb.request(op="interrupt")
        end = sb.wait("op", timeout=SEND_S, name="put")
        assert (end["end"], end["code"]) == ("error", "cancelled"), end
        fault.release()
        cell = sb.cell("import os\nprint(os.path.exists('big.csv'))")
        assert cell.stdout == "False\n", cell
        sb.request(op="put", path=large.path, name="big.csv")
        assert sb.wait("op", timeout=SEND_S, name="put")["end"] == "done"


def seconds_to_stop(server, place, claude):
    """Of the program, from Ctrl-C in the middle of an upload to the prompt."""
    write_entry(place.homes, server)
    Large().write(place.file("big.csv", b""))
    with place.repl(claude, "--sandbox", NAME) as s:
        s.at_prompt()
        fault = server.fail(UPLOAD, stall=SIZE // 2)
        s.type_line(":load big.csv")
        assert fault.reached.wait(SEND_S)
        s.shows(re.compile(r"loading big\.csv: \d+ % of [\d.]+ [MG]B, "
                           r"[\d.]+ [kMG]?B/s"), SEND_S)
        took = s.interrupt()
        # Its end stands behind what is not read yet.
        fault.release()
        assert server.wait_request(UPLOAD).status == -1
        s.ask(":files")
        s.has("stopped")
        return took


@tap.timeout(2 * SEND_S + STEP_S)
def test_progress_is_shown_and_ctrl_c_ends_it():
    with E2bServer(drop=True) as server:
        with Place() as place, ClaudeServer() as claude:
            took = seconds_to_stop(server, place, claude)
        tap.diag("prompt after %d ms" % (took * 1000))
        assert took * 1000 <= STOP_MS * PATIENCE, took
        check_service(server)


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("memory is not the program's alone in this build")
    if unavailable():
        tap.skip_all(unavailable())
    tap.main(globals())
