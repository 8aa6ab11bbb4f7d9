#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every back end does, in the same scenes: the contract of struct
sandbox_ops, seen from the caller. One line for each back end and scene.

A scene gets the back end and opens what it needs with backend.start(). It names
files relative to the workspace and looks at nothing but what the driver says,
so that it is the same wherever the code runs. This program has the local ones,
test_contract_services.py those that are services.
"""

import hashlib
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
sys.path.insert(0, HERE)

import tap  # noqa: E402
from backends import LOCAL  # noqa: E402
from driver_session import wait_until  # noqa: E402

TIMEOUT_S = 180
GONE = "Variables and imports are gone; files in /workspace are kept."
# Every byte there is, and more than a pipe takes.
BYTES = bytes(range(256)) * 1000


class Outside:
    """A directory with files that are put."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="contract-")
        os.chmod(self.dir, 0o755)
        self.names = []
        return self

    def file(self, name, data):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o644)
        self.names.append(path)
        return path

    def __exit__(self, *_):
        for path in self.names:
            os.unlink(path)
        os.rmdir(self.dir)


def put(sb, path, **more):
    sb.request(op="put", path=path, **more)
    return sb.wait("op", name="put")


def ok(cell):
    assert cell.end == "done" and cell.outcome == "ok", cell
    return cell


def kept(sb):
    """The variable x of scene is still 1."""
    assert ok(sb.cell("print(x)")).stdout == "1\n"


def until(sb, text):
    found = ""
    while text not in found:
        found += sb.wait("bytes")["text"]


# ---- scenes -----------------------------------------------------------------

def scene_open(backend):
    """It ends well, once, and what was asked for meanwhile runs then."""
    with backend.start() as sb:
        # At once: start_cell would wait at some levels.
        sb.request(op="cell", code="print(1)")
        assert ok(sb.finish_cell()).stdout == "1\n"
        kinds = [e["event"] for e in sb.events]
        assert kinds.count("open") == 1, kinds
        assert kinds.index("open") < kinds.index("cell"), kinds
        assert sb.opened()["end"] == "done", sb.opened()
        info = sb.info()
        assert info["backend"] == backend.kind, info
        assert info["state"] == "idle" and info["uptime_ms"] > 0, info
        assert info["cells"] == 1, info


def scene_put(backend):
    """Before it is open and after, whole and a part, bytes as they are; read
    under both names, and not written to."""
    with Outside() as out:
        early, late = out.file("early.bin", BYTES), out.file("l.bin", BYTES)
        with backend.start("put=" + early) as sb:
            assert sb.wait("op")["end"] == "done"
            assert put(sb, late, name="late é.bin")["end"] == "done"
            end = put(sb, late, name="part", offset=250, limit=10)
            assert end["end"] == "done", end
            for name, data in (("early.bin", BYTES), ("late é.bin", BYTES),
                               ("part", BYTES[250:260])):
                cell = sb.cell(
                    "import hashlib, os\n"
                    "for name in (%r, 'data/' + %r):\n"
                    "    data = open(name, 'rb').read()\n"
                    "    print(len(data), hashlib.sha256(data).hexdigest())\n"
                    "try:\n    open(name, 'ab').write(b'x')\n"
                    "except OSError:\n    print('refused')" % (name, name))
                line = "%d %s\n" % (len(data), hashlib.sha256(data).hexdigest())
                assert ok(cell).stdout == line * 2 + "refused\n", (name, cell)
            for name in ("../x", "a/b", "", ".."):
                end = put(sb, late, name=name)
                assert end["end"] == "error", (name, end)
        with open(early, "rb") as f:
            assert f.read() == BYTES


def scene_cell(backend):
    """Variables live on; the last expression is shown; both streams."""
    with backend.start() as sb:
        assert ok(sb.cell("import sys\nx = 1")).text == ""
        cell = ok(sb.cell("print('out')\nprint('errors é', file=sys.stderr)\n"
                          "x + 1"))
        assert cell.stdout == "out\n" and cell.stderr == "errors é\n", cell
        assert [(o["result"], o["text"]) for o in cell.outputs] == [
            (True, "2")], cell
        assert not cell.lost and cell.ms >= 0, cell
        assert ok(sb.cell("x + 2;")).outputs == []
        own = ok(sb.cell("y = x + 3", silent=True))
        assert own.outputs == [], own
        assert ok(sb.cell("y")).outputs[0]["text"] == "4"
        assert sb.info()["cells"] == 4, sb.info()


