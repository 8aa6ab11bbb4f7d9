# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain HTTP part of envd, as it runs inside of a sandbox of the fake:
who may ask, and what is asked of /files, /envs and /metrics."""

import base64
import email.utils
import errno
import hashlib
import mimetypes
import os
import re
import resource
import time
import zlib

from e2b_wire import PIECE, Bad

HOMES = {"user": "/home/user", "root": "/root"}
MAX_METADATA = 4096
# Of each file, where the rest is dropped.
KEPT = 1 << 20
NAME_LIMIT = 246
# What a parameter of a header may hold between quotes only.
SPECIAL = b'()<>@,;:\\"/[]?='


def parameter(name):
    """The value of a header's parameter, as envd's library writes it."""
    raw = os.fsencode(name)
    if any((c < 0x20 or c > 0x7e) and c != 9 for c in raw):
        return "*=utf-8''" + "".join(
            "%%%02X" % c if c <= 0x20 or c >= 0x7f or c in SPECIAL + b"*'%"
            else chr(c) for c in raw)
    if raw and all(c > 0x20 and c not in SPECIAL for c in raw):
        return "=" + name
    return '="%s"' % re.sub(r'([\\"])', r"\\\1", name)


class Refusal(Exception):
    """An answer with a number: {"code": status, "message": ...}."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def version_of(text):
    return tuple(int(n) for n in text.split("."))


def resolve(path, user):
    """A path as a client may write it, as an absolute one."""
    home = HOMES[user]
    if "\0" in path:
        raise Refusal(400, "invalid path %r" % path)
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.normpath(os.path.join(home, path))


def user_of(name, default="user"):
    name = name or default
    if name not in HOMES:
        raise Refusal(401, "error looking up user '%s': user: unknown user %s"
                      % (name, name))
    return name


def signature(path, operation, username, token, expiration=None):
    """The signature of a /files URL; expiration in seconds since 1970."""
    text = ":".join([path, operation, username, token]
                    + ([] if expiration is None else [str(expiration)]))
    digest = hashlib.sha256(text.encode()).digest()
    return "v1_" + base64.b64encode(digest).decode().rstrip("=")


def check_token(config, request):
    """Refuses a request without the token; signatures are for files."""
    token = config.get("token")
    if not token:
        return
    given = request.header("x-access-token")
    if request.path == "/files":
        if given is None:
            check_signature(token, request)
        elif given != token:
            raise Refusal(401, "access token present in header but does not "
                          "match")
    elif given != token:
        raise Refusal(401, "unauthorized access, please provide a valid "
                      "access token or method signing if supported")


def check_signature(token, request):
    given = request.query.get("signature")
    if not given:
        raise Refusal(401, "missing signature query parameter")
    expiration = request.query.get("signature_expiration")
    if expiration is not None and not re.fullmatch("[0-9]{1,12}", expiration):
        raise Refusal(400, "invalid signature_expiration")
    right = signature(request.query.get("path", ""),
                      "write" if request.method == "POST" else "read",
                      request.query.get("username", ""), token, expiration)
    if given != right:
        raise Refusal(401, "invalid signature")
    if expiration is not None and int(expiration) < time.time():
        raise Refusal(401, "signature is already expired")


class Gunzip:
    def __init__(self, pieces):
        self.pieces = pieces

    def __iter__(self):
        unzip = zlib.decompressobj(31)
        try:
            for piece in self.pieces:
                data = unzip.decompress(piece)
                if data:
                    yield data
            if not unzip.eof:
                raise Refusal(400, "error reading gzip body: unexpected EOF")
        except zlib.error as exc:
            raise Refusal(400, "error reading gzip body: %s" % exc) from None


class Parts:
    """The parts of a multipart body, one after the other, as they come."""

    def __init__(self, pieces, boundary):
        self.pieces = iter(pieces)
        self.mark = b"\r\n--" + boundary
        self.buffer = b"\r\n"
        self.ended = False

    def more(self):
        piece = next(self.pieces, None)
        if piece is None:
            raise Refusal(400, "error parsing multipart form: unexpected EOF")
        self.buffer += piece

    def until(self, mark):
        """What stands before mark, in pieces; mark is taken away."""
        while True:
            before, found, after = self.buffer.partition(mark)
            if found:
                self.buffer = after
                if before:
                    yield before
                return
            keep = len(mark) - 1
            if len(self.buffer) > keep:
                out, self.buffer = (self.buffer[:-keep], self.buffer[-keep:])
                yield out
            self.more()

    def __iter__(self):
        for _ in self.until(self.mark):
            pass
        while True:
            while len(self.buffer) < 2:
                self.more()
            if self.buffer.startswith(b"--"):
                for _ in self.pieces:
                    pass
                return
            head = b"".join(self.until(b"\r\n\r\n")).decode("utf-8",
                                                            "replace")
            found = re.search(r"(?im)^content-disposition:\s*form-data(.*)$",
                              head)
            words = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"',
                                    found.group(1))) if found else {}
            data = self.until(self.mark)
            yield words.get("name"), words.get("filename"), data
            for _ in data:
                pass


