#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to a sandbox while nobody needs it: every process is stopped,
goes on with the next operation, or is closed; and nothing outlives the
program meanwhile."""

import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from sandbox_session import (Sandbox, attack, process_table,  # noqa: E402
                             wait_until)

SPIN = """
import os, subprocess, sys, time
x = 1
spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                           start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            pass
    os._exit(0)
os.wait()
"""


def inside(sb):
    """The processes of the sandbox: all but the one that waits outside."""
    table = process_table()
    return {pid: table[pid][1] for pid in sb.descendants()
            if pid in table and table[pid][0] != sb.process.pid}


def ticks(pids):
    """Processor time of all of them, in the unit of the system."""
    total = 0
    for pid in pids:
        with open("/proc/%d/stat" % pid, "rb") as f:
            fields = f.read().rsplit(b")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total


def all_stopped(sb, states="TD"):
    """D: one that waits for a child between fork and exec, which has stopped
    (an import ahead may ask a program for the fonts)."""
    found = inside(sb)
    assert len(found) >= 2, found
    return set(found.values()) <= set(states)


def suspended(sb, states="TD"):
    sb.in_state("suspended")
    wait_until(lambda: all_stopped(sb, states), 20, "every process is stopped")


def gone(pids):
    wait_until(lambda: not Sandbox._reap(pids), 20, "the sandbox ends")


# ---- stopped, and going on -------------------------------------------------

@attack(64)
@tap.timeout(120)
def test_suspended_with_a_child_in_its_own_session():
    with Sandbox("idle_suspend_ms=200") as sb:
        cell = sb.cell(SPIN)
        assert cell.outcome == "ok", cell
        suspended(sb)
        pids = inside(sb)
        assert len(pids) >= 4, pids
        before = ticks(pids)
        time.sleep(1)
        assert ticks(pids) == before
        assert sb.info()["suspended"] is True
        cell = sb.cell("print(x, spinner.poll())")
        assert cell.outcome == "ok" and not cell.lost, cell
        assert cell.stdout == "1 None\n", cell
        assert any("still computing" in n["text"] for n in cell.notes), cell
        wait_until(lambda: ticks(pids) > before, 20, "they go on")
        suspended(sb)
        cell = sb.cell("spinner.kill()\nspinner.wait()\nprint(x)")
        assert cell.stdout == "1\n", cell


@tap.timeout(120)
def test_what_forks_all_the_time_is_stopped():
    with Sandbox("idle_suspend_ms=200") as sb:
        cell = sb.cell("""
import os
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            try:
                if os.fork() != 0:
                    os._exit(0)
            except OSError:
                pass
""")
        assert cell.outcome == "ok", cell
        for _ in range(5):
            suspended(sb)
            pids = set(inside(sb))
            assert len(pids) >= 6, pids
            time.sleep(0.2)
            assert set(inside(sb)) == pids and all_stopped(sb)
            assert sb.cell("print(2)").stdout == "2\n"


# It waits in the kernel until its child has begun another program or ended.
VFORKS = """
import ctypes, os, platform, signal
x = 1
if os.fork() == 0:
    x86 = platform.machine() == "x86_64"
    ctypes.CDLL(None).syscall(56 if x86 else 220, 0x4000 | signal.SIGCHLD,
                              0, 0, 0, 0)
    while True:
        signal.pause()
"""
NO_GROUP = "bus=/nonexistent"


@tap.timeout(120)
def test_what_waits_for_a_vfork_counts_as_stopped():
    with Sandbox("idle_suspend_ms=200", NO_GROUP) as sb:
        assert sb.cell(VFORKS).outcome == "ok"
        suspended(sb)
        assert sorted(inside(sb).values()) == ["D", "T", "T", "T"], inside(sb)
        cell = sb.cell("print(x)")
        assert cell.stdout == "1\n" and not cell.lost, cell


@tap.timeout(180)
def test_what_does_not_stop_is_ended():
    """It would go on, unseen, in what is called suspended."""
    with Sandbox("idle_suspend_ms=200", "no_stop=1", NO_GROUP,
                 timeout=60) as sb:
        assert sb.cell(SPIN).outcome == "ok"
        pids = sb.descendants()
        assert len(pids) >= 5, pids
        late = sb.wait("late")
        assert late["loss"] == (
            "the interpreter was ended while no cell ran, since something in "
            "it could not be stopped; variables and imports are gone"), late
        gone(pids)
        assert not any(e.get("state") == "suspended" for e in sb.events)
        assert sb.info()["state"] == "new"
        cell = sb.cell("print('x' in globals())")
        assert cell.end == "restarted" and cell.lost, cell
        assert cell.stdout == "False\n", cell
        assert "could not be stopped. Variables" in cell.reason, cell


ALARMS = """
import ctypes, fcntl, os, platform, signal, threading
x86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None)
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int),
                ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
