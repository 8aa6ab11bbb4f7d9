#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cells leave in the workspace, seen and fetched from outside, and the
system's files that they see."""

import os
import socket
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from sandbox_session import Sandbox, attack  # noqa: E402

with open("/etc/passwd", "rb") as passwd:
    PASSWD = passwd.read()

TRAPS = """
os.chdir("/workspace")
open("good.txt", "w").write("good")
os.symlink("/etc/passwd", "chart.png")
os.symlink("../../../../../../etc/passwd", "up.png")
os.symlink("/", "slash")
os.symlink("loop", "loop")
os.symlink("good.txt", "to-good")
os.symlink("/etc", "etcdir")
os.mkdir("real")
open("real/inner.txt", "w").write("inner")
os.symlink("real", "linkdir")
os.mkfifo("pipe.png")
import socket
s = socket.socket(socket.AF_UNIX)
s.bind("/workspace/sock.png")
os.link("good.txt", "second-name.txt")
open("single.txt", "w").write("single")
report("done", True)
"""


def trapped():
    sb = Sandbox()
    sb.attack(TRAPS)
    return sb


@attack(12, 13)
def test_links_pipes_and_sockets_are_not_offered():
    with trapped() as sb:
        files = sb.list()
        for name, word in (("chart.png", "link"), ("up.png", "link"),
                           ("slash", "link"), ("loop", "link"),
                           ("to-good", "link"), ("etcdir", "link"),
                           ("linkdir", "link"), ("pipe.png", "FIFO"),
                           ("sock.png", "socket"),
                           ("good.txt", "names"),
                           ("second-name.txt", "names")):
            assert files[name]["refused"] and word in \
                files[name]["refused"], (name, files[name])
        for name in ("single.txt", "real/inner.txt"):
            assert files[name]["refused"] is None, files[name]
        assert not any(name.startswith(("linkdir/", "etcdir/", "slash/"))
                       for name in files), sorted(files)


@attack(12, 13)
def test_refused_files_are_not_read():
    with trapped() as sb:
        for name in ("chart.png", "up.png", "loop", "to-good", "pipe.png",
                     "sock.png", "good.txt", "second-name.txt", "slash",
                     "real", "linkdir/inner.txt", "etcdir/passwd",
                     "slash/etc/passwd", "../data", "real/../single.txt",
                     "/etc/passwd", "data/../../secret", "", ".", "..",
                     "a\0b", "x" * 300, "real//inner.txt", "absent.txt"):
            start = time.monotonic()
            end, message, data = sb.get(name)
            assert end == "error" and message, (name, end, message)
            assert data == b"", (name, data[:80])
            assert time.monotonic() - start < 10 * tap.FACTOR, name
        assert sb.get("single.txt") == ("done", "", b"single")
        assert sb.get("real/inner.txt") == ("done", "", b"inner")


@attack(12)
def test_name_that_changes_under_way():
    """A cell swaps a file and a link to /etc/passwd as fast as it can."""
    with Sandbox() as sb:
        found = sb.attack("""
import subprocess
code = '''
import os
os.chdir("/workspace")
os.mkdir("d")
open("d/passwd", "w").write("mine")
open("a", "w").write("mine")
os.symlink("/etc/passwd", "b")
os.symlink("/etc", "e")
while True:
    os.rename("a", "x"); os.rename("b", "a"); os.rename("x", "b")
    os.rename("d", "y"); os.rename("e", "d"); os.rename("y", "e")
'''
swapper = subprocess.Popen([sys.executable, "-c", code])
report("started", True)
""")
        assert found
        for _ in range(200):
            for name in ("a", "d/passwd"):
                _, _, data = sb.get(name)
                assert data in (b"", b"mine"), data[:100]


@attack(17)
def test_sparse_file_is_not_read_whole():
    with Sandbox() as sb:
        sb.attack("""
fd = os.open("/workspace/sparse.png", os.O_CREAT | os.O_WRONLY, 0o600)
os.ftruncate(fd, (1 << 30) - 1)
report("done", True)
""")
        files = sb.list()
        assert files["sparse.png"]["size"] == (1 << 30) - 1
        start = time.monotonic()
        end, message, data = sb.get("sparse.png", limit=1 << 20)
        assert end == "error" and "at most" in message, message
        assert len(data) <= 1 << 20, len(data)
        assert time.monotonic() - start < 10 * tap.FACTOR