class Files:
    """POST and GET of /files."""

    def __init__(self, config):
        self.config = config
        self.version = version_of(config["version"])
        self.metadata = {}

    def upload(self, request, reply):
        user = user_of(request.query.get("username"))
        path = request.query.get("path")
        kind = (request.header("content-type") or "")
        metadata = self.metadata_of(request)
        pieces = request.pieces()
        coding = (request.header("content-encoding") or "identity").lower()
        if coding != "identity":
            if coding != "gzip" or self.version < (0, 5, 7):
                raise Refusal(400, "unsupported Content-Encoding: %s"
                              % coding)
            pieces = Gunzip(pieces)
        bare = kind.split(";")[0].strip().lower()
        if bare == "multipart/form-data":
            found = re.search(r'boundary="?([^";]{1,70})"?', kind)
            if not found:
                raise Refusal(400, "error parsing multipart form: no "
                              "multipart boundary param in Content-Type")
            stored = self.store_parts(
                Parts(pieces, found.group(1).encode()), path, user)
        elif bare == "application/octet-stream" \
                and self.version >= (0, 5, 7):
            if not path:
                raise Refusal(400, "path is required for "
                              "application/octet-stream uploads")
            stored = [self.store(resolve(path, user), pieces)]
        else:
            raise Refusal(400, "error parsing multipart form: request "
                          "Content-Type isn't multipart/form-data")
        for target in stored:
            self.metadata.pop(target, None)
            if metadata:
                self.metadata[target] = metadata
        reply.send(200, [self.entry(target) for target in stored],
                   kind="text/plain; charset=utf-8")

    def metadata_of(self, request):
        if self.version < (0, 6, 2):
            return {}
        found = {}
        for name, value in request.headers:
            if not name.startswith("x-metadata-"):
                continue
            key = name[len("x-metadata-"):]
            if not key or len(key) > NAME_LIMIT \
                    or not re.fullmatch("[ -~]*", value):
                raise Refusal(400, "invalid metadata %r" % key)
            found[key] = value
        if sum(len(k) + len(v) for k, v in found.items()) > MAX_METADATA:
            raise Refusal(400, "metadata is too large")
        return found

    def entry(self, target):
        found = {"name": os.path.basename(target), "path": target,
                 "type": "file"}
        if target in self.metadata:
            found["metadata"] = self.metadata[target]
        return found

    def store_parts(self, parts, path, user):
        stored = []
        for name, filename, data in parts:
            if name != "file":
                continue
            target = path if path is not None else filename
            if not target:
                raise Refusal(400, "a part has no filename")
            target = resolve(target, user)
            if target in stored:
                raise Refusal(400, "you cannot upload multiple files to the "
                              "same path '%s'" % target)
            stored.append(self.store(target, data))
        return stored

    def store(self, target, pieces):
        if os.path.isdir(target):
            raise Refusal(400, "path is a directory: %s" % target)
        out = None
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            out = open(target, "wb")
            for piece in pieces:
                if self.config.get("drop") and out.tell() >= KEPT:
                    # A hole in its place: as long, and nowhere.
                    out.truncate(out.seek(len(piece), os.SEEK_CUR))
                else:
                    out.write(piece)
            out.flush()
        except OSError as exc:
            status = 507 if exc.errno in (errno.ENOSPC, errno.EDQUOT) else (
                400 if exc.errno in (errno.ENOTDIR, errno.EEXIST,
                                     errno.ENAMETOOLONG) else 500)
            raise Refusal(status, "error writing %s: %s" % (
                target, exc.strerror)) from None
        finally:
            if out is not None:
                out.close()
        return target

    def download(self, request, reply):
        user = user_of(request.query.get("username"))
        path = resolve(request.query.get("path", ""), user)
        if not os.path.exists(path):
            raise Refusal(404, "path '%s' does not exist" % path)
        if os.path.isdir(path):
            raise Refusal(400, "path '%s' is a directory" % path)
        if not os.path.isfile(path):
            raise Refusal(400, "path '%s' is not a regular file" % path)
        coding = chosen_coding(request)
        try:
            stream = open(path, "rb")
        except OSError as exc:
            raise Refusal(500, "error opening file '%s': %s" % (
                path, exc.strerror)) from None
        with stream:
            status = os.fstat(stream.fileno())
            kind = mimetypes.guess_type(path)[0]
            if kind is None:
                kind = sniffed(stream.read(512))
                stream.seek(0)
            headers = {"content-type": kind, "accept-ranges": "bytes",
                       "content-disposition": "inline; filename" + parameter(
                           os.path.basename(path)),
                       "last-modified": email.utils.formatdate(
                           status.st_mtime, usegmt=True),
                       "vary": "Accept-Encoding"}
            self.answer(request, reply, stream, status, headers, coding)

    @staticmethod
    def answer(request, reply, stream, status, headers, coding):
        since = request.header("if-modified-since")
        if since:
            then = email.utils.parsedate_to_datetime(since).timestamp()
            if int(status.st_mtime) <= then:
                return reply.send(304, headers=headers)
        asked = request.header("range")
        if asked:
            first, last = range_of(asked, status.st_size)
            if first is None:
                headers["content-range"] = "bytes */%d" % status.st_size
                return reply.send(416, b"invalid range\n", headers,
                                  "text/plain; charset=utf-8")
            headers["content-range"] = "bytes %d-%d/%d" % (
                first, last, status.st_size)
            stream.seek(first)
            return copy(reply, stream, 206, headers, last - first + 1)
        if coding == "gzip":
            return zipped(reply, stream, status.st_size, headers)
        return copy(reply, stream, 200, headers, status.st_size)


