#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the program beside its peers and prints one table.

    bench.py [--runs N]

Everything is measured in turn (program, peer, program, peer ...), so that a
machine whose speed drifts does not favour one of them; the ratio is that of
the medians. SANDPIPER names the program, else ./sandpiper is taken.
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
KERNEL = os.path.join(HERE, "..", "..", "src", "sandbox", "local_kernel.py")
TOOLS = os.path.join(HERE, "..", "..", "src", "sandbox",
                     "local_kernel_tools.py")
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
    child = subprocess.Popen([PROGRAM, "-c", "sum it"], env=env,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    peak = 0
    poller = select.poll()
    poller.register(child.stdout, select.POLLIN)
    while child.poll() is None:
        peak = max(peak, peak_kib(child.pid))
        time.sleep(0.002)
    took = time.perf_counter() - start
    errors = child.stderr.read()
    child.stdout.close()
    child.stderr.close()
    if child.returncode != 0:
        raise SystemExit("question: status %d\n%s" % (
            child.returncode, errors.decode(errors="replace")))
    return took, peak


def joined_kernel(path):
    with open(TOOLS) as f:
        second = f.read()
    with open(KERNEL) as f:
        first = f.read()
    with open(path, "w") as f:
        f.write("SECOND_HALF = r'''" + second + "'''\n" + first)


def plain_kernel_seconds(path):
    """The same kernel without a sandbox: start to the end of a first cell."""
    request_r, request_w = os.pipe()
    event_r, event_w = os.pipe()
    start = time.perf_counter()

    def place():
        os.dup2(request_r, 203)
        os.dup2(event_w, 204)
        os.dup2(203, 3)
        os.dup2(204, 4)

    child = subprocess.Popen([PYTHON, "-I", path], preexec_fn=place,
                             pass_fds=(3, 4), stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    os.close(request_r)
    os.close(event_w)
    os.write(request_w, (json.dumps(
        {"op": "init", "v": 1, "nonce": "0123456789abcdef", "limits": {},
         "preload": []}) + "\n" + json.dumps(
        {"op": "exec", "id": 1, "code": "1+1", "cell": 1}) +
        '\n{"op":"go","id":1}\n').encode())
    seen = b""
    while b'"done"' not in seen:
        data = os.read(event_r, 65536)
        if not data:
            raise SystemExit("the plain kernel ended: %r" % seen)
        seen += data
    took = time.perf_counter() - start
    os.close(request_w)
    child.wait()
    os.close(event_r)
    return took


def driver_path():
    for path in (os.environ.get("SANDBOX_DRIVER", ""),
                 "./tests/helpers/sandbox_driver", "./sandbox_driver"):
        if path and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return None


def sandbox_seconds(driver, env):
    return run_until(driver, env)


def run_until(driver, env):
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
            blob = os.path.join(home, "kernel.py")
            joined_kernel(blob)
            mine, peer = in_turn(args.runs,
                                 lambda: sandbox_seconds(driver, env),
                                 lambda: plain_kernel_seconds(blob))
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