def scene_error(backend):
    """Its name, value and place, what was printed before it, and variables."""
    with backend.start() as sb:
        cell = sb.cell("x = 1\nprint('before')\n1 / 0\nx = 2")
        assert cell.end == "done" and cell.outcome == "error", cell
        assert cell.error == "ZeroDivisionError", cell
        assert cell.value == "division by zero", cell
        assert "1 / 0" in cell.traceback and "line 3" in cell.traceback, cell
        assert cell.stdout == "before\n" and not cell.lost, cell
        kept(sb)
        cell = sb.cell("x = 2\nx = = 3")
        assert cell.outcome == "error" and cell.error == "SyntaxError", cell
        kept(sb)


def scene_table(backend):
    with backend.start() as sb:
        cell = ok(sb.cell("import pandas as pd\npd.DataFrame({'n': range(1000),"
                          " 'é': [None, 'b'] * 500})", timeout=90))
        assert len(cell.outputs) == 1 and cell.outputs[0]["result"], cell
        table = cell.outputs[0]["table"]
        assert (table["rows"], table["cols"]) == (1000, 2), table
        assert table["columns"][-2:] == ["n", "é"], table
        assert table["head"] > 0 and table["tail"] > 0, table
        width = len(table["columns"])
        assert table["cells"][width - 2] == "0", table
        assert table["cells"][-2:] == ["999", "b"], table
        assert "999" in cell.outputs[0]["text"], cell


def scene_chart(backend):
    """Each once, as a picture, in the order of their making."""
    with backend.start() as sb:
        cell = ok(sb.cell("import matplotlib.pyplot as plt\n"
                          "for title in ('one', 'two'):\n"
                          "    plt.figure()\n    plt.plot([1, 3, 2])\n"
                          "    plt.title(title)\n", timeout=90))
        charts = [o for o in cell.outputs if o["png"] > 0]
        assert [c["title"] for c in charts] == ["one", "two"], cell
        assert all(c["width"] > 100 and c["height"] > 100 for c in charts), cell
        assert ok(sb.cell("plt.gcf().axes")).outputs[0]["text"] == "[]"


def scene_output_order(backend):
    """What is printed and what is shown come as they were made."""
    with backend.start() as sb:
        ok(sb.cell("for i in range(20):\n"
                   "    print('before', i)\n    display(i)\nprint('end')"))
        found = []
        for event in sb.events:
            if event["event"] == "bytes":
                found += event["text"].split("\n")[:-1]
            elif event["event"] == "output":
                found.append(event["text"])
        assert found == [t for i in range(20)
                         for t in ("before %d" % i, str(i))] + ["end"], found


def scene_interrupt(backend):
    """A cell that waits and one that computes; the next ones go on. What waits
    behind it is cancelled without it; and an interrupt for nobody is none."""
    with backend.start() as sb:
        ok(sb.cell("x = 1"))
        for code in ("import time\ntime.sleep(1000)", "while True:\n    pass"):
            sb.start_cell("print('up')\n" + code)
            until(sb, "up\n")
            sb.interrupt()
            cell = sb.finish_cell()
            assert cell.end == "done" and cell.outcome == "interrupted", cell
            assert not cell.lost and "kept" in cell.reason, cell
            kept(sb)
        sb.interrupt()
        ok(sb.cell("import time\ntime.sleep(0.3)"))
        sb.start_cell("print('up')\ntime.sleep(0.5)\nprint('end')")
        until(sb, "up\n")
        sb.start_cell("x = 2")
        sb.interrupt()
        cell = sb.finish_cell()
        assert cell.end == "error" and cell.code == "cancelled", cell
        assert ok(sb.finish_cell()).stdout == "end\n"
        kept(sb)


