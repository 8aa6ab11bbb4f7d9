# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake Claude service: what it refuses, and each oddity it can play."""

import http.client
import json
import os
import re
import socket
import ssl
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import tap  # noqa: E402
from claude_cases import (ACCEPTED, REFUSED, TOOL, assistant,  # noqa: E402
                          call, image, request_body, result, user)
from certs import make_certs  # noqa: E402
from claude_server import (ClaudeServer, KeyTrap, block, cut,  # noqa: E402
                           error, error_event, event, gate, hang, mark, ping,
                           raw, raw_http, redirect, reply, response, text,
                           thinking, tool_results, tool_use)
from pty_session import run_piped  # noqa: E402

KEY = "sk-ant-test"


def raises(kind, function, *args, **kw):
    try:
        function(*args, **kw)
    except kind as exc:
        return exc
    raise AssertionError("no %s" % kind.__name__)


HEADERS = {"content-type": "application/json",
           "authorization": "Bearer " + KEY,
           "anthropic-version": "2026-10-21"}


def connect(server, context=None):
    if context:
        return http.client.HTTPSConnection("localhost", server.port,
                                           timeout=10, context=context)
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)


def post(server, body, headers=None, path="/v1/messages"):
    """(status, headers, body) of one request."""
    conn = connect(server)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        send = {key: value for key, value in dict(HEADERS, **(headers or {}))
                .items() if value is not None}
        conn.request("POST", path, data, send)
        answer = conn.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        conn.close()


def events(data):
    out = []
    for part in re.split(rb"\r?\n\r?\n", data):
        lines = part.splitlines()
        if lines:
            assert lines[0].startswith(b"event: "), part
            out.append((lines[0][7:].decode(), json.loads(lines[1][6:])))
    return out


def content_of(data):
    """The assistant's content array as a client assembles it."""
    blocks, partial = {}, {}
    for _, e in events(data):
        if e["type"] == "content_block_start":
            blocks[e["index"]] = dict(e["content_block"])
            partial[e["index"]] = ""
        elif e["type"] == "content_block_delta":
            for key in ("text", "thinking"):
                if key in e["delta"]:
                    blocks[e["index"]][key] += e["delta"][key]
            blocks[e["index"]].update(
                {k: v for k, v in e["delta"].items() if k == "signature"})
            partial[e["index"]] += e["delta"].get("partial_json", "")
        elif e["type"] == "content_block_stop" and partial[e["index"]]:
            blocks[e["index"]]["input"] = json.loads(partial[e["index"]])
    return [blocks[i] for i in sorted(blocks)]


def test_fake_tool_exchange():
    first = request_body(user("How many?"))
    with ClaudeServer([
            reply([thinking("Let me ", "count."), text("I count."),
                   tool_use("run_python", {"code": "print('é')"}, split=4)]),
            lambda request: reply(
                ["It is " + "".join(tool_results(request).values())]),
    ], keys={KEY}) as server:
        status, headers, data = post(server, first)
        assert status == 200 and headers["request-id"].startswith("req_")
        assert headers["content-type"].startswith("text/event-stream")
        names = [name for name, _ in events(data)]
        assert names[0] == "message_start" and names[-1] == "message_stop"
        assert names[-2] == "message_delta"
        content = content_of(data)
        assert [b["type"] for b in content] == ["thinking", "text",
                                                "tool_use"]
        assert content[0]["thinking"] == "Let me count."
        assert len(content[0]["signature"]) > 1000
        assert content[2]["input"] == {"code": "print('é')"}
        fragments = [e["delta"]["partial_json"] for _, e in events(data)
                     if "partial_json" in e.get("delta", {})]
        assert fragments[0] == "" and len(fragments) > 3
        second = request_body(first["messages"][0], assistant(*content),
                              user(result(content[2]["id"], "42")))
        # Values count, not spelling; cache_control may move.
        second["messages"][2]["content"][0]["cache_control"] = {
            "type": "ephemeral"}
        data = post(server, json.dumps(second, sort_keys=True,
                                       indent=1).encode())[2]
        assert content_of(data) == [{"type": "text", "text": "It is 42"}]
        assert len(server.message_requests) == 2


