# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake of an E2B service: its control API, the way to a sandbox, files and
processes, and what is refused of each."""

import base64
import gzip
import http.client
import json
import os
import socket
import struct
import sys
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import tap  # noqa: E402
from e2b_requests import (FILES, START, STREAM, TEMPLATE, Box,  # noqa: E402
                          api, ask, box, output)
from e2b_server import (KEY, E2bServer, envelope, envelopes,  # noqa: E402
                        signature, unavailable)


# -- the control API --

def test_keys():
    with E2bServer(bearer="sk-1") as server:
        body = {"templateID": TEMPLATE}
        for headers in ({}, {"x-api-key": KEY}, {
                "x-api-key": "e2b_0", "authorization": "Bearer sk-1"}):
            found = ask(server, "POST", "/sandboxes", body, headers)
            assert found.pair == (401, 401), found.body
        found = api(server, "POST", "/sandboxes", body,
                    authorization="Bearer sk-1")
        assert found.status == 201


def test_create_is_checked():
    rows = [({"templateID": None}, 400), ({"timeout": 0}, 400),
            ({"timeout": "9"}, 400), ({"timeout": 86401}, 400),
            ({"timeout": 1.5}, 400), ({"envVars": {"A": 1}}, 400),
            ({"metadata": []}, 400), ({"templateID": "none"}, 404),
            ({"allow_internet_access": "no"}, 400),
            ({"autoPauseMemory": False}, 400),
            ({"autoPause": True, "autoPauseMemory": False,
              "autoResume": {"enabled": True}}, 400),
            ({"network": {"allowOut": ["a.example.org"]}}, 400),
            ({"network": {"denyOut": ["a.example.org"]}}, 400),
            ({"network": {"allowPublicTraffic": False}}, 400)]
    with E2bServer() as server:
        for change, status in rows:
            body = dict({"templateID": TEMPLATE}, **change)
            found = api(server, "POST", "/sandboxes", body)
            assert found.pair == (status, status), (change, found.body)
            assert isinstance(found.json["message"], str)
        found = api(server, "POST", "/sandboxes", b"{",
                    content_type="application/json")
        assert found.pair == (400, 400)
        found = api(server, "POST", "/sandboxes", b"{}",
                    content_type="text/plain")
        assert found.pair == (400, 400)
        assert server.created == []


def test_generations_of_create():
    body = {"templateID": TEMPLATE}
    with E2bServer(create=("v1",)) as server:
        found = api(server, "POST", "/v2/sandboxes", body)
        assert found.pair == (405, 405), found.body
        assert found.json["message"] == "method not allowed"
        found = api(server, "POST", "/v2/sandboxes/i1/connect", {})
        assert found.pair == (404, 404)
        assert api(server, "GET", "/v2/sandboxes").json == []
        made = api(server, "POST", "/sandboxes", body).json
        assert "envdAccessToken" not in made
        made = api(server, "POST", "/sandboxes", dict(body, secure=True))
        assert made.json["envdAccessToken"]
    with E2bServer(create=("v2",)) as server:
        assert api(server, "POST", "/sandboxes", body).status == 405
        made = api(server, "POST", "/v2/sandboxes", body).json
        assert made["envdAccessToken"] and made["domain"] is None
    with E2bServer(prefix="/api/v1/x", min_timeout=300) as server:
        assert api(server, "POST", "/sandboxes", body).status == 404
        found = api(server, "POST", "/api/v1/x/sandboxes", body)
        assert found.status == 201 or found.status == 400
        found = api(server, "POST", "/api/v1/x/sandboxes",
                    dict(body, timeout=299))
        assert found.status == 400


def test_idempotency_key():
    body = {"templateID": TEMPLATE}
    with E2bServer() as server:
        def create(body, key, path="/v2/sandboxes"):
            return api(server, "POST", path, body, idempotency_key=key)
        one = create(body, "a-1")
        assert create(body, "a-1").json == one.json
        assert create(body, "a-2").json != one.json
        other = create(dict(body, timeout=60), "a-1")
        assert other.json["error_code"] == "idempotency_request_mismatch"
        for key in ("A", "", "a" * 256, "a_b"):
            assert create(body, key).status == 400, key
        # v1 does not read it.
        assert create(body, "a-1", "/sandboxes").json != one.json


def test_states():
    with box({"metadata": {"job": "7"}}) as (server, one):
        path = "/sandboxes/" + one.id
        for method, tail, body, status in (
                ("POST", "/timeout", {}, 400),
                ("POST", "/timeout", {"timeout": 60}, 204),
                ("POST", "/refreshes", {"duration": 3601}, 400),
                ("POST", "/refreshes", {"duration": 300}, 204),
                ("POST", "/connect", {}, 400),
                ("POST", "/connect", {"timeout": 60}, 200),
                ("POST", "/resume", {}, 409),
                ("POST", "/pause", {}, 204), ("POST", "/pause", {}, 409),
                ("POST", "/timeout", {"timeout": 60}, 404),
                ("POST", "/connect", {"timeout": 60}, 201),
                ("POST", "/pause", None, 204), ("POST", "/resume", {}, 201),
                ("PUT", "/network", {"allowOut": ["a.example"]}, 400),
                ("PUT", "/network", {"denyOut": ["0.0.0.0/0"]}, 204),
                ("PATCH", "", None, 405), ("GET", "/nothing", None, 404),
                ("DELETE", "", None, 204), ("DELETE", "", None, 404),
                ("GET", "", None, 404)):
            found = api(server, method, path + tail, body)
            assert found.status == status, (tail, body, found.body)
            assert status != 204 or not found.body
    with box(lacks=("timeout", "network")) as (server, one):
        path = "/sandboxes/" + one.id
        assert api(server, "POST", path + "/timeout",
                   {"timeout": 9}).status == 404


def test_time_to_live():
    with box() as (server, one):
        path = "/sandboxes/" + one.id
        api(server, "POST", path + "/timeout", {"timeout": 100})
        first = api(server, "GET", path).json["endAt"]
        api(server, "POST", path + "/connect", {"timeout": 1})
        assert api(server, "GET", path).json["endAt"] == first
        api(server, "POST", path + "/connect", {"timeout": 500})
        assert api(server, "GET", path).json["endAt"] > first
        server.advance(400)
        assert one.envd("GET", "/health").status == 204
        server.advance(101)
        assert api(server, "GET", path).status == 404
        assert one.envd("GET", "/health").status == 502
    with box({"autoPause": True}) as (server, one):
        server.advance(601)
        path = "/sandboxes/" + one.id
        assert api(server, "GET", path).json["state"] == "paused"


def test_listing():
    with E2bServer() as server:
        names = [Box(server, metadata={"n": str(n), "k": "v"}).id
                 for n in range(3)]
        found = api(server, "GET", "/v2/sandboxes?metadata=n%3D1%26k%3Dv")
        assert [s["sandboxID"] for s in found.json] == [names[1]]
        assert "envdAccessToken" not in found.json[0]
        seen = []
        path = "/v2/sandboxes?limit=2&order=asc"
        page = api(server, "GET", path)
        seen += [s["sandboxID"] for s in page.json]
        page = api(server, "GET", path + "&nextToken="
                   + page.headers["x-next-token"])
        seen += [s["sandboxID"] for s in page.json]
        assert seen == names and page.headers["x-next-token"] is None
        api(server, "POST", "/sandboxes/%s/pause" % names[0], {})
        found = api(server, "GET", "/v2/sandboxes?state=paused").json
        assert [s["sandboxID"] for s in found] == names[:1]
        assert len(api(server, "GET", "/sandboxes").json) == 2
        for query in ("limit=0", "limit=101", "limit=x", "state=gone"):
            found = api(server, "GET", "/v2/sandboxes?" + query)
            assert found.status == 400, query
        server.max_sandboxes = 2
        found = api(server, "POST", "/sandboxes", {"templateID": TEMPLATE})
        assert found.pair == (429, 429)
        assert "maximum number of concurrent" in found.json["message"]


# -- the way to a sandbox --

def test_addresses():
    with box({"secure": False}, version="0.6.13") as (server, one):
        token = {"x-access-token": one.token}

        def health(headers=None, host=None, path="/health"):
            return ask(server, "GET", path, None,
                       dict(token, **headers or {}), host)
        direct = "49983-%s.example.org:%d" % (one.id, server.port)
        wrong = {"e2b-sandbox-id": "iother", "e2b-sandbox-port": "1"}
        assert health(host=direct).status == 204
        assert health(wrong, direct).status == 204
        assert health(path="/sandbox-proxy/%s/ports/49983/health"
                      % one.id).status == 204
        assert health().status == 400
        assert health({"e2b-sandbox-id": one.id}).status == 400
        found = health(wrong)
        assert found.pair == (502, 502)
        assert found.json["message"] == "The sandbox was not found"
        assert found.json["sandboxId"] == "iother"
        found = ask(server, "GET", "/", None, one.headers(8080))
        assert found.status == 502 and found.json["port"] == 8080
        assert "port is not open" in found.json["message"]
        for agent, accept, is_html in (
                ("knowledge/1", None, True), ("plain/1", None, False),
                ("Mozilla/5.0", "application/json", False)):
            found = health(dict(wrong, **{"user-agent": agent}, **(
                {"accept": accept} if accept else {})))
            assert (b"<html" in found.body) == is_html, found.body
    with box({"templateID": "base"}) as (server, one):
        found = ask(server, "GET", "/health", None, one.headers(49999))
        assert "port is not open" in found.json["message"]


def test_keys_where_they_do_not_belong():
    with box() as (server, one):
        one.envd("GET", "/health", x_api_key=KEY)
        assert "key of the API" in server.take_violations()[0]
        api(server, "GET", "/v2/sandboxes", x_access_token="t")
        assert "x-access-token" in server.take_violations()[0]
        one.envd("GET", "/health", x_api_key=KEY)
        failed = None
        try:
            server.check()
        except AssertionError as exc:
            failed = exc
        assert failed
        server.take_violations()


def test_tokens():
    with box() as (server, one):
        for token in ("wrong", None):
            for path, body in (("/files?path=a", None), ("/envs", None)):
                found = one.envd("GET", path, body, x_access_token=token)
                assert found.pair == (401, 401), found.body
            found = one.rpc("Stat", {"path": "/tmp"}, x_access_token=token)
            assert found.pair == (401, 401), found.body
            found = one.envd("POST", START, envelope({}),
                             x_access_token=token, content_type=STREAM)
            assert found.pair == (401, 401), found.body
        assert one.envd("GET", "/health", x_access_token=None).status == 204
        # The interpreter does not check it.
        assert ask(server, "GET", "/contexts", None, one.headers(
            49999, x_access_token=None)).status == 200


def test_traffic_token():
    with box({"network": {"allowPublicTraffic": False}}) as (server, one):
        wrong = dict(e2b_traffic_access_token="wrong")
        found = ask(server, "GET", "/contexts", None,
                    one.headers(49999, **wrong))
        assert found.pair == (403, 403), found.body
        assert one.envd("GET", "/envs", **wrong).status == 200
        assert ask(server, "GET", "/health", None,
                   one.headers(49999)).status == 200


def test_signatures():
    text = "/home/user/out/plot.png"
    assert signature(text, "read", "user", "ea_4f1c9d2b7e", 1790000000) == \
        "v1_mSSlI4vF2iEeMWWox2Rv4eUfOAMrq3gyQz6pd6NvHUk"
    assert signature("/home/user/in/sales.csv", "write", "",
                     "ea_4f1c9d2b7e") == \
        "v1_yg/kaBKnOsW9PlabFdAC1x4ZaB8TvnP6mj0tpGnl+Ms"
    with box() as (server, one):
        one.envd("POST", "/files?path=a", b"1",
                 content_type="application/octet-stream")
        later, before = int(time.time()) + 600, int(time.time()) - 10
        quote = urllib.parse.quote

        def get(sign, more=""):
            return one.envd("GET", "/files?path=a&signature=%s%s" % (
                quote(sign, safe=""), more), x_access_token=None)
        assert get(signature("a", "read", "", one.token)).body == b"1"
        assert get(signature("a", "read", "", one.token, later),
                   "&signature_expiration=%d" % later).body == b"1"
        for found, message in (
                (get(signature("a", "write", "", one.token)),
                 "invalid signature"),
                (get(signature("a", "read", "", one.token, before),
                     "&signature_expiration=%d" % before),
                 "signature is already expired"),
                (one.envd("GET", "/files?path=a", x_access_token=None),
                 "missing signature query parameter"),
                (one.envd("GET", "/files?path=a", x_access_token="x"),
                 "access token present in header but does not match")):
            assert found.pair == (401, 401)
            assert found.json["message"] == message, found.body


def test_auto_resume():
    with box({"autoPause": True, "autoResume": {"enabled": True}}) \
            as (server, one):
        api(server, "POST", "/sandboxes/%s/pause" % one.id, {})
        found = one.envd("GET", "/health", x_access_token="wrong")
        assert found.status == 403
        assert one.envd("GET", "/envs").status == 200
        assert server.sandbox().state == "running"
    with box() as (server, one):
        api(server, "POST", "/sandboxes/%s/pause" % one.id, {})
        assert one.envd("GET", "/health").status == 502


# -- files --

def multipart(*parts):
    body = b""
    for name, filename, data in parts:
        body += (b'--bnd\r\nContent-Disposition: form-data; name="%s"; '
                 b'filename="%s"\r\n\r\n%s\r\n' % (
                     name.encode(), filename.encode(), data))
    return body + b"--bnd--\r\n"


def test_uploads():
    form = "multipart/form-data; boundary=bnd"
    octets = "application/octet-stream"
    with box() as (server, one):
        def put(path, body, kind, **headers):
            return one.envd("POST", "/files" + path, body, content_type=kind,
                            **headers)
        found = put("?path=d/a.csv", multipart(("file", "z", b"1\r\n--bn")),
                    form)
        assert found.json == [{"name": "a.csv", "type": "file",
                               "path": "/home/user/d/a.csv"}]
        assert found.headers["content-type"].startswith("text/plain")
        assert one.envd("GET", "/files?path=d/a.csv").body == b"1\r\n--bn"
        found = put("", multipart(("file", "/tmp/x/1", b"1"),
                                  ("file", "two", b"")), form)
        assert [e["path"] for e in found.json] == ["/tmp/x/1",
                                                   "/home/user/two"]
        assert put("?path=no", multipart(("other", "z", b"")), form).json == []
        assert put("?path=b", b"\0\xff", octets).status == 200
        assert one.envd("GET", "/files?path=~/b").body == b"\0\xff"
        assert put("?path=g", gzip.compress(b"zipped"), octets,
                   content_encoding="gzip").status == 200
        assert one.envd("GET", "/files?path=g").body == b"zipped"
        for found in (
                put("?path=c", b"1", "text/csv"), put("", b"1", octets),
                put("?path=d", b"1", octets), put("?path=b/c", b"1", octets),
                put("?path=x", multipart(("file", "a", b"1"),
                                         ("file", "b", b"2")), form),
                put("?path=x", b"--bnd\r\n", form),
                put("?path=x", b"q", octets, content_encoding="br"),
                put("?path=x", b"no gzip", octets, content_encoding="gzip")):
            assert found.pair == (400, 400), found.body
        assert put("?path=x&username=nobody", b"1", octets).pair == (401,
                                                                     401)
        stored = put("?path=m", b"1", octets, x_metadata_k="v").json
        assert stored[0]["metadata"] == {"k": "v"}
    with box(version="0.5.2") as (server, one):
        for headers in (dict(content_type=octets),
                        dict(content_type=form, content_encoding="gzip")):
            body = multipart(("file", "z", b"1"))
            if "content_encoding" in headers:
                body = gzip.compress(body)
            found = one.envd("POST", "/files?path=a", body, **headers)
            assert found.pair == (400, 400)
    with box(drop=True) as (server, one):
        data = b"x" * 3000000
        one.envd("POST", "/files?path=a", data, content_type=octets)
        sent = server.find("POST /files")[0]
        assert sent.size == len(data) and len(sent.sha256) == 64
        found = os.stat(os.path.join(server.sandbox().home, "a"))
        assert found.st_size == len(data), found
        assert found.st_blocks * 512 < 2000000, found
        one.envd("POST", "/files?path=b", data[:1000], content_type=octets)
        assert one.envd("GET", "/files?path=b").body == data[:1000]


def test_chunked_upload_with_expect():
    with box() as (server, one):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.settimeout(60)
            head = ["POST /files?path=a HTTP/1.1", "host: x",
                    "content-type: application/octet-stream",
                    "transfer-encoding: chunked", "expect: 100-continue"]
            head += ["%s: %s" % p for p in one.headers(49983).items()]
            sock.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
            assert sock.recv(100).startswith(b"HTTP/1.1 100 Continue")
            sock.sendall(b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        assert one.envd("GET", "/files?path=a").body == b"abcd"


def test_downloads():
    with box() as (server, one):
        data = bytes(range(256)) * 20
        for name, body in (("a.png", data), ("empty", b"")):
            with open(os.path.join(server.sandbox().home, name), "wb") as f:
                f.write(body)

        def get(path="a.png", **headers):
            return one.envd("GET", "/files?path=" + path, **headers)
        found = get()
        assert found.body == data
        assert found.headers["content-type"] == "image/png"
        assert found.headers["content-length"] == str(len(data))
        assert get("empty").body == b""
        for text, part, where in (
                ("bytes=0-0", data[:1], "bytes 0-0/5120"),
                ("bytes=5000-", data[5000:], "bytes 5000-5119/5120"),
                ("bytes=-7", data[-7:], "bytes 5113-5119/5120")):
            found = get(range=text, accept_encoding="gzip")
            assert found.status == 206 and found.body == part
            assert found.headers["content-range"] == where
        assert get(range="bytes=9000-").status == 416
        found = get(accept_encoding="gzip")
        assert found.headers["content-length"] is None
        assert gzip.decompress(found.body) == data
        since = found.headers["last-modified"]
        assert get(if_modified_since=since).status == 304
        for found, status in (
                (get("none"), 404), (get("/tmp"), 400), (get(""), 400),
                (get("/dev/null"), 400), (get("a&username=no"), 401),
                (get(accept_encoding="br, identity;q=0"), 406)):
            assert found.pair == (status, status), found.body
        assert one.envd("HEAD", "/files?path=a.png").status == 405


def test_file_calls():
    with box() as (server, one):
        home = server.sandbox().home
        made = one.rpc("MakeDir", {"path": "w/deep", "unknown": 1})
        assert made.json["entry"]["type"] == "FILE_TYPE_DIRECTORY"
        assert made.json["entry"]["mode"] == 493, made.body
        assert made.json["entry"]["owner"] == "user"
        again = one.rpc("MakeDir", {"path": "/home/user/w"})
        assert again.pair == (409, "already_exists")
        assert one.rpc("ListDir", {"path": "w/deep"}).json == {}
        open(os.path.join(home, "w", "empty"), "w").close()
        os.symlink("empty", os.path.join(home, "w", "link"))
        os.symlink("gone", os.path.join(home, "w", "broken"))
        os.symlink("/etc", os.path.join(home, "w", "etc"))
        listed = {e["name"]: e for e in one.rpc(
            "ListDir", {"path": "/home/user", "depth": 3}).json["entries"]}
        assert sorted(listed) == ["broken", "deep", "empty", "etc", "link",
                                  "w"]
        assert "size" not in listed["empty"]
        assert listed["link"]["symlinkTarget"] == "/home/user/w/empty"
        assert listed["link"]["type"] == "FILE_TYPE_FILE"
        assert listed["link"]["size"] == "5"
        assert listed["etc"]["type"] == "FILE_TYPE_DIRECTORY"
        assert "type" not in listed["broken"]
        moved = one.rpc("Move", {"source": "w/empty",
                                 "destination": "new/one"})
        assert moved.json["entry"]["path"] == "/home/user/new/one"
        assert one.rpc("Remove", {"path": "w"}).json == {}
        assert one.rpc("Remove", {"path": "w"}).json == {}
        for method, message, pair in (
                ("Stat", {"path": "w"}, (404, "not_found")),
                ("ListDir", {"path": "w"}, (404, "not_found")),
                ("ListDir", {"path": "new/one"}, (400, "invalid_argument")),
                ("MakeDir", {"path": "new/one"}, (400, "invalid_argument")),
                ("MakeDir", {"path": "new/one/x"},
                 (400, "invalid_argument")),
                ("MakeDir", {"path": 7}, (400, "invalid_argument")),
                ("Move", {"source": "w", "destination": "v"},
                 (404, "not_found")),
                ("CreateWatcher", {"path": "/tmp"}, (501, "unimplemented"))):
            found = one.rpc(method, message)
            assert found.pair == pair, (method, message, found.body)


def test_form_of_calls():
    with box() as (server, one):
        path = FILES + "Stat"
        for body, headers, pair in (
                (b"", {}, (400, "invalid_argument")),
                (b"[", {}, (400, "invalid_argument")),
                (b'{"path":"/"}', {"connect_protocol_version": "2"},
                 (400, "invalid_argument")),
                (b'{"path":"/"}', {"connect_timeout_ms": "0"},
                 (504, "deadline_exceeded")),
                (b'{"path":"/"}', {"connect_timeout_ms": "9" * 11},
                 (400, "invalid_argument")),
                (b'{"path":"/"}', {"authorization": "Bearer x"},
                 (401, "unauthenticated")),
                (b'{"path":"/"}', {"authorization": "Basic bm9ib2R5Og=="},
                 (401, "unauthenticated"))):
            found = one.envd("POST", path, body, **dict(
                {"content_type": "application/json"}, **headers))
            assert found.pair == pair, (headers, found.body)
        assert one.envd("GET", path).status == 405
        found = one.envd("POST", path, b"{}", content_type=STREAM)
        assert (found.status, found.body) == (415, b"")
        found = one.envd("POST", START, b"{}",
                         content_type="application/json")
        assert (found.status, found.body) == (415, b"")
        found = one.envd("POST", FILES + "None", b"{}",
                         content_type="application/json")
        assert found.status == 404 and b"404 page not found" in found.body
        assert one.envd("POST", "/init", b"{}").status == 404


# -- processes --

def test_start():
    with box({"envVars": {"G": "1"}}) as (server, one):
        found = one.start("printf é; echo $G$O >&2; exit 2", process={
            "cmd": "/bin/bash", "cwd": "/tmp", "envs": {"O": "2"},
            "args": ["-c", "printf é; echo $G$O$PWD >&2; exit 2"]})
        assert "pid" in found[0]["event"]["start"]
        assert output(found) == "é".encode()
        assert output(found, "stderr") == b"12/tmp\n"
        assert found[-2]["event"]["end"] == {
            "exitCode": 2, "exited": True, "status": "exit status 2",
            "error": "exit status 2"}
        assert found[-1] == {}
        assert one.start("true")[-2]["event"]["end"] == {
            "exited": True, "status": "exit status 0"}
        assert one.start("kill -9 $$")[-2]["event"]["end"] == {
            "exitCode": -1, "status": "signal: killed",
            "error": "signal: killed"}
        found = one.start("", process={"cmd": "no-such-program"})
        assert found[-2]["event"]["end"]["exitCode"] == 127
        assert b"no-such-program" in output(found, "stderr")
        assert output(one.start("cat; echo over")) == b"over\n"
        # The end waits for what holds the output.
        assert output(one.start("(sleep 0.3; echo late) &")) == b"late\n"


def test_streams_that_are_refused():
    with box() as (server, one):
        good = {"process": {"cmd": "true"}, "stdin": False}
        whole = envelope(good)
        for raw, headers, code in (
                (b"\0\0", {}, "invalid_argument"),
                (whole[:-1], {}, "invalid_argument"),
                (whole + whole, {}, "invalid_argument"),
                (envelope(b"{"), {}, "invalid_argument"),
                (envelope(good, 1), {}, "internal"),
                (envelope(good, 4), {}, "invalid_argument"),
                (envelope({"process": {}}), {}, "invalid_argument"),
                (envelope({"process": {"cmd": "true", "cwd": "/none"}}), {},
                 "invalid_argument"),
                (whole, {"authorization": "Basic bm9ib2R5Og=="},
                 "unauthenticated"),
                (whole, {"connect_timeout_ms": "0"}, "deadline_exceeded")):
            found = one.envd("POST", START, raw, content_type=STREAM,
                             **headers)
            assert found.status == 200
            assert found.headers["content-length"]
            flags, last = envelopes(found.body)[-1]
            assert flags == 2 and last["error"]["code"] == code, found.body
        found = one.envd("POST", "/process.Process/Connect",
                         envelope({"process": {"pid": 99999}}),
                         content_type=STREAM)
        assert envelopes(found.body)[0][1]["error"]["code"] == "not_found"


def test_deadline_ends_the_shell_only():
    with box() as (server, one):
        found = one.start("sleep 77.7 & sleep 88.8; true",
                          headers={"connect_timeout_ms": "500"})
        assert found[-1]["error"]["code"] == "deadline_exceeded"
        assert not any("end" in m.get("event", {}) for m in found)
        seen = output(one.start("ps -eo args | grep [s]leep || true"))
        assert b"77.7" in seen and b"88.8" in seen, seen
        # Ways that do end it all.
        found = one.start("", process={"cmd": "timeout", "args": [
            "-k", "2", "0.5", "/bin/bash", "-c", "sleep 66.6; true"]})
        assert found[-2]["event"]["end"]["exitCode"] == 124
        seen = output(one.start("ps -eo args | grep [s]leep"))
        assert b"66.6" not in seen


def test_deadline_of_a_command_that_nobody_follows():
    with box() as (server, one):
        fault = server.fail(START, cut=1)
        try:
            one.start("sleep 99.9", headers={"connect_timeout_ms": "300"})
        except http.client.HTTPException:
            pass
        assert fault.reached.is_set()
        while one.envd("POST", "/process.Process/List", {}).json:
            time.sleep(0.05)


def test_keepalives_of_a_command():
    with box() as (server, one):
        found = one.start("sleep 1.5", headers={
            "keepalive_ping_interval": "1"})
        assert {"event": {"keepalive": {}}} in found, found


def test_process_calls():
    with box() as (server, one):
        def call(method, message):
            return one.envd("POST", "/process.Process/" + method, message)
        assert call("List", {}).json == {}
        conn = http.client.HTTPConnection("127.0.0.1", server.port,
                                          timeout=60)
        conn.request("POST", START, envelope({
            "process": {"cmd": "/bin/cat"}, "tag": "cat"}), one.headers(
                49983, content_type=STREAM))
        reply = conn.getresponse()
        head = reply.read(5)
        start = json.loads(reply.read(struct.unpack(">I", head[1:])[0]))
        pid = start["event"]["start"]["pid"]
        listed = call("List", {}).json["processes"]
        assert listed == [{"config": {"cmd": "/bin/cat"}, "pid": pid,
                           "tag": "cat"}]
        for selector in ({"pid": pid}, {"tag": "cat"}):
            found = call("SendInput", {"process": selector,
                                       "input": {"stdin": "eQo="}})
            assert found.json == {}, found.body
        # In one message or in two.
        echoed = b""
        while len(echoed) < 4:
            head = reply.read(5)
            event = json.loads(reply.read(struct.unpack(">I", head[1:])[0]))
            echoed += base64.b64decode(event["event"]["data"]["stdout"])
        assert echoed == b"y\ny\n", echoed
        # A closed connection is not a kill.
        reply.close()
        conn.close()
        assert call("List", {}).json["processes"]
        assert call("SendSignal", {"process": {"pid": pid}, "signal":
                                   "SIGNAL_SIGINT"}).status == 400
        assert call("CloseStdin", {"process": {"pid": pid}}).json == {}
        found = one.envd("POST", "/process.Process/Connect",
                         envelope({"process": {"pid": pid}}),
                         content_type=STREAM)
        last = [m for _, m in envelopes(found.body)]
        assert last[0] == start and last[-1] == {}, last
        assert last[-2]["event"]["end"]["status"] == "exit status 0"
        assert call("SendSignal", {"process": {"pid": pid}, "signal":
                                   "SIGNAL_SIGKILL"}).pair == (
            404, "not_found")
    with box(version="0.5.1") as (server, one):
        found = one.envd("POST", "/process.Process/CloseStdin",
                         {"process": {"pid": 1}})
        assert found.status == 404


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has no part in it")
    why = unavailable()
    if why:
        tap.skip_all("no sandbox: " + why)
    tap.main(globals())