signal.signal(signal.SIGCONT, lambda *_: None)
event = Event(0, signal.SIGCONT, 0)
made = 0
for i in range(60):
    timer = ctypes.c_void_p()
    made += libc.syscall(222 if x86 else 107, 1, ctypes.byref(event),
                         ctypes.byref(timer)) == 0
    when = (ctypes.c_long * 4)(0, 0, 0, 250000000 * (i % 4))
    when[2] = 1 + i // 4
    libc.syscall(223 if x86 else 110, timer, 0, when, 0)
try:
    fcntl.fcntl(1, 10, signal.SIGCONT)
    made += 1
except OSError:
    pass
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
print(made)
"""


@attack(63)
@tap.timeout(120)
def test_alarms_do_not_make_it_go_on():
    """A signal that a timer sends, or a descriptor when it is ready, could be
    the one by which what is stopped goes on."""
    with Sandbox("idle_suspend_ms=200") as sb:
        cell = sb.cell(ALARMS)
        assert cell.stdout == "0\n", cell
        suspended(sb)
        pids = inside(sb)
        before = ticks(pids)
        time.sleep(3)
        assert ticks(pids) == before and all_stopped(sb)


@attack(63)
@tap.timeout(120)
def test_computing_after_a_forged_end():
    """The cell says that it is done, and goes on in threads."""
    with Sandbox("idle_suspend_ms=200") as sb:
        cell = sb.cell("""
import os, sys, json, threading
sys.setswitchinterval(0.001)
def spin():
    while True:
        pass
for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
id = sys.modules["sandpiper_kernel"].S.id
os.write(4, json.dumps({"ev": "done", "id": id, "status": "ok"}).encode()
         + b"\\n")
spin()
""")
        assert cell.outcome == "ok", cell
        suspended(sb)
        pids = inside(sb)
        before = ticks(pids)
        time.sleep(1)
        assert ticks(pids) == before


@tap.timeout(120)
def test_suspended_while_it_imports():
    with Sandbox("idle_suspend_ms=1", "terminal=1") as sb:
        sb.opened()
        for _ in range(3):
            # One that waits for a child of vfork() stays in that call.
            suspended(sb, "TD")
            cell = sb.cell("print('here')")
            assert cell.stdout == "here\n" and not cell.lost, cell


@tap.timeout(120)
def test_every_operation_resumes():
    with Sandbox("idle_suspend_ms=100") as sb:
        path = os.path.join(sb.dir, "data.csv")
        with open(path, "w") as f:
            f.write("a,b\n1,2\n")
        os.chmod(path, 0o644)
        sb.opened()
        suspended(sb)
        sb.request(op="put", path=path, name="data.csv")
        assert sb.wait("op", name="put")["end"] == "done"
        cell = sb.cell("print(open('data.csv').read())\n"
                       "open('made', 'w').write('made')\nx = 5")
        assert "1,2" in cell.stdout, cell
        suspended(sb)
        assert "made" in sb.list()
        suspended(sb)
        assert sb.get("made") == ("done", "", b"made")
        suspended(sb)
        assert "x" in [v["name"] for v in sb.vars()["vars"]]
        suspended(sb)
        assert sb.snapshot(os.path.join(sb.dir, "saved"))["names"] == ["x"]
        suspended(sb)
        assert sb.restore(os.path.join(sb.dir, "saved"))["names"] == ["x"]
        suspended(sb)
        assert sb.restart()["end"] == "done"
        assert sb.cell("print('x' in globals())").stdout == "False\n"


@tap.timeout(60)
def test_never_suspended_when_told_so():
    with Sandbox("idle_suspend_ms=-1", "idle_close_ms=400") as sb:
        sb.cell("x = 1")
        assert sb.info()["state"] == "idle"
        sb.in_state("new")
        assert not any(e.get("state") == "suspended" for e in sb.events)


def wakeups(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("voluntary_ctxt_switches:"):
                return int(line.split()[1])
    raise AssertionError("no count of switches")


@tap.timeout(60)
def test_idle_client_does_not_wake_up():
    with Sandbox() as sb:
        sb.cell("x = 1")
        seen = [0]

        def quiet():
            """Nothing since the last look: the end of the cell is over."""
            last, seen[0] = seen[0], wakeups(sb.process.pid)
            return seen[0] == last
        wait_until(quiet, 20, "the client waits", step=0.5)
        time.sleep(3)
        assert wakeups(sb.process.pid) == seen[0]


PRINTS = """
import os, subprocess, sys
x = 1
if os.fork() == 0:
    os.setsid()
    %s
