#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The back end of services against the fake, where nobody else has anything
like it: what is asked of the service and when, what its faults become, that
nothing is billed that nobody wants, and where keys go. What all back ends have
in common is in tests/contract."""

import base64
import json
import os
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]

import tap  # noqa: E402
from driver_session import wait_until  # noqa: E402
from e2b_server import KEY, E2bServer, unavailable  # noqa: E402
from e2b_session import E2bSession  # noqa: E402

TIMEOUT_S = 180
RUN = ("owner=aaaa1111", "run=bbbb2222")


def ok(cell):
    assert cell.end == "done" and cell.outcome == "ok", cell
    return cell


def count(sb, words):
    return len(sb.server.find(words))


def n_created(sb):
    return sum(1 for r in sb.server.find("POST sandboxes")
               if r.path.endswith("/sandboxes") and r.status == 201)


def drop_streams(server):
    with server.lock:
        for sandbox in server.sandboxes.values():
            for sock in list(sandbox.open_sockets):
                sock.shutdown(socket.SHUT_RDWR)


def stands_still(sb):
    """Whether the time that is billed does; it goes on by itself otherwise."""
    before = sb.info()["billed_ms"]
    time.sleep(0.05)
    return sb.info()["billed_ms"] == before


def is_acknowledged(server):
    """Whether the last that our interpreter was sent says what has come."""
    last = server.find("SendInput")[-1]
    if last.status != 200:  # its body may not have come yet
        return False
    text = base64.b64decode(json.loads(last.raw)["input"]["stdin"])
    return text.split()[1] == b"a"


def put(sb, path, name="f.csv"):
    sb.request(op="put", path=path, name=name)
    return sb.wait("op", name="put")


def write(sb, name, data):
    path = os.path.join(sb.dir, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


# ---- what is asked for ------------------------------------------------------

@tap.timeout(TIMEOUT_S)
def test_egress_is_off_unless_it_is_allowed():
    rows = (((), False, None, "no internet"),
            (("internet=on",), True, None, "internet"),
            (("internet=pypi.org,*.example.org,10.0.0.0/8",), None,
             ["pypi.org", "*.example.org", "10.0.0.0/8"], "pypi.org and 2 more"))
    for options, allowed, hosts, words in rows:
        with E2bSession(*options) as sb:
            ok(sb.cell("1"))
            made = json.loads(sb.server.find("POST sandboxes")[0].raw)
            if hosts is None:
                assert made.get("allow_internet_access") is allowed, made
            else:
                assert made["network"]["allowOut"] == hosts, made
                assert made["network"]["denyOut"] == ["0.0.0.0/0"], made
            assert sb.info()["egress"] == words, sb.info()


def say_of_egress(**more):
    """Changes what the service says of a sandbox."""
    def rewrite(body):
        told = json.loads(body)
        for key in ("allowInternetAccess", "network"):
            told.pop(key, None)
        told.update(more)
        return json.dumps(told).encode()
    return rewrite


@tap.timeout(TIMEOUT_S)
def test_egress_that_the_service_ignores():
    """What reaches more than it may runs nothing, and is ended; what does not
    say so is told."""
    with E2bSession(*RUN) as sb:
        sb.server.fail("GET /sandboxes/", times=9,
                       rewrite=say_of_egress(allowInternetAccess=True))
        cell = sb.cell("1", timeout=60)
        assert cell.end == "error" and cell.code == "config", cell
        assert "reaches the internet" in cell.message, cell
        assert count(sb, "PUT /network") == 1
        assert count(sb, "/execute") == 0
        sb.server.wait_request("DELETE /sandboxes/")
    with E2bSession(*RUN) as sb:
        sb.server.fail("GET /sandboxes/", times=9, rewrite=say_of_egress())
        ok(sb.cell("1"))
        assert sb.info()["egress"] == (
            "no internet (not confirmed by the service)"), sb.info()
    with E2bSession("internet=on") as sb:
        sb.server.fail("GET /sandboxes/", times=9,
                       rewrite=say_of_egress(allowInternetAccess=True))
        ok(sb.cell("1"))
        assert sb.info()["egress"] == "internet", sb.info()


@tap.timeout(TIMEOUT_S)
def test_keys_stay_outside():
    """The account's key goes to the API alone (the fake looks at every
    request), and is nowhere in the sandbox."""
    with E2bSession("header=Authorization=Bearer sk-0123456789") as sb:
        cell = ok(sb.cell(
            "import os, glob\nfound = [dict(os.environ)]\n"
            "for path in glob.glob('/proc/[0-9]*/environ') + "
            "glob.glob('/proc/[0-9]*/cmdline'):\n"
            "    try:\n        found.append(open(path, 'rb').read())\n"
            "    except OSError:\n        pass\nprint(found)"))
        for secret in (KEY, "sk-0123456789"):
            assert secret not in cell.stdout, cell.stdout[:2000]
        for request in sb.server.data_requests:
            text = json.dumps(dict(request.headers)) + request.raw.decode("latin-1")
            assert KEY not in text and "sk-0123456789" not in text, request
        for request in sb.server.api_requests:
            headers = {k.lower(): v for k, v in dict(request.headers).items()}
            assert headers.get("x-api-key") == KEY, request
            assert headers.get("authorization") == "Bearer sk-0123456789"


@tap.timeout(TIMEOUT_S)
def test_a_file_is_sent_once():
    """The same bytes are not sent again to the same sandbox; others are."""
    with E2bSession() as sb:
        path = write(sb, "f.csv", b"a,b\n1,2\n")
        assert put(sb, path)["end"] == "done"
        n = count(sb, "POST /files$")
        assert n > 0
        assert put(sb, path)["end"] == "done"
        assert count(sb, "POST /files$") == n
        ok(sb.cell("assert open('f.csv').read() == 'a,b\\n1,2\\n'"))
        write(sb, "f.csv", b"a,b\n3,4\n")
        assert put(sb, path)["end"] == "done"
        assert count(sb, "POST /files$") > n
        ok(sb.cell("assert open('data/f.csv').read() == 'a,b\\n3,4\\n'"))
        cell = sb.cell("open('data/f.csv', 'w')")
        assert cell.outcome == "error" and cell.error == "PermissionError", cell


@tap.timeout(TIMEOUT_S)
def test_a_file_that_a_cell_has_changed_is_sent_again():
    """Protections: is_as_sent(), and what put_script does before mv. Cells may
    be root's, or give themselves the right."""
    attacks = (
        "os.chmod('data/f.csv', 0o644)\nopen('data/f.csv', 'w').write('no')",
        "os.chmod('data', 0o755)\nos.unlink('data/f.csv')",
        "os.chmod('data', 0o755)\nos.unlink('data/f.csv')\n"
        "os.makedirs('data/f.csv/d')",
        "os.chmod('data', 0o755)\nos.unlink('data/f.csv')\n"
        "os.symlink('/etc/passwd', 'data/f.csv')",
        "os.chmod('data', 0o755)\nshutil.rmtree('data')",
        "os.chmod('data', 0o755)\nshutil.rmtree('data')\n"
        "os.mkdir('/tmp/elsewhere')\nos.symlink('/tmp/elsewhere', 'data')",
        "os.chmod('data', 0o755)\nshutil.rmtree('data')\n"
        "open('data', 'w')")
    with E2bSession() as sb:
        path = write(sb, "f.csv", b"a,b\n1,2\n")
        assert put(sb, path)["end"] == "done"
        for attack in attacks:
            ok(sb.cell("import os, shutil\n" + attack))
            done = put(sb, path)
            assert done["end"] == "done", (attack, done)
            ok(sb.cell("import os\n"
                       "assert open('data/f.csv').read() == 'a,b\\n1,2\\n'\n"
                       "assert open('f.csv').read() == 'a,b\\n1,2\\n'\n"
                       "for n in ('data', 'data/f.csv'):\n"
                       "    assert not os.path.islink(n), n\n"
                       "assert os.listdir('.state') == []"))


