#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cell may use up: processes, memory, room on the disk, descriptors,
and what it may print. test_stopping.py has the time."""

import os
import signal
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
HELPERS = os.path.join(HERE, "..", "helpers")
sys.path.insert(0, HELPERS)

import tap  # noqa: E402
from attack_program import main  # noqa: E402
from sandbox_session import (attack, open_session, peak_mib,  # noqa: E402
                             wait_until)

MIB = 1 << 20
SANITIZED = bool(os.environ.get("SANDPIPER_SANITIZERS", "").strip())

# Most that the client may ever have in memory, whatever cells print.
CLIENT_MIB = 32


def check_client(sb, limit_mib=CLIENT_MIB):
    """A sanitizer keeps what is freed, so that its use is seen."""
    if not SANITIZED:
        peak = peak_mib(sb.process.pid)
        assert peak <= limit_mib, "the client had %.0f MiB" % peak


def resident_of(pids):
    pages = 0
    for pid in pids:
        try:
            with open("/proc/%d/statm" % pid) as f:
                pages += int(f.read().split()[1])
        except OSError:
            pass
    return pages * os.sysconf("SC_PAGE_SIZE")


def must_work(sb, expect_kept=None):
    """The next cell works; expect_kept: whether x is still 1."""
    cell = sb.cell("print('x' in globals() and x == 1)")
    assert cell.outcome == "ok", cell
    if expect_kept is not None:
        assert cell.stdout.strip() == str(expect_kept), cell


# ---- processes -------------------------------------------------------------

@attack(38)
def test_forks_stop_at_the_limit():
    with open_session() as sb:
        found = sb.attack("""
pids = []
try:
    while len(pids) < 400:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
    report("end", "no limit")
except OSError as exc:
    report("end", code_of(exc.errno))
report("n", len(pids))
for pid in pids:
    os.kill(pid, 9)
for pid in pids:
    os.waitpid(pid, 0)
""")
        assert found["end"] == "EAGAIN", found
        assert 100 <= found["n"] <= 128, found
        # Nor in a child, nor by asking for more of them.
        found = sb.attack("""
import resource
report("raise", outcome(resource.setrlimit, resource.RLIMIT_NPROC,
                        (4000, 4000)))
""")
        assert found["raise"] in ("ValueError", "EPERM"), found
        must_work(sb)


@attack(38)
def test_threads_stop_at_the_limit():
    """At the limit of the configuration, and at a lower one."""
    for options, most in ((), 128), (("processes=60",), 60):
        with open_session(*options) as sb:
            found = sb.attack("""
import threading
event = threading.Event()
n = 0
try:
    while n < 400:
        threading.Thread(target=event.wait).start()
        n += 1
except RuntimeError as exc:
    report("error", str(exc))
event.set()
report("n", n)
""")
            assert "error" in found and 20 <= found["n"] <= most, found
            must_work(sb)


# bwrap twice and the interpreter.
OWN_PROCESSES = 3

BOMB = "import os, signal\nprint('on', flush=True)\n" \
    "while True:\n    try:\n        %s\n" \
    "    except OSError:\n        pass\n"
BOMBS = {
    "plain": BOMB % "os.fork()",
    "sessions": BOMB % "if os.fork() == 0: os.setsid()",
    "deaf": BOMB % "if os.fork() == 0: signal.signal(2, signal.SIG_IGN)",
}

PF_EXITING = 4


def is_ending(pid):
    """Whether it has ended, or runs no instruction of its own any more."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        with open("/proc/%d/status" % pid) as f:
            status = dict(line.split(":\t", 1) for line in f if ":\t" in line)
    except OSError:
        return True
    pending = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
    return fields[0] in "ZX" or int(fields[6]) & PF_EXITING != 0 or \
        pending >> (signal.SIGKILL - 1) & 1 == 1


def check_bomb_is_over(sb, name):
    """100 ms after the cell, nothing is left of it; a machine that is too busy
    to end what has been killed gets more time for that alone."""
    def over():
        return len(sb.descendants()) <= OWN_PROCESSES

    try:
        wait_until(over, 0.1, "over", step=0.005)
    except AssertionError:
        left = [p for p in sb.descendants() if not is_ending(p)]
        assert len(left) <= OWN_PROCESSES, (name, left)
    wait_until(over, 20, "the processes of the bomb '%s' end" % name)


@attack(39)
@tap.timeout(120)
def test_fork_bomb():
    """The time limit ends it, and nothing is left. With pandas loaded, the
    memory that all of them share counts once."""
    for name, code in BOMBS.items():
        with open_session() as sb:
            sb.cell("import pandas\nx = 1")
            cell = sb.cell(code, timeout_ms=500)
            assert cell.outcome in ("timeout", "killed"), (name, cell)
            check_bomb_is_over(sb, name)
            must_work(sb, not cell.lost)


