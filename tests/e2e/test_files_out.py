#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that cells leave behind, as the whole program treats them: what is a
trap is refused and said in one line, and nothing of what it points to gets
onto the screen or into the session directory."""

import os
import re
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from png_chunks import CELL  # noqa: E402
from program import Place, results  # noqa: E402
from claude_server import ClaudeServer, reply, tool_use  # noqa: E402
from pty_session import PtySession, run_piped  # noqa: E402
from replay import program, write_replay  # noqa: E402
from sandbox_session import attack  # noqa: E402

with open("/etc/passwd", "rb") as passwd:
    # A line that is no part of anything else.
    SECRET = passwd.read().split(b"\n")[0]

FIRST = "import os\nos.chdir('/workspace')\n"


def session_files(top):
    """Relative path -> bytes of everything below the state directory."""
    out = {}
    state = os.path.join(top, "home", ".local", "state")
    for folder, dirs, files in os.walk(state):
        for name in files + dirs:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            assert not os.path.islink(path), path
            if os.path.isfile(path):
                assert info.st_mode & 0o077 == 0, (path, oct(info.st_mode))
                with open(path, "rb") as f:
                    out[os.path.relpath(path, state)] = f.read()
            else:
                assert info.st_mode & 0o077 == 0, (path, oct(info.st_mode))
    return out


class Ran:
    pass


def run(code, term=False):
    """One cell with the real program; checks what holds for every file."""
    top = tempfile.mkdtemp(prefix="out-")
    os.chmod(top, 0o755)
    ran = Ran()
    try:
        replay = write_replay(top, [FIRST + code], "All done.")
        argv = [program(), "--replay-model", replay]
        if term:
            with PtySession(argv, dir=top, profile="vt340", cols=200,
                            rows=50) as s:
                s.expect("> ", 30)
                s.send("go\r")
                s.expect("All done.", 40)
                s.expect("1 cell", 10)
                ran.raw = bytes(s.transcript)
                ran.said = s.screen.all_text()
                assert s.screen.unexpected == [], s.screen.unexpected
                s.send("\x04")
                assert s.wait_exit(10) == 0
        else:
            done = run_piped(argv + ["-c", "go"], dir=top, timeout=50)
            assert done.status == 0, done
            assert b"All done." in done.stdout, done
            ran.raw = done.stdout + done.stderr
            ran.said = done.stderr.decode()
            assert b"\x1b" not in ran.raw, ran.raw
        ran.files = session_files(top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    # Code is shown too and may name the file; its content must not be there.
    assert SECRET not in ran.raw, ran.raw
    for name, data in ran.files.items():
        assert SECRET not in data, name
    return ran


def line_about(ran, name):
    """The one line, outside the code, that is about that file."""
    without_code = re.sub(r"(?ms)── \d+ python$.*?^──\s*$", "", ran.said)
    lines = [line for line in without_code.split("\n") if name in line]
    assert len(lines) == 1, (name, ran.said)
    return lines[0]


TRAPS = {
    "symlink": ("os.symlink('/etc/passwd', 'chart.png')", "symbolic link"),
    "up": ("os.symlink('../../../../etc/passwd', 'chart.png')",
           "symbolic link"),
    "itself": ("os.symlink('chart.png', 'chart.png')", "symbolic link"),
    "fifo": ("os.mkfifo('chart.png')", "FIFO"),
    "socket": ("import socket\ns = socket.socket(socket.AF_UNIX)\n"
               "s.bind('chart.png')", "socket"),
    "sparse": ("fd = os.open('chart.png', os.O_CREAT | os.O_WRONLY)\n"
               "os.ftruncate(fd, (1 << 30) - 1)", "larger than"),
}


@attack(12, 13)
@tap.timeout(90)
def test_traps_are_refused_and_said():
    for name, (code, word) in TRAPS.items():
        ran = run(code)
        line = line_about(ran, "chart.png")
        assert word in line, (name, line)
        assert not any("chart" in f for f in ran.files), (name, ran.files)


@attack(12, 13)
@tap.timeout(90)
def test_traps_on_a_terminal():
    code = "\n".join(c.replace("chart.png", "chart-%s.png" % n)
                     for n, (c, _) in TRAPS.items())
    ran = run(code, term=True)
    for name, (_, word) in TRAPS.items():
        line = line_about(ran, "chart-%s.png" % name)
        assert word in line, (name, line)
    assert not any("chart" in f for f in ran.files), ran.files


@attack(17)
@tap.timeout(60)
def test_sparse_file_of_1_tib():
    ran = run("try:\n"
              "    fd = os.open('chart.png', os.O_CREAT | os.O_WRONLY)\n"
              "    os.ftruncate(fd, 1 << 40)\n    print('MADE')\n"
              "except OSError as e:\n    print('refused:', e)")
    assert "File too large" in ran.said, ran.said
    assert not re.search(r"(?m)^│ MADE", ran.said)


@attack(14)
@tap.timeout(60)
def test_hard_links():
    """Of what is read-only impossible; of the cell's own file refused."""
    ran = run("try:\n    os.link('/usr/bin/env', 'env')\n"
              "    print('LINKED')\nexcept OSError as e:\n"
              "    print('no:', e)\n"
              "open('one.txt', 'w').write('1')\nos.link('one.txt', 'two.txt')")
    assert "no:" in ran.said and not re.search("(?m)^│ LINKED", ran.said)
    for name in ("one.txt", "two.txt"):
        assert "several names" in line_about(ran, name), ran.said