@tap.timeout(TIMEOUT_S)
def test_a_file_that_cannot_be_placed_is_in_nobodys_way():
    """Protection: rm -f in put_script, and a name for each upload."""
    with E2bSession() as sb:
        assert put(sb, write(sb, "e.csv", b"a\n"), "e.csv")["end"] == "done"
        ok(sb.cell("import os, shutil\nos.chmod('data', 0o755)\n"
                   "shutil.rmtree('data')\nos.chmod('.', 0o555)"))
        done = put(sb, write(sb, "f.csv", b"a\n1\n"))
        assert done["end"] == "error" and "its place" in done["message"], done
        ok(sb.cell("os.chmod('.', 0o755)\nos.mkdir('data')\n"
                   "assert os.listdir('.state') == []"))
        done = put(sb, write(sb, "g.csv", b"a\n2\n"), "g.csv")
        assert done["end"] == "done", done
        assert ok(sb.cell("print(open('g.csv').read())")
                  ).stdout == "a\n2\n\n"


@tap.timeout(TIMEOUT_S)
def test_time_is_renewed_while_it_is_used():
    with E2bSession("timeout_s=15") as sb:
        ok(sb.cell("x = 1"))
        sb.server.wait_request("POST /timeout", timeout=60)
        sb.server.advance(8)
        sb.server.wait_request("POST /timeout", count=2, timeout=60)
        sb.server.advance(8)
        assert ok(sb.cell("print(x)")).stdout == "1\n"
        assert n_created(sb) == 1


