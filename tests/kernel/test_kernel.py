#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives the sandbox's kernel over its four pipes, without a sandbox.

Prints TAP. KERNEL names another kernel file, KERNEL_PYTHON another
interpreter (the table tests hold for pandas 1.5 and 3)."""
import base64
import json
import os
import resource
import select
import signal
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

    def __init__(self, init=True, **fields):
        limits = fields.pop("preexec", None)
        self.home = tempfile.TemporaryDirectory()
        pipes = [os.pipe() for _ in range(4)]
        (out_r, out_w), (err_r, err_w), (req_r, req_w), (ev_r, ev_w) = pipes

        def child():
            os.setpgid(0, 0)
            # Out of the way first: a pipe may itself be descriptor 3 or 4.
            ends = [os.dup2(fd, 100 + i) for i, fd in
                    enumerate((out_w, err_w, req_r, ev_w))]
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            for target, fd in enumerate(ends, 1):
                os.dup2(fd, target, inheritable=True)
            os.closerange(5, 200)
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
        self.obliging = True
        self.id = 0
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
                if self.obliging:
                    self.send(op="go", id=event["id"])
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

    def start(self, code, **fields):
        self.id += 1
        self.bytes["out"] = self.bytes["err"] = b""
        self.events = []
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
        for fd in self.readers:
            os.close(fd)
        self.readers = {}
        self.home.cleanup()


def mark(number):
    return b"\0\x1e%s:%d\x1e\0" % (NONCE.encode(), number)


def has(module):
    return subprocess.call([PYTHON, "-c", "import " + module],
                           stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL) == 0


HAS = {name: has(name) for name in ("pandas", "matplotlib", "PIL", "polars",
                                    "pyarrow", "IPython", "numpy")}


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


class Protocol(Shared):

    def test_ready_names_versions(self):
        self.assertEqual(self.k.ready["v"], [1])
        self.assertIn("pandas", self.k.ready["modules"])
        self.assertEqual(bool(self.k.ready["modules"]["pandas"]),
                         HAS["pandas"])

    def test_result_of_last_expression(self):
        for code, text in (("1+1", "2"), ("x = 5\nx", "5"), ("'a'", "'a'"),
                           ("(1,\n 2)", "(1, 2)"), ("7 # ;", "7")):
            self.assertEqual(self.plain(code), text)

    def test_no_result_shown(self):
        for code in ("x = 1", "1;", "(1)  ;  # c", "None", "", "# c",
                     "if 1:\n  3"):
            self.assertEqual(self.k.run(code)["status"], "ok")
            self.assertEqual(self.k.of("result"), [], code)

    def test_state_and_underscore(self):
        self.k.run("a = 40")
        self.assertEqual(self.plain("a + 2"), "42")
        self.assertEqual(self.plain("_ * 2"), "84")
        self.k.run("5", silent=True)
        self.assertEqual(self.k.of("result"), [])
        self.assertEqual(self.plain("_"), "84")

    def test_cell_numbers_and_index(self):
        self.k.run("display(1, 2)\n3", cell=17)
        self.assertEqual([(e["ev"], e["i"], e["n"]) for e in
                          self.k.events if e["ev"] != "done"],
                         [("display", 0, 17), ("display", 1, 17),
                          ("result", 2, 17)])
        self.k.run("1/0", cell=17)
        self.assertIn('"<cell 17>", line 1', self.k.events[-1]["error"]
                      ["traceback"])
        self.assertEqual(self.k.run("1")["n"], 18)

    def test_marks_keep_the_order(self):
        code = ("import os\nfor i in range(100):\n    print('a', i)\n"
                "    display(i)\n    os.system('echo b')\n")
        self.k.run(code)
        data = self.k.bytes["out"]
        for i, event in enumerate(self.k.of("display")):
            before, data = data.split(mark(event["m"]), 1)
            want = ("b\n" if i else "") + "a %d\n" % i
            self.assertEqual(before.decode(), want)

    def test_done_comes_after_output_of_a_silent_cell(self):
        done = self.k.run("print('x', end='')", silent=True)
        self.assertEqual(self.k.bytes["out"], b"x" + mark(done["m"]))
        self.assertEqual(self.k.bytes["err"], mark(done["m"]))

    def test_unknown_and_broken_requests_are_ignored(self):
        os.write(self.k.requests, b"\n[]\nnull\n{\n\xff\n{\"op\":\"vars\","
                 b"\"id\":1}\n{\"op\":[]}\n{\"op\":\"exec\",\"op\":1}\n")
        self.assertEqual(self.plain("1"), "1")

    def test_lines_are_ascii_and_text_is_last(self):
        event = self.k.result("'\\u00e9\\U0001f600\\ud800\\0'")
        self.assertTrue(event["line"].isascii())
        self.assertEqual(list(event["data"])[-1], "text/plain")

    def test_done_fields(self):
        done = self.k.run("pass")
        self.assertGreater(done["mem"], 5 << 20)
        self.assertLess(done["mem"], 1 << 33)
        self.assertGreaterEqual(done["ms"], 0)
        self.assertNotIn("error", done)

    def test_main_module_of_cells(self):
        self.assertEqual(self.plain("q = 9\nimport __main__\n"
                                    "__name__, __main__.q"),
                         "('__main__', 9)")


class Alone(unittest.TestCase):
    """Kernels that end, or are started in a special way."""

    def kernel(self, **fields):
        kernel = Kernel(**fields)
        self.addCleanup(kernel.close)
        return kernel

    def ends(self, kernel):
        with self.assertRaises(EOFError):
            while True:
                kernel.pump(time.monotonic() + PATIENCE)
        return kernel.process.wait(10)

    def test_exit_request(self):
        k = self.kernel()
        k.send(op="exit")
        self.assertEqual(self.ends(k), 0)

    def test_end_of_requests_while_idle_and_running(self):
        for code in ("", "print('on')\nwhile True: pass",
                     "print('on')\nimport time; time.sleep(1000)"):
            k = self.kernel()
            if code:
                k.start(code)
                k.wait_for("out", b"on\n")
            os.close(k.requests)
            k.requests = None
            self.assertEqual(self.ends(k), 0)

    def test_wrong_version_is_fatal(self):
        k = self.kernel(v=2)
        self.assertIn("version", k.wait("fatal")["text"])
        self.assertEqual(self.ends(k), 1)

    def test_process_limit(self):
        k = self.kernel(limits={"nproc": 77})
        self.assertEqual(k.result(
            "import resource\nresource.getrlimit(resource.RLIMIT_NPROC)")
            ["data"]["text/plain"], "(77, 77)")

    def test_not_dumpable_where_core_limit_is_zero(self):
        def no_core():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ask = "import ctypes\nctypes.CDLL(None).prctl(3, 0, 0, 0, 0)"
        k = self.kernel(preexec=no_core)
        self.assertEqual(k.result(ask)["data"]["text/plain"], "0")

    def test_oom_score(self):
        k = self.kernel()
        self.assertEqual(k.result(
            "open('/proc/self/oom_score_adj').read().strip()")
            ["data"]["text/plain"], "'1000'")

    def test_closed_output_descriptors(self):
        k = self.kernel()
        k.run("import os\nfor fd in (0, 1, 2): os.close(fd)\nprint('lost')")
        k.run("print('back')\nimport os\nos.system('echo child')\n"
              "print(repr(sys.stdin.read()) if 'sys' in globals() else '')")
        self.assertIn("back\nchild\n", k.text())

    def test_replaced_streams(self):
        k = self.kernel()
        k.run("import sys, io\nsys.stdout = io.StringIO()\nprint('no')")
        k.run("print('yes')")
        self.assertEqual(k.text(), "yes\n")
        k.run("import sys\nsys.stdout.close()")
        k.run("print('again')")
        self.assertEqual(k.text(), "again\n")

    def test_replaced_builtins(self):
        k = self.kernel()
        if tuple(map(int, k.ready["python"].split(".")[:2])) < (3, 10):
            self.skipTest("older Pythons share the builtins of the caller")
        k.run("import builtins\nold = builtins.len, builtins.isinstance\n"
              "builtins.len = builtins.isinstance = None")
        self.assertEqual(k.result("6*7")["data"]["text/plain"], "42")

    def test_forked_child_is_not_the_kernel(self):
        k = self.kernel()
        k.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n"
              "else: display('child')\nprint('x')")
        self.assertEqual(k.of("display"), [])
        self.assertEqual(k.result("1")["data"]["text/plain"], "1")

    def test_limits_of_events(self):
        k = self.kernel(limits={"events": 50, "text": 1000})
        k.run("for i in range(100000): display(i)")
        self.assertLessEqual(len(k.events), 50)
        self.assertEqual([e["kind"] for e in k.of("note")], ["limit"])
        text = k.result("'x' * 100000")["data"]["text/plain"]
        self.assertLessEqual(len(text), 1000)
        self.assertIn("left out", text)

    @needs("pandas")
    def test_preload(self):
        names = ["no_such_module", "matplotlib.pyplot", "pandas"]
        k = self.kernel(preload=names, tty=True)
        ask = "import sys\n'pandas' in sys.modules"
        # A request goes first; whatever is loaded then, the answer comes.
        k.result("1")
        deadline = time.monotonic() + PATIENCE
        while k.result(ask)["data"]["text/plain"] != "True":
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(k.text() + k.text("err"), "")

    def test_start_time(self):
        def best(command, end):
            times = []
            for _ in range(7):
                start = time.perf_counter()
                end(command)
                times.append(time.perf_counter() - start)
            return min(times)

        def until_ready(_command):
            kernels.append(Kernel())

        def bare_python(command):
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            process.stdout.read(1)
            bare_ones.append(process)
        kernels = []
        bare_ones = []
        bare = best([PYTHON, "-I", "-c", "print(flush=True)"], bare_python)
        ours = best(None, until_ready)
        for process in bare_ones:
            process.communicate()
        for kernel in kernels:
            kernel.close()
        print("# bare %.1f ms, kernel %.1f ms" % (bare * 1e3, ours * 1e3))
        self.assertLess(ours, 4 * bare + 0.2)


class Interrupts(Shared):

    def interrupt(self, code, wait=b"on\n"):
        self.k.start("print('on')\n" + code)
        self.k.wait_for("out", wait)
        start = time.monotonic()
        os.killpg(self.k.process.pid, signal.SIGINT)
        done = self.k.finish()
        self.assertEqual(done["status"], "interrupted")
        return time.monotonic() - start

    def test_variables_are_kept(self):
        self.k.run("x = 1")
        for code in ("while True: pass", "import time; time.sleep(1000)",
                     "import os; os.system('sleep 1000')", "!sleep 1000",
                     "import asyncio\nawait asyncio.sleep(1000)",
                     "import re; re.match('(a+)+b', 'a' * 40)",
                     "class A:\n  def __repr__(self):\n    while 1: pass\n"
                     "A()",
                     "class E(Exception):\n  def __str__(self):\n"
                     "    while 1: pass\nraise E"):
            self.assertLess(self.interrupt(code), 5, code)
            self.assertEqual(self.plain("x"), "1")

    def test_swallowed_once(self):
        self.k.start("import time\ntry:\n    print('on')\n"
                     "    time.sleep(1000)\n"
                     "except BaseException: print('two')\nwhile True: pass")
        self.k.wait_for("out", b"on\n")
        os.killpg(self.k.process.pid, signal.SIGINT)
        self.k.wait_for("out", b"two\n")
        os.killpg(self.k.process.pid, signal.SIGINT)
        self.assertEqual(self.k.finish()["status"], "interrupted")

    def test_an_import_that_is_broken_off(self):
        """The next import is a whole one, with the parts that were done."""
        self.k.run("import os, sys\nos.makedirs('half/deep', exist_ok=True)\n"
                   "for name, text in (\n"
                   "    ('half/__init__.py',\n"
                   "     'import half.part, half.deep.er, os, time\\n'\n"
                   "     'if not os.path.exists(\"go\"):\\n'\n"
                   "     '    print(\"half\", flush=True)\\n'\n"
                   "     '    time.sleep(1000)\\n'),\n"
                   "    ('half/part.py', 'x = 7\\n'),\n"
                   "    ('half/deep/__init__.py', ''),\n"
                   "    ('half/deep/er.py', 'y = 8\\n')):\n"
                   "    open(name, 'w').write(text)\n"
                   "sys.path.insert(0, os.getcwd())")
        self.interrupt("import half", b"half\n")
        self.k.run("open('go', 'w').close()")
        self.assertEqual(self.plain(
            "import half\nhalf.part.x, half.deep.er.y"), "(7, 8)")

    def test_idle_interrupts_are_ignored(self):
        for i in range(100):
            os.killpg(self.k.process.pid, signal.SIGINT)
            self.assertEqual(self.plain(str(i)), str(i))

    def answer(self, op, request_id):
        """Byte for byte as the client writes it."""
        os.write(self.k.requests,
                 b'{"op":"%s","id":%d}\n' % (op.encode(), request_id))

    def ask_first(self):
        self.k.obliging = False
        self.addCleanup(setattr, self.k, "obliging", True)

    def wait_for_begin(self):
        deadline = time.monotonic() + PATIENCE
        while self.k.id not in self.k.begun:
            self.k.pump(deadline)

    def test_a_late_interrupt_is_not_for_the_next_cell(self):
        # As when the thread that looks after signals comes to it late.
        late = ("import os, signal\n"
                "fd = signal.set_wakeup_fd(-1)\n"
                "signal.set_wakeup_fd(fd, warn_on_full_buffer=False)\n"
                "os.write(fd, bytes([signal.SIGINT]))\n")
        for _ in range(3):
            self.k.run(late)
            done = self.k.run("import time\ntime.sleep(0.2)\nprint('whole')")
            self.assertEqual(done["status"], "ok", done)
            self.assertEqual(self.k.text(), "whole\n")

    def test_a_closed_pipe_of_signals_costs_nothing(self):
        self.k.run("import os, signal, sys, time\n"
                   "os.close(signal.set_wakeup_fd(-1))")
        done = self.k.run("t = time.process_time()\ntime.sleep(0.5)\n"
                          "print(time.process_time() - t < 0.25)")
        self.assertEqual(done["status"], "ok", done)
        self.assertEqual(self.k.text(), "True\n")

    def test_no_cell_runs_before_it_may(self):
        """Dropped before the kernel sees it, and after it has asked."""
        self.k.run("n = 0")
        self.ask_first()
        for late in (False, True):
            self.k.start("n += 1; print('ran')")
            if late:
                self.wait_for_begin()
            with self.assertRaises(AssertionError):
                self.k.wait("done", self.k.id, 0.2)
            self.answer("drop", self.k.id)
            self.k.start("n")
            self.wait_for_begin()
            self.answer("go", self.k.id)
            self.k.finish()
            self.assertEqual([e["data"]["text/plain"] for e in
                              self.k.of("result")], ["0"])
            self.assertEqual(len(self.k.of("done")), 1)
            self.assertEqual(self.k.text(), "")

    def test_answer_before_the_question(self):
        self.ask_first()
        self.k.start("print(1)")
        self.answer("drop", self.k.id)
        self.k.start("print(2)")
        self.answer("go", self.k.id)
        self.k.finish()
        self.assertEqual(self.k.text(), "2\n")

    def test_interrupt_before_it_may_begin(self):
        """It counts when the cell may begin, and else not."""
        self.ask_first()
        for op in ("go", "drop"):
            self.k.start("print('ran')")
            self.wait_for_begin()
            os.killpg(self.k.process.pid, signal.SIGINT)
            self.answer(op, self.k.id)
            if op == "go":
                self.assertEqual(self.k.finish()["status"], "interrupted")
                self.assertEqual(self.k.text(), "")
        self.k.obliging = True
        self.assertEqual(self.plain("1"), "1")

    def test_answer_to_nothing(self):
        for op in (b"go", b"drop"):
            for rest in (b',"id":999999}', b',"id":}', b',"id":-1}',
                         b',"id":"1"}', b',"id":', b"}",
                         b',"id":' + b"9" * 400 + b"}"):
                os.write(self.k.requests, b'{"op":"' + op + b'"' + rest +
                         b"\n")
                self.assertEqual(self.plain("1"), "1")

    def test_hail_of_interrupts_loses_no_event(self):
        """A sender of its own keeps SIGINT coming, faster than cells."""
        pid = self.k.process.pid
        hail = subprocess.Popen(
            [sys.executable, "-c", "import os, select, signal\n"
             "for i in range(4000):\n"
             "    os.kill(%d, signal.SIGINT)\n"
             "    select.select([], [], [], 0.0005)" % pid])
        cells = 0
        try:
            while hail.poll() is None:
                done = self.k.run("display('y' * 5000)\n'z' * 5000")
                self.assertIn(done["status"], ("ok", "interrupted"))
                if done["status"] == "ok":
                    self.assertEqual(len(self.k.events), 3)
                cells += 1
        finally:
            hail.kill()
            hail.wait()
        self.assertGreater(cells, 50)
        self.assertEqual(self.plain("1"), "1")

    def test_handler_is_restored(self):
        self.k.run("import signal\n"
                   "signal.signal(signal.SIGINT, signal.SIG_IGN)")
        self.interrupt("while True: pass")


class Errors(Shared):

    def test_traceback_has_only_frames_of_cells(self):
        self.k.run("def f(x):\n    return 1 / x", cell=5)
        done = self.k.run("import json\nf(0)", cell=6)
        text = done["error"]["traceback"]
        self.assertEqual(done["error"]["name"], "ZeroDivisionError")
        self.assertEqual(done["error"]["value"], "division by zero")
        self.assertIn('"<cell 5>", line 2', text)
        self.assertIn("return 1 / x", text)
        self.assertIn('"<cell 6>", line 2', text)
        self.assertNotIn("kernel", text)
        text = self.error("import json\njson.loads('{')")["traceback"]
        self.assertNotIn("decoder.py", text)
        self.assertIn("json.loads('{')", text)

    def test_syntax_error(self):
        error = self.error("x = 1\ny = = 2")
        self.assertEqual(error["name"], "SyntaxError")
        self.assertIn("line 2", error["traceback"])
        self.assertNotIn("kernel", error["traceback"])

    def test_sizes_are_bounded(self):
        error = self.error("class %s(Exception): pass\n"
                           "raise %s('m' * 50_000_000)" % (("N" * 999,) * 2))
        self.assertLessEqual(len(error["name"]), 256)
        self.assertLessEqual(len(error["value"]), 4096)
        self.assertLessEqual(len(error["traceback"]), 16384)

    def test_exit_ends_the_cell_only(self):
        for code in ("import sys; sys.exit()", "exit()", "quit(3)",
                     "raise SystemExit"):
            done = self.k.run(code + "\nprint('no')")
            self.assertEqual(done["status"], "ok")
            self.assertEqual([n["kind"] for n in self.k.of("note")], ["exit"])
            self.assertNotIn("no", self.k.text())
        self.k.run("import sys; sys.exit('why')")
        self.assertEqual(self.k.text("err"), "why\n")

    def test_no_input(self):
        for code in ("input('?')", "import getpass; getpass.getpass()",
                     "breakpoint()"):
            self.assertIn("nobody is at the keyboard",
                          self.error(code)["value"])
        self.assertEqual(self.plain("import sys; sys.stdin.read()"), "''")

    def test_hostile_objects(self):
        for what in ("raise SystemExit", "raise KeyboardInterrupt",
                     "raise ValueError('v')", "return 5", "1/0",
                     "return type('T', (str,), {'__len__': None})('t')",
                     "return H()", "return repr(self)"):
            for method in ("__repr__", "__str__"):
                define = "class H(Exception):\n  def %s(self): %s\n" % (
                    method, what)
                done = self.k.run(define + "display(H())\nH()")
                self.assertEqual(done["status"], "ok", (what, method, done))
                self.assertEqual(len(self.k.of("display")), 1)
                done = self.k.run(define + "raise H()")
                self.assertEqual(done["status"], "error")
                self.assertEqual(done["error"]["name"], "H")
        for extra in ("__class__ = property(lambda s: 1/0)",
                      "def __getattr__(self, n): raise SystemExit(n)",
                      "def __getattribute__(self, n): 1/0"):
            self.assertEqual(self.k.run(
                "class G:\n  %s\ndisplay(G())\nG()" % extra)["status"], "ok",
                extra)
        self.assertEqual(self.plain("1"), "1")

    def test_recursion_and_large_reprs(self):
        self.assertEqual(self.error("def r(): r()\nr()")["name"],
                         "RecursionError")
        self.assertLessEqual(len(self.plain("'x' * 200_000_000")), 65536)

    def test_surrogates(self):
        self.k.run("print('a\\udc80b\\ud800')")
        self.assertEqual(self.k.text(), "a\\udc80b\\ud800\n")
        self.error("x = '\ud800'")

    def test_group_of_exceptions_and_causes(self):
        text = self.error("try:\n  1/0\nexcept Exception as e:\n"
                          "  raise KeyError('k') from e")["traceback"]
        self.assertIn("ZeroDivisionError", text)
        self.assertIn("KeyError", text)
        self.assertNotIn("kernel", text)

    @needs("pandas")
    def test_column_hint(self):
        self.k.run("import pandas as pd\n"
                   "df = pd.DataFrame({'region': [1], 'Revenue': [2]})")
        for code, hint in (("df['regoin']", "region"),
                           ("df['revenue']", "Revenue"),
                           ("df[['region', 'revenu']]", "Revenue"),
                           ("df.groupby('regin').sum()", "region"),
                           ("df.drop(columns=['regin'])", "region"),
                           ("df.regoin", "region"),
                           ("df['zzzzz']", None), ("{}['region1']", "region"),
                           ("{}[5]", None)):
            error = self.error(code)
            self.assertEqual(error.get("hint"), hint and
                             "nearest column: " + hint, code)
            self.assertNotIn("pandas/", error["traceback"])


class Habits(Shared):

    def test_magics(self):
        self.assertEqual(self.plain("%matplotlib inline\n1 + 1"), "2")
        self.assertEqual(self.k.of("note")[0]["kind"], "magic")
        self.assertEqual(self.plain(
            "s = '''\n%not a magic\n!nor this\n'''\n!echo out\nlen(s)"), "24")
        self.assertEqual(self.k.text(), "out\n")
        self.assertEqual(self.plain("f = !echo a; echo b\nf"), "['a', 'b']")
        self.assertEqual(self.plain("a = (7\n % 4\n)\n%config X\na"), "3")
        self.assertEqual(self.plain("w = 'it''s'\n!echo it\\'s {w}\n5"), "5")
        self.assertEqual(self.k.text(), "it's its\n")
        self.k.run("if True:\n    %time y = 3\nfor i in range(2):\n"
                   "    !echo $((1 + {i}))")
        self.assertEqual(self.plain("y"), "3")
        self.k.run("%%time\nz = 4")
        self.assertIn("Wall time", self.k.text())
        self.assertEqual(self.plain("z"), "4")
        self.k.run("%timeit -n 10 1 + 1")
        self.assertIn("per loop", self.k.text())
        self.assertIn("%frobnicate", self.error("%frobnicate")["value"])
        self.assertIn("%%html", self.error("%%html\n<b>")["value"])
        self.k.run("!exit 3")
        self.assertIn("status 3", self.k.of("note")[0]["text"])

    def test_magic_keeps_line_numbers(self):
        self.assertIn("line 3", self.error("%matplotlib inline\n!true\n1/0")
                      ["traceback"])

    def test_pip_is_answered(self):
        for code in ("!pip install x", "%pip install x", "%conda install x",
                     "!python3 -m pip install x", "!pip3 install -q x"):
            self.assertEqual(self.k.run(code)["status"], "ok")
            self.assertEqual([n["kind"] for n in self.k.of("note")], ["pip"])
            self.assertIn("no network", self.k.of("note")[0]["text"])

    def test_await(self):
        self.assertEqual(self.plain("import asyncio\n"
                                    "async def f(): return 8\nawait f()"),
                         "8")
        self.k.run("v = await f()\nasync def g():\n  raise ValueError('g')")
        error = self.error("await g()")
        self.assertEqual(error["name"], "ValueError")
        self.assertNotIn("asyncio", error["traceback"])

    def test_ipython_display(self):
        self.k.run("from IPython.display import display, HTML, Image, "
                   "Markdown\ndisplay(HTML('<b>a</b> &amp; b'), "
                   "Markdown('# m'))\nfrom IPython import get_ipython")
        texts = [e["data"]["text/plain"] for e in self.k.of("display")]
        self.assertEqual(len(texts), 2)
        if not HAS["IPython"]:
            self.assertEqual(texts, ["a & b", "# m"])

    def test_display_from_a_thread(self):
        self.k.run("import threading\n"
                   "ts = [threading.Thread(target=lambda: [display('q' * 9000"
                   ") for _ in range(50)]) for _ in range(4)]\n"
                   "for t in ts: t.start()\nfor t in ts: t.join()")
        self.assertEqual(len(self.k.of("display")), 200)
        self.assertEqual(sorted(e["i"] for e in self.k.of("display")),
                         list(range(200)))


@needs("pandas")
class Tables(Shared):

    def setUp(self):
        super().setUp()
        self.k.run("import pandas as pd, numpy as np, datetime as dt\n"
                   "from decimal import Decimal")
        # Frames of pandas 1.5 are shown alike by 3, but for type names.

    def column(self, expression):
        """(kind, cells) of a Series."""
        table = self.k.table("pd.Series(%s)" % expression)
        return (table["columns"][0]["kind"],
                [row[1] for row in table["head"]])

    def test_kinds_and_cells(self):
        zone = "2024-03-01T10:30:00+01:00"
        for expression, kind, cells in (
                ("[1, 2]", "integer", [1, 2]),
                ("[2**53, 2**53 + 1, -2**60]", "integer",
                 [2 ** 53, str(2 ** 53 + 1), str(-2 ** 60)]),
                ("[10**30, 1]", "integer", [str(10 ** 30), 1]),
                ("np.array([2**64 - 1], dtype='uint64')", "integer",
                 [str(2 ** 64 - 1)]),
                ("[1.5, np.nan, np.inf, -np.inf]", "number",
                 [1.5, None, "inf", "-inf"]),
                ("[0.1], dtype='float32'", "number", [0.1]),
                ("['a', None, 'b']", "string", ["a", None, "b"]),
                ("['a', np.nan]", "string", ["a", None]),
                ("['a', pd.NA], dtype='string'", "string", ["a", None]),
                ("[1, None], dtype='Int64'", "integer", [1, None]),
                ("[1.5, None], dtype='Float64'", "number", [1.5, None]),
                ("[True, None], dtype='boolean'", "boolean", [True, None]),
                ("[True, False]", "boolean", [True, False]),
                ("[True, None]", "boolean", [True, None]),
                ("['a', 'b', None], dtype='category'", "category",
                 ["a", "b", None]),
                ("pd.Categorical([1, 2])", "category", [1, 2]),
                ("pd.to_datetime(['2024-03-01', None])", "datetime",
                 ["2024-03-01", None]),
                ("pd.to_datetime(['2024-03-01 10:30', '2024-03-02 00:00'])",
                 "datetime", ["2024-03-01T10:30:00", "2024-03-02T00:00:00"]),
                ("pd.to_datetime(['2024-03-01 10:30']).tz_localize("
                 "'Europe/Berlin')", "datetime", [zone]),
                ("[dt.date(2024, 3, 1), None]", "datetime",
                 ["2024-03-01", None]),
                ("pd.period_range('2024-01', periods=2, freq='M')", "other",
                 ["2024-01", "2024-02"]),
                ("pd.to_timedelta(['1 days 02:00:00', None])", "duration",
                 ["1 days 02:00:00", None]),
                ("[Decimal('1.10')]", "number", ["1.10"]),
                ("[1, 'a', None]", "other", [1, "a", None]),
                ("[1 + 2j]", "other", ["(1+2j)"]),
                ("[[1, 2], {'a': 1}]", "other", ["[1, 2]", "{'a': 1}"]),
                ("[b'x']", "other", ["b'x'"]),
                ("[np.array([1.5, np.nan])]", "other", ["[1.5 nan]"]),
                ("pd.arrays.SparseArray([0, 1])", "integer", [0, 1]),
                ("pd.interval_range(0, 2)", "other", ["(0, 1]", "(1, 2]"]),
                ("['\\ud800']  , dtype=object", "string", ["\ud800"]),
                ("[], dtype='float64'", "number", []),
                ("[None, None], dtype=object", "other", [None, None])):
            self.assertEqual(self.column(expression), (kind, cells),
                             expression)

    def test_head_and_tail(self):
        table = self.k.table("pd.DataFrame({'a': range(20)})")
        self.assertEqual((len(table["head"]), table["tail"]), (20, []))
        table = self.k.table("pd.DataFrame({'a': range(1000)})")
        self.assertEqual((table["rows"], table["cols"]), (1000, 1))
        self.assertEqual(table["head"], [[i, i] for i in range(10)])
        self.assertEqual(table["tail"], [[i, i] for i in range(990, 1000)])

    def test_columns_left_out(self):
        table = self.k.table("pd.DataFrame(np.zeros((3, 120)))")
        self.assertEqual((table["cols"], table["cols_left_out"]), (120, 70))
        self.assertEqual([c["name"] for c in table["columns"]],
                         [str(i) for i in list(range(25)) +
                          list(range(95, 120))])
        self.assertEqual(len(table["head"][0]), 51)

    def test_names_and_indexes(self):
        table = self.k.table(
            "pd.DataFrame([[1, 2]], columns=['a', 'a'])")
        self.assertEqual([c["name"] for c in table["columns"]], ["a", "a"])
        self.assertEqual(table["head"], [[0, 1, 2]])
        table = self.k.table(
            "pd.DataFrame({'k': ['x', 'x', 'y'], 'g': [1, 2, 1], 'v': [1., "
            "2., 3.]}).groupby(['k', 'g']).agg({'v': ['sum', 'mean']})")
        self.assertEqual([c["name"] for c in table["columns"]],
                         ["v / sum", "v / mean"])
        self.assertEqual([(i["name"], i["kind"]) for i in table["index"]],
                         [("k", "string"), ("g", "integer")])
        self.assertEqual(table["head"][1], ["x", 2, 2.0, 2.0])
        table = self.k.table(
            "pd.DataFrame({pd.Timestamp('2024-01-01'): [1], 5: [2], None: "
            "[3], ('a', ''): [4]})")
        self.assertEqual([c["name"] for c in table["columns"]][:2],
                         ["2024-01-01", "5"])
        table = self.k.table("pd.Series(['a', 'b', 'a']).value_counts()")
        self.assertEqual(table["head"], [["a", 2], ["b", 1]])

    def test_empty(self):
        table = self.k.table("pd.DataFrame()")
        self.assertEqual((table["rows"], table["cols"], table["head"]),
                         (0, 0, []))
        table = self.k.table("pd.DataFrame(index=range(3))")
        self.assertEqual((table["rows"], table["cols"], table["head"]),
                         (3, 0, [[0], [1], [2]]))
        table = self.k.table("pd.DataFrame({'a': [], 'b': []})")
        self.assertEqual((table["rows"], table["cols"]), (0, 2))

    def test_long_cells_are_cut(self):
        table = self.k.table("pd.DataFrame({'a': ['x' * 300, 'y']})")
        self.assertTrue(table["truncated_cells"])
        self.assertEqual(table["head"][0][1], "x" * 256 + "…")
        self.assertFalse(self.k.table("pd.DataFrame({'a': ['y']})")
                         ["truncated_cells"])

    def test_hostile_cells(self):
        table = self.k.table(
            "class H:\n  def __str__(self): raise SystemExit\n"
            "  __repr__ = __str__\npd.DataFrame({'a': [H()], 'b': [1]})")
        self.assertIn("failed", table["head"][0][1])
        self.assertEqual(table["head"][0][2], 1)

    def test_arrays(self):
        table = self.k.table("np.arange(6.).reshape(2, 3)")
        self.assertEqual(table["head"], [[0, 0, 1, 2], [1, 3, 4, 5]])
        table = self.k.table("np.array(['2024-01-01', 'NaT'], "
                             "dtype='datetime64[D]')")
        self.assertEqual(table["head"], [[0, "2024-01-01"], [1, None]])
        self.assertEqual(self.k.table("np.array(['a', 'b'])")["head"],
                         [[0, "a"], [1, "b"]])
        for code in ("np.zeros((2, 2, 2))", "np.array(5)"):
            self.assertNotIn(TABLE, self.k.result(code)["data"])
        self.assertEqual(self.k.result("np.float64(1.5)")["data"]
                         ["text/plain"], "1.5")

    @needs("polars")
    def test_polars(self):
        table = self.k.table(
            "import polars as pl\npl.DataFrame({'a': [1, None], 'b': ['x', "
            "'y'], 'd': [dt.date(2024, 1, 1), None], 'f': [.5, float('nan')]"
            "})")
        self.assertEqual([c["kind"] for c in table["columns"]],
                         ["integer", "string", "datetime", "number"])
        self.assertEqual(table["head"], [[1, "x", "2024-01-01", .5],
                                         [None, "y", None, None]])

    @needs("pyarrow")
    def test_pyarrow(self):
        table = self.k.table("import pyarrow as pa\n"
                             "pa.table({'a': [1, None], 'b': ['x', 'y']})")
        self.assertEqual(table["head"], [[1, "x"], [None, "y"]])
        kind, cells = self.column("['a', None], dtype='string[pyarrow]'")
        self.assertEqual((kind, cells), ("string", ["a", None]))

    def test_large_results_are_cheap(self):
        for make, limit in (
                ("np.random.rand(1_000_000, 10)", 0.02),
                ("np.random.rand(100, 20_000)", 0.1)):
            self.k.run("big = pd.DataFrame(%s)\nbig['c'] = 'x'" % make)
            times = []
            for _ in range(5):
                start = time.perf_counter()
                event = self.k.result("big")
                times.append(time.perf_counter() - start)
                self.assertLess(len(event["line"]), 65536 * 2)
            print("# %s: %.1f ms" % (make, min(times) * 1e3))
            # Shared machines are slow at times; the order is what counts.
            self.assertLess(min(times), 4 * limit)
        self.k.run("del big")

    def test_saved_tables(self):
        path = os.path.join(self.k.home.name, "t.csv")

        def saved(cell, index):
            code = "__import__('sandpiper').save_table(%d, %d, %r)"
            done = self.k.run(code % (cell, index, path), silent=True)
            self.assertEqual(done["status"], "ok", done)
            with open(path, encoding="utf-8") as file:
                return file.read()
        self.k.run("d = pd.DataFrame({'a': [1, 2], 'é': [0.1, None]})\n"
                   "display(d); d['a'] = 9; d.iloc[0, 1] = 5\n"
                   "d[d.a > 100].groupby('a').sum()", cell=900)
        self.assertEqual(saved(900, 0), "a,é\n1,0.1\n2,\n")
        self.k.run("display(d.set_index('a'), pd.Series([1, 2]), "
                   "np.eye(2), pd.DataFrame({'n': range(3000)}))", cell=901)
        self.assertEqual(saved(901, 0), "a,é\n9,5.0\n9,\n")
        self.assertEqual(saved(901, 1), "value\n1\n2\n")
        self.assertEqual(saved(901, 2), "0,1\n1.0,0.0\n0.0,1.0\n")
        self.assertEqual(saved(901, 3).count("\n"), 3001)
        self.k.run("for i in range(64): display(pd.Series([i]))", cell=902)
        error = self.error("import sandpiper\n"
                           "sandpiper.save_table(900, 0, '/dev/null')")
        self.assertEqual((error["name"], error["value"]), (
            "LookupError", "the table of cell 900.1 is not kept any more: "
            "many or large ones were shown since; ask for it again"))
        self.assertTrue(error["traceback"].endswith(
            "LookupError: %s\n" % error["value"]))
        # One that is not copied lives as long as its variable.
        self.k.run("display(np.broadcast_to(np.float64(1), (1 << 30, 2)))",
                   cell=903)
        error = self.error("sandpiper.save_table(903, 0, '/dev/null')")
        self.assertEqual(error["value"], "the table of cell 903.1 is not kept "
                         "any more: it is too large to be copied, and its "
                         "variable is gone; ask for it again")


@needs("matplotlib")
class Charts(Shared):

    fields = {"figure": {"width_px": 600, "height_px": 400, "dpi": 100},
              "limits": {"figures": 5}}

    def setUp(self):
        super().setUp()
        self.k.run("import matplotlib.pyplot as plt")

    def test_what_is_not_shown_is_said_once(self):
        for n, text in ((11, "6 more charts were not shown: at most 5 a cell."),
                        (6, "1 more chart was not shown: at most 5 a cell."),
                        (5, None)):
            for code in ("for i in range(%d):\n  plt.figure(); plt.plot([i])",
                         "for i in range(%d):\n  plt.plot([i]); plt.show()"):
                self.k.run(code % n)
                self.assertEqual([e["text"] for e in self.k.of("note")],
                                 [text] if text else [])
                self.assertEqual(len(self.charts()), 5)
        self.k.run("for i in range(7):\n  plt.plot([i]); plt.show()\n1 / 0")
        self.assertEqual(len(self.k.of("note")), 1)

    def charts(self):
        found = []
        for event in self.k.events:
            data = event.get("data", {}).get("image/png")
            if data:
                png = base64.b64decode(data)
                self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
                size = (int.from_bytes(png[16:20], "big"),
                        int.from_bytes(png[20:24], "big"))
                self.assertEqual(size, (event["meta"]["width"],
                                        event["meta"]["height"]))
                self.assertEqual(list(event["data"])[-1], "text/plain")
                found.append(event["meta"])
        return found

    def test_what_is_described(self):
        for code, title, what in (
                ("for i in range(4): plt.plot([1, 2])\nplt.xlabel('month')\n"
                 "plt.ylabel('revenue')\nplt.title('T')", "T",
                 "4 lines, x: month, y: revenue"),
                ("plt.bar(range(12), range(12))", "", "bar chart, 12 bars"),
                ("plt.hist([1, 2, 3, 4], bins=4)", "", "histogram, 4 bins"),
                ("plt.scatter([1, 2], [3, 4])", "", "scatter, 2 points"),
                ("plt.pie([1, 2, 3])", "", "pie chart, 3 slices"),
                ("plt.imshow([[1, 2], [3, 4]])\nplt.colorbar()", "",
                 "heat map, 2 x 2"),
                ("fig, ax = plt.subplots(1, 2); ax[0].plot([1, 2])\n"
                 "fig.suptitle('S')", "S", "2 panels; first: 1 line")):
            self.assertEqual(self.k.run(code)["status"], "ok")
            metas = self.charts()
            self.assertEqual([(m["title"], m["what"]) for m in metas],
                             [(title, what)], code)
            # The return value of a plotting call is no result of interest.
            self.assertEqual(self.k.of("result"), [])
            self.assertTrue(300 <= metas[0]["width"] <= 800, metas)

    def test_each_chart_is_sent_once(self):
        self.k.run("plt.plot([1])\nplt.show()\nplt.plot([2])\nfig = plt.gcf()"
                   "\nfig")
        self.assertEqual([e["ev"] for e in self.k.events],
                         ["display", "result", "done"])
        self.k.run("fig, ax = plt.subplots(); ax.plot([1])\nfig.show()\n"
                   "display(plt.figure())\nplt.figure()")
        self.assertEqual(len(self.charts()), 3)
        self.k.run("1")
        self.assertEqual(self.charts(), [])

    def test_silent_sends_what_is_shown_only(self):
        self.k.run("plt.plot([1])", silent=True)
        self.assertEqual(self.charts(), [])
        self.k.run("pass")
        self.assertEqual(self.charts(), [])
        self.k.run("plt.plot([1]); plt.show()", silent=True)
        self.assertEqual(len(self.charts()), 1)

    def test_too_large_or_too_many(self):
        self.k.run("plt.figure(figsize=(400, 400))\nplt.plot([1])")
        self.assertEqual(self.charts(), [])
        self.assertIn("40000 x 40000", self.k.of("note")[0]["text"])
        self.k.run("for i in range(8):\n    plt.figure()\n    plt.plot([1])")
        self.assertEqual(len(self.charts()), 5)
        self.k.run("plt.plot([1]); plt.text(1, 1, 'far')")
        self.assertEqual(len(self.charts()), 1)

    def test_broken_chart_is_closed(self):
        error = self.error("plt.title('$\\\\frac{$')\nplt.plot([1])")
        self.assertEqual(error["name"], "ValueError")
        self.k.run("plt.plot([1])")
        self.assertEqual(len(self.charts()), 1)

    def test_after_an_error(self):
        self.k.run("plt.subplots()\n1/0")
        self.assertEqual(self.charts(), [])
        self.k.run("plt.plot([1, 2])\n1/0")
        self.assertEqual(len(self.charts()), 1)

    @needs("PIL")
    def test_pictures(self):
        self.k.run("from PIL import Image\nImage.new('RGB', (30, 20))")
        self.assertEqual([(m["width"], m["height"]) for m in self.charts()],
                         [(30, 20)])
        self.k.run("Image.new('1', (5000, 5000))")
        self.assertEqual(self.charts(), [])
        self.assertIn("5000 x 5000", self.k.of("note")[0]["text"])
        self.k.run("class P:\n  def _repr_png_(self): return b'no'\nP()")
        self.assertEqual(self.charts(), [])


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
    loader = unittest.defaultTestLoader
    names = sys.argv[1:]
    module = sys.modules["__main__"]
    suite = loader.loadTestsFromNames(names, module) if names \
        else loader.loadTestsFromModule(module)
    print("1..%d" % suite.countTestCases(), flush=True)
    result = TapResult()
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        print("1..0 # SKIP the program has no part in it")
        sys.exit(0)
    sys.exit(main())