@attack(16)
def test_names():
    """Names are bytes; what JSON cannot carry is repaired, nothing is lost,
    and every file can be fetched by the name that is no trick."""
    with Sandbox() as sb:
        sb.attack(r"""
os.chdir(b"/workspace")
names = [b"\x1b[31mred", b"new\nline", b"\xe2\x80\xaebidi", b"\xff\xfe",
         b"-rf", b"--help", b"..csv", b" ", b"n" * 255, b"tab\there",
         b"q'uo\"te", b"%s%n", b"\xc2\x9b5m", b"del\x7f", b"$(id)"]
for name in names:
    open(name, "w").write("x")
report("n", len(names))
""")
        files = sb.list()
        assert len(files) == 15, sorted(files)
        for name in ("-rf", "--help", "..csv", " ", "n" * 255, "new\nline",
                     "\x1b[31mred", "q'uo\"te"):
            assert name in files, name
            assert sb.get(name) == ("done", "", b"x"), name


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@attack(18)
@tap.timeout(120)
def test_many_files():
    """What the client spends on the list is bounded, however many there
    are."""
    with Sandbox() as sb:
        cell = sb.cell(
            "import os\nos.mkdir('/workspace/many')\n"
            "os.chdir('/workspace/many')\nn = 0\n"
            "for i in range(200000):\n"
            "    os.close(os.open('%d' % i, os.O_CREAT | os.O_WRONLY))\n"
            "    n += 1\nprint(n)",
            timeout=100, timeout_ms=90000)
        assert cell.stdout == "200000\n", cell
        before = cpu_seconds(sb.process.pid)
        files = sb.list()
        assert len(files) <= 1000, len(files)
        # The walk ends before it has seen them all.
        assert 90000 < sb.left_out < 110000, sb.left_out
        assert cpu_seconds(sb.process.pid) - before < tap.FACTOR
        assert sb.get("many/7")[0] == "done"


@attack(18)
def test_deep_directories():
    with Sandbox() as sb:
        sb.attack("""
os.chdir("/workspace")
for i in range(200):
    os.mkdir("d")
    open("f", "w").close()
    os.chdir("d")
os.chdir("/workspace")
report("done", True)
""")
        files = sb.list()
        assert "f" in files and max(n.count("/") for n in files) <= 8
        assert sb.left_out > 0


@attack(16)
def test_names_for_put():
    """Nothing is put outside the data directory, and no special file."""
    with Sandbox() as sb:
        top = os.path.join(sb.dir, "in")
        os.mkdir(top)
        os.chmod(top, 0o755)
        path = os.path.join(top, "plain.csv")
        with open(path, "w") as f:
            f.write("a\n1\n")
        os.mkfifo(os.path.join(top, "fifo"))
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(os.path.join(top, "sock"))
        for name in ("../out.csv", "a/b.csv", "", ".", "..", "/x",
                     "n" * 256):
            sb.request(op="put", path=path, name=name)
            event = sb.wait("op", name="put")
            assert event["end"] == "error", (name, event)
        for special in ("fifo", "sock", "."):
            sb.request(op="put", path=os.path.join(top, special),
                       name="special.csv")
            event = sb.wait("op", name="put")
            assert event["end"] == "error", (special, event)
        sock.close()
        for name in ("-x.csv", "with space.csv", "new\nline.csv", "a'b.csv",
                     "class.csv"):
            sb.request(op="put", path=path, name=name)
            assert sb.wait("op", name="put")["end"] == "done", name
            cell = sb.cell("print(open('/workspace/data/' + %r).read(), "
                           "open(%r).read())" % (name, name))
            assert cell.stdout.split() == ["a", "1", "a", "1"], cell
        found = sb.attack("report('ls', sorted(os.listdir("
                          "'/workspace/data')))")
        assert "out.csv" not in found["ls"] and len(found["ls"]) == 5, found


