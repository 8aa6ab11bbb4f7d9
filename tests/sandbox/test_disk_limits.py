#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cell may use up of the disk: the size of a file, of all of them, and
what has to stay free. test_limits.py has what is not on a
disk."""

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HELPERS = os.path.join(HERE, "..", "helpers")
sys.path.insert(0, HELPERS)

import tap  # noqa: E402
from attack_program import main  # noqa: E402
from limit_cells import (OWN_PROCESSES, SLEEPERS, let_go,  # noqa: E402
                         must_work)
from sandbox_session import attack, open_session, wait_until  # noqa: E402

MIB = 1 << 20


@attack(17)
def test_sparse_file_of_1_tib_is_refused():
    with open_session() as sb:
        found = sb.attack("""
fd = os.open("/workspace/big", os.O_CREAT | os.O_RDWR, 0o600)
report("ftruncate", outcome(os.ftruncate, fd, 1 << 40))
report("pwrite", outcome(os.pwrite, fd, b"x", 1 << 40))
report("fallocate", outcome(os.posix_fallocate, fd, 0, 1 << 40))
report("small", outcome(os.ftruncate, fd, 1 << 20))
import resource
report("limit", resource.getrlimit(resource.RLIMIT_FSIZE)[1])
report("raise", outcome(resource.setrlimit, resource.RLIMIT_FSIZE,
                        (1 << 40, 1 << 40)))
""")
        assert found.pop("small") == "ok: None", found
        assert found.pop("limit") <= 1 << 30, found
        assert found.pop("raise") in ("ValueError", "EPERM"), found
        assert set(found.values()) == {"EFBIG"}, found
        size = os.stat(os.path.join(sb.workspace(), "big")).st_size
        assert size <= 1 << 20, size


def test_closed_workspace_is_opened_again():
    """A cell that takes all rights away does not end the session."""
    with open_session() as sb:
        cell = sb.cell("import os\nopen('/workspace/kept', 'w').close()\n"
                       "os.chmod('/workspace', 0)\nos._exit(1)")
        assert cell.outcome == "died" and cell.end == "restarted", cell
        cell = sb.cell("print(sorted(os.listdir('/workspace')))"
                       .replace("os.", "__import__('os').", 1))
        assert cell.outcome == "ok" and "kept" in cell.stdout, cell
        sb.cell("import os\nos.chmod('/workspace', 0)")
        assert "kept" in sb.list()
        must_work(sb)


@attack(44)
@tap.timeout(60)
def test_workspace_limit():
    with open_session("workspace=%d" % (16 * MIB)) as sb:
        cell = sb.cell("x = 1\nfor i in range(12):\n"
                       "    open('/workspace/f%d' % i, 'wb')"
                       ".write(bytes(range(256)) * 8192)\n")
        assert cell.outcome == "disk_limit", cell
        assert cell.reason, cell
        sb.cell("import glob, os\n"
                "for f in glob.glob('/workspace/f*'): os.unlink(f)")
        must_work(sb, True)


FILL = """
import os, time
x = 1
n = 0
%s
while n < 512:
    with open(os.path.join(place, "f%%d" %% n), "wb") as f:
        f.write(b"x" * (4 << 20))
    n += 1
print("never stopped")
"""

# Where the files are, and what is there before them.
HIDDEN = {
    "plain": "place = '/workspace'",
    "behind many": "place = '/workspace/z'\nos.mkdir(place)\n"
                   "for i in range(10001):\n"
                   "    open('/workspace/e%d' % i, 'w').close()",
    "deep": "os.chdir('/workspace')\nfor i in range(70):\n"
            "    os.mkdir('d')\n    os.chdir('d')\nplace = '.'",
    "closed": "place = '/workspace/c'\nos.mkdir(place)\n"
              "os.mkdir(place + '/p')\nplace += '/p'\nos.chdir(place)\n"
              "place = '.'\nos.chmod('/workspace/c', 0o311)",
}


@attack(44)
@tap.timeout(180)
def test_many_files_of_a_cell_that_runs():
    """Each small, without an end; and hidden from who counts them."""
    for name, where in HIDDEN.items():
        with open_session("workspace=%d" % (128 * MIB)) as sb:
            cell = sb.cell(FILL % where, timeout_ms=60000, timeout=90)
            assert cell.outcome == "disk_limit", (name, cell)
            assert "never stopped" not in cell.stdout, (name, cell)
            assert not cell.lost and "workspace" in cell.reason, (name, cell)
            # The files are there still, so that it says so again.
            assert sb.cell("print(x)").stdout == "1\n"


@attack(44)
@tap.timeout(60)
def test_files_of_what_was_left_running():
    with open_session("workspace=%d" % (128 * MIB)) as sb:
        cell = sb.cell("x = 1\n" + SLEEPERS % (
            "exec(%r)" % (FILL % "place = '/workspace/%d' % i\n"
                                 "os.mkdir(place)").replace("512", "128")))
        assert cell.outcome == "ok", cell
        let_go(sb)
        wait_until(lambda: len(sb.descendants()) <= OWN_PROCESSES, 30,
                   "what fills the disk is ended")
        cell = sb.cell("print(x)")
        assert cell.stdout == "1\n", cell
        assert any("left running" in n["text"] and "disk" in n["text"]
                   for n in cell.notes), cell


RUNS_ON = """
import os, threading, time
def fill():
    for n in range(512):
        with open("/workspace/f%d" % n, "wb") as f:
            f.write(b"x" * (4 << 20))
        time.sleep(0.01)
