#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cell may use up: processes, memory, descriptors, and what it may
print. test_disk_limits.py has the disk, test_stopping.py the time."""

import os
import signal
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from attack_program import main  # noqa: E402
from limit_cells import (OWN_PROCESSES, SLEEPERS, let_go,  # noqa: E402
                         must_work)
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


# ---- descriptors ---------------------------------------------------------

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