def test_fonts_are_known_without_opening_them():
    """fontconfig's list is there, and nobody can change it."""
    outside = "/var/cache/fontconfig"
    if not os.path.isdir(outside):
        tap.skip("fontconfig has no list here")
    with Sandbox() as sb:
        found = sb.attack("""
top = "/tmp/.cache/fontconfig"
report("list", outcome(lambda: sorted(os.listdir(top))))
report("write", outcome(open, top + "/x", "w"))
""")
        assert found["list"] == "ok: %r" % sorted(os.listdir(outside)), found
        assert found["write"] == "EROFS", found


def test_file_that_only_root_can_read():
    """It is copied and given to the sandbox's user, and stays as it is."""
    if os.getuid() != 0:
        tap.skip("needs root")
    with Sandbox() as sb:
        path = os.path.join(sb.dir, "closed.csv")
        with open(path, "w") as f:
            f.write("v\n5\n")
        os.chmod(path, 0o600)
        sb.request(op="put", path=path, name="closed.csv")
        assert sb.wait("op", name="put")["end"] == "done"
        cell = sb.cell("print(open('closed.csv').read())\n"
                       "open('/workspace/closed.csv', 'w')")
        assert cell.stdout.split() == ["v", "5"], cell
        assert cell.error in ("PermissionError", "OSError"), cell
        info = os.stat(path)
        assert info.st_uid == 0 and info.st_mode & 0o777 == 0o600
        with open(path) as f:
            assert f.read() == "v\n5\n"


def test_what_comes_back_after_a_death():
    """The files that were loaded, and it is said which did not."""
    with Sandbox() as sb:
        sb.opened()
        path = os.path.join(sb.dir, "sales.csv")
        gone = os.path.join(sb.dir, "g.csv")
        for name in (path, gone):
            with open(name, "w") as f:
                f.write("a\n1\n")
            os.chmod(name, 0o644)
            base = os.path.basename(name)
            sb.request(op="put", path=name, name=base)
            assert sb.wait("op")["end"] == "done"
            sb.request(op="loaded", path=name, name=base,
                       variable=base[:-4],
                       setup="%s = open('data/%s').read()" % (base[:-4],
                                                              base))
        os.unlink(gone)
        sb.cell("x = 1")
        # Where the file was linked or copied, it is still there inside.
        copy = sb.cell("import os\nprint(os.path.exists('data/g.csv'))")
        cell = sb.cell("import os\nos._exit(1)")
        said = "The interpreter was ended (exit status 1). Variables and " \
            "imports are gone; files in /workspace are kept. " \
            "Re-create what you need. "
        if copy.stdout == "True\n" and "again: sales, g." in cell.reason:
            assert cell.reason == said + "Loaded again: sales, g.", cell
        else:
            assert cell.reason == said + "Loaded again: sales. Could not " \
                "be loaded again: g (g.csv: there is no such file).", cell
        after = sb.cell("print(sales == 'a\\n1\\n', 'x' in globals())")
        assert after.stdout == "True False\n", after


@tap.timeout(90)
def test_programs_that_start_at_once():
    """None removes the directory of another; those left behind go."""
    top = tempfile.mkdtemp(prefix="sb-shared-")
    os.chmod(top, 0o711)
    try:
        for _ in range(3):
            parent = os.path.join(top, "p")
            os.mkdir(parent, 0o711)
            old = os.path.join(parent, "sandpiper-abcdef")
            os.mkdir(old)
            if os.getuid() == 0:
                os.chown(old, 65534, 65534)
            group = [Sandbox("parent=" + parent, "uid=65534")
                     for _ in range(6)]
            try:
                for sb in group:
                    cell = sb.cell("open('kept', 'w').close()\nprint(1)")
                    assert cell.outcome == "ok", cell
                for sb in group:
                    assert "kept" in sb.list()
                names = os.listdir(parent)
                assert len(names) == 6, names
                assert os.path.basename(old) not in names, names
            finally:
                for sb in group:
                    sb.close()
            shutil.rmtree(parent)
    finally:
        shutil.rmtree(top, ignore_errors=True)


def test_nothing_is_left_behind():
    sb = Sandbox()
    try:
        sb.attack(TRAPS)
        sb.process.stdin.close()
        sb.process.wait(10)
        assert os.listdir(sb.parent) == [], os.listdir(sb.parent)
    finally:
        sb.close()
    with open("/etc/passwd", "rb") as f:
        assert f.read() == PASSWD


if __name__ == "__main__":
    tap.main(globals())
