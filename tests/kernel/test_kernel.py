#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel: requests and events, its start and end, interrupts. Prints TAP."""
import ast
import builtins
import glob
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernel_session import (  # noqa: E402
    HAS, NONCE, PATIENCE, PYTHON, Kernel, Shared, main, mark, needs)

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                       "src", "sandbox")


class Sources(unittest.TestCase):

    def test_oldest_python(self):
        """Nothing newer than Python 3.8, and what the makefile asks for."""
        paths = glob.glob(os.path.join(SOURCES, "local_kernel*.py"))
        self.assertGreater(len(paths), 5)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                source = file.read()
            ast.parse(source, path, feature_version=(3, 8))
            self.assertLessEqual(source.count("\n"), 800, path)
            self.assertNotIn("'''", source)


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

    def test_requests_in_pieces(self):
        """However they lie in the pipe: several at once, one in many parts."""
        cells = ["len('%s')" % ("x" * n) for n in (1, 70000, 200000)]
        self.k.start("0")
        data = b"".join(json.dumps({
            "op": "exec", "id": self.k.id + 1 + i, "code": code}).encode() +
            b"\n" for i, code in enumerate(cells))
        for at in range(0, len(data), 9973):
            os.write(self.k.requests, data[at:at + 9973])
        self.k.id += len(cells)
        self.k.finish()
        self.assertEqual([e["data"]["text/plain"] for e in
                          self.k.of("result")], ["0", "1", "70000", "200000"])

    def test_half_a_request_goes_before_an_import(self):
        first, second = [json.dumps({
            "op": "exec", "id": self.k.id + n, "code": code}).encode() + b"\n"
            for n, code in ((1, "import sandpiper_kernel as s\nran = []\n"
                             "s.S.steps.insert(0, (lambda: ran.append(1), 0))"),
                            (2, "ran"))]
        os.write(self.k.requests, first + second[:9])
        self.k.wait("done", self.k.id + 1)
        os.write(self.k.requests, second[9:])
        self.k.id += 2
        self.k.finish()
        self.assertEqual(self.k.of("result")[-1]["data"]["text/plain"], "[]")

    def test_a_cell_wakes_the_main_thread_only(self):
        """Each thread more would double the time of a short cell."""
        def woken():
            found = {}
            for task in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/status" % (pid, task)) as file:
                    found[int(task)] = sum(int(n) for n in re.findall(
                        r"(?m)^(?:non)?voluntary_ctxt_switches:\s+(\d+)",
                        file.read()))
            return found
        pid = self.k.process.pid
        self.k.run("1")
        before = woken()
        self.assertGreater(len(before), 1)
        for _ in range(20):
            self.k.run("1")
        after = woken()
        self.assertGreater(after.pop(pid), before[pid])
        for task, n in after.items():
            self.assertLess(n - before[task], 20)

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

    def test_ready_has_versions_of_packages(self):
        known = {n: v for n, v in self.k.ready["modules"].items() if v}
        for name in ("pandas", "numpy", "matplotlib", "PIL", "plotly",
                     "polars", "pyarrow", "seaborn"):
            self.assertEqual(name in known, HAS.get(name, name in known))
        for version in known.values():
            self.assertRegex(version, r"^\d+\.\d")

    def test_memory_is_the_peak(self):
        before = self.k.run("pass")["mem"]
        self.k.run("x = b'x' * 200_000_000; del x")
        self.assertGreater(self.k.run("pass")["mem"], before + 150_000_000)

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

    def wait_for_steps(self, kernel):
        """Until it has nothing more to do by itself."""
        deadline = time.monotonic() + PATIENCE
        while kernel.result("import sandpiper_kernel as s\nlen(s.S.steps)")[
                "data"]["text/plain"] != "0":
            self.assertLess(time.monotonic(), deadline)

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
        for v in (2, None, "1", [1], 0):
            k = self.kernel(v=v)
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

    def test_handler_of_a_cell_that_raises_between_cells(self):
        k = self.kernel()
        called = os.path.join(k.home.name, "called")
        for code in ("1/0", "raise TimeoutError", "raise SystemExit"):
            k.run("import signal\ndef handle(*_):\n"
                  "    open('called', 'w').close()\n    %s\n"
                  "signal.signal(signal.SIGUSR1, handle)\nx = 5" % code)
            self.wait_for_steps(k)
            os.kill(k.process.pid, signal.SIGUSR1)
            deadline = time.monotonic() + PATIENCE
            while not os.path.exists(called):
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(k.process.poll())
                select.select([], [], [], 0.01)
            os.unlink(called)
            self.assertEqual(k.result("x")["data"]["text/plain"], "5", code)

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
        # Each alone, and what it takes to load a part of the kernel.
        for name in sorted(n for n in vars(builtins) if n.islower()):
            for change in ("del builtins.%s", "builtins.%s = 1"):
                k.run("import builtins, sandpiper_kernel\n"
                      "sandpiper_kernel.S.parts.clear()\n" + change % name)
                self.assertNotIn("error", k.ask("vars"), change % name)
                self.assertEqual(k.result("6*7")["data"]["text/plain"], "42",
                                 change % name)
        self.assertIn("nobody is at the keyboard",
                      k.run("input()")["error"]["value"])

    def test_builtins_that_do_something_else(self):
        """They stay, and the kernel goes on."""
        k = self.kernel()
        if tuple(map(int, k.ready["python"].split(".")[:2])) < (3, 10):
            self.skipTest("older Pythons share the builtins of the caller")
        for name in ("isinstance", "len", "list", "repr", "sorted", "str"):
            for change in ("lambda *_, **__: 0", "lambda *_: True",
                           "type('x', (), {})"):
                k.run("import builtins, sandpiper_kernel\n"
                      "sandpiper_kernel.S.parts.clear()\n"
                      "builtins.%s = new = %s" % (name, change))
                self.assertEqual(k.result("6*7")["data"]["text/plain"], "42",
                                 (name, change))
                self.assertNotIn("error", k.ask("vars"), (name, change))
                k.run("builtins.__dict__.update(sandpiper_kernel.__builtins__)")

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
    def test_limits_of_tables(self):
        k = self.kernel(limits={"rows": 4, "cols": 6, "cell": 10})
        k.run("import pandas as pd")
        table = k.table("pd.DataFrame({'c%d' % i: ['x' * 11] * 5 "
                        "for i in range(8)})")
        self.assertEqual((len(table["head"]), len(table["tail"])), (2, 2))
        self.assertEqual([c["name"] for c in table["columns"]],
                         ["c0", "c1", "c2", "c5", "c6", "c7"])
        self.assertEqual((table["cols_left_out"], table["rows"]), (2, 5))
        self.assertEqual(table["head"][0][1], "x" * 10 + "…")
        self.assertTrue(table["truncated_cells"])
        table = k.table("pd.DataFrame({'a' * 20: range(4)})")
        self.assertEqual((len(table["head"]), table["tail"]), (4, []))
        self.assertEqual(table["columns"][0]["name"], "a" * 10)

    def test_bad_limits_are_ignored(self):
        k = self.kernel(limits={"text": "x", "rows": -1, "cols": None,
                                "figures": 1.5, "unknown": 3},
                        preload=[5, "no_such"], figure=7)
        self.assertEqual(k.result("1")["data"]["text/plain"], "1")
        k = self.kernel(limits=None, preload=None)
        self.assertEqual(k.result("1")["data"]["text/plain"], "1")

    def test_children_do_not_hold_the_pipes(self):
        k = self.kernel()
        ask = ("import os\nr, w = os.pipe()\npid = os.fork()\n"
               "if pid == 0:\n    found = [os.path.exists('/proc/self/fd/%d'"
               " % fd) for fd in (3, 4)]\n"
               "    os.write(w, repr(found).encode())\n    os._exit(0)\n"
               "os.waitpid(pid, 0)\nos.read(r, 100)")
        self.assertEqual(k.result(ask)["data"]["text/plain"],
                         "b'[False, False]'")
        self.assertEqual(k.result(
            "import subprocess\nsubprocess.run(['sh', '-c', 'echo x >&4'],"
            " stderr=subprocess.DEVNULL).returncode != 0")
            ["data"]["text/plain"], "True")
        # One that outlives the kernel does not keep its end from being seen.
        k.run("pid = os.fork()\nif pid == 0:\n    os.close(1); os.close(2)\n"
              "    import time\n    time.sleep(1000)\nprint(pid)")
        child = int(k.text())
        k.send(op="exit")
        try:
            self.assertEqual(self.ends(k), 0)
        finally:
            os.kill(child, signal.SIGKILL)

    def test_processes_of_python(self):
        """Pools and executors; functions of cells with fork, of modules with
        the other ways to start."""
        k = self.kernel()
        k.run("def square(x): return x * x\n"
              "open('squares.py', 'w').write('def square(x): "
              "return x * x\\n')\nimport multiprocessing as mp, squares\n"
              "from concurrent.futures import ProcessPoolExecutor")
        for code in ("mp.get_start_method()", ):
            self.assertEqual(k.result(code)["data"]["text/plain"], "'fork'")
        for code in (
                "with mp.Pool(2) as p: r = p.map(square, [1, 2, 3])",
                "with ProcessPoolExecutor(2) as p: "
                "r = list(p.map(square, [1, 2, 3]))",
                "with mp.get_context('spawn').Pool(1) as p: "
                "r = p.map(squares.square, [1, 2, 3])",
                "with mp.get_context('forkserver').Pool(1) as p: "
                "r = p.map(squares.square, [1, 2, 3])",
                "q = mp.Queue()\n"
                "c = mp.Process(target=lambda: q.put([1, 4, 9]))\n"
                "c.start(); r = q.get(); c.join()"):
            k.run("r = None\n" + code)
            self.assertEqual(k.result("r")["data"]["text/plain"],
                             "[1, 4, 9]", (code, k.events))
        k.run("import multiprocessing.forkserver as f\n"
              "f._forkserver._stop()\n"
              "from multiprocessing import resource_tracker as t\n"
              "t._resource_tracker._stop()")

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

    def test_no_preload_where_a_cell_holds_all_descriptors(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        k = self.kernel(preexec=few)
        k.run("import os, sandpiper_kernel as s\nheld = []\ntry:\n"
              "    while True:\n"
              "        held.append(os.open('/dev/null', os.O_RDONLY))\n"
              "except OSError:\n    pass")
        k.send(op="init", v=1, nonce=NONCE, preload=["no_such_module"])
        self.wait_for_steps(k)

    @needs("pandas")
    def test_no_preload_where_memory_is_short(self):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
        k = self.kernel(preload=["decimal", "pandas"], tty=True,
                        preexec=little)
        self.wait_for_steps(k)
        self.assertEqual(k.result("import sys\n'pandas' in sys.modules")
                         ["data"]["text/plain"], "False")

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


class Tickets(Shared):
    """A cell runs for whom its number is there to be read, and else never."""

    fields = {"tickets": True}

    def keep_busy(self):
        """As an import that goes on after the cell, until it may end."""
        self.k.run("import os, sandpiper_kernel\ndef step():\n"
                   "    open('busy', 'w').close()\n"
                   "    while not os.path.exists('free'): pass\n"
                   "sandpiper_kernel.S.steps.insert(0, (step, 0))\nn = 0")
        busy = os.path.join(self.k.home.name, "busy")
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(busy):
            self.assertLess(time.monotonic(), deadline)
            select.select([], [], [], 0.01)

    def set_free(self):
        with open(os.path.join(self.k.home.name, "free"), "w"):
            pass
        self.addCleanup(self.k.run, "os.unlink('free')\nos.unlink('busy')")

    def take_back(self):
        return int.from_bytes(os.read(self.k.tickets[0], 8), sys.byteorder)

    def test_cells_run(self):
        for i in range(20):
            self.assertEqual(self.plain(str(i)), str(i))
            with self.assertRaises(BlockingIOError):
                self.take_back()

    def test_what_was_taken_back_never_runs(self):
        """Cells that the kernel comes to late, and the one behind them runs."""
        self.keep_busy()
        for _ in range(5):
            self.k.start("n += 1; print('ran')")
            self.assertEqual(self.take_back(), self.k.id)
        self.k.start("n")
        self.set_free()
        self.k.finish()
        self.assertEqual([e["data"]["text/plain"] for e in
                          self.k.of("result")], ["0"])
        self.assertEqual(len(self.k.of("done")), 1)
        self.assertEqual(self.k.text(), "")
        self.assertEqual(self.k.begun[-1], self.k.id)
        self.assertNotIn(self.k.id - 1, self.k.begun)

    def test_no_ticket_at_all(self):
        self.k.start("print('ran')", ticket=False)
        self.assertEqual(self.k.ask("ping")["ev"], "pong")
        self.assertEqual(self.plain("1"), "1")
        self.assertNotIn(self.k.id - 2, self.k.begun)

    def test_children_do_not_hold_it(self):
        self.assertEqual(self.plain(
            "import os\nr, w = os.pipe()\npid = os.fork()\n"
            "if pid == 0:\n"
            "    os.write(w, b'%d' % os.path.exists('/proc/self/fd/5'))\n"
            "    os._exit(0)\nos.waitpid(pid, 0)\nos.read(r, 9)"), "b'0'")
        self.assertEqual(self.plain(
            "import subprocess\nsubprocess.run(['test', '-e', "
            "'/proc/self/fd/5']).returncode"), "1")

    def test_a_closed_one_ends_the_interpreter(self):
        """Else no cell would ever run again, and nobody would know why."""
        self.k.run("import os\nos.close(5)")
        with self.assertRaises((EOFError, BrokenPipeError)):
            self.k.run("1")
        self.k.process.wait(PATIENCE)


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

    def test_in_a_cell_that_awaits(self):
        self.k.run("import asyncio, gc")
        for code in ("print('in')\nwhile True: pass\nawait asyncio.sleep(0)",
                     "await asyncio.sleep(0)\nprint('in')\n"
                     "while True: pass",
                     "async def inner():\n    print('in')\n"
                     "    await asyncio.sleep(1000)\n"
                     "await asyncio.sleep(0)\nasyncio.run(inner())"):
            self.interrupt(code, b"in\n")
            self.assertEqual(self.plain("gc.collect()\n"
                                        "await asyncio.sleep(0)\n7"), "7")
            self.assertEqual(self.k.text("err"), "", code)
        self.k.run("import sys\nawait asyncio.sleep(0)\nsys.exit()")
        self.k.run("gc.collect();")
        self.assertEqual(self.k.text("err"), "")

    def test_swallowed_once(self):
        self.k.start("import time\ntry:\n    print('on')\n"
                     "    time.sleep(1000)\n"
                     "except BaseException: print('two')\nwhile True: pass")
        self.k.wait_for("out", b"on\n")
        os.killpg(self.k.process.pid, signal.SIGINT)
        self.k.wait_for("out", b"two\n")
        os.killpg(self.k.process.pid, signal.SIGINT)
        self.assertEqual(self.k.finish()["status"], "interrupted")

    def test_swallowed_for_good(self):
        for end in ("pass", "sys.exit()"):
            self.k.start("import sys, time\ntry:\n    print('on')\n"
                         "    time.sleep(1000)\nexcept: " + end)
            self.k.wait_for("out", b"on\n")
            os.killpg(self.k.process.pid, signal.SIGINT)
            done = self.k.finish()
            self.assertEqual(done["status"], "interrupted")
            self.assertNotIn("error", done)
        self.assertEqual(self.k.run("1")["status"], "ok")

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


if __name__ == "__main__":
    main()
