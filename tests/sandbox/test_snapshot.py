#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are no cells: the list of variables, saving them to a file
outside and bringing them back; with an interpreter that is honest, and with
one that answers whatever it likes."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from sandbox_session import (Fake, Sandbox,  # noqa: E402
                             wait_until)


def saved_file(sb):
    return os.path.join(sb.dir, "saved")


def state_dir(sb):
    return os.path.join(sb.workspace(), ".state")


# ---- with the real interpreter ---------------------------------------------

@tap.timeout(60)
def test_variables_are_listed():
    with Sandbox() as sb:
        assert sb.vars()["vars"] == []
        sb.cell("x = 1\nnames = ['a', 'b', 'c']\n_hidden = 2")
        found = {v["name"]: v for v in sb.vars()["vars"]}
        assert found["x"]["type"] == "int", found
        assert found["names"]["type"] == "list", found
        assert sb.vars()["left_out"] == 0


@tap.timeout(120)
def test_saved_and_restored_in_a_new_interpreter():
    with Sandbox() as sb:
        sb.cell("x = 41\nt = ('a', 1.5)\nlock = __import__('_thread')"
                ".allocate_lock()")
        saved = sb.snapshot(saved_file(sb))
        assert sorted(saved["names"]) == ["t", "x"], saved
        assert "lock" in saved["left_out"], saved
        assert saved["bytes"] == os.path.getsize(saved_file(sb)) > 0, saved
        assert not os.path.exists(state_dir(sb))
        sb.restart()
        restored = sb.restore(saved_file(sb))
        assert sorted(restored["names"]) == ["t", "x"], restored
        assert not os.path.exists(state_dir(sb))
        assert sb.cell("print(x + 1, t)").stdout == "42 ('a', 1.5)\n"


@tap.timeout(60)
def test_what_is_no_snapshot_is_refused():
    with Sandbox() as sb:
        with open(saved_file(sb), "wb") as f:
            f.write(b"no snapshot\n")
        got = sb.restore(saved_file(sb))
        assert got.get("message", "").startswith("restoring variables: "), got
        assert sb.cell("print(1)").stdout == "1\n"


@tap.timeout(120)
def test_code_in_a_snapshot_runs_inside():
    """A snapshot is somebody's code: it may do what a cell may, and ends like
    one."""
    with Sandbox("cell_ms=1500") as sb:
        sb.cell("""
class Slow:
    def __reduce__(self):
        return exec, ("import time\\nwhile True: time.sleep(0.01)",)
slow = Slow()
""")
        saved = sb.snapshot(saved_file(sb))
        assert "slow" in saved["names"], saved
        got = sb.restore(saved_file(sb))
        assert got["code"] == "timeout", got
        sb.cell("y = 5")
        sb.request(op="restore", path=saved_file(sb))
        wait_until(lambda: os.path.exists(state_dir(sb)), 10, "it begins")
        sb.interrupt()
        got = sb.wait("saved")
        assert got["code"] in ("cancelled", "timeout"), got
        assert sb.cell("print(y)").stdout == "5\n"


# ---- the directory in the workspace ----------------------------------------

IN_THE_WAY = {
    "a link to a directory": "os.symlink('/tmp', '.state')",
    "a link to nowhere": "os.symlink('nowhere', '.state')",
    "a file": "open('.state', 'w').close()",
    "a FIFO": "os.mkfifo('.state')",
    "a directory nobody can read": "os.mkdir('.state', 0)",
    "a directory with files": "os.mkdir('.state'); "
                              "open('.state/mine', 'w').close()",
}


@tap.timeout(120)
def test_what_cells_put_in_the_way():
    for what, code in sorted(IN_THE_WAY.items()):
        with Sandbox() as sb:
            sb.cell("import os\n" + code + "\nx = 3")
            assert list(sb.list()) == [], what
            got = sb.snapshot(saved_file(sb))
            assert got.get("names", []) == ["x"], (what, got)
            assert os.path.getsize(saved_file(sb)) > 0, what
            sb.cell("x = 4")
            assert sb.restore(saved_file(sb))["names"] == ["x"], what
            assert sb.cell("print(x)").stdout == "3\n", what
            left = os.listdir(state_dir(sb)) if \
                os.path.exists(state_dir(sb)) else []
            assert left in ([], ["mine"]), (what, left)


