# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP and event framing of the fake service: one connection, its requests,
and the body of a reply with its chunks, gates and cuts."""

import json
import os
import select
import socket
import ssl
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from claude_rules import MAX_BODY_BYTES  # noqa: E402
from claude_script import Control  # noqa: E402
from claude_values import need  # noqa: E402

MAX_HEAD_BYTES = 64 * 1024


class Closed(Exception):
    """The connection is gone or the server is closing."""


class Request:
    """One request as it arrived.

    method, path, query, headers (list of lower-case name and value), raw
    (bytes of the body), body (parsed, or None), time (monotonic)."""

    def __init__(self, method, target, headers):
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        self.raw = b""
        self.body = None
        self.time = time.monotonic()
        self.refused = None
        self.closed = threading.Event()
        self.done = threading.Event()

    def header(self, name, default=None):
        for key, value in self.headers:
            if key == name:
                return value
        return default

    @property
    def credentials(self):
        return [(key, value) for key, value in self.headers
                if key in ("authorization", "x-api-key", "cookie",
                           "proxy-authorization")]

    def wait_closed(self, timeout):
        """Waits until the client hung up before the reply was complete."""
        if not self.closed.wait(timeout):
            raise AssertionError("the client did not close the connection "
                                 "within %g s" % timeout)

    def wait_done(self, timeout):
        """Waits until the reply was sent whole, or the connection ended."""
        if not self.done.wait(timeout):
            raise AssertionError("the reply was not finished within %g s"
                                 % timeout)


class Connection:
    """Reads requests from one socket and writes the replies."""

    def __init__(self, server, sock):
        self.server = server
        self.sock = sock
        self.buf = b""
        self.wake_in, self.wake_out = socket.socketpair()
        self.request = None

    # -- receiving --

    def poke(self):
        try:
            self.wake_out.send(b"x")
        except OSError:
            pass

    def close_fds(self):
        for sock in (self.sock, self.wake_in, self.wake_out):
            sock.close()

    def _readable(self):
        """Blocks until the peer sent something, hung up, or poke()."""
        pending = getattr(self.sock, "pending", None)
        if pending and pending():
            return
        self._wait_io([self.sock], [])

    def _wait_io(self, readers, writers):
        ready, _, _ = select.select(readers + [self.wake_in], writers, [])
        if self.wake_in in ready:
            self.wake_in.recv(4096)
        if self.server.closing:
            raise Closed()

    def _fill(self):
        """Takes what is there; False at end of file. Does not block."""
        self.sock.setblocking(False)
        try:
            data = self.sock.recv(65536)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        finally:
            self.sock.setblocking(True)
        self.buf += data
        return bool(data)

    def need_more(self):
        self._readable()
        if not self._fill():
            raise Closed()

    def _until(self, mark_bytes):
        while mark_bytes not in self.buf:
            if len(self.buf) > MAX_HEAD_BYTES:
                raise Closed()
            self.need_more()
        head, self.buf = self.buf.split(mark_bytes, 1)
        return head

    def _exactly(self, count):
        while len(self.buf) < count:
            self.need_more()
        data, self.buf = self.buf[:count], self.buf[count:]
        return data

    def read_request(self):
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = []
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers.append((name.strip().lower(), value.strip()))
        self.request = Request(method, target, headers)
        return self.request

    def read_body(self, request):
        """Raises Rejection (413) before reading a body that is too long."""
        if (request.header("expect") or "").lower() == "100-continue":
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in (request.header("transfer-encoding") or ""):
            parts, size = [], 1
            total = 0
            while size:
                size = int(self._until(b"\r\n").split(b";")[0], 16)
                total += size
                need(total <= MAX_BODY_BYTES, "Request exceeds the maximum "
                     "size", 413)
                parts.append(self._exactly(size))
                self._until(b"\r\n")
            request.raw = b"".join(parts)
            return
        length = int(request.header("content-length") or 0)
        need(length <= MAX_BODY_BYTES, "Request exceeds the maximum size",
             413)
        parts = []
        while length:
            # In slices: joining a growing buffer 500 times costs seconds.
            if not self.buf:
                self.need_more()
            part, self.buf = self.buf[:length], self.buf[length:]
            parts.append(part)
            length -= len(part)
        request.raw = b"".join(parts)

    # -- sending --

    def send(self, data):
        # Non-blocking, so that closing the server frees a thread whose
        # client has stopped reading.
        self.sock.setblocking(False)
        view = memoryview(data)
        try:
            while view:
                try:
                    view = view[self.sock.send(view):]
                except (BlockingIOError, ssl.SSLWantWriteError):
                    self._wait_io([], [self.sock])
                except ssl.SSLWantReadError:
                    self._wait_io([self.sock], [])
        except OSError:
            self.request.closed.set()
            raise Closed()
        finally:
            try:
                self.sock.setblocking(True)
            except OSError:
                pass

    def hold(self, name):
        """Waits at a gate; ends early if the client hangs up."""
        self.server.reach(name)
        while not self.server.is_released(name):
            self._readable()
            if not self._fill():
                self.request.closed.set()
                raise Closed()

    def pause(self, seconds):
        """Is silent for so long; ends early if the client hangs up."""
        end = time.monotonic() + seconds
        left = seconds
        while left > 0:
            ready, _, _ = select.select([self.sock, self.wake_in], [], [],
                                        left)
            if self.wake_in in ready:
                self.wake_in.recv(4096)
            if self.server.closing:
                raise Closed()
            if self.sock in ready and not self._fill():
                self.request.closed.set()
                raise Closed()
            left = end - time.monotonic()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack("ii", 1, 0))
        # Detached from TLS: a reset sends no close_notify.
        fd = self.sock.detach()
        os.close(fd)
        self.sock = socket.socket()
        raise Closed()


class Body:
    """Writes a response body: framing, chunk size, cuts, gates."""

    def __init__(self, conn, chunk=None, chunked=True, limit=None,
                 limit_how="reset"):
        self.conn = conn
        self.chunk = chunk
        self.chunked = chunked
        self.left = limit
        self.limit_how = limit_how

    def write(self, data):
        if self.left is not None and len(data) >= self.left:
            self._put(data[:self.left])
            self.cut(self.limit_how)
        self._put(data)
        if self.left is not None:
            self.left -= len(data)

    def _put(self, data):
        step = self.chunk or max(len(data), 1)
        for i in range(0, len(data), step):
            part = data[i:i + step]
            if self.chunked:
                part = b"%x\r\n%s\r\n" % (len(part), part)
            self.conn.send(part)

    def end(self):
        if self.chunked:
            self.conn.send(b"0\r\n\r\n")

    def cut(self, how):
        if how == "reset":
            self.conn.reset()
        if how == "end":
            self.end()
        raise Closed()

    def control(self, control):
        if control.kind == "gate":
            self.conn.hold(control.value)
        elif control.kind == "mark":
            self.conn.server.reach(control.value)
        elif control.kind == "pause":
            self.conn.pause(control.value)
        elif control.kind == "cut":
            self.cut(control.value)
        elif control.kind == "raw":
            self.write(control.value)
        else:
            raise ValueError("%s does not fit here" % control.kind)


class Sse:
    """Writes the events of one message."""

    def __init__(self, body, crlf, request_id, without=()):
        self.body = body
        self.without = without
        self.eol = "\r\n" if crlf else "\n"
        self.request_id = request_id

    def _left(self, obj):
        """What a server that leaves things out sends of an event."""
        obj = {key: value for key, value in obj.items()
               if key not in self.without}
        block = obj.get("content_block")
        if isinstance(block, dict) and "id" in self.without:
            obj["content_block"] = {key: value for key, value in block.items()
                                    if key != "id"}
        return obj

    def event(self, name, obj):
        if name in self.without:
            return
        if isinstance(obj, dict):
            obj = self._left(obj)
        if not isinstance(obj, str):
            if name == "error" and isinstance(obj, dict):
                obj = dict(obj, request_id=self.request_id)
            obj = json.dumps(obj, ensure_ascii=False)
        lines = "event: %s%sdata: %s%s%s" % (name, self.eol, obj, self.eol,
                                             self.eol)
        self.body.write(lines.encode("utf-8", "surrogatepass"))

    def control(self, control):
        if control.kind != "event":
            self.body.control(control)
            return
        self.event(control.name, control.value)
        if control.name == "error":
            # The service closes right after; no message_stop follows.
            self.body.cut("end")

    def block(self, index, item):
        self.event("content_block_start", {
            "type": "content_block_start", "index": index,
            "content_block": item.start})
        for delta in item.deltas:
            if isinstance(delta, Control):
                self.control(delta)
            else:
                self.event("content_block_delta", {
                    "type": "content_block_delta", "index": index,
                    "delta": delta})
        if item.final["type"] == "thinking":
            self.event("content_block_delta", {
                "type": "content_block_delta", "index": index,
                "delta": {"type": "signature_delta",
                          "signature": item.final["signature"]}})
        if item.stop:
            self.event("content_block_stop", {
                "type": "content_block_stop", "index": index})