@tap.timeout(TIMEOUT_S)
def test_time_is_not_renewed_without_an_interpreter():
    """It ended, and nothing was asked for since: the sandbox ends as well, and
    what is asked for next has another."""
    with E2bSession("timeout_s=15", fake={"interpreters": ()}) as sb:
        ok(sb.cell("import os, threading\n"
                   "threading.Timer(0.5, os._exit, (3,)).start()"))
        sb.in_state("new")
        n = count(sb, "POST /timeout")
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + 8, 60, "time passes")
        assert count(sb, "POST /timeout") == n
        sb.server.advance(100)
        cell = sb.cell("print(1)", timeout=90)
        assert cell.end == "restarted" and cell.stdout == "1\n", cell
        assert n_created(sb) == 2


@tap.timeout(TIMEOUT_S)
def test_a_host_without_renewal_is_asked_once():
    with E2bSession("timeout_s=15", fake={"lacks": ("timeout",)}) as sb:
        ok(sb.cell("x = 1"))
        sb.server.wait_request("POST /timeout", timeout=60)
        assert ok(sb.cell("import time\ntime.sleep(7)\nprint(x)",
                          timeout=60)).stdout == "1\n"
        assert count(sb, "POST /timeout") == 1


# ---- what becomes of it -----------------------------------------------------

@tap.timeout(TIMEOUT_S)
def test_what_was_paused_by_the_service_wakes_up():
    """As after a night with the lid closed."""
    with E2bSession("auto_pause=1") as sb:
        ok(sb.cell("x = 7"))
        sb.server.advance(100000)
        assert ok(sb.cell("print(x)", timeout=60)).stdout == "7\n"
        assert n_created(sb) == 1


@tap.timeout(TIMEOUT_S)
def test_one_that_was_paused_is_renewed_again():
    """That a paused one has no time to set does not mean that the service
    cannot do that; and a paused one is not asked for again and again, and not
    billed."""
    with E2bSession("auto_pause=1", "timeout_s=15") as sb:
        ok(sb.cell("x = 7"))
        sb.server.advance(100)
        sb.server.wait_request("GET /sandboxes/", count=2, timeout=60)
        wait_until(lambda: stands_still(sb), 30, "it is not billed any more")
        assert ok(sb.cell("print(x)", timeout=60)).stdout == "7\n"
        assert n_created(sb) == 1
        n = count(sb, "POST /timeout")
        sb.server.wait_request("POST /timeout", count=n + 1, timeout=60)


