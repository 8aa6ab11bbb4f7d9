#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Without a terminal: what goes to stdout, what to stderr, and the status."""

import os
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (SANDPIPER, STEP_S, Place, check_no_escape,  # noqa: E402
                     question, results, run, wait_until)

import tap  # noqa: E402
from claude_server import (ClaudeServer, error, gate, hang, mark,  # noqa: E402
                           reply, text, thinking)
from processes import process_table  # noqa: E402
from pty_session import build_env  # noqa: E402

TABLE = ("import pandas as pd\nprint('from the cell')\n"
         "pd.DataFrame({'region': ['South', 'East'], 'units': [10, 1234]})\n")


# ---- the streams ------------------------------------------------------------

def test_one_question():
    chart = ("import matplotlib.pyplot as plt\n"
             "plt.plot([1, 2])\nplt.title('Up')\n")
    with Place() as place, ClaudeServer([
            reply([thinking("Weighing it."), text("I will look."),
                   run(TABLE)]),
            reply([run(chart)]),
            reply([text("South has **10** units.\n")])]) as server:
        place.file("sales.csv")
        done = place.script(server, "-c", "how many?", "sales.csv")
        assert done.status == 0, done
        check_no_escape(done.stdout)
        check_no_escape(done.stderr)
        out, err = done.stdout.decode(), done.stderr.decode()
        for wanted in ("I will look.", "South has **10** units.", "region",
                       "1,234"):
            assert wanted in out, (wanted, done)
            assert wanted == "region" or wanted not in err, (wanted, done)
        for wanted in ("Weighing it.", "\u2500\u2500 1 python",
                       "pd.DataFrame", "\u2502 from the cell",
                       "sales  4 rows", "Up", ".png"):
            assert wanted in err, (wanted, done)
            assert wanted not in out, (wanted, done)
        assert out.endswith("units.\n"), out
        assert question(server.requests[0]).endswith("how many?")


def test_only_the_answer():
    with Place() as place, ClaudeServer([reply(["It is 42."])]) as server:
        done = place.script(server, "-c", "what is it?")
        assert (done.status, done.stdout) == (0, b"It is 42.\n"), done


def test_a_short_option_with_its_value():
    with Place() as place, ClaudeServer([reply(["Yes."])] * 3) as server:
        for args in (("-cwhat?",), ("--command=what?",),
                     ("--command", "what?")):
            done = place.script(server, *args)
            assert (done.status, done.stdout) == (0, b"Yes.\n"), done
        assert [question(r) for r in server.requests] == ["what?"] * 3


def test_a_terminal_on_one_side_only():
    """stdout is a pipe: no escape byte, whatever TERM says."""
    with Place() as place, ClaudeServer([
            reply([run("print('\\x1b[31mred')\n1/0")]), reply(["Done."])
            ]) as server:
        done = place.script(server, "-c", "go", term="xterm-256color")
        check_no_escape(done.stdout + done.stderr)


# ---- lines of stdin ---------------------------------------------------------

def test_lines():
    with Place() as place, ClaudeServer([
            reply([run("x = 1")]), reply(["One."]),
            reply([run("print('x', x)")]), reply(["Two."])]) as server:
        place.file("sales.csv")
        done = place.script(server, stdin="# a remark\n\nfirst question\n"
                            "   \n:load sales.csv\nsecond question")
        assert done.status == 0, done
        assert done.stdout == b"One.\n\nTwo.\n", done
        assert "x 1" in results(server.requests[3])[0][0]
        assert question(server.requests[0]) == "first question"
        assert question(server.requests[2]).endswith("second question")
        assert "`sales`" in question(server.requests[2])
        # The question is repeated beside the code that it led to.
        assert b"> first question" in done.stderr, done


def test_lines_of_another_system():
    """A mark of UTF-8 at the start, and CR LF behind each line."""
    with Place() as place, ClaudeServer([
            reply(["One."]), reply(["Two."])]) as server:
        place.file("sales.csv")
        done = place.script(
            server, stdin=b"\xef\xbb\xbf# a remark\r\nfirst\r\n\r\n"
            b":load sales.csv\r\nsecond\r")
        assert done.status == 0, done
        assert [question(r).split("\n")[-1] for r in server.requests] == [
            "first", "second"], done
        for line in done.stderr.splitlines():
            assert b"^M" not in line and b"\r" not in line, line
    with Place() as place, ClaudeServer([reply(["One."])]) as server:
        done = place.script(server, stdin=b"\xef\xbb\xbffirst")
        assert question(server.requests[0]) == "first"


