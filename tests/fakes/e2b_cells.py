# SPDX-License-Identifier: GPL-3.0-or-later
"""The code interpreter, as it runs inside of a sandbox of the fake: contexts,
and cells that are run for real by a process of each context."""

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import uuid

from e2b_wire import Closed, is_gone

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = "/home/user"
ALIASES = {"js": "javascript", "ts": "typescript"}
PROGRAMS = {"python": [sys.executable, "-B",
                       os.path.join(HERE, "e2b_kernel.py")],
            "bash": [sys.executable, "-B", os.path.join(HERE, "e2b_bash.py")]}
NEEDED = object()


class Unfit(Exception):
    """Answered as plain text."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Invalid(Exception):
    """422: what is wrong with which field."""

    def __init__(self, *details):
        super().__init__(details)
        self.details = [{"loc": list(loc), "msg": msg, "type": kind}
                        for loc, msg, kind in details]


def language_of(text):
    name = (text or "python").strip().lower()
    return ALIASES.get(name, name)


def assignments(language, envs):
    """Lines before a cell. Values are not escaped, as the real ones."""
    if not envs:
        return ""
    if language == "bash":
        return "".join("export %s='%s'\n" % pair for pair in envs.items())
    return "import os\n" + "".join(
        "os.environ['%s'] = '%s'\n" % pair for pair in envs.items())


def removal(language, envs, kept):
    """What puts the variables of one cell back."""
    lines = []
    for name in envs:
        if language == "bash":
            lines.append("unset %s" % name if name not in kept
                         else "export %s='%s'" % (name, kept[name]))
        elif name in kept:
            lines.append("os.environ[%r] = %r" % (name, kept[name]))
        else:
            lines.append("os.environ.pop(%r, None)" % name)
    return ("" if language == "bash" else "import os\n") + "\n".join(lines)


class Context:
    """A language, a directory, and a process that keeps the variables."""

    def __init__(self, language, cwd, env):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self.env = env
        self.lock = threading.Lock()
        self.events = queue.Queue()
        self.globals = None
        self.child = None
        self.is_removed = False

    def describe(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def start(self):
        events, theirs = os.pipe()
        cwd = self.cwd if os.path.isdir(self.cwd) else HOME
        self.child = subprocess.Popen(
            PROGRAMS[self.language] + [str(theirs)], cwd=cwd, env=self.env,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0,
            pass_fds=(theirs,), start_new_session=True)
        os.close(theirs)
        self.events = queue.Queue()
        threading.Thread(target=self.read, daemon=True,
                         args=(self.child, events, self.events)).start()

    @staticmethod
    def read(child, events, out):
        with os.fdopen(events, "rb") as stream:
            for line in stream:
                out.put(line)
        child.wait()
        out.put(None)

    def stop(self):
        child, self.child = self.child, None
        if child is not None:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
            child.stdin.close()

    def make_ready(self):
        """A process that has ended is replaced; its variables are gone."""
        if self.child is None or self.child.poll() is not None:
            self.stop()
            self.globals = None
            self.start()

    def send(self, **request):
        data = memoryview(json.dumps(request).encode() + b"\n")
        while data:
            data = data[self.child.stdin.write(data):]

    def interrupt(self):
        child = self.child
        if child is not None and child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)


def is_done(line):
    return line.startswith(b'{"type": "done"')


class Interpreter:
    def __init__(self, config):
        self.config = config
        self.lock = threading.Lock()
        self.contexts = {}
        self.defaults = {}

    # -- contexts --

    def make(self, language, cwd):
        if language not in PROGRAMS or \
                language not in self.config["languages"]:
            raise Unfit(500, "Kernel for language %s not found" % language)
        env = {"PATH": os.environ["PATH"], "HOME": HOME, "USER": "user",
               "LOGNAME": "user", "LANG": "C.UTF-8",
               "PYTHONDONTWRITEBYTECODE": "1",
               "MPLCONFIGDIR": "/run/matplotlib"}
        env.update(self.config["own_envs"])
        context = Context(language, cwd or HOME, env)
        with self.lock:
            self.contexts[context.id] = context
        return context

    def default(self, language):
        with self.lock:
            found = self.defaults.get(language)
        if found is None:
            found = self.make(language, HOME)
            with self.lock:
                found = self.defaults.setdefault(language, found)
        return found

    def find(self, name):
        with self.lock:
            context = self.contexts.get(name)
        if context is None:
            raise Unfit(404, "Context %s not found" % name)
        return context

    def serve(self, request, reply):
        data = request.read()
        parts = request.path.strip("/").split("/")
        try:
            if request.path == "/health" and request.method == "GET":
                return reply.send(200, "OK")
            if request.path == "/execute":
                self.only(request, "POST")
                return self.execute(self.parsed(data), request, reply)
            if request.path == "/contexts":
                self.only(request, "GET", "POST")
                return reply.send(200, self.create(data)
                                  if request.method == "POST"
                                  else self.list())
            if parts[0] == "contexts" and len(parts) == 2:
                self.only(request, "DELETE")
                self.remove(self.find(parts[1]))
                return reply.send(200, None)
            if parts[0] == "contexts" and parts[2:] == ["restart"]:
                self.only(request, "POST")
                self.restart(self.find(parts[1]))
                return reply.send(200, None)
            return reply.send(404, {"detail": "Not Found"})
        except Unfit as exc:
            if exc.status == 405:
                return reply.send(405, {"detail": str(exc)})
            return reply.text(exc.status, str(exc))
        except Invalid as exc:
            return reply.send(422, {"detail": exc.details})

    @staticmethod
    def only(request, *methods):
        if request.method not in methods:
            raise Unfit(405, "Method Not Allowed")

    @staticmethod
    def parsed(data):
        if not data:
            raise Invalid((("body",), "field required",
                           "value_error.missing"))
        try:
            body = json.loads(data)
        except ValueError as exc:
            raise Invalid((("body", getattr(exc, "pos", 0)), str(exc),
                           "value_error.jsondecode")) from None
        if not isinstance(body, dict):
            raise Invalid((("body",), "value is not a valid dict",
                           "type_error.dict"))
        return body

    @staticmethod
    def text(body, name, default=None):
        value = body.get(name)
        if value is None:
            if default is NEEDED:
                raise Invalid((("body", name), "field required",
                               "value_error.missing"))
            return default
        if not isinstance(value, str):
            raise Invalid((("body", name), "str type expected",
                           "type_error.str"))
        return value

    def create(self, data):
        body = self.parsed(data)
        context = self.make(language_of(self.text(body, "language")),
                            self.text(body, "cwd"))
        context.start()
        return context.describe()

    def list(self):
        for language in self.config["languages"][:2]:
            self.default(language)
        with self.lock:
            return [c.describe() for c in self.contexts.values()]

    def remove(self, context):
        with self.lock:
            self.contexts.pop(context.id, None)
            for language, one in list(self.defaults.items()):
                if one is context:
                    del self.defaults[language]
        context.is_removed = True
        context.stop()

    def restart(self, context):
        context.cwd = HOME
        context.globals = None
        context.stop()
        context.start()

    # -- cells --

    def execute(self, body, request, reply):
        code = self.text(body, "code", NEEDED)
        name = self.text(body, "context_id")
        language = self.text(body, "language")
        envs = body.get("env_vars") or {}
        if not isinstance(envs, dict) or not all(
                isinstance(v, str) for v in envs.values()):
            raise Invalid((("body", "env_vars"), "value is not a valid dict",
                           "type_error.dict"))
        if name is not None and language is not None:
            raise Unfit(400, "Only one of context_id or language can be "
                        "provided")
        context = self.find(name) if name is not None \
            else self.default(language_of(language))
        # Nothing at all is sent while another cell of the context runs.
        while not context.lock.acquire(timeout=0.1):
            if is_gone(reply.stream.sock):
                return
        try:
            context.make_ready()
            first = {}
            if context.globals is None:
                first = context.globals = self.globals_for(request)
            before = assignments(context.language, dict(first, **envs))
            context.send(code=before + code if code.strip() else "")
            events = context.events
        except BaseException:
            context.lock.release()
            raise
        self.run(context, events, envs, reply)

    def globals_for(self, request):
        """Asked of envd with the token of the request: without it there are
        none, for as long as the context lives."""
        token = self.config.get("token")
        if token and request.header("x-access-token") != token:
            return {}
        return dict(self.config["envs"])

    def run(self, context, events, envs, reply):
        over = threading.Event()
        is_heard = True
        try:
            reply.start(200)
            for line in self.lines(context, events, over, reply):
                if line is None:
                    is_heard = False
                    break
                reply.write(line)
        except Closed:
            is_heard = False
        finally:
            if not over.is_set() and self.config["interrupts"]:
                context.interrupt()
            threading.Thread(target=self.after, daemon=True, args=(
                context, events, envs, over.is_set())).start()
        if is_heard:
            reply.finish()

    def lines(self, context, events, over, reply):
        """The lines of a cell; None once the client is gone. over is set
        once the process has nothing more to say of the cell."""
        quiet = time.monotonic()
        pause = self.config["keepalive"]
        while True:
            try:
                line = events.get(timeout=min(pause, 0.1))
            except queue.Empty:
                if select.select([reply.stream.sock], [], [], 0)[0] \
                        and is_gone(reply.stream.sock):
                    yield None
                    return
                if time.monotonic() - quiet >= pause:
                    yield b'{"type": "keepalive"}\n'
                    quiet = time.monotonic()
                continue
            quiet = time.monotonic()
            if line is None or is_done(line):
                over.set()
            if line is None:
                yield self.vanished(context, events)
            elif not is_done(line):
                yield line
                continue
            yield b'{"type": "end_of_execution"}\n'
            return

    @staticmethod
    def vanished(context, events):
        """The process of the context ended while the cell ran."""
        if context.is_removed or context.events is not events \
                or context.child is None:
            name, text = "UnexpectedEndOfExecution", \
                "Connection to the execution was closed before the " \
                "execution was finished"
        else:
            name, text = "ContextRestarting", \
                "Context is restarting, please wait a moment"
        return json.dumps({"type": "error", "name": name, "value": text,
                           "traceback": ""}).encode() + b"\n"

    @staticmethod
    def after(context, events, envs, is_over):
        """Waits for a cell that nobody listens to any longer."""
        try:
            while not is_over:
                line = events.get()
                is_over = line is None or is_done(line)
            if envs and not context.is_removed and context.events is events \
                    and context.child is not None \
                    and context.child.poll() is None:
                context.send(silent=True, code=removal(
                    context.language, envs, context.globals or {}))
                while True:
                    line = events.get()
                    if line is None or is_done(line):
                        break
        except OSError:
            pass
        finally:
            context.lock.release()