def scene_timeout(backend):
    """A cell is stopped at its limit, not before, and what will not stop is
    ended: then variables are gone, and everybody is told."""
    with backend.start("cell_ms=500") as sb:
        ok(sb.cell("x = 1"))
        for more in ({"timeout_ms": 300}, {}):
            cell = sb.cell("import time\ntime.sleep(1000)", **more)
            assert cell.end == "done" and cell.outcome == "timeout", cell
            assert not cell.lost, cell
            assert cell.ms >= more.get("timeout_ms", 500), cell
            kept(sb)
        ok(sb.cell("time.sleep(1)", timeout_ms=0))
        cell = sb.cell("while True:\n    try:\n        time.sleep(1000)\n"
                       "    except KeyboardInterrupt:\n        pass",
                       timeout_ms=300, timeout=60)
        assert cell.end == "restarted" and cell.outcome == "killed", cell
        assert cell.lost and GONE in cell.reason, cell
        assert ok(sb.cell("print('x' in globals())")).stdout == "False\n"


def scene_big_output(backend):
    """All of it up to the limit, byte for byte; then the cell is stopped."""
    with backend.start("output=3000000") as sb:
        cell = ok(sb.cell("x = 1\nfor i in range(200000):\n"
                          "    print('%08d' % i)", timeout=60))
        assert cell.stdout == "".join("%08d\n" % i for i in range(200000))
        assert cell.dropped == 0, cell.dropped
        cell = sb.cell("while True:\n    print('y' * 99)", timeout=60)
        assert cell.outcome == "output_limit" and not cell.lost, cell.reason
        assert cell.dropped > 0, cell.dropped
        assert cell.stdout == ("y" * 99 + "\n") * 30000, len(cell.stdout)
        kept(sb)


MAKE_FILES = """
import os
open('a.bin', 'wb').write(bytes(range(256)) * 1000)
os.makedirs('output/deep', exist_ok=True)
open('output/deep/é.txt', 'w').write('text')
open('empty', 'w').close()
open('output.txt', 'w').close()
for name in 'line\\nfeed', '\\x1b[31m\\r\\x7f', '\\u202e\\u200b', '-rf':
    open(name, 'w').close()
os.symlink('/etc/hostname', 'link')
os.symlink('output', 'dir')
os.mkfifo('fifo')
"""

# A name is bytes, and nobody's to judge but whoever shows it.
ODD = ("line\nfeed", "\x1b[31m\r\x7f", "\u202e\u200b", "-rf")


def scene_file_out(backend):
    """What is there, and its bytes; no link is followed, nothing outside is
    read, and nothing above the limit."""
    with backend.start() as sb:
        ok(sb.cell(MAKE_FILES))
        files = sb.list()
        assert {n: f["size"] for n, f in files.items()
                if not f["refused"]} == {
            "a.bin": len(BYTES), "output/deep/é.txt": 4, "empty": 0,
            "output.txt": 0, **{name: 0 for name in ODD}}, files
        assert list(files) == sorted(files, key=os.fsencode), files
        assert {n for n, f in files.items() if f["refused"]} == {
            "link", "dir", "fifo"}, files
        assert sb.get("a.bin") == ("done", "", BYTES)
        assert sb.get("output/deep/é.txt")[2] == b"text"
        assert sb.get("empty") == ("done", "", b"")
        for name in ODD:
            assert sb.get(name) == ("done", "", b""), name
        for name in ("link", "fifo", "dir/deep/é.txt", "output", "none",
                     "../x", "/etc/hostname"):
            end, message, data = sb.get(name)
            assert end == "error" and message and data == b"", (name, message)
        end, message, _ = sb.get("a.bin", limit=1000)
        assert end == "error" and "1000" in message, message


SCRIPT = """
import os, sys
print(sys.argv[1:], os.environ["A"], os.path.basename(os.getcwd()))
print("x" in globals(), open("lib/text").read(), file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


# Whether there is such a process, and it has not ended.
IS_ALIVE = """
import os, time
pid = int(open('job/child').read())
end = time.monotonic() + %d
alive = True
while alive and time.monotonic() < end:
    try:
        os.kill(pid, 0)
        time.sleep(0.05)
    except ProcessLookupError:
        alive = False
