#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Money and time: what a turn costs is said, a limit ends it before it is
passed, and :retry goes on."""

import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (STEP_S, Place, check_clean, messages,  # noqa: E402
                     results, run)

import tap  # noqa: E402
from claude_server import ClaudeServer, error, gate, reply  # noqa: E402
from claude_server import text as words  # noqa: E402


OVERLOADED = error(400, "invalid_request_error", "no")


def test_cost_of_a_script():
    with Place() as place, ClaudeServer([
            reply([run("print(1)")], usage={
                "input_tokens": 1000, "cache_creation_input_tokens": 2000,
                "cache_read_input_tokens": 4000, "output_tokens": 500}),
            reply(["One."], usage={
                "input_tokens": 10, "cache_read_input_tokens": 7000,
                "output_tokens": 100})]) as server:
        done = place.script(server, stdin="count\n:cost\n")
        assert done.status == 0, done
        out, err = done.stdout.decode(), done.stderr.decode()
        # 1000 * 4 + 2000 * 5 + 4000 * 0.2 + 500 * 20, and so on, millionths.
        assert " · $0.028\n" in err, err
        rows = [line.split("│") for line in out.splitlines() if "│" in line]
        rows = [[cell.strip() for cell in row] for row in rows]
        assert rows[0] == ["turn", "calls", "in", "cache read",
                           "cache written", "out", "dollars"], rows
        assert rows[1] == ["1", "2", "1,010", "11,000", "2,000", "600",
                           "$0.0282"], rows
        assert rows[2][0] == "session" and rows[2][1:] == rows[1][1:], rows
        assert "· estimated, at prices of 20" in err, err
        check_clean(done.stderr)


def test_cost_of_an_unknown_model():
    with Place() as place, ClaudeServer([reply(["One."])]) as server:
        place.config("model:\n  name: claude-mythos-5\n")
        done = place.script(server, stdin="count\n:cost\n:budget\n")
        assert done.status == 0, done
        err = done.stderr.decode()
        assert "$" not in err + done.stdout.decode(), done
        assert "there is no price for the model claude-mythos-5" in err, err


def test_own_prices():
    with Place() as place, ClaudeServer([
            reply(["One."], usage={"input_tokens": 1000,
                                   "output_tokens": 1})]) as server:
        own = os.path.join(os.path.dirname(place.config(
            "model:\n  name: claude-mythos-5\n")), "models.yaml")
        with open(own, "w") as out:
            out.write("date: 2026-12-24\nmodels:\n  claude-mythos-5:\n"
                      "    input: 100\n    output: 500\n")
        done = place.script(server, stdin="count\n:cost\n")
        assert done.status == 0, done
        # The fake's own count of output tokens may be larger.
        assert b"at prices of 2026-12-24" in done.stderr, done
        assert b"$0.1" in done.stdout, done
        with open(own, "w") as out:
            out.write("models:\n  claude-mythos-5:\n    input: cheap\n")
        done = place.script(server, stdin="count\n")
        assert done.status == 3, done
        assert ("%s:3:12: input: cheap is no number" % own).encode() \
            in done.stderr, done


def test_budget_without_a_price_is_refused():
    for key in ("model:\n  name: x\n  budget_usd: 1\n",
                "model:\n  name: x\nlimits:\n  turn_usd: 0.5\n"):
        with Place() as place, ClaudeServer([]) as server:
            place.config(key)
            done = place.script(server, "-c", "count")
            assert done.status == 3, done
            assert b"there is no price for the model x" in done.stderr, done
    with Place() as place, ClaudeServer([]) as server:
        place.config("model:\n  name: x\n")
        done = place.script(server, stdin=":budget 1\n")
        assert done.status == 2, done
        assert b"there is no price for the model x" in done.stderr, done
        # Nor without a key, where nobody is asked.
        done = place.script(None, stdin=":budget 1\n", key=None)
        assert done.status == 2, done
        assert b"there is no price for" in done.stderr, done


def test_budget_values():
    for value, shown in (("0", "'0' is no amount"), ("-1", "'-1'"),
                         ("lots", "'lots'"), ("1e3", "'1e3'"),
                         ("0.0000000001", "no amount")):
        with Place() as place, ClaudeServer([]) as server:
            place.config("model:\n  budget_usd: %s\n" % value)
            done = place.script(server, "-c", "count")
            assert done.status == 3, done
            assert b"model.budget_usd" in done.stderr, done
            assert shown.encode() in done.stderr, done


def test_budget_ends_a_script():
    """Exit status 8, and the setting is named, since no command can be."""
    with Place() as place, ClaudeServer([
            reply([run("print(1)")], usage={"input_tokens": 5000,
                                            "output_tokens": 500})]) as server:
        place.config("model:\n  budget_usd: 0.12\n")
        done = place.script(server, "-c", "count")
        assert done.status == 8, done
        err = done.stderr.decode()
        assert ("warning: stopped before call 2: $0.03 spent, it could cost "
                in err), err
        assert ", limit $0.12\n" in err, err
        assert ("· no answer · cell 1 ran, its variables end with this run · "
                "raise model.budget_usd\n" in err), err
        assert ":retry" not in err and "error:" not in err, err
        assert server.requests[0].body["max_tokens"] < 32000


def test_budget_and_retry_at_the_prompt():
    with Place() as place, ClaudeServer([
            reply([run("kept = 41")], usage={"input_tokens": 5000,
                                             "output_tokens": 500}),
            reply([run("print('kept', kept + 1)")]),
            reply(["Forty-two."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask(":budget 0.12")
        s.has("$0.0000 spent, the budget is $0.12")
        s.ask("what is it?")
        s.has("warning: stopped before call 2: $0.03 spent, it could cost")
        s.has("· no answer yet · cell 1 and its variables are kept · :budget "
              "0.24, :retry")
        # As it was given: what is set is never shown as nothing.
        s.ask(":budget 0.000000001")
        s.has("spent, the budget is $0.000000001")
        s.ask(":budget off")
        s.has("there is no budget")
        s.ask(":retry")
        s.has("kept 42")
        s.has("Forty-two.")
        s.ask(":retry")
        s.has("there is nothing to try again: the last question was answered")
        asked = [m for m in messages(server.requests[2])
                 if "what is it?" in str(m)]
        assert len(asked) == 1, asked
        assert [r.body["max_tokens"] == 32000 for r in server.requests] == [
            False, True, True]


def test_retry_after_a_failure():
    with Place() as place, ClaudeServer([
            OVERLOADED, reply(["Three."])]) as server, \
            place.repl(server, place.file("sales.csv")) as s:
        s.at_prompt()
        s.ask("how many?")
        s.has("error: the service refused the request")
        s.ask(":retry")
        s.has("Three.")
        first, second = [r.body["messages"] for r in server.requests]
        assert first == second, second
        assert "sales.csv" in str(second), second


def test_retry_is_stopped_by_ctrl_c():
    with Place() as place, ClaudeServer([
            OVERLOADED, reply([words("half ", gate("held"), "rest")]),
            reply(["Whole."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("how many?")
        s.type_line(":retry")
        s.shows("half")
        s.interrupt()
        s.has("stopped by Ctrl-C")
        server.release("held")
        s.ask(":retry")
        s.has("Whole.")
        said = str(messages(server.requests[2]))
        assert said.count("how many?") == 1 and "half" in said, said


def test_time_limit_of_a_turn():
    with Place() as place, ClaudeServer([
            reply([run("import time\nprint('begun', flush=True)\n"
                       "time.sleep(100)")])]) as server:
        place.config("limits:\n  turn_seconds: 4\n")
        done = place.script(server, "-c", "wait", timeout=STEP_S * 2)
        assert done.status == 8, done
        err = done.stderr.decode()
        assert ("warning: stopped after 4.0 s without an answer: "
                "limits.turn_seconds\n" in err), err
        assert "are kept" not in err, err
        assert ("· no answer · cell 1 ran, its variables end with this run · "
                "raise limits.turn_seconds\n" in err), err


def test_time_limit_waits_for_the_cell():
    """Nobody is kept waiting by that, so what is left of the cell is known."""
    with Place() as place, ClaudeServer([
            reply([run("import time\nprint('begun', flush=True)\n"
                       "try:\n    time.sleep(100)\n"
                       "except KeyboardInterrupt:\n    time.sleep(0.5)\n"
                       "    raise")])]) as server:
        place.config("limits:\n  turn_seconds: 4\n")
        done = place.script(server, "-c", "wait", timeout=STEP_S * 2)
        assert done.status == 8, done
        assert b"cell 1 ran, its variables end" in done.stderr, done
        assert b"not ended yet" not in done.stderr, done


def test_time_while_stopped_does_not_count():
    """Ctrl-Z is no time of the question's: after fg it goes on."""
    with Place() as place, ClaudeServer([
            reply([words("half ", gate("held"), "rest")])]) as server:
        place.config("limits:\n  turn_seconds: 6\n")
        with place.repl(server) as s:
            s.at_prompt()
            s.type_line("wait")
            s.shows("half")
            s.signal(signal.SIGSTOP)
            time.sleep(7)
            s.signal(signal.SIGCONT)
            start = time.monotonic()
            s.shows("stopped after 6.0 s")
            assert time.monotonic() - start > 1, time.monotonic() - start
            server.release("held")


