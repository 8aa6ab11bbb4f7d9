#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the client makes of events that are odd, too many or too large. The
interpreter is a fake, so that each is exactly the one that is meant."""

import base64
import inspect
import os
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from png_chunks import CELL, SIGNATURE, chunk, ihdr  # noqa: E402
from sandbox_session import Fake, peak_mib  # noqa: E402


def png(n_bytes=None):
    """In base64: one of a pixel, or of that many bytes."""
    head = SIGNATURE + ihdr(1, 1)
    rest = chunk(b"IDAT", zlib.compress(b"\0\1\2\3")) + chunk(b"IEND", b"")
    if n_bytes is not None:
        head += chunk(b"teSt", bytes(n_bytes - len(head) - len(rest) - 12))
    return base64.b64encode(head + rest).decode()


PNG = "import base64\n" + CELL + inspect.getsource(png)


def lost(cell, words):
    assert cell.end == "restarted" and cell.lost, cell
    assert cell.outcome == "died", cell
    assert words in cell.reason, cell
    for part in ("Variables and imports are gone", "files in /workspace",
                 "Re-create what you need"):
        assert part in cell.reason, cell


# ---- ignored ---------------------------------------------------------------

def test_unknown_events_and_fields():
    with Fake() as sb:
        cell = sb.cell("""
for i in range(200):
    send({"ev": "news", "id": id, "data": [i]})
send({"ev": "note", "id": id, "kind": "k", "text": "seen", "more": {"a": []}})
""")
        assert cell.outcome == "ok" and not cell.lost, cell
        assert [n["text"] for n in cell.notes] == ["seen"], cell


def test_events_without_their_types():
    with Fake() as sb:
        cell = sb.cell("""
for text in (5, None, [], {}, True):
    send({"ev": "note", "id": id, "kind": text, "text": text})
    send({"ev": "display", "id": id, "data": text, "meta": text, "i": text})
    send({"ev": text, "id": id})
""")
        assert cell.outcome == "ok" and not cell.lost, cell
        assert cell.notes == [] and cell.outputs == [], cell


def test_last_of_two_keys_counts():
    with Fake() as sb:
        cell = sb.cell("""
send(b'{"ev":"display","ev":"note","id":1,"id":%d,"kind":"k",'
     b'"text":"first","text":"last"}\\n' % id)
""")
        assert [n["text"] for n in cell.notes] == ["last"], cell


def test_nul_and_broken_text():
    with Fake() as sb:
        cell = sb.cell("""
send(b'{"ev":"note","id":%d,"kind":"k",'
     b'"text":"a\\\\u0000b\\\\ud800c"}\\n' % id)
""")
        assert [n["text"] for n in cell.notes] == [
            "a\ufffdb\ufffdc"], cell


def test_base64_that_is_none():
    with Fake() as sb:
        cell = sb.cell("""
for data in ("!!!", "iVBORw0KGgo", "=", 5, %r[:-9]):
    send({"ev": "display", "id": id,
          "data": {"image/png": data, "text/plain": "there"}})
""" % png())
        assert [o["png"] for o in cell.outputs] == [0] * 5, cell
        assert [o["text"] for o in cell.outputs] == ["there"] * 5, cell


@tap.timeout(60)
def test_large_line_that_is_allowed():
    with Fake() as sb:
        cell = sb.cell("""
send({"ev": "note", "id": id, "kind": "k", "text": "t",
      "more": "x" * ((12 << 20) - 100)})
send(b'{"ev":"note","id":%d,"kind":"k","text":"deep","a":' % id
     + b"[" * 15 + b"]" * 15 + b"}\\n")
""")
        assert [n["text"] for n in cell.notes] == ["t", "deep"], cell


@tap.timeout(120)
def test_largest_picture_arrives():
    """With the longest text beside it, every character as an escape. What of
    it is no longer needed is given back before the next copy is made."""
    with Fake() as sb:
        sb.opened()
        before = peak_mib(sb.process.pid)
        for _ in range(2):
            cell = sb.cell(PNG + """
