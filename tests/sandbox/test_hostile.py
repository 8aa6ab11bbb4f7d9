#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells that attack the kernel they share a process with, and the client that
reads what comes out. Whatever they do, the client stays in step and the next
cell runs, in the same interpreter or in a new one that is announced."""

import json
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from attack_program import main  # noqa: E402
from sandbox_session import (FORGE, attack, level, open_session,  # noqa: E402
                             peak_mib, wait_until)

_shared = {}


def sandbox():
    if "sb" not in _shared:
        _shared["sb"] = open_session()
    return _shared["sb"]


def fresh():
    """A test that failed leaves a sandbox that nothing can be said about."""
    if "sb" in _shared:
        _shared.pop("sb").close()


def check_next(lost):
    """The next cell runs and is answered for itself; lost: whether the
    interpreter is a new one (None: either)."""
    sb = sandbox()
    cell = sb.cell("print('next', 'kept' in globals())\n6 * 7")
    assert cell.end == "done" and cell.outcome == "ok", cell
    assert [o["text"] for o in cell.outputs if o["result"]] == ["42"], cell
    word = cell.stdout.split()
    assert word[0] == "next", cell
    if lost is not None:
        assert word[1] == str(not lost), cell
    _shared["checked"] = True


def run(code, **more):
    if not _shared.get("checked"):
        fresh()
    _shared["checked"] = False
    sandbox().cell("kept = 1")
    return sandbox().cell(code, **more)


# ---- the end of the interpreter --------------------------------------------

ENDS = {
    "exit status 7": "import os\nos._exit(7)",
    "segmentation fault": "import ctypes\nctypes.string_at(1)",
    "aborted": "import os\nos.abort()",
    "killed": "import os\nos.kill(os.getpid(), 9)",
}


@attack(52)
@tap.timeout(60)
def test_death_is_said_and_mended():
    for words, code in ENDS.items():
        cell = run(code)
        assert cell.outcome == "died", (words, cell)
        assert cell.end == "restarted" and cell.lost, (words, cell)
        assert words in cell.reason, (words, cell)
        assert "Variables" in cell.reason, cell
        check_next(lost=True)


@attack(52)
@tap.timeout(60)
def test_a_death_that_is_told_late():
    """A machine that is busy lets the end of the interpreter be known long
    before bubblewrap tells how it ended."""
    fresh()
    with open_session() as sb:
        sb.cell("x = 1")
        outer, inner, kernel = sb.descendants()[:3]
        os.kill(outer, signal.SIGSTOP)
        try:
            sb.start_cell("import os\nos._exit(7)")
            wait_until(lambda: not os.path.exists("/proc/%d" % kernel), 10,
                       "the interpreter is gone")
            try:
                raise RuntimeError("told too early: %s" % sb.wait("cell", 1))
            except AssertionError:
                pass
        finally:
            os.kill(outer, signal.SIGCONT)
        cell = sb.finish_cell()
        assert "exit status 7" in cell.reason, cell


@attack(52)
def test_kill_of_everybody():
    """Process 1 is one of the sandbox's own, which such a signal is lost for,
    or somebody else's and out of reach."""
    cell = run("import os\ntry:\n    os.kill(1, 9)\n"
               "except PermissionError:\n    print('refused')\n"
               "print('alive')")
    assert cell.stdout == ("refused\nalive\n" if level() == "reduced"
                           else "alive\n"), cell
    check_next(lost=False)
    # All that it may signal are its own children.
    cell = run("import os, subprocess\nc = subprocess.Popen(['sleep', '60'])\n"
               "os.kill(-1, 9)\nprint('alive', c.wait())")
    assert cell.outcome in ("ok", "error", "died"), cell
    if cell.outcome == "died":
        assert cell.end == "restarted" and cell.lost, cell
        assert "killed" in cell.reason, cell
    check_next(lost=cell.outcome == "died")


@attack(62)
def test_exit_does_not_end_the_interpreter():
    for code in ("import sys\nsys.exit(3)", "exit()", "raise SystemExit"):
        cell = run(code)
        assert not cell.lost and cell.end == "done", (code, cell)
        check_next(lost=False)


@attack(62)
@tap.timeout(60)
def test_recursion():
    cell = run("def f():\n    f()\nf()")
    assert cell.outcome == "error" and cell.error == "RecursionError", cell
    check_next(lost=False)
    cell = run("import sys\nsys.setrecursionlimit(10 ** 9)\n"
               "def f(n):\n    return [f(n + 1)]\nf(0)", timeout_ms=3000)
    check_next(lost=None)


