# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that runs inside of each sandbox of the fake, in the place of
envd and of the interpreter server.

    e2b_guest.py FD

serves connections that are made to the listening socket FD; the first line of
standard input is its configuration, and it ends at end of input.  It says
"ready" when it has begun.  The part
that clients speak to says by x-fake-port which of both is meant."""

import json
import os
import socket
import sys
import threading
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from e2b_cells import Interpreter  # noqa: E402
from e2b_envd import (Files, Refusal, check_token, compose,  # noqa: E402
                      metrics)
from e2b_rpc import Rpc  # noqa: E402
from e2b_wire import Bad, Closed, Reply, Request, Stream  # noqa: E402

ENVD, INTERPRETER = "49983", "49999"
INTERNAL = ("/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze",
            "/fsthaw", "/upgrade")


class Envd:
    def __init__(self, config):
        self.config = config
        self.files = Files(config)
        self.rpc = Rpc(config)

    def serve(self, request, reply):
        try:
            if request.path == "/health" and request.method == "GET":
                return reply.send(204)
            check_token(self.config, request)
            return self.route(request, reply)
        except Refusal as exc:
            if reply.started:
                raise
            return reply.code(exc.status, str(exc))

    def route(self, request, reply):
        path, method = request.path, request.method
        routes = {"/files": {"POST": self.files.upload,
                             "GET": self.files.download},
                  "/health": {}, "/metrics": {"GET": self.metrics},
                  "/envs": {"GET": self.envs},
                  "/files/compose": {"POST": self.compose}}
        if path in routes:
            handler = routes[path].get(method)
            if handler is None:
                return reply.send(405, b"", {"allow": ", ".join(
                    routes[path])}, kind=None)
            return handler(request, reply)
        if path in INTERNAL or "." not in path.split("/")[1]:
            return reply.text(404, "404 page not found\n")
        return self.rpc.serve(request, reply)

    def metrics(self, _request, reply):
        reply.send(200, metrics())

    def envs(self, _request, reply):
        reply.send(200, self.config["envs"])

    def compose(self, request, reply):
        try:
            request.body = json.loads(request.read())
            assert isinstance(request.body, dict)
        except (ValueError, AssertionError):
            raise Refusal(400, "malformed body") from None
        compose(self.files, request, reply)


def serve(sock, services):
    try:
        with sock:
            stream = Stream(sock)
            request = Request(stream)
            reply = Reply(stream)
            try:
                services[request.header("x-fake-port")].serve(request, reply)
            except (Closed, Bad):
                raise
            except Exception:
                traceback.print_exc()
                if not reply.started:
                    reply.code(500, "the fake failed: %s"
                               % traceback.format_exc(limit=3))
            for _ in request.pieces():
                pass
    except (Closed, Bad, OSError):
        pass


def main():
    listener = socket.socket(fileno=int(sys.argv[1]))
    # What a client starts must not hold it.
    listener.set_inheritable(False)
    print("ready", flush=True)
    os.dup2(2, 1)
    config = json.loads(sys.stdin.readline())
    services = {ENVD: Envd(config), INTERPRETER: Interpreter(config)}

    def accept():
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=serve, args=(sock, services),
                             daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
