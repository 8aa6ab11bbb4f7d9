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
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
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
    assert re.search(r"\d+ more", ran.said), ran.said


if __name__ == "__main__":
    tap.main(globals())