os.unlink('job/child')
print(alive)
"""


def scene_script(backend):
    """A program in a fresh process, with its end as it was; it is stopped with
    all its processes, and the variables of cells live on."""
    with backend.start() as sb:
        ok(sb.cell("import os\nx = 1\nos.environ['A'] = 'cell'"))
        files = {"analyze.py": SCRIPT, "lib/text": "é"}
        for status in (0, 7):
            cell = sb.script(["python3", "analyze.py", str(status), "a b"],
                             files, dir="jobs/one", env=["A=1"])
            assert cell.end == "done" and cell.exit == status, cell
            assert cell.outcome == ("error" if status else "ok"), cell
            assert cell.stdout == "['%d', 'a b'] 1 one\n" % status, cell
            assert cell.stderr == "False é\n", cell
        cell = sb.python("import os\nos.kill(os.getpid(), 9)")
        assert (cell.outcome, cell.signal, cell.exit) == ("error", 9, -1), cell
        assert sb.script(["no-such-program"]).outcome == "error"
        assert "jobs/one/lib/text" in sb.list(), sb.list()
        # What is left behind is seen: else that nothing is says nothing.
        ok(sb.python("import subprocess\nopen('child', 'w').write(str("
                     "subprocess.Popen(['sleep', '1000']).pid))"))
        cell = sb.cell(IS_ALIVE % 1 + "os.kill(pid, 9)")
        assert ok(cell).stdout == "True\n", cell
        deaf = ("import os, signal, time\n"
                "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                "if os.fork() == 0:\n    os.setsid()\n"
                "    open('child', 'w').write(str(os.getpid()))\n"
                "    time.sleep(1000)\n"
                "while not os.path.exists('child'):\n    time.sleep(0.02)\n"
                "print('up')\ntime.sleep(1000)\n")
        for limit in (-1, 5000):
            sb.start_script(["python3", "a.py"], {"a.py": deaf},
                            timeout_ms=limit)
            until(sb, "up\n")
            if limit < 0:
                sb.interrupt()
            cell = sb.finish_cell()
            assert cell.end == "done" and cell.signal == 9, cell
            assert cell.outcome == ("interrupted" if limit < 0 else
                                    "timeout"), cell
            cell = sb.cell(IS_ALIVE % 20, timeout=60)
            assert ok(cell).stdout == "False\n", cell
            kept(sb)
        for dir in ("..", "/tmp", "data"):
            cell = sb.script(["/bin/echo", "ran"], dir=dir)
            assert cell.end == "error" and cell.code == "usage", cell


# Counts in the background, at most a hundred times a second.
COUNTER = """
x = 1
import threading, time
n = 0
def count():
    global n
    while True:
        n += 1
        time.sleep(0.01)
