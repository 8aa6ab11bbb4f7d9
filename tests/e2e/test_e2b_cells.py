# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells by the interpreter of an E2B service, by e2b_cells_driver: the fake
runs them for real, in an interpreter that is not ours. The local sandbox is
what they are compared with."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
import tap  # noqa: E402
from e2b_requests import Box, E2bServer, api  # noqa: E402
from e2b_server import unavailable  # noqa: E402
from sandbox_session import Sandbox  # noqa: E402

DRIVER = os.path.join(os.path.dirname(os.environ.get(
    "SANDBOX_DRIVER", "tests/helpers/sandbox_driver")), "e2b_cells_driver")
CUT = 4
LOST = "Variables and imports are gone; files in /workspace are kept."

# Run in both, in this order; what they give must be the same.
SAME = [
    "x = 1\nprint('out')\nimport sys\nprint('err é', file=sys.stderr)\nx + 1",
    "'a text'", "\"it's\"", "x;", "None", "[1, 2]", "{'a': float('nan')}",
    "for i in range(5):\n    print('before', i)\n    display(i)",
    "x = 1\n1 / 0\nx = 2", "x = = 2", "def f():\n    return g()\nf()",
    "raise SystemExit('bye')", "exit()", "input()", "!echo hi; echo no >&2",
    "%matplotlib inline", "%nothing", "pip install x", "x?", "%%bash\necho $0",
    "import subprocess\nprint('a', flush=True)\n"
    "subprocess.run(['echo', 'b'])\ndisplay(1)\n"
    "subprocess.run(['sh', '-c', 'for i in 1 2 3; do echo $i; done']);",
    "import asyncio\nasync def f():\n    return 7\nprint(asyncio.run(f()))\n"
    "await f()",
    "import os\nos.getcwd()", "open('f.txt', 'w').write('f')",
    "from pathlib import Path\ndisplay(Path('f.txt'))",
    "from IPython.display import HTML, Markdown\ndisplay(HTML('<b>b</b>'))\n"
    "Markdown('*m*')",
    "import pandas as pd, numpy as np\n"
    "df = pd.DataFrame({'n': range(1000000), 'é': [None, 'b'] * 500000,\n"
    "                   'd': pd.Timestamp('2026-01-02')})\ndf",
    "df.groupby('é').n.agg(['sum', 'mean'])", "df.n", "np.eye(3)",
    "pd.DataFrame({'t': [pd.Timestamp('2026-01-02'), pd.NaT], 'v': [np.inf,\n"
    "              np.nan]}, index=['a', 'b'])",
    "df['nn']", "df.style", "import warnings\nwarnings.warn('careful')",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\n"
    "plt.title('Title')\nplt.xlabel('time')",
    "plt.bar(['a', 'b'], [1, 2])\nplt.savefig('c.png')\nplt.show()",
    "fig, ax = plt.subplots()\nax.plot([1, 2])\nfig",
    "plt.figure()\nplt.plot([1])\nplt.figure()\nplt.plot([2])\nplt.show()",
    "from PIL import Image\nim = Image.new('RGB', (5, 4))\nim.save('p.png')\n"
    "im", "plt.plot([1, 2])\nprint('x')\n1 / 0",
    "print('😀 \\u2028 \\\\ \\' \\\" %s')",
    "get_ipython().user_ns is globals()", "sorted(n for n in globals()\n"
    "       if not n.startswith('_') and n in ('In', 'Out', 'exit', 'quit',\n"
    "                                          'sandpiper_kernel', 'S'))",
    "%who",
]


