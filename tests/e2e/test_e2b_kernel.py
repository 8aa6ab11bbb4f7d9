# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own interpreter in a sandbox of an E2B service, by e2b_kernel_driver: the
fake has none of its own there, and runs processes for real."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
import tap  # noqa: E402
from e2b_requests import Box, E2bServer  # noqa: E402
from e2b_server import unavailable  # noqa: E402

DRIVER = os.path.join(os.path.dirname(os.environ.get(
    "SANDBOX_DRIVER", "tests/helpers/sandbox_driver")), "e2b_kernel_driver")
START, CONNECT = "/process.Process/Start", "/process.Process/Connect"
DONE, LOST, TROUBLE = 0, 1, 2
OK, FAILED, INTERRUPTED = 0, 1, 2
GONE = 1


class Cells:
    """The driver with an interpreter of its own."""

    def __init__(self, server, opens=True, limit=1 << 20, workspace=True,
                 **fields):
        self.server = server
        self.box = Box(server, **fields)
        if workspace:
            made = self.box.rpc("MakeDir", {"path": "/workspace"})
            assert made.status == 200, made.body
        self.child = subprocess.Popen(
            [DRIVER, server.url, self.box.id, self.box.token, server.version,
             str(limit)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.events = []
        if opens:
            self.tell("open")
            found = self.until("open")
            assert found["way"] == DONE, found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        try:
            status = self.child.wait(60)
        finally:
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        assert status == 0, status

    def tell(self, op, **more):
        self.child.stdin.write(json.dumps(dict(more, op=op)).encode() + b"\n")
        self.child.stdin.flush()

    def next(self):
        line = self.child.stdout.readline()
        assert line, "the driver has ended"
        self.events.append(json.loads(line))
        return self.events[-1]

    def until(self, name):
        while self.next()["ev"] != name:
            pass
        return self.events[-1]

    def begin(self, code, **more):
        self.events = []
        self.tell("cell", code=code, **more)

    def cell(self, code, **more):
        self.begin(code, **more)
        return self.until("done")

    def ok(self, code, **more):
        found = self.cell(code, **more)
        assert (found["way"], found["outcome"]) == (DONE, OK), self.events
        return self.text()

    def text(self, name="out"):
        return "".join(e["text"] for e in self.events if e["ev"] == name)

    def until_text(self, text):
        while text not in self.text():
            assert self.next()["ev"] not in ("done", "lost"), self.events

    def of(self, name):
        return [e for e in self.events if e["ev"] == name]

    @property
    def kinds(self):
        return [e["ev"] for e in self.events]


def made(**options):
    return E2bServer(interpreters=(), **options)


@tap.timeout(180)
def test_cells():
    """Variables live on; both streams, values, errors, hints."""
    with made() as server, Cells(server) as c:
        assert c.ok("import os\nx = 6\nprint(os.getcwd())") == "/workspace\n"
        assert c.ok("x * 7") == ""
        assert [e["text"] for e in c.of("result")] == ["42"], c.events
        assert c.kinds == ["begin", "result", "done"], c.events
        c.ok("import sys\nprint('é\\0', file=sys.stderr)\nos.system('echo b')")
        assert c.text("err") == "é\0\n" and c.text() == "b\n", c.events
        found = c.cell("def f():\n    return 1 / 0\nf()")
        assert found["outcome"] == FAILED, found
        assert found["name"] == "ZeroDivisionError", found
        assert "in f" in found["traceback"], found
        found = c.cell("import pandas as pd\n"
                       "pd.DataFrame({'alpha': [1]})['alpa']")
        assert found["name"] == "KeyError" and "alpha" in found["hint"], found
        assert c.ok("print(x)") == "6\n"
        c.tell("python")
        found = c.until("python")["text"]
        assert found.startswith("/usr/bin/python3 (3."), found
        found = c.cell("x", language="r")
        assert found["way"] == TROUBLE and "Python" in found["err"], found


@tap.timeout(180)
def test_order_and_shapes():
    """Text, tables and charts come in the order in which they were made."""
    code = ("import pandas as pd\nimport matplotlib.pyplot as plt\n"
            "for i in range(30):\n    print('before', i)\n"
            "    display(i)\n"
            "df = pd.DataFrame({'a': range(3)})\n"
            "print('table')\ndisplay(df)\nprint('chart')\n"
            "plt.plot([1, 2])\nplt.show()\nprint('end')\ndf")
    with made() as server, Cells(server) as c:
        for split in (None, 1, 7):
            if split:
                c.ok("0")
            c.ok(code)
            events = [(e["ev"], e.get("text")) for e in c.events]
            for i in range(30):
                at = events.index(("display", str(i)))
                assert events[at - 1] == ("out", "before %d\n" % i), events
            names = [e for e in c.events if e["ev"] in ("display", "result")]
            assert [bool(e["table"]) for e in names[30:]] == [
                True, False, True], names[30:]
            assert names[31]["png"] > 100, names[31]
            assert 300 < names[31]["width"] <= 400, names[31]
            assert c.text().endswith("table\nchart\nend\n")


@tap.timeout(180)
def test_large_output():
    """All of it, and no more than the limit; what is past it stops the cell."""
    with made() as server, Cells(server, limit=8 << 20) as c:
        c.ok("import os\nos.write(1, b'abcdefg\\n' * 700000);")
        assert c.text() == "abcdefg\n" * 700000
        text = c.ok("import sys\nsys.stdout.write('abcdefg\\n' * 700000);")
        assert text == "abcdefg\n" * 700000, len(text)
        found = c.cell("while True:\n    print('x' * 1000)")
        assert c.of("flood") and found["outcome"] == INTERRUPTED, found
        assert len(c.text()) == 8 << 20 and found["dropped"] > 0, found
        assert c.ok("print(1)") == "1\n"


@tap.timeout(180)
def test_interrupt_and_kill():
    with made() as server, Cells(server) as c:
        c.ok("x = 1")
        for _ in range(3):
            c.begin("import time\nprint('up')\ntime.sleep(1000)")
            c.until_text("up\n")
            c.tell("interrupt")
            assert c.until("done")["outcome"] == INTERRUPTED, c.events
        # Before it has begun: as soon as it has.
        c.begin("import time\ntime.sleep(1000)")
        c.tell("interrupt")
        assert c.until("done")["outcome"] == INTERRUPTED, c.events
        assert c.ok("print(x)") == "1\n"
        c.begin("import os, signal, time\n"
                "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                "if os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\n"
                "print('up')\ntime.sleep(1000)")
        c.until_text("up\n")
        c.tell("interrupt")
        c.tell("kill")
        found = c.until("done")
        assert found["way"] == LOST and "was ended" in found["reason"], found
        out = c.box.start("pgrep -f 'sys[.]path' | wc -l")
        assert "MAo=" in json.dumps(out), out
        c.tell("open")
        assert c.until("open")["way"] == DONE
        assert c.cell("x")["name"] == "NameError"


@tap.timeout(180)
def test_lost():
    """By itself, with a cell and without one; what it wrote comes first."""
    with made() as server, Cells(server) as c:
        found = c.cell("import os\nos.write(1, b'last')\nos._exit(3)")
        assert found["way"] == LOST, found
        assert found["reason"].startswith(
            "The interpreter has ended: exit status 3. Variables"), found
        assert c.text() == "last", c.events
        c.tell("open")
        c.until("open")
        found = c.cell("import os\nos.kill(os.getpid(), 11)")
        assert found["reason"].startswith(
            "The interpreter has ended: segmentation fault. Variables"), found
        c.tell("open")
        c.until("open")
        c.ok("import os, threading\n"
             "threading.Timer(0.2, lambda: os._exit(4)).start()")
        found = c.until("lost")
        assert found["way"] == LOST and "status 4" in found["reason"], found
        c.tell("vars")
        assert "no interpreter runs" in c.until("vars")["err"], c.events


@tap.timeout(300)
def test_cut_without_loss():
    """Wherever a connection breaks within a cell."""
    code = ("import time\nfor i in range(200):\n    print(i)\n"
            "    if i % 40 == 0:\n        display(i)\n        time.sleep(0.05)")
    wanted = "".join("%d\n" % i for i in range(200))
    for cut in (1000, 1800, 2600):
        with made() as server:
            faults = [server.fail(START, cut=cut, reset=cut == 1800),
                      server.fail(CONNECT, cut=500)]
            with Cells(server) as c:
                c.ok(code)
                assert c.text() == wanted, (cut, c.text())
                assert [e["text"] for e in c.of("display")] == [
                    "0", "40", "80", "120", "160"], c.events
                c.ok("print('again')")
            assert faults[0].reached.is_set()
    with made() as server:
        # Input whose answer is lost arrives once.
        with Cells(server) as c:
            c.ok("n = 0")
            server.fail("SendInput", lost=True)
            c.ok("n += 1\nprint(n)")
            assert c.text() == "1\n", c.events
            assert c.ok("print(n)") == "1\n"


@tap.timeout(180)
def test_pause_and_resume():
    """Memory is as it was, and what was written meanwhile comes."""
    with made() as server, Cells(server) as c:
        c.ok("x = 5")
        sandbox = server.sandbox()
        with server.lock:
            sandbox.pause()
        found = c.until("lost")
        assert (found["way"], found["trouble"]) == (TROUBLE, GONE), found
        with server.lock:
            sandbox.resume()
        c.tell("reconnect")
        assert c.until("open")["way"] == DONE, c.events
        assert c.ok("print(x)") == "5\n"
        server.lose()
        assert c.until("lost")["trouble"] == GONE, c.events


@tap.timeout(180)
def test_variables():
    """Listed, saved to a file outside, and brought back into another one."""
    with tempfile.TemporaryDirectory() as folder, made() as server, \
            Cells(server) as c:
        path = os.path.join(folder, "saved")
        c.ok("x = [1, 2]\ny = 'text'\nimport sys\nz = sys.stdout\n"
             "big = b'a' * 3000000")
        c.tell("vars")
        assert c.until("vars")["names"] == ["x", "y", "z", "big"], c.events
        c.tell("snapshot", path=path)
        found = c.until("saved")
        assert sorted(found["names"]) == ["big", "x", "y"], found
        c.ok("0")
        assert found["bytes"] == os.path.getsize(path) > 3000000, found
        c.tell("kill")
        c.until("lost")
        c.tell("open")
        c.until("open")
        c.tell("restore", path=path)
        found = c.until("saved")
        assert sorted(found["names"]) == ["big", "x", "y"], found
        assert c.ok("print(x, y, len(big))") == "[1, 2] text 3000000\n"
        left = [n for n in os.listdir(server.sandbox().tmp) if "sandp" in n]
        assert not left, left
        with open(path, "r+b") as stream:
            stream.truncate(10)
        c.tell("restore", path=path)
        assert c.until("saved")["err"].startswith("restoring variables: ")


@tap.timeout(120)
def test_without_python():
    """And where it cannot begin: said so, in words."""
    with made() as server, Cells(server, opens=False, workspace=False) as c:
        c.tell("open")
        found = c.until("open")
        assert found["way"] == TROUBLE and "/workspace" in found["err"], found
    with made() as server, Cells(server, opens=False, envVars={
            "PATH": "/home/user/bin"}) as c:
        c.tell("open")
        found = c.until("open")
        assert found["way"] == LOST, found
        assert "has no python3" in found["err"], found


if __name__ == "__main__":
    if unavailable():
        tap.skip_all(unavailable())
    tap.main(globals())