@tap.timeout(TIMEOUT_S)
def test_resume_of_one_that_is_gone():
    with E2bSession("auto_pause=1", "idle_suspend_ms=100") as sb:
        ok(sb.cell("x = 7"))
        sb.in_state("suspended")
        sb.server.lose()
        cell = sb.cell("print('x' in globals())", timeout=90)
        assert cell.end == "restarted" and cell.outcome == "ok", cell
        assert cell.stdout == "False\n" and "gone" in cell.reason, cell
        assert n_created(sb) == 2


def lose_under_a_cell(sb):
    """Runs a cell, whose sandbox ends behind everybody's back."""
    sb.events.clear()
    sb.start_cell("open('ran', 'a').write('x')\nimport time\nprint('up')\n"
                  "time.sleep(1000)")
    while "up\n" not in [e.get("text") for e in sb.events]:
        sb.next_event(60)
    sb.server.lose()
    return sb.finish_cell(90)


@tap.timeout(TIMEOUT_S)
def test_it_is_rebuilt_once():
    """A sandbox that ends under a cell is replaced, and the cell is not run
    again; when the next cell ends the new one as well, nothing is made unasked.
    """
    with E2bSession() as sb:
        cell = lose_under_a_cell(sb)
        assert cell.end == "restarted" and cell.outcome == "died", cell
        assert cell.lost and "new one was made" in cell.reason, cell
        assert "are gone" in cell.reason and "kept" not in cell.reason, cell
        assert n_created(sb) == 2
        cell = lose_under_a_cell(sb)
        assert cell.end == "lost" and "in its place" in cell.message, cell
        assert n_created(sb) == 2
        # What they have cost can still be told.
        assert sb.info()["cpu_count"] > 0 and sb.info()["billed_ms"] > 0
        cell = sb.cell("import os\nprint(os.path.exists('ran'))", timeout=90)
        assert cell.stdout == "False\n" and n_created(sb) == 3, cell
        cell = lose_under_a_cell(sb)
        assert cell.end == "restarted" and n_created(sb) == 4, cell


@tap.timeout(TIMEOUT_S)
def test_what_is_only_said_to_be_gone_is_ended():
    """The way to it says that there is none, while it is there for the rest
    of the service, and is billed; a cell can bring that about. (At the end
    E2bSession looks whether one is left.)"""
    with E2bSession() as sb:
        ok(sb.cell("x = 1"))
        old = sb.server.sandbox().id
        sb.server.fail("POST /execute", times=2, status=502,
                       body={"sandboxId": old, "code": 502,
                             "message": "The sandbox was not found"})
        cell = sb.cell("1", timeout=90)
        assert cell.end == "restarted" and cell.files_lost, cell
        assert n_created(sb) == 2
        sb.server.wait_request("DELETE /sandboxes/" + old)


@tap.timeout(TIMEOUT_S)
def test_a_context_whose_name_cannot_be_used():
    """Its cells are run where the service runs those that name none."""
    with E2bSession() as sb:
        sb.server.fail("POST /contexts", status=200,
                       body=b'{"id": "../../x"}')
        ok(sb.cell("x = 1"))
        assert ok(sb.cell("print(x)")).stdout == "1\n"


@tap.timeout(TIMEOUT_S)
def test_an_answer_that_is_lost_runs_nothing_twice():
    """The service has taken the cell, and said nothing of it."""
    for interrupts in (True, False):
        with E2bSession(fake={"interrupts": interrupts}) as sb:
            ok(sb.cell("x = 1\nn = 0"))
            sb.server.fail("POST /execute", lost=True)
            cell = sb.cell("n += 1\nimport time\ntime.sleep(1000)",
                           timeout=90)
            assert cell.end == "done" and cell.outcome == "died", cell
            assert "not known" in cell.reason and not cell.lost, cell
            assert ok(sb.cell("print(n, x)", timeout=60)).stdout == "1 1\n"
            assert n_created(sb) == 1


@tap.timeout(TIMEOUT_S)
def test_the_way_there_is_not_the_cells_time():
    """Its limit counts from its beginning."""
    with E2bSession("cell_ms=300") as sb:
        ok(sb.cell("x = 1"))
        fault = sb.server.fail("POST /execute", hold=True)
        sb.start_cell("print(x)")
        assert fault.reached.wait(60)
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + 7, 60, "time passes")
        fault.release()
        assert ok(sb.finish_cell(60)).stdout == "1\n"