threading.Thread(target=fill, daemon=True).start()
x = 1
"""


@attack(44)
@tap.timeout(120)
def test_files_of_a_thread_that_goes_on():
    """It is the interpreter itself that fills the disk when no cell runs: it is
    suspended, and the next cell has the variables."""
    with open_session("workspace=%d" % (128 * MIB)) as sb:
        cell = sb.cell(RUNS_ON)
        assert cell.outcome == "ok", cell
        sb.in_state("suspended", timeout=60)
        n = len(os.listdir(sb.workspace()))
        assert n < 512, n
        cell = sb.cell("print(x)")
        assert cell.stdout == "1\n" and not cell.lost, cell
        assert any("suspended until now" in n["text"] for n in cell.notes), cell


RESERVED = """
import ctypes, errno, os
_libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/workspace/big", os.O_RDWR | os.O_CREAT)
for mode in (0, 1, 0x10):
    code = _libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(8 << 30))
    print("fallocate", mode, code, errno.errorcode.get(ctypes.get_errno()))
where = (ctypes.c_long * 6)(0, 0, 8 << 30)
for number in (0x40305828, 0x4030582a, 0x40305839):
    for high in (0, 1 << 32):
        code = _libc.ioctl(fd, ctypes.c_ulong(number | high), where)
        print("ioctl", number, code, errno.errorcode[ctypes.get_errno()])
print("blocks", os.fstat(fd).st_blocks)
os.posix_fallocate(fd, 0, 1 << 20)
print("size", os.fstat(fd).st_size)
"""


@attack(44)
def test_room_is_not_reserved_at_once():
    """By one call a file gets any number of GiB, past the limit of its size and
    before anybody looks."""
    with open_session("workspace=%d" % (128 * MIB)) as sb:
        cell = sb.cell(RESERVED)
        assert cell.outcome == "ok", cell
        lines = cell.stdout.splitlines()
        assert [line for line in lines if line.startswith(
            ("fallocate", "ioctl")) and not line.endswith(
                ("-1 EOPNOTSUPP", "-1 ENOTSUP", "-1 EPERM"))] == [], cell
        assert lines[-2:] == ["blocks 0", "size 1048576"], cell


REMOVED = """

x = 1
held = []
while len(held) < 512:
    f = open("/workspace/f", "wb")
    os.unlink("/workspace/f")
    f.write(b"x" * (4 << 20))
    f.flush()
    held.append(f)
print("never stopped")
"""


@attack(44)
@tap.timeout(120)
def test_files_that_have_no_name_any_more():
    """They take room for as long as they are open."""
    with open_session("workspace=%d" % (128 * MIB)) as sb:
        cell = sb.cell("import os" + REMOVED, timeout_ms=60000, timeout=90)
        assert cell.outcome == "disk_limit" and not cell.lost, cell
        assert "never stopped" not in cell.stdout, cell
        assert sb.cell("print(x)").stdout == "1\n"


def on_small_disk(mib, code, **more):
    """Runs a cell with its workspace on a disk of that size, MIB[:FILES]."""
    place = tempfile.mkdtemp(prefix="disk-")
    try:
        with open_session("parent=" + place, prefix=[
                sys.executable, os.path.join(HELPERS, "in_userns.py"),
                "--tmpfs", str(mib), place]) as sb:
            event = sb.opened()
            assert event["end"] == "done", event
            sb.cell("x = 1")
            cell = sb.cell(code, **more)
            must_work(sb, True)
            return cell
    finally:
        os.rmdir(place)


LEAVE = """
import os, time
def left():
    st = os.statvfs("/workspace")
    return st.f_bavail * st.f_frsize >> 20
n = 0
while left() > %d:
    with open("/workspace/f%%d" %% n, "wb") as f:
        f.write(b"x" * (4 << 20))
    n += 1
print("filled", flush=True)
time.sleep(%g)
print("after")
"""


@attack(44)
@tap.timeout(120)
def test_the_disk_keeps_its_reserve():
    """5 % of a disk of 400 MiB are 20 MiB. What a cell does in the 200 ms
    between two looks is not the question here: it waits, unless it has been
    stopped before."""
    cell = on_small_disk(400, LEAVE % (12, 600), timeout=90)
    assert cell.outcome == "disk_limit" and not cell.lost, cell
    assert cell.stdout in ("filled\n", ""), cell
    # The control: what leaves as much is not stopped.
    cell = on_small_disk(400, LEAVE % (30, 1), timeout=90)
    assert cell.outcome == "ok" and "after" in cell.stdout, cell


EMPTY_FILES = """
import os, time
def left():
    return os.statvfs("/workspace").f_favail
n = 0
while left() > %d:
    if n %% 5000 == 0:
        os.mkdir("/workspace/d%%d" %% n)
        place = "/workspace/d%%d/" %% n
    os.close(os.open(place + str(n), os.O_CREAT | os.O_WRONLY))
    n += 1
print("filled", flush=True)
time.sleep(%g)
print("after")
"""


@attack(44)
@tap.timeout(180)
def test_the_disk_keeps_a_reserve_of_files():
    """Empty files take no room, but no more can be made than a disk has:
    5 % of 30,000 are 1,500. The cell waits at 500, unless it has been stopped
    on the way from there."""
    cell = on_small_disk("400:30000", EMPTY_FILES % (500, 600), timeout=90)
    assert cell.outcome == "disk_limit" and not cell.lost, cell
    assert cell.stdout in ("filled\n", ""), cell
    cell = on_small_disk("400:30000", EMPTY_FILES % (4000, 1), timeout=90)
    assert cell.outcome == "ok" and "after" in cell.stdout, cell


if __name__ == "__main__":
    main(globals())
