# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 of the fake of an E2B service: streams, requests, replies, and the
envelopes of its remote calls.  Both sides of the fake use it: the part that
clients see, and the part that runs inside of each sandbox."""

import hashlib
import json
import re
import socket
import struct
import time
import zlib
from urllib.parse import parse_qsl

MAX_LINE = 64 * 1024
MAX_KEPT = 1 << 20
PIECE = 1 << 16

REASONS = {200: "OK", 201: "Created", 204: "No Content",
           206: "Partial Content", 304: "Not Modified", 400: "Bad Request",
           401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           405: "Method Not Allowed", 406: "Not Acceptable",
           409: "Conflict", 415: "Unsupported Media Type",
           416: "Range Not Satisfiable", 422: "Unprocessable Entity",
           429: "Too Many Requests", 500: "Internal Server Error",
           501: "Not Implemented", 502: "Bad Gateway",
           503: "Service Unavailable", 504: "Gateway Timeout",
           507: "Insufficient Storage"}

STREAM_TYPE = "application/connect+json"


class Closed(Exception):
    """The peer is gone, or the fake is closing."""


class Bad(Exception):
    """What arrived is not HTTP."""


def dumps(value):
    return json.dumps(value, separators=(",", ":")).encode()


def envelope(message, flags=0):
    """One message of a stream, with the five bytes before it."""
    data = message if isinstance(message, bytes) else dumps(message)
    return struct.pack(">BI", flags, len(data)) + data


def end_stream(code=None, message=""):
    """The last envelope of a stream: success, or an error."""
    if code is None:
        return envelope({}, 2)
    return envelope({"error": {"code": code, "message": message}}, 2)


def envelopes(data):
    """[(flags, parsed message)] of a whole body."""
    found = []
    while data:
        flags, size = struct.unpack(">BI", data[:5])
        if len(data) < 5 + size:
            raise ValueError("an envelope is cut")
        found.append((flags, json.loads(data[5:5 + size])))
        data = data[5 + size:]
    return found


class Stream:
    """A socket with a buffer.  wait(socket) is called before each read."""

    def __init__(self, sock, wait=None):
        self.sock = sock
        self.wait = wait
        self.buffer = b""

    def fill(self):
        if self.wait:
            self.wait(self.sock)
        try:
            data = self.sock.recv(PIECE)
        except OSError as exc:
            raise Closed(str(exc)) from None
        if not data:
            raise Closed("end of the connection")
        self.buffer += data

    def some(self, most):
        """At least one byte, at most `most`."""
        if not self.buffer:
            self.fill()
        data, self.buffer = self.buffer[:most], self.buffer[most:]
        return data

    def line(self):
        while b"\n" not in self.buffer:
            if len(self.buffer) > MAX_LINE:
                raise Bad("a line is too long")
            self.fill()
        data, self.buffer = self.buffer.split(b"\n", 1)
        return data.rstrip(b"\r").decode("latin-1")

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError as exc:
            raise Closed(str(exc)) from None


class Message:
    """The head of a request or a reply, and the pieces of its body."""

    def __init__(self, stream, of_reply=False, no_body=False):
        first = stream.line()
        self.first = first.split(" ", 2)
        self.headers = []
        while True:
            line = stream.line()
            if not line:
                break
            name, colon, value = line.partition(":")
            if not colon or not re.fullmatch(r"[!#-'*+.^_`|~0-9A-Za-z-]+",
                                             name):
                raise Bad("not a header: %r" % line)
            self.headers.append((name.lower(), value.strip()))
        self.stream = stream
        self.of_reply = of_reply
        self.no_body = no_body
        self.body_pieces = None

    def header(self, name, default=None):
        for key, value in self.headers:
            if key == name:
                return value
        return default

    @property
    def chunked(self):
        return (self.header("transfer-encoding") or "").lower() == "chunked"

    @property
    def length(self):
        text = self.header("content-length")
        if text is None:
            return None
        if not re.fullmatch("[0-9]{1,18}", text):
            raise Bad("a length that is none: %r" % text)
        return int(text)

    def pieces(self):
        """The body, decoded, as it arrives; always the same iterator."""
        if self.body_pieces is None:
            self.body_pieces = self.decode()
        return self.body_pieces

    def decode(self):
        if self.no_body:
            return
        if self.chunked:
            while True:
                size = int(self.stream.line().split(";")[0], 16)
                if size == 0:
                    break
                while size:
                    piece = self.stream.some(min(size, PIECE))
                    size -= len(piece)
                    yield piece
                self.stream.line()
            while self.stream.line():
                pass
            return
        size = self.length or 0
        while size:
            piece = self.stream.some(min(size, PIECE))
            size -= len(piece)
            yield piece


class Request(Message):
    """A request as it arrived.

    method, path, query (dict), headers, raw (the first MiB of the body), size
    and sha256 of the body, content_size and content_sha256 of what it is when
    unpacked, time (monotonic); sandbox_id, port and plane
    ("api" or "data") and the fault, if any, are filled in by the router, status
    by the reply."""

    def __init__(self, stream):
        super().__init__(stream)
        if len(self.first) != 3 or not self.first[2].startswith("HTTP/1."):
            raise Bad("not a request line: %r" % " ".join(self.first))
        self.method, self.target, self.version = self.first
        self.path, _, self.query_text = self.target.partition("?")
        self.query = dict(parse_qsl(self.query_text, keep_blank_values=True))
        self.raw = b""
        self.all = b""
        self.size = 0
        self.hash = hashlib.sha256()
        self.content_size = 0
        self.content_hash = self.hash
        self.inflater = None
        if self.header("content-encoding") == "gzip":
            self.content_hash = hashlib.sha256()
            self.inflater = zlib.decompressobj(31)
        self.time = time.monotonic()
        self.sandbox_id = self.port = None
        self.plane = "api"
        self.status = None
        self.fault = None

    @property
    def sha256(self):
        return self.hash.hexdigest()

    @property
    def content_sha256(self):
        return self.content_hash.hexdigest()

    def unpack(self, piece):
        """Counts and hashes what is packed; what is no gzip ends it, and is
        for others to refuse."""
        while piece:
            try:
                data = self.inflater.decompress(piece, MAX_KEPT)
            except zlib.error:
                self.inflater = None
                return
            self.content_size += len(data)
            self.content_hash.update(data)
            piece = self.inflater.unconsumed_tail

    def decode(self):
        if (self.header("expect") or "").lower() == "100-continue":
            self.stream.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        for piece in super().decode():
            self.size += len(piece)
            self.hash.update(piece)
            if self.inflater:
                self.unpack(piece)
            elif self.content_hash is self.hash:
                self.content_size = self.size
            if len(self.raw) < MAX_KEPT:
                self.raw += piece
            yield piece

    def read(self):
        """The whole body; not for uploads, of which a part is kept."""
        self.all = b"".join(self.pieces()) or self.all
        return self.all

    @property
    def json(self):
        """The recorded body, parsed, of whatever kind; None if there is
        none that can be read."""
        data = self.raw
        if (self.header("content-type") or "") == STREAM_TYPE:
            data = data[5:]
        try:
            return json.loads(data)
        except ValueError:
            return None

    def __repr__(self):
        return "<%s %s -> %s>" % (self.method, self.target, self.status)


class Reply:
    """What a handler writes its answer to."""

    def __init__(self, stream):
        self.stream = stream
        self.started = False
        self.chunked = False
        self.status = None
        self.fault = None

    def start(self, status, headers=(), length=None):
        """The head; the body is chunked if no length is given."""
        self.started = True
        self.status = status
        self.chunked = length is None and status not in (204, 304)
        lines = ["HTTP/1.1 %d %s" % (status, REASONS.get(status, "Status"))]
        lines += ["%s: %s" % pair for pair in dict(headers).items()]
        if self.chunked:
            lines.append("transfer-encoding: chunked")
        elif length is not None and status not in (204, 304):
            lines.append("content-length: %d" % length)
        self.stream.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def write(self, data):
        if not data:
            return
        if self.chunked:
            data = b"%x\r\n%s\r\n" % (len(data), data)
        self.stream.send(data)

    def finish(self):
        if self.chunked:
            self.stream.send(b"0\r\n\r\n")

    def send(self, status, body=b"", headers=(), kind="application/json"):
        """A whole reply; what is no bytes is sent as JSON."""
        if not isinstance(body, bytes):
            body = dumps(body)
        headers = dict(headers)
        if kind and status not in (204, 304):
            headers.setdefault("content-type", kind)
        self.start(status, headers, len(body))
        if status not in (204, 304):
            self.write(body)

    def text(self, status, text):
        self.send(status, text.encode(), kind="text/plain; charset=utf-8")

    def code(self, status, message, **more):
        """An error of the control API, or one of envd with a number."""
        self.send(status, dict({"code": status, "message": message}, **more))


def is_gone(sock):
    """Whether the peer has closed; what it sent meanwhile stays."""
    try:
        return sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
