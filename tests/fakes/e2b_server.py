# SPDX-License-Identifier: GPL-3.0-or-later
"""A strict fake of an E2B service on 127.0.0.1, with sandboxes that run cells
and commands for real, in bubblewrap and without a network.

    from e2b_server import *             # tests/fakes on sys.path

    with E2bServer() as server:
        env["E2B_API_URL"] = env["E2B_SANDBOX_URL"] = server.url
        env["E2B_API_KEY"] = server.key
        server.fail("/execute", cut=120)
        server.fail("POST /v2/sandboxes", status=503, times=2)
        ...
        server.data_requests, server.api_requests, server.wait_request(...)
        server.advance(600)              # the time of all sandboxes
        sandbox = server.sandbox(); sandbox.home; sandbox.metadata

One port serves the control API, envd and the interpreter.  Requests to a
sandbox are told by the headers E2b-Sandbox-Id and E2b-Sandbox-Port, by a host
of the form PORT-ID.ANYTHING, or by a path /sandbox-proxy/ID/ports/PORT/...

Leaving the block ends every sandbox, thread and connection, and fails if a
credential was sent where it does not belong (`server.violations`).
unavailable() says why no sandbox can be made here, or None.

Options of E2bServer: create= which generations of create there are ("v1",
"v2"); version= of envd; keys=, bearer= what the API asks for; prefix= of its
paths; templates=, interpreters= those that have one; languages=; min_timeout=,
max_timeout=, max_sandboxes=; domain= of replies; lacks= last parts of API paths
that are not there ("timeout", "network"); drop= of files that are uploaded
what is behind the first MiB is counted and hashed, not kept; keepalive= seconds
of silence before a keepalive of /execute; interrupts= whether a cell is
interrupted when the client goes.

Faults are for the next request whose method and path hold the words given ("$"
is the end of the path), unless times= says how often:
    status=, headers=, body=   answered instead of the service
    headers=, drop=            added to and taken from a genuine reply
    rewrite=                   a function of the whole genuine body
    split=                     pieces of so many bytes, or a list of offsets
    cut=, reset=True           the connection ends after so many bytes
    end=                       the body ends there as if it were whole
    hang=                      only keepalives from there on (0.05 s apart)
    lost=True                  the request is carried out, not answered
    unread=True                it is neither
    stall=                     no more than about so many bytes of the request's
                               body are read before fault.release()
    hold=True                  waits before that, for fault.release()
fault.reached is an Event that is set when the request has come to that point.

As a program, with the options as JSON: prints its URL, takes a line of JSON
for each fault and says "ok", and at end of input prints what was asked and the
violations.
"""

import json
import re
import select
import socket
import struct
import sys
import threading
import time

from e2b_control import WAKING_S, Control
from e2b_envd import signature
from e2b_sandbox import Sandbox, Spawner, unavailable
from e2b_wire import (STREAM_TYPE, Bad, Closed, Message, Reply, Request,
                      Stream, end_stream, envelope, envelopes, is_gone)

__all__ = ["E2bServer", "Fault", "KEY", "end_stream", "envelope",
           "envelopes", "signature", "unavailable"]

KEY = "e2b_0123456789abcdef"
ENVD, INTERPRETER = 49983, 49999
PATH_FORM = re.compile(r"/sandbox-proxy/([a-z0-9]+)/ports/([0-9]+)(/.*)")
DATA = re.compile(r"/(files|execute|contexts|health|metrics|envs|init)\b"
                  r"|/(filesystem\.Filesystem|process\.Process)/")
BROWSERS = ("mozilla", "chrome", "safari", "firefox", "edge", "opera",
            "msie")
HOP = ("connection", "transfer-encoding", "content-length", "expect",
       "keep-alive", "x-fake-port")
KEEPALIVE_S = 0.05