def test_stdin_that_cannot_be_read():
    with Place() as place, ClaudeServer() as server:
        child = subprocess.run(
            ["sh", "-c", '"$0" < .; echo "status $?"', SANDPIPER],
            env=build_env(place.homes, "dumb", place.env(server)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=STEP_S)
        assert child.stdout == b"status 5\n", child
        assert b"error: standard input: Is a directory" in child.stderr, child


def test_commands_are_named_where_they_can_be_typed():
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
    for stdin in (None, "draw\n"):
        with Place() as place, ClaudeServer([
                reply([run("1 / 0")]), reply([run(code)]),
                reply([run("import pandas as pd\n"
                           "pd.DataFrame({'a': range(999)})")]),
                reply(["Done."])]) as server:
            done = place.script(server, *([] if stdin else ["-c", "draw"]),
                                stdin=stdin or b"")
            assert done.status == 0, done
            for word in (b":save 2", b":save 3", b":trace 1"):
                assert (word in done.stderr + done.stdout) == (
                    stdin is not None), (word, done)


def test_no_line_at_all():
    for stdin in ("", "\n\n", "# nothing\n"):
        with Place() as place, ClaudeServer() as server:
            done = place.script(server, stdin=stdin)
            assert (done.status, done.stdout) == (0, b""), done


def test_quit_stops():
    with Place() as place, ClaudeServer() as server:
        done = place.script(server, stdin=":quit\nnever asked\n")
        assert done.status == 0, done


def test_commands_print_to_stdout():
    with Place() as place, ClaudeServer() as server:
        done = place.script(server, stdin=":help\n")
        assert done.status == 0 and b":load" in done.stdout, done


def test_where_errors_are():
    for stdin, line, status in (
            (":files\n:laod x\nnever\n", 2, 2),
            ("\n\n:load nowhere.csv\nnever\n", 3, 9),
            (":code 1\nnever\n", 1, 2),
            ("# a\n:load 'x\nnever", 2, 2)):
        with Place() as place, ClaudeServer() as server:
            done = place.script(server, stdin=stdin)
            assert done.status == status, (stdin, done)
            err = done.stderr.decode()
            assert "stdin:%d: error: " % line in err, (stdin, err)
            assert "never" not in err, err
            assert not server.requests


def test_it_stops_at_the_first_failed_question():
    with Place() as place, ClaudeServer([
            reply(["One."]), error(400, message="no more")]) as server:
        done = place.script(server, stdin="first\nsecond\nthird\n")
        assert done.status == 5, done
        assert done.stdout == b"One.\n", done
        assert b"stdin:2: error: " in done.stderr, done
        assert b"no more" in done.stderr, done


def test_a_mended_error_is_none():
    with Place() as place, ClaudeServer([
            reply([run("1 / 0")]), reply([run("print(1)")]),
            reply(["Mended."]), reply(["Next."])]) as server:
        done = place.script(server, stdin="first\nsecond\n")
        assert done.status == 0, done
        assert done.stdout == b"Mended.\n\nNext.\n", done
        assert b"ZeroDivisionError" in done.stderr, done


def test_a_very_long_line():
    with Place() as place, ClaudeServer([reply(["Long."])]) as server:
        done = place.script(server, stdin="word " * 100000 + "\n")
        assert done.status == 0, done.status
        assert len(question(server.requests[0])) >= 499990


def test_too_long_a_line():
    with Place() as place, ClaudeServer() as server:
        done = place.script(server, stdin=b"x" * (5 << 20))
        assert done.status == 2, done.status
        assert re.search(rb"(?m)^stdin:1: error: ", done.stderr), done


def test_a_line_that_is_no_text():
    """Repaired or refused, and never cut without a word."""
    for line in (b"caf\xe9 \x1b[31m, what?\n", b"caf\xe9 \x00, what?\n"):
        with Place() as place, ClaudeServer([reply(["Hm."])],
                                            repeat=True) as server:
            done = place.script(server, stdin=line)
            check_no_escape(done.stdout + done.stderr)
            asked = [question(request) for request in server.requests]
            if asked:
                assert done.status == 0 and asked[0].startswith("caf"), done
                assert asked[0].endswith("what?"), (line, asked)
            else:
                assert done.status == 2, done
                assert b"stdin:1: error: " in done.stderr, done


def test_lines_come_one_by_one():
    """An answer is there before the next question is written."""
    with Place() as place, ClaudeServer([
            reply(["One."]), reply(["Two."])]) as server:
        with place.running(server, stdin=subprocess.PIPE) as child:
            child.stdin.write(b"first\n")
            assert child.stdout.readline() == b"One.\n"
            child.stdin.write(b"second\n")
            assert child.stdout.readline() == b"\n"
            assert child.stdout.readline() == b"Two.\n"
            child.stdin.close()
            assert child.wait(STEP_S) == 0


def test_a_question_leaves_stdin_alone():
    with Place() as place, ClaudeServer([reply(["Fine."])]) as server:
        done = place.script(server, "-c", "hello", stdin=b"ignored\n" * 9000)
        assert (done.status, done.stdout) == (0, b"Fine.\n"), done


def closed(place, server, redirections):
    """Runs the program with some of its three descriptors closed."""
    return subprocess.run(
        ["sh", "-c", '"$0" -c hello %s; echo "status $?"' % redirections,
         SANDPIPER], env=build_env(place.homes, "dumb", place.env(server)),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, timeout=STEP_S)


def test_closed_descriptors():
    """Files that the program opens must not take the place of a stream."""
    for redirections in ("<&-", "2>&-", "<&- 2>&-"):
        with Place() as place, ClaudeServer([
                reply([run("print('x')")]), reply(["Fine."])]) as server:
            child = closed(place, server, redirections)
            assert child.stdout == b"Fine.\nstatus 0\n", (redirections, child)
    with Place() as place, ClaudeServer(
            [reply([run("print('x')")]), reply(["Fine."])],
            repeat=True) as server:
        child = closed(place, server, ">&-")
        for folder, _, names in os.walk(place.dir):
            for name in names:
                with open(os.path.join(folder, name), "rb") as data:
                    assert b"Fine." not in data.read(), name
    with Place() as place, ClaudeServer() as server:
        child = subprocess.run(
            ["sh", "-c", '"$0" <&-; echo "status $?"', SANDPIPER],
            env=build_env(place.homes, "dumb", place.env(server)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=10)
        assert child.stdout.startswith(b"status "), child


# ---- ends -------------------------------------------------------------------

def test_nobody_reads():
    """Like `| head -1`: the reader leaves after the first line."""
    many = "print('x')\n"
    with Place() as place, ClaudeServer([
            reply([text("Line one.\n"), run(many)]),
            reply([text(*["More and more of it.\n"] * 2000)])],
            repeat=True) as server:
        with place.running(server, "-c", "what?") as child:
            assert child.stdout.readline() == b"Line one.\n"
            child.stdout.close()
            err = child.stderr.read()
            assert child.wait(STEP_S) == 141, (child.returncode, err)


def test_nobody_reads_and_lines_go_on():
    """Nothing more is carried out, and no question asked, for nobody."""
    with Place() as place, ClaudeServer([]) as server:
        with place.running(server, stdin=subprocess.PIPE) as child:
            child.stdin.write(b":help\n")
            assert child.stdout.readline()
            child.stdout.close()
            # The second finds out; standard input stays open.
            child.stdin.write(b":help\nwhy?\n")
            assert child.wait(STEP_S) == 141, child.returncode


def test_nobody_reads_stderr():
    with Place() as place, ClaudeServer([
            reply([run("print('x' * 100000)")]), reply(["Fine."])],
            repeat=True) as server:
        with place.running(server, "-c", "what?") as child:
            child.stderr.close()
            out = child.stdout.read()
            assert child.wait(STEP_S) in (0, 141), child.returncode
            if child.returncode == 0:
                assert out == b"Fine.\n", out


def test_a_full_device():
    with Place() as place, ClaudeServer([
            reply(["An answer."])]) as server, open("/dev/full", "wb") as out:
        with place.running(server, "-c", "what?", stdout=out) as child:
            err = child.stderr.read()
            assert child.wait(STEP_S) != 0, err


def test_interrupted_in_a_cell():
    code = "print('on')\nwhile True: pass\n"
    with Place() as place, ClaudeServer([reply([run(code)])]) as server:
        said = is_interrupted(place, server, b"on")
        # From a service that takes a moment longer.
        assert re.search(rb"cell 1: stop(ped|ping)", said), said
        # They are not: the run is over.
        assert b"kept" not in said, said


def test_interrupted_in_a_reply():
    with Place() as place, ClaudeServer([
            reply([text("Half a word", mark("there"), hang())])]) as server:
        is_interrupted(place, server)
        server.requests[0].wait_closed(STEP_S)


def test_interrupted_in_a_wait():
    with Place() as place, ClaudeServer([
            error(529, headers={"retry-after": "50"})]) as server:
        is_interrupted(place, server, b"waiting ")


def is_interrupted(place, server, sign=None):
    """SIGINT, as a shell sends it to everything in the foreground; what is
    then said."""
    with place.running(server, "-c", "what?") as child:
        if sign:
            while True:
                line = child.stderr.readline()
                assert line, "it has ended"
                if line.strip(b"\xe2\x94\x82 \n") == sign or (
                        b" " in sign and sign in line):
                    break
        else:
            server.wait_reached("there", STEP_S)
        os.killpg(child.pid, signal.SIGINT)
        said = child.stderr.read()
        assert child.wait(10) == 130, child.returncode
        wait_until(lambda: not group(child.pid), "processes are left")
        return said


def group(session):
    """The live processes of a session."""
    return [pid for pid, (_, state, its) in process_table().items()
            if its == session and state not in "ZX"]


def test_terminated():
    with Place() as place, ClaudeServer([
            reply([run("print('on')\nwhile True: pass\n")])]) as server:
        with place.running(server, "-c", "what?") as child:
            while b"\xe2\x94\x82 on" not in child.stderr.readline():
                pass
            child.terminate()
            assert child.wait(10) == 143, child.returncode
            wait_until(lambda: not group(child.pid), "processes are left")


def test_signals_that_are_ignored():
    """nohup, and jobs in the background of a shell script."""
    with Place() as place, ClaudeServer([
            reply([text("Half", gate("go"), " done.\n")])]) as server:
        child = subprocess.Popen(
            ["sh", "-c", "trap '' HUP INT XFSZ; exec \"$0\" -c what?",
             SANDPIPER],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=place.work, start_new_session=True,
            env=build_env(place.homes, "dumb", place.env(server)))
        try:
            wait_until(lambda: server.requests, "nothing was asked")
            os.killpg(child.pid, signal.SIGHUP)
            os.killpg(child.pid, signal.SIGINT)
            server.release("go")
            out, err = child.communicate(timeout=STEP_S)
            assert (child.returncode, out) == (0, b"Half done.\n"), (
                child.returncode, err)
        finally:
            child.kill()
            child.wait()


def test_a_limit_of_file_sizes():
    """An error that is told, not a silent death."""
    with Place() as place, ClaudeServer([
            reply(["An answer.\n"])]) as server:
        out = os.path.join(place.work, "out")
        child = subprocess.run(
            ["sh", "-c", "head -c 65536 /dev/zero > %s; ulimit -f 128; "
             '"$0" -c what? >> %s; echo "status $?"' % (out, out), SANDPIPER],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=place.work, timeout=STEP_S,
            env=build_env(place.homes, "dumb", place.env(server)))
        status = int(child.stdout.split()[-1])
        assert status not in (0, 128 + signal.SIGXFSZ), child


def test_no_sandbox():
    """The question fails, no code runs, and loading says the same."""
    with Place() as place, ClaudeServer([
            reply([run("print('unprotected')")])]) as server:
        place.file("sales.csv")
        place.config("sandbox:\n  bwrap: /nowhere/bwrap\n")
        done = place.script(server, "-c", "what?")
        assert done.status == 7, done
        assert b"\xe2\x94\x82 unprotected" not in done.stderr, done
        done = place.script(server, "-c", "what?", "sales.csv")
        assert done.status == 7, done
        assert done.stderr.count(b"error: ") == 1, done


if __name__ == "__main__":
    tap.main(globals())
