#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture program asked for a smaller PNG, down to the pixels."""

import os
import random
import re
import struct
import sys
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

from test_picture import (FORM, GREY, PALETTE, PROGRAM, RGB,  # noqa: E402
                          RGBA, WHITE, expect_pixels, flat, make_png,
                          rgb_png, run_args, sample_pixels)

import tap  # noqa: E402
from png_chunks import SIGNATURE, chunk, ihdr  # noqa: E402


def ask(png, side, *options, chunks=None):
    return run_args([PROGRAM, "--png", str(side)] + list(options), png, chunks)


def unfilter(raw, width, height):
    """Rows of (r, g, b) of what stands in the IDAT of 8-bit RGB."""
    before = bytearray(3 * width)
    rows, at = [], 0
    for _ in range(height):
        kind, line = raw[at], bytearray(raw[at + 1:at + 1 + 3 * width])
        at += 1 + 3 * width
        for i in range(len(line)):
            a = line[i - 3] if i >= 3 else 0
            b, c = before[i], before[i - 3] if i >= 3 else 0
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b),
                        (abs(p - c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, nearest)[kind]) & 255
        rows.append([tuple(line[i:i + 3]) for i in range(0, len(line), 3)])
        before = line
    assert at == len(raw), "%d bytes too many" % (len(raw) - at)
    return rows


def pixels(answer):
    """The rows of a PNG that holds pixels and nothing else."""
    found = re.fullmatch(FORM + rb"png (\d+) (\d+)", answer.line)
    assert found and answer.status == 0, answer.out[:99]
    width, height = int(found[1]), int(found[2])
    body, at, kinds, packed = answer.body, 8, [], b""
    assert body.startswith(SIGNATURE + ihdr(width, height, 8, RGB)), body[:40]
    while at < len(body):
        size, kind = struct.unpack_from(">I4s", body, at)
        data = body[at + 8:at + 8 + size]
        assert body[at:at + 12 + size] == chunk(kind, data), kind
        kinds.append(kind)
        packed += data if kind == b"IDAT" else b""
        at += 12 + size
    assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}, kinds
    assert kinds[-1] == b"IEND" and kinds.count(b"IEND") == 1, kinds
    return unfilter(zlib.decompress(packed), width, height)


def test_sizes():
    for width, height, side, want in (
            (300, 200, 150, (150, 100)), (200, 300, 150, (100, 150)),
            (300, 300, 299, (299, 299)), (301, 7, 150, (150, 3)),
            (400, 1, 10, (10, 1)), (1, 400, 10, (1, 10)),
            (31, 17, 1, (1, 1))):
        rows = pixels(ask(rgb_png(flat(width, height, (9, 99, 200))), side))
        assert (len(rows[0]), len(rows)) == want, (width, height, side)
        expect_pixels(rows, flat(*want, (9, 99, 200)), 0)


def test_small_ones_stay():
    """Nothing but a line comes back."""
    png = rgb_png(flat(30, 20, WHITE), extra=chunk(b"tEXt", b"Title\0x"))
    for side in (30, 31, 4096):
        answer = ask(png, side)
        assert (answer.status, answer.out) == (0, FORM + b"same 30 20\n")


def test_shrinking_averages():
    black = (0, 0, 0)
    png = rgb_png([[black, WHITE] * 20, [WHITE, black] * 20] * 20)
    expect_pixels(pixels(ask(png, 20)), flat(20, 20, (128, 128, 128)), 0)


def test_every_kind_of_png():
    for colour, depth, interlace in ((GREY, 1, True), (RGB, 16, False),
                                     (RGBA, 8, True)):
        samples, want = sample_pixels(colour, depth, 24, 12, depth)
        big = [[p for p in row for _ in range(2)]
               for row in samples for _ in range(2)]
        rows = pixels(ask(make_png(big, depth, colour, interlace), 24))
        expect_pixels(rows, want, 1)
    shown = make_png([[(0, 0, 0, 0)] * 8] * 8, 8, RGBA)
    rows = pixels(ask(shown, 4, "--background", "ff0000"))
    expect_pixels(rows, flat(4, 4, (255, 0, 0)), 0)