for n_bytes in (8 << 20, (8 << 20) + 1):
    data = {"image/png": png(n_bytes), "text/plain": chr(0x1f600) * 65536}
    send({"ev": "display", "id": id, "data": data,
          "meta": {"width": 1, "height": 1, "title": "t" * 200}})
""", timeout=90)
            assert cell.outcome == "ok" and not cell.lost, cell.reason
            assert [o["png"] for o in cell.outputs] == [8 << 20, 0]
            assert all(o["text"] for o in cell.outputs)
        if not os.environ.get("SANDPIPER_SANITIZERS", "").strip():
            more = peak_mib(sb.process.pid) - before
            assert more < 24, (more, before)


# ---- too much for one cell -------------------------------------------------

@tap.timeout(60)
def test_limits_of_a_cell():
    picture = '{"image/png": %r}' % png()
    cases = [
        # what is sent, how often, how much of it is shown
        ("data={'text/plain': 'x'}", 1200, 1000),
        ("data=" + picture, 30, 20),
        ("data={'text/plain': 'x'}, more='y' * (3 << 20)", 12, 10),
    ]
    with Fake() as sb:
        for event, n, shown in cases:
            cell = sb.cell("for i in range(%d):\n"
                           "    send(dict(ev='display', id=id, %s))"
                           % (n, event))
            assert cell.outcome == "output_limit", (event, cell.outcome)
            assert len(cell.outputs) == shown, (event, len(cell.outputs))
            assert not cell.lost and "kept" in cell.reason, cell.reason
        assert sb.cell("pass").outcome == "ok"


# ---- the end of the interpreter --------------------------------------------

ENDS = {
    "b'no event\\n'": "no event",
    "b'[1]\\n'": "no event",
    "b'{\"ev\":\"note\",\"a\":' + b'[' * 16 + b']' * 16 + b'}\\n'":
        "no event",
    "b'{\"ev\":\"note\",\"a\":' + b'9' * 100000 + b'}\\n'": "no event",
    "b'{\"ev\":\"note\"} x\\n'": "no event",
    "b'{\"ev\":\"a\\0b\"}\\n'": "no event",
    "b'{\"ev\":\"a\\xffb\"}\\n'": "no event",
    "b'x' * ((12 << 20) + 1)": "over 12 MiB",
    "b'{\"ev\":\"' + b'x' * ((12 << 20) - 8) + b'\"}\\n'": "over 12 MiB",
    "b'{\"a\":[' + b'1,' * 200000 + b'1]}\\n'": "no event",
    "b'{\"ev\":\"pong\"}\\n' * 100": "nobody had asked for",
}


@tap.timeout(120)
def test_what_ends_the_interpreter():
    for event, words in ENDS.items():
        with Fake() as sb:
            sb.does("pass")
            cell = sb.cell("import time\nsend(%s)\ntime.sleep(30)" % event)
            lost(cell, words)
            assert sb.cell("pass").outcome == "ok", event


@tap.timeout(60)
def test_events_nobody_asked_for_while_none_runs():
    with Fake() as sb:
        cell = sb.cell("""
if os.fork() == 0:
    import time
    time.sleep(0.3)
    for i in range(99 if first else 100):
        send({"ev": "done", "id": id})
    os._exit(0)
""".replace("first", "True"))
        assert cell.outcome == "ok", cell
        cell = sb.cell("os.wait()")
        assert cell.outcome == "ok" and not cell.lost, cell
        cell = sb.cell("""
if os.fork() == 0:
    import time
    time.sleep(0.3)
    for i in range(100):
        send({"ev": "done", "id": id})
    os._exit(0)
""")
        assert cell.outcome == "ok", cell
        late = sb.wait("late")
        assert "that nobody had asked for" in late["loss"], late
        assert "variables and imports are gone" in late["loss"], late
        lost_cell = sb.cell("pass")
        assert lost_cell.end == "restarted", lost_cell


if __name__ == "__main__":
    tap.main(globals())
