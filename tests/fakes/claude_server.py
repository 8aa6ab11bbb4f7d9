#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A strict fake of the Claude Messages API on 127.0.0.1.

    from claude_server import *          # tests/fakes on sys.path

    with ClaudeServer([
        reply([thinking("Hm."), tool_use("run_python", {"code": "1+1"})]),
        lambda request: reply(["It is ", *tool_results(request).values()]),
        error(529), error(429, headers={"retry-after": "2"}),
    ]) as server:
        env["ANTHROPIC_BASE_URL"] = server.url
        ...
        server.wait_reached("half", 5)   # all before gate("half") was sent
        server.release("half")
        request = server.wait_request(0, 5)
        request.wait_closed(5)           # the client hung up meanwhile
        request.body, request.headers, request.credentials

Leaving the block closes the server and fails if a request broke a rule
(`server.violations`), or if exchanges are left over.  A test that provokes a
refusal calls server.take_violations() first.  Every request is checked by
claude_rules.py before the script is looked at; one that is refused takes no
exchange.  A request past the end of the script is a violation and gets 500.
claude_script.py has the language of the script.

Options: keys={"..."} accepted keys; models=(...) more model ids; rules= the
Rules of an earlier server (a resumed session); tls=(cert, key); repeat=True
starts the script again at its end; count_tokens=, list_models= an exchange
or function instead of the built-in answer; cache= a Cache of claude_cache.py,
which then makes the figures of the usage; KeyTrap() is a server that accepts
anything and records the credentials that reached it.

As a program:
    claude_server.py [--repeat] [--tls CERT KEY] [--requests] SCRIPT.py [NAME]
