# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain requests to the fake of an E2B service, as no SDK would make them."""

import base64
import contextlib
import http.client
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "fakes"))
from e2b_server import KEY, E2bServer, envelope, envelopes  # noqa: E402

TEMPLATE = "code-interpreter-v1"
STREAM = "application/connect+json"
START = "/process.Process/Start"
FILES = "/filesystem.Filesystem/"


class Answer:
    def __init__(self, reply, body):
        self.status, self.headers, self.body = (reply.status, reply.headers,
                                                body)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def pair(self):
        """Status and code of an error, whatever its shape."""
        return self.status, self.json.get("code")


def ask(server, method, path, body=None, headers=None, host=None):
    conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            headers.setdefault("content-type", "application/json")
            body = json.dumps(body).encode()
        if host:
            headers["host"] = host
        conn.request(method, path, body, {k: v for k, v in headers.items()
                                          if v is not None})
        reply = conn.getresponse()
        return Answer(reply, reply.read())
    finally:
        conn.close()


def api(server, method, path, body=None, **headers):
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    return ask(server, method, path, body,
               dict({"x-api-key": KEY}, **headers))


class Box:
    """A sandbox of the fake as a client without any SDK sees it."""

    def __init__(self, server, path="/v2/sandboxes", **fields):
        self.server = server
        made = api(server, "POST", path, dict(
            {"templateID": TEMPLATE, "timeout": 600}, **fields))
        assert made.status == 201, made.body
        self.made = made.json
        self.id = self.made["sandboxID"]
        self.token = self.made.get("envdAccessToken")
        self.traffic_token = self.made.get("trafficAccessToken")

    def headers(self, port, **more):
        found = {"e2b-sandbox-id": self.id, "e2b-sandbox-port": str(port),
                 "x-access-token": self.token,
                 "e2b-traffic-access-token": self.traffic_token}
        found.update({k.replace("_", "-"): v for k, v in more.items()})
        return {k: v for k, v in found.items() if v is not None}

    def envd(self, method, path, body=None, **headers):
        return ask(self.server, method, path, body,
                   self.headers(49983, **headers))

    def rpc(self, method, message, **headers):
        return self.envd("POST", FILES + method, message, **headers)

    def start(self, line, raw=None, **more):
        """[message, ...] of a command; the last one is the end of stream."""
        headers = more.pop("headers", {})
        message = dict({"process": {"cmd": "/bin/bash", "args": ["-c", line]},
                        "stdin": False}, **more)
        found = self.envd("POST", START, raw or envelope(message),
                          content_type=STREAM, **headers)
        assert found.status == 200, (found.status, found.body)
        assert found.headers["content-type"] == STREAM
        return [m for _, m in envelopes(found.body)]

    def execute(self, code, **more):
        """[event, ...] of a cell."""
        headers = more.pop("headers", {})
        found = ask(self.server, "POST", "/execute", dict(more, code=code),
                    self.headers(49999, **headers))
        assert found.status == 200, (found.status, found.body)
        assert found.headers["content-type"] is None
        return [json.loads(line) for line in found.body.splitlines()]


@contextlib.contextmanager
def box(fields=None, **options):
    with E2bServer(**options) as server:
        yield server, Box(server, **(fields or {}))


def output(messages, name="stdout"):
    return b"".join(base64.b64decode(m["event"]["data"].get(name, ""))
                    for m in messages if "data" in m.get("event", {}))


def kinds(events):
    return [e["type"] for e in events]
