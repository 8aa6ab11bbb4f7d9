# SPDX-License-Identifier: GPL-3.0-or-later
"""The vendor's Python SDKs for E2B sandboxes, unmodified, against the fake.

Run with the newest pair and with an old one, whose interpreter package takes
no address: it is pointed at the fake by the debug mode, if its fixed ports are
free."""

import base64
import contextlib
import http.client
import importlib.metadata
import io
import json
import os
import sys
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import e2b  # noqa: E402
import e2b_code_interpreter  # noqa: E402
import tap  # noqa: E402
from e2b_server import E2bServer, end_stream, unavailable  # noqa: E402

VERSION = tuple(map(int, importlib.metadata.version("e2b").split(".")[:2]))
NEW = VERSION >= (2, 51)
TEMPLATE = "code-interpreter-v1"
PNG = b"\x89PNG\r\n\x1a\n"


@contextlib.contextmanager
def pointed_at(server):
    """The SDKs read where to go from the environment."""
    given = {"E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url,
             "E2B_API_KEY": server.key}
    os.environ.update(given)
    try:
        yield server
    finally:
        for name in given:
            del os.environ[name]


@contextlib.contextmanager
def running(**options):
    """(server, sandbox)"""
    with E2bServer(**options) as server, pointed_at(server):
        yield server, e2b.Sandbox.create(TEMPLATE, timeout=600)


@contextlib.contextmanager
def cells(**options):
    """(server, sandbox with an interpreter)"""
    if NEW:
        with E2bServer(**options) as server, pointed_at(server):
            yield server, e2b_code_interpreter.Sandbox.create(timeout=600)
        return
    with E2bServer(**options) as server:
        conn = http.client.HTTPConnection("127.0.0.1", server.port,
                                          timeout=30)
        conn.request("POST", "/sandboxes", json.dumps(
            {"templateID": TEMPLATE, "timeout": 600}),
            {"x-api-key": server.key, "content-type": "application/json"})
        made = json.loads(conn.getresponse().read())
        conn.close()
        try:
            for port in (49983, 49999):
                server.listen(made["sandboxID"], port, port)
        except OSError as exc:
            tap.skip("port %d of the debug mode: %s" % (port, exc.strerror))
        yield server, e2b_code_interpreter.Sandbox.create(debug=True)


def refusal(kind, function, *args, **kw):
    try:
        function(*args, **kw)
    except kind as exc:
        return exc
    raise AssertionError("no %s" % kind.__name__)


def only_new():
    if not NEW:
        tap.skip("the old SDK has none")


def test_create_list_kill():
    with E2bServer() as server, pointed_at(server):
        one = e2b.Sandbox.create("base", timeout=600, envs={"TASK": "x"},
                                 metadata={"job": "7 é&="})
        two = e2b.Sandbox.create("base", metadata={"job": "8"})
        created = server.find("POST /sandboxes")
        if NEW:
            assert [r.path for r in created] == ["/v2/sandboxes"] * 2
        assert created[0].json["envVars"] == {"TASK": "x"}
        query = e2b.SandboxQuery(metadata={"job": "7 é&="})
        found = e2b.Sandbox.list(query=query).next_items()
        assert [s.sandbox_id for s in found] == [one.sandbox_id], found
        pages = e2b.Sandbox.list(limit=1)
        names = []
        while pages.has_next:
            names += [s.sandbox_id for s in pages.next_items()]
        assert sorted(names) == sorted([one.sandbox_id, two.sandbox_id])
        info = one.get_info()
        assert info.metadata == {"job": "7 é&="} and info.envd_version
        assert 590 < (info.end_at - info.started_at).total_seconds() < 610
        one.set_timeout(60)
        left = one.get_info().end_at - info.started_at
        assert left.total_seconds() < 120
        assert one.kill() is True
        assert one.kill() is False
        assert not one.is_running() and two.is_running()
        assert server.api_requests[0].header("x-api-key") == server.key


