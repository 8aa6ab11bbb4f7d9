#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""model.see_charts: charts go to the model as pictures, made small enough; by
default there is a line of text for each."""

import base64
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import STEP_S, Place  # noqa: E402

import tap  # noqa: E402
from claude_server import ClaudeServer, reply, tool_use  # noqa: E402

SEE = "model:\n  see_charts: true\n"


def chart(title, inches):
    return ("plt.figure(figsize=(%g, %g), dpi=100)\n"
            "plt.plot([1, 2, 3])\nplt.title(%r)\n" % (inches + (title,)))


def told(code, config=SEE):
    """The blocks of the only tool result."""
    with Place() as place, ClaudeServer([
            reply([tool_use("run_python", {
                "code": "import matplotlib.pyplot as plt\n" + code})]),
            reply(["Seen."])]) as server:
        if config:
            place.config(config)
        done = place.script(server, "-c", "draw", timeout=STEP_S * 2)
        assert done.status == 0, done
        (result,) = [block for block in
                     server.requests[1].body["messages"][-1]["content"]
                     if block["type"] == "tool_result"]
        return result["content"]


def size(block):
    """(width, height) of a picture."""
    assert block["type"] == "image", block
    source = block["source"]
    assert source["type"] == "base64", source
    assert source["media_type"] == "image/png", source
    data = base64.b64decode(source["data"])
    assert data.startswith(b"\x89PNG\r\n\x1a\n"), data[:20]
    return struct.unpack(">II", data[16:24])


@tap.timeout(120)
def test_charts_are_lines_by_default():
    blocks = told(chart("Growth", (4, 3)), None)
    assert [b["type"] for b in blocks] == ["text"], blocks
    assert "chart shown to the user" in blocks[0]["text"]
    assert "titled Growth" in blocks[0]["text"]


@tap.timeout(120)
def test_charts_are_sent_in_order():
    blocks = told(chart("First", (4, 3)) + chart("Second", (3, 4)))
    assert [b["type"] for b in blocks] == ["text", "image", "image"], blocks
    assert "titled First" in blocks[0]["text"]
    first, second = [size(block) for block in blocks[1:]]
    assert first[0] > first[1] and second[0] < second[1], (first, second)


@tap.timeout(120)
def test_large_charts_are_made_small():
    blocks = told(chart("Wide", (25, 10)))
    width, height = size(blocks[1])
    assert width == 1568 and 600 <= height <= 700, (width, height)


@tap.timeout(120)
def test_nobody_waits_for_a_picture_that_is_none():
    blocks = told("from IPython.display import Image, display\n"
                  "display(Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + b'x' * 90))\n"
                  "print('went on')\n")
    assert "went on" in blocks[0]["text"], blocks


if __name__ == "__main__":
    tap.main(globals())
