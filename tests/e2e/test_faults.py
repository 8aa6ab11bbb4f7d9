#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong on the way and in the sandbox, and what becomes of it."""

import os
import re
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (FACTOR, KEY, STEP_S, Place, messages, news,  # noqa: E402
                     question, results, run)

import tap  # noqa: E402
from claude_server import (ClaudeServer, cut, error,  # noqa: E402
                           error_event, event, raw_http, reply, response,
                           text, thinking, tool_use)

ANSWER = "All is well."


def ask(script, *more, config=None, **options):
    """One question in a script; (what came of it, requests)."""
    with Place() as place, ClaudeServer(list(script)) as server:
        if config:
            place.config(config)
        done = place.script(server, "-c", "how is it?", *more, **options)
        assert KEY.encode() not in done.stdout + done.stderr, done
        return done, server.message_requests


def is_answered(done, requests, n):
    assert done.status == 0, done
    assert ANSWER.encode() in done.stdout, done
    assert len(requests) == n, (len(requests), done)


def is_refused(done, requests, status, *words, n=1):
    """Ends with status, one error line that has the words, and no answer."""
    assert done.status == status, done
    assert done.stdout.strip() == b"", done
    assert len(requests) == n, (len(requests), done)
    lines = [line for line in done.stderr.decode().splitlines()
             if line.startswith("error: ")]
    assert len(lines) == 1, done
    for word in words:
        assert re.search(word, done.stderr.decode(), re.I), (word, done)


# ---- the service ------------------------------------------------------------

@tap.timeout(60)
def test_overloaded_then_success():
    done, requests = ask([error(529), reply([ANSWER])])
    is_answered(done, requests, 2)
    assert requests[0].raw == requests[1].raw
    assert b"overloaded" in done.stderr, done


@tap.timeout(60)
def test_each_status_that_is_tried_again():
    done, requests = ask([error(500), error(503), error(504), error(529),
                          reply([ANSWER])])
    is_answered(done, requests, 5)


@tap.timeout(60)
def test_it_gives_up_in_the_end():
    done, requests = ask([error(529)] * 2,
                         config="model:\n  max_attempts: 2\n")
    is_refused(done, requests, 6, "overloaded", "529", n=2)


@tap.timeout(60)
def test_retry_after_is_kept():
    done, requests = ask([error(429, headers={"retry-after": "2"}),
                          reply([ANSWER])])
    is_answered(done, requests, 2)
    waited = requests[1].time - requests[0].time
    assert waited >= 1.9, waited
    assert b"2 s" in done.stderr or b"2.0 s" in done.stderr, done


@tap.timeout(60)
def test_too_long_a_retry_after_is_said():
    start = time.monotonic()
    done, requests = ask([error(429, headers={"retry-after": "900"})])
    assert time.monotonic() - start < 20 * FACTOR
    is_refused(done, requests, 6, "900 s")


@tap.timeout(60)
def test_a_bad_key():
    done, requests = ask([error(401, message="invalid x-api-key")])
    is_refused(done, requests, 4, "key", "401")


@tap.timeout(60)
def test_no_permission():
    done, requests = ask([error(403, "permission_error", "not for you")])
    is_refused(done, requests, 4, "not for you")


@tap.timeout(60)
def test_no_such_model():
    done, requests = ask([error(404, message="model: claude-none")])
    assert done.status != 0 and b"claude-none" in done.stderr, done
    assert len(requests) == 1


@tap.timeout(60)
def test_a_request_that_is_wrong():
    done, requests = ask([error(400, message="messages: something is wrong")])
    is_refused(done, requests, 5, "something is wrong", "400")


@tap.timeout(60)
def test_a_page_instead_of_json():
    page = b"<html><body><h1>413 \x1b[31mToo Large</h1></body></html>"
    done, requests = ask([error(413, body=page, content_type="text/html")])
    is_refused(done, requests, 8, "413")
    assert b"<html>" not in done.stderr, done
    assert b"\x1b" not in done.stderr, done


@tap.timeout(60)
def test_an_error_that_is_no_json():
    for body, kind in ((b"no luck", "application/json"), (b"", "text/plain"),
                       (b"[1, 2", "application/json"),
                       (b'{"error": 7}', "application/json"),
                       (b"\xff\xfe\x00" * 50, "application/octet-stream"),
                       (b"x" * 300000, "text/plain")):
        done, requests = ask([error(400, body=body, content_type=kind)])
        is_refused(done, requests, 5, "400")
        assert len(done.stderr) < 2000, done


@tap.timeout(60)
def test_a_login_page_with_status_200():
    done, requests = ask([response(
        200, [b"<html>please log in</html>"],
        {"content-type": "text/html"})])
    is_refused(done, requests, 5, "a web page", "model.base_url")
    assert b"<html>" not in done.stderr, done


@tap.timeout(60)
def test_an_empty_success():
    done, requests = ask([response(200, [b""],
                                   {"content-type": "text/event-stream"})]
                         * 2, config="model:\n  max_attempts: 2\n")
    assert done.status != 0 and done.stdout.strip() == b"", done