@attack(61)
def test_nobody_at_the_keyboard():
    for code in ("input()", "import getpass\ngetpass.getpass()",
                 "breakpoint()"):
        cell = run(code, timeout_ms=5000)
        assert cell.outcome == "error", (code, cell)
        assert "keyboard" in (cell.value or "") + (cell.hint or ""), cell
        assert cell.ms < 3000 * tap.FACTOR, (code, cell.ms)
    for code in ("sys.stdin.read()", "sys.stdin.readline()", "os.read(0, 9)",
                 "open(0).read()", "open('/dev/stdin').read()"):
        cell = run("import os, sys\nprint(len(%s))" % code, timeout_ms=5000)
        assert cell.outcome == "error" or cell.stdout == "0\n", (code, cell)
        assert cell.outcome in ("ok", "error"), (code, cell)
    cell = run("import os, sys\nprint(os.system('read x; echo $?'))\n"
               "print(os.isatty(0), os.isatty(1), os.isatty(2))",
               timeout_ms=5000)
    assert cell.stdout == "1\n0\nFalse False False\n", cell
    check_next(lost=False)


@attack(69)
def test_pip_is_explained_at_once():
    for code in ("!pip install requests", "%pip install requests"):
        # What is loaded ahead takes its time, too.
        run("import pandas, matplotlib.pyplot")
        cell = sandbox().cell(code)
        said = cell.text + json.dumps(cell.notes) + (cell.value or "") + \
            (cell.hint or "")
        assert "no network" in said or "installed from here" in said, cell
        assert cell.ms < 1000 * tap.FACTOR, cell
    check_next(lost=False)


# ---- hostile objects -------------------------------------------------------

OBJECTS = {
    "raises": "raise ValueError('no')",
    "exits": "raise SystemExit(1)",
    "interrupts": "raise KeyboardInterrupt",
    "no text": "return 5",
    "large": "return 'r' * (100 << 20)",
    "surrogate": "return '\\ud800' + chr(0)",
    "prints": "print('from repr'); return 'x'",
    "deep": "return repr(self)",
}


@attack(62)
@tap.timeout(60)
def test_hostile_repr():
    for name, body in OBJECTS.items():
        cell = run("class H:\n    def __repr__(self):\n        %s\n"
                   "    __str__ = __repr__\nH()" % body, timeout=20)
        assert cell.end == "done", (name, cell)
        for out in cell.outputs:
            assert len(out["text"] or "") < 80000, name
        check_next(lost=False)


@attack(62)
@tap.timeout(60)
def test_hostile_errors():
    """Exceptions whose text is an attack, raised by the cell."""
    for name, body in OBJECTS.items():
        cell = run("class E(Exception):\n    def __str__(self):\n        %s\n"
                   "    __repr__ = __str__\n"
                   "    def __getattribute__(self, name):\n"
                   "        raise SystemExit(name)\n"
                   "raise E('x')" % body, timeout=20)
        assert cell.end == "done", (name, cell)
        assert cell.outcome in ("error", "ok"), (name, cell)
        assert len(cell.value or "") < 5000, name
        check_next(lost=False)


@attack(54)
def test_forged_errors_are_cut():
    """What is said of an error is passed on and kept: not 5 MiB of it."""
    cell = run("""
import json, os, sys
id = sys.modules["sandpiper_kernel"].S.id
big = "v" * (5 << 19)
os.write(4, (json.dumps({"ev": "note", "id": id, "kind": "limit",
                         "text": "n" * 50000}) + "\\n").encode())
line = json.dumps({"ev": "done", "id": id, "status": "error", "error": {
    "name": big, "value": big, "traceback": big, "hint": big}}).encode()
data = memoryview(line + b"\\n")
while data:
    data = data[os.write(4, data):]
""", timeout=20)
    assert cell.outcome == "error", cell.outcome
    for text, most in ((cell.error, 1 << 10), (cell.value, 1 << 15),
                       (cell.traceback, 1 << 17), (cell.hint, 1 << 15)):
        assert 0 < len(text) <= most, len(text)
    assert [len(note["text"]) for note in cell.notes] == [1 << 15], cell.notes
    check_next(lost=False)