def test_refusals_of_the_api():
    with E2bServer(create=("v1",) if NEW else ("v2",)) as server, \
            pointed_at(server):
        failure = refusal(e2b.SandboxException, e2b.Sandbox.create)
        assert "405" in str(failure), failure
    with running() as (server, _):
        refusal(e2b.AuthenticationException, e2b.Sandbox.create,
                api_key="e2b_00")
        failure = refusal(e2b.SandboxException, e2b.Sandbox.create, "none")
        assert "404" in str(failure) or "not found" in str(failure)
        refusal(e2b.SandboxException, e2b.Sandbox.create, timeout=10 ** 6)
        refusal(e2b.SandboxException, e2b.Sandbox.create, network={
            "allow_out": ["data.example.org"]})


def test_retries_of_the_api():
    only_new()
    with running() as (server, sandbox):
        server.fail("GET /sandboxes/", status=503, times=2,
                    body={"code": 503, "message": "later"})
        sandbox.get_info()
        assert len(server.find("GET /sandboxes/")) == 3
        server.fail("GET /sandboxes/", status=429, body={
            "code": 429, "message": "m"}, headers={"should-retry": "false"})
        refusal(e2b.RateLimitException, sandbox.get_info)
        assert len(server.find("GET /sandboxes/")) == 4


def test_idempotency_key():
    only_new()
    with E2bServer() as server, pointed_at(server):
        made = [e2b.Sandbox.create("base", idempotency_key="key-1")
                for _ in range(2)]
        assert made[0].sandbox_id == made[1].sandbox_id
        assert len(server.created) == 1


def test_files():
    with running() as (server, sandbox):
        files = sandbox.files
        assert files.make_dir("/home/user/w/deep") is True
        assert files.make_dir("/home/user/w/deep") is False
        wrote = files.write("/home/user/w/é 1.csv", "a,b\n1,é\n")
        assert wrote.path == "/home/user/w/é 1.csv", wrote
        assert files.read("w/é 1.csv") == "a,b\n1,é\n"
        files.write_files([{"path": "/tmp/x/1", "data": b"\0\r\n--\xff"},
                           {"path": "two", "data": io.BytesIO(b"2")}])
        assert files.read("/tmp/x/1", format="bytes") == b"\0\r\n--\xff"
        assert files.read("/home/user/two") == "2"
        big = os.urandom(5 << 20)
        files.write("big", big)
        assert b"".join(files.read("big", format="stream")) == big
        files.write("empty", b"")
        listed = {e.path: e for e in files.list("/home/user", depth=2)}
        assert listed["/home/user/w/é 1.csv"].size == 9, listed
        assert listed["/home/user/w/deep"].type == e2b.FileType.DIR
        assert listed["/home/user/empty"].size == 0
        assert files.list("/home/user/w/deep") == []
        assert files.exists("two") and not files.exists("three")
        moved = files.rename("two", "w/three")
        assert moved.path == "/home/user/w/three"
        assert files.get_info("w/three").permissions == "-rw-r--r--"
        files.remove("w")
        assert not files.exists("w/three")
        files.remove("w")
        refusal(e2b.NotFoundException, files.read, "w/three")
        refusal(e2b.NotFoundException, files.list, "/none")
        refusal(e2b.InvalidArgumentException, files.list, "big")


def test_files_in_other_forms():
    with running() as (server, sandbox):
        data = b"a,b\n" * 5000
        more = {"gzip": True} if NEW else {}
        sandbox.files.write("one", io.BytesIO(data), **more)
        assert sandbox.files.read("one", format="bytes") == data
        if NEW:
            sent = server.find("POST /files")[0]
            assert sent.header("content-encoding") == "gzip"
            assert sent.header("content-type") == "application/octet-stream"
            assert sent.size < len(data)
            assert sandbox.files.read("one", format="bytes",
                                      gzip=True) == data
    with running(version="0.5.2") as (server, sandbox):
        sandbox.files.write("one", io.BytesIO(b"abc"))
        assert sandbox.files.read("one") == "abc"
        kind = server.find("POST /files")[0].header("content-type")
        assert kind.startswith("multipart/form-data"), kind


