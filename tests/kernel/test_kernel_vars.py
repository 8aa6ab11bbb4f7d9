#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel: lists of variables, snapshots, and bringing them back.

Prints TAP."""
import json
import os
import pickle
import resource
import signal
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernel_session import (  # noqa: E402
    HAS, PATIENCE, Kernel, Shared, main, needs)

GIB = 1 << 30
# Goes on whatever is raised in it but an interrupt.
DEAF = ("import time\nclass Deaf:\n"
        "    def %s(self, *_):\n"
        "        while True:\n"
        "            try:\n                time.sleep(1000)\n"
        "            except KeyboardInterrupt:\n                raise\n"
        "            except BaseException:\n                pass\n"
        "v = Deaf()\n")


class Vars(Shared):

    def setUp(self):
        super().setUp()
        self.k.run("for n in [n for n in globals() if n[0] != '_']:\n"
                   "    del globals()[n]\ndel n")

    def vars(self):
        answer = self.k.ask("vars")
        self.assertLess(len(answer["line"]), 1 << 20)
        return {v["name"]: (v["type"], v["size"]) for v in answer["vars"]}

    def test_replaced_builtins(self):
        """Pickles and the standard library look names up there."""
        if tuple(map(int, self.k.ready["python"].split(".")[:2])) < (3, 10):
            self.skipTest("older Pythons share the builtins of the caller")
        path = os.path.join(self.k.home.name, "builtins.snapshot")
        self.k.run("x = [1]\ny = {2: (3, 'b')}")
        self.vars()
        found = []
        for change in ("del builtins.%s", "builtins.%s = 1"):
            for name in ("bool", "dict", "int", "max", "memoryview", "object",
                         "ord", "range", "slice", "tuple"):
                for op in ("vars", "snapshot"):
                    self.k.run("import builtins\n" + change % name)
                    answer = self.k.ask(op, path=path)
                    names = [v["name"] for v in answer.get("vars", [])]
                    if (answer.get("saved") or names) != ["x", "y"] \
                            or answer["left_out"]:
                        found.append((change % name, answer))
        self.assertEqual(found, [])
        # What can be called may stay.
        self.k.run("def print(*_): pass\nbuiltins.print = print")
        self.k.ask("vars")
        self.assertEqual(self.k.result("builtins.print is print")["data"], {
            "text/plain": "True"})
        self.k.run("builtins.print = builtins.__dict__['print'] = None")
        self.k.ask("vars")
        self.assertEqual(self.k.result("callable(builtins.print)")["data"], {
            "text/plain": "True"})

    def test_ping(self):
        answer = self.k.ask("ping")
        self.assertEqual((answer["ev"], answer["id"]), ("pong", self.k.id))

    def test_names(self):
        """What a cell defined, not what it imported or the kernel put."""
        self.k.run("import os, json as j\nfrom math import pi, sqrt\n"
                   "from collections import OrderedDict, namedtuple\n"
                   "def f(a, *, b=2): return a\nclass C: pass\nc = C()\n"
                   "_hidden = 1\n__x = 2\ng = lambda q: q\n5")
        self.assertEqual(self.vars(), {
            "pi": ("float", "3.141592653589793"), "f": ("function", "(a, b)"),
            "C": ("type", ""), "c": ("C", ""), "g": ("function", "(q)")})

    def test_sizes(self):
        self.k.run("import datetime, decimal, pathlib\n"
                   "a = 5\nb = 1234567\nc = 'text'\nd = 'x' * 1000\n"
                   "e = [1, 2, 3]\nf = {'a': 1}\ng = None\nh = 1.5\n"
                   "i = 10 ** 5000\nj = b'ab'\nk = datetime.date(2024, 1, 2)\n"
                   "l = decimal.Decimal('1.10')\nm = range(10)\nn = True\n"
                   "o = pathlib.Path('x.csv')\np = set()\n"
                   "q = (i for i in [])")
        self.assertEqual({n: s for n, (_, s) in self.vars().items()}, {
            "a": "5", "b": "1,234,567", "c": "'text'", "d":
            "1,000 characters", "e": "3 items", "f": "1 item", "g": "None",
            "h": "1.5", "i": "an integer of 16,610 bits", "j": "b'ab'",
            "k": "2024-01-02", "l": "1.10", "m": "range(0, 10)", "n": "True",
            "o": "x.csv", "p": "0 items", "q": ""})

    @needs("pandas")
    def test_sizes_of_tables(self):
        self.k.run("import pandas as pd, numpy as np\n"
                   "df = pd.DataFrame(np.zeros((1_000_000, 10)))\n"
                   "s = df[0]\na = np.zeros((2, 3, 4))\nb = np.zeros(1500)\n"
                   "c = np.float64(1.5)\nd = pd.Timestamp('2024-01-02')\n"
                   "e = np.array(7)\nfrom numpy import log, mean")
        self.assertEqual(self.vars(), {
            "df": ("DataFrame", "1,000,000 x 10"),
            "s": ("Series", "1,000,000 items"), "a": ("ndarray", "2 x 3 x 4"),
            "b": ("ndarray", "1,500 items"), "c": ("float64", "1.5"),
            "d": ("Timestamp", "2024-01-02 00:00:00"), "e": ("ndarray", "")})

    def test_hostile_objects(self):
        self.k.run(
            "class L:\n  def __len__(self): raise SystemExit\n"
            "class S:\n  shape = property(lambda s: 1/0)\n"
            "class B:\n  def __len__(self): return -5\n"
            "class T:\n  shape = ('a', 10 ** 9)\n"
            "class G:\n  def __getattribute__(self, n): raise MemoryError\n"
            "class P:\n  __class__ = property(lambda s: 1/0)\n"
            "class I:\n  def __len__(self): raise KeyboardInterrupt\n"
            "class M(type):\n  def __getattribute__(c, n): 1/0\n"
            "class X(metaclass=M): pass\n"
            "class %s: pass\n"
            "objects = [k() for k in (L, S, B, T, G, P, I)]\n"
            "l, s, b, t, g, p, i = objects\nx = X\nlong = %s()"
            % ("N" * 5000, "N" * 5000))
        found = self.vars()
        self.assertEqual({n: found[n][1] for n in "lsbtgpi"}, {
            "l": "?", "s": "?", "b": "", "t": "", "g": "?", "p": "",
            "i": "?"})
        self.assertLessEqual(len(found["long"][0]), 64)
        self.assertEqual(self.plain("1"), "1")

    def test_one_that_hangs_is_given_up(self):
        self.k.run("class H:\n  def __len__(self):\n    while True: pass\n"
                   "h = H()\nafter = 7")
        found = self.vars()
        self.assertEqual((found["h"][1], found["after"][1]), ("?", "7"))

    def test_interrupt(self):
        self.k.run(DEAF % "__len__")
        self.k.ask_only("vars")
        self.interrupt("vars")
        self.k.run("del v, Deaf")
        self.assertEqual(self.plain("1"), "1")

    def interrupt(self, op):
        """SIGINT until it is answered: it may come before the request."""
        deadline = time.monotonic() + PATIENCE
        while not self.k.of(op):
            self.assertLess(time.monotonic(), deadline)
            os.killpg(self.k.process.pid, signal.SIGINT)
            try:
                self.k.wait(op, self.k.id, 0.3)
            except AssertionError:
                pass
        self.assertEqual(self.k.of(op)[0]["error"], "interrupted")

    def test_many_and_long_names(self):
        self.k.run("for i in range(700): globals()['v%d' % i] = i\n"
                   "globals()['\\u00e9' * 100000] = 1\n"
                   "for i in range(500): globals()['\\u00e9' * 3000 + str(i)]"
                   " = '\\u00e9' * 60")
        answer = self.k.ask("vars")
        self.assertEqual((len(answer["vars"]), answer["left_out"]),
                         (500, 702))
        self.assertLess(len(answer["line"]), 1 << 20)

    def test_what_variables_print_belongs_to_no_cell(self):
        self.k.run("class N:\n  def __len__(self):\n"
                   "    print('noise'); display(1); return 3\nn = N()")
        answer = self.k.ask("vars")
        self.assertEqual([v["size"] for v in answer["vars"]
                          if v["name"] == "n"], ["3 items"])
        self.assertEqual(self.k.of("display"), [])
        early = self.k.bytes["out"]
        self.k.run("1")
        self.assertEqual((early, self.k.text()), (b"", ""))


class Snapshots(unittest.TestCase):

    def kernel(self, **fields):
        kernel = Kernel(**fields)
        self.addCleanup(kernel.close)
        return kernel

    def setUp(self):
        self.k = self.kernel()
        self.dir = os.path.join(self.k.home.name, ".state")
        self.path = os.path.join(self.dir, "s")

    def save(self, code=None, limit_s=60, limit_bytes=GIB):
        if code is not None:
            done = self.k.run(code)
            self.assertEqual(done["status"], "ok", done)
        answer = self.k.ask("snapshot", path=self.path, limit_s=limit_s,
                            limit_bytes=limit_bytes)
        self.assertLess(len(answer["line"]), 1 << 20)
        if "error" not in answer:
            self.assertEqual(os.listdir(self.dir), ["s"])
            self.assertEqual(answer["bytes"], os.path.getsize(self.path))
        return answer

    def left_out(self, answer):
        return {entry["name"]: entry["why"] for entry in answer["left_out"]}

    def restore(self, kernel=None):
        """Into a fresh interpreter, by default."""
        kernel = kernel or self.kernel()
        return kernel, kernel.ask("restore", path=self.path)

    def plain(self, kernel, code):
        return kernel.result(code)["data"]["text/plain"]

    def test_round_trip(self):
        answer = self.save(
            "import math, json as j\nfrom math import sqrt\n"
            "from collections import Counter\na = 1\nb = ['x', {2.5: None}]\n"
            "same = b\ninner = [b]\n_x = 1\nc = Counter('hello')")
        self.assertEqual(answer["saved"], ["a", "b", "same", "inner", "c"])
        self.assertEqual(answer["left_out"], [])
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)
        k, answer = self.restore()
        self.assertEqual(answer["restored"], ["a", "b", "same", "inner", "c"])
        self.assertEqual(answer["left_out"], [])
        # One object under two names stays one; inside of others it is a copy.
        self.assertEqual(self.plain(
            k, "a, b, same is b, inner[0] == b, inner[0] is b"),
            "(1, ['x', {2.5: None}], True, True, False)")
        self.assertEqual(self.plain(k, "math.pi > 3, j.dumps([1]), sqrt(4), "
                                    "Counter is type(c), '_x' in globals()"),
                         "(True, '[1]', 2.0, True, False)")

    def test_restoring_replaces_what_is_there(self):
        self.save("a = [1]")
        self.k.run("a = 5\nb = 6")
        self.restore(self.k)
        self.assertEqual(self.plain(self.k, "a, b"), "([1], 6)")

    @needs("pandas")
    def test_tables(self):
        self.save("import pandas as pd, numpy as np\n"
                  "df = pd.DataFrame({'a': range(100000), 'b': 'x'})\n"
                  "z = np.arange(10.)\n"
                  "cat = pd.Series(['u', 'v'], dtype='category')")
        k, answer = self.restore()
        self.assertEqual(answer["restored"], ["df", "z", "cat"])
        self.assertEqual(self.plain(k, "df.a.sum(), list(df.b[:2]), z.sum(), "
                                    "pd.__name__"),
                         "(4999950000, ['x', 'x'], 45.0, 'pandas')"
                         if "np." not in self.plain(k, "z.sum().__repr__()")
                         else "(np.int64(4999950000), ['x', 'x'], "
                         "np.float64(45.0), 'pandas')")

    @needs("matplotlib")
    def test_figures(self):
        self.save("import matplotlib.pyplot as plt\n"
                  "fig, ax = plt.subplots()\nax.plot([1, 2])")
        k, answer = self.restore()
        self.assertEqual(answer["left_out"], [])
        k.run("fig")
        self.assertIn("image/png", k.of("result")[0]["data"])

    def test_what_cannot_be_saved_is_named(self):
        answer = self.save(
            "import threading, sqlite3, socket, sys\n"
            "gen = (i for i in 'ab')\nlock = threading.Lock()\n"
            "con = sqlite3.connect(':memory:')\nfile = open('f', 'w')\n"
            "frame = sys._getframe()\nspace = globals()\n"
            "deep = []\nfor i in range(100000): deep = [deep]\n"
            "class Bad:\n  def __reduce__(self): raise SystemExit('no')\n"
            "class Bad2:\n  def __reduce__(self): raise KeyboardInterrupt\n"
            "ok = 1")
        why = self.left_out(answer)
        self.assertEqual(why["gen"], "generator objects cannot be saved")
        self.assertEqual(why["lock"], "_thread.lock objects cannot be saved")
        self.assertEqual(why["con"],
                         "sqlite3.Connection objects cannot be saved")
        self.assertTrue(why["file"])
        self.assertIn("nested too deeply", why["deep"])
        self.assertEqual(why["space"], "it is the table of all variables")
        self.assertLessEqual({"ok", "i"}, set(answer["saved"]))
        k, answer = self.restore()
        self.assertEqual(answer["left_out"], [])
        self.assertLessEqual({"ok", "i"}, set(answer["restored"]))

    def test_hostile_pickling(self):
        self.k.run("import sys\nsys.path.insert(0, '.')\n"
                   "open('hostile.py', 'w').write('''\n"
                   "class Exit:\n  def __reduce__(self): raise SystemExit\n"
                   "class Stop:\n  def __reduce__(self):\n"
                   "    raise KeyboardInterrupt\n"
                   "class Noise:\n  def __reduce__(self):\n"
                   "    print('noise'); display(1); return list, ()\n''')\n"
                   "import hostile")
        answer = self.save("a = hostile.Exit()\nb = hostile.Stop()\n"
                           "c = hostile.Noise()\nd = 4")
        self.assertEqual(answer["saved"], ["c", "d"])
        self.assertEqual(set(self.left_out(answer)), {"a", "b"})
        self.assertEqual((self.k.of("display"), self.k.bytes["out"]),
                         ([], b""))

    @unittest.skipIf(HAS["cloudpickle"], "cloudpickle is installed")
    def test_functions_without_cloudpickle(self):
        answer = self.save("def f(): pass\nclass A: pass\na = A()\n"
                           "n = [A]\nx = 1")
        self.assertEqual(answer["saved"], ["x"])
        for name in ("f", "A", "a", "n"):
            self.assertIn("cloudpickle", self.left_out(answer)[name])

    @needs("cloudpickle")
    def test_functions_with_cloudpickle(self):
        answer = self.save(
            "import math\nbase = 10\nbig = bytes(10_000_000)\n"
            "def f(x, y=2, *, z=3):\n    'doc'\n"
            "    return base + x + y + z + math.floor(0.5)\n"
            "def size(): return len(big)\n"
            "def fact(n): return 1 if n < 2 else n * fact(n - 1)\n"
            "def make():\n    n = 5\n    def inner(k):\n"
            "        return n if k == 0 else inner(k - 1)\n    return inner\n"
            "inner = make()\n"
            "class A:\n    def __init__(self): self.v = 7\n"
            "    def get(self): return self.v + base\n"
            "class B(A):\n    def get(self): return super().get() + 1\n"
            "a = A()\nb = B()\ng = lambda q: q * base\nf.attribute = 1")
        self.assertEqual(answer["left_out"], [])
        # What a function uses is not saved with it.
        self.assertLess(answer["bytes"], 11_000_000)
        k, answer = self.restore()
        self.assertEqual(answer["left_out"], [])
        self.assertEqual(self.plain(
            k, "f(1), f.__doc__, f.attribute, size(), fact(5), inner(3), "
            "a.get(), b.get(), type(a) is A, isinstance(b, A), g(2)"),
            "(16, 'doc', 1, 10000000, 120, 5, 17, 18, True, True, 20)")
        # It sees what becomes of the variables.
        k.run("base = 100\ndef fact(n): return 'new'")
        self.assertEqual(self.plain(k, "f(1), a.get(), g(2)"),
                         "(106, 107, 200)")

    def test_limit_of_size(self):
        answer = self.save("a = 1\nbig = bytes(3_000_000)\nz = 'z' * 1000",
                           limit_bytes=1 << 20)
        self.assertEqual(answer["saved"], ["a", "z"])
        self.assertEqual(self.left_out(answer),
                         {"big": "the snapshot would be larger than 1.05 MB"})
        self.assertLess(answer["bytes"], 1 << 20)
        k, answer = self.restore()
        self.assertEqual((answer["restored"], answer["left_out"]),
                         (["a", "z"], []))

    def test_names_that_are_none(self):
        answer = self.save("globals().update({'a b': 1, '\\n': 2, '': 3, "
                           "'\u202e': 4})\nx = 1")
        self.assertEqual(answer["saved"], ["x"])
        self.assertEqual(set(self.left_out(answer).values()),
                         {"it has no name that code can use"})
        self.assertEqual(len(answer["left_out"]), 4)
        k, answer = self.restore()
        self.assertEqual((answer["restored"], answer["left_out"]),
                         (["x"], []))

    def test_limit_of_variables(self):
        answer = self.save("globals().update(('v%d' % i, i) "
                           "for i in range(12000))")
        self.assertEqual((len(answer["saved"]), answer["more"]), (10000, 0))
        self.assertEqual(len(answer["left_out"]), 1000)
        self.assertEqual(answer["left_out_more"], 1000)
        self.assertEqual(self.left_out(answer)["v10000"],
                         "there are too many variables")
        k, answer = self.restore()
        self.assertEqual((len(answer["restored"]), answer["more"]),
                         (10000, 0))
        self.assertEqual((answer["left_out"], answer["left_out_more"]),
                         ([], 0))

    def test_many_that_cannot_be_saved(self):
        answer = self.save("globals().update(('g%d' % i, (i for i in [])) "
                           "for i in range(9000))\nx = 1")
        self.assertEqual(answer["saved"], ["x"])
        self.assertEqual(len(answer["left_out"]), 1000)
        self.assertEqual(answer["left_out_more"], 8000)
        k, answer = self.restore()
        self.assertEqual((answer["restored"], answer["left_out"]),
                         (["x"], []))

    def test_limit_of_time(self):
        self.k.run("import sys\nsys.path.insert(0, '.')\n"
                   "open('slow.py', 'w').write('''\n"
                   "class Slow:\n  def __reduce__(self):\n"
                   "    while True: pass\n''')\nfrom slow import Slow")
        start = time.monotonic()
        answer = self.save("a = 1\nslow = Slow()\nb = 2", limit_s=2)
        self.assertLess(time.monotonic() - start, PATIENCE)
        self.assertEqual(answer["saved"], ["a", "b"])
        self.assertEqual(self.left_out(answer),
                         {"slow": "it took too long"})
        answer = self.save("slow2 = Slow()\nslow3 = Slow()\nslow4 = Slow()\n"
                           "c = 3", limit_s=0.2)
        self.assertIn("slow4", self.left_out(answer))

    def test_interrupt_leaves_the_older_file(self):
        self.save("a = 1")
        with open(self.path, "rb") as f:
            before = f.read()
        self.k.run(DEAF % "__reduce__")
        if not HAS["cloudpickle"]:
            self.k.run("import sys\nsys.path.insert(0, '.')\n"
                       "open('deaf.py', 'w').write('''%s''')\n"
                       "from deaf import v" % (DEAF % "__reduce__"))
        self.k.ask_only("snapshot", path=self.path, limit_s=600,
                        limit_bytes=GIB)
        Vars.interrupt(self, "snapshot")
        self.assertEqual(os.listdir(self.dir), ["s"])
        with open(self.path, "rb") as f:
            self.assertEqual(f.read(), before)
        self.assertEqual(self.plain(self.k, "a"), "1")

    def test_no_place_for_the_file(self):
        for path in ("/proc/none/s", self.k.home.name, "", None):
            answer = self.k.ask("snapshot", path=path, limit_s=5,
                                limit_bytes=GIB)
            self.assertTrue(answer["error"], path)
            self.assertNotIn("saved", answer)
        self.assertEqual([n for n in os.listdir(self.k.home.name)
                          if n.endswith("tmp")], [])
        self.assertEqual(self.plain(self.k, "1"), "1")

    def test_no_room(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        self.k.close()
        self.k = self.kernel(preexec=limit)
        self.dir = os.path.join(self.k.home.name, ".state")
        self.path = os.path.join(self.dir, "s")
        answer = self.save("a = 1\nbig = bytes(1000000)\nz = 2")
        self.assertEqual(answer["saved"], ["a", "z"])
        self.assertEqual(self.left_out(answer), {
            "big": "there is no room for it: File too large"})

    def write(self, data):
        os.makedirs(self.dir, exist_ok=True)
        with open(self.path, "wb") as f:
            f.write(data)

    def test_files_that_are_no_snapshot(self):
        head = b'sandpiper-snapshot 1 {"python": "3", "names": []}\n'
        for data, text in (
                (b"", "no snapshot"), (b"\0" * 5000, "no snapshot"),
                (b"x" * 9_000_000, "no snapshot"),
                (head[:20], "no snapshot"), (head[:-5], "no snapshot"),
                (b"sandpiper-snapshot 7 {}\n", "version 7 can't be read"),
                (b"sandpiper-snapshot 1 {}\n", "damaged"),
                (b"sandpiper-snapshot 1 {{\n", "no snapshot"),
                (b'sandpiper-snapshot 1 {"names": 5}\n', "damaged"),
                (b'sandpiper-snapshot 1 {"names": ' + b"9" * 4000000 + b"}\n",
                 "damaged"),
                (b'sandpiper-snapshot 1 {"a":' + b"[" * 200000 + b"}\n",
                 "damaged")):
            self.write(data)
            answer = self.restore(self.k)[1]
            self.assertIn(text, answer["error"], data[:60])
        os.unlink(self.path)
        self.assertIn("No such file", self.restore(self.k)[1]["error"])
        os.mkfifo(self.path)
        self.assertIn("no regular file", self.restore(self.k)[1]["error"])
        os.unlink(self.path)
        os.symlink("/etc/passwd", self.path)
        self.assertTrue(self.restore(self.k)[1]["error"])
        self.assertEqual(self.plain(self.k, "1"), "1")

    def test_cut_off_anywhere(self):
        """What was read is there, what was not is named."""
        names = ["a", "b", "c"]
        self.save("a = 'A' * 50\nb = list(range(50))\nc = {'c': 1}")
        with open(self.path, "rb") as f:
            whole = f.read()
        head = whole.index(b"\n") + 1
        for n in list(range(head, len(whole), 7)) + [len(whole) - 1]:
            self.write(whole[:n])
            self.k.run("a = b = c = None")
            answer = self.restore(self.k)[1]
            got, lost = answer["restored"], self.left_out(answer)
            self.assertEqual(sorted(got + list(lost)), names, n)
            self.assertEqual(got, names[:len(got)])
            self.assertEqual(self.plain(
                self.k, "[x is None for x in (a, b, c)]"),
                str([name in lost for name in names]))

    def test_flipped_bytes(self):
        self.save("a = 'A' * 50\nb = list(range(50))\nc = {'c': 1}")
        with open(self.path, "rb") as f:
            whole = f.read()
        for n in range(0, len(whole), 11):
            data = bytearray(whole)
            data[n] ^= 0xff
            self.write(bytes(data))
            answer = self.restore(self.k)[1]
            self.assertTrue("error" in answer or "restored" in answer)
        self.assertEqual(self.plain(self.k, "1"), "1")

    def records(self, *records, names=()):
        out = b"sandpiper-snapshot 1 " + json.dumps(
            {"python": "3", "names": list(names)}).encode() + b"\n"
        for name, data in records:
            text = json.dumps([name]).encode()
            out += struct.pack(">QI", len(data), len(text)) + text + data
        return out + struct.pack(">QI", 0, 2) + b"[]"

    def test_hostile_records(self):
        def call(function, *args):
            class Call:
                def __reduce__(self):
                    return function, args
            return pickle.dumps(Call(), 4)
        good = pickle.dumps(5)
        self.write(self.records(
            ("exit", call(sys.exit, 3)), ("a", good),
            ("stop", call(exec, "raise KeyboardInterrupt")),
            ("huge", b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f"),
            ("many", b"\x80\x04" + b"(" * 3000000),
            ("gone", b"\x80\x04cno_such_module\nx\n."),
            ("junk", b"\xff" * 100), ("__builtins__", good), ("_x", good),
            ("1x", good), ("x" * 5000, good), ("z", good)))
        answer = self.restore(self.k)[1]
        self.assertEqual(answer["restored"], ["a", "z"])
        self.assertEqual(set(self.left_out(answer)), {
            "exit", "stop", "huge", "many", "gone", "junk"})
        self.assertIn("no_such_module", self.left_out(answer)["gone"])
        self.assertEqual(self.plain(self.k, "a + z"), "10")
        # Lengths that are not true.
        self.write(self.records(names=["q"])[:-14]
                   + struct.pack(">QI", 1 << 62, 5) + b'["q"]')
        answer = self.restore(self.k)[1]
        self.assertEqual(self.left_out(answer),
                         {"q": "the snapshot ends before it"})

    def test_one_that_ends_the_interpreter(self):
        class Leave:
            def __reduce__(self):
                return os._exit, (7,)
        self.write(self.records(("x", pickle.dumps(Leave()))))
        with self.assertRaises(EOFError):
            self.restore(self.k)
        self.assertEqual(self.k.process.wait(10), 7)

    def test_restoring_is_interruptible(self):
        hangs = os.path.join(self.k.home.name, "hangs")

        class Hang:
            def __reduce__(self):
                return exec, ("open(%r, 'w').close()\n"
                              "while True: pass" % hangs,)
        self.write(self.records(("a", pickle.dumps(1)),
                                ("x", pickle.dumps(Hang())),
                                ("b", pickle.dumps(2))))
        self.k.ask_only("restore", path=self.path)
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(hangs):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        Vars.interrupt(self, "restore")
        self.assertEqual(self.k.of("restore")[0]["restored"], ["a"])
        self.assertEqual(self.plain(self.k, "a"), "1")

    def test_many_names(self):
        self.save("for i in range(9000):\n"
                  "    globals()['\u00e9' * 100 + str(i)] = i\nlast = 1")
        answer = self.restore()[1]
        self.assertNotIn("error", answer)
        self.k.run("for n in [n for n in globals() if n[0] != '_']:\n"
                   "    del globals()[n]")
        answer = self.save("for i in range(12000):\n"
                           "    globals()['v' * 60 + str(i)] = i\n"
                           "globals()['w' * 500] = 1")
        n_saved = len(answer["saved"]) + answer["more"]
        self.assertEqual(n_saved + len(answer["left_out"])
                         + answer["left_out_more"], 12003)
        self.assertEqual(len(answer["left_out"]), 1000)
        self.assertGreater(len(answer["saved"]), 4000)
        answer = self.restore()[1]
        self.assertEqual(len(answer["restored"]) + answer["more"], n_saved)
        self.assertEqual(answer["left_out"], [])
        self.assertLess(len(answer["line"]), 1 << 20)


if __name__ == "__main__":
    main()