@attack(39)
@tap.timeout(120)
def test_fork_bomb_and_ctrl_c():
    for name, code in BOMBS.items():
        with open_session() as sb:
            sb.cell("x = 1")
            sb.start_cell(code)
            sb.wait("bytes")
            wait_until(lambda: len(sb.descendants()) > 60, 20, "it grows")
            sb.interrupt()
            cell = sb.finish_cell()
            assert cell.outcome in ("interrupted", "killed"), (name, cell)
            check_bomb_is_over(sb, name)
            must_work(sb, not cell.lost)


def sleepers(sb):
    found = set()
    for pid in sb.descendants():
        try:
            with open("/proc/%d/comm" % pid) as f:
                if f.read() == "sleep\n":
                    found.add(pid)
        except OSError:
            pass
    return found


def test_stopped_cell_leaves_what_earlier_ones_started():
    with open_session() as sb:
        start = ("import subprocess\nsubprocess.Popen(['sleep', '600'],"
                 " start_new_session=True)\n")
        sb.cell(start)
        kept = wait_until(lambda: sleepers(sb), 10, "it runs")
        assert len(kept) == 1, kept
        # Starts of processes are known to a hundredth of a second.
        sb.cell("import time\ntime.sleep(0.05)")
        cell = sb.cell(start + "while True: pass", timeout_ms=200)
        assert cell.outcome == "timeout", cell
        wait_until(lambda: sleepers(sb) == kept, 10,
                   "only what the stopped cell had started ends")


def test_shared_memory_of_forks_counts_once():
    with open_session("memory=%d" % (1024 * MIB)) as sb:
        cell = sb.cell("""
import os, signal, time
held = bytearray(300 << 20)
held[::4096] = bytes([1]) * (len(held) // 4096)
pids = [os.fork() for _ in range(1)]
for _ in range(7):
    if pids[-1]:
        pids.append(os.fork())
if not pids[-1]:
    signal.pause()
time.sleep(1)
for pid in pids:
    os.kill(pid, 9)
""", timeout_ms=20000)
        assert cell.outcome == "ok", cell


# ---- memory ----------------------------------------------------------------

@attack(40)
@tap.timeout(60)
def test_memory_hog():
    """MemoryError with the variables kept, or the end of the interpreter by
    the limit, which is then said."""
    with open_session("memory=%d" % (1024 * MIB)) as sb:
        sb.cell("x = 1")
        cell = sb.cell("import numpy as np\nheld = []\nwhile True:\n"
                       "    held.append(np.ones(1 << 22))\n")
        if cell.end == "done":
            assert cell.outcome == "error", cell
            assert cell.error in ("MemoryError", "_ArrayMemoryError",
                                  "ArrayMemoryError"), cell
            # What it got was not more than the limit: 32 MiB each.
            n = int(sb.cell("print(len(held))").stdout)
            assert 8 <= n <= 32, n
            sb.cell("held = None")
            must_work(sb, True)
        else:
            assert cell.outcome == "memory" and cell.lost, cell
            must_work(sb, False)


@attack(41)
@tap.timeout(60)
def test_memory_of_many_processes():
    """Each below its own limit, all together above: the watchdog."""
    with open_session("memory=%d" % (1024 * MIB)) as sb:
        cell = sb.cell("""
import os, signal
for i in range(8):
    if os.fork() == 0:
        held = bytearray(os.urandom(1 << 20) * 300)
        signal.pause()
signal.pause()
""", timeout_ms=20000)
        assert cell.outcome == "memory", cell
        assert cell.lost and "at the memory limit" in cell.reason, cell
        must_work(sb)
        wait_until(lambda: len(sb.descendants()) <= 8, 5, "they end")


HEADLESS = """
import _thread, ctypes, os, platform, signal, threading
libc = ctypes.CDLL(None)
r, w = os.pipe()
for i in range(8):
    if os.fork() == 0:
        def eat():
            while open("/proc/self/stat").read().split(")")[1][1] != "Z":
                os.sched_yield()
            held = bytearray(300 << 20)
            for at in range(0, len(held), 4096):
                held[at] = 1
            os.write(w, b"x")
            threading.Event().wait()
        _thread.start_new_thread(eat, ())
        # The thread alone ends, as pthread_exit does it.
        libc.syscall(60 if platform.machine() == "x86_64" else 93, 0)
os.close(w)
os.read(r, 1)
signal.pause()
"""


