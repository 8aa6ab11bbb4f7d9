#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts as a person sees them: on a screenshot of a real xterm, and hostile
pictures, which end the picture program and nothing else."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HELPERS = os.path.join(HERE, "..", "helpers")
sys.path.insert(0, HELPERS)

import tap  # noqa: E402
from png_chunks import CELL  # noqa: E402
from pty_session import PtySession, build_env, make_home  # noqa: E402
from replay import program, write_replay  # noqa: E402

BLUE, ORANGE = (0x1f, 0x77, 0xb4), (0xff, 0x7f, 0x0e)

CHART = """
import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(6, 4))
ax.bar(["a", "b"], [3, 4], color="C0")
ax.bar(["c", "d"], [2, 5], color="C1")
ax.set_title("Two colours")
"""


def pixels(path):
    """colour -> number of pixels."""
    done = subprocess.run(["convert", path, "-depth", "8", "rgb:-"],
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    data = done.stdout
    counts = {}
    for i in range(0, len(data), 3):
        colour = data[i:i + 3]
        counts[colour] = counts.get(colour, 0) + 1
    return {tuple(k): n for k, n in counts.items()}


def size_of(path):
    done = subprocess.run(["convert", path, "-format", "%w %h", "info:"],
                          capture_output=True, text=True)
    return tuple(int(n) for n in done.stdout.split())


def near(counts, wanted):
    """Pixels of a colour; sixel rounds each part to a percent."""
    return sum(n for colour, n in counts.items()
               if all(abs(a - b) <= 3 for a, b in zip(colour, wanted)))


# Types the question for xterm, and says when the chart has been drawn.
TYPIST = r"""
import os, pty, select, sys, termios, tty, fcntl, struct
done, argv = sys.argv[1], sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execv(argv[0], argv)
size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
fcntl.ioctl(fd, termios.TIOCSWINSZ, size)
os.kill(pid, 28)
tty.setraw(0)
seen, asked = b"", False
while True:
    ready, _, _ = select.select([0, fd], [], [])
    if fd in ready:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
        view = data
        while view:
            view = view[os.write(1, view):]
        if not asked and b"> " in seen:
            asked = True
            os.write(fd, b"draw it\r")
        if b"All drawn." in seen and b"1 cell" in seen:
            open(done, "w").close()
    if 0 in ready:
        os.write(fd, os.read(0, 65536))
"""


def have_tools():
    for tool in ("Xvfb", "xterm", "xwd", "convert"):
        if not shutil.which(tool):
            tap.skip("%s is not installed" % tool)


def shoot(top, cell):
    replay = write_replay(top, [cell], "All drawn.")
    shot = os.path.join(top, "shot.png")
    typist = os.path.join(top, "typist.py")
    with open(typist, "w") as f:
        f.write(TYPIST)
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") \
        else sys.executable
    env = build_env(make_home(top), "xterm-256color")
    env["TMPDIR"] = top
    done = subprocess.run(
        ["sh", os.path.join(HELPERS, "xterm_shot.sh"), shot,
         os.path.join(top, "done"), python, typist,
         os.path.join(top, "done"), program(), "--replay-model", replay],
        env=env, capture_output=True, text=True, timeout=100,
        stdin=subprocess.DEVNULL, start_new_session=True)
    if done.returncode == 77:
        tap.skip(done.stderr.strip())
    assert done.returncode == 0, done
    return shot


@tap.timeout(120)
def test_colours_on_a_real_xterm():
    have_tools()
    top = tempfile.mkdtemp(prefix="shot-")
    os.chmod(top, 0o755)
    try:
        shot = shoot(top, CHART)
        counts = pixels(shot)
        for name, colour in (("blue", BLUE), ("orange", ORANGE)):
            assert near(counts, colour) > 2000, (
                name, near(counts, colour),
                sorted(counts.items(), key=lambda c: -c[1])[:12])
        width, height = size_of(shot)
        # The chart's inside: around the bars there is nothing but white.
        white = counts.get((255, 255, 255), 0)
        almost = sum(n for c, n in counts.items()
                     if min(c) >= 250 and c != (255, 255, 255))
        assert white > 50000, white
        assert almost < white // 200, (almost, white)
        assert_background(shot, width, height)
    finally:
        shutil.rmtree(top, ignore_errors=True)


def assert_background(shot, width, height):
    """Between two bars, in the picture itself and not in the window."""
    done = subprocess.run(["convert", shot, "-depth", "8", "rgb:-"],
                          capture_output=True)
    data = done.stdout
    rows = [data[y * width * 3:(y + 1) * width * 3] for y in range(height)]

    def is_near(pixel, colour):
        return all(abs(a - b) <= 3 for a, b in zip(pixel, colour))
    checked = 0
    for row in rows:
        line = [tuple(row[x * 3:x * 3 + 3]) for x in range(width)]
        blue = [x for x in range(width) if is_near(line[x], BLUE)]
        if len(blue) < 40:
            continue
        between = [line[x] for x in range(blue[0], blue[-1])
                   if not is_near(line[x], BLUE)]
        # Edges are blended; the middle of the gap is the background.
        if len(between) > 10:
            middle = between[len(between) // 2]
            assert middle == (255, 255, 255), middle
            checked += 1
    assert checked > 20, checked


@tap.timeout(60)
def test_caption_stands_below_the_chart():
    with_chart = run_on_pty(CHART)
    assert len(with_chart.images) == 1
    assert re.search(r"Two colours.*:save 1", with_chart.all_text()), \
        with_chart.all_text()


# ---- hostile pictures ------------------------------------------------------

class Seen:
    pass


def run_on_pty(cell, after="print('still', 'alive')"):
    top = tempfile.mkdtemp(prefix="pic-")
    os.chmod(top, 0o755)
    try:
        replay = write_replay(top, ([cell], "Shown."), ([after], "Second."))
        with PtySession([program(), "--replay-model", replay], cols=120,
                        rows=60, profile="vt340") as s:
            s.expect("> ", 30)
            s.send("show\r")
            s.expect("Shown.", 40)
            s.expect(re.compile(rb"1 cell.*> ", re.S), 20)
            s.send("again\r")
            s.expect("still alive", 40)
            s.expect("Second.", 20)
            s.expect(re.compile(rb"1 cell.*> ", re.S), 20)
            assert s.screen.unexpected == [], s.screen.unexpected
            s.send("\x04")
            assert s.wait_exit(10) == 0
            return s.screen
    finally:
        shutil.rmtree(top, ignore_errors=True)


MAKE = CELL + r"""
def png(width, height, data, end=True):
    return SIGNATURE + ihdr(width, height) + chunk(b"IDAT", data) + (
        chunk(b"IEND", b"") if end else b"")
class P:
    def __init__(self, data):
        self.data = data
    def _repr_png_(self):
        return self.data
    def __repr__(self):
        return "a picture"
good = zlib.compress((b"\0" + b"\x1f\x77\xb4" * 200) * 100)
"""

HOSTILE = {
    "huge header": "P(png(65000, 65000, good))",
    "truncated": "P(png(200, 100, good)[:150])",
    "cut data": "P(png(200, 100, good[:20], False))",
    "bomb": "P(png(2800, 2800, zlib.compress(bytes(200 << 20))))",
    "too little": "P(png(2800, 2800, zlib.compress(b'')))",
    "bad crc": "P(png(200, 100, good).replace(b'IDAT', b'IDAU'))",
    "no size": "P(png(0, 0, good))",
    "no deflate": "P(png(200, 100, b'x' * 5000))",
}


def check_hostile(name):
    screen = run_on_pty(MAKE + HOSTILE[name])
    if name == "bomb" and len(screen.images) == 1:
        # What is behind the last row may be left alone.
        return
    assert screen.images == [], (name, screen.images)
    shown = re.sub(r"(?ms)── \d+ python.*?^──\s*$", "", screen.all_text())
    before = shown.split("Shown.")[0]
    # Something is said in its place.
    assert re.search(r"picture|PNG|pixel|image|megapixel|damaged|shown|chart",
                     before), (name, before)


@tap.timeout(60)
def test_good_picture_of_an_object():
    """The control: the same way, with nothing wrong."""
    screen = run_on_pty(MAKE + "P(png(200, 100, good))")
    assert len(screen.images) == 1, screen.all_text()


def _add_hostile():
    for name in HOSTILE:
        def test(name=name):
            check_hostile(name)
        globals()["test_hostile_" + name.replace(" ", "_")] = \
            tap.timeout(60)(test)


_add_hostile()


if __name__ == "__main__":
    tap.main(globals())
