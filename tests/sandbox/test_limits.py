#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cell may use up, and how a cell that will not stop is stopped."""

import os
import re
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from sandbox_session import (Sandbox, process_table,  # noqa: E402
                             wait_until)

MIB = 1 << 20


def resident(pid):
    with open("/proc/%d/statm" % pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def must_work(sb, expect_kept=None):
    """The next cell works; expect_kept: whether x is still 1."""
    cell = sb.cell("print('x' in globals() and x == 1)")
    assert cell.outcome == "ok", cell
    if expect_kept is not None:
        assert cell.stdout.strip() == str(expect_kept), cell


# ---- processes -------------------------------------------------------------

def test_forks_stop_at_the_limit():
    with Sandbox() as sb:
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
        must_work(sb)


def test_threads_stop_at_the_limit():
    with Sandbox("processes=60") as sb:
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
        assert "error" in found and 20 <= found["n"] <= 60, found
        must_work(sb)


# bwrap twice and the interpreter.
OWN_PROCESSES = 3

BOMB = "import os, signal\nwhile True:\n    try:\n        %s\n" \
    "    except OSError:\n        pass\n"
BOMBS = {
    "plain": BOMB % "os.fork()",
    "sessions": BOMB % "if os.fork() == 0: os.setsid()",
    "deaf": BOMB % "if os.fork() == 0: signal.signal(2, signal.SIG_IGN)",
}


@tap.timeout(60)
def test_fork_bomb():
    """The time limit ends it, and nothing is left. With pandas loaded, the
    memory that all of them share counts once."""
    for name, code in BOMBS.items():
        with Sandbox() as sb:
            sb.cell("import pandas\nx = 1")
            cell = sb.cell(code, timeout_ms=500)
            assert cell.outcome in ("timeout", "killed"), (name, cell)
            wait_until(lambda: len(sb.descendants()) <= OWN_PROCESSES, 10,
                       "the processes of the bomb '%s' end" % name)
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
    with Sandbox() as sb:
        start = ("import subprocess\nsubprocess.Popen(['sleep', '600'],"
                 " start_new_session=True)\n")
        sb.cell(start)
        kept = wait_until(lambda: sleepers(sb), 10, "it runs")
        assert len(kept) == 1, kept
        # Starts of processes are known to a hundredth of a second.
        assert is_silent(sb, 0.05)
        cell = sb.cell(start + "while True: pass", timeout_ms=200)
        assert cell.outcome == "timeout", cell
        wait_until(lambda: sleepers(sb) == kept, 10,
                   "only what the stopped cell had started ends")


def test_shared_memory_of_forks_counts_once():
    with Sandbox("memory=%d" % (600 * MIB)) as sb:
        cell = sb.cell("""
import os, signal, time
held = bytearray(200 << 20)
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


def test_processes_of_cells_end_with_the_sandbox():
    """Sessions of their own, ignored signals, a double fork."""
    sb = Sandbox()
    try:
        found = sb.attack("""
import subprocess
code = ("import signal, os\\n"
        "for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\\n"
        "os.setsid()\\nif os.fork(): os._exit(0)\\nsignal.pause()")
for i in range(3):
    subprocess.Popen([sys.executable, "-c", code]).wait()
report("n", len([p for p in os.listdir("/proc") if p.isdigit()]))
""")
        assert found["n"] >= 5, found
        below = sb.descendants()
        assert len(below) >= 6, below
        sb.process.kill()
        sb.process.wait()

        def gone():
            table = process_table()
            return not [p for p in below
                        if table.get(p, (0, "X", 0))[1] not in "ZX"]
        wait_until(gone, 10, "all processes of the sandbox end")
    finally:
        sb.close()


# ---- memory ----------------------------------------------------------------

@tap.timeout(60)
def test_memory_hog():
    """MemoryError with the variables kept, or the end of the interpreter by
    the limit, which is then said."""
    with Sandbox("memory=%d" % (600 * MIB)) as sb:
        sb.cell("x = 1")
        cell = sb.cell("import numpy as np\nheld = []\nwhile True:\n"
                       "    held.append(np.ones(1 << 22))\n")
        if cell.end == "done":
            assert cell.outcome == "error", cell
            assert cell.error in ("MemoryError", "_ArrayMemoryError",
                                  "ArrayMemoryError"), cell
            sb.cell("held = None")
            must_work(sb, True)
        else:
            assert cell.outcome == "memory" and cell.lost, cell
            must_work(sb, False)


@tap.timeout(60)
def test_memory_of_many_processes():
    """Each below its own limit, all together above: the watchdog."""
    with Sandbox("memory=%d" % (500 * MIB)) as sb:
        cell = sb.cell("""
import os, signal
for i in range(8):
    if os.fork() == 0:
        held = bytearray(os.urandom(1 << 20) * 200)
        signal.pause()
signal.pause()
""", timeout_ms=20000)
        assert cell.outcome == "memory", cell
        assert cell.lost and "memory" in cell.reason, cell
        must_work(sb)
        wait_until(lambda: len(sb.descendants()) <= 8, 5, "they end")


def test_shared_memory_counts():
    with Sandbox("memory=%d" % (600 * MIB)) as sb:
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
        assert found["end"] == "stopped" and found["n"] < 10, found


# ---- files -----------------------------------------------------------------

def test_sparse_file_of_1_tib_is_refused():
    with Sandbox() as sb:
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
    with Sandbox() as sb:
        cell = sb.cell("import os\nopen('/workspace/kept', 'w').close()\n"
                       "os.chmod('/workspace', 0)\nos._exit(1)")
        assert cell.outcome == "died" and cell.end == "restarted", cell
        cell = sb.cell("print(sorted(os.listdir('/workspace')))"
                       .replace("os.", "__import__('os').", 1))
        assert cell.outcome == "ok" and "kept" in cell.stdout, cell
        sb.cell("import os\nos.chmod('/workspace', 0)")
        assert "kept" in sb.list()
        must_work(sb)


def test_descriptors_stop_at_the_limit():
    with Sandbox() as sb:
        found = sb.attack("""
held = []
try:
    while len(held) < 5000:
        held.append(os.open("/dev/null", os.O_RDONLY))
    report("end", "no limit")
except OSError as exc:
    report("end", code_of(exc.errno))
n = len(held)
for fd in held:
    os.close(fd)
report("n", n)
""")
        assert found["end"] == "EMFILE" and found["n"] <= 1024, found
        must_work(sb)


@tap.timeout(60)
def test_workspace_limit():
    with Sandbox("workspace=%d" % (16 * MIB)) as sb:
        cell = sb.cell("x = 1\nfor i in range(12):\n"
                       "    open('/workspace/f%d' % i, 'wb')"
                       ".write(bytes(range(256)) * 8192)\n")
        assert cell.outcome == "disk_limit", cell
        assert cell.reason, cell
        sb.cell("import glob, os\n"
                "for f in glob.glob('/workspace/f*'): os.unlink(f)")
        must_work(sb, True)


# ---- output ----------------------------------------------------------------

FLOODS = {
    "print": "while True:\n    print('y' * 1000)\n",
    "one line": "import sys\nwhile True:\n    sys.stdout.write('z' * 65536)\n",
    "child": "import os\nos.system('yes')\n",
    "stderr": "import os\nwhile True:\n    os.write(2, b'e' * 65536)\n",
}


@tap.timeout(60)
def test_output_flood_is_cut_at_4_mib():
    """The client's memory stays flat, and the cell ends at once."""
    with Sandbox() as sb:
        sb.cell("x = 1")
        base = resident(sb.process.pid)
        for name, code in FLOODS.items():
            cell = sb.cell(code)
            kept = len(cell.text)
            assert cell.outcome == "output_limit", (name, cell.outcome)
            assert kept <= 4 * MIB, (name, kept)
            assert kept > 4 * MIB - 200000, (name, kept)
            assert cell.dropped > 0, name
            assert cell.ms < 4000 * tap.FACTOR, (name, cell.ms)
            must_work(sb, True)
        grown = resident(sb.process.pid) - base
        # The driver holds lines of its own of the same size as the chunks; a
        # sanitizer keeps what is freed, so that its use is seen.
        if not os.environ.get("SANDPIPER_SANITIZERS", "").strip():
            assert grown < 32 * MIB, grown


@tap.timeout(60)
def test_nothing_is_lost_where_the_client_is_slow():
    """It gets hardly any time while a cell that has ended is still read."""
    with Sandbox() as sb:
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


def test_many_and_huge_results():
    with Sandbox() as sb:
        sb.cell("x = 1")
        cell = sb.cell("'r' * (200 << 20)", timeout=40)
        assert cell.outcome == "ok", cell.outcome
        assert len(cell.outputs) == 1
        assert len(cell.outputs[0]["text"]) <= 70000
        cell = sb.cell("for i in range(10 ** 6):\n    display(i)\n",
                       timeout=40)
        assert len(cell.outputs) <= 1000, len(cell.outputs)
        assert cell.outcome in ("output_limit", "ok"), cell.outcome
        cell = sb.cell("raise ValueError('v' * (50 << 20))", timeout=40)
        assert cell.outcome == "error" and cell.error == "ValueError"
        assert len(cell.value) <= 4200, len(cell.value)
        assert len(cell.traceback) <= 17000, len(cell.traceback)
        must_work(sb)


@tap.timeout(60)
def test_huge_figure():
    with Sandbox() as sb:
        cell = sb.cell("import matplotlib.pyplot as plt\n"
                       "plt.figure(figsize=(400, 400), dpi=100)\n"
                       "plt.plot([1, 2])\nplt.show()", timeout=40)
        assert not any(o["png"] for o in cell.outputs), cell
        assert cell.notes or cell.outcome != "ok" or any(
            o["what"] or o["text"] for o in cell.outputs), cell
        cell = sb.cell("plt.plot([1, 2])\nplt.show()", timeout=40)
        assert [o["png"] > 0 for o in cell.outputs] == [True], cell


# ---- time ------------------------------------------------------------------

STUBBORN = {
    "loop": "while True:\n    pass\n",
    "sleep": "import time\ntime.sleep(1000)\n",
    "system": "import os\nos.system('sleep 1000')\n",
    "regex": "import re\nre.match('(a+)+$', 'a' * 40 + 'b')\n",
    "thread": "import threading\nthreading.Event().wait()\n",
}


@tap.timeout(60)
def test_time_limit_keeps_variables():
    with Sandbox() as sb:
        sb.cell("x = 1")
        for name, code in STUBBORN.items():
            cell = sb.cell(code, timeout_ms=300)
            assert cell.end == "done", (name, cell)
            assert cell.outcome == "timeout", (name, cell)
            assert not cell.lost and cell.reason, (name, cell)
            assert cell.ms >= 300, (name, cell)
            must_work(sb, True)


def test_interrupt_keeps_variables():
    with Sandbox() as sb:
        sb.cell("x = 1")
        sb.start_cell("print('go', flush=True)\nwhile True:\n    pass\n")
        sb.wait("bytes")
        sb.interrupt()
        cell = sb.finish_cell()
        assert cell.outcome == "interrupted", cell
        must_work(sb, True)


# The kernel is kept as busy as an import does it, without a cell, until there
# is a file /workspace/go.
BUSY = """
import os, sandpiper_kernel
kept = 1
def step():
    open('/workspace/busy', 'w').close()
    while not os.path.exists('/workspace/go'):
        pass
sandpiper_kernel.S.steps.insert(0, (step, 0))
"""


def keep_busy(sb):
    sb.cell(BUSY)
    wait_until(lambda: os.path.exists(os.path.join(sb.workspace(), "busy")),
               10, "the kernel is busy")


def let_go(sb):
    open(os.path.join(sb.workspace(), "go"), "w").close()


def is_silent(sb, seconds):
    try:
        event = sb.next_event(seconds)
    except AssertionError:
        return True
    raise AssertionError(event)


def test_interrupt_while_the_kernel_imports():
    """At once, the interpreter is left alone, and the cell never runs."""
    with Sandbox() as sb:
        keep_busy(sb)
        for _ in range(5):
            sb.start_cell("kept += 1\nprint('ran')")
            assert is_silent(sb, 0.1)
            begun = time.monotonic()
            sb.interrupt()
            cell = sb.finish_cell()
            took = time.monotonic() - begun
            assert took < 0.5 * tap.FACTOR, took
            assert cell.end == "done" and not cell.lost, cell
            assert cell.outcome == "interrupted", cell
            assert "before it began" in cell.reason, cell
        sb.start_cell("print(kept)")
        let_go(sb)
        cell = sb.finish_cell()
        assert cell.outcome == "ok" and cell.stdout == "1\n", cell


def test_many_interrupts_while_the_kernel_imports():
    """What the kernel asks about each of them later is no flood."""
    with Sandbox() as sb:
        keep_busy(sb)
        n_asked = 0
        while n_asked < 120:
            sb.start_cell("kept += 1")
            sb.interrupt()
            cell = sb.finish_cell()
            # Else it was still waiting for its turn, here and not there.
            if cell.end == "done":
                n_asked += 1
                assert cell.outcome == "interrupted", cell
            else:
                assert cell.code == "cancelled", cell
        sb.start_cell("print(kept)")
        let_go(sb)
        cell = sb.finish_cell()
        assert cell.outcome == "ok" and cell.stdout == "1\n", cell
        must_work(sb)


def test_time_limit_while_the_kernel_imports():
    """The time of the import is not the cell's."""
    with Sandbox() as sb:
        keep_busy(sb)
        sb.start_cell("kept += 1\nprint(kept)", timeout_ms=100)
        assert is_silent(sb, 0.4)
        let_go(sb)
        cell = sb.finish_cell()
        assert cell.outcome == "ok" and cell.stdout == "2\n", cell


@tap.timeout(60)
def test_kernel_that_takes_no_cell_is_ended():
    with Sandbox() as sb:
        keep_busy(sb)
        cell = sb.cell("print('ran')", timeout_ms=100)
        assert cell.outcome == "killed" and cell.lost, cell
        assert "did not take the cell" in cell.reason, cell
        must_work(sb, False)


@tap.timeout(60)
def test_cell_that_will_not_stop_is_ended():
    """SIGINT ignored; BaseException swallowed."""
    with Sandbox() as sb:
        for code in ("import signal\nsignal.signal(2, signal.SIG_IGN)\n"
                     "while True:\n    pass\n",
                     "while True:\n    try:\n        while True:\n"
                     "            pass\n    except BaseException:\n"
                     "        pass\n"):
            sb.cell("x = 1")
            cell = sb.cell(code, timeout_ms=200)
            assert cell.end == "restarted", cell
            assert cell.outcome == "killed" and cell.lost, cell
            assert "ended" in cell.reason, cell
            must_work(sb, False)


@tap.timeout(60)
def test_three_deaths_are_enough():
    with Sandbox() as sb:
        for i in range(3):
            cell = sb.cell("import os\nos._exit(7)")
            assert cell.outcome == "died", cell
            assert "exit status 7" in cell.reason, cell
        assert cell.end == "lost", cell
        assert re.search("three times|not started again", cell.message), cell


if __name__ == "__main__":
    tap.main(globals())
