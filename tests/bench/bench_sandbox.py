#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the local sandbox beside ipykernel and an embedded IPython.

    bench_sandbox.py [--runs N] [--idle SECONDS] [--only NAME]

Run by the system's Python, which is also the one that cells run in. Peers are
measured in turn with the sandbox, as in bench.py. Those that are not installed
are named, and their rows are left out.
"""

import argparse
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

import bench
from claude_server import ClaudeServer, reply, tool_use

try:
    from jupyter_client import KernelManager
except ImportError:
    KernelManager = None
try:
    import IPython
except ImportError:
    IPython = None

PLOT = ("import pandas as pd\n"
        "import matplotlib.pyplot as plt\n"
        "ax = pd.DataFrame({'a': range(100), 'b': range(100)}).plot()\n"
        "plt.show()\n")
FRAME = ("import numpy as np, pandas as pd\n"
         "df = pd.DataFrame(np.random.default_rng(1).random((1000000, 10)),"
         " columns=list('abcdefghij'))\n")
ROUND_TRIPS = 200

# An interpreter on two pipes as ours, with IPython inside.
EMBEDDED = r'''
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
out = sys.__stdout__
for line in sys.stdin:
    done = shell.run_cell(json.loads(line))
    out.write(json.dumps({"result": repr(done.result)}) + "\n")
    out.flush()
'''


class Driver:
    """The sandbox driver, with what it tells as dictionaries."""

    def __init__(self, path, env, *options, stdout=subprocess.PIPE):
        self.env = env
        self.start = time.perf_counter()
        self.child = subprocess.Popen(
            [path] + list(options), env=env, stdin=subprocess.PIPE,
            stdout=stdout, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_why):
        self.child.stdin.close()
        if self.child.stdout:
            for _line in self.child.stdout:
                pass
            self.child.stdout.close()
        self.child.wait()

    def send(self, **request):
        self.child.stdin.write(json.dumps(request).encode() + b"\n")
        self.child.stdin.flush()

    def wait(self, *kinds):
        for line in self.child.stdout:
            event = json.loads(line)
            if event["event"] in kinds:
                return event
        raise SystemExit("the driver ended with %s" % self.child.wait())

    def cell(self, code, outcome="ok"):
        self.send(op="cell", code=code)
        event = self.wait("cell")
        if event.get("outcome") != outcome:
            raise SystemExit("%r gave %r" % (code[:60], event))
        return event

    def settle(self):
        """Waits until the interpreter has imported what it imports ahead."""
        tree = below(self.child.pid)
        quiet = 0
        before = -1
        while quiet < 4:
            time.sleep(0.25)
            now = sum(cpu_ticks(pid) for pid in tree)
            quiet = quiet + 1 if now == before else 0
            before = now


def stat_fields(pid):
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rpartition(")")[2].split()


def cpu_ticks(pid):
    try:
        fields = stat_fields(pid)
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def below(pid):
    """pid and all its descendants."""
    found = [pid]
    for one in found:
        for task in os.listdir("/proc/%d/task" % one):
            try:
                with open("/proc/%d/task/%s/children" % (one, task)) as file:
                    found += [int(word) for word in file.read().split()]
            except OSError:
                pass
    return found


def wake_ups(pids):
    """How often their threads have gone to sleep, so have been awake."""
    total = 0
    for pid in pids:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/status" % (pid, task)) as file:
                total += sum(int(n) for n in re.findall(
                    r"(?m)^(?:non)?voluntary_ctxt_switches:\s+(\d+)",
                    file.read()))
    return total


# ---- peers -----------------------------------------------------------------

class Ipykernel:
    def __init__(self, home):
        self.start = time.perf_counter()
        self.manager = KernelManager(kernel_name="bench")
        self.manager.kernel_spec.argv = [
            bench.PYTHON, "-m", "ipykernel_launcher", "-f",
            "{connection_file}"]
        self.manager.start_kernel(
            env=bench.clean_env(home), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_why):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def cell(self, code):
        """Until it is idle again; the types of what it showed."""
        shown = set()
        asked = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            if message["msg_type"] == "error":
                raise SystemExit("ipykernel: %s" % content["evalue"])
            shown |= set(content.get("data", {}))
            if content.get("execution_state") == "idle":
                break
        self.client.get_shell_msg(timeout=60)
        return shown


def make_spec(home):
    """A kernel by the name of "bench", found before any other."""
    where = os.path.join(home, "jupyter", "kernels", "bench")
    os.makedirs(where)
    with open(os.path.join(where, "kernel.json"), "w") as file:
        json.dump({"argv": ["python3"], "display_name": "bench",
                   "language": "python"}, file)
    os.environ["JUPYTER_PATH"] = os.path.join(home, "jupyter")
    os.environ["JUPYTER_RUNTIME_DIR"] = os.path.join(home, "runtime")


class Embedded:
    def __init__(self, home):
        self.start = time.perf_counter()
        self.child = subprocess.Popen(
            [bench.PYTHON, "-c", EMBEDDED], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=bench.clean_env(home))

    def __enter__(self):
        return self

    def __exit__(self, *_why):
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()

    def cell(self, code):
        self.child.stdin.write(json.dumps(code).encode() + b"\n")
        self.child.stdin.flush()
        while True:
            line = self.child.stdout.readline()
            if not line:
                raise SystemExit("the embedded IPython ended")
            if line.startswith(b'{"result"'):
                return


def first_result(make):
    with make() as peer:
        peer.cell("1+1")
        return time.perf_counter() - peer.start


def round_trip(make):
    with make() as peer:
        for _ in range(10):
            peer.cell("1+1")
        start = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            peer.cell("1+1")
        return (time.perf_counter() - start) / ROUND_TRIPS


def ipykernel_figure(home):
    with Ipykernel(home) as peer:
        start = time.perf_counter()
        if "image/png" not in peer.cell("%matplotlib inline\n" + PLOT):
            raise SystemExit("ipykernel showed no figure")
        return time.perf_counter() - start


# ---- the sandbox -----------------------------------------------------------

def my_first_result(path, env):
    with Driver(path, env) as driver:
        driver.cell("1+1")
        return time.perf_counter() - driver.start


def my_round_trip(path, env):
    """Between the ends of cells that wait in a queue, by the client's clock.
    What it tells goes to a file: to wake a reader each time is no part of it.
    """
    with tempfile.TemporaryFile() as told:
        with Driver(path, env, stdout=told) as driver:
            driver.settle()
            for _ in range(ROUND_TRIPS + 10):
                driver.send(op="cell", code="1+1")
        told.seek(0)
        times = [event["t"] for event in map(json.loads, told)
                 if event["event"] == "cell"]
        return (times[-1] - times[-1 - ROUND_TRIPS]) / ROUND_TRIPS / 1e3


def my_figure(path, env):
    with Driver(path, env, "terminal=1") as driver:
        driver.wait("open")
        driver.settle()
        start = time.perf_counter()
        driver.send(op="cell", code=PLOT)
        png = driver.wait("output")["png"]
        driver.wait("cell")
        if not png:
            raise SystemExit("the sandbox showed no figure")
        return time.perf_counter() - start


def my_frame(path, env):
    """Seconds for showing a frame that is there, and bytes of the event."""
    with Driver(path, env) as driver:
        driver.cell(FRAME)
        driver.cell("df.head()")
        start = time.perf_counter()
        driver.send(op="cell", code="df")
        driver.wait("output")
        driver.wait("cell")
        return time.perf_counter() - start


def frame_bytes():
    """What the kernel writes for that frame, counted on its pipe."""
    with bench.PlainKernel() as kernel:
        kernel.run(FRAME)
        return max(len(line) for line in kernel.run("df")
                   if b'"result"' in line)


def my_stdout(path, env):
    """Bytes a second of a child's output that is counted and dropped."""
    mib = 512
    with Driver(path, env, "count=1", "output=%d" % (mib << 21)) as driver:
        driver.cell("import os\nblock = b'x' * 65535 + b'\\n'")
        driver.settle()
        start = time.perf_counter()
        driver.send(op="cell", code="for _ in range(%d):\n"
                    "    os.write(1, block)" % (mib * 16))
        counted = driver.wait("counted", "cell")
        took = time.perf_counter() - start
        if counted.get("stdout") != mib << 20:
            raise SystemExit("counted %r" % counted)
        return (mib << 20) / took