class Fault:
    def __init__(self, words, times=1, status=None, headers=None, body=b"",
                 drop=(), rewrite=None, split=None, cut=None, reset=False,
                 end=None, hang=None, lost=False, hold=False,
                 unread=False, stall=None):
        self.words = words.split()
        self.times = times
        self.status, self.headers, self.body = status, headers or {}, body
        self.drop, self.rewrite, self.split = drop, rewrite, split
        self.cut, self.reset, self.end = cut, reset, end
        self.hang, self.lost, self.hold = hang, lost, hold
        self.unread, self.stall = unread, stall
        self.reached = threading.Event()
        self.released = threading.Event()
        self.pings = 0

    def matches(self, request):
        text = request.method + " " + request.path + "$"
        return all(word in text for word in self.words)

    def release(self):
        self.released.set()

    def stalled(self, pieces, sock):
        """The pieces of a body, with a wait in their midst."""
        size = 0
        for piece in pieces:
            yield piece
            size += len(piece)
            if size < self.stall or self.released.is_set():
                continue
            self.reached.set()
            while not self.released.wait(0.05):
                if has_left(sock):
                    raise Closed("the client has gone")


class Over(Exception):
    """The reply is complete before the service thought so."""


class FaultyReply(Reply):
    """A reply that goes wrong as a fault says."""

    def __init__(self, stream, fault, request):
        super().__init__(stream)
        self.fault = fault
        self.request = request
        self.sent = 0
        self.held = None

    def start(self, status, headers=(), length=None):
        fault = self.fault
        if fault.hold:
            fault.reached.set()
            self.wait_released()
        if fault.lost:
            fault.reached.set()
            self.abort()
        headers = {k: v for k, v in dict(headers).items()
                   if k.lower() not in fault.drop}
        headers.update(fault.headers)
        if fault.end is not None or fault.hang is not None:
            length = None
        if fault.rewrite:
            self.held = (status, headers, length, [])
            self.started, self.status = True, status
        else:
            super().start(status, headers, length)

    def wait_released(self, every=0.05, ping=None):
        while not self.fault.released.wait(every):
            if is_gone(self.stream.sock):
                raise Closed("the client has gone")
            if ping:
                super().write(ping)
                self.fault.pings += 1

    def write(self, data):
        if self.held:
            self.held[3].append(data)
            return
        for piece in self.split(data):
            self.write_piece(piece)

    def split(self, data):
        split = self.fault.split
        if not split:
            yield data
            return
        while data:
            if isinstance(split, int):
                size = split
            else:
                after = [n - self.sent for n in split if n > self.sent]
                size = min(after) if after else len(data)
            yield data[:size]
            data = data[size:]
            # Else both would often be one read of the client.
            time.sleep(0.005)

    def write_piece(self, data):
        fault = self.fault
        for limit in (fault.cut, fault.end, fault.hang):
            if limit is not None and self.sent + len(data) >= limit:
                super().write(data[:limit - self.sent])
                self.sent = limit
                fault.reached.set()
                self.stop()
        super().write(data)
        self.sent += len(data)

    def stop(self):
        if self.fault.cut is not None:
            self.abort()
        if self.fault.end is not None:
            super().finish()
            raise Over()
        path = self.request.path
        ping = b'{"type": "keepalive"}\n' if path == "/execute" else (
            envelope({"event": {"keepalive": {}}})
            if self.request.header("content-type") == STREAM_TYPE else None)
        self.wait_released(KEEPALIVE_S, ping)
        self.abort()

    def abort(self):
        sock = self.stream.sock
        if self.fault.reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            struct.pack("ii", 1, 0))
        raise Closed("cut by a fault")

    def finish(self):
        self.flush_held()
        super().finish()

    def flush_held(self):
        if not self.held:
            return
        (status, headers, length, parts), self.held = self.held, None
        data = self.fault.rewrite(b"".join(parts))
        super().start(status, headers, None if length is None
                      else len(data))
        self.write(data)