"""
ENDLESS = "while True: os.write(1, b'on and on ' * 100)"
SILENT = "import signal; signal.pause()"


def ticks_of_client(code):
    with Sandbox() as sb:
        cell = sb.cell(PRINTS % code)
        assert cell.outcome == "ok", cell
        # Until then it may still be read.
        time.sleep(1)
        before = ticks([sb.process.pid])
        time.sleep(3)
        used = ticks([sb.process.pid]) - before
        # It floods whatever runs, which is bounded as ever.
        cell = sb.cell("print('next', x)")
        assert cell.outcome in ("ok", "output_limit"), cell.outcome
        assert not cell.lost
        return used


@tap.timeout(120)
def test_what_prints_without_end_is_not_read():
    """While no cell runs it waits, so that the client does; with the next
    cell it goes on."""
    control = ticks_of_client(SILENT)
    used = ticks_of_client(ENDLESS)
    # A client that reads it is busy all the time, which is 300 of them.
    assert used <= 2 * control + 8, (used, control)


@tap.timeout(120)
def test_thread_that_prints_holds_nothing_up():
    """It waits in the middle of a write, with the lock of the stream."""
    with Sandbox("idle_suspend_ms=1500") as sb:
        cell = sb.cell("import threading, sys, time\nx = 1\ndef go():\n"
                       "    while True:\n        print('on and on ' * 100)\n"
                       "        time.sleep(0.005)\n"
                       "threading.Thread(target=go, daemon=True).start()")
        assert cell.outcome == "ok", cell
        for _ in range(2):
            sb.in_state("suspended")
            assert [v["name"] for v in sb.vars()["vars"]][:1] == ["x"]
            sb.in_state("suspended")
            cell = sb.cell("sys.stderr.write('here')")
            assert cell.outcome == "ok" and "here" in cell.stderr, cell
            assert not cell.lost, cell
            assert [n["kind"] for n in cell.notes].count("later") == 1, cell


@tap.timeout(60)
def test_what_was_printed_before_a_cell_is_not_the_cells():
    """What is in the pipe by then belongs to what is kept for later."""
    with Sandbox() as sb:
        cell = sb.cell("import os, time\nif os.fork() == 0:\n"
                       "    os.setsid()\n    os.write(1, b'old ' * 2000)\n"
                       "    time.sleep(0.5)\n"
                       "    os.write(1, b'old ' * 12000)\n"
                       "    open('done', 'w').close()\n    os._exit(0)")
        wait_until(lambda: os.path.exists(sb.workspace() + "/done"), 20,
                   "it has printed")
        cell = sb.cell("print('new')")
        assert cell.stdout == "new\n", len(cell.stdout)


# ---- the end of one that is suspended --------------------------------------

@attack(65)
@tap.timeout(60)
def test_client_killed_while_suspended():
    with Sandbox("idle_suspend_ms=200") as sb:
        sb.cell(SPIN)
        suspended(sb)
        pids = sb.descendants()
        assert len(pids) >= 5, pids
        sb.process.kill()
        sb.process.wait()
        gone(pids)


@tap.timeout(60)
def test_closed_while_suspended():
    with Sandbox("idle_suspend_ms=200") as sb:
        sb.cell(SPIN)
        suspended(sb)
        pids = sb.descendants()
        sb.request(op="quit")
        assert sb.process.wait(timeout=30) == 0
        assert not Sandbox._reap(pids), pids
        assert os.listdir(sb.parent) == []


@tap.timeout(60)
def test_killed_while_suspended():
    with Sandbox("idle_suspend_ms=200") as sb:
        sb.cell("x = 1")
        suspended(sb)
        first = min(inside(sb))
        os.kill(first, signal.SIGKILL)
        late = sb.wait("late")
        assert "variables and imports are gone" in late["loss"], late
        cell = sb.cell("print('x' in globals())")
        assert cell.end == "restarted" and cell.lost, cell
        assert cell.stdout == "False\n", cell
        assert "Before this cell" in cell.reason, cell
        assert not sb.cell("print(1)").lost


@tap.timeout(120)
def test_no_answer_after_it_was_resumed():
    """A cell holds what the kernel needs for an answer: that is found out
    before the next cell is sent, not by its time limit."""
    with Sandbox("idle_suspend_ms=2000", timeout=90) as sb:
        cell = sb.cell("""
import sandpiper_kernel, threading, time
def hold():
    while sandpiper_kernel.S.in_cell:
        time.sleep(0.01)
    time.sleep(0.3)  # "done" needs it as well
    sandpiper_kernel.S.lock.acquire()