@tap.timeout(TIMEOUT_S)
def test_a_cell_that_goes_on_behind_a_cut_connection():
    """It does not stop when it is asked: the interpreter is a new one."""
    with E2bSession(fake={"interrupts": False}) as sb:
        ok(sb.cell("x = 1"))
        sb.server.fail("POST /execute", cut=250)
        cell = sb.cell("print('a' * 100)\nimport time\nwhile True:\n    try:\n"
                       "        time.sleep(1000)\n"
                       "    except KeyboardInterrupt:\n        pass",
                       timeout=90)
        assert cell.end == "restarted" and cell.lost, cell
        assert ok(sb.cell("print('x' in globals())")).stdout == "False\n"
        assert n_created(sb) == 1


@tap.timeout(TIMEOUT_S)
def test_a_cut_way_to_our_interpreter_runs_nothing_twice():
    """The cell was sent, and not even that it has begun came back: it is
    stopped, and not sent again. Protections: was_cut and end_cut_off()."""
    for code in ("open('ran', 'a').write('x')\nn += 1",
                 "open('ran', 'a').write('x')\nn += 1\nimport time\n"
                 "time.sleep(1000)"):
        with E2bSession(fake={"interpreters": ()}) as sb:
            ok(sb.cell("n = 0\nprint('a' * 100)"))
            wait_until(lambda: is_acknowledged(sb.server), 60, "it is told")
            sent = sb.server.fail("SendInput", lost=True)
            look = sb.server.fail("POST /connect", hold=True)
            sb.server.fail("POST /process.Process", unread=True, times=500)
            sb.start_cell(code)
            assert sent.reached.wait(60)
            drop_streams(sb.server)
            assert look.reached.wait(120)
            with sb.server.lock:
                sb.server.faults.clear()
            look.release()
            cell = sb.finish_cell(90)
            assert cell.outcome == "died" and not cell.lost, cell
            assert "connection" in cell.reason, cell
            assert ok(sb.cell("print(n, open('ran').read())", timeout=60)
                      ).stdout == "1 x\n"


@tap.timeout(TIMEOUT_S)
def test_a_body_that_ends_too_early_is_no_success():
    with E2bSession() as sb:
        ok(sb.cell("x = 1"))
        sb.server.fail("POST /execute", end=120)
        cell = sb.cell("x = 2\nprint('done')", timeout=90)
        assert cell.outcome != "ok" and cell.reason, cell
        assert ok(sb.cell("print(x)", timeout=60)).stdout == "2\n"


@tap.timeout(TIMEOUT_S)
def test_a_service_that_is_gone():
    """No answer at all: one error, in bounded time, and none is left to run
    behind it."""
    with E2bSession(may_leave=True) as sb:
        ok(sb.cell("x = 1"))
        sb.start_cell("import time\nprint('up')\ntime.sleep(1000)")
        wait_until(lambda: "up\n" in [e.get("text") for e in sb.events] or
                   sb.next_event(60) is None, 60, "it runs")
        sb.server.close()
        cell = sb.finish_cell(120)
        assert cell.end == "lost", cell
        assert "reached" in cell.message, cell


# ---- nothing is billed silently ---------------------------------------------

@tap.timeout(TIMEOUT_S)
def test_faults_of_making_one():
    rows = (({"status": 401, "body": b'{"code":401,"message":"no"}'}, "auth",
             1),
            ({"status": 404, "body": b'{"code":404,"message":"no template"}'},
             "config", 2),
            ({"status": 400, "body": b'{"code":400,"message":"bad"}'}, "",
             1))
    for fault, code, _ in rows:
        with E2bSession(*RUN) as sb:
            sb.server.fail("POST sandboxes", times=9, **fault)
            cell = sb.cell("1", timeout=90)
            assert cell.end == "error" and cell.message, cell
            assert not code or cell.code == code, cell
            assert n_created(sb) == 0