def test_same_code_again_and_again():
    with Place() as place, ClaudeServer([
            reply([run("int('x')")]), reply([run("int('x')")]),
            reply([run("int('x')")])]) as server:
        done = place.script(server, "-c", "loop")
        assert done.status == 8, done
        assert b"warning: stopped: the model made the same call with the " \
            b"same outcome for the third time\n" in done.stderr, done
        assert b" \xc2\xb7 ask in another way\n" in done.stderr, done
        assert b":retry" not in done.stderr, done
        told = [results(request)[-1][0] for request in server.requests[1:]]
        assert "same as before" not in told[0], told
        assert told[1].endswith(
            "[note]\nThis call and its outcome are the same as before; a third "
            "time ends the turn. Do something else, or answer with what is "
            "known.\n"), told[1]


def test_full_output():
    """What was left out on the screen, and all rows of a table."""
    code = ("import sys\n"
            "for i in range(1000): print('line', i)\n"
            "print('to stderr', file=sys.stderr)\n"
            "print('\\x1b[2Jwiped')\n"
            "import pandas as pd\n"
            "t = pd.DataFrame({'n': range(200), 's': ['a,\"b'] * 200})\n"
            "t\n")
    with Place() as place, ClaudeServer([
            reply([run(code)]), reply(["Done."])]) as server:
        done = place.script(server, stdin="run\n:full 1\n")
        assert done.status == 0, done
        assert b"line 500" not in done.stderr, done
        out = done.stdout.decode()
        for i in range(1000):
            assert "line %d\n" % i in out, i
        assert "to stderr\n" in out and "wiped\n" in out, out[-300:]
        shown = out[out.index("wiped"):]
        for i in range(200):
            assert " %d │ a,\"b\n" % i in shown, (i, shown[:500])
        check_clean(done.stdout)