@attack(60)
def test_hostile_display_methods():
    """Only data of known kinds; markup is never taken over."""
    cell = run("""
class H:
    def _repr_html_(self):
        return "<script>fetch('http://127.0.0.1/')</script>"
    def _repr_svg_(self):
        return "<svg onload='x'/>"
    def _repr_javascript_(self):
        return "alert(1)"
    def __repr__(self):
        return "plain"
H()
""")
    assert [o["text"] for o in cell.outputs] == ["plain"], cell
    assert "script" not in json.dumps(cell.outputs), cell
    cell = run("""
class P:
    def __init__(self, data):
        self.data = data
    def _repr_png_(self):
        return self.data
    def __repr__(self):
        return "P"
for data in (b"", b"no png", b"\\x89PNG\\r\\n\\x1a\\n", 5, None, "text",
             b"\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR\\0\\0\\xff\\xff\\0\\0\\xff\\xff"
             b"\\x08\\x02\\0\\0\\0\\0\\0\\0\\0"):
    display(P(data))
""")
    assert cell.end == "done", cell
    for out in cell.outputs:
        assert out["png"] == 0, out
    check_next(lost=False)


@attack(62)
@tap.timeout(60)
def test_monkey_patching():
    """What an analyst's accident may replace leaves the kernel as it is; what
    only an attack replaces may end it, within the time limit."""
    cell = run("import builtins, json\n"
               "json.dumps = json.loads = json.JSONEncoder = None\n"
               "len = print = list = 5\n"
               "builtins.len = builtins.isinstance = builtins.str = None")
    assert cell.end == "done", cell
    cell = sandbox().cell("6 * 7", timeout_ms=5000)
    assert cell.outcome == "ok" and cell.outputs[0]["text"] == "42", cell
    fresh()
    cell = run("import os, time, signal, sys\nos.write = os.read = None\n"
               "time.monotonic = None\nsignal.pthread_sigmask = None\n"
               "sys.stdout.write = None", timeout_ms=3000)
    for _ in range(4):
        cell = sandbox().cell("6 * 7", timeout_ms=2000)
        if cell.outcome == "ok" and [o["text"] for o in cell.outputs] == [
                "42"]:
            break
    else:
        raise AssertionError("never well again: %r" % cell)
    fresh()


# ---- descriptors -----------------------------------------------------------

@attack(53)
@tap.timeout(60)
def test_closed_descriptors():
    cell = run("import os\nfor fd in (0, 1, 2):\n    os.close(fd)")
    assert cell.end == "done", cell
    check_next(lost=False)
    cell = run("import os\nos.closerange(0, 1024)")
    assert cell.end == "restarted" and cell.outcome == "died", cell
    assert cell.lost and cell.reason, cell
    check_next(lost=True)
    cell = run("import os, time\nos.close(4)\ntime.sleep(60)",
               timeout_ms=20000)
    assert cell.outcome == "died" and cell.lost, cell
    check_next(lost=True)
    # Without requests it ends with the next one, if not at once.
    cell = run("import os\nos.close(3)")
    cell = sandbox().cell("1")
    assert cell.end == "done" or cell.lost, cell
    check_next(lost=cell.lost)
    # Their places taken by files of the cell's own.
    cell = run("import os\nfor fd in (0, 1, 2):\n    os.close(fd)\n"
               "held = [os.open('/workspace/f%d' % fd, os.O_RDWR | os.O_CREAT)"
               "\n        for fd in (0, 1, 2)]\nprint('into the file')")
    assert cell.end == "done", cell
    check_next(lost=False)


def lose_to_thieves(fd, before="pass"):
    """Threads of a cell take what is for the interpreter; more than it has of
    its own. What is stolen runs into its limit."""
    run("import os, threading\n" + before + "\ndef steal():\n"
        "    while True:\n        os.read(%d, 65536)\n"
        "for i in range(8):\n"
        "    threading.Thread(target=steal, daemon=True).start()" % fd,
        timeout_ms=2000)
    outcomes = []
    for _ in range(10):
        cell = sandbox().cell("1", timeout_ms=500)
        outcomes.append(cell.outcome)
        if cell.end == "restarted":
            break
    assert cell.end == "restarted" and cell.lost, outcomes
    assert cell.outcome == "killed" and cell.reason, cell
    check_next(lost=True)


@attack(53)
@tap.timeout(60)
def test_tickets_that_are_misused():
    """Whatever a cell does to its descriptor, the client waits for nothing but
    its events."""
    cell = run("import os\nos.set_blocking(5, True)\nkept = 1")
    for _ in range(3):
        cell = sandbox().cell("kept")
        assert cell.outcome == "ok" and not cell.lost, cell
    lose_to_thieves(5, "os.set_blocking(5, True)")
    cell = run("import os\nos.close(5)")
    cell = sandbox().cell("1")
    assert cell.outcome == "died" and cell.lost, cell
    check_next(lost=True)


@attack(53)
def test_replaced_streams():
    cell = run("import sys\nsys.stdout = sys.stderr = None")
    assert cell.end == "done", cell
    check_next(lost=None)


