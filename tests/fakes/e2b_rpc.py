# SPDX-License-Identifier: GPL-3.0-or-later
"""The remote calls of envd, as they run inside of a sandbox of the fake: the
services filesystem.Filesystem and process.Process of the Connect protocol."""

import base64
import binascii
import datetime
import grp
import json
import os
import pwd
import re
import shutil
import stat
import struct
import threading
import time

from e2b_envd import HOMES, Refusal, resolve, version_of
from e2b_process import Processes, Process
from e2b_wire import STREAM_TYPE, end_stream, envelope, is_gone

STATUS = {"canceled": 499, "unknown": 500, "invalid_argument": 400,
          "deadline_exceeded": 504, "not_found": 404, "already_exists": 409,
          "permission_denied": 403, "resource_exhausted": 429,
          "failed_precondition": 400, "aborted": 409, "out_of_range": 400,
          "unimplemented": 501, "internal": 500, "unavailable": 503,
          "data_loss": 500, "unauthenticated": 401}
UNARY = {"filesystem.Filesystem": ("MakeDir", "ListDir", "Stat", "Remove",
                                   "Move", "CreateWatcher",
                                   "GetWatcherEvents", "RemoveWatcher"),
         "process.Process": ("SendInput", "CloseStdin", "SendSignal",
                             "Update", "List")}
STREAMS = {"filesystem.Filesystem": ("WatchDir",),
           "process.Process": ("Start", "Connect", "StreamInput")}
SIGNALS = {"SIGNAL_SIGTERM": 15, "SIGNAL_SIGKILL": 9, 15: 15, 9: 9}
KEEPALIVE_S = 90


class RpcError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def field(message, name, kind, default=None):
    """A field of a message; null is the same as absent."""
    value = message.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool) != (
            kind is bool):
        raise RpcError("invalid_argument", "unmarshal message: invalid value "
                       "for field %s: %r" % (name, value))
    return value


def parse(data):
    if not data:
        raise RpcError("invalid_argument",
                       "zero-length payload is not a valid JSON object")
    try:
        message = json.loads(data)
    except ValueError as exc:
        raise RpcError("invalid_argument",
                       "unmarshal message: %s" % exc) from None
    if not isinstance(message, dict):
        raise RpcError("invalid_argument",
                       "unmarshal message: unexpected token")
    return message


