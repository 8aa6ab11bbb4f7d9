# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake of an E2B service: its cells, each fault that it can play, and what
it leaves behind."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import tap  # noqa: E402
from e2b_requests import (START, STREAM, TEMPLATE, Box, api,  # noqa: E402
                          ask, box, kinds)
from e2b_sandbox import (descendants, is_stopped,  # noqa: E402
                         table_of_processes)
from e2b_server import (E2bServer, end_stream, envelope,  # noqa: E402
                        unavailable)


# -- cells --

def test_cells():
    with box({"envVars": {"G": "1"}}) as (server, one):
        events = one.execute("print('a')\nimport os\nos.environ['G']")
        assert kinds(events) == ["number_of_executions", "stdout", "result",
                                 "end_of_execution"]
        assert events[2] == {"type": "result", "text": "1", "extra": {},
                             "is_main_result": True}
        assert kinds(one.execute("")) == ["number_of_executions",
                                          "end_of_execution"]
        events = one.execute("x = 1\n1 / 0")
        assert kinds(events)[-2:] == ["error", "end_of_execution"]
        assert "ZeroDivisionError" in events[-2]["traceback"]
        events = one.execute("1", env_vars={"Q": "it's"})
        assert events[-2]["name"] == "SyntaxError", events
        events = one.execute("x, float('nan')", language=None,
                             context_id=None, env_vars=None)
        assert events[1]["text"] == "(1, nan)"
        assert one.execute("[float('nan')]")[1]["json"] == [None]
        # Pure ASCII, one line each.
        found = ask(server, "POST", "/execute", {"code": "'é\\u2028😀'"},
                    one.headers(49999))
        assert found.body.isascii() and b"\\ud83d" in found.body


def test_cells_without_the_token_have_no_variables():
    with box({"envVars": {"G": "1"}}) as (server, one):
        code = "import os\nos.environ.get('G')"
        events = one.execute(code, headers={"x_access_token": None})
        assert kinds(events) == ["number_of_executions", "end_of_execution"]
        assert len(one.execute(code)) == 2, "for good"


def test_cells_that_are_refused():
    with box() as (server, one):
        def post(path, body):
            return ask(server, "POST", path, body, one.headers(49999))
        for body, status in (({"code": "1", "context_id": "none"}, 404),
                             ({"code": "1", "context_id": "a",
                               "language": "python"}, 404),
                             ({"code": "1", "language": "cobol"}, 500)):
            if "language" in body and "context_id" in body:
                status = 400
            found = post("/execute", body)
            assert found.status == status, found.body
            assert found.headers["content-type"].startswith("text/plain")
        for path, body in (("/execute", {}), ("/execute", {"code": 1}),
                           ("/execute", b""), ("/contexts", b""),
                           ("/execute", {"code": "", "env_vars": [1]})):
            found = post(path, body)
            assert found.status == 422, (body, found.body)
            assert found.json["detail"][0]["loc"][0] == "body"
        assert post("/contexts", {}).json["cwd"] == "/home/user"
        assert post("/contexts/none/restart", b"").status == 404


def test_contexts():
    with box() as (server, one):
        headers = one.headers(49999)
        made = ask(server, "POST", "/contexts", {"cwd": "/tmp"}, headers)
        name = made.json["id"]
        done = []
        thread = threading.Thread(target=lambda: done.extend(one.execute(
            "open('/tmp/on', 'w').close()\nimport time\ntime.sleep(300)",
            context_id=name)))
        thread.start()
        while not os.path.exists(os.path.join(server.sandbox().tmp, "on")):
            time.sleep(0.01)
        # Another context is free.
        assert one.execute("1")[1]["text"] == "1"
        found = ask(server, "POST", "/contexts/%s/restart" % name, b"",
                    headers)
        assert (found.status, found.json) == (200, None)
        thread.join(60)
        assert done[-2]["name"] == "UnexpectedEndOfExecution", done
        events = one.execute("import os\nos.getcwd()", context_id=name)
        assert events[0]["execution_count"] == 1
        assert events[1]["text"] == "/home/user"
        assert ask(server, "DELETE", "/contexts/" + name, None,
                   headers).status == 200
        assert ask(server, "DELETE", "/contexts/" + name, None,
                   headers).status == 404


def begin_cell(server, one, code):
    """A connection with the first line of a cell that runs."""
    sock = socket.create_connection(("127.0.0.1", server.port), 60)
    body = json.dumps({"code": code}).encode()
    head = ["POST /execute HTTP/1.1", "content-length: %d" % len(body)]
    head += ["%s: %s" % p for p in one.headers(49999).items()]
    sock.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    seen = b""
    while b"stdout" not in seen:
        seen += sock.recv(65536)
    return sock


