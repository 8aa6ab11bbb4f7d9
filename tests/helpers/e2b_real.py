# SPDX-License-Identifier: GPL-3.0-or-later
"""A service whose one sandbox is a real one: the programs that E2B has in each
of its own, which somebody has started here.

    E2B_REAL_ENVD_URL=http://127.0.0.1:49983
    E2B_REAL_INTERPRETER_URL=http://127.0.0.1:49999

Those two know nothing of sandboxes, so the API that makes and ends them is the
fake's; what is for a port goes to the real program behind it. What a test has
left there, contexts and files, is removed when its sandbox is killed, so that
the next test begins as in a new one.
"""

import http.client
import json
import os
import secrets
import socket
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "fakes"))
from e2b_sandbox import ALPHABET  # noqa: E402
from e2b_server import E2bServer  # noqa: E402

URLS = {49983: "E2B_REAL_ENVD_URL", 49999: "E2B_REAL_INTERPRETER_URL"}
FILES = "/filesystem.Filesystem/"
# Where the program under test may leave files.
PLACES = ("/workspace", "/home/user")


def why_not():
    missing = [name for name in URLS.values() if not os.environ.get(name)]
    return "%s not set" % " and ".join(missing) if missing else None


def address(port):
    url = urllib.parse.urlsplit(os.environ[URLS[port]])
    return url.hostname, url.port or 80


def ask(port, method, path, body=None):
    """(status, parsed body or None)"""
    conn = http.client.HTTPConnection(*address(port), timeout=60)
    try:
        conn.request(method, path,
                     None if body is None else json.dumps(body).encode(),
                     {"content-type": "application/json",
                      "connect-protocol-version": "1"})
        reply = conn.getresponse()
        data = reply.read()
    finally:
        conn.close()
    try:
        return reply.status, json.loads(data)
    except ValueError:
        return reply.status, None


def entries(place):
    """The paths directly below it; None where it is not there."""
    status, found = ask(49983, "POST", FILES + "ListDir",
                        {"path": place, "depth": 1})
    if status != 200:
        return None
    return {e["path"] for e in found.get("entries") or []}


def contexts():
    return {c["id"] for c in ask(49999, "GET", "/contexts")[1] or []}


class RealSandbox:
    """As far as the fake's API asks for it."""

    def __init__(self, fields):
        self.id = "i" + "".join(secrets.choice(ALPHABET) for _ in range(20))
        self.__dict__.update(fields)
        # The real program asks for none unless it was told one.
        self.token = self.traffic_token = None
        self.state = "running"
        self.cold = False
        self.log = ""
        self.open_sockets = set()
        self.before = {place: entries(place) for place in PLACES}
        self.contexts = contexts()

    def connect(self, port):
        try:
            return socket.create_connection(address(port), timeout=None)
        except OSError:
            return None

    def kill(self):
        self.state = "gone"
        for sock in list(self.open_sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for name in contexts() - self.contexts:
            ask(49999, "DELETE", "/contexts/" + name)
        for place, before in self.before.items():
            for path in (entries(place) or set()) - (before or set()):
                ask(49983, "POST", FILES + "Remove", {"path": path})


class RealService(E2bServer):
    """There is one at a time, and it cannot be paused."""

    def __init__(self, **options):
        super().__init__(max_sandboxes=1, lacks=("pause",), **options)

    def make_sandbox(self, fields, config):
        return RealSandbox(fields)