def test_largest_picture():
    raw = bytearray(random.Random(3).randbytes((3 * 4096 + 1) * 2048))
    # Each row begins with the number of a filter.
    raw[::3 * 4096 + 1] = bytes(2048)
    png = (SIGNATURE + ihdr(4096, 2048, 8, RGB) +
           chunk(b"IDAT", zlib.compress(bytes(raw), 1)) + chunk(b"IEND", b""))
    begin = time.monotonic()
    answer = ask(png, 1568)
    assert answer.line == FORM + b"png 1568 784", answer.out[:99]
    assert len(answer.body) < 3 * 1568 * 784 * 1.01, len(answer.body)
    tap.diag("4096x2048 to 1568 in %.2f s" % (time.monotonic() - begin))
    # As much work and memory as anybody can ask for.
    answer = ask(png, 4095)
    assert answer.line == FORM + b"png 4095 2048", answer.out[:99]


def test_hostile():
    good = rgb_png([[(x * 5, y * 5, 99) for x in range(50)]
                    for y in range(50)])
    for data, reason in (
            (b"", "not-png"), (b"GIF89a" + bytes(100), "not-png"),
            (b"\x1b]0;title\x07" * 10, "not-png"),
            (SIGNATURE + ihdr(60000, 60000, 8, RGB), "too-large"),
            (SIGNATURE + ihdr(4096, 2049, 8, RGB) + bytes(99), "too-large"),
            (SIGNATURE + ihdr(0, 5, 8, RGB) + bytes(99), "damaged"),
            (good[:-40], "damaged"), (good[:60], "damaged"),
            (make_png([[(0,)] * 9] * 9, 8, PALETTE), "damaged")):
        for side in (10, 4096):
            assert ask(data, side).reason == reason, data[:40]


def test_random_damage():
    """Whatever the bytes are, there is a picture or a refusal."""
    rnd = random.Random(12)
    good = [make_png(sample_pixels(c, d, 17, 15, 1)[0], d, c, i)
            for c, d, i in ((RGB, 8, False), (RGBA, 16, True),
                            (GREY, 1, True))]
    for _ in range(120):
        data = bytearray(rnd.choice(good))
        for _ in range(rnd.randrange(1, 4)):
            data[rnd.randrange(len(data))] = rnd.randrange(256)
        answer = ask(bytes(data), rnd.choice((5, 100)))
        if answer.status != 0:
            assert answer.reason
        elif not answer.line.startswith(FORM + b"same "):
            pixels(answer)


def test_text_of_the_file_does_not_pass():
    mark = b"MARK" * 50
    extra = chunk(b"tEXt", b"Title\0" + mark) + chunk(b"iTXt", mark)
    assert b"MARK" not in ask(rgb_png(flat(9, 9, WHITE), extra=extra), 5).out


def test_bombs():
    packed = zlib.compress(bytes(50 << 20), 9)
    begin = time.monotonic()
    ask(rgb_png(flat(9, 9, WHITE),
                extra=chunk(b"zTXt", b"Comment\0\0" + packed)), 5)
    ask(SIGNATURE + ihdr(10, 10, 8, RGB) + chunk(b"IDAT", packed), 5)
    assert time.monotonic() - begin < 5
    filler = chunk(b"teSt", bytes(1 << 20))

    def parts():
        yield SIGNATURE + ihdr(9, 9, 8, RGB)
        for _ in range(64):
            yield filler
    assert ask(None, 5, chunks=parts()).reason == "too-large"


def test_options():
    png = rgb_png(flat(9, 9, WHITE))
    for bad in ("0", "-1", "4097", "0x10", "", "5 ", "99999"):
        assert run_args([PROGRAM, "--png", bad], png).reason == "internal", bad
    assert run_args([PROGRAM, "--png"], png).reason == "internal"


if __name__ == "__main__":
    tap.main(globals())
