#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the program beside its peers and prints one table.

    bench.py [--runs N]

Everything is measured in turn (program, peer, program, peer ...), so that a
machine whose speed drifts does not favour one of them; the ratio is that of
the medians. Run in the build tree. SANDPIPER names the program, else
./sandpiper is taken.
"""

import argparse
import json
import os
import pty
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "fakes"))
from claude_server import ClaudeServer, reply, tool_use  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("SANDPIPER", "./sandpiper"))
KERNEL = os.path.abspath("generated/local_kernel.py")
PYTHON = "/usr/bin/python3"
CELL = ("import pandas as pd\n"
        "t = pd.DataFrame({'a': range(1000), 'b': range(1000)})\n"
        "print(t.groupby(t.a % 7)['b'].sum().to_string())\n")

# Escape sequences: CSI, and strings up to ST.
SEQUENCE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[_P\]].*?\x1b\\")


def clean_env(home, **more):
    env = {"PATH": "/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8",
           "TERM": "xterm-256color", "INPUTRC": "/dev/null"}
    env.update(more)
    return env


def run_seconds(argv, env, stdin=subprocess.DEVNULL):
    start = time.perf_counter()
    done = subprocess.run(argv, env=env, stdin=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    took = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit("%r: status %d\n%s" % (
            argv, done.returncode, done.stderr.decode(errors="replace")))
    return took


def prompt_seconds(env):
    """From the start to the prompt on a terminal; then it is told to quit."""
    start = time.perf_counter()
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(PROGRAM, [PROGRAM], env)
    seen = b""
    took = None
    deadline = start + 20
    while time.perf_counter() < deadline:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
        if took is None and b"\n> " in SEQUENCE.sub(b"", seen):
            took = time.perf_counter() - start
            os.write(fd, b":quit\r")
    os.close(fd)
    os.waitpid(pid, 0)
    if took is None:
        raise SystemExit("no prompt in %r" % seen)
    return took


def peak_kib(pid):
    try:
        with open("/proc/%d/status" % pid) as f:
            for line in f:
                if line.startswith("VmHWM"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def question_run(env):
    """One scripted question with one cell: seconds and the client's peak."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen([PROGRAM, "-c", "sum it"], env=env,
                                 stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=errors)
        peak = 0
        while child.poll() is None:
            peak = max(peak, peak_kib(child.pid))
            time.sleep(0.002)
        took = time.perf_counter() - start
        errors.seek(0)
        if child.returncode != 0:
            raise SystemExit("question: status %d\n%s" % (
                child.returncode, errors.read().decode(errors="replace")))
    return took, peak


class PlainKernel:
    """The kernel of the sandbox without a sandbox, on pipes of its own."""

    def __init__(self):
        request_r, self.requests = os.pipe()
        self.events, event_w = os.pipe()
        self.seen = b""
        self.n_cells = 0

        def place():
            os.dup2(request_r, 203)
            os.dup2(event_w, 204)
            os.dup2(203, 3)
            os.dup2(204, 4)

        self.child = subprocess.Popen(
            [PYTHON, "-I", KERNEL], preexec_fn=place, pass_fds=(3, 4),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(request_r)
        os.close(event_w)
        self.send({"op": "init", "v": 1, "nonce": "0123456789abcdef",
                   "limits": {}, "preload": []})

    def __enter__(self):
        return self

    def __exit__(self, *_why):
        os.close(self.requests)
        self.child.wait()
        os.close(self.events)

    def send(self, *requests):
        os.write(self.requests,
                 "".join(json.dumps(r) + "\n" for r in requests).encode())

    def wait(self, text):
        """Reads up to an event that holds text; the lines up to it."""
        while text not in self.seen:
            data = os.read(self.events, 65536)
            if not data:
                raise SystemExit("the plain kernel ended: %r" % self.seen)
            self.seen += data
        lines = self.seen.split(b"\n")
        self.seen = b""
        return lines

    def run(self, code):
        self.n_cells += 1
        self.send({"op": "exec", "id": self.n_cells, "code": code,
                   "cell": self.n_cells})
        return self.wait(b'"done"')


def plain_kernel_seconds():
    """The same kernel without a sandbox: start to the end of a first cell."""
    start = time.perf_counter()
    with PlainKernel() as kernel:
        kernel.run("1+1")
        return time.perf_counter() - start


def driver_path():
    for path in (os.environ.get("SANDBOX_DRIVER", ""),
                 "./tests/helpers/sandbox_driver", "./sandbox_driver"):
        if path and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return None


def sandbox_seconds(driver, env):
    """Creating the sandbox to the end of the first cell, as the driver's whole
    process sees it, up to its line about the end of the cell."""
    start = time.perf_counter()
    child = subprocess.Popen([driver, "1+1"], env=env,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
    took = None
    for line in child.stdout:
        if took is None and b'"done"' in line:
            took = time.perf_counter() - start
    child.stdout.close()
    child.wait()
    if took is None:
        raise SystemExit("the driver told of no cell")
    return took


def in_turn(runs, *functions):
    """Medians of functions that are called in turn, after one warm-up."""
    values = [[] for _ in functions]
    for i in range(runs + 1):
        for j, function in enumerate(functions):
            value = function()
            if i > 0:
                values[j].append(value)
    return [statistics.median(v) for v in values]


def row(what, mine, peer_name, peer, bound):
    ratio = mine / peer
    print("| %s | %.1f ms | %s %.1f ms | **%.2f** | %s |" % (
        what, mine * 1e3, peer_name, peer * 1e3, ratio,
        "%.1f" % bound if bound else ""))
    return bound is None or ratio <= bound


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    args = parser.parse_args()
    home = tempfile.mkdtemp(prefix="sandpiper-bench-")
    os.chmod(home, 0o700)
    good = True
    try:
        env = clean_env(home)
        curl = shutil.which("curl")
        print("| what | median | beside it | ratio | at most |")
        print("| --- | --- | --- | --- | --- |")
        if curl:
            mine, prompt, peer = in_turn(
                args.runs,
                lambda: run_seconds([PROGRAM, "--version"], env),
                lambda: prompt_seconds(env),
                lambda: run_seconds([curl, "--version"], env))
            good &= row("`--version`", mine, "`curl --version`", peer, 1.4)
            good &= row("start to prompt", prompt, "`curl --version`", peer,
                        2.0)
        driver = driver_path()
        if driver:
            mine, peer = in_turn(args.runs,
                                 lambda: sandbox_seconds(driver, env),
                                 plain_kernel_seconds)
            good &= row("create to first cell", mine,
                        "the same kernel without bwrap", peer, 1.6)
        script = [reply([tool_use("run_python", {"code": CELL})]),
                  reply(["Done."])]
        with ClaudeServer(script, repeat=True) as server:
            asked = clean_env(home, ANTHROPIC_API_KEY="sk-bench-0123456789",
                              ANTHROPIC_BASE_URL=server.url)
            peaks = []

            def ask():
                took, peak = question_run(asked)
                peaks.append(peak)
                return took

            mine, peer = in_turn(
                args.runs, ask,
                lambda: run_seconds([PYTHON, "-c", CELL], env))
            good &= row("one question with one pandas cell", mine,
                        "`python3 -c` of that cell", peer, 1.5)
            kib = statistics.median(peaks)
            print("| memory of the client, that question | %.1f MB | | | "
                  "20 MB |" % (kib * 1024 / 1e6))
            good &= kib * 1024 <= 20e6
    finally:
        shutil.rmtree(home)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