def test_full_of_one_output():
    with Place() as place, ClaudeServer([
            reply([run("print('printed')\nimport pandas as pd\n"
                       "t = pd.DataFrame({'n': range(30)})\nt")]),
            reply([run("x = 1")]), reply(["Done."])]) as server:
        done = place.script(server, stdin="run\n:full 1.1\n:full 2\n:full 1.9\n")
        assert done.status == 2, done
        out = done.stdout.decode()
        assert out.count(" 17\n") == 1 and "printed" not in out, out
        assert b"cell 2 printed and showed nothing" in done.stderr, done
        assert b"cell 1 has no output 1.9" in done.stderr, done


def test_full_of_a_table_that_is_gone():
    with Place() as place, ClaudeServer([
            reply([run("import pandas as pd\n"
                       "t = pd.DataFrame({'n': range(30)})\nt")]),
            reply([run("import os, signal\nos.kill(os.getpid(), 9)")]),
            reply(["Done."])]) as server:
        done = place.script(server, stdin="run\n:full 1.1\n")
        assert done.status == 9, done
        assert b"the table of cell 1 is gone: the sandbox was restarted" \
            in done.stderr, done


def test_what_is_sent_of_the_local_sandbox():
    """The prompt that is built in, one tool for Python alone, and nothing
    behind them; with less isolation, what that means."""
    top = os.environ.get("abs_top_srcdir", os.path.join(HERE, "..", ".."))
    with open(os.path.join(top, "share", "prompts", "system.md")) as f:
        prompt = f.read()
    for args in ((), ("--isolation", "reduced")):
        with Place() as place, ClaudeServer([reply(["One."])]) as server:
            place.script(server, *args, "-c", "first")
            body = server.requests[0].body
            said = body["system"][0]["text"]
            if args:
                rest = said[len(prompt):]
                assert said.startswith(prompt), said
                assert rest.strip().startswith("In this session"), rest
                assert "service" not in rest, rest
            else:
                assert said == prompt, said
            tool, = body["tools"]
            assert list(tool["input_schema"]["properties"]) == ["code"], tool
            assert "in a sandbox without network, and" \
                in tool["description"], tool


def test_own_system_prompt():
    with Place() as place, ClaudeServer([reply(["One."]), reply(["Two."])]) \
            as server:
        path = os.path.join(os.path.dirname(place.config("")), "prompts",
                            "system.md")
        os.makedirs(os.path.dirname(path))
        with open(path, "w") as out:
            out.write("Speak like a pirate.\n")
        with place.repl(server) as s:
            s.at_prompt()
            s.has("· the system prompt is yours:")
            s.ask("first")
            with open(path, "w") as out:
                out.write("Changed in between.\n")
            s.ask("second")
        said = [r.body["system"][0]["text"] for r in server.requests]
        assert said == ["Speak like a pirate.\n"] * 2, said
        for bad, why in ((b"\xff", b"no valid UTF-8"), (b"a\0b", b"no valid"),
                         (b" \n", b"is empty"),
                         (b"x" * 70000, b"at most 65536 bytes")):
            with open(path, "wb") as out:
                out.write(bad)
            done = place.script(server, "-c", "third")
            assert done.status == 3 and why in done.stderr, done
            assert path.encode() in done.stderr, done


if __name__ == "__main__":
    tap.main(globals())