@attack(57)
@tap.timeout(60)
def test_thread_that_reads_the_requests():
    """The cell that is stolen runs into its time limit, and the interpreter,
    which does not know of it, is ended."""
    lose_to_thieves(3)


# ---- forged events ---------------------------------------------------------

@attack(54)
def test_forged_done_of_others():
    cell = run(FORGE + """
for i in (0, -1, 10 ** 6, 10 ** 30, "1", None, [1], 1.5):
    forge(ev="done", id=i, status="ok", n=1, ms=1)
forge(ev="ready", v=[1], python="9", modules={})
forge(ev="pong", id=1)
forge(ev="fatal", text="give up")
forge(ev="unknown", id=me)
forge(ev="done", id=me - 1, status="ok")
forge(ev="done", id=me + 1, status="ok")
forge(ev="result", id=10 ** 6, data={"text/plain": "FORGED"})
import time
time.sleep(0.5)
print("still here")
""")
    assert cell.outcome == "ok" and "still here" in cell.stdout, cell
    assert not cell.outputs, cell
    assert cell.ms >= 500, cell
    check_next(lost=False)


@attack(54)
def test_forged_done_of_this_cell():
    """It may end its own cell early; then it is over, and what comes later
    belongs to no cell."""
    cell = run(FORGE + """
print("before", flush=True)
forge(ev="done", id=me, status="ok", n=1, ms=1)
forge(ev="result", id=me, data={"text/plain": "LATE"})
""")
    assert cell.end == "done" and cell.outcome == "ok", cell
    assert "LATE" not in json.dumps(cell.outputs), cell
    check_next(lost=False)


@attack(54)
def test_false_numbers_are_not_believed():
    cell = run(FORGE + """
import time
time.sleep(0.3)
forge(ev="done", id=me, status="ok", n=1, ms=1, mem=5)
""")
    assert cell.end == "done" and cell.ms >= 300, cell
    check_next(lost=False)


@attack(54)
def test_many_unasked_events():
    cell = run(FORGE + """
import time
for i in range(200):
    forge(ev="pong", id=10 ** 6 + i)
time.sleep(5)
""", timeout_ms=8000)
    assert cell.outcome == "died" and cell.end == "restarted", cell
    assert "asked" in cell.reason, cell
    check_next(lost=True)


GARBAGE = {
    "text": b"no json\n",
    "nul": b"\0\0\0\n",
    "empty": b"\n\n\n",
    "array": b"[1,2]\n",
    "deep": b'{"ev":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    "deep objects": b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n",
    "deep, no end": b'{"a":[' * 5000 + b"\n",
    "types": b'{"ev":5,"id":{}}\n',
    "half": b'{"ev":"done","id":',
    "utf-8": b'{"ev":"\xff\xfe"}\n',
    "number": b'{"ev":"note","id":' + b"9" * 5000 + b"}\n",
    "twice": b'{"ev":"note","ev":"done","id":1,"id":2}\n',
    "zero": b'{"ev":"no\\u0000te","text":"\\u0000"}\n',
    "random": bytes(range(256)) * 16 + b"\n",
}


@attack(55)
@tap.timeout(120)
def test_garbage_on_the_event_pipe():
    """Ignored, or the end of the interpreter with the reason; never a crash
    or a wait for ever."""
    for name, data in GARBAGE.items():
        cell = run("import os\nos.write(4, %r)\nprint('after')" % data,
                   timeout_ms=4000)
        assert cell.end in ("done", "restarted"), (name, cell)
        if cell.end == "restarted":
            assert cell.outcome == "died" and cell.lost, (name, cell)
            assert "no event" in cell.reason, (name, cell)
        check_next(lost=cell.end == "restarted")


# Lines of less than 12 MiB whose trees, or repaired texts, would take many
# times as much.
SWOLLEN = {
    "numbers": "b'{\"ev\":\"x\",\"a\":[' + b'0,' * 6000000 + b'0]}\\n'",
    "objects": "b'{\"ev\":\"x\",\"a\":[' + b'{},' * 4000000 + b'0]}\\n'",
    "never closed": "b'{\"ev\":\"x\",\"a\":[' + b'0,' * 6000000 + b'0\\n'",
    "bytes": "b'{\"ev\":\"' + b'\\xff' * 12000000 + b'\"}\\n'",
    "escapes": "b'{\"ev\":\"' + b'\\\\u0000' * 2000000 + b'\"}\\n'",
}


