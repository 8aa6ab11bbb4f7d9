#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a service bills for is ended, and nobody waits for that who does not
want to: at the end of the program, at a change of the sandbox, and where there
need not be one."""

import contextlib
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import PROMPT_S, REPORT, STEP_S, Place, run  # noqa: E402

import tap  # noqa: E402
from claude_server import ClaudeServer, gate, reply, text  # noqa: E402
from e2b_server import E2bServer, unavailable  # noqa: E402
from sandbox_session import wait_until  # noqa: E402

WAITS = "waiting for the end of the sandbox"
LEFT = "could not be ended"

# It waits for 10 s by itself: END_MS of e2b_retire.c.
NOT_LATE_S = 8


def at(e2b):
    return {"E2B_API_URL": e2b.url, "E2B_SANDBOX_URL": e2b.url,
            "E2B_API_KEY": e2b.key}


@contextlib.contextmanager
def in_use():
    """A service and a session with a sandbox there."""
    with E2bServer() as e2b, Place() as place:
        with place.repl(None, "--sandbox", "e2b", env=at(e2b)) as s:
            s.at_prompt()
            s.ask(":vars")
            yield e2b, s


def until_it_waits(child):
    """What it says on standard error until it says that."""
    err = b""
    while WAITS.encode() not in err:
        line = child.stderr.readline()
        assert line, err.decode()
        err += line
    return err


def held(e2b, words):
    return e2b.fail(words, hold=True, times=99)


def is_empty(e2b):
    with e2b.lock:
        return not e2b.sandboxes


# ---- where none is needed ---------------------------------------------------

@tap.timeout(120)
def test_a_script_without_cells_makes_none():
    """Commands that need no interpreter; then one that does."""
    with E2bServer() as e2b, Place() as place:
        path = place.file("sales.csv")
        for lines, wanted in (
                ("", 0), (":sandbox list\n:sandbox\n:vars\n:help\n", 0),
                (":load %s\n" % path, 1)):
            done = place.script(None, "--sandbox", "e2b", stdin=lines,
                                env=at(e2b), key=None)
            assert done.status == 0, done
            assert len(e2b.created) == wanted, (lines, done)
        assert is_empty(e2b)


@tap.timeout(120)
def test_a_switch_pays_for_one():
    with E2bServer() as e2b, Place() as place:
        done = place.script(None, "--sandbox", "e2b",
                            stdin=":sandbox local\n:vars\n", env=at(e2b),
                            key=None)
        assert done.status == 0 and not e2b.created, done


@tap.timeout(120)
def test_a_question_has_one_made_at_once():
    """Beside the answer of the model, which may need it or not."""
    with E2bServer() as e2b, Place() as place, \
            ClaudeServer([reply([text(gate("made"), "none")])]) as server:
        fault = held(e2b, "POST /sandboxes")
        with place.running(server, "--sandbox", "e2b", "-c", "hello?",
                           env=at(e2b)) as child:
            assert fault.reached.wait(STEP_S)
            server.release("made")
            fault.release()
            child.wait(STEP_S)
        wait_until(lambda: is_empty(e2b), STEP_S, "it is ended")


# ---- the end of the program -------------------------------------------------

@tap.timeout(180)
def test_ctrl_c_leaves_a_slow_service():
    """Protections: tty_restore() in begin_retiring(), main.c."""
    with in_use() as (e2b, s):
        made = e2b.sandbox().id
        fault = held(e2b, "DELETE /sandboxes/")
        s.send(b"\x04")
        s.shows(WAITS + "; Ctrl-C leaves it")
        s.resize(70, 30)
        start = s.send(b"\x03")
        assert s.wait_exit(STEP_S) == 0
        assert time.monotonic() - start < NOT_LATE_S
        s.has("warning: sandbox %s at 127.0.0.1" % made)
        s.has(LEFT)
        s.has_not("^Cwarning")
        fault.release()


@tap.timeout(180)
def test_a_second_signal_leaves_it():
    sleep = "print(1)\nimport time\ntime.sleep(600)"
    for second in (signal.SIGTERM, signal.SIGINT):
        with E2bServer() as e2b, Place() as place, \
                ClaudeServer([reply([run(sleep)])]) as server:
            with place.running(server, "--sandbox", "e2b", "-c", "go",
                               env=at(e2b)) as child:
                wait_until(lambda: e2b.find("/execute"), STEP_S, "it runs")
                fault = held(e2b, "DELETE /sandboxes/")
                child.send_signal(signal.SIGTERM)
                err = until_it_waits(child)
                start = time.monotonic()
                child.send_signal(second)
                err += child.communicate(timeout=STEP_S)[1]
                assert time.monotonic() - start < NOT_LATE_S
                assert child.returncode == 128 + signal.SIGTERM, err.decode()
                assert LEFT in err.decode(), err
            fault.release()


@tap.timeout(180)
def test_several_signals_at_once_are_one():
    """As a supervisor sends them. Protection: SAME_SIGNAL_MS, main.c."""
    with E2bServer() as e2b, Place() as place, \
            ClaudeServer([reply([run("import time\ntime.sleep(600)")])]) \
            as server:
        with place.running(server, "--sandbox", "e2b", "-c", "go",
                           env=at(e2b)) as child:
            wait_until(lambda: e2b.find("/execute"), STEP_S, "it runs")
            for _ in range(3):
                child.send_signal(signal.SIGTERM)
            _, err = child.communicate(timeout=STEP_S)
            assert LEFT not in err.decode(), err.decode()
        assert is_empty(e2b)


@tap.timeout(180)
def test_ctrl_c_right_behind_the_key_that_leaves():
    with in_use() as (e2b, s):
        held(e2b, "DELETE /sandboxes/")
        start = s.send(b"\x04\x03")
        assert s.wait_exit(STEP_S) == 0
        assert time.monotonic() - start < NOT_LATE_S
        s.has(LEFT)


@tap.timeout(180)
def test_nobody_is_told_of_a_reply_that_goes_on():
    """It ends with the session, which is gone while the service is waited for.
    (The build with sanitizers finds a call.) Protection: claude_free() first
    in end_session(), main.c."""
    with E2bServer() as e2b, Place() as place, \
            ClaudeServer([reply([text("Half", gate("half"), " of it")])]) \
            as server:
        place.file("sales.csv")
        with place.running(server, "--sandbox", "e2b", "-c", "go", "sales.csv",
                           env=at(e2b)) as child:
            server.wait_reached("half", STEP_S)
            fault = held(e2b, "DELETE /sandboxes/")
            child.send_signal(signal.SIGTERM)
            assert fault.reached.wait(STEP_S)
            server.release("half")
            err = until_it_waits(child)
            fault.release()
            err += child.communicate(timeout=STEP_S)[1]
            assert child.returncode == 128 + signal.SIGTERM, err.decode()
            assert not REPORT.search(err), err.decode()
        assert is_empty(e2b)


@tap.timeout(180)
def test_a_terminal_that_is_closed_does_not_leave_it():
    """It is gone, and SIGHUP comes from two sides."""
    with in_use() as (e2b, s):
        fault = held(e2b, "DELETE /sandboxes/")
        s.signal(signal.SIGHUP)
        assert fault.reached.wait(STEP_S)
        s.signal(signal.SIGHUP)
        s.shows(WAITS)
        s.signal(signal.SIGHUP)
        fault.release()
        assert s.wait_exit(STEP_S) == 128 + signal.SIGHUP
        s.has_not(LEFT)
        assert is_empty(e2b)


@tap.timeout(180)
def test_a_slow_reader_does_not_keep_it():
    """What is billed ends when the answer is there, not when it is read."""
    with E2bServer() as e2b, Place() as place, \
            ClaudeServer([reply([text("x" * 4000000)])]) as server:
        place.file("sales.csv")
        with place.running(server, "--sandbox", "e2b", "-c", "go", "sales.csv",
                           env=at(e2b)) as child:
            wait_until(lambda: e2b.created and is_empty(e2b), STEP_S,
                       "it is ended")
            assert child.poll() is None
            out, _ = child.communicate(timeout=STEP_S)
            assert out.count(b"x") == 4000000
            assert child.returncode == 0


@tap.timeout(120)
def test_it_is_waited_for():
    """A service that is slow, but not too slow: nothing is left."""
    with in_use() as (e2b, s):
        fault = held(e2b, "DELETE /sandboxes/")
        s.send(b"\x04")
        s.shows(WAITS)
        fault.release()
        assert s.wait_exit(STEP_S) == 0
        s.has_not(LEFT)
        assert is_empty(e2b)


# ---- a change of the sandbox ------------------------------------------------

@tap.timeout(180)
def test_the_old_one_ends_behind_the_prompt():
    """Protection: sandbox_retire_backend()."""
    with in_use() as (e2b, s):
        fault = held(e2b, "DELETE /sandboxes/")
        s.ask(":sandbox local")
        s.has("the sandbox is local now")
        assert fault.reached.wait(STEP_S)
        s.ask(":vars")
        assert all(r.status is None for r in e2b.find("DELETE /sandboxes/"))
        fault.release()
        wait_until(lambda: is_empty(e2b), STEP_S, "it is ended")


@tap.timeout(180)
def test_an_old_one_is_asked_for_again():
    """Behind the prompt nobody waits for it. Protection: is_patient in
    end_round(), e2b_retire.c."""
    with in_use() as (e2b, s):
        e2b.fail("DELETE /sandboxes/", lost=True, times=7)
        s.ask(":sandbox local")
        e2b.wait_request("DELETE /sandboxes/", count=8, timeout=STEP_S)
        wait_until(lambda: is_empty(e2b), STEP_S, "it is ended")
        s.has_not(LEFT)


@tap.timeout(180)
def test_an_old_one_that_cannot_be_ended_is_said():
    with in_use() as (e2b, s):
        made = e2b.sandbox().id
        e2b.fail("DELETE /sandboxes/", times=99, status=403,
                 body=b'{"code":403,"message":"no"}')
        s.ask(":sandbox local")
        s.shows(LEFT)
        s.has("sandbox %s could not be ended: " % made)
        s.at_prompt()


@tap.timeout(180)
def test_a_change_that_is_given_up():
    """The prompt is there at once, and what the service made in the end is
    ended behind it."""
    with E2bServer() as e2b, Place() as place:
        with place.repl(None, env=at(e2b)) as s:
            s.at_prompt()
            s.ask(":vars")
            fault = held(e2b, "POST /sandboxes")
            end = held(e2b, "DELETE /sandboxes/")
            s.type_line(":sandbox e2b")
            assert fault.reached.wait(STEP_S)
            assert s.interrupt() < PROMPT_S
            s.has("the sandbox is still local")
            fault.release()
            end.release()
            s.ask(":vars")
            wait_until(lambda: e2b.created and is_empty(e2b), STEP_S,
                       "it is ended")
            s.has_not(LEFT)


@tap.timeout(180)
def test_a_change_that_is_given_up_and_wanted_after_all():
    """What the first one has made is ended, and not what the second has: they
    have the same settings. Protection: E2B_LABEL_BACKEND."""
    with E2bServer() as e2b, Place() as place:
        with place.repl(None, env=at(e2b)) as s:
            s.at_prompt()
            first = e2b.fail("POST /sandboxes", hold=True)
            # It shows in no list while it is being made.
            hidden = e2b.fail("GET /v2/sandboxes$", status=200, body=b"[]",
                              headers={"content-type": "application/json"},
                              times=99)
            s.type_line(":sandbox e2b")
            assert first.reached.wait(STEP_S)
            s.interrupt()
            s.ask(":sandbox e2b")
            s.has("the sandbox is e2b now")
            with e2b.lock:
                e2b.faults.remove(hidden)
            first.release()
            wait_until(lambda: e2b.created[0] not in e2b.sandboxes, STEP_S,
                       "the first one is ended")
            # Whoever looks has looked once more by then.
            e2b.wait_request("GET sandboxes", timeout=STEP_S)
            s.ask(":load " + place.file("sales.csv"))
            s.has("4 rows")
            assert list(e2b.sandboxes) == e2b.created[1:]
            assert len(e2b.created) == 2


@tap.timeout(180)
def test_one_that_is_lost_after_a_change_is_made_anew():
    """And that is said, though the change is over. Protection: progress gets
    on_lost_ctx (tell() in e2b_open.c; the build with sanitizers finds what it
    got before)."""
    with E2bServer() as e2b, Place() as place, \
            ClaudeServer([reply([run("print(6 * 7)")]),
                          reply([text("Done.")])]) as server:
        with place.repl(server, env=at(e2b)) as s:
            s.at_prompt()
            s.ask(":sandbox e2b")
            e2b.lose()
            s.ask("go")
            s.shows("Done.")
            assert s.text().count("making a sandbox at") == 2, s.text()
            assert len(e2b.created) == 2


if __name__ == "__main__":
    why = unavailable()
    if why:
        tap.skip_all(why)
    tap.main(globals())