class Runner:
    def __init__(self, box, *options):
        self.box = box
        self.child = subprocess.Popen(
            [DRIVER, box.server.url, box.id, box.token or "",
             box.server.version, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        if self.child.poll() is None:
            try:
                self.child.wait(10 * tap.FACTOR)
            except subprocess.TimeoutExpired:
                self.child.kill()
        assert self.child.wait() == 0
        self.child.stdout.close()

    def tell(self, **request):
        self.child.stdin.write(json.dumps(request).encode() + b"\n")
        self.child.stdin.flush()

    def wait(self, *names):
        """The events up to the next one of these names."""
        found = []
        while not found or found[-1]["event"] not in names:
            line = self.child.stdout.readline()
            assert line, "the driver has ended: %s" % found
            found.append(json.loads(line))
        self.events += found
        return found

    def open(self, op="open", way="done"):
        self.tell(op=op)
        found = self.wait("open")[-1]
        assert found["way"] == way, found
        return found

    def start(self, code, **more):
        """Runs to its first output."""
        self.tell(op="cell", code=code, **more)
        assert self.wait("bytes", "cell")[-1]["event"] == "bytes"

    def cell(self, code, way="done", **more):
        self.tell(op="cell", code=code, **more)
        return self.end(way)

    def end(self, way="done"):
        found = self.wait("cell")
        end = Cell(found)
        assert end.way == way, found
        return end

    def saved(self, op, path):
        self.tell(op=op, path=path)
        return self.wait("saved")[-1]


class Cell:
    def __init__(self, events):
        self.events = events
        for stream in ("stdout", "stderr"):
            setattr(self, stream, "".join(
                e["text"] for e in events
                if e["event"] == "bytes" and e["stream"] == stream))
        self.outputs = [e for e in events if e["event"] == "output"]
        self.notes = [(e["kind"], e["text"]) for e in events
                      if e["event"] == "note"]
        self.__dict__.update(events[-1])

    def __repr__(self):
        return json.dumps(self.events)[:3000]


def made(server, **fields):
    box = Box(server, **fields)
    assert box.rpc("MakeDir", {"path": "/workspace"}).status == 200
    return box


def shown(output):
    """What counts of an output: addresses in texts do not."""
    found = {k: output.get(k) for k in (
        "result", "index", "text", "table", "png", "width", "height", "title",
        "what")}
    if " at 0x" in (found["text"] or ""):
        found["text"] = found["text"].split(" at 0x")[0]
    # Both draw the same; what compresses it may differ.
    found["png"] = found["png"] > 0
    return found


def of_both(cell, outcome):
    notes = [n if isinstance(n, tuple) else (n["kind"], n["text"])
             for n in cell.notes]
    return {"outcome": outcome, "stdout": cell.stdout, "stderr": cell.stderr,
            "outputs": [shown(o) for o in cell.outputs], "notes": notes,
            "error": cell.error, "value": cell.value, "hint": cell.hint,
            "traceback": cell.traceback}


@tap.timeout(300)
def test_same_as_in_the_local_sandbox():
    with E2bServer() as server, Runner(made(server)) as there:
        there.open()
        with Sandbox() as here:
            for i, code in enumerate(SAME):
                local = here.cell(code, timeout=90)
                remote = there.cell(code, number=i + 1)
                one = of_both(local, local.outcome)
                other = of_both(remote, remote.outcome)
                for key in one:
                    assert one[key] == other[key], (code, key, one[key],
                                                    other[key])


@tap.timeout(120)
def test_a_data_frame_does_not_come_over_the_wire():
    sizes = []

    def measure(body):
        sizes.append(len(body))
        return body
    with E2bServer() as server, Runner(made(server)) as r:
        r.open()
        server.fail("/execute", rewrite=measure)
        cell = r.cell("import pandas as pd\n"
                      "pd.DataFrame({'n': range(1000000)})")
        assert cell.outputs[0]["table"]["rows"] == 1000000, cell
        assert sizes and sizes[0] < 20000, sizes


@tap.timeout(120)
def test_output_in_its_order_in_any_pieces():
    code = ("for i in range(20):\n    print('before', i)\n    display('é😀%d'"
            " % i)\nprint('end')")
    for split in (1, 7, None):
        with E2bServer() as server, Runner(made(server)) as r:
            r.open()
            if split:
                server.fail("/execute", split=split)
            found = []
            for e in r.cell(code).events:
                if e["event"] == "bytes":
                    found += e["text"].split("\n")[:-1]
                elif e["event"] == "output":
                    found.append(e["text"])
            assert found == [t for i in range(20) for t in (
                "before %d" % i, "'é😀%d'" % i)] + ["end"], found


@tap.timeout(120)
def test_interrupt():
    with E2bServer() as server, Runner(made(server)) as r:
        r.open()
        r.cell("x = 1")
        for code in ("import time\nprint('up')\ntime.sleep(1000)",
                     "print('up')\nwhile True:\n    pass",
                     "print('up', flush=True)\n!sleep 1000"):
            r.start(code)
            r.tell(op="interrupt")
            cell = r.end()
            assert cell.outcome == "interrupted", cell
            assert cell.error == "KeyboardInterrupt", cell
            assert r.cell("print(x)").stdout == "1\n"
        # What the cell has started is interrupted too.
        r.start("import os, subprocess\nsubprocess.Popen(['sh', '-c', 'trap "
                "\"touch got; exit\" INT\\necho up\\nwhile :; do sleep 0.05; "
                "done']).wait()")
        r.tell(op="interrupt")
        r.end()
        cell = r.cell("n = 0\nwhile not os.path.exists('got') and n < 500:\n"
                      "    n += 1\n    time.sleep(0.02)\nprint(n < 500)")
        assert cell.stdout == "True\n", cell
        # For nobody.
        r.tell(op="interrupt")
        assert r.cell("print(x)").stdout == "1\n"
        # One that nobody heard is not for the next cell.
        for _ in range(5):
            r.start("print('up', flush=True)\ntime.sleep(0.05)")
            r.tell(op="interrupt")
            r.end()
            cell = r.cell("time.sleep(0.2)\nprint(x)")
            assert (cell.outcome, cell.stdout) == ("ok", "1\n"), cell


@tap.timeout(120)
def test_kill():
    deaf = ("print('up', flush=True)\nimport time\nwhile True:\n    try:\n"
            "        time.sleep(1000)\n    except KeyboardInterrupt:\n"
            "        print('no', flush=True)")
    for has_contexts in (True, False):
        with E2bServer() as server, Runner(made(server)) as r:
            if not has_contexts:
                server.fail("POST /contexts", status=405, body=b"{}")
            r.open()
            r.cell("x = 1")
            r.start(deaf)
            r.tell(op="interrupt")
            assert r.wait("bytes")[-1]["text"] == "no\n"
            r.tell(op="kill")
            cell = r.end("lost")
            assert LOST in cell.reason, cell
            r.open()
            assert r.cell("print('x' in globals())").stdout == "False\n"
            assert r.cell("import os\nos.getcwd()").outputs[0]["text"] == \
                "'/workspace'"


@tap.timeout(120)
def test_kill_what_only_keeps_alive():
    with E2bServer() as server, Runner(made(server)) as r:
        r.open()
        fault = server.fail("/execute", hang=0)
        r.tell(op="cell", code="1")
        assert fault.reached.wait(60)
        r.tell(op="kill")
        r.end("lost")
        r.open()
        assert r.cell("1").outputs[0]["text"] == "1"


@tap.timeout(120)
def test_variables():
    with E2bServer() as server, tempfile.TemporaryDirectory() as folder, \
            Runner(made(server)) as r:
        r.open()
        r.tell(op="vars")
        assert r.wait("vars")[-1]["vars"] == {}, r.events[-1]
        r.cell("import math\nx = 1\nt = 'ab'\ng = (i for i in ())\n"
               "def f(a):\n    return a + x")
        r.tell(op="vars")
        found = r.wait("vars")[-1]["vars"]
        assert list(found) == ["x", "t", "g", "f"], found
        assert (found["x"], found["f"]) == ("int|1", "function|(a)"), found
        path = os.path.join(folder, "snapshot")
        saved = r.saved("snapshot", path)
        assert "x" in saved["names"] and "g" in saved["left_out"], saved
        with open(path, "rb") as stream:
            data = stream.read()
        assert data.startswith(b"sandpiper-snapshot 1 ")
        assert saved["bytes"] == len(data), saved
        r.tell(op="kill")
        r.cell("x = 2\nt = 3\nimport os")
        back = r.saved("restore", path)
        assert back["names"] == saved["names"], back
        assert r.cell("print(x, t, os.listdir('.'))").stdout == "1 ab []\n"
        with open(path, "wb") as stream:
            stream.write(b"nonsense")
        refused = r.saved("restore", path)
        assert refused["code"] == "data", refused
        assert "no snapshot" in refused["message"], refused
        assert r.cell("print(x, os.listdir('.'))").stdout == "1 []\n"


@tap.timeout(120)
def test_builtins_that_cells_replace():
    """They are for cells: the interpreter, and what the program asks, has its
    own; what cannot stand for one does not come back."""
    with E2bServer() as server, Runner(made(server)) as r:
        r.open()
        r.cell("import builtins\nbuiltins.len = lambda x: 42\n"
               "builtins.isinstance = builtins.__import__ = None\n"
               "del builtins.sorted\n__import__ = _sandpiper_kernel = None")
        assert r.cell("print(len([]), isinstance(1, int), sorted([2, 1]))"
                      ).stdout == "42 True [1, 2]\n"
        r.tell(op="vars")
        found = r.wait("vars")[-1]["vars"]
        assert "_sandpiper_kernel" not in found, found
        r.cell("builtins.len = None")
        assert r.cell("print(len([]))").stdout == "0\n"


@tap.timeout(120)
def test_the_interpreter_is_lost():
    with E2bServer() as server, Runner(made(server)) as r:
        r.open()
        cell = r.cell("print('up', flush=True)\nimport os\nos._exit(3)",
                      way="lost")
        assert LOST in cell.reason and cell.stdout == "up\n", cell
        r.open()
        # While nothing runs: the next cell does not run in the wrong place.
        r.cell("import threading, os\nx = 1\nthreading.Timer(0.3, lambda: "
               "os._exit(3)).start()\npid = os.getpid()\nprint(pid)")
        time.sleep(0.1)
        while True:
            cell = Cell(ask(r, "open('ran', 'a').write(str(x))\nNone"))
            if cell.way == "lost":
                break
            select.select([], [], [], 0.1)
        assert "not run" in cell.reason or "ended" in cell.reason, cell
        r.open()
        assert r.cell("print('x' in globals())").stdout == "False\n"


def ask(r, code):
    r.tell(op="cell", code=code)
    return r.wait("cell")


@tap.timeout(120)
def test_other_languages():
    with E2bServer() as server, Runner(made(server)) as r:
        r.open()
        assert r.cell("a=1; echo hi; pwd", language="bash").stdout == \
            "hi\n/workspace\n"
        assert r.cell("echo $a", language="bash").stdout == "1\n"
        refused = r.cell("1", way="trouble", language="r")
        assert refused.code == "unsupported", refused
        assert "template has no interpreter" in refused.message, refused
        assert len(server.find("POST /contexts")) == 3


@tap.timeout(180)
def test_interrupt_in_another_language():
    """The service notices the closed connection, or it does not."""
    for notices in (True, False):
        with E2bServer(interrupts=notices) as server, \
                Runner(made(server)) as r:
            r.open()
            r.cell("a=1", language="bash")
            r.start("echo up; sleep 1000", language="bash")
            r.tell(op="interrupt")
            assert r.end().outcome == "interrupted"
            cell = r.cell("echo $a.", language="bash")
            assert not cell.lost, cell
            assert ("Python are kept" in (cell.reason or "")) != notices, cell
            assert cell.stdout == ("1.\n" if notices else ".\n"), cell


@tap.timeout(120)
def test_environment_of_the_sandbox():
    """The service puts it in front of the first cell, where the token of the
    sandbox is needed for it, and without a thought for quotes."""
    for value in ("plain", "it's"):
        with E2bServer() as server, \
                Runner(made(server, envVars={"TASK": value}, secure=True)) as r:
            r.open()
            cell = r.cell("import os\nprint(os.environ.get('TASK'))\n%who")
            first = value if value == "plain" else None
            assert cell.stdout == "%s\nThere are no variables.\n" % first, cell
            assert len(server.find("/execute")) == (3 if first is None else 2)


@tap.timeout(120)
def test_an_answer_that_is_cut():
    """At any place: it is trouble, and the cell is not sent again."""
    for cut in (0, 1, 60, 100):
        with E2bServer() as server, Runner(made(server)) as r:
            r.open()
            server.fail("/execute", cut=cut)
            cell = r.cell("print(1)", way="trouble")
            assert cell.trouble == CUT, cell
            assert len(server.find("/execute")) == 2
    with E2bServer() as server, Runner(made(server)) as r:
        r.open()
        server.fail("/execute", end=100)
        assert r.cell("print(1)", way="trouble").trouble == CUT


@tap.timeout(120)
def test_after_a_pause():
    with E2bServer() as server, Runner(made(server)) as r:
        r.open()
        r.cell("x = 1")
        path = "/sandboxes/" + r.box.id
        assert api(server, "POST", path + "/pause", {}).status == 204
        assert r.cell("1", way="trouble").trouble == 1
        assert api(server, "POST", path + "/connect",
                   {"timeout": 60}).status in (200, 201)
        r.open("reconnect")
        assert r.cell("print(x)").stdout == "1\n"


@tap.timeout(120)
def test_too_much_output():
    with E2bServer() as server, Runner(made(server), "output=100000") as r:
        r.open()
        r.tell(op="cell", code="while True:\n    print('y' * 99)")
        r.wait("flood")
        r.tell(op="interrupt")
        r.end()
        text = "".join(e["text"] for e in r.events if e["event"] == "bytes")
        assert text == ("y" * 99 + "\n") * 1000, len(text)
        assert r.events[-1]["dropped"] > 0, r.events[-1]


@tap.timeout(120)
def test_what_the_set_up_sends():
    with E2bServer() as server, \
            Runner(made(server), "width=640", "height=320", "dpi=80") as r:
        python = r.open()["python"]
        assert python.startswith("/usr/bin/python3 (3."), python
        request = server.find("/execute")[0]
        size = int(request.header("content-length"))
        assert 0 < size < 65536, size
        cell = r.cell("import matplotlib.pyplot as plt\n"
                      "print(plt.rcParams['figure.figsize'],"
                      " plt.rcParams['figure.dpi'])")
        assert cell.stdout == "[8.0, 4.0] 80.0\n", cell


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the same runner is tried in this build by test_e2b.py")
    if unavailable():
        tap.skip_all(unavailable())
    tap.main(globals())
