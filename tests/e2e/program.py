# SPDX-License-Identifier: GPL-3.0-or-later
"""The program under test, for the tests beside this file.

    with Place() as place, ClaudeServer([...]) as server:
        place.file("sales.csv", "a,b\\n1,2\\n")
        place.config("limits:\\n  rounds: 2\\n")
        with place.repl(server, "sales.csv") as s:
            s.at_prompt()
            s.ask("how many rows?")          # types, and waits for the end
            s.type_line("again?")            # types, and does not wait
        done = place.script(server, "-c", "how many?", "sales.csv")

A Place has a home, a working directory and everything that a run leaves there.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
sys.path.insert(0, os.path.join(HERE, "..", "fakes"))

import tap  # noqa: E402
from claude_server import tool_use  # noqa: E402
from pty_session import (PtySession, build_env, escaped,  # noqa: E402
                         make_home, run_piped, service_for)

SANDPIPER = os.path.abspath(os.environ.get("SANDPIPER", "./sandpiper"))
FACTOR = tap.FACTOR
SANITIZED = bool(os.environ.get("SANDPIPER_SANITIZERS", "").strip())
KEY = "sk-test-0123456789abcdefghij"

# Time for a step that runs Python in a fresh sandbox on a slow machine.
STEP_S = 30 * FACTOR

# What a person may wait for the prompt after Ctrl-C.
PROMPT_S = 0.2 * FACTOR

SALES = ("date,region,units,revenue\n"
         "2025-01-02,South,3,10.50\n"
         "2025-01-03,East,5,20.25\n"
         "2025-02-03,South,7,\n"
         "2025-03-04,West,9,40.00\n")

# A cell that no interrupt ends.
DEAF = ("import signal\nx = 41\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('deaf')\n"
        "while True:\n"
        "    try:\n"
        "        while True: pass\n"
        "    except BaseException: pass\n")


def run(code, **options):
    """A call for a reply: one cell."""
    return tool_use("run_python", {"code": code}, **options)


REPORT = re.compile(rb"(Address|Leak|UndefinedBehavior)Sanitizer|"
                    rb"runtime error: |Assertion .* failed")


class Repl(PtySession):
    def __exit__(self, kind, value, trace):
        """Ends the program by a signal that it takes, so that it frees what
        it has, and fails on what a sanitizer then says."""
        try:
            if kind is None:
                self.check_end()
        finally:
            super().__exit__(kind, value, trace)

    def check_end(self):
        if self.status is None:
            try:
                self.signal(signal.SIGTERM)
            except ProcessLookupError:
                pass
            status = self.wait_exit(20 * FACTOR)
            assert status == 128 + signal.SIGTERM, "status %s" % status
        found = REPORT.search(bytes(self.transcript))
        assert not found, escaped(bytes(self.transcript)[
            max(found.start() - 500, 0):][:3000])

    def is_at_prompt(self, screen=None):
        screen = screen or self.screen
        return screen.col == 2 and screen.lines()[screen.row].rstrip() == ">"

    def at_prompt(self, timeout=STEP_S):
        """Waits for an empty prompt; the time when it came."""
        self.expect_screen(self.is_at_prompt, timeout)
        return self.match_time

    def typed(self, text, timeout=STEP_S):
        """Types text and waits until the input line shows the end of it."""
        self.send(text)
        last = "".join(text[-12:].split())

        def found(screen):
            # The line may be wrapped.
            rows = screen.lines()[max(screen.row - 2, 0):screen.row]
            rows.append(screen.lines()[screen.row][:screen.col + 1])
            return last in "".join("".join(rows).split())

        self.expect_screen(found, timeout)

    def type_line(self, text):
        self.typed(text)
        row = (self.screen.row, len(self.screen.history))
        self.send("\r")
        self.expect_screen(
            lambda sc: (sc.row, len(sc.history)) != row, STEP_S)

    def ask(self, text, timeout=STEP_S):
        """A line, and all that comes of it."""
        self.type_line(text)
        return self.at_prompt(timeout)

    def shows(self, wanted, timeout=STEP_S):
        return self.expect_screen(wanted, timeout, history=True)

    def resized(self, cols, rows):
        """Resizes, and waits until the input line was drawn again."""
        self._read()
        start = len(self.transcript)
        self.resize(cols, rows)
        self.expect_screen(lambda sc: b"\x1b[J" in self.transcript[start:])

    def text(self):
        self._read()
        return self.screen.all_text()

    def interrupt(self):
        """Ctrl-C, then the prompt; how long that took, in seconds."""
        start = self.send(b"\x03")
        return self.at_prompt(10 * FACTOR) - start

    def has(self, wanted):
        """Wherever lines were broken for the width."""
        text = self.text()
        assert wanted in text or wanted in " ".join(text.split()), \
            "no %r in\n%s" % (wanted, text)

    def has_not(self, unwanted):
        text = self.text()
        assert unwanted not in text, "%r in\n%s" % (unwanted, text)


class Place:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="place-")
        self.homes = make_home(self.dir)
        self.work = os.path.join(self.dir, "work")
        self.settings = os.path.join(self.homes["XDG_CONFIG_HOME"],
                                     "sandpiper", "config.yaml")
        self.state = os.path.join(self.homes["XDG_STATE_HOME"], "sandpiper")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        shutil.rmtree(self.dir, ignore_errors=True)

    def file(self, name, data=SALES):
        """Writes a file below the working directory; its whole path, of the
        type (text or bytes) that the name has."""
        work = os.fsencode(self.work) if isinstance(name, bytes) else self.work
        path = os.path.join(work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data.encode() if isinstance(data, str) else data)
        return path

    def config(self, text, mode=0o600):
        os.makedirs(os.path.dirname(self.settings), 0o700, exist_ok=True)
        with open(self.settings, "w") as out:
            out.write(text)
        os.chmod(self.settings, mode)
        return self.settings

    @staticmethod
    def env(server, env=None, key=KEY):
        out = {}
        if server is not None:
            out["ANTHROPIC_BASE_URL"] = getattr(server, "url", server)
        if key is not None:
            out["ANTHROPIC_API_KEY"] = key
        out.update(env or {})
        return out

    def repl(self, server, *args, env=None, key=KEY, cols=100, rows=40,
             profile="xterm"):
        return Repl([SANDPIPER] + list(args), cols=cols, rows=rows,
                    env=self.env(server, env, key), profile=profile,
                    dir=self.dir, timeout=STEP_S)

    def script(self, server, *args, stdin=b"", env=None, key=KEY,
               timeout=STEP_S * 2, term="xterm-256color"):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        done = run_piped([SANDPIPER] + list(args), stdin,
                         self.env(server, env, key), timeout=timeout,
                         dir=self.dir, term=term)
        assert not REPORT.search(done.stderr), done
        return done

    @contextlib.contextmanager
    def running(self, server, *args, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, env=None):
        """The program in pipes, while it runs; killed if it still does at the
        end."""
        argv = [SANDPIPER] + list(args)
        env = build_env(self.homes, "xterm-256color", self.env(server, env))
        service = service_for(argv, env)
        child = subprocess.Popen(
            service.argv if service else argv, stdin=stdin, stdout=stdout,
            stderr=subprocess.PIPE, bufsize=0, cwd=self.work,
            start_new_session=True, env=env)
        by_itself = False
        try:
            yield child
            by_itself = child.poll() is not None
        finally:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()
            if service:
                service.end(by_itself)


def messages(request):
    """What was sent, as (role, list of blocks) without cache
    breakpoints."""
    out = []
    for message in request.body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        out.append((message["role"], [
            {key: value for key, value in block.items()
             if key != "cache_control"} for block in content]))
    return out


def question(request):
    """The text of the last message."""
    role, content = messages(request)[-1]
    assert role == "user", role
    return "\n".join(b["text"] for b in content if b["type"] == "text")


def news(request):
    """The blocks of what was said since the last reply; that may be one
    message or several."""
    out = []
    for role, content in reversed(messages(request)):
        if role != "user":
            break
        out = content + out
    return out


def results(request):
    """The tool results since the last reply, as (text, is_error)."""
    out = []
    for block in news(request):
        if block["type"] != "tool_result":
            continue
        inner = block.get("content", "")
        if isinstance(inner, list):
            inner = "".join(part.get("text", "") for part in inner)
        out.append((inner, block.get("is_error", False)))
    return out


# What the program and its line editor may send a terminal. Everything else
# that is no text is a leak.
OWN = re.compile(
    rb"\x1b\[[0-9;]*m"                    # colours and weights
    rb"|\x1b\[[0-9]*[ABCDGKJP@]"          # cursor, erasing
    rb"|\x1b\[[0-9]*(?:;[0-9]*)?H"
    rb"|\x1b\[\?2004[hl]|\x1b\[\?25[hl]|\x1b\[\?1[hl]|\x1b[=>]"
    rb"|\x1b\[>0?q|\x1b\[0?c|\x1b\[\?[12];[14];[0-9;]*S|\x1b\[1[46]t"
    rb"|\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\")
BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def check_clean(data, colours=True):
    """Fails if bytes for a terminal hold any control but the program's own."""
    data = bytes(data)
    rest = OWN.sub(b"", data)
    for at, byte in enumerate(rest):
        if byte < 0x20 and byte not in (8, 9, 10, 13) or byte == 0x7f:
            raise AssertionError("control %#x in %s" % (
                byte, escaped(rest[max(at - 60, 0):at + 60])))
    text = rest.decode("utf-8")
    for char in text:
        assert not 0x80 <= ord(char) < 0xa0, "C1 control %#x" % ord(char)
    found = BIDI.search(text)
    assert not found, "a character that reorders: %r" % text[
        max(found.start() - 40, 0):found.end() + 40]
    if not colours:
        assert not re.search(rb"\x1b\[[0-9;]*(3[0-9]|4[0-9])[0-9;]*m", data)


def check_no_escape(data):
    assert b"\x1b" not in data and b"\x9b" not in data, escaped(data)


def wait_until(ready, what, timeout=STEP_S):
    """Polls a condition outside the terminal (a file, a process)."""
    deadline = time.monotonic() + timeout
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def dump(request):
    return json.dumps(request.body, indent=1)