def cat_stdout():
    """The same bytes from a plain Python to a reader that drops them."""
    mib = 512
    code = ("import os\nblock = b'x' * 65535 + b'\\n'\nfor _ in range(%d):\n"
            "    os.write(1, block)" % (mib * 16))
    child = subprocess.Popen([bench.PYTHON, "-I", "-c", code],
                             stdout=subprocess.PIPE)
    buffer = bytearray(1 << 16)
    start = None
    while child.stdout.readinto(buffer):
        start = start or time.perf_counter()
    took = time.perf_counter() - start
    child.stdout.close()
    child.wait()
    return (mib << 20) / took


def my_interrupt(path, env):
    with Driver(path, env) as driver:
        driver.cell("1")
        driver.settle()
        driver.send(op="cell", code="print('x', flush=True)\n"
                                    "while True:\n    pass")
        driver.wait("bytes")
        start = time.perf_counter()
        driver.send(op="interrupt")
        if driver.wait("cell")["outcome"] != "interrupted":
            raise SystemExit("the loop was not interrupted")
        return time.perf_counter() - start


def my_kill(path, env):
    """From the death of an interpreter to the next one that is ready."""
    with Driver(path, env) as driver:
        driver.cell("import os")
        driver.settle()
        driver.send(op="cell", code="os.write(1, b'x')\nos._exit(7)")
        driver.wait("bytes")
        start = time.perf_counter()
        if driver.wait("cell")["end"] != "restarted":
            raise SystemExit("no new interpreter")
        return time.perf_counter() - start


