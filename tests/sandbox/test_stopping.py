#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a cell that will not stop is stopped, and what it started with it."""

import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from attack_program import main  # noqa: E402
from limit_cells import must_work  # noqa: E402
from sandbox_session import (attack, open_session,  # noqa: E402
                             process_table, wait_until)

# ---- time ------------------------------------------------------------------

STUBBORN = {
    "loop": "while True:\n    pass\n",
    "sleep": "import time\ntime.sleep(1000)\n",
    "system": "import os\nos.system('sleep 1000')\n",
    "regex": "import re\nre.match('(a+)+$', 'a' * 40 + 'b')\n",
    # Values that stay as they are: very small ones would make a single call
    # take seconds, and a call is not broken off.
    "BLAS": "import numpy\na = numpy.full((700, 700), 1 / 700)\nwhile True:\n"
            "    b = a @ a\n",
    "child that waits": "import subprocess\n"
                        "subprocess.run(['sleep', '1000'])\n",
    "thread": "import threading\nthreading.Event().wait()\n",
}


@attack(49)
@tap.timeout(120)
def test_time_limit_keeps_variables():
    with open_session() as sb:
        sb.cell("x = 1")
        for name, code in STUBBORN.items():
            cell = sb.cell(code, timeout_ms=300)
            assert cell.end == "done", (name, cell)
            assert cell.outcome == "timeout", (name, cell)
            assert not cell.lost and cell.reason, (name, cell)
            assert cell.ms >= 300, (name, cell)
            must_work(sb, True)


def test_interrupt_keeps_variables():
    with open_session() as sb:
        sb.cell("x = 1")
        sb.start_cell("print('go', flush=True)\nwhile True:\n    pass\n")
        sb.wait("bytes")
        sb.interrupt()
        cell = sb.finish_cell()
        assert cell.outcome == "interrupted", cell
        must_work(sb, True)


def test_cell_that_swallows_the_interrupt():
    """It came to its end, but not as it was written to."""
    code = ("import sys, time\nx = 1\ntry:\n    time.sleep(1000)\n"
            "except:\n    print('caught')\n")
    with open_session() as sb:
        for more in ("", "    sys.exit()\n"):
            cell = sb.cell(code + more, timeout_ms=200)
            assert cell.outcome == "timeout" and not cell.lost, cell
            assert "Stopped after 0.2 s; variables are kept" in cell.reason, \
                cell
            assert cell.stdout == "caught\n", cell
        cell = sb.cell("import os, signal\ntry:\n"
                       "    os.kill(os.getpid(), signal.SIGINT)\n"
                       "    time.sleep(1000)\nexcept KeyboardInterrupt:\n"
                       "    print('mine')")
        assert cell.outcome == "ok" and cell.stdout == "mine\n", cell
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
    with open_session() as sb:
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
    with open_session() as sb:
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
    with open_session() as sb:
        keep_busy(sb)
        sb.start_cell("kept += 1\nprint(kept)", timeout_ms=100)
        assert is_silent(sb, 0.4)
        let_go(sb)
        cell = sb.finish_cell()
        assert cell.outcome == "ok" and cell.stdout == "2\n", cell


@tap.timeout(60)
def test_kernel_that_takes_no_cell_is_ended():
    with open_session() as sb:
        keep_busy(sb)
        cell = sb.cell("print('ran')", timeout_ms=100)
        assert cell.outcome == "killed" and cell.lost, cell
        assert "did not take the cell" in cell.reason, cell
        must_work(sb, False)


@attack(50)
@tap.timeout(60)
def test_cell_that_will_not_stop_is_ended():
    """SIGINT ignored; BaseException swallowed."""
    with open_session() as sb:
        for code in ("import signal\nsignal.signal(2, signal.SIG_IGN)\n"
                     "while True:\n    pass\n",
                     "while True:\n    try:\n        while True:\n"
                     "            pass\n    except BaseException:\n"
                     "        pass\n"):
            sb.cell("x = 1")
            cell = sb.cell(code, timeout_ms=200)
            assert cell.end == "restarted", cell
            assert cell.outcome == "killed" and cell.lost, cell
            assert "did not stop at its time limit" in cell.reason, cell
            assert "Variables" in cell.reason, cell
            must_work(sb, False)