@tap.timeout(60)
def test_no_http_at_all():
    done, _ = ask([raw_http([b"220 mail.example ESMTP\r\n"])],
                  config="model:\n  max_attempts: 1\n")
    assert done.status != 0 and done.stdout.strip() == b"", done
    assert b"error: " in done.stderr, done


@tap.timeout(60)
def test_nobody_listens():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        with Place() as place:
            place.config("model:\n  max_attempts: 1\n")
            done = place.script("http://127.0.0.1:%d" % port, "-c", "hello")
    assert done.status == 5, done
    assert b"127.0.0.1" in done.stderr, done


# ---- a reply that breaks ----------------------------------------------------

@tap.timeout(60)
def test_a_cut_in_text():
    for how in ("reset", "close", "end"):
        with Place() as place, ClaudeServer([
                reply([text("The first part", cut(how))]),
                reply([ANSWER])]) as server, place.repl(server) as s:
            s.at_prompt()
            s.ask("how is it?")
            s.has(ANSWER)
            s.has("The first part")
            s.has("broke off")
            first, second = server.message_requests
            assert first.raw == second.raw, how


@tap.timeout(60)
def test_a_cut_in_the_input_of_a_tool():
    """Half a call is never run."""
    for how in ("reset", "close", "end"):
        half = [tool_use("run_python", fragments=[
            '{"code": "print(\'half\')\\n', cut(how)])]
        with Place() as place, ClaudeServer([
                reply(half), reply([run("print('whole')")]),
                reply([ANSWER])]) as server, place.repl(server) as s:
            s.at_prompt()
            s.ask("how is it?")
            s.has(ANSWER)
            s.has_not("half")
            s.has("│ whole")
            s.has_not("── 2 python")
            assert server.requests[0].raw == server.requests[1].raw
            assert len(messages(server.requests[2])) == 3


@tap.timeout(60)
def test_a_call_that_is_whole_in_a_reply_that_is_not():
    with Place() as place, ClaudeServer([
            reply([run("print('untimely')")], finish=False),
            reply([ANSWER])]) as server:
        done = place.script(server, "-c", "how is it?")
        is_answered(done, server.message_requests, 2)
        assert b"untimely" not in done.stderr + done.stdout, done


@tap.timeout(60)
def test_an_early_end():
    done, requests = ask([reply(["It is"], finish=False), reply([ANSWER])])
    is_answered(done, requests, 2)


@tap.timeout(60)
def test_an_error_in_mid_stream():
    done, requests = ask([reply([text("It", error_event(), "x")],
                                finish=False), reply([ANSWER])])
    is_answered(done, requests, 2)
    done, requests = ask([reply([text("It", error_event(
        "invalid_request_error", "that was wrong"), "x")], finish=False)])
    assert done.status != 0 and b"that was wrong" in done.stderr, done
    assert len(requests) == 1


@tap.timeout(60)
def test_what_is_not_known_is_passed_over():
    done, requests = ask([reply([
        event("novelty", {"type": "novelty", "what": [1, {"a": None}]}),
        text("All ", event("ping", {"type": "ping"}), "is well.")])])
    is_answered(done, requests, 1)


@tap.timeout(60)
def test_an_event_that_is_no_json():
    broken = reply([text("It", event("content_block_delta", "{nope"), "x")])
    done, requests = ask([broken], config="model:\n  max_attempts: 1\n")
    assert done.status != 0, done
    assert b"error: " in done.stderr, done


@tap.timeout(60)
def test_a_failed_question_is_taken_back():
    """And what a loaded file told with it is told again."""
    with Place() as place, ClaudeServer([
            error(400, message="not now"), reply([ANSWER])]) as server:
        place.file("sales.csv")
        with place.repl(server, "sales.csv") as s:
            s.shows("4 rows")
            s.at_prompt()
            s.ask("the first question")
            s.has("not now")
            s.ask("the second question")
            s.has(ANSWER)
        talk = messages(server.requests[1])
        assert len(talk) == 1, talk
        told = question(server.requests[1])
        assert "the second question" in told and "`sales`" in told, told
        assert "the first question" not in told, told