def entry(path):
    """EntryInfo; what is zero or empty is left out."""
    status = os.lstat(path)
    link = stat.S_ISLNK(status.st_mode)
    seconds, nanos = divmod(status.st_mtime_ns, 10 ** 9)
    moment = datetime.datetime.fromtimestamp(
        seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = ("%09d" % nanos).rstrip("0")
    found = {"name": os.path.basename(path), "path": path,
             "mode": stat.S_IMODE(status.st_mode),
             "permissions": permissions(status.st_mode),
             "owner": name_of(pwd.getpwuid, status.st_uid),
             "group": name_of(grp.getgrgid, status.st_gid),
             "modifiedTime": moment + ("." + fraction if fraction else "")
             + "Z"}
    if status.st_size:
        found["size"] = str(status.st_size)
    mode = status.st_mode
    if link:
        found["symlinkTarget"] = path
        if os.path.exists(path):
            found["symlinkTarget"] = os.path.realpath(path)
            mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        found["type"] = "FILE_TYPE_FILE"
    elif stat.S_ISDIR(mode):
        found["type"] = "FILE_TYPE_DIRECTORY"
    if not found["mode"]:
        del found["mode"]
    return found


def permissions(mode):
    """As Go writes a file's mode: letters of all that it is, in this order."""
    is_char = stat.S_ISCHR(mode)
    letters = (("d", stat.S_ISDIR(mode)), ("L", stat.S_ISLNK(mode)),
               ("D", stat.S_ISBLK(mode) or is_char), ("p", stat.S_ISFIFO(mode)),
               ("S", stat.S_ISSOCK(mode)), ("u", mode & stat.S_ISUID),
               ("g", mode & stat.S_ISGID), ("c", is_char),
               ("t", mode & stat.S_ISVTX))
    bits = "".join(letter if mode & 0o400 >> i else "-"
                   for i, letter in enumerate("rwx" * 3))
    return ("".join(letter for letter, on in letters if on) or "-") + bits


def name_of(find, number):
    try:
        return find(number)[0]
    except KeyError:
        return str(number)


class Rpc:
    def __init__(self, config):
        self.config = config
        self.version = version_of(config["version"])
        self.processes = Processes()

    # -- the protocol --

    def serve(self, request, reply):
        service, _, method = request.path[1:].partition("/")
        unary = method in UNARY.get(service, ())
        if method == "CloseStdin" and self.version < (0, 5, 2):
            unary = False
        if not unary and method not in STREAMS.get(service, ()):
            return reply.text(404, "404 page not found\n")
        if request.method != "POST":
            return reply.send(405, b"", {"allow": "POST"}, kind=None)
        kind = (request.header("content-type") or "").split(";")[0].strip()
        if kind != ("application/json" if unary else STREAM_TYPE):
            return reply.send(415, b"", {"accept-post": "application/json"
                                         if unary else STREAM_TYPE},
                              kind=None)
        handler = getattr(self, "do_" + method, None)
        if unary:
            return self.unary(handler, request, reply)
        return self.stream(handler, request, reply)

    def unary(self, handler, request, reply):
        data = request.read()
        try:
            self.check(request)
            user = self.user(request)
            limit = self.limit(request)
            if limit == 0:
                raise RpcError("deadline_exceeded",
                               "context deadline exceeded")
            message = parse(data)
            if handler is None:
                raise RpcError("unimplemented", "the fake has no such call")
            reply.send(200, handler(message, user) or {})
        except RpcError as exc:
            reply.send(STATUS[exc.code],
                       {"code": exc.code, "message": str(exc)})
        except Refusal as exc:
            reply.send(400, {"code": "invalid_argument",
                             "message": str(exc)})

    def stream(self, handler, request, reply):
        data = request.read()
        try:
            self.check(request)
            user = self.user(request)
            limit = self.limit(request)
            message = self.one_envelope(data)
            if handler is None:
                raise RpcError("unimplemented", "the fake has no such call")
            if limit == 0:
                raise RpcError("deadline_exceeded",
                               "context deadline exceeded")
            process = handler(message, user)
        except (RpcError, Refusal) as exc:
            last = end_stream(getattr(exc, "code", "invalid_argument"),
                              str(exc))
            return reply.send(200, last, kind=STREAM_TYPE)
        return self.follow(process, request, reply, limit)

    @staticmethod
    def check(request):
        version = request.header("connect-protocol-version", "1")
        if version != "1":
            raise RpcError("invalid_argument", "connect-protocol-version must "
                           "be \"1\": got %r" % version)
        for name in ("content-encoding", "connect-content-encoding"):
            if request.header(name, "identity") != "identity":
                raise RpcError("unimplemented", "unknown compression %r"
                               % request.header(name))

    @staticmethod
    def user(request):
        text = request.header("authorization")
        if text is None:
            return "user"
        scheme, _, rest = text.partition(" ")
        try:
            if scheme.lower() != "basic":
                raise ValueError
            name, colon, _ = base64.b64decode(
                rest, validate=True).decode().partition(":")
            if not colon:
                raise ValueError
        except (ValueError, binascii.Error):
            raise RpcError("unauthenticated", "invalid authorization "
                           "header") from None
        if name not in HOMES:
            raise RpcError("unauthenticated",
                           "invalid username: '%s'" % name)
        return name

    @staticmethod
    def limit(request):
        """Seconds that the call may take; None for no limit."""
        text = request.header("connect-timeout-ms")
        if text is None:
            return None
        if not re.fullmatch("[0-9]{1,10}", text):
            raise RpcError("invalid_argument",
                           "protocol error: invalid timeout: %r" % text)
        return int(text) / 1000

    @staticmethod
    def one_envelope(data):
        if not data:
            raise RpcError("invalid_argument", "protocol error: incomplete "
                           "envelope: unexpected EOF")
        if len(data) < 5 or len(data) < 5 + struct.unpack(">I",
                                                          data[1:5])[0]:
            raise RpcError("invalid_argument", "protocol error: incomplete "
                           "envelope: unexpected EOF")
        size = struct.unpack(">I", data[1:5])[0]
        if data[0] & 1:
            raise RpcError("internal", "protocol error: sent compressed "
                           "message without compression support")
        if data[0] or len(data) != 5 + size:
            raise RpcError("invalid_argument", "protocol error: invalid "
                           "envelope flags or more than one message")
        return parse(data[5:])

    def follow(self, listener, request, reply, limit):
        """Sends what a process says, until it or the time has ended."""
        deadline = limit and time.monotonic() + limit
        if limit and listener.owner:
            # Ends the process although nobody may follow it any longer.
            timer = threading.Timer(limit + 0.5, listener.process.signal,
                                    (9,))
            timer.daemon = True
            timer.start()
        text = request.header("keepalive-ping-interval", "")
        ping = float(text) if re.fullmatch(r"[0-9]{1,6}(\.\d+)?", text) \
            and float(text) > 0 else KEEPALIVE_S
        try:
            reply.start(200, {"content-type": STREAM_TYPE})
            quiet = time.monotonic()
            while True:
                now = time.monotonic()
                if deadline and now >= deadline:
                    if listener.owner:
                        listener.process.signal(9)
                    reply.write(end_stream("deadline_exceeded",
                                           "context deadline exceeded"))
                    return reply.finish()
                wait = min(quiet + ping - now, 0.2,
                           deadline - now if deadline else 1)
                event = listener.next(max(wait, 0))
                if event is None:
                    if is_gone(reply.stream.sock):
                        return None
                    if time.monotonic() >= quiet + ping:
                        reply.write(envelope({"event": {"keepalive": {}}}))
                        quiet = time.monotonic()
                    continue
                quiet = time.monotonic()
                reply.write(envelope({"event": event}))
                if "end" in event:
                    reply.write(end_stream())
                    return reply.finish()
        finally:
            listener.close()

    # -- files --

    @staticmethod
    def path(message, user, name="path", needed=True):
        text = field(message, name, str, "")
        if not text and needed:
            raise RpcError("invalid_argument", "%s is required" % name)
        return resolve(text, user)

    def do_MakeDir(self, message, user):
        path = self.path(message, user)
        if os.path.isdir(path):
            raise RpcError("already_exists",
                           "directory already exists: %s" % path)
        try:
            os.makedirs(path)
        except FileExistsError:
            raise RpcError("invalid_argument", "path already exists but it "
                           "is not a directory: %s" % path) from None
        except NotADirectoryError:
            raise RpcError("invalid_argument", "path is not a directory: %s"
                           % path) from None
        except OSError as exc:
            raise RpcError("internal", "error creating directory: %s"
                           % exc) from None
        return {"entry": entry(path)}

    def do_Stat(self, message, user):
        path = self.path(message, user, needed=False)
        if not os.path.lexists(path):
            raise RpcError("not_found", "file not found: stat %s: no such "
                           "file or directory" % path)
        return {"entry": entry(path)}

    def do_ListDir(self, message, user):
        path = self.path(message, user, needed=False)
        depth = field(message, "depth", int, 0) or 1
        if not os.path.exists(path):
            raise RpcError("not_found", "path not found: %s" % path)
        if not os.path.isdir(path):
            raise RpcError("invalid_argument",
                           "path is not a directory: %s" % path)
        entries = []
        self.walk(path, depth, entries)
        return {"entries": entries} if entries else {}

    def walk(self, folder, depth, entries):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            try:
                entries.append(entry(path))
            except FileNotFoundError:
                continue
            if depth > 1 and os.path.isdir(path) \
                    and not os.path.islink(path):
                self.walk(path, depth - 1, entries)

    def do_Remove(self, message, user):
        path = self.path(message, user)
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            pass
        except OSError as exc:
            raise RpcError("internal", "error removing %s: %s"
                           % (path, exc.strerror)) from None
        return {}

    def do_Move(self, message, user):
        source = self.path(message, user, "source")
        target = self.path(message, user, "destination")
        if not os.path.lexists(source):
            raise RpcError("not_found", "source file not found: %s" % source)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(source, target)
        except OSError as exc:
            raise RpcError("internal", "error renaming: %s"
                           % exc.strerror) from None
        return {"entry": entry(target)}

    # -- processes --

    def do_Start(self, message, user):
        config = field(message, "process", dict)
        if config is None or not field(config, "cmd", str):
            raise RpcError("invalid_argument", "process.cmd is required")
        if message.get("pty") is not None:
            raise RpcError("unimplemented", "the fake has no terminals")
        args = field(config, "args", list, [])
        envs = field(config, "envs", dict, {})
        for text in [*args, *envs, *envs.values()]:
            if not isinstance(text, str):
                raise RpcError("invalid_argument", "unmarshal message: "
                               "invalid value for string field: %r" % text)
        cwd = resolve(field(config, "cwd", str, "") or HOMES[user], user)
        if not os.path.isdir(cwd):
            raise RpcError("invalid_argument",
                           "cwd '%s' does not exist" % cwd)
        stdin = field(message, "stdin", bool, True)
        if self.version < (0, 3, 0):
            stdin = True
        env = dict(self.environment(user), **envs)
        kept = {"cmd": config["cmd"]}
        for name, value in (("args", args), ("envs", envs),
                            ("cwd", config.get("cwd"))):
            if value:
                kept[name] = value
        process = Process(config["cmd"], args, env, cwd, stdin, kept,
                          field(message, "tag", str))
        listener = process.listen(owner=True)
        self.processes.add(process)
        process.begin()
        return listener

    def environment(self, user):
        env = {"PATH": os.environ["PATH"], "HOME": HOMES[user],
               "USER": user, "LOGNAME": user, "LANG": "C.UTF-8"}
        env.update(self.config["envs"])
        env.update(self.config["own_envs"])
        return env

    def selected(self, message, ended=False):
        selector = field(message, "process", dict)
        if selector is None or not ("pid" in selector or "tag" in selector):
            raise RpcError("unimplemented", "invalid process selector")
        process = self.processes.find(field(selector, "pid", int),
                                      field(selector, "tag", str), ended)
        if process is None:
            raise RpcError("not_found", "process with %s not found"
                           % json.dumps(selector))
        return process

    def do_Connect(self, message, _user):
        return self.selected(message, ended=True).listen()

    def do_SendInput(self, message, _user):
        process = self.selected(message)
        given = field(message, "input", dict, {})
        if "stdin" not in given:
            raise RpcError("unimplemented", "invalid input type")
        try:
            data = base64.b64decode(field(given, "stdin", str, ""),
                                    validate=True)
        except (ValueError, binascii.Error):
            raise RpcError("invalid_argument", "unmarshal message: invalid "
                           "value for bytes field stdin") from None
        if not process.feed(data):
            raise RpcError("internal", "error writing to stdin: stdin not "
                           "enabled or closed")
        return {}

    def do_CloseStdin(self, message, _user):
        self.selected(message).close_stdin()
        return {}

    def do_SendSignal(self, message, _user):
        number = SIGNALS.get(message.get("signal"))
        if number is None:
            raise RpcError("invalid_argument" if isinstance(
                message.get("signal"), str) else "unimplemented",
                "invalid signal: %r" % message.get("signal"))
        self.selected(message).signal(number)
        return {}

    def do_List(self, _message, _user):
        found = []
        for process in self.processes.running():
            item = {"config": process.config, "pid": process.pid}
            if process.tag:
                item["tag"] = process.tag
            found.append(item)
        return {"processes": found} if found else {}