@tap.timeout(TIMEOUT_S)
def test_a_made_sandbox_is_not_forgotten():
    """The answer was lost, so that nobody knows its id: it is found by its
    labels and ended, at the end of the program at the latest. (The session
    looks whether one is left.)"""
    for options in (RUN, RUN + ("version=v1",), ()):
        with E2bSession(*options) as sb:
            sb.server.fail("POST sandboxes", times=9, lost=True)
            cell = sb.cell("1", timeout=120)
            assert cell.end == "error", cell


@tap.timeout(TIMEOUT_S)
def test_the_end_while_one_is_made():
    with E2bSession(*RUN) as sb:
        fault = sb.server.fail("POST sandboxes", hold=True)
        sb.start_cell("1")
        assert fault.reached.wait(60)
        sb.request(op="quit")
        fault.release()
        assert sb.process.wait(60) in (0, 1)


@tap.timeout(TIMEOUT_S)
def test_an_end_that_fails_is_said():
    """The service refuses, is gone, or does not answer: what is left is named,
    and when it ends by itself."""
    for fault in ({"status": 403, "body": b'{"code":403,"message":"no"}'},
                  {"hold": True}, None):
        with E2bSession(*RUN, may_leave=True) as sb:
            ok(sb.cell("1"))
            made = sb.server.sandbox().id
            held = fault and sb.server.fail("DELETE /sandboxes/", times=9,
                                            **fault)
            if fault is None:
                sb.server.close()
            sb.request(op="quit")
            left = sb.wait("left", timeout=60)["text"]
            assert made in left, left
            assert "ends by itself in 5 min" in left, left
            if held:
                held.release()


@tap.timeout(TIMEOUT_S)
def test_what_cannot_be_used_is_ended():
    """It was made, and then there is no interpreter to be had in it."""
    with E2bSession(*RUN) as sb:
        sb.server.fail("MakeDir", status=500, times=99,
                       body=b'{"code":"internal","message":"no room"}')
        cell = sb.cell("1", timeout=90)
        assert cell.end == "error" and "no room" in cell.message, cell
        wait_until(lambda: count(sb, "DELETE /sandboxes/") > 0, 30,
                   "it is ended")


@tap.timeout(TIMEOUT_S)
def test_a_connection_that_breaks_while_it_is_made_ready():
    """Once is nothing: the interpreter begins anew, in the same sandbox."""
    for fault in ({"lost": True}, {"cut": 20, "reset": True}, {"cut": 20}):
        for words, n_begun in (("POST /execute", 1), ("POST /contexts", 0)):
            with E2bSession(*RUN) as sb:
                broken = sb.server.fail(words, **fault)
                assert ok(sb.cell("print(1)", timeout=90)).stdout == "1\n"
                assert broken.times == 0, (words, fault)
                assert n_created(sb) == 1
                assert count(sb, "DELETE /sandboxes/") == 0
                assert count(sb, "POST /restart$") == n_begun, (words, fault)
    with E2bSession(*RUN) as sb:
        sb.server.fail("POST /execute", lost=True, times=99)
        cell = sb.cell("print(1)", timeout=90)
        assert cell.end == "error" and cell.message, cell
        wait_until(lambda: count(sb, "DELETE /sandboxes/") > 0, 30,
                   "it is ended")


@tap.timeout(TIMEOUT_S)
def test_a_restart_keeps_the_sandbox():
    with E2bSession() as sb:
        ok(sb.cell("x = 1\nopen('mine', 'w').write('m')"))
        assert sb.restart()["end"] == "done"
        assert ok(sb.cell("print('x' in globals(), open('mine').read())",
                          timeout=60)).stdout == "False m\n"
        assert n_created(sb) == 1