def test_signed_urls():
    with running() as (server, sandbox):
        def local(url):
            return server.url + "/files" + url.partition("/files")[2]

        def ask(url, data=None, headers=None):
            request = urllib.request.Request(local(url), data, dict(
                {"E2b-Sandbox-Id": sandbox.sandbox_id,
                 "E2b-Sandbox-Port": "49983"}, **headers or {}))
            return urllib.request.urlopen(request, timeout=30).read()
        url = sandbox.upload_url("out/a b.csv", use_signature_expiration=60)
        ask(url, b'--q\r\ncontent-disposition: form-data; name="file"; '
            b'filename="z"\r\n\r\nhello\r\n--q--\r\n',
            {"content-type": "multipart/form-data; boundary=q"})
        assert ask(sandbox.download_url("out/a b.csv")) == b"hello"
        url = sandbox.download_url("out/a b.csv", user="user")
        assert ask(url) == b"hello"
        failure = refusal(urllib.error.HTTPError, ask,
                          url.replace("a%20b", "c").replace("a+b", "c"))
        assert failure.code == 401


def test_commands():
    with E2bServer() as server, pointed_at(server):
        sandbox = e2b.Sandbox.create("base", envs={"GLOBAL": "1"})
        sandbox.files.write("/home/user/w/a.csv", "a\n")
        seen = []
        done = sandbox.commands.run(
            "cat a.csv; echo $GLOBAL$OWN >&2; pwd; id -un", cwd="w",
            envs={"OWN": "2"}, on_stdout=seen.append)
        assert done.stdout == "a\n/home/user/w\nuser\n", done
        assert done.stderr == "12\n" and done.exit_code == 0
        assert "".join(seen) == done.stdout
        failure = refusal(e2b.CommandExitException, sandbox.commands.run,
                          "echo no >&2; exit 3")
        assert failure.exit_code == 3 and failure.stderr == "no\n"
        done = refusal(e2b.CommandExitException, sandbox.commands.run,
                       "no-such-program")
        assert done.exit_code == 127
        done = sandbox.commands.run("echo $HOME $USER", user="root")
        assert done.stdout == "/root root\n"
        refusal(e2b.AuthenticationException, sandbox.commands.run, "true",
                user="nobody")
        refusal(e2b.InvalidArgumentException, sandbox.commands.run, "true",
                cwd="/none")
        refusal(e2b.TimeoutException, sandbox.commands.run, "sleep 300",
                timeout=1)
        size = 300000
        done = sandbox.commands.run("head -c %d /dev/zero | tr '\\0' x"
                                    % size)
        assert done.stdout == "x" * size


def test_commands_in_the_background():
    with running() as (_, sandbox):
        commands = sandbox.commands
        handle = commands.run("cat; echo over", background=True, stdin=True)
        assert [p.pid for p in commands.list()] == [handle.pid]
        commands.send_stdin(handle.pid, "é\n")
        other = commands.connect(handle.pid)
        commands.close_stdin(handle.pid)
        assert handle.wait().stdout == "é\nover\n"
        assert other.wait().stdout.endswith("over\n")
        assert commands.list() == []
        sleeper = commands.run("sleep 300", background=True)
        assert sleeper.kill() is True
        assert refusal(e2b.CommandExitException, sleeper.wait)
        assert commands.kill(sleeper.pid) is False