@attack(50)
@tap.timeout(60)
def test_cell_that_ctrl_c_does_not_stop_is_ended():
    with open_session() as sb:
        sb.start_cell("import signal\nsignal.signal(2, signal.SIG_IGN)\n"
                      "print('deaf', flush=True)\nwhile True:\n    pass\n")
        sb.wait("bytes")
        sb.interrupt()
        cell = sb.finish_cell()
        assert cell.end == "restarted" and cell.outcome == "killed", cell
        assert cell.lost and "did not stop when asked" in cell.reason, cell
        must_work(sb, False)


# ---- what cells leave running ----------------------------------------------

# A child in a session of its own that hears nothing, a daemon by two forks, a
# child in a group of its own, and a thread of the interpreter.
def start_daemons(sb):
    """The pids of all that runs for the sandbox then."""
    cell = sb.cell("""
import subprocess, sys, threading
deaf = ("import os, signal\\nfor s in (1, 2, 3, 15):\\n"
        "    signal.signal(s, signal.SIG_IGN)\\n")
up = "os.write(1, b'u')\\nos.close(1)\\nos.close(2)\\nsignal.pause()"
children = []
for code in (deaf + "os.setsid()\\n" + up,
             deaf + "if os.fork(): os._exit(0)\\nos.setsid()\\n"
             "if os.fork(): os._exit(0)\\n" + up,
             deaf + "os.setpgid(0, 0)\\n" + up):
    child = subprocess.Popen([sys.executable, "-c", code],
                             stdout=subprocess.PIPE)
    assert child.stdout.read(1) == b"u"
    children.append(child)
threading.Thread(target=threading.Event().wait, daemon=True).start()
""")
    assert cell.outcome == "ok", cell
    # Those between the first fork and the last may still be ending.
    wait_until(lambda: len(sb.descendants()) == 6, 10, "they run")
    return sb.descendants()


def gone(pids):
    table = process_table()
    return not [p for p in pids if table.get(p, (0, "X", 0))[1] not in "ZX"]


@attack(51)
@tap.timeout(60)
def test_daemons_end_with_the_interpreter():
    """After a restart: of a cell that was killed, and of an interpreter that
    ended by itself."""
    for code in ("import signal\nsignal.signal(2, signal.SIG_IGN)\n"
                 "while True:\n    pass\n", "import os\nos._exit(7)"):
        with open_session() as sb:
            pids = start_daemons(sb)
            cell = sb.cell(code, timeout_ms=200)
            assert cell.end == "restarted" and cell.lost, cell
            wait_until(lambda: gone(pids), 10, "they end")
            must_work(sb, False)


@attack(51)
@tap.timeout(60)
def test_daemons_end_with_the_client():
    """Asked to end, and killed."""
    for how in ("quit", "kill"):
        with open_session() as sb:
            pids = start_daemons(sb)
            if how == "quit":
                sb.request(op="quit")
            else:
                sb.process.kill()
            status = sb.process.wait(20 * tap.FACTOR)
            assert (status == 0) == (how == "quit"), status
            wait_until(lambda: gone(pids), 10, "they end")


@tap.timeout(60)
def test_three_deaths_are_enough():
    with open_session() as sb:
        for i in range(3):
            cell = sb.cell("import os\nos._exit(7)")
            assert cell.outcome == "died", cell
            assert "exit status 7" in cell.reason, cell
        assert cell.end == "lost", cell
        assert re.search("three times|not started again", cell.message), cell


if __name__ == "__main__":
    main(globals())
