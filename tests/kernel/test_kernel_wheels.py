#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the kernel's tests with current packages, in the pinned versions of
the file `versions`.

They are installed once, into a virtual environment below WHEELS_CACHE
(default: wheels-cache in the directory where this is run, the build tree).
Where that cannot be done the test is skipped, with the reason. Prints TAP."""
import concurrent.futures
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402

VERSIONS = os.path.join(HERE, "versions")
PYTHON = "/usr/bin/python3"
# Wheels only: no foreign code runs to build one.
PIP = ["-m", "pip", "install", "--quiet", "--no-input", "--no-cache-dir",
       "--disable-pip-version-check", "--retries", "1", "--timeout", "20",
       "--only-binary=:all:", "--requirement", VERSIONS]
INSTALL_S = 180
PROGRAM_S = 250


def run_or_skip(command):
    """Runs a step of the installation; skips the test if it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=INSTALL_S,
                              env=dict(os.environ, PYTHONDONTWRITEBYTECODE=""))
    except (OSError, subprocess.TimeoutExpired) as exc:
        tap.skip_all("%s: %s" % (command[2], exc))
    if done.returncode != 0:
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] \
            or lines[-1:] or [""]
        tap.skip_all("%s: %s" % (command[2],
                                 errors[0].replace("#", "")[:200]))


def environment():
    """The interpreter of the virtual environment, made if it is missing. Its
    name tells versions and interpreter; it counts when it is complete."""
    with open(VERSIONS, "rb") as f:
        key = f.read()
    key += subprocess.check_output([PYTHON, "-VV"])
    cache = os.path.abspath(os.environ.get("WHEELS_CACHE", "wheels-cache"))
    place = os.path.join(cache, hashlib.sha256(key).hexdigest()[:16])
    python = os.path.join(place, "bin", "python3")
    complete = os.path.join(place, "complete")
    if not os.path.exists(complete):
        # What was left by one that was broken off, or of older versions.
        shutil.rmtree(cache, ignore_errors=True)
        os.makedirs(cache)
        run_or_skip([PYTHON, "-m", "venv", place])
        run_or_skip([python] + PIP)
        with open(complete, "w"):
            pass
    return python


def results(output):
    """(ok, name) of the lines of TAP; comments are passed on."""
    for line in output.splitlines():
        found = re.match(r"(not )?ok\b[ \t]*\d*[ \t]*(?:- )?(.*)", line)
        if found:
            yield found.group(1) is None, found.group(2)
        elif not line.startswith("1.."):
            print(line if line.startswith("#") else "# " + line)


def run_program(path, python):
    """Results of one test program with this interpreter for the cells."""
    name = os.path.basename(path)
    own = name == "test_load_snippet.py"
    done = subprocess.run(
        [python if own else sys.executable, path], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, timeout=PROGRAM_S * tap.FACTOR,
        env=dict(os.environ, KERNEL_PYTHON=python))
    found = [(ok, "%s %s" % (name[:-3], text)) for ok, text in
             results(done.stdout.decode("utf-8", "replace"))]
    if done.returncode not in (0, 77) and all(ok for ok, _ in found):
        found.append((False, "%s ends with %d" % (name, done.returncode)))
    return found


def main():
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has no part in it")
    python = environment()
    paths = sorted(glob.glob(os.path.join(HERE, "test_*.py")))
    paths.remove(os.path.abspath(__file__))
    n = n_failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as two:
        for found in two.map(lambda path: run_program(path, python), paths):
            for ok, name in found:
                n += 1
                n_failed += not ok
                print("%sok %d - %s" % ("" if ok else "not ", n, name),
                      flush=True)
    print("1..%d" % n)
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