@tap.timeout(TIMEOUT_S)
def test_a_restart_while_it_cannot_be_reached():
    """Files are not given up for that; and what ran before ends before others
    run."""
    with E2bSession() as sb:
        ok(sb.cell("open('mine', 'w').write('m')\nimport os, threading, time\n"
                   "threading.Thread(target=lambda: time.sleep(1000), "
                   "daemon=True).start()"))
        pid = int(ok(sb.cell("print(os.getpid())")).stdout)
        sb.server.fail("MakeDir", unread=True, times=20)
        assert sb.restart()["end"] != "done"
        with sb.server.lock:
            sb.server.faults.clear()
        cell = sb.cell("import os\nprint(open('mine').read(), "
                       "os.path.exists('/proc/%d'))" % pid, timeout=90)
        assert cell.stdout == "m False\n", cell
        assert n_created(sb) == 1
        assert "are kept" in sb.take_loss()


@tap.timeout(TIMEOUT_S)
def test_a_restart_removes_other_interpreters():
    """Those of other languages have variables, too."""
    with E2bSession() as sb:
        assert ok(sb.cell("x=7; echo [$x]", language="bash")
                  ).stdout == "[7]\n"
        assert ok(sb.cell("echo [$x]", language="bash")).stdout == "[7]\n"
        ok(sb.cell("x = 1"))
        assert sb.restart()["end"] == "done"
        assert count(sb, "DELETE /contexts/") == 1
        assert ok(sb.cell("echo [$x]", language="bash")).stdout == "[]\n"
        assert ok(sb.cell("print('x' in globals())")).stdout == "False\n"
        assert n_created(sb) == 1


@tap.timeout(TIMEOUT_S)
def test_another_interpreter_that_ends():
    """By itself, or since it does not stop: Python's variables are kept."""
    with E2bSession() as sb:
        ok(sb.cell("x = 1"))
        for code, limit, how in (("exit 3", None, "died"),
                                 ("trap '' INT TERM; while :; do sleep 1; done",
                                  300, "timeout")):
            cell = sb.cell(code, language="bash", timeout_ms=limit, timeout=60)
            assert cell.end == "done" and cell.outcome in (how, "died"), cell
            assert not cell.lost, cell
            assert "Python" in cell.reason or "kept" in cell.reason, cell
            assert ok(sb.cell("print(x)")).stdout == "1\n"
            assert ok(sb.cell("echo yes", language="bash", timeout=60)
                      ).stdout == "yes\n"


@tap.timeout(TIMEOUT_S)
def test_a_restart_that_fails_keeps_the_sandbox():
    """It is not new, and may have what the person needs."""
    with E2bSession() as sb:
        ok(sb.cell("x = 1\nopen('mine', 'w').write('m')"))
        sb.server.fail("MakeDir", status=500,
                       body=b'{"code":"internal","message":"no room"}')
        ended = sb.restart()
        assert ended["end"] == "error" and "no room" in ended["message"], ended
        cell = sb.cell("print('x' in globals(), open('mine').read())",
                       timeout=60)
        assert cell.stdout == "False m\n", cell
        assert n_created(sb) == 1 and count(sb, "DELETE /sandboxes/") == 0


@tap.timeout(TIMEOUT_S)
def test_one_that_is_gone_at_a_restart():
    """Its files are gone as well, and that is said."""
    with E2bSession() as sb:
        ok(sb.cell("x = 1\nopen('mine', 'w').write('m')"))
        sb.server.lose()
        assert sb.restart()["end"] == "done"
        assert "files in /workspace are gone" in (sb.take_loss() or "")
        assert ok(sb.cell("import os\nprint('x' in globals(), "
                          "os.path.exists('mine'))")).stdout == "False False\n"
        assert n_created(sb) == 2


@tap.timeout(TIMEOUT_S)
def test_an_interpreter_that_ends_while_it_is_made_ready():
    with E2bSession(*RUN) as sb:
        sb.server.fail("POST /execute", times=9, body=b"", status=404)
        cell = sb.cell("1", timeout=60)
        assert cell.end == "error" and "made ready" in cell.message, cell
        sb.server.wait_request("DELETE /sandboxes/")


