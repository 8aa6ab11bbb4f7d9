#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture program, from PNG to the pixels of its sixel.

The pictures are made here, and so is the decoder of the answer.
"""

import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from png_chunks import SIGNATURE, chunk, ihdr  # noqa: E402

PROGRAM = os.environ.get("SANDPIPER_PICTURE", "./sandpiper-picture")
STEP_SECONDS = 60
WHITE = (255, 255, 255)
FORM = b"sandpiper-picture 1 "
REASONS = {b"not-png", b"too-large", b"damaged", b"memory", b"internal"}

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {
    GREY: (1, 2, 4, 8, 16),
    RGB: (8, 16),
    PALETTE: (1, 2, 4, 8),
    GREY_ALPHA: (8, 16),
    RGBA: (8, 16),
}
ADAM7 = (
    (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4),
    (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2),
)


# ---- making PNG ------------------------------------------------------------

def pack_row(samples, depth):
    if depth == 16:
        return b"".join(struct.pack(">H", s) for s in samples)
    if depth == 8:
        return bytes(samples)
    out = bytearray()
    per_byte = 8 // depth
    for i in range(0, len(samples), per_byte):
        byte = 0
        part = samples[i:i + per_byte]
        for s in part:
            byte = byte << depth | s
        out.append(byte << depth * (per_byte - len(part)))
    return bytes(out)


def make_png(pixels, depth, colour, interlace=False, extra=b"", tail=True):
    """pixels: rows of tuples of samples at the depth of the file."""
    height, width = len(pixels), len(pixels[0])
    raw = bytearray()
    passes = ADAM7 if interlace else ((0, 0, 1, 1),)
    for x0, y0, dx, dy in passes:
        for y in range(y0, height, dy):
            row = [s for x in range(x0, width, dx) for s in pixels[y][x]]
            if row:
                raw += b"\0" + pack_row(row, depth)
    out = SIGNATURE + ihdr(width, height, depth, colour, int(interlace))
    out += extra + chunk(b"IDAT", zlib.compress(bytes(raw)))
    return out + chunk(b"IEND", b"") if tail else out


def rgb_png(pixels, **more):
    return make_png(pixels, 8, RGB, **more)


def flat(width, height, colour):
    return [[colour] * width for _ in range(height)]


# ---- reading the answer ----------------------------------------------------

class Answer:
    def __init__(self, done):
        self.status = done.returncode
        self.out = done.stdout
        self.line, _, self.body = done.stdout.partition(b"\n")

    @property
    def reason(self):
        """The word of a refusal; the answer must be nothing else."""
        found = re.fullmatch(FORM + rb"error ([a-z-]+)\n", self.out)
        assert found, "no refusal: %r" % self.out[:200]
        assert found[1] in REASONS, found[1]
        assert self.status == 1, self.status
        return found[1].decode()

    def picture(self):
        found = re.fullmatch(FORM + rb"sixel (\d+) (\d+) (\d+)", self.line)
        assert found, "no picture: %r" % self.out[:200]
        assert self.status == 0, self.status
        width, height, colours = (int(n) for n in found.groups())
        return decode_sixel(self.body, width, height, colours)


def decode_sixel(data, width, height, colours):
    """Returns rows of (r, g, b); everything not understood is a failure."""
    start = b'\x1bPq"1;1;%d;%d' % (width, height)
    assert data.startswith(start), data[:60]
    assert data.endswith(b"\x1b\\"), data[-20:]
    body = data[len(start):-2].decode("ascii")
    rows = [[None] * width for _ in range(height)]
    palette = {}
    now = x = band = at = 0
    token = re.compile(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|(?:!(\d+))?([?-~])|[$]|-")
    while at < len(body):
        found = token.match(body, at)
        assert found, body[at:at + 20]
        at = found.end()
        text = found[0]
        if text[0] == "#":
            now = int(found[1])
            assert now < colours, now
            if found[2] is not None:
                palette[now] = tuple(
                    (int(found[i]) * 255 + 50) // 100 for i in (2, 3, 4))
        elif text == "$":
            x = 0
        elif text == "-":
            x = 0
            band += 1
        else:
            bits = ord(found[6]) - 0x3f
            for _ in range(int(found[5] or 1)):
                for k in range(6):
                    if bits >> k & 1:
                        rows[6 * band + k][x] = palette[now]
                x += 1
    assert all(p is not None for row in rows for p in row), "pixels not drawn"
    return rows


def run(png, *options, size=(1000, 1000), cell=20, chunks=None):
    """Runs the program on bytes; chunks makes a stream without end."""
    args = [PROGRAM, "--max-width", str(size[0]), "--max-height", str(size[1]),
            "--cell-height", str(cell)]
    return run_args(args + [str(o) for o in options], png, chunks)


def run_args(args, png, chunks=None):
    with subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env={}) as child:
        if chunks is None:
            out, _ = child.communicate(png, timeout=STEP_SECONDS)
        else:
            try:
                for part in chunks:
                    child.stdin.write(part)
                child.stdin.close()
            except BrokenPipeError:
                pass
            child.stdin = None
            out, _ = child.communicate(timeout=STEP_SECONDS)
        return Answer(subprocess.CompletedProcess(args, child.returncode, out))


def close_to(got, want, distance=2):
    return all(abs(a - b) <= distance for a, b in zip(got, want))


def expect_pixels(rows, want, distance=2):
    for y, line in enumerate(want):
        for x, pixel in enumerate(line):
            assert close_to(rows[y][x], pixel, distance), \
                "(%d,%d): %r, not %r" % (x, y, rows[y][x], pixel)


# ---- tests -----------------------------------------------------------------

def sample_pixels(colour, depth, width, height, seed):
    """Samples of a file, and the colours they stand for on white."""
    rnd = random.Random(seed)
    top = (1 << depth) - 1
    steps = [top * i // 3 for i in range(4)] if top >= 3 else [0, 1]
    pixels, want = [], []
    for _ in range(height):
        row, shown = [], []
        for _ in range(width):
            p = tuple(rnd.choice(steps) for _ in range(CHANNELS[colour]))
            unit = [s / top for s in p]
            if colour in (GREY, GREY_ALPHA):
                base = [unit[0]] * 3
            else:
                base = unit[:3]
            alpha = unit[-1] if colour in (GREY_ALPHA, RGBA) else 1
            row.append(p)
            shown.append(tuple(255 * (b * alpha + 1 - alpha) for b in base))
        pixels.append(row)
        want.append(shown)
    return pixels, want


def test_all_colour_types_and_depths():
    for colour, depths in DEPTHS.items():
        if colour == PALETTE:
            continue
        for depth in depths:
            for interlace in (False, True):
                pixels, want = sample_pixels(colour, depth, 21, 19, depth)
                png = make_png(pixels, depth, colour, interlace)
                rows = run(png).picture()
                assert len(rows) == 20 and len(rows[0]) == 21
                # sixel has percents: half a percent is 1.3 of 255
                expect_pixels(rows, want, 3)
                assert rows[19] == [WHITE] * 21


def test_palettes():
    entries = [(0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 128, 255)]
    for depth in DEPTHS[PALETTE]:
        n = min(4, 1 << depth)
        pixels = [[((x + y) % n,) for x in range(13)] for y in range(20)]
        plte = chunk(b"PLTE", bytes(v for e in entries[:n] for v in e))
        trns = chunk(b"tRNS", bytes([0, 255]))
        for extra, zero in ((plte, (0, 0, 0)), (plte + trns, (10, 20, 30))):
            shown = [zero] + entries[1:]
            for interlace in (False, True):
                png = make_png(pixels, depth, PALETTE, interlace, extra)
                rows = run(png, "--background", "0a141e").picture()
                expect_pixels(rows, [[shown[p[0]] for p in row]
                                     for row in pixels])


def test_transparent_colour_of_grey_and_rgb():
    grey = make_png([[(7,), (200,)] * 6] * 20, 8, GREY,
                    extra=chunk(b"tRNS", struct.pack(">H", 7)))
    expect_pixels(run(grey).picture(), [[WHITE, (200,) * 3] * 6] * 20)
    rgb = make_png([[(7, 8, 9), (1, 2, 3)] * 6] * 20, 8, RGB,
                   extra=chunk(b"tRNS", struct.pack(">HHH", 7, 8, 9)))
    expect_pixels(run(rgb).picture(), [[WHITE, (1, 2, 3)] * 6] * 20)


def test_background_shows_through():
    png = make_png([[(0, 0, 0, 0), (255, 255, 255, 128)]] * 20, 8, RGBA)
    rows = run(png, "--background", "ff0000").picture()
    expect_pixels(rows, [[(255, 0, 0), (255, 128, 128)]] * 20)
    # A gamma in the file changes nothing.
    png = make_png([[(0, 0, 0, 128), (128, 0, 0, 255)]] * 20, 8, RGBA,
                   extra=chunk(b"gAMA", struct.pack(">I", 45455)))
    expect_pixels(run(png).picture(), [[(127,) * 3, (128, 0, 0)]] * 20)


def test_white_stays_white_with_many_colours():
    rnd = random.Random(5)
    pixels = flat(160, 120, WHITE)
    for y in range(20, 100):
        for x in range(20, 140):
            pixels[y][x] = tuple(rnd.randrange(256) for _ in range(3))
    for y in range(5, 15):
        for x in range(20, 140):
            pixels[y][x] = (255 - x // 10, 255 - x // 15, 254)
    for colours in (4, 16, 64, 256):
        rows = run(rgb_png(pixels), "--colours", colours).picture()
        for y, line in enumerate(pixels):
            for x, p in enumerate(line):
                if p == WHITE:
                    assert rows[y][x] == WHITE, (colours, x, y, rows[y][x])
        assert len({p for row in rows for p in row}) <= colours


def test_sizes():
    png = rgb_png(flat(300, 200, (0, 0, 255)))
    cases = (
        ((1000, 1000), 20, (300, 200)),
        ((1000, 1000), 30, (300, 210)),
        ((150, 1000), 20, (150, 100)),
        ((1000, 100), 20, (150, 100)),
        ((151, 1000), 20, (151, 120)),
        ((1000, 119), 20, (150, 100)),
        ((1, 1000), 20, (1, 20)),
    )
    for size, cell, want in cases:
        rows = run(png, size=size, cell=cell).picture()
        assert (len(rows[0]), len(rows)) == want, (size, cell, len(rows))
        assert close_to(rows[0][0], (0, 0, 255))


def test_padding_is_background():
    rows = run(rgb_png(flat(40, 21, (0, 0, 0))), "--background",
               "00ff00").picture()
    assert len(rows) == 40
    expect_pixels(rows, flat(40, 21, (0, 0, 0)) + flat(40, 19, (0, 255, 0)))


def test_very_small_pictures():
    for width, height in ((1, 1), (1, 5), (40, 5), (5, 6), (7, 7)):
        for cell in (1, 2, 6, 18, 20):
            rows = run(rgb_png(flat(width, height, (0, 0, 0))),
                       cell=cell).picture()
            assert len(rows) % cell == 0 and len(rows) >= max(6, height)
            assert len(rows) < max(6, height) + max(cell, 1)
            expect_pixels(rows, flat(width, height, (0, 0, 0)) +
                          flat(width, len(rows) - height, WHITE), 0)


def test_shrinking_averages():
    pixels = [[(0, 0, 0), WHITE] * 20, [WHITE, (0, 0, 0)] * 20] * 20
    rows = run(rgb_png(pixels), size=(20, 1000)).picture()
    expect_pixels(rows, flat(20, 20, (128, 128, 128)))


def test_info():
    def info(png):
        return run_args([PROGRAM, "--info"], png)
    answer = info(rgb_png(flat(300, 200, WHITE)))
    assert (answer.status, answer.out) == (0, FORM + b"info 300 200\n")
    assert info(b"GIF89a" + bytes(100)).reason == "not-png"
    assert info(SIGNATURE + ihdr(60000, 60000, 8, RGB)).reason == "too-large"
    assert info(SIGNATURE + ihdr(10, 10, 3, RGB)).reason == "damaged"


def test_not_png():
    for data in (b"", b"\x89PN", b"GIF89a" + bytes(100), b"<svg/>" * 99,
                 b"\xff\xd8\xff\xe0" + bytes(100), SIGNATURE[:7] + b"\r" * 30,
                 b"\x1b]0;title\x07" * 10):
        assert run(data).reason == "not-png", data[:10]


def test_size_limits():
    for width, height in ((60000, 60000), (4097, 1), (1, 4097), (4096, 2049),
                          (0x7fffffff, 1), (0xffffffff, 0xffffffff),
                          (65536, 65536)):
        png = SIGNATURE + ihdr(width, height, 8, RGB)
        assert run(png + bytes(100)).reason == "too-large", (width, height)
    for width, height in ((0, 5), (5, 0), (0, 0)):
        png = SIGNATURE + ihdr(width, height, 8, RGB)
        assert run(png + bytes(100)).reason == "damaged", (width, height)


def test_largest_picture():
    rows = zlib.compress(bytes((3 * 4096 + 1) * 2048), 9)
    png = SIGNATURE + ihdr(4096, 2048, 8, RGB) + chunk(b"IDAT", rows)
    begin = time.monotonic()
    answer = run(png + chunk(b"IEND", b""), size=(4096, 4096), cell=16)
    assert answer.line == FORM + b"sixel 4096 2048 2", answer.out[:99]
    tap.diag("4096x2048 in %.2f s, %d MiB at most for any child" % (
        time.monotonic() - begin,
        resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024))
    # The padding would pass the limit.
    answer = run(png, size=(4096, 4096), cell=20)
    assert answer.reason == "too-large"


def test_damaged():
    good = rgb_png([[(x * 5, y * 5, 99) for x in range(50)]
                    for y in range(50)])
    body = good.index(b"IDAT")
    for cut in (9, 16, 23, 24, 30, 33, body - 4, body, body + 20,
                len(good) - 30):
        assert run(good[:cut]).reason == "damaged", cut
    flipped = bytearray(good)
    flipped[body + 30] ^= 0x55
    assert run(bytes(flipped)).reason == "damaged"
    head = SIGNATURE + ihdr(50, 50, 8, RGB)
    short = chunk(b"IDAT", zlib.compress(bytes(151 * 20)))
    for rest in (short + chunk(b"IEND", b""), chunk(b"IEND", b""),
                 chunk(b"IDAT", b"no zlib at all") + chunk(b"IEND", b"")):
        assert run(head + rest).reason == "damaged"
    no_palette = make_png([[(0,)] * 9] * 9, 8, PALETTE)
    assert run(no_palette).reason == "damaged"
    wrong_crc = bytearray(good)
    wrong_crc[29] ^= 1
    assert run(bytes(wrong_crc)).reason == "damaged"
    for depth, colour in ((3, GREY), (16, PALETTE), (8, 5), (4, RGB), (0, 0)):
        bad = SIGNATURE + ihdr(9, 9, depth, colour) + short
        assert run(bad).reason == "damaged", (depth, colour)


def test_random_damage():
    """Whatever the bytes are, there is a picture or a refusal."""
    rnd = random.Random(11)
    good = [make_png(sample_pixels(c, d, 17, 15, 1)[0], d, c, i)
            for c, d, i in ((RGB, 8, False), (RGBA, 16, True),
                            (GREY, 1, True), (GREY_ALPHA, 8, False))]
    for _ in range(120):
        data = bytearray(rnd.choice(good))
        for _ in range(rnd.randrange(1, 4)):
            data[rnd.randrange(len(data))] = rnd.randrange(256)
        answer = run(bytes(data))
        if answer.status == 0:
            answer.picture()
        else:
            answer.reason


def test_text_of_the_file_is_not_shown():
    mark = b"\x1b]0;MARK\x07"
    text = chunk(b"tEXt", b"Title\0" + mark) + chunk(b"iTXt", mark)
    assert b"MARK" not in run(rgb_png(flat(9, 9, WHITE), extra=text)).out
    for png in (rgb_png(flat(9, 9, WHITE), extra=text)[:80],
                SIGNATURE + ihdr(9, 9, 8, RGB) + chunk(mark[:4], mark)):
        assert run(png).reason == "damaged"


def test_compressed_text_bomb():
    bomb = zlib.compressobj(9)
    packed = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(200))
    packed += bomb.flush()
    for kind, head in ((b"zTXt", b"Comment\0\0"), (b"iCCP", b"profile\0\0"),
                       (b"iTXt", b"Comment\0\1\0\0\0")):
        png = rgb_png(flat(9, 9, WHITE), extra=chunk(kind, head + packed))
        begin = time.monotonic()
        run(png).picture()
        assert time.monotonic() - begin < 10 * tap.FACTOR, kind
    many = chunk(b"tEXt", b"Comment\0" + b"x" * 100) * 5000
    run(rgb_png(flat(9, 9, WHITE), extra=many)).picture()


def test_pixel_bomb():
    """More rows than the header says, and a very small file."""
    rows = zlib.compress(bytes(50 * 1024 * 1024), 9)
    png = SIGNATURE + ihdr(10, 10, 8, RGB) + chunk(b"IDAT", rows)
    assert run(png + chunk(b"IEND", b"")).status in (0, 1)


def test_input_limit():
    """Chunks are skipped without end: the pipe must not be read for ever."""
    filler = chunk(b"teSt", bytes(1 << 20))
    head = SIGNATURE + ihdr(9, 9, 8, RGB)

    def parts():
        yield head
        for _ in range(64):
            yield filler
    assert run(None, chunks=parts()).reason == "too-large"


def test_input_in_small_pieces():
    png = rgb_png(flat(30, 20, (0, 0, 0)))

    def parts():
        for i in range(len(png)):
            yield png[i:i + 1]
    expect_pixels(run(None, chunks=parts()).picture(), flat(30, 20, (0, 0, 0)))


def test_options():
    png = rgb_png(flat(9, 9, WHITE))
    good = ["--max-width", "100", "--max-height", "100", "--cell-height", "20"]
    assert run_args([PROGRAM] + good, png).status == 0
    bad = (
        [], good[:4], good[2:], good + ["--colours"], good + ["--colours", "1"],
        good + ["--colours", "257"], good + ["--colours", "-2"],
        good + ["--colours", "0x10"], good + ["--colours", " 16"],
        good + ["--colours", ""], good + ["--max-width", "0"],
        good + ["--max-width", "4097"], good + ["--max-width", "4294967297"],
        good + ["--background", "fffff"], good + ["--background", "white0"],
        good + ["--background", "-fffff"], good + ["--unknown", "1"],
        good + ["FILE"], good + ["--max-height", "19"],
    )
    for options in bad:
        assert run_args([PROGRAM] + options, png).reason == "internal", options


def test_reader_that_leaves():
    """No output, no hang: the program ends when nobody reads."""
    png = rgb_png([[(x % 256, y % 256, x * y % 256) for x in range(400)]
                   for y in range(300)])
    read_end, write_end = os.pipe()
    os.close(read_end)
    args = [PROGRAM, "--max-width", "400", "--max-height", "300",
            "--cell-height", "20"]
    child = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=write_end,
                             stderr=subprocess.DEVNULL, env={})
    os.close(write_end)
    child.communicate(png, timeout=STEP_SECONDS)
    assert child.returncode in (1, -signal.SIGPIPE), child.returncode


if __name__ == "__main__":
    if not os.access(PROGRAM, os.X_OK):
        tap.skip_all("no program at %s" % PROGRAM)
    tap.main(globals())