@attack(12)
@tap.timeout(60)
def test_directory_link_in_the_middle():
    ran = run("os.symlink('/etc', 'output/sub')\n"
              "os.mkdir('output/real')\n"
              "open('output/real/ok.txt', 'w').write('fine')")
    assert "symbolic link" in line_about(ran, "output/sub"), ran.said
    assert "ok.txt" in ran.said
    assert b"fine" in ran.files.values() or any(
        data == b"fine" for data in ran.files.values()), ran.files
    assert not any("passwd" in name for name in ran.files), ran.files


NAMES = r"""
for name in (b"\x1b[31mred.txt", b"new\nline.txt", b"\xe2\x80\xaetxt.exe",
             b"bad\xff\xfe.txt", b"-rf.txt", b"--help", b"..csv",
             b"c1\xc2\x9b5m.txt", b"\x1b]0;title\x07.txt", b"cr\rover.txt",
             b"n" * 250 + b".txt"):
    open(name, "w").write("x")
"""


def check_names(ran):
    for bad in (b"\x1b[31mred", b"\x1b]0;title", b"\xe2\x80\xae", b"\xff",
                b"\xc2\x9b", b"cr\rover"):
        assert bad not in ran.raw, bad
    text = ran.said
    without_code = re.sub(r"(?ms)── \d+ python$.*?^──\s*$", "", text)
    for part in ("red.txt", "txt.exe", "-rf.txt", "--help", "..csv",
                 "over.txt", "5m.txt", "n" * 80):
        assert part in without_code, (part, text)
    assert "new\nline.txt" not in without_code, text
    names = [os.path.basename(f) for f in ran.files]
    copies = [n for n in names if ran.files and n]
    assert copies, ran.files
    for name in names:
        assert re.match(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z", name), repr(name)
    # Each is there under a name of its own.
    mine = [name for name, data in ran.files.items()
            if "/files/" in name and data == b"x"]
    assert len(mine) == 11, mine


@attack(16)
@tap.timeout(60)
def test_names_in_a_pipe():
    check_names(run(NAMES))


@attack(16)
@tap.timeout(60)
def test_names_on_a_terminal():
    ran = run(NAMES, term=True)
    check_names(ran)


@tap.timeout(60)
def test_plain_file_is_copied():
    """The control: what is no trap does arrive."""
    ran = run("open('good.csv', 'w').write('a,b')\n"
              "open('output/deep.txt', 'w').write('d')")
    assert b"a,b" in ran.files.values(), ran.files
    assert b"d" in ran.files.values(), ran.files
    assert "good.csv" in ran.said


@attack(18)
@tap.timeout(60)
def test_many_files_are_bounded():
    ran = run("for i in range(300):\n    open('f%03d' % i, 'w').close()")
    assert len(ran.files) < 60, len(ran.files)
    assert re.search(r"280 more new files were left in the sandbox: "
                     r"f020, f021, f022 \.\.\.; display\(NAME\)",
                     ran.said), ran.said


@tap.timeout(60)
def test_left_out_names_are_one_line():
    """What a name holds cannot begin a line of its own, for nobody."""
    code = (FIRST + "for i in range(20):\n    open('a%02d' % i, 'w').close()\n"
            "open(b'b\\n\\x1b[31mwarning: all is lost', 'w').close()")
    with Place() as place, ClaudeServer([
            reply([tool_use("run_python", {"code": code})]),
            reply(["Done."])]) as server:
        done = place.script(server, "-c", "go")
        said = done.stderr.decode()
        assert "1 more new file was left in the sandbox: b" in said, said
        assert "\x1b" not in said
        assert not re.search("(?m)^(warning: )?all is lost|^warning: all",
                             said), said
        (text, _), = results(server.requests[-1])
        assert "left in the sandbox: b??[31mwarning: all" in text, text


@tap.timeout(60)
def test_what_is_not_looked_at_is_said_once():
    top = tempfile.mkdtemp(prefix="out-")
    try:
        replay = write_replay(top, [
            "for i in range(1200):\n    open('f%04d' % i, 'w').close()",
            "1 + 1", "open('f0000x', 'w').close()"], "All done.")
        done = run_piped([program(), "--replay-model", replay, "-c", "go"],
                         dir=top, timeout=50)
        said = done.stderr.decode()
        assert said.count("200 more in the workspace are not looked at") == 1
        assert said.count("201 more in the workspace are not looked at") == 1
    finally:
        shutil.rmtree(top, ignore_errors=True)


@tap.timeout(60)
def test_too_large_says_how_to_get_it():
    ran = run("open('big.bin', 'wb').write(bytes(50000001))\n"
              "open('fits.bin', 'wb').write(bytes(50000000))")
    line = line_about(ran, "big.bin")
    assert ("larger than 50 MB; it is not copied; in parts or compressed it "
            "would be") in line
    assert "50 MB" in line_about(ran, "fits.bin"), ran.said
    assert any(name.endswith("fits.bin") for name in ran.files)
    assert not any("big" in name for name in ran.files), list(ran.files)


# Offers ------------------------------------------------------------------

# A note of the kernel's, whatever the kernel would say.
OFFER = ("def offer(name):\n"
         "    display.__globals__['note']('file', name)\n")


def run_cells(*codes):
    """A cell for each question; what was said of the last."""
    top = tempfile.mkdtemp(prefix="out-")
    os.chmod(top, 0o755)
    ran = Ran()
    try:
        replay = write_replay(top, *[([code], "Done %d." % i)
                                     for i, code in enumerate(codes)])
        argv = [program(), "--replay-model", replay]
        lines = b"go\n" * len(codes)
        done = run_piped(argv, lines, dir=top, timeout=80)
        assert done.status == 0, done
        ran.raw = done.stdout + done.stderr
        ran.said = done.stderr.decode().split("> go\n")[-1]
        ran.files = session_files(top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    assert SECRET not in ran.raw, ran.raw
    for name, data in ran.files.items():
        assert SECRET not in data, name
    return ran


@tap.timeout(60)
def test_display_offers_a_file_that_is_not_new():
    write = FIRST + "open('output/old.txt', 'w').write('of yesterday')"
    ran = run_cells(write, "1 + 1")
    assert "old.txt" not in ran.said, ran.said
    for shown in ("display('output/old.txt')",
                  "display('/workspace/output/old.txt')",
                  "import pathlib\ndisplay(pathlib.Path('output/old.txt'))"):
        ran = run_cells(write, shown)
        line = line_about(ran, "old.txt")
        assert line.startswith("· output/old.txt · 12 B · /"), line


@tap.timeout(60)
def test_a_new_file_that_is_shown_is_there_once():
    ran = run_cells("1", "open('new.txt', 'w').write('x')\n"
                    "display('new.txt')\ndisplay('new.txt')")
    assert line_about(ran, "new.txt").startswith("· new.txt"), ran.said


FORGED = {
    "/etc/passwd": "no name below the workspace",
    "../../etc/passwd": "no name below the workspace",
    "link/passwd": "link",
    "chart.png": "symbolic link",
    "fifo": "FIFO",
    "output": "directory",
    "none.txt": "No such file",
    "": None,
    "n" * 5000: None,
}

@tap.timeout(90)
def test_forged_offers_are_refused():
    """The client believes none of them: nothing is followed or waited for,
    and each is one line."""
    make = (FIRST + "os.symlink('/etc', 'link')\nos.mkfifo('fifo')\n"
            "os.symlink('/etc/passwd', 'chart.png')")
    ran = run_cells(make, OFFER + "\n".join(
        "offer(%r)" % name for name in FORGED))
    without_code = re.sub(r"(?ms)── \d+ python$.*?^──\s*$", "", ran.said)
    for name, word in FORGED.items():
        lines = [line for line in without_code.split("\n")
                 if word and ("the cell shows %s: " % name) in line]
        assert len(lines) == (word is not None), (name, ran.said)
        assert all(word in line for line in lines), (name, lines)
    assert "nnnn" not in without_code
    assert ran.files == {} or not any(
        "/files/" in name for name in ran.files), ran.files


@tap.timeout(60)
def test_many_offers_are_bounded():
    make = FIRST + "for i in range(40):\n    open('f%02d' % i, 'w').close()"
    ran = run_cells(make, OFFER + "for i in range(39, 5, -1):\n"
                    "    offer('f%02d' % i)")
    shown = re.findall(r"(?m)^· (f\d\d) ", ran.said)
    assert shown == ["f%02d" % i for i in range(39, 19, -1)], ran.said


@tap.timeout(60)
def test_a_loaded_file_is_not_copied():
    top = tempfile.mkdtemp(prefix="out-")
    try:
        os.makedirs(os.path.join(top, "work"), exist_ok=True)
        with open(os.path.join(top, "work", "mine.csv"), "w") as f:
            f.write("a,b\n1,2\n")
        replay = write_replay(top, [OFFER + "offer('mine.csv')\n"
                                    "offer('data/mine.csv')"], "Done.")
        done = run_piped([program(), "--replay-model", replay, "-c", "go",
                          "mine.csv"], dir=top, timeout=50)
        said = done.stderr.decode()
        assert done.status == 0, done
        assert said.count("mine.csv is a loaded file: the user has it") == 2
        assert not any("/files/" in name for name in session_files(top))
    finally:
        shutil.rmtree(top, ignore_errors=True)


# Pictures ----------------------------------------------------------------

PNG = CELL + r"""
def png(w, h, ballast=0):
    rows = zlib.compress(b"".join(b"\0" + b"\xff\0\0" * w for _ in range(h)))
    return (SIGNATURE + ihdr(w, h) +
            (chunk(b"teSt", bytes(ballast)) if ballast else b"") +
            chunk(b"IDAT", rows) + chunk(b"IEND", b""))
"""

FIGURE = ("import matplotlib.pyplot as plt\n"
          "plt.plot([1, 2, 4]); plt.title('Growth')\n"
          "plt.savefig('output/growth.png')\n")


def n_pictures(ran):
    return ran.raw.count(b"\x1bP")


@tap.timeout(90)
def test_a_picture_that_is_only_saved_is_drawn():
    ran = run(PNG + "open('red.png', 'wb').write(png(40, 20))", term=True)
    assert n_pictures(ran) == 1, ran.said
    assert "red.png" in ran.said
    ran = run(FIGURE + "plt.close()", term=True)
    assert n_pictures(ran) == 1, ran.said


@tap.timeout(90)
def test_a_figure_that_is_saved_and_shown_is_there_once():
    for end in ("", "plt.show()", "display(plt.gcf())", "plt.gcf()",
                "display('output/growth.png')"):
        ran = run(FIGURE + end, term=True)
        assert n_pictures(ran) == 1, (end, ran.said)
        assert len(re.findall(r"(?m)^· output/growth\.png ·", ran.said)) == 1


@tap.timeout(90)
def test_what_is_no_picture_is_not_drawn():
    ran = run(PNG + "open('a.png', 'wb').write(b'GIF89a' + bytes(99))\n"
              "open('b.png', 'wb').write(png(4, 4)[:20])\n"
              "open('c.png', 'w').close()\n"
              "open('d.svg', 'wb').write(png(4, 4))\n"
              "open('e.html', 'w').write('<script>')\n"
              "open('f.png', 'wb').write(png(4, 4)[:60])", term=True)
    assert n_pictures(ran) == 0, ran.said
    for name in ("a.png", "b.png", "c.png", "d.svg", "e.html"):
        assert "· %s · " % name in ran.said, (name, ran.said)
    # Of the last one only a decoder can tell.
    assert ran.said.count("is not drawn:") == 1, ran.said


@tap.timeout(90)
def test_a_picture_that_is_too_large_is_not_drawn():
    ran = run(PNG + "open('bytes.png', 'wb').write(png(9, 9, 10000000))\n"
              "open('pixels.png', 'wb').write(png(9, 9)[:16] +\n"
              "    struct.pack('>II', 65000, 65000) + png(9, 9)[24:])\n"
              "open('fits.png', 'wb').write(png(9, 9, 9999000))", term=True)
    assert n_pictures(ran) == 1, ran.said
    for name in ("bytes.png", "pixels.png"):
        assert "too large to be drawn" in line_about(ran, name), ran.said
    assert "too large" not in line_about(ran, "fits.png"), ran.said



@tap.timeout(90)
def test_directories_that_cannot_be_read():
    """Each is said when it is new."""
    if os.geteuid() == 0:
        tap.skip("root reads everything")
    codes = ["import os\nos.mkdir('%s', 0)" % name for name in ("one", "two")]
    exchanges = []
    for code in codes:
        exchanges += [reply([tool_use("run_python", {"code": code})]),
                      reply(["Done."])]
    with Place() as place, ClaudeServer(exchanges) as server:
        done = place.script(server, stdin="a\nb\n")
        said = done.stderr.decode()
        for line, name in ((1, "one"), (2, "two")):
            assert said.count("stdin:%d: warning: the cell left %s: a "
                              "directory that cannot be read" % (line, name)
                              ) == 1, said


if __name__ == "__main__":
    tap.main(globals())
