# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for the interpreter's kernel, to answer whatever a test wants.

install(directory) makes a virtual environment whose Python runs main() below
instead of the program it is given. A cell's code is executed here; what it
defines as answer(request) is called for every request that is no cell, and
send(event) writes an event. Uses the standard library only."""

import json
import os
import signal
import sys

# That of the sandbox; its directory of packages is called like the program.
PYTHON = "/usr/bin/python3"


def install(directory):
    """Returns the path of an interpreter for the option python=."""
    real = os.path.realpath(PYTHON)
    site = os.path.join(directory, "venv", "lib", os.path.basename(real),
                        "site-packages")
    bin_dir = os.path.join(directory, "venv", "bin")
    os.makedirs(site)
    os.makedirs(bin_dir)
    python = os.path.join(bin_dir, "python3")
    os.symlink(real, python)
    with open(os.path.join(directory, "venv", "pyvenv.cfg"), "w") as f:
        f.write("home = %s\n" % os.path.dirname(real))
    with open(__file__) as f:
        source = f.read()
    with open(os.path.join(site, "fake_kernel.py"), "w") as f:
        f.write(source)
    with open(os.path.join(site, "fake.pth"), "w") as f:
        f.write("import fake_kernel; fake_kernel.main()\n")
    for root, _, names in os.walk(os.path.join(directory, "venv")):
        os.chmod(root, 0o755)
        for name in names:
            if not os.path.islink(os.path.join(root, name)):
                os.chmod(os.path.join(root, name), 0o644)
    return python


class Now:
    may_raise = False


def send(event, fd=4):
    """Whole, whatever signals arrive: the next one interrupts."""
    may_raise, Now.may_raise = Now.may_raise, False
    data = event if isinstance(event, bytes) else \
        json.dumps(event).encode() + b"\n"
    while data:
        data = data[os.write(fd, data):]
    Now.may_raise = may_raise


def on_sigint(_signum, _frame):
    if Now.may_raise:
        Now.may_raise = False
        raise KeyboardInterrupt


def interruptible(function, *args):
    """Whether it ran to its end."""
    try:
        Now.may_raise = True
        function(*args)
        Now.may_raise = False
    except KeyboardInterrupt:
        return False
    return True


def main():
    # Only as the interpreter of cells, and not again in its children.
    if "kernel.py" not in " ".join(sys.orig_argv) or \
            os.environ.get("FAKE_KERNEL"):
        return
    os.environ["FAKE_KERNEL"] = "1"
    signal.signal(signal.SIGINT, on_sigint)
    space = {"send": send, "os": os, "json": json,
             "answer": lambda request: None}
    send({"ev": "ready", "v": [1], "python": "3.0", "modules": {}})
    rest = b""
    while True:
        data = os.read(3, 65536)
        if not data:
            os._exit(0)
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            handle(json.loads(line), space)


def handle(request, space):
    op, number = request.get("op"), request.get("id")
    if op == "ping":
        send({"ev": "pong", "id": number})
    elif op == "exec":
        send({"ev": "begin", "id": number})
        space["id"] = number
        ran = interruptible(exec, request["code"], space)
        send({"ev": "done", "id": number,
              "status": "ok" if ran else "interrupted"})
    elif op in ("vars", "snapshot", "restore"):
        if not interruptible(space["answer"], request):
            send({"ev": op, "id": number, "error": "interrupted"})