def plain_start():
    start = time.perf_counter()
    with bench.PlainKernel() as kernel:
        kernel.wait(b'"ready"')
        return time.perf_counter() - start


FLOODS = (
    ("endless printing", "while True: print('x' * 1000)"),
    ("output of a child", "import os; os.system('yes')"),
    ("1 GiB without a line end",
     "import sys\nfor _ in range(1024): sys.stdout.write('x' * (1 << 20))"),
    ("a million displays", "for i in range(10**6): display(i)"),
    ("a text of 500 MB", "'x' * 500000000"),
)


def flood_peaks(home):
    peaks = []
    for _name, code in FLOODS:
        script = [reply([tool_use("run_python", {"code": code})]),
                  reply(["Done."])]
        with ClaudeServer(script) as server:
            env = bench.clean_env(home,
                                  ANTHROPIC_API_KEY="sk-bench-0123456789",
                                  ANTHROPIC_BASE_URL=server.url)
            peaks.append(bench.question_run(env)[1] * 1024)
    return peaks


def idle_wake_ups(env, seconds):
    """Of the program at its prompt and of everything that it has started."""
    import pty
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(bench.PROGRAM, [bench.PROGRAM], env)
    quiet = 0
    before = -1
    while quiet < 8:
        while select.select([fd], [], [], 0.25)[0]:
            os.read(fd, 65536)
        tree = below(pid)
        now = sum(cpu_ticks(one) for one in tree) + len(tree)
        quiet = quiet + 1 if now == before else 0
        before = now
    tree = below(pid)
    woken = wake_ups(tree)
    time.sleep(seconds)
    woken = wake_ups(tree) - woken
    os.write(fd, b":quit\r")
    while True:
        try:
            if not os.read(fd, 65536):
                break
        except OSError:
            break
    os.close(fd)
    os.waitpid(pid, 0)
    return woken, len(tree)


# ---- the table -------------------------------------------------------------