@attack(55)
@tap.timeout(120)
def test_lines_that_swell():
    """What the client takes of its own memory is bounded."""
    for name, data in SWOLLEN.items():
        with open_session() as sb:
            cell = sb.cell("import os\ndata = memoryview(%s)\nwhile data:\n"
                           "    data = data[os.write(4, data):]\n" % data,
                           timeout_ms=60000, timeout=90)
            assert cell.end in ("done", "restarted"), (name, cell)
            if not os.environ.get("SANDPIPER_SANITIZERS", "").strip():
                peak = peak_mib(sb.process.pid)
                assert peak < 96, (name, peak)
            assert sb.cell("6 * 7").outputs[0]["text"] == "42"


@attack(56)
@tap.timeout(60)
def test_endless_line_on_the_event_pipe():
    cell = run("import os\nwhile True:\n    os.write(4, b'a' * 65536)\n",
               timeout_ms=20000)
    assert cell.end == "restarted" and cell.lost, cell
    assert cell.outcome == "died", cell
    assert "over 12 MiB" in cell.reason, cell
    check_next(lost=True)
    # A line of nearly as much is read.
    cell = run("import os\nd = memoryview(b'{\"ev\":\"x' + b'a' * 12582000 + "
               "b'\"}\\n')\nwhile d:\n    d = d[os.write(4, d):]\nprint('on')",
               timeout_ms=20000)
    assert cell.outcome == "ok" and cell.stdout == "on\n", cell
    check_next(lost=False)


@attack(55)
@tap.timeout(60)
def test_hostile_bundles():
    """Wrong types and sizes in tables and pictures of the cell itself."""
    bundles = [
        {"text/plain": 5},
        {"application/x-table.v1+json": {"rows": -1, "cols": 10 ** 18,
                                         "columns": 5, "head": [[1] * 999]}},
        {"application/x-table.v1+json": {"rows": 1, "cols": 1, "columns":
                                         [{"name": "a"}], "index": [],
                                         "head": [[1, 2, 3], [], 5, None],
                                         "tail": "x"}},
        {"image/png": "!!! no base64"},
        {"image/png": "iVBORw0KGgo="},
        {"text/html": "<b>x</b>"},
        [], None, 7, {"a" * 100000: {}},
    ]
    cell = run(FORGE + """
for data in json.loads(%r):
    forge(ev="display", id=me, m=1, data=data, meta={})
    forge(ev="result", id=me, data=data, meta=[], i=-5)
    forge(ev="note", id=me, kind=data, text=data)
forge(ev="done", id=me, status=5, error=[1], n="x")
""" % json.dumps(bundles), timeout=40)
    assert cell.end in ("done", "restarted"), cell
    check_next(lost=None)


# ---- marks -----------------------------------------------------------------

@attack(70)
def test_marks_printed_by_the_cell():
    """Order may suffer, nothing else."""
    cell = run(FORGE + r"""
nonce = kernel().nonce
assert len(nonce) == 16
for m in list(range(40)) + [10 ** 9]:
    os.write(1, ("\0\x1e%s:%d\x1e\0" % (nonce, m)).encode())
    os.write(2, ("\0\x1e%s:%d\x1e\0" % (nonce, m)).encode())
os.write(1, b"\0\x1e0123456789abcdef:3\x1e\0")
os.write(1, b"\0\x1e half")
print("text between", flush=True)
display("shown")
print("text after", flush=True)
""")
    assert cell.outcome == "ok", cell
    assert any("shown" in (o["text"] or "") for o in cell.outputs), cell
    # A mark from the future: what is printed behind it may count as output
    # of no cell, and is then shown with the next one.
    said = cell.stdout
    for _ in range(2):
        later = sandbox().cell("import time\ntime.sleep(0.3)")
        said += later.stdout + "".join(n["text"] for n in later.notes)
    assert "text between" in said and "text after" in said, (cell, later)
    # A mark of another nonce is text.
    assert "0123456789abcdef:3" in said, said
    check_next(lost=False)


def test_order_of_output_and_displays():
    cell = run("import os\nfor i in range(50):\n    print('p%d' % i)\n"
               "    os.system('echo c%d' % i)\n    display(i)\n")
    assert cell.outcome == "ok", cell
    seen = []
    for event in sandbox().events:
        if event["event"] == "bytes" and event["stream"] == "stdout":
            seen += event["text"].split()
        elif event["event"] == "output":
            seen.append(event["text"])
    want = [w for i in range(50) for w in ("p%d" % i, "c%d" % i, str(i))]
    assert seen[-len(want):] == want, seen[-len(want):]


if __name__ == "__main__":
    try:
        main(globals())
    finally:
        fresh()