runs the list NAME (default SCRIPT) of SCRIPT.py, prints its URL on the first
line, and ends at end of input on stdin, then printing one line of JSON with
the violations, and with --requests one more with what was asked; status 1 if
there were violations.
"""

import argparse
import base64
import hashlib
import json
import os
import runpy
import select
import socket
import ssl
import sys
import threading
import traceback
from urllib.parse import parse_qs

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from claude_rules import Rules, check_headers  # noqa: E402
from claude_script import (Block, Control, Exchange, block,  # noqa: E402
                           cut, error, error_event, event, gate, hang, mark,
                           pause, ping, raw, raw_http, redacted_thinking,
                           redirect, reply, response, text, thinking,
                           tool_results, tool_use)
from claude_values import (Rejection, error_type, need,  # noqa: E402
                           parse_json)
from claude_wire import Body, Closed, Connection, Sse  # noqa: E402

__all__ = ["ClaudeServer", "KeyTrap", "Rules", "block", "cut", "error",
           "error_event", "event", "gate", "hang", "mark", "pause", "ping",
           "raw", "raw_http", "redacted_thinking", "redirect", "reply",
           "response", "text", "thinking", "tool_results", "tool_use"]

REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request",
           401: "Unauthorized", 404: "Not Found", 413: "Payload Too Large",
           429: "Too Many Requests", 500: "Internal Server Error",
           529: "Overloaded"}


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items()
                if item is not None or key == "stop_reason"}
    return value


class ClaudeServer:
    trap = False

    def __init__(self, script=(), keys=None, models=(), rules=None, tls=None,
                 repeat=False, count_tokens=None, list_models=None,
                 cache=None):
        self.rules = rules or Rules(models)
        self.keys = keys
        self.cache = cache
        self.requests = []
        self.violations = []
        self.tls_errors = []
        self.closing = False
        self._script = _flat(script)
        self._repeat = repeat
        self._next = 0
        self._builtin = {"count_tokens": count_tokens,
                         "models": list_models}
        self._cond = threading.Condition()
        self._reached = set()
        self._released = set()
        self._serial = 0
        self._connections = set()
        self._threads = []
        self._tls = None
        if tls:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(tls[0], tls[1])
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.url = "%s://127.0.0.1:%d" % ("https" if tls else "http",
                                          self.port)
        self._wake_in, self._wake_out = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    # -- what tests call --

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()
        if kind is None:
            self.check()

    def check(self):
        """Fails on violations and on exchanges that were never asked for."""
        if self.violations:
            raise AssertionError("violations:\n  " +
                                 "\n  ".join(self.violations))
        left = 0 if self._repeat else len(self._script) - self._next
        if left:
            raise AssertionError("%d of %d exchanges were not asked for"
                                 % (left, len(self._script)))

    def take_violations(self):
        """Returns the violations so far and forgets them."""
        with self._cond:
            taken, self.violations = self.violations, []
        return taken

    def add(self, *exchanges):
        with self._cond:
            self._script += _flat(exchanges)

    def release(self, name):
        with self._cond:
            self._released.add(name)
            connections = list(self._connections)
        for conn in connections:
            conn.poke()

    def wait_reached(self, name, timeout=10):
        """Returns once everything before gate or mark `name` was sent."""
        self._wait(lambda: name in self._reached, timeout,
                   "%r was not reached" % (name,))

    def wait_request(self, index, timeout=10):
        """The index-th request (0 is the first), whole, refused or not."""
        self._wait(lambda: len(self.requests) > index, timeout,
                   "request %d did not come" % index)
        return self.requests[index]

    @property
    def message_requests(self):
        return [r for r in self.requests if r.path.endswith("/v1/messages")]

    def close(self):
        """Ends every connection and thread."""
        with self._cond:
            if self.closing:
                return
            self.closing = True
            connections = list(self._connections)
            self._cond.notify_all()
        self._wake_out.send(b"x")
        for conn in connections:
            conn.poke()
        self._acceptor.join(10)
        for thread in self._threads:
            thread.join(10)
        alive = [t for t in self._threads + [self._acceptor] if t.is_alive()]
        for sock in (self._listener, self._wake_in, self._wake_out):
            sock.close()
        if alive:
            raise RuntimeError("%d threads of the fake still run"
                               % len(alive))

    # -- what connections call --

    def reach(self, name):
        with self._cond:
            self._reached.add(name)
            self._cond.notify_all()

    def is_released(self, name):
        with self._cond:
            return name is not None and name in self._released

    def _wait(self, ready, timeout, what):
        with self._cond:
            if not self._cond.wait_for(ready, timeout):
                raise AssertionError(
                    "%s within %g s; %d requests so far; violations: %s"
                    % (what, timeout, len(self.requests), self.violations))

    def _count(self):
        with self._cond:
            self._serial += 1
            return self._serial

    def _violation(self, message):
        with self._cond:
            self.violations.append(message)

    def _accept(self):
        while True:
            ready, _, _ = select.select([self._listener, self._wake_in], [],
                                        [])
            if self.closing:
                return
            if self._listener not in ready:
                continue
            sock, _ = self._listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn = Connection(self, sock)
            thread = threading.Thread(target=self._serve, args=(conn,),
                                      daemon=True)
            with self._cond:
                self._connections.add(conn)
                self._threads = [t for t in self._threads if t.is_alive()]
                self._threads.append(thread)
                thread.start()

    def _serve(self, conn):
        try:
            if self._tls:
                conn.sock.settimeout(10)
                try:
                    conn.sock = self._tls.wrap_socket(conn.sock,
                                                      server_side=True)
                except OSError as exc:
                    self.tls_errors.append(str(exc))
                    return
                conn.sock.settimeout(None)
            while not self.closing:
                self._one(conn)
        except Closed:
            pass
        except Exception:
            self._violation("the fake itself: " + traceback.format_exc())
        finally:
            if conn.request is not None:
                conn.request.done.set()
            with self._cond:
                self._connections.discard(conn)
            conn.close_fds()

    # -- one exchange --

    def _one(self, conn):
        request = conn.read_request()
        request_id = "req_fake%06d" % self._count()
        exchange, checked = None, None
        try:
            conn.read_body(request)
            exchange, checked = self._route(request)
        except Rejection as exc:
            request.refused = exc
            self._violation("request %d: %s: %s" % (len(self.requests),
                                                    exc.status, exc.message))
            exchange = error(exc.status, exc.type, exc.message,
                             details=exc.details,
                             headers={"connection": "close"}
                             if exc.status == 413 else None)
        with self._cond:
            self.requests.append(request)
            self._cond.notify_all()
        if checked is not None:
            exchange = self._take(request)
        for control in exchange.before:
            Body(conn, chunked=False).control(control)
        if exchange.kind == "reply":
            self._reply(conn, request, request_id, exchange, checked)
        elif exchange.kind == "error":
            self._error(conn, request_id, exchange)
        elif exchange.kind == "raw_http":
            self._items(Body(conn, chunked=False), exchange.items)
            raise Closed()
        else:
            self._response(conn, request_id, exchange)
        request.done.set()
        if request.refused is not None and request.refused.status == 413:
            # Closing with unread input would reset the connection and take
            # the answer away from the client.
            while True:
                conn.buf = b""
                conn.need_more()

    def _route(self, request):
        """(exchange, None), or (None, Checked) for a valid message."""
        if self.trap:
            return response(200, [b"{}"],
                            {"content-type": "application/json"}), None
        betas = check_headers(request.headers, self.keys)
        path = request.path
        if "/v1/models" in path:
            need(request.method == "GET", "method not allowed", 404)
            return self._models(request, path.rsplit("/v1/models", 1)[1])
        need(path.endswith(("/v1/messages", "/v1/messages/count_tokens")),
             "Not Found: %s" % path, 404)
        need(request.method == "POST", "method not allowed", 404)
        kind = (request.header("content-type") or "").split(";")[0].strip()
        need(kind == "application/json", "content-type: must be "
             "application/json")
        need(request.header("content-encoding") is None,
             "content-encoding: the fake takes none")
        request.body = parse_json(request.raw)
        counting = path.endswith("count_tokens")
        checked = self.rules.check(request.body, betas,
                                   request.header("anthropic-version"),
                                   counting)
        if not counting:
            return None, checked
        own = self._builtin["count_tokens"]
        if own is not None:
            return (own(request) if callable(own) else own), None
        return _json_response({"input_tokens": _tokens(request.raw)}), None

    def _models(self, request, rest):
        own = self._builtin["models"]
        if own is not None:
            return (own(request) if callable(own) else own), None
        if rest.startswith("/"):
            name = rest[1:]
            need(name in self.rules.models, "model: %s" % name, 404)
            return _json_response(self._model(name)), None
        need(rest == "", "Not Found", 404)
        query = parse_qs(request.query)
        names = list(self.rules.models)
        limit = int(query.get("limit", ["20"])[0])
        need(1 <= limit <= 1000, "limit: must be 1 to 1000")
        if "after_id" in query:
            need(query["after_id"][0] in names, "after_id: unknown")
            names = names[names.index(query["after_id"][0]) + 1:]
        page = names[:limit]
        return _json_response({
            "data": [self._model(name) for name in page],
            "has_more": len(names) > limit,
            "first_id": page[0] if page else None,
            "last_id": page[-1] if page else None}), None

    def _model(self, name):
        window, most = self.rules.models[name]
        yes, no = {"supported": True}, {"supported": False}
        return {"type": "model", "id": name, "line": name.split("-")[1],
                "display_name": name, "created_at": "2026-09-22T00:00:00Z",
                "lifecycle": "active", "deprecated_at": None,
                "retires_at": None, "max_input_tokens": window,
                "max_tokens": most, "capabilities": {
                    "image_input": yes, "pdf_input": yes,
                    "effort": dict(supported=True, low=yes, medium=yes,
                                   high=yes, xhigh=yes, max=yes),
                    "thinking": {"supported": True, "types": {
                        "adaptive": yes, "between_tools": no,
                        "disabled": no, "enabled": no}}}}

    def _take(self, request):
        with self._cond:
            if self._repeat and self._script and \
                    self._next >= len(self._script):
                self._next = 0
            if self._next >= len(self._script):
                self.violations.append("request %d is past the end of the "
                                       "script" % (len(self.requests) - 1))
                return error(500, message="the script has ended")
            exchange = self._script[self._next]
            self._next += 1
        if not isinstance(exchange, Exchange):
            try:
                exchange = exchange(request)
            except Exception:
                self._violation("a function of the script: " +
                                traceback.format_exc())
                return error(500, message="a function of the script failed")
        return exchange

    # -- answers --

    def _head(self, conn, status, headers, request_id):
        fields = {"date": "Sun, 29 Nov 2026 12:00:00 GMT",
                  "request-id": request_id,
                  "anthropic-organization-id": "org-fake"}
        fields.update({key.lower(): value for key, value in headers.items()})
        lines = ["HTTP/1.1 %d %s" % (status, REASONS.get(status, "Status"))]
        lines += ["%s: %s" % (key, value) for key, value in fields.items()
                  if value is not None]
        conn.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def _items(self, body, items):
        for item in items:
            if isinstance(item, Control):
                body.control(item)
            else:
                body.write(item)

    def _response(self, conn, request_id, exchange):
        headers = dict(exchange.headers)
        chunked = "content-length" not in headers
        if chunked:
            headers["transfer-encoding"] = "chunked"
        self._head(conn, exchange.status, headers, request_id)
        body = Body(conn, exchange.chunk, chunked)
        self._items(body, exchange.items)
        body.end()

    def _error(self, conn, request_id, exchange):
        data = exchange.body
        if data is None:
            data = json.dumps({"type": "error", "error": {
                "type": exchange.type or error_type(exchange.status),
                "message": exchange.message or "scripted error",
                "details": exchange.details},
                "request_id": request_id}).encode()
        headers = {"content-type": exchange.content_type,
                   "content-length": len(data)}
        headers.update(exchange.headers)
        self._head(conn, exchange.status, headers, request_id)
        conn.send(data)

    def _name_blocks(self, exchange):
        """Blocks of this reply, with ids and signatures filled in."""
        out = []
        for item in exchange.items:
            if isinstance(item, Block):
                start, final = dict(item.start), dict(item.final)
                if final["type"] == "tool_use" and final["id"] is None:
                    final["id"] = start["id"] = "toolu_fake%06d" % \
                        self._count()
                if final["type"] == "thinking" and \
                        final["signature"] is None:
                    final["signature"] = _signature(self._count(), self.port)
                item = Block(start, item.deltas, final, item.stop)
            out.append(item)
        return out

    def _reply(self, conn, request, request_id, exchange, checked):
        items = self._name_blocks(exchange)
        content = [item.final for item in items if isinstance(item, Block)]
        own = exchange.usage
        if self.cache is not None:
            own = dict(self.cache.read(request.body), **own)
        message = {
            "id": exchange.id or "msg_fake%06d" % self._count(),
            "type": "message", "role": "assistant",
            "model": exchange.model or request.body["model"], "content": [],
            "stop_reason": None, "stop_sequence": None, "stop_details": None,
            "container": None, "diagnostics": None,
            "usage": _usage(request.raw, own, 1)}
        if checked.transformations:
            message["input_transformations"] = checked.transformations
        final = {"stop_reason": exchange.stop_reason,
                 "stop_sequence": exchange.stop_sequence,
                 "stop_details": exchange.stop_details, "container": None}
        size = len(json.dumps(content))
        delta = {"type": "message_delta", "delta": final,
                 "usage": _usage(request.raw, own, size // 4 + 1, True)}
        if exchange.lean:
            message = _without_nulls(message)
            delta = _without_nulls(delta)
        if not exchange.with_usage:
            del message["usage"], delta["usage"]
        for item in content:
            if item["type"] == "tool_use" and not exchange.without:
                self.rules.begin_tool_use(item["id"])

        def issue():
            if exchange.without:
                return
            self.rules.issue(checked.prefix, request.body["model"], content)
            if exchange.stop_reason == "pause_turn":
                self.rules.pause(content)

        if not request.body.get("stream", False):
            message.update(final, content=content)
            if "usage" in delta:
                message["usage"].update(delta["usage"])
            issue()
            data = json.dumps(message).encode()
            self._head(conn, 200, dict({
                "content-type": "application/json",
                "content-length": len(data)}, **exchange.headers),
                request_id)
            Body(conn, exchange.chunk, False, exchange.cut_after,
                  exchange.cut_how).write(data)
            return
        self._head(conn, 200, dict({
            "content-type": exchange.content_type,
            "cache-control": "no-cache", "transfer-encoding": "chunked"},
            **({"anthropic-organization-id": None} if exchange.without
               else {}), **exchange.headers), request_id)
        body = Body(conn, exchange.chunk, True, exchange.cut_after,
                     exchange.cut_how)
        sse = Sse(body, exchange.crlf, request_id, exchange.without)
        self._stream(sse, exchange, message, items, delta, issue)
        body.end()

    @staticmethod
    def _stream(sse, exchange, message, items, delta, issue):
        for control in exchange.leading:
            sse.control(control)
        sse.event("message_start", {"type": "message_start",
                                    "message": message})
        index = 0
        for item in items:
            if isinstance(item, Control):
                sse.control(item)
            else:
                sse.block(index, item)
                index += 1
        if not exchange.finish:
            return
        for extra in exchange.deltas:
            sse.event("message_delta", dict({"type": "message_delta"},
                                            **extra))
        sse.event("message_delta", delta)
        # Before the bytes leave: the client may answer at once.
        issue()
        sse.event("message_stop", {"type": "message_stop"})


class KeyTrap(ClaudeServer):
    """Accepts every request; `credentials` lists what reached it."""

    trap = True

    @property
    def credentials(self):
        return [item for request in self.requests
                for item in request.credentials]


def _flat(script):
    out = []
    for item in script:
        out += _flat(item) if isinstance(item, (list, tuple)) else [item]
    return out


def _tokens(data):
    return len(data) // 4 + 1


def _usage(data, own, output, in_delta=False):
    usage = {"input_tokens": _tokens(data), "cache_creation_input_tokens": 0,
             "cache_read_input_tokens": 0, "output_tokens": output,
             "output_tokens_details": None, "server_tool_use": None}
    if not in_delta:
        usage.update({"cache_creation": {"ephemeral_5m_input_tokens": 0,
                                         "ephemeral_1h_input_tokens": 0},
                      "service_tier": "standard", "inference_geo": None,
                      "speed": None})
    usage.update(own)
    return usage


def _signature(serial, port):
    """As long as real ones, and never the same twice."""
    seed = ("%d:%d" % (port, serial)).encode()
    data = b"".join(hashlib.sha512(seed + bytes([i])).digest()
                    for i in range(24))
    return base64.b64encode(data).decode()


def _json_response(obj):
    return response(200, [json.dumps(obj).encode()],
                    {"content-type": "application/json"})


def _summary(request):
    """What a test in another language looks at."""
    return {"method": request.method, "path": request.path,
            "query": request.query, "time": request.time,
            "headers": dict(request.headers), "body": request.body}


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s [--repeat] "
                                     "[--tls CERT KEY] [--requests] "
                                     "SCRIPT.py [NAME]")
    parser.add_argument("script")
    parser.add_argument("name", nargs="?", default="SCRIPT")
    parser.add_argument("--repeat", action="store_true")
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--requests", action="store_true")
    args = parser.parse_args()
    # The script's own import must give the module of this very file.
    sys.modules["claude_server"] = sys.modules["__main__"]
    script = runpy.run_path(args.script)[args.name]
    server = ClaudeServer(script, repeat=args.repeat, tls=args.tls)
    print(server.url, flush=True)
    try:
        while sys.stdin.buffer.read(4096):
            pass
    except KeyboardInterrupt:
        pass
    server.close()
    print(json.dumps(server.violations), flush=True)
    if args.requests:
        print(json.dumps([_summary(r) for r in server.requests]), flush=True)
    return 1 if server.violations else 0


if __name__ == "__main__":
    sys.exit(main())