class E2bServer:
    def __init__(self, create=("v1", "v2"), version="0.6.13", keys=(KEY,),
                 bearer=None, prefix="",
                 templates=("code-interpreter-v1", "base"),
                 interpreters=("code-interpreter-v1",),
                 languages=("python", "bash"), min_timeout=0,
                 max_timeout=86400, max_sandboxes=20, domain=None, lacks=(),
                 drop=False, keepalive=5, interrupts=True):
        self.create, self.version = create, version
        self.keys, self.bearer, self.prefix = keys, bearer, prefix
        self.templates, self.interpreters = templates, interpreters
        self.languages = languages
        self.min_timeout, self.max_timeout = min_timeout, max_timeout
        self.max_sandboxes, self.domain = max_sandboxes, domain
        self.lacks, self.drop = lacks, drop
        self.keepalive, self.interrupts = keepalive, interrupts
        self.key = keys[0]
        self.lock = threading.RLock()
        self.cond = threading.Condition()
        self.requests = []
        self.violations = []
        self.faults = []
        self.sandboxes = {}
        self.created = []
        self.logs = []
        self.offset = 0
        self.closing = False
        self.spawner = Spawner()
        self.control = Control(self)
        self._sockets = set()
        self._threads = []
        self._wake_in, self._wake_out = socket.socketpair()
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        # Which sandbox and port each listener stands for, if any.
        self._listeners = {listener: None}
        self.port = listener.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
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
        if self.violations:
            raise AssertionError("violations:\n  "
                                 + "\n  ".join(self.violations))

    def take_violations(self):
        with self.lock:
            taken, self.violations = self.violations, []
        return taken

    def fail(self, words, **how):
        """Adds a Fault and returns it."""
        fault = Fault(words, **how)
        with self.lock:
            self.faults.append(fault)
        return fault

    def advance(self, seconds):
        """Moves the clock by which sandboxes live."""
        with self.lock:
            self.offset += seconds
            self.expire()

    def sandbox(self, index=-1):
        """One of those that were created and still are there."""
        with self.lock:
            return self.sandboxes[[n for n in self.created
                                   if n in self.sandboxes][index]]

    def lose(self, sandbox=None):
        """Ends a sandbox as if its host had failed."""
        with self.lock:
            found = sandbox or self.sandbox()
            del self.sandboxes[found.id]
            found.kill()

    def listen(self, sandbox_id, port, own_port=0):
        """Another listener, for one port of one sandbox; returns its port.
        own_port is for clients that know no other."""
        listener = socket.create_server(("127.0.0.1", own_port), backlog=64)
        with self.lock:
            self._listeners[listener] = (sandbox_id, port)
        self._wake_out.send(b"x")
        return listener.getsockname()[1]

    @property
    def api_requests(self):
        return [r for r in self.requests if r.plane == "api"]

    @property
    def data_requests(self):
        return [r for r in self.requests if r.plane == "data"]

    def find(self, words):
        """The requests whose method and path hold all the words."""
        probe = Fault(words)
        return [r for r in self.requests if probe.matches(r)]

    def wait_request(self, words, count=1, timeout=30):
        """The count-th request like this, once it was answered."""
        def ready():
            found = self.find(words)
            return len(found) >= count and found[count - 1].status
        with self.cond:
            if not self.cond.wait_for(ready, timeout):
                raise AssertionError("no request %d like %r in %g s: %s" % (
                    count, words, timeout, self.requests))
        return self.find(words)[count - 1]

    def close(self):
        """Ends every sandbox, connection and thread."""
        with self.lock:
            if self.closing:
                return
            self.closing = True
            sockets = list(self._sockets)
            faults = list(self.faults)
        self._wake_out.send(b"x")
        self._acceptor.join(10)
        for fault in faults:
            fault.release()
        for sock in sockets:
            shut(sock)
        with self.lock:
            for sandbox in self.sandboxes.values():
                self._end(sandbox)
            self.sandboxes.clear()
        for thread in self._threads:
            thread.join(30)
        alive = [t for t in self._threads if t.is_alive()]
        self.spawner.close()
        for sock in [*self._listeners, self._wake_in, self._wake_out]:
            sock.close()
        if alive or self._acceptor.is_alive():
            raise RuntimeError("%d threads of the fake still run"
                               % len(alive))

    # -- sandboxes --

    def now(self):
        return time.time() + self.offset

    def make_sandbox(self, fields, config):
        return Sandbox(self.spawner, fields, config)

    def _end(self, sandbox):
        sandbox.kill()
        if sandbox.log:
            self.logs.append(sandbox.log)

    def expire(self):
        """Ends or pauses what has lived its time."""
        for sandbox in list(self.sandboxes.values()):
            if sandbox.state != "running" or self.now() < sandbox.end:
                continue
            if sandbox.auto_pause:
                sandbox.pause(sandbox.auto_pause_memory)
            else:
                del self.sandboxes[sandbox.id]
                self._end(sandbox)

    def wake(self, sandbox, timeout):
        sandbox.resume()
        sandbox.end = self.now() + timeout

    # -- connections --

    def _accept(self):
        while True:
            with self.lock:
                listeners = list(self._listeners)
            ready = select.select(listeners + [self._wake_in], [], [])[0]
            if self.closing:
                return
            if self._wake_in in ready:
                self._wake_in.recv(100)
            for listener in listeners:
                if listener not in ready:
                    continue
                sock, _ = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                thread = threading.Thread(
                    target=self._serve, daemon=True,
                    args=(sock, self._listeners[listener]))
                with self.lock:
                    self._sockets.add(sock)
                    self._threads = [t for t in self._threads
                                     if t.is_alive()] + [thread]
                thread.start()

    def _serve(self, sock, fixed):
        stream = Stream(sock)
        try:
            while not self.closing:
                request = Request(stream)
                if not self._answer(request, stream, fixed):
                    break
        except Bad as exc:
            try:
                Reply(stream).text(400, "400 Bad Request: %s" % exc)
            except Closed:
                pass
        except Closed:
            pass
        finally:
            with self.lock:
                self._sockets.discard(sock)
            sock.close()

    def _answer(self, request, stream, fixed):
        """Whether another request may follow."""
        self._address(request, fixed)
        with self.lock:
            fault = next((f for f in self.faults if f.matches(request)),
                         None)
            if fault:
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
            request.fault = fault
            self.requests.append(request)
            self._inspect(request)
        reply = FaultyReply(stream, fault, request) if fault \
            else Reply(stream)
        if fault and fault.stall is not None:
            request.body_pieces = fault.stalled(request.pieces(), stream.sock)
        try:
            if fault and fault.unread:
                fault.reached.set()
                reply.abort()
            if fault and fault.status is not None:
                request.read()
                reply.send(fault.status, fault.body, kind=kind_of(fault))
            elif request.plane == "api":
                self.control.serve(request, reply)
            else:
                self._to_sandbox(request, reply)
            if fault:
                reply.flush_held()
        except Over:
            pass
        finally:
            with self.cond:
                request.status = reply.status or -1
                self.cond.notify_all()
        for _ in request.pieces():
            pass
        return (request.header("connection") or "").lower() != "close"

    def _address(self, request, fixed):
        """Which sandbox and port is meant."""
        host = (request.header("host") or "").rpartition(":")[0] \
            or request.header("host") or ""
        label = re.match(r"([0-9]+)-([a-z0-9]+)(?:-[a-z0-9]+)?\.", host)
        in_path = PATH_FORM.match(request.target)
        names = (request.header("e2b-sandbox-id"),
                 request.header("e2b-sandbox-port"))
        if fixed:
            names = fixed
        elif in_path:
            names = in_path.group(1), in_path.group(2)
            request.target = in_path.group(3)
            request.path = request.target.partition("?")[0]
        elif label:
            names = label.group(2), label.group(1)
        elif names == (None, None) and (
                (self.prefix and request.path.startswith(self.prefix + "/"))
                or not DATA.match(request.path)):
            return
        request.plane = "data"
        request.sandbox_id = names[0]
        request.port = int(names[1]) if re.fullmatch(
            "[0-9]{1,5}", str(names[1])) else None

    def _inspect(self, request):
        """Credentials that are where they do not belong."""
        where = "%s %s" % (request.method, request.path)
        if request.plane == "data":
            text = "\n".join([request.target] + [v for _, v in
                                                 request.headers])
            for key in [*self.keys, self.bearer]:
                if key and key in text:
                    self.violations.append("a key of the API in " + where)
            return
        for name in ("x-access-token", "e2b-traffic-access-token"):
            if request.header(name) is not None:
                self.violations.append("%s in %s" % (name, where))

    # -- the way into a sandbox --

    def _refuse(self, request, reply, status, message, **more):
        agent = (request.header("user-agent") or "").lower()
        accept = request.header("accept") or ""
        if any(name in agent for name in BROWSERS) \
                and "application/json" not in accept:
            return reply.send(status, ("<!DOCTYPE html><html><body><h1>%s"
                                       "</h1></body></html>" % message)
                              .encode(), kind="text/html; charset=utf-8")
        return reply.send(status, dict(
            {"sandboxId": request.sandbox_id, "message": message,
             "code": status}, **more))

    def _to_sandbox(self, request, reply):
        if request.sandbox_id is None or request.port is None:
            return self._refuse(request, reply, 400, "Invalid host or "
                                "missing sandbox headers")
        with self.lock:
            self.expire()
            sandbox = self.sandboxes.get(request.sandbox_id)
            refusal = self._admit(request, sandbox)
            inside = None if refusal else sandbox.connect(request.port)
            if inside:
                sandbox.open_sockets.add(request.stream.sock)
        if refusal:
            return self._refuse(request, reply, *refusal[:2],
                                **dict(refusal[2:]))
        if inside is None:
            return self._refuse(request, reply, 502,
                                "The sandbox was not found")
        try:
            return relay(request, reply, inside)
        finally:
            with self.lock:
                sandbox.open_sockets.discard(request.stream.sock)
            inside.close()

    def _admit(self, request, sandbox):
        """None, or a status, a message and more fields."""
        if sandbox is None:
            return 502, "The sandbox was not found"
        given = request.header("e2b-traffic-access-token")
        is_envd = request.port == ENVD
        wrong = not is_envd and sandbox.traffic_token \
            and given != sandbox.traffic_token
        if sandbox.state == "paused":
            if not sandbox.auto_resume or sandbox.cold:
                return 502, "The sandbox was not found"
            if wrong or is_envd and sandbox.token and request.header(
                    "x-access-token") != sandbox.token:
                return 403, "The sandbox cannot be resumed by this request"
            self.wake(sandbox, WAKING_S)
        if wrong:
            return 403, ("Sandbox is secured with traffic access token. "
                         "Token header 'e2b-traffic-access-token' is "
                         "missing or wrong.")
        if not is_envd and (request.port != INTERPRETER
                            or not sandbox.has_interpreter):
            return (502, "The sandbox is running but port is not open",
                    ("port", request.port))
        return None