threading.Thread(target=count, daemon=True).start()
"""


def scene_suspend_and_resume(backend):
    """By itself, when it is idle; nothing runs then, and the next operation of
    any kind finds all as it was."""
    with Outside() as out, backend.start("idle_suspend_ms=200",
                                         *backend.suspends) as sb:
        path = out.file("f.txt", b"text")
        ok(sb.cell(COUNTER))
        for operation in (
                lambda: kept(sb),
                lambda: sb.list(),
                lambda: put(sb, path),
                lambda: sb.vars(),
                lambda: sb.script(["/bin/true"])):
            sb.in_state("suspended")
            assert sb.info()["suspended"], sb.info()
            operation()
        began = time.monotonic()
        before = int(ok(sb.cell("print(n)")).stdout)
        sb.in_state("suspended")
        asleep = time.monotonic()
        # Long enough to tell one that counts on from one that does not.
        wait_until(lambda: time.monotonic() > asleep + 2, 60, "time passes")
        awake = time.monotonic()
        after = int(ok(sb.cell("print(n)")).stdout)
        ran = time.monotonic() - began - (awake - asleep)
        assert after - before <= 100 * ran + 2, (before, after, ran)
        cell = ok(sb.cell("time.sleep(0.3)\nprint(n, x)"))
        later, x = map(int, cell.stdout.split())
        assert later > after and x == 1, cell
        assert not [e for e in sb.events if e["event"] == "late"]


def scene_lost(backend):
    """With a cell and without: what was put and read comes back, the person is
    told at once, and the next cell says it."""
    with Outside() as out:
        path = out.file("f.csv", b"1\n2\n")
        with backend.start("put=" + path) as sb:
            sb.request(op="loaded", path=path, name="f.csv", variable="f",
                       setup="f = open('data/f.csv').read()")
            ok(sb.cell("f = open('data/f.csv').read()\nx = 1\n"
                       "open('mine', 'w').write('m')"))
            cell = sb.cell("import os\nprint('last', flush=True)\n"
                           "os._exit(3)", timeout=60)
            assert cell.end == "restarted" and cell.outcome == "died", cell
            assert cell.lost and cell.reason.count(GONE) == 1, cell
            assert "Loaded again: f." in cell.reason, cell
            assert cell.stdout == "last\n", cell
            cell = ok(sb.cell("import threading, os\n"
                              "import time\n"
                              "print('x' in globals(), repr(f), "
                              "open('mine').read())\n"
                              "def end():\n"
                              "    while not os.path.exists('data/go'):\n"
                              "        time.sleep(0.02)\n"
                              "    time.sleep(1)\n    os._exit(3)\n"
                              "threading.Thread(target=end).start()"))
            assert cell.stdout == "False '1\\n2\\n' m\n", cell
            assert not [e for e in sb.events if e["event"] == "late"]
            assert put(sb, path, name="go")["end"] == "done"
            began = time.monotonic()
            if backend.is_told:
                late = [e for e in sb.events if e["event"] == "late"] or [
                    sb.wait("late", timeout=60)]
                assert "gone" in late[0]["loss"], late
            else:
                # It ends meanwhile, at a moment that nobody can see.
                wait_until(lambda: time.monotonic() > began + 3, 60, "its end")
            code = "print('time' in globals(), repr(f))"
            cell = sb.cell(code, timeout=60)
            assert cell.end == "restarted", cell
            assert cell.lost and cell.reason.count(GONE) == 1, cell
            if not backend.is_told:
                assert cell.outcome == "died" and cell.stdout == "", cell
                cell = ok(sb.cell(code))
            assert cell.outcome == "ok", cell
            assert cell.stdout == "False '1\\n2\\n'\n", cell


def scene_lost_sandbox(backend):
    """Ended by somebody else, with a cell and without: what was put and read
    comes back, and a cell says so, once."""
    code = "f = open('data/f.csv').read()"
    with Outside() as out:
        path = out.file("f.csv", b"1\n2\n")
        for runs in (False, True):
            with backend.start("put=" + path) as sb:
                sb.request(op="loaded", path=path, name="f.csv", variable="f",
                           setup=code)
                ok(sb.cell(code + "\nx = 1"))
                if runs:
                    sb.start_cell("import time\nprint('up')\n"
                                  "time.sleep(1000)")
                    until(sb, "up\n")
                sb.end_outside()
                if not runs:
                    sb.start_cell("print(1)")
                cell = sb.finish_cell(timeout=90)
                assert cell.end == "restarted" and cell.lost, (runs, cell)
                assert "gone" in cell.reason, (runs, cell)
                cell = ok(sb.cell("print('x' in globals(), repr(f))",
                                  timeout=60))
                assert cell.stdout == "False '1\\n2\\n'\n", (runs, cell)
                assert not cell.lost, (runs, cell)


def scene_close(backend):
    """Idle and with a cell running: at once, with nothing left. (Each session
    looks for what is left outside, at the end of every scene.)"""
    for code in ("x = 1", "import subprocess\nprint('up')\n"
                 "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
                 "while True:\n    pass"):
        with backend.start() as sb:
            sb.start_cell(code)
            if "up" in code:
                until(sb, "up\n")
            else:
                ok(sb.finish_cell())
            sb.quit()


# ---- all of them ------------------------------------------------------------

def scenes():
    return [(name[len("scene_"):].replace("_", " "), function)
            for name, function in globals().items()
            if name.startswith("scene_")]


def test_of(backend, scene, function):
    def test():
        why = backend.why_not() or backend.cannot.get(scene)
        if why:
            tap.skip(why)
        function(backend)
    return tap.timeout(TIMEOUT_S)(test)


def main(backends):
    known = {scene for scene, _ in scenes()}
    tests = []
    for backend in backends:
        assert set(backend.cannot) <= known, backend.cannot
        tests += [("%s: %s" % (backend.name, scene),
                   test_of(backend, scene, function))
                  for scene, function in scenes()]
    sys.exit(tap.run_tests(tests, sys.argv[1:]))


if __name__ == "__main__":
    main(LOCAL)
