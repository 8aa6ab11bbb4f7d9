#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A control group by systemd, with a double of it: a script in the place of
busctl, and directories in the place of /proc and of the control groups."""

import glob
import os
import shutil
import socket
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from sandbox_session import (Sandbox, process_table,  # noqa: E402
                             wait_until)

MIB = 1 << 20

# Reads what is asked for, makes the group and puts the processes into it.
GOOD = """#!/bin/sh
top=${0%/*}
echo "$@" >>$top/asked
unit=$9
shift 8
while [ $# -gt 0 ]; do
    case $1 in
    MemoryMax) M=$3 ;;
    TasksMax) P=$3 ;;
    PIDs)
        n=$3
        shift 3
        while [ $n -gt 0 ]; do
            pids="$pids $1"
            n=$((n - 1))
            shift
        done
        continue
        ;;
    esac
    shift
done
g=$top/groups/user.slice/$unit
mkdir -p $g
echo $M >$g/memory.max
echo $P >$g/pids.max
echo 1000 >$g/memory.current
printf 'low 0\\noom_kill 0\\n' >$g/memory.events
[ -e $top/cannot-freeze ] || echo 0 >$g/cgroup.freeze
printf 'populated 1\\nfrozen 1\\n' >$g/cgroup.events
if [ -e $top/real ]; then
    ln -sf $top/real/cgroup.freeze $top/real/cgroup.events $g
    for p in $pids; do echo $p >$top/real/cgroup.procs; done
fi
for p in $pids; do
    mkdir -p $top/proc/$p
    echo "0::/user.slice/$unit" >$top/proc/$p/cgroup
done
"""
REFUSES = "#!/bin/sh\necho x >>${0%/*}/asked\necho no >&2\nexit 1\n"
SILENT = "#!/bin/sh\necho x >>${0%/*}/asked\nexec sleep 600\n"


class Systemd:
    def __init__(self, script, wait_ms=60000):
        self.top = tempfile.mkdtemp(prefix="scope-")
        self.bus = socket.socket(socket.AF_UNIX)
        self.bus.bind(self.path("bus"))
        os.mkdir(self.path("proc"))
        with open(self.path("busctl"), "w") as f:
            f.write(script)
        os.chmod(self.path("busctl"), 0o755)
        self.options = ["busctl=" + self.path("busctl"),
                        "bus=" + self.path("bus"),
                        "cgroups=" + self.path("groups"),
                        "proc=" + self.path("proc"),
                        "wait_ms=%d" % wait_ms]

    def path(self, name):
        return os.path.join(self.top, name)

    def asked(self):
        with open(self.path("asked")) as f:
            return f.read().splitlines()

    def groups(self):
        return sorted(glob.glob(self.path("groups/user.slice/*")),
                      key=os.path.getmtime)

    def __enter__(self):
        return self

    def make_real(self):
        """Processes join a group of the kernel's own as well, which has no
        limits, and can be frozen."""
        with open("/proc/mounts") as f:
            tops = [line.split()[1] for line in f
                    if line.split()[2] == "cgroup2"]
        try:
            group = tempfile.mkdtemp(prefix="sandpiper-test-", dir=tops[0])
        except (IndexError, OSError):
            tap.skip("no control group can be made here")
        os.symlink(group, self.path("real"))
        if not os.access(group + "/cgroup.freeze", os.W_OK):
            tap.skip("control groups cannot be frozen here")

    def __exit__(self, *_):
        self.bus.close()
        if os.path.islink(self.path("real")):
            group = os.readlink(self.path("real"))
            wait_until(lambda: not open(group + "/cgroup.procs").read(), 20,
                       "the group is empty")
            os.rmdir(group)
        shutil.rmtree(self.top)


def pids_of(line):
    words = line.split()
    at = words.index("PIDs")
    return [int(w) for w in words[at + 3:at + 3 + int(words[at + 2])]]


@tap.timeout(90)
def test_limit_of_memory_is_told_by_the_group():
    with Systemd(GOOD) as systemd, Sandbox(
            "memory=%d" % (600 * MIB), *systemd.options) as sb:
        cell = sb.cell("x = 1")
        assert cell.outcome == "ok", cell
        inner, kernel = sb.descendants()[1:3]
        line = systemd.asked()[0]
        assert " MemoryMax t %d " % (600 * MIB) in line, line
        # The outer process goes on when all others are frozen.
        assert sorted(pids_of(line)) == [inner, kernel], line
        # Ended by somebody else: no more than that.
        cell = sb.cell("import os\nos.kill(os.getpid(), 9)")
        assert cell.outcome == "died" and "killed" in cell.reason, cell
        # A new interpreter has a group of its own.
        assert len(systemd.groups()) == 2, systemd.groups()
        with open(systemd.groups()[-1] + "/memory.events", "w") as f:
            f.write("low 0\noom_kill 1\n")
        cell = sb.cell("x = 1")
        assert cell.outcome == "ok", cell
        # One before the cell is not the cell's.
        cell = sb.cell("import os\nos.kill(os.getpid(), 9)")
        assert cell.outcome == "died", cell
        sb.cell("x = 1")
        events = systemd.groups()[-1] + "/memory.events"
        sb.start_cell("print(1, flush=True)\nimport os, time\n"
                      "while not os.path.exists('/workspace/go'):\n"
                      "    time.sleep(0.01)\nos.kill(os.getpid(), 9)")
        sb.wait("bytes")
        with open(events, "w") as f:
            f.write("low 0\noom_kill 2\n")
        open(os.path.join(sb.workspace(), "go"), "w").close()
        cell = sb.finish_cell()
        assert cell.outcome == "memory" and cell.lost, cell
        assert "memory limit" in cell.reason, cell


def frozen(systemd):
    with open(systemd.groups()[-1] + "/cgroup.freeze") as f:
        return f.read().strip()


def is_stopped(pid):
    return process_table().get(pid, (0, "X"))[1] == "T"


@tap.timeout(90)
def test_suspended_by_the_group():
    """And let go on before anything else, also what is only to be ended."""
    with Systemd(GOOD) as systemd, Sandbox(
            "idle_suspend_ms=200", *systemd.options) as sb:
        sb.cell("x = 1")
        info = sb.in_state("suspended")
        assert info["bound_by"] == "cgroup", info
        # What the group counts, and not a sum over processes.
        assert info["memory"] == 1000, info
        assert frozen(systemd) == "1"
        kernel = sb.descendants()[2]
        assert not is_stopped(kernel)
        cell = sb.cell("print(x)")
        assert cell.stdout == "1\n" and not cell.lost, cell
        assert frozen(systemd) == "0"
        sb.in_state("suspended")
        group = systemd.groups()[-1]
        os.kill(kernel, 9)
        wait_until(lambda: sb.info()["state"] != "suspended", 30,
                   "the end is seen")
        with open(group + "/cgroup.freeze") as f:
            assert f.read().strip() == "0"


SPIN = ("import os\nx = 1\nif os.fork() == 0:\n    os.setsid()\n"
        "    while True: pass")


@tap.timeout(120)
def test_all_that_is_frozen_ends():
    """With its interpreter, its sandbox or its client, whichever is ended."""
    def end_kernel(sb):
        os.kill(sb.descendants()[2], 9)

    def restart(sb):
        assert sb.restart()["end"] == "done"

    def close(sb):
        sb.request(op="quit")
        assert sb.process.wait(timeout=30) == 0

    def kill(sb):
        sb.process.kill()
        sb.process.wait()

    for level in ("full", "reduced"):
        for end in (end_kernel, restart, close, kill):
            with Systemd(GOOD) as systemd:
                systemd.make_real()
                with Sandbox("idle_suspend_ms=200", *systemd.options,
                             level=level) as sb:
                    if sb.opened()["end"] != "done":
                        tap.skip(sb.opened()["message"])
                    sb.cell(SPIN)
                    sb.in_state("suspended")
                    assert frozen(systemd) == "1"
                    assert "frozen 1" in open(
                        systemd.groups()[-1] + "/cgroup.events").read()
                    below = sb.descendants()
                    assert len(below) >= 4, below
                    assert sb.cell("print(x)").stdout == "1\n"
                    sb.in_state("suspended")
                    end(sb)
                    wait_until(lambda: not sb._reap(below), 30,
                               "all of %s end by %s" % (level, end.__name__))


@tap.timeout(60)
def test_suspended_where_the_group_cannot_do_it():
    with Systemd(GOOD) as systemd:
        open(systemd.path("cannot-freeze"), "w").close()
        with Sandbox("idle_suspend_ms=200", *systemd.options) as sb:
            sb.cell("x = 1")
            kernel = sb.descendants()[2]
            sb.in_state("suspended")
            wait_until(lambda: is_stopped(kernel), 20, "it is stopped")
            assert sb.cell("print(x)").stdout == "1\n"


@tap.timeout(60)
def test_reduced_leaves_the_outer_warden_out():
    """It must be able to end what is stopped."""
    with Systemd(GOOD) as systemd, Sandbox(
            *systemd.options, level="reduced") as sb:
        if sb.opened()["end"] != "done":
            tap.skip(sb.opened()["message"])
        inner, kernel = sb.descendants()[1:3]
        assert sorted(pids_of(systemd.asked()[0])) == [inner, kernel]


@tap.timeout(90)
def test_without_a_group_cells_run():
    """And it is not asked for again and again."""
    for script, wait_ms in ((REFUSES, 60000), (SILENT, 100)):
        with Systemd(script, wait_ms) as systemd, Sandbox(
                *systemd.options) as sb:
            cell = sb.cell("print(1)")
            assert cell.stdout == "1\n", cell
            cell = sb.cell("import os\nos._exit(3)")
            assert cell.end == "restarted", cell
            assert sb.cell("print(2)").stdout == "2\n"
            assert len(systemd.asked()) <= 1, systemd.asked()


@tap.timeout(60)
def test_interpreter_that_ends_while_it_is_asked():
    with Systemd(SILENT, 60000) as systemd, Sandbox(*systemd.options) as sb:
        while not os.path.exists(systemd.path("asked")):
            assert sb.process.poll() is None
        os.kill(sb.descendants()[2], 9)
        event = sb.opened()
        assert event["end"] == "error" and "fix: " in event["message"], event


if __name__ == "__main__":
    tap.main(globals())