threading.Thread(target=hold, daemon=True).start()
x = 1
""")
        assert cell.outcome == "ok", cell
        suspended(sb)
        cell = sb.cell("print('x' in globals())", timeout=90)
        assert cell.end == "restarted" and cell.lost, cell
        assert cell.stdout == "False\n", cell
        assert "did not answer when it was resumed" in cell.reason, cell


# ---- closed ----------------------------------------------------------------

@tap.timeout(60)
def test_closed_after_a_while():
    with Sandbox("idle_suspend_ms=100", "idle_close_ms=700") as sb:
        sb.request(op="loaded", path="/etc/passwd", name="passwd",
                   variable="df", setup="df = 7")
        sb.cell("x = 1\nopen('kept', 'w').close()")
        suspended(sb)
        pids = sb.descendants()
        sb.in_state("new")
        gone(pids)
        info = sb.info()
        assert info["uptime_ms"] == 0, info
        cell = sb.cell("import os\nprint('x' in globals(), df,"
                       " os.path.exists('kept'))")
        assert cell.stdout == "False 7 True\n", cell
        assert cell.end == "restarted" and cell.lost, cell
        for part in ("idle for 0.7 s", "Variables and imports are gone",
                     "files in /workspace are kept",
                     "Re-create what you need", "Loaded again: df"):
            assert part in cell.reason, cell
        again = sb.cell("print(1)")
        assert again.end == "done" and not again.reason, again
        # The person is told when it happens, the model with the next cell.
        assert [e["loss"] for e in sb.events if e["event"] == "late"] == [
            "the interpreter was closed: it had been idle for 0.7 s; "
            "variables and imports are gone"], sb.events


@tap.timeout(60)
def test_closed_before_anything_ran():
    with Sandbox("idle_close_ms=200") as sb:
        sb.opened()
        sb.in_state("new")
        cell = sb.cell("print(1)")
        assert cell.end == "done" and not cell.reason, cell


# ---- a new one -------------------------------------------------------------

@tap.timeout(60)
def test_restart_when_asked():
    with Sandbox() as sb:
        sb.request(op="loaded", path="/etc/passwd", name="passwd",
                   variable="df", setup="df = 7")
        sb.cell("x = 1")
        assert sb.info()["cells"] == 1
        pids = sb.descendants()
        assert sb.restart()["end"] == "done"
        gone(pids)
        assert sb.info()["cells"] == 0
        loss = sb.take_loss()
        assert "has restarted the interpreter" in loss, loss
        assert "Loaded again: df" in loss, loss
        assert sb.take_loss() is None
        cell = sb.cell("print('x' in globals(), df)")
        assert cell.end == "done" and not cell.reason, cell
        assert cell.stdout == "False 7\n", cell


@tap.timeout(60)
def test_restart_says_what_is_not_back():
    with Sandbox() as sb:
        sb.request(op="loaded", path="/nonexistent/x.csv", name="x.csv",
                   variable="df", setup="1/0")
        sb.cell("x = 1")
        event = sb.restart()
        assert event["end"] == "restarted" and event["code"] == "data", event
        assert event["message"].startswith("could not be loaded again: df"), \
            event
        cell = sb.cell("print(1)")
        assert cell.end == "done" and not cell.reason, cell
        assert "Could not be loaded again: df" in sb.take_loss()


@tap.timeout(60)
def test_restart_ends_what_ignores_everything():
    with Sandbox() as sb:
        sb.cell("import signal\n"
                "for n in (1, 2, 15):\n"
                "    signal.signal(n, signal.SIG_IGN)\n" + SPIN)
        pids = sb.descendants()
        assert sb.restart()["end"] == "done"
        gone(pids)


# ---- what is known of it ---------------------------------------------------

@tap.timeout(60)
def test_info():
    with Sandbox("memory=1000000000", "processes=50",
                 "workspace=2000000000", "output=100000",
                 "timeout_ms=5000") as sb:
        info = sb.info()
        assert info["backend"] == "local" and info["uptime_ms"] == 0, info
        sb.opened()
        sb.cell("open('f', 'wb').write(b'x' * 1000000)\nb = b'x' * 50000000")
        info = sb.info()
        assert info["level"] in ("full", "full-without-proc"), info
        assert info["python"].startswith("/usr/bin/python3 (3."), info
        assert info["bound_by"] in ("watchdog", "cgroup"), info
        assert info["uptime_ms"] > 0 and info["cells"] == 1, info
        assert 50000000 < info["memory"] < 500000000, info
        assert info["memory_limit"] == 1000000000, info
        assert info["processes"] == 2 and info["max_processes"] == 50, info
        assert 1000000 <= info["workspace"] < 1100000, info
        assert info["workspace_limit"] == 2000000000, info
        assert info["output"] == 100000, info
        assert info["idle_suspend_ms"] == 300000, info
        assert info["idle_close_ms"] == 0, info
        assert info["suspended"] is False and info["state"] == "idle", info


if __name__ == "__main__":
    tap.main(globals())