@tap.timeout(120)
def test_fake_refuses():
    assert len({name for name, _, _ in REFUSED}) == len(REFUSED)
    with ClaudeServer() as server:
        for name, body, words in REFUSED:
            status, headers, data = post(server, body)
            answer = json.loads(data)
            assert status == 400, (name, status, data)
            assert answer["error"]["type"] == "invalid_request_error", name
            assert words in answer["error"]["message"], (name, answer)
            assert answer["request_id"] == headers["request-id"]
            assert len(server.take_violations()) == 1, name


def test_fake_accepts():
    with ClaudeServer([reply(["ok"])] * len(ACCEPTED)) as server:
        for name, body in ACCEPTED:
            status, _, data = post(server, body)
            assert status == 200, (name, data)


def test_fake_image_details():
    with ClaudeServer() as server:
        body = request_body(user("a"), assistant(call("t")), user(dict(
            result("t"), content=[image(1, 1), image(1, 9000)])))
        error_ = json.loads(post(server, body)[2])["error"]
        assert error_["details"] == {
            "error_code": "image_dimensions_too_large",
            "max_side_length_pixels": 8000,
            "paths": ["messages.2.content.0.content.1"]}, error_
        server.take_violations()


def test_fake_headers():
    cases = [
        ({"authorization": None}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": KEY}, 401),
        ({"authorization": None, "x-api-key": ""}, 401),
        ({"x-api-key": KEY}, 400),
        ({"authorization": None, "x-api-key": KEY}, 200),
        ({"anthropic-version": None}, 400),
        ({"anthropic-version": "2020-01-01"}, 400),
        ({"anthropic-version": "2023-06-01"}, 200),
        ({"content-type": "text/plain"}, 400),
    ]
    with ClaudeServer([reply(["ok"])] * 2, keys={KEY}) as server:
        for headers, expected in cases:
            status = post(server, request_body(), headers)[0]
            assert status == expected, (headers, status)
            assert bool(server.take_violations()) == (expected != 200)
        assert server.requests[4].credentials == [
            ("authorization", "Bearer " + KEY), ("x-api-key", KEY)]
        assert post(server, request_body(), path="/v1/other")[0] == 404
        assert post(server, request_body(model="claude-9"))[0] == 404
        server.take_violations()


@tap.timeout(60)
def test_fake_body_limit():
    with ClaudeServer() as server:
        body = json.dumps(request_body(user("x" * (33 << 20)))).encode()
        status, _, data = post(server, body)
        assert status == 413 and b"request_too_large" in data
        assert "413" in server.take_violations()[0]


def test_fake_script_end():
    with ClaudeServer([]) as server:
        assert post(server, request_body())[0] == 500
        assert "past the end" in server.take_violations()[0]
    server = ClaudeServer([reply(["never"])])
    server.close()
    assert "not asked for" in str(raises(AssertionError, server.check))
    server = ClaudeServer([])
    post(server, {})
    assert "violations" in str(raises(AssertionError, server.__exit__, None,
                                      None, None))


def _thinking_history(server):
    """Two rounds with thinking; the messages of a valid third request."""
    messages = [user("one")]
    for text_ in ("two", "three"):
        content = content_of(post(server, request_body(*messages))[2])
        messages += [assistant(*content), user(text_)]
    return messages


def test_fake_thinking_binding():
    def edit(path, value):
        def apply(body):
            where = body["messages"]
            for step in path[:-1]:
                where = where[step]
            where[path[-1]] = value
        return apply

    def drop(*numbers):
        def apply(body):
            for number in numbers:
                del body["messages"][number]["content"][0]
        return apply

    cases = [
        ("same", lambda body: None, True),
        ("system", lambda body: body.update(system="Be long."), False),
        ("tools", lambda body: body.update(tools=[dict(
            TOOL, description="x")]), False),
        ("effort", lambda body: body.update(
            output_config={"effort": "low"}), True),
        ("first text", edit([0, "content", 0, "text"], "1"), False),
        ("own text", edit([1, "content", 1, "text"], "1"), False),
        ("last text", edit([4, "content", 0, "text"], "1"), True),
        ("thinking text", edit([3, "content", 0, "thinking"], "1"), False),
        ("signature", edit([3, "content", 0, "signature"], ""), False),
        ("drop first", drop(1), True),
        ("drop last", drop(3), True),
        ("drop all", drop(1, 3), True),
        ("as string", edit([0, "content"], "one"), True),
        ("split", lambda body: body["messages"].insert(0, user("zero")),
         False),
    ]
    script = [reply([thinking("a"), "A"]), reply([thinking("b"), "B"])] + [
        reply(["ok"])] * sum(good for _, _, good in cases)
    with ClaudeServer(script) as server:
        messages = _thinking_history(server)
        for name, change, good in cases:
            body = json.loads(json.dumps(request_body(*messages)))
            change(body)
            status, _, data = post(server, body)
            assert status == (200 if good else 400), (name, data)
            assert good or b"Invalid `signature`" in data, (name, data)
            assert bool(server.take_violations()) != good, name


def test_fake_thinking_order_and_resume():
    script = [reply([thinking(c), c]) for c in "abc"] + [reply(["ok"])]
    with ClaudeServer(script) as first:
        messages = _thinking_history(first)
        content = content_of(post(first, request_body(*messages))[2])
        messages += [assistant(*content), user("four")]
        body = json.loads(json.dumps(request_body(*messages)))
        del body["messages"][3]["content"][0]
        status, _, data = post(first, body)
        assert status == 400 and b"messages.5.content.0" in data, data
        first.take_violations()
        assert post(first, request_body(*messages))[0] == 200
    with ClaudeServer([reply(["ok"])] * 2, rules=first.rules) as second:
        assert post(second, request_body(*messages))[0] == 200
        body["thinking"] = {"type": "adaptive", "block_binding": {
            "prefix_mismatch_behavior": "drop_block"}}
        status, _, data = post(second, body, {
            "anthropic-beta": "x, thinking-binding-controls-2026-08-01"})
        dropped = events(data)[0][1]["message"]["input_transformations"]
        assert [d["path"] for d in dropped] == ["messages.5.content.0"]
    with ClaudeServer() as stranger:
        assert post(stranger, request_body(*messages))[0] == 400
        stranger.take_violations()


def test_fake_tool_echo():
    number = 9007199254740993
    cases = [(number, 200), (9007199254740992, 400),
             (9.00719925474099e15, 400)]
    script = [reply([tool_use("run_python", {"code": number}, id="toolu_n")])]
    with ClaudeServer(script + [reply(["ok"])]) as server:
        post(server, request_body())
        for value, expected in cases:
            body = request_body(user("hi"), assistant(call(
                "toolu_n", value)), user(result("toolu_n")))
            assert post(server, body)[0] == expected, value
            server.take_violations()


def test_fake_unfinished_reply_cannot_be_echoed():
    items = [thinking("x"), tool_use("run_python", {"code": "1"}, id="t_cut"),
             cut("end")]
    with ClaudeServer([reply(items)]) as server:
        content = content_of(post(server, request_body())[2])
        for echo in (content, content[1:]):
            body = request_body(user("hi"), assistant(*echo),
                                user(result("t_cut")))
            assert post(server, body)[0] == 400
        assert "never finished" in server.take_violations()[1]


def test_fake_stream_oddities():
    odd = {"type": "odd_block", "data": {"n": 1}}
    script = [
        reply([text("häl", "lo"), event("new_event", {"type": "new_event"}),
               ping(), raw(b": comment\n\n")], chunk=1, crlf=True,
              leading=[ping()],
              deltas=[{"delta": {"stop_reason": None},
                       "usage": {"output_tokens": 1}}]),
        reply([block(odd, [{"type": "odd_delta", "x": 1}]),
               tool_use("run_python", fragments=[], id="t0")]),
        reply(["x"], lean=True, with_usage=False),
        reply([tool_use("run_python", id="t1", stop=False, fragments=[
            "", '{"code": "import os\\nos.rem'])], stop_reason="max_tokens"),
        reply(["ok"]),
    ]
    with ClaudeServer(script) as server:
        data = post(server, request_body())[2]
        assert b"\r\n\r\n" in data and b"h\xc3\xa4l" in data
        data = data.replace(b": comment\n\n", b"")
        names = [name for name, _ in events(data)]
        assert names == ["ping", "message_start", "content_block_start",
                         "content_block_delta", "content_block_delta",
                         "content_block_stop", "new_event", "ping",
                         "message_delta", "message_delta", "message_stop"]
        data = post(server, request_body())[2]
        content = content_of(data)
        assert content[0] == odd and content[1]["input"] == {}
        lean = post(server, request_body())[2]
        message = events(lean)[0][1]["message"]
        assert "usage" not in message and "container" not in message
        cut_call = post(server, request_body())[2]
        assert cut_call.count(b"event: content_block_stop") == 0
        assert b'"max_tokens"' in cut_call
        # An unknown block may come back only as it was issued.
        history = request_body(user("hi"), assistant(*content),
                               user(result("t0")))
        assert post(server, history)[0] == 200
        history["messages"][1]["content"][0] = dict(odd, data=2)
        assert post(server, history)[0] == 400
        server.take_violations()
    raises(ValueError, reply, [tool_use("run_python"), "text after"])


def test_what_other_servers_leave_out():
    calls = [tool_use("run_python", {"code": "1"}, id="call_0")]
    with ClaudeServer([reply(calls), reply(calls, without=["organization"]),
                       reply(calls, without=["message_start", "index", "id"]),
                       reply(["fine"])]) as server:
        whole, same, gaps = [post(server, request_body())[2]
                             for _ in range(3)]
        assert [name for name, _ in events(whole)] == \
            [name for name, _ in events(same)]
        assert events(gaps)[0][0] == "content_block_start", gaps
        for _, data in events(gaps):
            assert "index" not in data, data
            assert "id" not in data.get("content_block", {}), data
        # An id that the client made up is none of those that were issued.
        call = {"type": "tool_use", "id": "toolu_1", "name": "run_python",
                "input": {"code": "1"}}
        assert post(server, request_body(user("hi"), assistant(call), user(
            result("toolu_1"))))[0] == 200
    try:
        reply(["x"], without=["usage"])
        raise AssertionError("accepted")
    except ValueError:
        pass


def test_fake_chunk_size():
    body = json.dumps(request_body()).encode()
    with ClaudeServer([reply(["abc"], chunk=1)]) as server, \
            socket.create_connection(("127.0.0.1", server.port)) as sock:
        head = "".join("%s: %s\r\n" % item for item in HEADERS.items())
        sock.sendall(("POST /v1/messages HTTP/1.1\r\n%scontent-length: %d"
                      "\r\n\r\n" % (head, len(body))).encode() + body)
        data = b""
        while not data.endswith(b"\r\n0\r\n\r\n"):
            part = sock.recv(65536)
            assert part, data
            data += part
        stream = data.split(b"\r\n\r\n", 1)[1]
        assert re.fullmatch(rb"(1\r\n.\r\n)+0\r\n\r\n", stream,
                            re.DOTALL), stream[:200]


def test_fake_not_streamed():
    with ClaudeServer([reply(["a ", tool_use("run_python", {"code": "1"})],
                             usage={"output_tokens": 7})]) as server:
        _, headers, data = post(server, request_body(stream=False))
        message = json.loads(data)
        assert headers["content-type"] == "application/json"
        assert message["stop_reason"] == "tool_use"
        assert message["content"][1]["input"] == {"code": "1"}
        assert message["usage"]["output_tokens"] == 7


def _open_stream(server):
    conn = connect(server)
    conn.request("POST", "/v1/messages", json.dumps(request_body()), HEADERS)
    return conn


def test_fake_gates():
    with ClaudeServer([reply([text("first", gate("half"), "second")],
                             before=[gate("head")]),
                       reply([mark("seen"), "x"])]) as server:
        conn = _open_stream(server)
        server.wait_reached("head")
        server.release("head")
        answer = conn.getresponse()
        server.wait_reached("half")
        raises(AssertionError, server.wait_request(0).wait_done, 0.05)
        got = b""
        while b"first" not in got:
            got += answer.read1(65536)
        assert b"second" not in got
        server.release("half")
        rest = answer.read()
        assert b"second" in rest and rest.endswith(b'stop"}\n\n')
        server.wait_request(0).wait_done(5)
        conn.close()
        post(server, request_body())
        server.wait_reached("seen", 5)
        raises(AssertionError, server.wait_reached, "never", 0.05)


def test_fake_sees_the_client_hang_up():
    with ClaudeServer([reply([text("a", mark("in"), hang())]),
                       reply(["b"], before=[hang()])]) as server:
        conn = _open_stream(server)
        answer = conn.getresponse()
        server.wait_reached("in")
        raises(AssertionError, server.requests[0].wait_closed, 0.05)
        answer.close()
        conn.close()
        server.requests[0].wait_closed(5)
        conn = _open_stream(server)
        request = server.wait_request(1)
        conn.close()
        request.wait_closed(5)


def test_fake_close_frees_gates():
    before = set(os.listdir("/proc/self/fd"))
    server = ClaudeServer([reply([text("a", mark("in"), hang())]),
                           reply(["x" * (64 << 20)])])
    one = _open_stream(server)
    server.wait_reached("in")
    two = _open_stream(server)
    server.wait_request(1)
    idle = socket.create_connection(("127.0.0.1", server.port))
    server.close()
    server.check()
    for conn in (one, two, idle):
        conn.close()
    assert threading.active_count() == 1, threading.enumerate()
    assert set(os.listdir("/proc/self/fd")) == before


def _read_all(conn):
    data, problem = b"", None
    try:
        answer = conn.getresponse()
        while True:
            part = answer.read1(100)
            if not part:
                break
            data += part
    except (OSError, http.client.HTTPException) as exc:
        problem = exc
    conn.close()
    return data, problem


def test_fake_cuts():
    cases = [
        (reply([text("a", cut("reset"))]), ConnectionResetError, b'"a"'),
        (reply([text("a", cut("close"))]), http.client.IncompleteRead, b""),
        (reply([text("a", cut("end"))]), type(None), b'"a"'),
        (reply(["a"], finish=False), type(None), b'"a"'),
        (reply(["a"], before=[cut("reset")]), ConnectionResetError, b""),
        (reply(["a"], before=[cut("close")]),
         http.client.RemoteDisconnected, b""),
        (reply(["a"], cut_after=20), ConnectionResetError,
         b"event: message_start"),
        (raw_http([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"]),
         type(None), b"hi"),
        (raw_http([b"no HTTP\r\n\r\n"]), http.client.BadStatusLine, b""),
    ]
    with ClaudeServer([case[0] for case in cases]) as server:
        for number, (_, kind, words) in enumerate(cases):
            data, problem = _read_all(_open_stream(server))
            assert type(problem) is kind, (number, problem)
            assert words in data and b"message_stop" not in data, number


def test_fake_errors():
    script = [
        error(429, headers={"retry-after": "2"}, message="slow",
              details={"error_code": "enforced_spend_limit_reached"}),
        error(529),
        error(413, body=b"<html>too large</html>", content_type="text/html"),
        reply([text("The first"), error_event()]),
        response(200, [b"odd"], {"content-type": "text/plain"}),
    ]
    with ClaudeServer(script) as server:
        status, headers, data = post(server, request_body())
        assert status == 429 and headers["retry-after"] == "2"
        assert json.loads(data)["error"] == {
            "type": "rate_limit_error", "message": "slow",
            "details": {"error_code": "enforced_spend_limit_reached"}}
        status, _, data = post(server, request_body())
        assert (status, json.loads(data)["error"]["type"]) == (
            529, "overloaded_error")
        status, headers, data = post(server, request_body())
        assert headers["content-type"] == "text/html" and b"<html>" in data
        _, headers, data = post(server, request_body())
        name, last = events(data)[-1]
        assert name == "error" and last["request_id"] == headers["request-id"]
        assert post(server, request_body())[2] == b"odd"


def test_fake_counting_and_models():
    with ClaudeServer(models=["my-model"]) as server:
        body = request_body(max_tokens=None, stream=None)
        path = "/prefix/v1/messages/count_tokens"
        status, _, data = post(server, body, path=path)
        assert status == 200 and json.loads(data)["input_tokens"] > 10
        assert post(server, request_body(), path=path)[0] == 400
        server.take_violations()
        conn = connect(server)

        def get(target):
            conn.request("GET", target, headers=HEADERS)
            answer = conn.getresponse()
            return answer.status, json.loads(answer.read())

        seen, after = [], ""
        while True:
            status, page = get("/v1/models?limit=5" + after)
            seen += [model["id"] for model in page["data"]]
            after = "&after_id=" + page["last_id"]
            if not page["has_more"]:
                break
        assert len(seen) == len(set(seen)) == 17 and "my-model" in seen
        status, model = get("/v1/models/claude-opus-5-5")
        assert model["max_tokens"] == 128000
        assert get("/v1/models/none")[0] == 404
        server.take_violations()
        conn.close()


def test_fake_function_that_fails_is_a_violation():
    with ClaudeServer([lambda request: 1 // 0]) as server:
        assert post(server, request_body())[0] == 500
        assert "ZeroDivisionError" in server.take_violations()[0]


def test_fake_redirect_and_key_trap():
    with KeyTrap() as trap, ClaudeServer() as server:
        server.add(redirect(trap.url + "/v1/messages"))
        status, headers, _ = post(server, request_body())
        assert status == 307 and headers["location"].startswith(trap.url)
        assert trap.credentials == []
        post(trap, b"anything")
        assert trap.credentials == [("authorization", "Bearer " + KEY)]


def test_fake_tls():
    with tempfile.TemporaryDirectory() as directory:
        certs = make_certs(directory)
        trust = ssl.create_default_context(cafile=certs.ca)
        with ClaudeServer([reply([text("a", gate("g"), "b")])],
                          tls=certs.right) as server:
            assert server.url.startswith("https://127.0.0.1:")
            conn = connect(server, trust)
            conn.request("POST", "/v1/messages", json.dumps(request_body()),
                         HEADERS)
            answer = conn.getresponse()
            server.wait_reached("g")
            server.release("g")
            assert b"message_stop" in answer.read()
            conn.close()
        for pair, reason in ((certs.wrong, "mismatch"),
                             (certs.untrusted, "unable to get")):
            with ClaudeServer(tls=pair) as server:
                conn = connect(server, trust)
                problem = raises(ssl.SSLCertVerificationError, conn.request,
                                 "GET", "/v1/models")
                assert reason in str(problem), problem
                conn.close()
                assert server.requests == []


def test_fake_as_a_program():
    program = os.path.join(HERE, "..", "fakes", "claude_server.py")
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, "script.py")
        with open(script, "w") as out:
            out.write("from claude_server import *\n"
                      "SCRIPT = [reply(['one'])]\nOTHER = []\n")
        done = run_piped([sys.executable, "-B", program, script])
        lines = done.stdout.decode().splitlines()
        assert re.match(r"http://127\.0\.0\.1:\d+$", lines[0]), done
        assert lines[1] == "[]" and done.status == 0, done
        done = run_piped([sys.executable, "-B", program, "--requests",
                          script])
        assert done.stdout.decode().splitlines()[1:] == ["[]", "[]"], done
        assert run_piped([sys.executable, "-B", program, script,
                          "MISSING"]).status == 1


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has no part in it")
    tap.main(globals())
