# SPDX-License-Identifier: GPL-3.0-or-later
"""Talks to sandbox_driver, which has opened a sandbox of some back end.

    class Sandbox(Session): ...      # what is special to a back end

        r = sb.cell("print(1)")
        r.stdout, r.stderr, r.outcome, r.outputs, r.notes, r.error, ...
        sb.script(["/bin/cat", "f"], {"f": "text"})  # as cell; exit, signal
        sb.list()                    # {name: file}, and sb.left_out
        sb.get("chart.png")          # (end, message, bytes)

The driver is SANDBOX_DRIVER, else tests/helpers/sandbox_driver in the build
tree. sb.events holds all that it said; nothing is waited for by sleeping.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402


def driver_path():
    if os.environ.get("SANDBOX_DRIVER"):
        return os.path.abspath(os.environ["SANDBOX_DRIVER"])
    build = os.environ.get("abs_top_builddir", ".")
    return os.path.abspath(os.path.join(build, "tests", "helpers",
                                        "sandbox_driver"))


def wait_until(ready, timeout, what, step=0.01):
    """Polls what gives no event (the process table); the true value."""
    deadline = time.monotonic() + timeout * tap.FACTOR
    while True:
        value = ready()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("%s: not within %g s" % (what, timeout))
        select.select([], [], [], step)


def peak_mib(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


class Cell:
    """What one run_cell gave."""

    def __init__(self):
        self.stdout = ""
        self.stderr = ""
        self.outputs = []
        self.notes = []
        self.end = None

    def __repr__(self):
        return "Cell(%s)" % json.dumps(self.__dict__, default=str)[:3000]

    @property
    def text(self):
        return self.stdout + self.stderr


class Session:
    """What is the same for every back end. close() is that of a class that
    derives from it, and says whether anything is left."""

    open_ones = []

    def __init__(self, options, env=None, prefix=(), timeout=30, pass_fds=()):
        """self.dir may have been made before; it is removed by release()."""
        self.timeout = timeout
        if not hasattr(self, "dir"):
            self.dir = tempfile.mkdtemp(prefix="sb-")
        self.events = []
        self.left_out = 0
        self._buffer = b""
        self._open_event = None
        full = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                "HOME": self.dir, "TMPDIR": self.dir}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                full[name] = os.environ[name]
        full.update(env or {})
        try:
            self.process = subprocess.Popen(
                list(prefix) + [driver_path()] + list(options),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=full,
                start_new_session=True, pass_fds=pass_fds)
        except OSError:
            shutil.rmtree(self.dir)
            raise
        Session.open_ones.append(self)
        os.set_blocking(self.process.stdout.fileno(), False)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def close(self):
        raise NotImplementedError

    def quit(self):
        """Asks the driver to end, and fails if it leaves anything."""
        self.request(op="quit")
        assert self.process.wait(60 * tap.FACTOR) == 0, self.events[-5:]

    def end_outside(self):
        """Ends the sandbox behind the driver's back."""
        raise NotImplementedError

    def release(self):
        """Ends the driver, if it still runs. False: it was done before."""
        if self not in Session.open_ones:
            return False
        Session.open_ones.remove(self)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it had ended before it was asked to
        self.process.stdout.close()
        return True

    # -- talking --

    def request(self, **fields):
        self.process.stdin.write(json.dumps(fields).encode() + b"\n")
        self.process.stdin.flush()

    def next_event(self, timeout):
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError("the driver is silent; last: %s"
                                     % self.events[-5:])
            if not select.select([self.process.stdout], [], [], left)[0]:
                continue
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise AssertionError("the driver ended with %s; last: %s" % (
                    self.process.wait(), self.events[-5:]))
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        event = json.loads(line.decode("utf-8"))
        self.events.append(event)
        if event["event"] == "open":
            self._open_event = event
        return event

    def wait(self, kind, timeout=None, **fields):
        """The next event of that kind."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            event = self.next_event(max(0.01, deadline - time.monotonic()))
            if event["event"] == kind and all(
                    event.get(k) == v for k, v in fields.items()):
                return event

    def opened(self):
        """Also where a test has cleared events since."""
        return self._open_event or self.wait("open")

    def start_cell(self, code, timeout_ms=None, silent=False, **more):
        fields = dict(more, op="cell", code=code, silent=silent)
        if timeout_ms is not None:
            fields["timeout_ms"] = timeout_ms
        self.request(**fields)

    def finish_cell(self, timeout=None):
        cell = Cell()
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            event = self.next_event(max(0.01, deadline - time.monotonic()))
            kind = event["event"]
            if kind == "bytes" and event["stream"] == "stdout":
                cell.stdout += event["text"]
            elif kind == "bytes":
                cell.stderr += event["text"]
            elif kind == "output":
                cell.outputs.append(event)
            elif kind == "note":
                cell.notes.append(event)
            elif kind in ("cell", "script"):
                cell.__dict__.update(event)
                return cell

    def cell(self, code, timeout_ms=None, timeout=None, silent=False, **more):
        self.start_cell(code, timeout_ms, silent, **more)
        return self.finish_cell(timeout)

    def start_script(self, argv, files=None, dir="job", **more):
        self.request(op="script", dir=dir, files=files or {}, argv=argv,
                     **more)

    def script(self, argv, files=None, timeout=None, **more):
        """A program in a directory of the workspace; as a cell, with exit and
        signal. Relative names of files lead from there."""
        self.start_script(argv, files, **more)
        return self.finish_cell(timeout)

    def python(self, code, *args, **more):
        """The same for a program in Python."""
        return self.script(["python3", "analyze.py", *args],
                           {"analyze.py": code}, **more)

    def interrupt(self):
        self.request(op="interrupt")

    # -- the interpreter itself --

    def info(self):
        self.request(op="info")
        return self.wait("info")

    def in_state(self, state, timeout=30):
        """Asks until the sandbox is in that state; its info then."""
        found = {}

        def there():
            found.update(self.info())
            return found["state"] == state
        wait_until(there, timeout, "the sandbox is %s" % state, step=0.05)
        return found

    def vars(self):
        self.request(op="vars")
        return self.wait("vars")

    def snapshot(self, path):
        self.request(op="snapshot", path=path)
        return self.wait("saved", name="snapshot")

    def restore(self, path):
        self.request(op="restore", path=path)
        return self.wait("saved", name="restore")

    def restart(self):
        self.request(op="restart")
        return self.wait("op", name="restart")

    def switch(self):
        self.request(op="switch")
        return self.wait("op", name="switch")

    def take_loss(self):
        self.request(op="take_loss")
        return self.wait("loss").get("text")

    # -- files --

    def list(self):
        self.request(op="list")
        event = self.wait("list")
        self.left_out = event.get("left_out", 0)
        return {f["name"]: f for f in event["files"]}

    def get(self, name, limit=50 << 20):
        path = os.path.join(self.dir, "got")
        self.request(op="get", name=name, path=path, limit=limit)
        event = self.wait("op", name="get")
        with open(path, "rb") as f:
            data = f.read()
        os.unlink(path)
        return event["end"], event.get("message") or "", data