def chosen_coding(request):
    text = request.header("accept-encoding")
    if text is None or request.header("range"):
        return "identity"
    offers = {}
    for part in text.lower().split(","):
        name, _, words = part.strip().partition(";")
        found = re.search(r"q=([0-9.]+)", words)
        offers[name.strip()] = float(found.group(1)) if found else 1.0
    if offers.get("gzip", 0) > 0:
        return "gzip"
    if offers.get("identity", offers.get("*", 1)) == 0:
        raise Refusal(406, "no acceptable encoding found, supported: "
                      "identity, gzip")
    return "identity"


def sniffed(data):
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if b"\0" in data:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"


def range_of(text, size):
    """(first, last) byte of a range, (None, None) if there is none."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", text.strip())
    if not found or found.group(0) == "bytes=-":
        return None, None
    first, last = found.groups()
    if not first:
        first, last = max(0, size - int(last)), size - 1
    else:
        first = int(first)
        last = min(int(last), size - 1) if last else size - 1
    return (first, last) if first <= last else (None, None)


def copy(reply, stream, status, headers, size):
    reply.start(status, headers, size)
    while size:
        data = stream.read(min(PIECE, size))
        if not data:
            raise Bad("the file became shorter")
        size -= len(data)
        reply.write(data)


def zipped(reply, stream, size, headers):
    """Small files have a length, that of the compressed bytes."""
    pack = zlib.compressobj(6, zlib.DEFLATED, 31)
    headers["content-encoding"] = "gzip"
    if size <= 2048:
        data = pack.compress(stream.read()) + pack.flush()
        reply.start(200, headers, len(data))
        return reply.write(data)
    reply.start(200, headers)
    while True:
        data = stream.read(PIECE)
        if not data:
            break
        reply.write(pack.compress(data))
    reply.write(pack.flush())
    return reply.finish()


def compose(files, request, reply):
    body = request.body
    sources = body.get("source_paths")
    if not isinstance(sources, list) or not sources \
            or not isinstance(body.get("destination"), str):
        raise Refusal(400, "source_paths and destination are required")
    user = user_of(body.get("username"))
    target = resolve(body["destination"], user)
    sources = [resolve(path, user) for path in sources]
    for path in sources:
        if not os.path.isfile(path):
            raise Refusal(404, "path '%s' does not exist" % path)

    def pieces():
        for path in sources:
            with open(path, "rb") as stream:
                for piece in iter(lambda: stream.read(PIECE), b""):
                    yield piece
    files.store(target + ".part", pieces())
    for path in sources:
        os.unlink(path)
    os.rename(target + ".part", target)
    reply.send(200, files.entry(target))


def metrics():
    disk = os.statvfs("/home/user")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    total = 2048 << 20
    return {"ts": int(time.time()), "cpu_count": 2, "cpu_used_pct": 3.1,
            "mem_total_mib": total >> 20, "mem_used_mib": used >> 20,
            "mem_total": total, "mem_used": used, "mem_cache": 0,
            "disk_used": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
            "disk_total": disk.f_blocks * disk.f_frsize}