@attack(41)
@tap.timeout(60)
def test_memory_of_processes_without_a_main_thread():
    """Of such a process /proc says that it has no memory."""
    with open_session("memory=%d" % (1024 * MIB)) as sb:
        cell = sb.cell(HEADLESS, timeout_ms=20000)
        assert cell.outcome == "memory", cell
        must_work(sb)
        wait_until(lambda: len(sb.descendants()) <= 8, 5, "they end")


CROWD = """
import os, signal
mine = 0
pids = []
for i in range(16):
    pid = os.fork()
    if pid == 0:
        held = bytearray(3 << 30)
        for at in range(0, len(held), 4096):
            held[at] = 1
        signal.pause()
    pids.append(pid)
print([os.waitpid(pid, 0)[1] for pid in pids])
"""


def counters(*names):
    with open("/proc/vmstat") as f:
        values = dict(line.split() for line in f)
    return [int(values.get(name, 0)) for name in names]


@attack(41)
@tap.timeout(180)
def test_16_processes_of_3_gib():
    """At the limit as it is without a configuration: 4 GiB, or half of what
    the machine has. The machine neither swaps nor looks for a victim."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = min(4 << 30, total // 2)
    before = counters("pswpout", "oom_kill")
    most = 0
    with open_session() as sb:
        sb.cell("x = 1")
        sb.start_cell(CROWD)
        done = threading.Event()
        over = []

        def watch():
            # If nobody ends it, this does, before the machine has to.
            nonlocal most
            while not done.wait(0.05):
                pids = sb.descendants()
                most = max(most, resident_of(pids))
                if most > limit + (limit >> 1) and most > limit + (2 << 30):
                    over.append(most)
                    for pid in reversed(pids):
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except OSError:
                            pass
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            cell = sb.finish_cell(120)
        finally:
            done.set()
            watcher.join()
        assert not over, "%d MiB, and nobody ended it" % (over[0] >> 20)
        if cell.end == "done":
            # Where the kernel bounds the sum: it has ended some of them.
            assert cell.outcome == "ok" and ", 9" in cell.stdout, cell
            must_work(sb, True)
        else:
            assert cell.outcome == "memory" and cell.lost, cell
            must_work(sb, False)
        wait_until(lambda: len(sb.descendants()) <= OWN_PROCESSES, 20,
                   "they end")
    tap.diag("at most %d MiB at a limit of %d MiB" % (most >> 20, limit >> 20))
    assert counters("pswpout", "oom_kill") == before, before


SLEEPERS = """
import os, signal, time
for i in range(8):
    if os.fork() == 0:
        while not os.path.exists("/workspace/now"):
            time.sleep(0.05)
        %s
        signal.pause()
"""


def let_go(sb):
    open(os.path.join(sb.workspace(), "now"), "w").close()


@attack(41)
@tap.timeout(60)
def test_memory_of_what_was_left_running():
    """They wait until the cell is over. The interpreter is not what fills
    the memory, so it is kept."""
    with open_session("memory=%d" % (1024 * MIB)) as sb:
        sb.cell("x = 1")
        cell = sb.cell(SLEEPERS % "held = bytearray(b'1' * (300 << 20))")
        assert cell.outcome == "ok", cell
        wait_until(lambda: len(sb.descendants()) == OWN_PROCESSES + 8, 30,
                   "all of them are there")
        let_go(sb)
        wait_until(lambda: len(sb.descendants()) <= OWN_PROCESSES, 30,
                   "what fills the memory is ended")
        cell = sb.cell("print(x)")
        assert cell.stdout == "1\n", cell
        assert ["left running" in n["text"] and "memory" in n["text"]
                for n in cell.notes] == [True], cell
        # It is said once.
        assert not sb.cell("print(x)").notes


@attack(42)
def test_shared_memory_counts():
    with open_session("memory=%d" % (1024 * MIB)) as sb:
        found = sb.attack("""
import mmap
held = []
try:
    while len(held) < 100:
        m = mmap.mmap(-1, 64 << 20)
        held.append(m)
    report("end", "no limit")
except (OSError, MemoryError) as exc:
    report("end", "stopped")
report("n", len(held))
held = None
""")
        assert found["end"] == "stopped" and found["n"] < 17, found


@attack(42)
@tap.timeout(60)
def test_memory_in_files_of_no_directory():
    """What no limit of a process counts cannot be had; /dev/shm is small."""
    with open_session() as sb:
        found = sb.attack("""
for name in ("memfd_create", "memfd_secret", "shmget", "msgget", "semget",
             "mq_open"):
    report(name, call(nr(name), 0, 4096, 0o1600, 0, 0))