def has_left(sock):
    """As is_gone, also where there is something left to read."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))


def shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def kind_of(fault):
    given = {k.lower() for k in fault.headers}
    if "content-type" in given or not fault.body:
        return None
    return "text/plain" if isinstance(fault.body, bytes) \
        else "application/json"


def relay(request, reply, inside):
    """Hands a request to the program in the sandbox, and its reply back,
    piece by piece; the end of either side ends the other."""
    client = request.stream.sock

    def wait(_sock):
        watched = [inside, client]
        while True:
            ready = select.select(watched, [], [])[0]
            if inside in ready:
                return
            if is_gone(client):
                raise Closed("the client has gone")
            watched = [inside]
    stream = Stream(inside)
    lines = ["%s %s HTTP/1.1" % (request.method, request.target)]
    lines += ["%s: %s" % pair for pair in request.headers
              if pair[0] not in HOP]
    lines.append("x-fake-port: %d" % request.port)
    if request.chunked:
        lines.append("transfer-encoding: chunked")
    else:
        lines.append("content-length: %d" % (request.length or 0))
    try:
        stream.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        for piece in request.pieces():
            stream.send(b"%x\r\n%s\r\n" % (len(piece), piece)
                        if request.chunked else piece)
        if request.chunked:
            stream.send(b"0\r\n\r\n")
    except Closed:
        if has_left(client):
            raise
    stream.wait = wait
    answer = Message(stream, no_body=request.method == "HEAD")
    status = int(answer.first[1])
    headers = [p for p in answer.headers if p[0] not in HOP]
    if status in (204, 304):
        return reply.send(status, headers=headers)
    reply.start(status, headers, None if answer.chunked else answer.length)
    for piece in answer.pieces():
        reply.write(piece)
    return reply.finish()


def main():
    """Serves until the end of standard input; each line of it is a fault."""
    with E2bServer(**json.loads(sys.argv[1] if len(sys.argv) > 1
                                else "{}")) as server:
        print(server.url, flush=True)
        for line in sys.stdin:
            server.fail(**json.loads(line))
            print("ok", flush=True)
        server.close()
        print(json.dumps({
            "requests": ["%s %s %d" % (r.method, r.path, r.status)
                         for r in server.requests],
            "violations": server.take_violations()}), flush=True)


if __name__ == "__main__":
    main()