@tap.timeout(90)
def test_closing_interrupts_a_cell():
    code = "x = 5\nprint('on', flush=True)\nimport time\ntime.sleep(300)"
    with box() as (server, one):
        begin_cell(server, one, code).close()
        assert one.execute("x")[1]["text"] == "5"
        # In the middle of its output, too.
        for _ in range(5):
            begin_cell(server, one, "while True: print('y' * 99)").close()
            assert one.execute("x")[1]["text"] == "5"
    with box(interrupts=False) as (server, one):
        begin_cell(server, one, code).close()
        sock = socket.create_connection(("127.0.0.1", server.port), 60)
        body = b'{"code":"1"}'
        sock.sendall(b"POST /execute HTTP/1.1\r\ncontent-length: 12\r\n"
                     + "".join("%s: %s\r\n" % p for p in one.headers(
                         49999).items()).encode() + b"\r\n" + body)
        # The context is busy: not even a head comes.
        assert not select.select([sock], [], [], 1)[0]
        sock.close()


def test_keepalives():
    with box(keepalive=0.1) as (server, one):
        events = one.execute("import time; time.sleep(1); 1")
        assert "keepalive" in kinds(events)


def test_pause_keeps_memory():
    with box() as (server, one):
        path = "/sandboxes/" + one.id
        one.execute("x = 41")
        api(server, "POST", path + "/pause", {})
        assert api(server, "GET", path).json["pauseMode"] == "full"
        inside = descendants(server.sandbox().child.pid)
        assert len(inside) >= 3, inside
        while not all(is_stopped(pid) for pid in inside):
            time.sleep(0.01)
        api(server, "POST", path + "/connect", {"timeout": 60})
        assert one.execute("x + 1")[1]["text"] == "42"
        # Without memory the files are kept, and nothing else.
        one.execute("open('f', 'w').write('1')")
        api(server, "POST", path + "/pause", {"memory": False})
        api(server, "POST", path + "/connect", {"timeout": 60})
        assert one.execute("open('f').read(), 'x' in globals()")[1][
            "text"] == "('1', False)"


def test_pause_breaks_connections():
    with box() as (server, one):
        sock = begin_cell(server, one, "print('on', flush=True)\n"
                          "import time\ntime.sleep(300)")
        api(server, "POST", "/sandboxes/%s/pause" % one.id, {})
        while sock.recv(65536):
            pass
        sock.close()


# -- faults --

def test_faults_of_status():
    with box() as (server, one):
        server.fail("GET /v2/sandboxes", status=429, times=2, headers={
            "retry-after": "1"}, body={"code": 429, "message": "m"})
        for status in (429, 429, 200):
            found = api(server, "GET", "/v2/sandboxes")
            assert found.status == status
        server.fail("/files", status=502, body=b"<html>", headers={
            "content-type": "text/html"})
        found = one.envd("GET", "/files?path=a")
        assert (found.status, found.body) == (502, b"<html>")
        assert found.headers["content-type"] == "text/html"
        server.fail("POST /v2/sandboxes", status=405)
        assert api(server, "POST", "/v2/sandboxes", {}).body == b""
        server.fail("/files", rewrite=lambda body: b"[]")
        found = one.envd("POST", "/files?path=a", b"1",
                         content_type="application/octet-stream")
        assert found.body == b"[]"


def raw_reply(server, one, path, body, kind):
    """Everything that comes until the connection ends, in the reads."""
    with socket.create_connection(("127.0.0.1", server.port), 60) as sock:
        head = ["POST %s HTTP/1.1" % path, "content-length: %d" % len(body),
                "connection: close", "content-type: " + kind]
        port = 49999 if path == "/execute" else 49983
        head += ["%s: %s" % p for p in one.headers(port).items()]
        sock.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        reads = []
        while True:
            try:
                data = sock.recv(65536)
            except ConnectionResetError:
                return reads + [None]
            if not data:
                return reads
            reads.append(data)


def test_faults_of_streams():
    cell = b'{"code": "print(1)"}'
    with box() as (server, one):
        def get(path="/execute", body=cell, kind="application/json", **how):
            fault = server.fail(path, **how) if how else None
            return fault, raw_reply(server, one, path, body, kind)
        whole = b"".join(get()[1])
        assert whole.endswith(b"0\r\n\r\n")
        got = b"".join(get(cut=20)[1])
        assert got.endswith(b'{"type": "number_of_') or got.endswith(
            b'{"type": "number_of_\r\n'), got
        assert get(cut=20, reset=True)[1][-1] is None
        got = b"".join(get(end=20)[1])
        assert got.endswith(b"0\r\n\r\n") and b"end_of" not in got
        got = b"".join(get(split=1)[1])
        assert got.count(b"\r\n1\r\n") > 20
        got = get(split=[3, 9])[1]
        assert b"\r\n3\r\n{\"t\r\n" in b"".join(got), got
        got = b"".join(get(rewrite=lambda b: b.replace(
            b'"1', b'"' + b"x" * (10 << 20)))[1])
        assert len(got) > 10 << 20
        got = b"".join(get(drop=("content-type",), headers={"x-a": "b"})[1])
        assert b"x-a: b" in got
        fault, got = get(lost=True)
        assert got == [] and fault.reached.is_set()
        start = envelope({"process": {"cmd": "true"}, "stdin": False})
        got = get(START, start, STREAM, rewrite=lambda b: end_stream(
            "unavailable", "m"))[1]
        assert b'"code":"unavailable"' in b"".join(got)
        got = b"".join(get(START, start, STREAM, rewrite=lambda b:
                           b[:-len(end_stream())])[1])
        assert b'"end"' in got and not got.endswith(b"{}\r\n0\r\n\r\n")