@tap.timeout(60)
def test_answer_without_a_plain_file():
    cases = {
        "pass": "No such file",
        "os.symlink('/etc/passwd', request['path'])": "a symbolic link",
        "os.symlink('/workspace/data', request['path'])": "a symbolic link",
        "os.mkfifo(request['path'])": "a FIFO",
        "os.mkdir(request['path'])": "a directory",
        "open('/workspace/f', 'w').close(); "
        "os.link('/workspace/f', request['path'])": "several names",
    }
    with Fake() as sb:
        for code, message in cases.items():
            sb.does(code + "\nsend({'ev': 'snapshot', 'id': id,"
                           " 'saved': ['x'], 'left_out': []})")
            got = sb.snapshot(saved_file(sb))
            assert message in got.get("message", ""), (code, got)
            assert os.path.getsize(saved_file(sb)) == 0, code
            sb.cell("import shutil; shutil.rmtree('/workspace/.state')"
                    " if os.path.isdir('/workspace/.state') else None\n"
                    "if os.path.exists('/workspace/f'):\n"
                    "    os.unlink('/workspace/f')")


@tap.timeout(60)
def test_request_of_a_snapshot():
    with Fake("workspace=50000000") as sb:
        sb.does("""
space = {k: v for k, v in request.items()}
with open(request['path'], 'w') as f:
    f.write(json.dumps(space))
send({'ev': 'snapshot', 'id': id, 'saved': ['a', 'b'], 'bytes': 7,
      'left_out': [{'name': 'c', 'why': 'no'}]})""")
        got = sb.snapshot(saved_file(sb))
        assert got["names"] == ["a", "b"], got
        assert got["left_out"] == {"c": "no"}, got
        with open(saved_file(sb)) as f:
            text = f.read()
        # Its own measure, and not what the interpreter says.
        assert got["bytes"] == len(text), got
        assert '"path": ".state/' in text, text
        assert '"limit_s": 10' in text, text
        assert '"limit_bytes": 49' in text, text


@tap.timeout(60)
def test_restore_gets_the_file():
    with Fake() as sb:
        with open(saved_file(sb), "wb") as f:
            f.write(b"snap" * 100000)
        sb.does("n = len(open(request['path'], 'rb').read())\n"
                "send({'ev': 'restore', 'id': id, 'restored': [str(n)],"
                " 'left_out': []})")
        got = sb.restore(saved_file(sb))
        assert got["names"] == ["400000"] and got["bytes"] == 400000, got


@tap.timeout(60)
def test_room_is_kept():
    with Sandbox("workspace=3000000") as sb:
        sb.cell("x = 1\nopen('f', 'wb').write(b'x' * 2000000)")
        with open(saved_file(sb), "wb") as f:
            f.write(b"x" * 2000000)
        got = sb.restore(saved_file(sb))
        assert got["code"] == "limit" and \
            "fit into the workspace" in got["message"], got
        sb.cell("open('g', 'wb').write(b'x' * 2000000)")
        got = sb.snapshot(saved_file(sb))
        assert got["code"] == "limit", got
        assert "workspace is too large" in got["message"], got


# ---- answers of an interpreter that lies ------------------------------------

def vars_answer(text):
    return "send({'ev': 'vars', 'id': id, %s})" % text


@tap.timeout(60)
def test_odd_lists():
    cases = [
        ("'vars': 5", []),
        ("'vars': None, 'left_out': -1", []),
        ("'vars': {'name': 'a'}", []),
        ("'vars': [1, None, [], {}, {'name': 5}, {'name': 'a'}]", ["a"]),
        ("'vars': [{'name': 'b', 'type': 7, 'size': []}]", ["b"]),
        ("'more': {'x': [1]}, 'vars': [{'name': 'c', 'odd': 1}]", ["c"]),
    ]
    with Fake() as sb:
        for text, names in cases:
            sb.does(vars_answer(text))
            got = sb.vars()
            assert [v["name"] for v in got["vars"]] == names, (text, got)
            assert got["left_out"] == 0, (text, got)
        sb.does(vars_answer("'vars': [{'name': 'n' * 100000, 'type': 't' * "
                            "100000, 'size': '\\u00e4' * 100000}]"))
        got = sb.vars()["vars"][0]
        assert got["name"] == "n" * 256 and got["type"] == "t" * 256, got
        assert got["size"] == "\u00e4" * 128, got


