#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
""":full and :save of a table: Ctrl-C is obeyed at once whatever the interpreter
does, and a table that is gone is said to be, with the reason."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import FACTOR, Place, results, wait_until  # noqa: E402

import tap  # noqa: E402
from claude_server import ClaudeServer, reply, tool_use  # noqa: E402
from processes import descendants_of  # noqa: E402

TABLE = "import pandas as pd\nt = pd.DataFrame({'a': range(40)})\nt\n"
# Writes the table, and then hangs: Python's own unlink cannot be trusted.
HANGS = TABLE + ("import os, time\n"
                 "real = os.unlink\n"
                 "def unlink(path, **more):\n"
                 "    if 'sandpiper-save' in str(path): time.sleep(900)\n"
                 "    real(path, **more)\n"
                 "os.unlink = unlink\n"
                 "t\n")
# Says by a process of its own that it has begun.
DEAF = TABLE + ("import signal, subprocess\n"
                "def deaf(*args, **more):\n"
                "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                "    subprocess.Popen(['sleep', '900'])\n"
                "    while True: pass\n"
                "pd.DataFrame.to_csv = deaf\n"
                "t\n")


def is_deaf():
    """Whether the function that does not obey has begun."""
    for pid in descendants_of(os.getpid()):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as line:
                if line.read() == b"sleep\x00900\x00":
                    return True
        except OSError:
            pass
    return False


def cell(code):
    return reply([tool_use("run_python", {"code": code})])


@tap.timeout(90)
def test_the_copy_is_removed_behind_the_prompt():
    with Place() as place, ClaudeServer([
            cell(HANGS), reply(["There."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("make it")
        s.ask(":full 1")
        assert s.text().count("39") >= 2, s.text()
        # The next one waits, and can be told not to.
        s.type_line(":full 1")
        s.shows("reading the table")
        s.send(b"\x03")
        s.at_prompt()
        s.has("showing was stopped")
        s.ask(":save 1 'no dir/x.csv'")
        s.send(b"\x04")
        assert s.wait_exit(20 * FACTOR) == 0


@tap.timeout(90)
def test_a_table_that_takes_for_ever():
    """The prompt first, then what it cost."""
    with Place() as place, ClaudeServer([
            cell(DEAF), reply(["There."]),
            cell("import os\nprint(os.listdir('/workspace'))"),
            reply(["Fine."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("make it")
        s.type_line(":full 1")
        wait_until(is_deaf, "it does not begin")
        s.send(b"\x03")
        s.at_prompt()
        s.has("showing was stopped")
        s.shows("did not stop when asked")
        sent = bytes(s.transcript)
        assert sent.find(b"showing was stopped") < \
            sent.find(b"did not stop when asked")
        s.at_prompt()
        s.ask("look")
        (told, is_error), = results(server.requests[3])
        assert "data" in told and not is_error, told
        assert "sandpiper-save" not in told, told
        s.ask(":full 1")
        s.has("the sandbox was restarted")


@tap.timeout(90)
def test_a_table_whose_interpreter_is_gone():
    with Place() as place, ClaudeServer([
            cell(TABLE), cell("import os\nos._exit(7)"), cell(TABLE),
            reply(["There."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("make it")
        for line in (":full 1.1", ":full 1", ":save 1"):
            s.ask(":files")
            s.type_line(line)
            s.shows("the table of cell 1 is gone: the sandbox was restarted")
            s.at_prompt()
            assert " ".join(s.text().split()).count(
                "ask for the table again") >= 1, s.text()
        assert os.listdir(place.work) == []
        # That of a later cell is there.
        s.ask(":save 3 new.csv")
        assert os.listdir(place.work) == ["new.csv"]


@tap.timeout(90)
def test_what_is_left_out_has_a_way():
    """Columns without room, a cell that only failed, an output that is not
    there: each names what to type, or what is wrong."""
    wide = "import pandas as pd\nprint('first')\n" \
        "pd.DataFrame({'c%d' % i: range(5) for i in range(60)})"
    with Place() as place, ClaudeServer([
            cell(wide), cell("1 / 0"), reply(["There."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("make it")
        for line in (":full 1", ":full 1.1"):
            s.ask(line)
            last = s.text().rstrip("\n> ").splitlines()[-1]
            assert last.startswith("\u00b7 ") and last.endswith(
                " of 60 columns \u00b7 :save 1"), s.text()
        s.ask(":full 2")
        s.has("cell 2 printed and showed nothing; it failed, see :trace 2")
        s.ask(":save 1.2")
        s.has("error: cell 1 has no output 1.2")


if __name__ == "__main__":
    tap.main(globals())