def test_pause_keeps_memory():
    with running() as (server, sandbox):
        handle = sandbox.commands.run("read x; echo got $x", stdin=True,
                                      background=True)
        pid = handle.pid
        assert sandbox.pause() in (True, sandbox.sandbox_id, None)
        state = sandbox.get_info().state
        assert getattr(state, "value", state) == "paused"
        assert not sandbox.is_running()
        sandbox.connect(timeout=60)
        assert sandbox.is_running()
        again = sandbox.commands.connect(pid)
        sandbox.commands.send_stdin(pid, "it\n")
        assert again.wait().stdout == "got it\n"
        found = e2b.Sandbox.connect(sandbox.sandbox_id)
        assert found.commands.run("echo 1").stdout == "1\n"
        # A connect does not shorten what is left.
        server.sandbox().end += 500
        end = server.sandbox().end
        found.connect(timeout=1)
        assert server.sandbox().end == end


def test_network_and_traffic_token():
    with E2bServer() as server, pointed_at(server):
        sandbox = e2b.Sandbox.create(TEMPLATE, network={
            "allow_public_traffic": False, "allow_out": ["8.8.8.8"],
            "deny_out": ["0.0.0.0/0"]})
        assert sandbox.traffic_access_token
        assert sandbox.commands.run("echo 1").stdout == "1\n"
        if NEW:
            sandbox.update_network({"allow_out": ["1.1.1.1"]})
            network = server.sandbox().network
            assert network["allowOut"] == ["1.1.1.1"]
            assert "denyOut" not in network


def test_metrics():
    with running() as (_, sandbox):
        assert sandbox.get_metrics()[0].cpu_count == 2


def test_cells():
    with cells() as (_, sandbox):
        done = sandbox.run_code("x = 6\nprint('é')\nimport sys\n"
                                "print('w', file=sys.stderr)\nx * 7")
        assert done.text == "42" and done.error is None, done
        assert done.logs.stdout == ["é\n"] and done.logs.stderr == ["w\n"]
        assert done.execution_count == 1
        done = sandbox.run_code("x + 1")
        assert done.text == "7" and done.execution_count == 2
        done = sandbox.run_code("print('a')\n1 / 0")
        assert done.error.name == "ZeroDivisionError"
        assert done.error.value == "division by zero"
        assert "Cell In[3], line 2" in done.error.traceback
        assert done.logs.stdout == ["a\n"]
        done = sandbox.run_code("x +")
        assert done.error.name == "SyntaxError", done
        done = sandbox.run_code("import os\nos.system('echo child')\n"
                                "os.environ['OWN']", envs={"OWN": "3"})
        assert done.text == "3" and done.logs.stdout == ["child\n"]
        done = sandbox.run_code("os.environ.get('OWN', 'none')")
        assert done.text == "none"
        assert sandbox.run_code("").results == []
        done = sandbox.run_code("os._exit(3)")
        assert done.error.name == "ContextRestarting", done
        assert sandbox.run_code("1").execution_count == 1
        assert sandbox.run_code("input()").error.name == \
            "StdinNotImplementedError"


def test_results():
    with cells() as (_, sandbox):
        done = sandbox.run_code("{'a': [1, None]}")
        assert done.results[0].json == {"a": [1, None]}
        done = sandbox.run_code(
            "class H:\n def _repr_html_(self): return '<b>h</b>'\n"
            " def __repr__(self): return 'H'\ndisplay(H())\nH()")
        assert [r.html for r in done.results] == ["<b>h</b>"] * 2
        assert [r.is_main_result for r in done.results] == [False, True]
        png = base64.b64encode(PNG).decode()
        done = sandbox.run_code("display({'image/png': %r, 'text/x': 'y'}, "
                                "raw=True)" % png)
        assert done.results[0].png == png
        assert done.results[0].extra == {"text/x": "y"}