def test_hang():
    with box() as (server, one):
        for path, body, kind, ping in (
                ("/execute", b'{"code": "1"}', "application/json",
                 b'{"type": "keepalive"}\n'),
                (START, envelope({"process": {"cmd": "true"}}), STREAM,
                 envelope({"event": {"keepalive": {}}}))):
            fault = server.fail(path, hang=10)
            done = []
            thread = threading.Thread(target=lambda: done.extend(
                raw_reply(server, one, path, body, kind)))
            thread.start()
            assert fault.reached.wait(30)
            while fault.pings < 3:
                time.sleep(0.01)
            assert thread.is_alive()
            fault.release()
            thread.join(30)
            assert b"".join(done).count(ping) >= 3, done
        fault = server.fail("/v2/sandboxes", hold=True)
        thread = threading.Thread(target=api, args=(
            server, "GET", "/v2/sandboxes"))
        thread.start()
        assert fault.reached.wait(30)
        thread.join(0.2)
        assert thread.is_alive()
        fault.release()
        thread.join(30)
        assert not thread.is_alive()


def test_lost_sandbox():
    with box() as (server, one):
        sock = begin_cell(server, one, "print('on', flush=True)\n"
                          "import time\ntime.sleep(300)")
        server.lose()
        while sock.recv(65536):
            pass
        sock.close()
        assert one.envd("GET", "/health").status == 502
        assert api(server, "GET", "/sandboxes/" + one.id).status == 404


# -- the fake itself --

def test_nothing_is_left():
    """Whatever runs, is stopped or is closed to its owner."""
    before = set(table_of_processes())
    threads = threading.active_count()
    with E2bServer() as server:
        one, two = Box(server), Box(server)
        one.start("setsid sleep 300 >/dev/null 2>&1 & mkdir -p a/b; "
                  "touch a/b/c; chmod 0 a/b; chmod 0 a")
        sock = begin_cell(server, two, "print('on', flush=True)\n"
                          "import os\nos.system('sleep 300')")
        api(server, "POST", "/sandboxes/%s/pause" % one.id, {})
        folders = [s.folder for s in server.sandboxes.values()]
        assert len(folders) == 2
    sock.close()
    assert not [f for f in folders if os.path.exists(f)]
    assert threading.active_count() == threads
    left = set(table_of_processes()) - before
    # Others may run beside this one.
    mine = [p for p in left if any(
        os.fsencode(folder) in command_line(p) for folder in folders)]
    assert not mine, mine
    assert not server.logs, server.logs


def command_line(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def test_sandboxes_end_with_the_process_of_the_tests():
    code = ("import sys, time; sys.path.insert(0, %r)\n"
            "from e2b_server import *; import http.client, json\n"
            "server = E2bServer()\n"
            "conn = http.client.HTTPConnection('127.0.0.1', server.port)\n"
            "conn.request('POST', '/sandboxes', json.dumps({'templateID':"
            " 'base'}), {'x-api-key': KEY, 'content-type':"
            " 'application/json'})\nconn.getresponse().read()\n"
            "print(server.sandbox().child.pid, server.sandbox().folder,"
            " flush=True)\ntime.sleep(300)"
            % os.path.join(HERE, "..", "fakes"))
    child = subprocess.Popen([sys.executable, "-B", "-c", code],
                             stdout=subprocess.PIPE)
    pid, folder = child.stdout.readline().decode().split()
    child.kill()
    child.wait()
    child.stdout.close()
    while int(pid) in table_of_processes():
        time.sleep(0.01)
    subprocess.run(["rm", "-rf", folder], check=True)


def test_requests_are_recorded():
    with box() as (server, one):
        one.start("true")
        found = server.wait_request("Start")
        assert found.plane == "data" and found.port == 49983
        assert found.sandbox_id == one.id
        assert found.json["process"]["cmd"] == "/bin/bash"
        assert server.api_requests[0].json["templateID"] == TEMPLATE
        assert [r.status for r in server.requests] == [201, 200]


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has no part in it")
    why = unavailable()
    if why:
        tap.skip_all("no sandbox: " + why)
    tap.main(globals())