@tap.timeout(TIMEOUT_S)
def test_idle_close_ends_what_is_billed():
    with E2bSession("idle_close_ms=300") as sb:
        ok(sb.cell("x = 1\nopen('mine', 'w').write('m')"))
        wait_until(lambda: count(sb, "DELETE /sandboxes/") == 1, 60,
                   "it is ended")
        cell = sb.cell("import os\nprint('x' in globals(), "
                       "os.path.exists('mine'))", timeout=90)
        assert cell.end == "restarted" and cell.outcome == "ok", cell
        assert cell.stdout == "False False\n", cell
        assert "kept" not in cell.reason, cell


@tap.timeout(TIMEOUT_S)
def test_what_the_service_did_not_end_is_not_forgotten():
    """It goes on being billed: it is used again, or ended at the end, which
    E2bSession looks at."""
    for again in (False, True):
        with E2bSession("idle_close_ms=300", "auto_pause=1") as sb:
            ok(sb.cell("open('f', 'w').write('kept')"))
            sb.server.fail("DELETE /sandboxes/", status=400,
                           body={"code": 400, "message": "not now"})
            sb.server.wait_request("DELETE /sandboxes/")
            sb.in_state("new")
            if again:
                cell = sb.cell("print(open('f').read())", timeout=60)
                assert cell.stdout == "kept\n" and not cell.files_lost, cell
                assert n_created(sb) == 1


@tap.timeout(TIMEOUT_S)
def test_what_is_asked_is_stopped_although_nothing_answers():
    with E2bSession() as sb:
        path = os.path.join(sb.dir, "snapshot")
        ok(sb.cell("x = 7"))
        for words, fields, kind in (
                ("POST /execute", {"op": "vars"}, "vars"),
                ("POST /execute", {"op": "snapshot", "path": path}, "saved"),
                ("GET /files", {"op": "snapshot", "path": path}, "saved")):
            fault = sb.server.fail(words, hang=0)
            sb.request(**fields)
            assert fault.reached.wait(60)
            sb.interrupt()
            event = sb.wait(kind, 60)
            assert event["code"] == "cancelled", event
            fault.release()
            assert ok(sb.cell("print(x)", timeout=60)).stdout == "7\n"


class LateServer(E2bServer):
    """Makes a sandbox when whoever has asked for it does not wait any more, and
    has looked for it once."""

    def __init__(self, **options):
        self.asked = threading.Event()
        super().__init__(**options)
        serve = self.control.serve

        def late(request, reply):
            if request.method == "POST" and request.path.endswith(
                    "/sandboxes"):
                self.asked.set()
                self.wait_request("GET /v2/sandboxes")
            return serve(request, reply)
        self.control.serve = late


@tap.timeout(TIMEOUT_S)
def test_the_end_before_one_is_made():
    """As of a run that is over at once: no list shows it yet."""
    with E2bSession(server=LateServer) as sb:
        sb.start_cell("1")
        assert sb.server.asked.wait(60)
        sb.request(op="quit")
        sb.server.wait_request("DELETE /sandboxes/", timeout=60)


@tap.timeout(TIMEOUT_S)
def test_the_end_when_there_is_no_list():
    """What is known is ended, although what may be there besides cannot be
    looked for."""
    with E2bSession(*RUN, fake={"create": ("v1",)}, may_leave=True) as sb:
        ok(sb.cell("x = 1"))
        sb.server.lose()
        held = sb.server.fail("GET /v2/sandboxes", hold=True, times=99)
        sb.server.fail("POST /sandboxes$", lost=True)
        assert sb.cell("1", timeout=90).end == "lost"
        assert sb.cell("1", timeout=90).end == "restarted"
        known = sb.server.sandbox(-1).id
        assert len(sb.server.sandboxes) == 2
        sb.request(op="quit")
        assert sb.process.wait(60 * tap.FACTOR) == 0
        assert known not in sb.server.sandboxes, sb.server.requests
        held.release()


def main():
    why = unavailable()
    tests = [(name, function) for name, function in sorted(globals().items())
             if name.startswith("test_")]
    if why:
        tests = [(name, lambda: tap.skip(why)) for name, _ in tests]
    sys.exit(tap.run_tests(tests, sys.argv[1:]))


if __name__ == "__main__":
    main()