@tap.timeout(60)
def test_thinking_survives_a_broken_try():
    with Place() as place, ClaudeServer([
            reply([thinking("Void."), text("Vo", cut())]),
            reply([thinking("Real."), run("print(1)")]),
            reply([ANSWER])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("how is it?")
        s.has(ANSWER)
        content = messages(server.requests[2])[1][1]
        assert content[0]["thinking"] == "Real.", content
        assert "Void" not in str(messages(server.requests[2]))


# ---- the sandbox ------------------------------------------------------------

def die(code, word):
    """A cell that takes its interpreter with it; a loaded file comes back."""
    with Place() as place, ClaudeServer([
            reply([run("lost = 1")]), reply(["Set."]),
            reply([run(code)]),
            reply([run("print(len(sales), 'lost' in globals())")]),
            reply([ANSWER])]) as server:
        place.file("sales.csv")
        with place.repl(server, "sales.csv") as s:
            s.shows("4 rows")
            s.at_prompt()
            s.ask("set it")
            s.ask("die", STEP_S * 2)
            s.has(ANSWER)
            (told, is_error), = results(server.requests[3])
            assert is_error, told
            assert re.search(word, told), told
            assert "4 False" in results(server.requests[4])[0][0]
            # The person learns that variables are gone.
            shown = s.text()
            assert re.search("warning: .*(interpreter|variables)", shown), \
                shown


@tap.timeout(90)
def test_the_interpreter_exits():
    die("import os\nprint('last words', flush=True)\nos._exit(3)\n",
        "(?s)interpreter|variables|ended")


@tap.timeout(90)
def test_the_interpreter_is_killed():
    die("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "(?s)interpreter|variables|killed")


@tap.timeout(90)
def test_the_interpreter_crashes():
    die("import ctypes\nctypes.string_at(8)\n",
        "(?s)interpreter|variables|SEGV")


@tap.timeout(60)
def test_an_error_in_the_code():
    code = "def f(n):\n    return 1 / n\n\nf(0)\n"
    with Place() as place, ClaudeServer([
            reply([run(code)]), reply([run("print('mended')")]),
            reply([ANSWER])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("divide")
        (told, is_error), = results(server.requests[1])
        assert is_error and "ZeroDivisionError" in told, told
        assert "line 4" in told and "line 2" in told, told
        shown = s.text()
        assert "│ ZeroDivisionError: division by zero" in shown, shown
        assert "│   line 2: return 1 / n" in shown, shown
        assert "cell 1 failed, Claude is told" in shown, shown
        assert ":trace 1" in shown, shown
        assert "Traceback" not in shown, shown
        s.has("│ mended")
        s.ask(":trace 1")
        s.has("Traceback")


@tap.timeout(60)
def test_a_syntax_error():
    with Place() as place, ClaudeServer([
            reply([run("print('ran')\nfor x in\n")]), reply([ANSWER])
            ]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("loop")
        (told, is_error), = results(server.requests[1])
        assert is_error and "SyntaxError" in told, told
        s.has("SyntaxError")
        s.has_not("│ ran")


@tap.timeout(60)
def test_a_wrong_column_is_hinted():
    with Place() as place, ClaudeServer([
            reply([run("sales['Region']")]), reply([ANSWER])]) as server:
        place.file("sales.csv")
        with place.repl(server, "sales.csv") as s:
            s.shows("4 rows")
            s.at_prompt()
            s.ask("look")
            s.has("KeyError")
            s.has("nearest column: region")
            assert "region" in results(server.requests[1])[0][0]


@tap.timeout(60)
def test_ways_to_end_python():
    for code in ("exit()", "raise SystemExit(4)", "raise KeyboardInterrupt",
                 "input('name? ')", "raise BaseException('odd')"):
        with Place() as place, ClaudeServer([
                reply([run("kept = 7")]), reply([run(code)]),
                reply([run("print('kept', kept)")]), reply([ANSWER])
                ]) as server:
            done = place.script(server, "-c", "end it")
            is_answered(done, server.message_requests, 4)
            assert "kept 7" in results(server.requests[3])[0][0], code


@tap.timeout(60)
def test_one_of_two_calls_fails():
    with Place() as place, ClaudeServer([
            reply([run("a = 1\n1 / 0"), run("print('a is', a)")]),
            reply([ANSWER])]) as server:
        done = place.script(server, "-c", "two")
        is_answered(done, server.message_requests, 2)
        told = results(server.requests[1])
        assert told[0][1] and not told[1][1], told
        assert "a is 1" in told[1][0], told


@tap.timeout(150)
def test_round_21():
    """Twenty rounds are run, the call of the last is answered unrun."""
    calls = [reply([run("print('round', %d)" % (n + 1))]) for n in range(20)]
    with Place() as place, ClaudeServer(
            calls + [reply([ANSWER])]) as server, \
            place.repl(server, rows=60) as s:
        s.at_prompt()
        s.ask("never stop", STEP_S * 3)
        assert len(server.message_requests) == 20
        s.has("limits.rounds")
        s.has("20 rounds")
        s.has("│ round 19")
        s.ask("and now?")
        s.has(ANSWER)
        answers = [b for b in news(server.requests[20])
                   if b["type"] == "tool_result"]
        assert len(answers) == 1 and answers[0]["is_error"], answers
        assert "limit" in str(answers[0]["content"]), answers


@tap.timeout(60)
def test_a_cell_over_its_time():
    with Place() as place, ClaudeServer([
            reply([run("k = 3\nprint('begun')\nwhile True: pass")]),
            reply([run("print('k', k)")]), reply([ANSWER])]) as server:
        place.config("limits:\n  cell_seconds: 2\n")
        done = place.script(server, "-c", "spin")
        is_answered(done, server.message_requests, 3)
        (told, is_error), = results(server.requests[1])
        assert is_error and "begun" in told, told
        assert re.search(r"2(\.0)? s", told), told
        assert "k 3" in results(server.requests[2])[0][0]


if __name__ == "__main__":
    tap.main(globals())