def peak_memory(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    raise AssertionError("no peak of memory")


@tap.timeout(120)
def test_very_many_names():
    with Fake() as sb:
        sb.does(vars_answer("'vars': [{'name': 'v'}] * 30000"))
        got = sb.vars()
        assert len(got["vars"]) == 500 and got["left_out"] == 29500, got
        before = peak_memory(sb.process.pid)
        sb.does(vars_answer("'vars': [{'name': 'v'}] * 800000"))
        got = sb.vars()
        assert "no event" in got["message"], got
        # The line is in memory, but not as a tree.
        assert peak_memory(sb.process.pid) < before + (100 << 20)
        assert sb.cell("pass").outcome == "ok"


@tap.timeout(60)
def test_answers_for_others():
    with Fake() as sb:
        sb.does("for n in (id - 1, id + 1, 'x', None, -1):\n"
                "    send({'ev': 'vars', 'id': n, 'vars': [{'name': 'no'}]})\n"
                "send({'ev': 'snapshot', 'id': id, 'saved': []})\n"
                "send({'ev': 'done', 'id': id, 'status': 'ok'})\n"
                "send({'ev': 'begin', 'id': id})\n"
                "send({'ev': 'what', 'id': id})\n"
                "os.write(1, b'printed')\n"
                + vars_answer("'vars': [{'name': 'yes'}]") + "\n"
                + vars_answer("'vars': [{'name': 'twice'}]"))
        got = sb.vars()
        assert [v["name"] for v in got["vars"]] == ["yes"], got
        cell = sb.cell("pass")
        assert cell.outcome == "ok" and cell.stdout == "", cell
        assert [n["text"] for n in cell.notes] == ["printed"], cell
        for event in ("'ev': 'vars', 'id': -1", "'ev': 'done', 'id': id"):
            sb.does("for n in range(1000):\n    send({%s})" % event)
            got = sb.vars()
            assert "nobody had asked" in got["message"], got
            late = sb.wait("late")
            assert "nobody had asked" in late["loss"], late
            cell = sb.cell("pass")
            assert cell.end == "restarted" and cell.lost, cell


@tap.timeout(60)
def test_error_is_one_line():
    with Fake() as sb:
        sb.does(vars_answer("'error': 'one\\ntwo\\r' + 'x' * 1000"))
        got = sb.vars()
        assert got["code"] == "data", got
        assert got["message"].startswith("listing variables: one two x"), got
        assert len(got["message"]) < 300, got


@tap.timeout(60)
def test_no_answer_but_a_word_when_interrupted():
    with Fake("cell_ms=500") as sb:
        sb.does("import time\nwhile True:\n    time.sleep(1)")
        got = sb.vars()
        assert got["code"] == "timeout", got
        sb.request(op="vars")
        sb.interrupt()
        got = sb.wait("vars")
        assert got["code"] in ("cancelled", "timeout"), got
        assert not sb.cell("pass").lost
        assert not any(e["event"] == "late" for e in sb.events)


DEATHS = {
    "import signal\nsignal.signal(2, signal.SIG_IGN)\n"
    "while True:\n    pass": ("timeout", "did not answer"),
    "os._exit(3)": ("sandbox", "exit status 3"),
    "os.kill(os.getpid(), 9)": ("sandbox", "killed"),
    "os.kill(os.getpid(), 11)": ("sandbox", "segmentation fault"),
    "send(b'no event\\n')\nwhile True:\n    pass": ("sandbox", "no event"),
    "b = []\nwhile True:\n    b.append(b'x' * 1000000)\n"
    "    os.fork() if len(b) == 300 else None": ("", "ended"),
}


@tap.timeout(200)
def test_interpreter_dies_of_it():
    for code, (name, words) in DEATHS.items():
        for op in ("vars", "snapshot", "restore"):
            with Fake("cell_ms=1500", "memory=400000000") as sb:
                with open(saved_file(sb), "w") as f:
                    f.write("x")
                sb.does(code)
                sb.request(op=op, path=saved_file(sb))
                got = sb.wait("vars" if op == "vars" else "saved")
                assert name in ("", got["code"]), (code, got)
                assert words in got["message"], (code, got)
                late = sb.wait("late")
                assert "variables and imports are gone" in late["loss"], late
                cell = sb.cell("pass")
                assert cell.end == "restarted" and cell.lost, cell
                assert "Before this cell" in cell.reason, cell
                told = [e for e in sb.events
                        if e["event"] in ("vars", "saved", "late")]
                assert len(told) == 2, told
                assert not os.path.exists(state_dir(sb))
            if op == "vars" and "while" in code:
                break


@tap.timeout(60)
def test_closed_in_the_middle():
    for op in ("vars", "snapshot", "restore"):
        with Fake() as sb:
            with open(saved_file(sb), "w") as f:
                f.write("x")
            sb.does("os.write(1, b'here')\nwhile True:\n    pass")
            sb.request(op=op, path=saved_file(sb))
            pids = sb.descendants()
            sb.request(op="quit")
            assert sb.process.wait(timeout=30) == 0
            assert not Sandbox._reap(pids)
            assert os.listdir(sb.parent) == []


if __name__ == "__main__":
    tap.main(globals())