class Table:
    def __init__(self):
        self.good = True

    def row(self, what, mine, beside, ratio, bound, ok):
        self.good &= ok
        print("| %s | %s | %s | %s | %s%s |" % (
            what, mine, beside, ratio, bound, "" if ok else " **exceeded**"),
            flush=True)

    def times(self, what, mine, name, peer, bound):
        ratio = mine / peer
        self.row(what, "%.2f ms" % (mine * 1e3),
                 "%s %.2f ms" % (name, peer * 1e3), "**%.3f**" % ratio,
                 "at most %.4g" % bound if bound else "",
                 bound is None or ratio <= bound)


def beside_peers(table, runs, path, env, home):
    make = {"ipykernel": lambda: Ipykernel(home),
            "IPython": lambda: Embedded(home)}
    there = [name for name, module in (("ipykernel", KernelManager),
                                       ("IPython", IPython)) if module]
    for name in sorted(set(make) - set(there)):
        print("not installed, so not measured: " + name, file=sys.stderr)
    mine, plain, *others = bench.in_turn(
        runs, lambda: my_first_result(path, env),
        bench.plain_kernel_seconds,
        *[lambda n=n: first_result(make[n]) for n in there])
    table.times("create to first result", mine,
                "the same kernel without bwrap", plain, 1.6)
    for name, peer in zip(there, others):
        table.times("create to first result", mine, name, peer, None)
    mine, *others = bench.in_turn(
        runs, lambda: my_round_trip(path, env),
        *[lambda n=n: round_trip(make[n]) for n in there])
    for name, peer in zip(there, others):
        table.times("round trip of a cell", mine, name, peer,
                    1 / 20 if name == "ipykernel" else None)
    if "ipykernel" in there:
        mine, peer = bench.in_turn(runs, lambda: my_figure(path, env),
                                   lambda: ipykernel_figure(home))
        table.times("first figure, pandas and pyplot imported ahead", mine,
                    "ipykernel", peer, 1 / 4)


def alone(table, runs, path, env):
    mine, = bench.in_turn(runs, lambda: my_frame(path, env))
    table.row("1,000,000 x 10 frame as a result", "%.1f ms" % (mine * 1e3),
              "", "", "at most 20 ms", mine <= 0.020)
    size = frame_bytes()
    table.row("its event", "%.1f kB" % (size / 1e3), "", "", "at most 64 kB",
              size <= 64000)
    mine, peer = bench.in_turn(runs, lambda: my_stdout(path, env), cat_stdout)
    table.row("stdout, counted and dropped", "%.0f MB/s" % (mine / 1e6),
              "without a sandbox %.0f MB/s" % (peer / 1e6),
              "**%.2f**" % (mine / peer), "at least 200 MB/s", mine >= 200e6)
    mine, = bench.in_turn(runs, lambda: my_interrupt(path, env))
    table.row("interrupt of a Python loop", "%.1f ms" % (mine * 1e3), "", "",
              "at most 10 ms", mine <= 0.010)
    mine, peer = bench.in_turn(runs, lambda: my_kill(path, env),
                               plain_start)
    table.times("death of the interpreter to a new one", mine,
                "start of the same kernel without bwrap", peer, 1.6)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--idle", type=float, default=60)
    args = parser.parse_args()
    path = bench.driver_path()
    if path is None:
        raise SystemExit("there is no sandbox_driver; make bench builds it")
    home = tempfile.mkdtemp(prefix="sandpiper-bench-")
    os.chmod(home, 0o700)
    table = Table()
    try:
        env = bench.clean_env(home)
        make_spec(home)
        print("\n| what | median | beside it | ratio | bound |")
        print("| --- | --- | --- | --- | --- |", flush=True)
        beside_peers(table, args.runs, path, env, home)
        alone(table, args.runs, path, env)
        peaks = flood_peaks(home)
        table.row("memory of the client, whatever a cell prints",
                  "%.1f MB" % (max(peaks) / 1e6), "", "", "at most 32 MB",
                  max(peaks) <= 32e6)
        woken, n = idle_wake_ups(env, args.idle)
        table.row("wake-ups of %d processes in %g idle seconds" % (
            n, args.idle), str(woken), "", "", "none", woken == 0)
    finally:
        shutil.rmtree(home)
    return 0 if table.good else 1


if __name__ == "__main__":
    sys.exit(main())