def test_tables_and_charts():
    with cells() as (_, sandbox):
        done = sandbox.run_code("import pandas, matplotlib")
        if done.error:
            tap.skip("no pandas or matplotlib here")
        done = sandbox.run_code(
            "import pandas as pd\npd.DataFrame({'a': [1, 2.5]})")
        assert done.results[0].data == {"a": [1.0, 2.5]}
        assert "<table" in done.results[0].html
        done = sandbox.run_code(
            "import matplotlib.pyplot as plt\n"
            "plt.bar(['p', 'q'], [3, 4])\nplt.title('T')\nplt.show()")
        assert done.error is None and len(done.results) == 1, done
        result = done.results[0]
        assert base64.b64decode(result.png).startswith(PNG)
        assert not result.is_main_result
        assert result.chart.type.value == "bar"
        assert [(e.label, e.value) for e in result.chart.elements] == [
            ("p", 3), ("q", 4)]
        done = sandbox.run_code(
            "for draw in (plt.plot, plt.scatter):\n"
            "    plt.figure()\n    draw([1, 2], [3, 4])\n"
            "plt.figure(); plt.pie([1, 3])\n"
            "plt.subplots(1, 2)[1][0].plot([1])\nplt.show()")
        assert [r.chart.type.value for r in done.results] == [
            "line", "scatter", "pie", "superchart"], done.results
        done = sandbox.run_code("plt.plot([1]); plt.savefig('p.png')\n"
                                "plt.close()")
        assert len(done.results) == 1 and done.results[0].png


def test_contexts():
    with cells() as (_, sandbox):
        own = sandbox.create_code_context(cwd="/tmp", language="python")
        assert own.cwd == "/tmp" and own.language == "python"
        sandbox.run_code("y = 1", context=own)
        done = sandbox.run_code("import os\ny, os.getcwd()", context=own)
        assert done.text == "(1, '/tmp')", done
        assert sandbox.run_code("y").error.name == "NameError"
        listed = [c.id for c in sandbox.list_code_contexts()]
        assert own.id in listed and len(listed) >= 2
        sandbox.restart_code_context(own)
        done = sandbox.run_code("y", context=own)
        assert done.error.name == "NameError" and done.execution_count == 1
        sandbox.remove_code_context(own)
        refusal(e2b.NotFoundException, sandbox.run_code, "1", context=own)
        done = sandbox.run_code("A=7; echo $A", language="bash")
        assert done.logs.stdout == ["7\n"]
        done = sandbox.run_code("echo again $A", language="bash")
        assert done.logs.stdout == ["again 7\n"]
        refusal(e2b.SandboxException, sandbox.run_code, "1", language="cobol")


@tap.timeout(90)
def test_cell_beyond_its_time():
    with cells(keepalive=0.2 if NEW else 5) as (_, sandbox):
        sandbox.run_code("z = 5")
        refusal(e2b.TimeoutException, sandbox.run_code,
                "import time\ntime.sleep(300)", timeout=2)
        assert sandbox.run_code("z", timeout=60).text == "5"


def test_faults():
    with running() as (server, sandbox):
        run = sandbox.commands.run
        server.fail("Start", cut=60)
        refusal(Exception, run, "echo 1; sleep 1")
        server.fail("Start", rewrite=lambda body: end_stream(
            "unavailable", "gone"))
        refusal(e2b.SandboxException, run, "echo 1")
        server.fail("Start", split=1)
        assert run("echo 1").stdout == "1\n"
        server.fail("MakeDir", status=502, body={
            "sandboxId": "i", "message": "The sandbox was not found",
            "code": 502})
        refusal(e2b.SandboxException, sandbox.files.make_dir, "q")
        server.lose()
        refusal(e2b.SandboxException, run, "echo 1")


def test_faults_of_cells():
    with cells() as (server, sandbox):
        server.fail("/execute", split=1)
        assert sandbox.run_code("print('é😀')").logs.stdout == ["é😀\n"]
        server.fail("/execute", rewrite=lambda body:
                    b'{"type": "news"}\n' + body)
        assert sandbox.run_code("1").text == "1"
        server.fail("/execute", cut=30)
        refusal(Exception, sandbox.run_code, "1")
        server.fail("/execute", status=502, body={
            "sandboxId": "i", "message": "not found", "code": 502})
        refusal(e2b.TimeoutException, sandbox.run_code, "1")


if __name__ == "__main__":
    why = unavailable()
    if why:
        tap.skip_all("no sandbox: " + why)
    tap.main(globals())
