# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives the sandbox's kernel over its pipes, without a sandbox.

KERNEL names another kernel file, KERNEL_PYTHON another interpreter: the tests
hold for the oldest libraries that are supported and for current ones."""
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL = os.environ.get("KERNEL") or os.path.join(
    HERE, "..", "..", "src", "sandbox", "local_kernel.py")
PYTHON = os.environ.get("KERNEL_PYTHON") or "/usr/bin/python3"
NONCE = "0123456789abcdef"
TABLE = "application/x-table.v1+json"
PATIENCE = float(os.environ.get("KERNEL_PATIENCE", "60"))


class Kernel:
    """One kernel process, its pipes, and what came out of them."""

    def __init__(self, init=True, tickets=False, **fields):
        limits = fields.pop("preexec", None)
        self.tickets = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) \
            if tickets else ()
        self.home = tempfile.TemporaryDirectory()
        pipes = [os.pipe() for _ in range(4)]
        (out_r, out_w), (err_r, err_w), (req_r, req_w), (ev_r, ev_w) = pipes

        def child():
            os.setpgid(0, 0)
            # Out of the way first: a pipe may itself be descriptor 3 or 4.
            ends = [os.dup2(fd, 100 + i) for i, fd in enumerate(
                (out_w, err_w, req_r, ev_w) + self.tickets[:1])]
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            for target, fd in enumerate(ends, 1):
                os.dup2(fd, target, inheritable=True)
            os.closerange(1 + len(ends), 200)
            if limits:
                limits()
        env = {"PATH": "/usr/bin:/bin", "HOME": self.home.name,
               "LANG": "C.UTF-8", "MPLCONFIGDIR": os.path.join(
                   tempfile.gettempdir(), "kernel-mpl-%d" % os.getuid())}
        self.process = subprocess.Popen(
            [PYTHON, "-I", KERNEL], preexec_fn=child, close_fds=False,
            env=env, cwd=self.home.name)
        for fd in (out_w, err_w, req_r, ev_w):
            os.close(fd)
        self.requests = req_w
        self.readers = {out_r: "out", err_r: "err", ev_r: "ev"}
        self.bytes = {"out": b"", "err": b"", "ev": b""}
        self.events = []
        self.begun = []
        self.id = 0
        if tickets:
            fields["ticket"] = 5
        if init:
            fields.setdefault("v", 1)
            fields.setdefault("nonce", NONCE)
            self.send(op="init", **fields)
        self.ready = self.wait("ready")

    def send(self, **request):
        os.write(self.requests, (json.dumps(request) + "\n").encode())

    def pump(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise AssertionError("timeout; events %r, out %r, err %r" % (
                self.events[-5:], self.bytes["out"][-2000:],
                self.bytes["err"][-2000:]))
        for fd in select.select(list(self.readers), [], [], left)[0]:
            data = os.read(fd, 1 << 20)
            name = self.readers[fd]
            self.bytes[name] += data
            if not data:
                del self.readers[fd]
                os.close(fd)
                if name == "ev":
                    raise EOFError("the kernel ended")
        while b"\n" in self.bytes["ev"]:
            line, self.bytes["ev"] = self.bytes["ev"].split(b"\n", 1)
            event = json.loads(line.decode("ascii"), parse_constant=None)
            event["line"] = line
            if event["ev"] == "begin":
                self.begun.append(event["id"])
            else:
                self.events.append(event)

    def wait(self, name, request_id=None, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while True:
            for event in self.events:
                if event["ev"] == name and request_id in (None,
                                                          event.get("id")):
                    return event
            self.pump(deadline)

    def wait_for(self, stream, text, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while text not in self.bytes[stream]:
            self.pump(deadline)

    def start(self, code, ticket=True, **fields):
        self.id += 1
        self.bytes["out"] = self.bytes["err"] = b""
        self.events = []
        if self.tickets and ticket:
            os.write(self.tickets[1], self.id.to_bytes(8, sys.byteorder))
        self.send(op="exec", id=self.id, code=code, **fields)
        return self.id

    def finish(self, patience=PATIENCE):
        """done of the running cell, with the output pipes read up to it."""
        done = self.wait("done", self.id, patience)
        for stream in ("out", "err"):
            self.wait_for(stream, mark(done["m"]), patience)
        return done

    def run(self, code, **fields):
        self.start(code, **fields)
        return self.finish()

    def ask(self, op, **fields):
        """The answer to a request that is no cell."""
        self.ask_only(op, **fields)
        return self.wait("pong" if op == "ping" else op, self.id)

    def ask_only(self, op, **fields):
        self.id += 1
        self.bytes["out"] = self.bytes["err"] = b""
        self.events = []
        self.send(op=op, id=self.id, **fields)

    def text(self, stream="out"):
        """Output without marks."""
        data = self.bytes[stream]
        for event in self.events:
            if "m" in event:
                data = data.replace(mark(event["m"]), b"")
        return data.decode()

    def of(self, name):
        return [e for e in self.events if e["ev"] == name]

    def result(self, code, **fields):
        done = self.run(code, **fields)
        results = self.of("result")
        if done["status"] != "ok" or len(results) != 1:
            raise AssertionError("%r -> %r" % (code, self.events))
        return results[0]

    def table(self, code):
        return self.result(code)["data"][TABLE]

    def close(self):
        if self.requests is not None:
            os.close(self.requests)
            self.requests = None
        if self.process.poll() is None:
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for fd in [*self.readers, *self.tickets]:
            os.close(fd)
        self.tickets = ()
        self.readers = {}
        self.home.cleanup()


def mark(number):
    return b"\0\x1e%s:%d\x1e\0" % (NONCE.encode(), number)


def find_modules(*names):
    """{name: whether the interpreter of the cells has it}."""
    ask = ("import importlib.util, json, sys\n"
           "print(json.dumps({n: importlib.util.find_spec(n) is not None"
           " for n in sys.argv[1:]}))")
    return json.loads(subprocess.check_output(
        [PYTHON, "-I", "-c", ask] + list(names)))


HAS = find_modules("pandas", "matplotlib", "PIL", "polars", "pyarrow",
                   "IPython", "numpy", "seaborn", "plotly", "cloudpickle",
                   "scipy")


def needs(name):
    return unittest.skipUnless(HAS[name], name + " is not installed")


class Shared(unittest.TestCase):
    """Tests of one class share a kernel, restarted when a test ended it."""

    fields = {}
    kernel = None

    def setUp(self):
        cls = type(self)
        if cls.kernel is not None and cls.kernel.process.poll() is not None:
            cls.kernel.close()
            cls.kernel = None
        if cls.kernel is None:
            cls.kernel = Kernel(**self.fields)
        self.k = cls.kernel

    @classmethod
    def tearDownClass(cls):
        if cls.kernel is not None:
            cls.kernel.close()
            cls.kernel = None

    def plain(self, code):
        return self.k.result(code)["data"]["text/plain"]

    def error(self, code):
        done = self.k.run(code)
        self.assertEqual(done["status"], "error", done)
        return done["error"]


class TapResult(unittest.TestResult):
    """One TAP line a test."""

    def __init__(self):
        super().__init__()
        self.n = 0

    def line(self, word, test, more=""):
        self.n += 1
        print("%s %d - %s%s" % (word, self.n, test.id().partition(".")[2],
                                more), flush=True)

    def failed(self, test, err):
        for text in self._exc_info_to_string(err, test).splitlines():
            print("# " + text)
        self.line("not ok", test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line("ok", test, " # SKIP " + reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        if hasattr(test, "_testMethodName"):
            self.failed(test, err)
        else:
            print("Bail out! %s" % err[1])


def main():
    """Runs the tests of the main module and prints TAP."""
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        print("1..0 # SKIP the program has no part in it")
        sys.exit(0)
    loader = unittest.defaultTestLoader
    names = sys.argv[1:]
    module = sys.modules["__main__"]
    suite = loader.loadTestsFromNames(names, module) if names \
        else loader.loadTestsFromModule(module)
    print("1..%d" % suite.countTestCases(), flush=True)
    result = TapResult()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)