report("python", outcome(os.memfd_create, "x"))
""")
        assert set(found.values()) == {"ENOSYS"}, found


@attack(42)
@tap.timeout(60)
def test_shared_memory_of_many_processes():
    """Each has its own, below the limit of one process."""
    with open_session("memory=%d" % (1024 * MIB)) as sb:
        cell = sb.cell("""
import mmap, os, signal
for i in range(8):
    if os.fork() == 0:
        held = mmap.mmap(-1, 300 << 20)
        for at in range(0, len(held), 4096):
            held[at] = 1
        signal.pause()
signal.pause()
""", timeout_ms=30000)
        assert cell.outcome == "memory" and cell.lost, cell
        must_work(sb, False)


# ---- files -----------------------------------------------------------------

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


@attack(45)
def test_descriptors_stop_at_the_limit():
    with open_session() as sb:
        for held in ("del held", "kept = held"):
            found = sb.attack("""
held = []
try:
    while len(held) < 5000:
        held.append(open("/dev/null"))
    report("end", "no limit")
except OSError as exc:
    report("end", code_of(exc.errno))
report("n", len(held))
import resource
report("raise", outcome(resource.setrlimit, resource.RLIMIT_NOFILE,
                        (5000, 5000)))
""" + held)
            assert found["end"] == "EMFILE", found
            assert 900 <= found["n"] <= 1024, found
            assert found["raise"] in ("ValueError", "EPERM"), found
            # Also while they are still open.
            must_work(sb)
            cell = sb.cell("display('shown')\n6 * 7")
            assert [o["text"] for o in cell.outputs][-1] == "42", cell


@attack(45)
def test_import_ahead_without_a_descriptor():
    """What the kernel does by itself between the cells needs one."""
    with open_session() as sb:
        cell = sb.cell("import sandpiper_kernel\nx = 1\nheld = []\ntry:\n"
                       "    while True: held.append(open('/dev/null'))\n"
                       "except OSError: pass\n"
                       "sandpiper_kernel.S.steps.insert(0, (list, 0))")
        assert cell.outcome == "ok", cell
        must_work(sb, True)


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


# ---- output ----------------------------------------------------------------

FLOODS = {
    "print": "while True:\n    print('y' * 1000)\n",
    "one line": "import sys\nwhile True:\n    sys.stdout.write('z' * 65536)\n",
    "1 GiB without a line feed":
        "import os\ndata = memoryview(b'g' * (1 << 30))\nwhile data:\n"
        "    data = data[os.write(1, data):]\n",
    "child": "import os\nos.system('yes')\n",
    "child of NULs alone": "import os\nos.system('cat /dev/zero')\n",
    "stderr": "import os\nwhile True:\n    os.write(2, b'e' * 65536)\n",
    "half marks": "import os\nwhile True:\n    os.write(1, "
                  "(b'\\0\\x1e0123456789abcdef:1' + b'm' * 9999) * 10)\n",
}


@attack(46)
@tap.timeout(120)
def test_output_flood_is_cut_at_4_mib():
    """The client's memory stays flat, and the cell ends at once."""
    with open_session() as sb:
        sb.cell("x = 1")
        # How fast this machine is at the moment.
        control = sb.cell("print('y' * 4000000)")
        assert control.outcome == "ok" and control.dropped == 0, control
        for name, code in FLOODS.items():
            cell = sb.cell(code, timeout=60)
            assert cell.outcome == "output_limit", (name, cell.outcome)
            kept = len(cell.text.encode())
            assert kept <= 4 * MIB, (name, kept)
            assert kept > 4 * MIB - 200000, (name, kept)
            assert cell.dropped > 0, name
            assert cell.ms < 1000 * tap.FACTOR + 50 * control.ms, (
                name, cell.ms, control.ms)
            must_work(sb, True)
            sb.events.clear()
        check_client(sb)


@tap.timeout(60)
def test_nothing_is_lost_where_the_client_is_slow():
    """It gets hardly any time while a cell that has ended is still read."""
    with open_session() as sb:
        sb.cell("import sys")
        sb.start_cell("sys.stdout.write('x' * 3000000)")
        over = threading.Event()

        def hold_back():
            while not over.wait(0.002):
                sb.process.send_signal(signal.SIGSTOP)
                over.wait(0.06)
                sb.process.send_signal(signal.SIGCONT)
        slow = threading.Thread(target=hold_back)
        slow.start()
        try:
            cell = sb.finish_cell()
        finally:
            over.set()
            slow.join()
        assert cell.outcome == "ok", cell.outcome
        assert len(cell.stdout) == 3000000, len(cell.stdout)


if __name__ == "__main__":
    main(globals())
