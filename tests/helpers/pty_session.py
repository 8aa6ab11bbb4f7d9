# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a program on a pseudo-terminal, as a person would see it.

    with PtySession(["./sandpiper", "sales.csv"], cols=100, rows=30,
                    profile="vt340",
                    env={"ANTHROPIC_BASE_URL": server.url}) as s:
        s.expect_screen("region", 10)        # text on the screen
        s.send("how many rows?\\r")
        s.expect(b"half of it", 5)           # bytes of the transcript
        s.expect(re.compile(rb"\\d+ rows"))   # or a regular expression
        s.send(b"\\x03")
        s.expect_absent(b"second half", barrier=b"cancelled")
        s.resize(60, 20)
        assert s.wait_exit(5) == 0           # negative: ended by a signal

expect() looks at everything received since the last match and moves on
behind the match; seen() looks at the whole transcript and moves nothing.
After expect(), s.match_time is when the matching bytes arrived (monotonic),
and send() returns when it wrote, so that a test can bound the time between.
s.transcript has all bytes, s.screen (screen.py) what they draw, s.queries
what the program asked the terminal.  s.path(...) is a path below the fresh
temporary directory s.dir; HOME is s.home, the working directory s.cwd.

The environment is built, never inherited: PATH, TERM, LANG=C.UTF-8, TZ=UTC,
INPUTRC=/dev/null, HOME and the XDG directories, sanitizer options, and env=.
profile= is how the terminal answers: "silent" (TERM=dumb, no answers), or
"vt340" (sixel), "xterm" (no sixel), "foot", "kitty", "mute" (a real TERM, no
answers: give them with s.answer()).  uid=/gid= drop privileges (for root).
Whatever happens, leaving the block kills every process that came from the
program, also those that left its group; s.descendants() lists them.

run_piped(argv, ...) runs a program without a terminal, in the same
environment, and returns its status, stdout and stderr.
"""

import ctypes
import errno
import fcntl
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from processes import process_table, with_descendants  # noqa: E402
from screen import Screen  # noqa: E402

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSED_ON = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")
SHOWN_BYTES = 3000
PR_SET_CHILD_SUBREAPER = 36

LAST_WORDS_S = 1

# The queries a terminal may be asked, each with a name for the profiles.
QUERIES = re.compile(
    rb"(?P<da1>\x1b\[0?c)|(?P<da2>\x1b\[>0?c)|(?P<version>\x1b\[>0?q)"
    rb"|(?P<graphics>\x1b\[\?[123];[14];[0-9;]+S)|(?P<size>\x1b\[1[468]t)"
    rb"|(?P<cursor>\x1b\[6n)|(?P<status>\x1b\[5n)"
    rb"|(?P<kitty>\x1b_G[^\x1b]*\x1b\\)|(?P<mode>\x1b\[\?\d+\$p)"
    rb"|(?P<colour>\x1b\](?:4;\d+|1[0-2]);\?(?:\x07|\x1b\\))")
LONGEST_QUERY = 512

# What each terminal says; values measured with the real programs.
PROFILES = {
    "silent": {"TERM": "dumb"},
    "mute": {"TERM": "xterm-256color"},
    "vt340": {
        "TERM": "xterm-256color", "cursor": True,
        "da1": b"\x1b[?63;1;2;4;6;9;15;16;22;28c",
        "version": b"\x1bP>|XTerm(379)\x1b\\",
        "graphics": {b"1": b"\x1b[?1;0;1024S", b"2": b"\x1b[?2;0;1000;1000S"},
        "mode": b"2"},
    "xterm": {
        "TERM": "xterm-256color", "cursor": True,
        "da1": b"\x1b[?64;1;2;6;9;15;16;17;18;21;22;28c",
        "version": b"\x1bP>|XTerm(379)\x1b\\",
        "graphics": {b"1": b"\x1b[?1;3;0S", b"2": b"\x1b[?2;3;0S"},
        "mode": b"2"},
    "foot": {
        "TERM": "xterm-256color", "cursor": True, "cells": True,
        "below": True, "da1": b"\x1b[?62;4;22c",
        "version": b"\x1bP>|foot(1.13.1)\x1b\\",
        "graphics": {b"1": b"\x1b[?1;0;1024S",
                     b"2": b"\x1b[?2;0;10000;10000S"},
        "mode": b"2"},
    "kitty": {
        "TERM": "xterm-256color", "cursor": True, "cells": True,
        "da1": b"\x1b[?62;c", "version": b"\x1bP>|kitty(0.26.5)\x1b\\",
        "kitty": True, "mode": b"0"},
}


class Failure(AssertionError):
    """An expectation that was not met; the message has the output."""


def escaped(data):
    """Bytes as printable text, one output line per line."""
    text = data.decode("utf-8", "backslashreplace")
    out = []
    for char in text:
        if char == "\n":
            out.append("\\n\n")
        elif char.isprintable():
            out.append(char)
        else:
            out.append(char.encode("unicode_escape").decode())
    return "".join(out)


def make_home(top, owner=None):
    """Fresh HOME and XDG directories below top; returns (home, variables)."""
    names = {"HOME": "home", "XDG_CONFIG_HOME": "home/.config",
             "XDG_DATA_HOME": "home/.local/share",
             "XDG_STATE_HOME": "home/.local/state",
             "XDG_CACHE_HOME": "home/.cache", "XDG_RUNTIME_DIR": "run",
             "TMPDIR": "tmp"}
    for name in names.values():
        os.makedirs(os.path.join(top, name), 0o700, exist_ok=True)
    os.makedirs(os.path.join(top, "work"), 0o700, exist_ok=True)
    if owner:
        for folder, _, _ in os.walk(top):
            os.chown(folder, *owner)
    return {key: os.path.join(top, name) for key, name in names.items()}


def build_env(homes, term="dumb", env=None):
    out = {"PATH": PATH, "TERM": term, "LANG": "C.UTF-8", "TZ": "UTC",
           "INPUTRC": "/dev/null"}
    out.update({name: os.environ[name] for name in PASSED_ON
                if name in os.environ})
    out.update(homes)
    for key, value in (env or {}).items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = os.fspath(value)
    return out


def _reap(pid):
    try:
        return os.waitpid(pid, os.WNOHANG)
    except OSError:
        return (pid, 0)


def service_for(argv, env):
    """Where cells of the program run at a service: service_run.py. Else
    None."""
    if not os.environ.get("SANDPIPER_E2E_SANDBOX"):
        return None
    import service_run
    return service_run.begin(argv, env)


class PtySession:
    _live = set()

    def __init__(self, argv, cols=80, rows=24, env=None, profile="silent",
                 cwd=None, uid=None, gid=None, cell=(10, 20), dir=None,
                 timeout=10):
        """cell: pixels of a cell, also in the window size; (0, 0) hides
        them. dir: go on in the directory of an earlier session. timeout:
        default of every wait."""
        self.argv = [os.fspath(arg) for arg in argv]
        self.timeout = timeout
        self.profile = PROFILES[profile]
        self.cell = (0, 0) if profile == "silent" else cell
        self.screen = Screen(cols, rows, cell if cell[1] else (10, 20),
                             self.profile.get("below", False))
        self.transcript = bytearray()
        self.queries = []
        self.status = None
        self.match_time = None
        self._arrivals = []
        self._position = 0
        self._scanned = 0
        self._eof = False
        self._own_dir = dir is None
        self.dir = dir or tempfile.mkdtemp(prefix="pty-")
        owner = (uid, uid if gid is None else gid) if uid is not None \
            else None
        if owner:
            os.chown(self.dir, *owner)
        homes = make_home(self.dir, owner)
        self.home = homes["HOME"]
        self.cwd = cwd or os.path.join(self.dir, "work")
        self.env = build_env(homes, self.profile["TERM"], env)
        self._before = self._orphans()
        self.service = service_for(self.argv, self.env)
        if self.service:
            self.argv = self.service.argv
        try:
            self._start(owner, cols, rows)
        except BaseException:
            self._end_service(False)
            self._remove_dir()
            raise
        PtySession._live.add(self)

    # -- life --

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def _start(self, owner, cols, rows):
        # Orphans of the program become ours, so that close() finds them.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.master, slave = os.openpty()
        name = os.ttyname(slave)
        self._set_size(cols, rows)
        if owner:
            os.chown(name, *owner)
        report_in, report_out = os.pipe()
        with warnings.catch_warnings():
            # Between fork and exec only system calls are made.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            self._child(name, report_out, owner)
        os.close(slave)
        os.close(report_out)
        with os.fdopen(report_in, "rb") as report:
            problem = report.read()
        if problem:
            os.waitpid(self.pid, 0)
            os.close(self.master)
            raise OSError(problem.decode())
        os.set_blocking(self.master, False)

    def _child(self, tty, report, owner):
        try:
            os.setsid()
            # Opened by a session leader without a terminal: this one.
            fd = os.open(tty, os.O_RDWR)
            for target in (0, 1, 2):
                os.dup2(fd, target)
            os.closerange(3, report)
            os.closerange(report + 1, 4096)
            for number in range(1, signal.NSIG):
                if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                    signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            if owner:
                os.setgroups([])
                os.setresgid(owner[1], owner[1], owner[1])
                os.setresuid(owner[0], owner[0], owner[0])
            os.umask(0o022)
            os.chdir(self.cwd)
            os.execve(self.argv[0], self.argv, self.env) \
                if "/" in self.argv[0] else \
                os.execvpe(self.argv[0], self.argv, self.env)
        except BaseException as exc:
            os.write(report, ("%s: %s" % (self.argv[0], exc)).encode())
        finally:
            os._exit(127)

    def close(self):
        """Kills whatever is left and removes the temporary directory."""
        if self not in PtySession._live:
            return
        by_itself = self._collect() not in (None, -signal.SIGKILL)
        try:
            self.kill_all()
        finally:
            PtySession._live.discard(self)
            os.close(self.master)
            self._remove_dir()
            self._end_service(by_itself)

    def _end_service(self, by_itself):
        if self.service:
            self.service.end(by_itself)

    def _remove_dir(self):
        if self._own_dir:
            shutil.rmtree(self.dir, ignore_errors=True)

    @staticmethod
    def _orphans():
        me = os.getpid()
        return {pid for pid, (parent, *_) in process_table().items()
                if parent == me}

    def descendants(self):
        """Live processes that came from the program (itself included)."""
        table = process_table()
        others = {s.pid for s in PtySession._live if s is not self}
        for s in PtySession._live | {self}:
            others |= s.service.pids() if s.service else set()
        me = os.getpid()
        found = {pid for pid, (parent, *_) in table.items()
                 if parent == me and pid not in self._before | others and
                 (pid == self.pid or self._is_foreign(pid))}
        alive = []
        for pid in sorted(with_descendants(found, table)):
            if table[pid][1] in "ZX":
                if pid != self.pid and table[pid][0] == me:
                    _reap(pid)
            else:
                alive.append(pid)
        return alive

    @staticmethod
    def _is_foreign(pid):
        # A child that the test itself started is not an orphan of ours; it
        # is in our session, and an orphan is in the program's or its own.
        try:
            return os.getsid(pid) != os.getsid(0)
        except OSError:
            return False

    def kill_all(self):
        deadline = time.monotonic() + 10
        while True:
            pids = self.descendants()
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            self._collect()
            if not pids and self.status is not None:
                return
            if time.monotonic() > deadline:
                raise RuntimeError("processes do not end: %s" % pids)
            # Wakes at each byte or the end of the terminal.
            select.select([self.master] if not self._eof else [], [], [],
                          0.01)
            self._read()

    # -- the terminal's side --

    def _set_size(self, cols, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack(
            "HHHH", rows, cols, cols * self.cell[0], rows * self.cell[1]))

    def resize(self, cols, rows):
        self.screen.resize(cols, rows)
        self._set_size(cols, rows)

    def send(self, data):
        """Types; returns the time (monotonic) when all was written."""
        view = memoryview(data.encode() if isinstance(data, str) else data)
        deadline = time.monotonic() + self.timeout
        while view:
            try:
                view = view[os.write(self.master, view):]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._fail("the program does not read what is typed")
                # Reading on: a full output side stops the input side.
                ready = select.select([self.master], [self.master], [],
                                      left)[0]
                if ready:
                    self._read()
            except OSError as exc:
                self._fail("typing failed: %s" % exc)
        return time.monotonic()

    def answer(self, data):
        """Bytes that the terminal itself sends."""
        return self.send(data)

    def termios(self):
        """Settings of the terminal, as termios.tcgetattr() gives them."""
        return termios.tcgetattr(self.master)

    def _reply_to(self, match):
        kind, query = match.lastgroup, match.group()
        known = self.profile.get(kind)
        if kind == "cursor" and known:
            return b"\x1b[%d;%dR" % (self.screen.row + 1, self.screen.col + 1)
        if kind == "graphics" and known:
            return known.get(query[3:4])
        if kind == "size" and self.profile.get("cells"):
            wide, high = self.cell
            return {b"14": b"\x1b[4;%d;%dt" % (high * self.screen.rows,
                                               wide * self.screen.cols),
                    b"16": b"\x1b[6;%d;%dt" % (high, wide),
                    b"18": b"\x1b[8;%d;%dt" % (self.screen.rows,
                                               self.screen.cols),
                    }[query[2:4]]
        if kind == "mode" and known:
            number = re.search(rb"\d+", query).group()
            return b"\x1b[?%s;%s$y" % (number, known)
        if kind == "kitty" and known and b"a=q" in query:
            ident = re.search(rb"i=(\d+)", query)
            return b"\x1b_Gi=%s;OK\x1b\\" % (ident[1] if ident else b"0")
        return known if isinstance(known, bytes) else None

    def _read(self):
        """Takes all that is there; True if anything came."""
        came = False
        while not self._eof:
            try:
                data = os.read(self.master, 65536)
            except BlockingIOError:
                break
            except OSError as exc:
                if exc.errno != errno.EIO:
                    raise
                data = b""
            if not data:
                self._eof = True
                break
            came = True
            self._arrivals.append((len(self.transcript), time.monotonic()))
            self._take(data)
        return came

    def _take(self, data):
        self.transcript += data
        fed = len(self.transcript) - len(data)
        for match in QUERIES.finditer(self.transcript, self._scanned):
            # The cursor's position is asked where the query stands.
            if match.end() > fed:
                self.screen.feed(bytes(self.transcript[fed:match.end()]))
                fed = match.end()
            self._scanned = match.end()
            self.queries.append((match.lastgroup, match.group()))
            reply = self._reply_to(match)
            if reply and not self._eof:
                try:
                    os.write(self.master, reply)
                except OSError:
                    pass
        self.screen.feed(bytes(self.transcript[fed:]))
        self._scanned = max(self._scanned,
                            len(self.transcript) - LONGEST_QUERY)

    # -- expecting --

    def _fail(self, what):
        raise Failure(
            "%s\nprogram: %s (%s)\noutput since the last match:\n%s\n"
            "screen, cursor %d,%d:\n%s" % (
                what, " ".join(self.argv), "status %s" % self.status
                if self.status is not None else "running",
                escaped(bytes(self.transcript[self._position:])
                        [-SHOWN_BYTES:]),
                self.screen.row, self.screen.col,
                "\n".join("|" + line for line in
                          self.screen.text().split("\n"))))

    def _pump(self, found, timeout, what):
        """Reads until found() is true; its result."""
        timeout = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        while True:
            self._read()
            result = found()
            if result:
                return result
            if self._eof:
                self._collect()
                self._fail("%s: the terminal was closed" % what)
            left = deadline - time.monotonic()
            if left <= 0:
                self._fail("%s: not within %g s" % (what, timeout))
            select.select([self.master], [], [], left)

    @staticmethod
    def _pattern(pattern):
        if isinstance(pattern, str):
            pattern = pattern.encode()
        if isinstance(pattern, (bytes, bytearray)):
            pattern = re.compile(re.escape(pattern))
        return pattern

    def _arrival(self, offset):
        when = None
        for start, moment in self._arrivals:
            if start > offset:
                break
            when = moment
        return when

    def expect(self, pattern, timeout=None):
        """Waits for bytes, text or a compiled bytes pattern; the match."""
        compiled = self._pattern(pattern)
        match = self._pump(
            lambda: compiled.search(self.transcript, self._position),
            timeout, "expected %r" % (pattern,))
        # Copies the match's bytes: a growing buffer cannot be exported.
        match = compiled.search(bytes(self.transcript), self._position)
        self._position = match.end()
        self.match_time = self._arrival(max(match.end() - 1, 0))
        return match

    def seen(self, pattern):
        """The match in all that was received so far, or None."""
        self._read()
        return self._pattern(pattern).search(bytes(self.transcript))

    def expect_absent(self, pattern, barrier, timeout=None):
        """Waits for barrier; fails if pattern came before it."""
        start = self._position
        match = self.expect(barrier, timeout)
        found = self._pattern(pattern).search(
            bytes(self.transcript[start:match.start()]))
        if found:
            self._position = start
            self._fail("expected no %r before %r, but there is %r"
                       % (pattern, barrier, found.group()))
        return match

    def expect_screen(self, wanted, timeout=None, history=False):
        """Waits until the screen shows a text, a compiled text pattern, or
        satisfies a function of the screen. history: scrolled lines too."""
        def found():
            if callable(wanted):
                return wanted(self.screen)
            text = self.screen.all_text() if history else self.screen.text()
            if isinstance(wanted, str):
                return wanted in text
            return wanted.search(text)
        result = self._pump(found, timeout,
                            "expected on the screen %r" % (wanted,))
        self.match_time = self._arrivals[-1][1] if self._arrivals else None
        return result

    # -- the end --

    def signal(self, number):
        os.kill(self.pid, number)

    def _collect(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = -os.WTERMSIG(status) \
                    if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.status

    def wait_exit(self, timeout=None):
        """Waits for the end of the program itself; its status."""
        timeout = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        pidfd = os.pidfd_open(self.pid) if self.status is None and \
            hasattr(os, "pidfd_open") else None
        try:
            while self._collect() is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._fail("expected the program to end: not within "
                               "%g s" % timeout)
                waited = [] if self._eof else [self.master]
                if pidfd is not None:
                    waited.append(pidfd)
                else:
                    left = min(left, 0.02)
                select.select(waited, [], [], left)
                self._read()
        finally:
            if pidfd is not None:
                os.close(pidfd)
        self._read_rest()
        return self.status

    def _read_rest(self):
        """What the program wrote last may still be on its way through the
        kernel when it has ended. Somebody else may hold the terminal open."""
        deadline = time.monotonic() + LAST_WORDS_S
        self._read()
        while not self._eof and time.monotonic() < deadline:
            select.select([self.master], [], [], LAST_WORDS_S / 10)
            self._read()

    def path(self, *parts):
        return os.path.join(self.dir, *parts)


class Piped:
    """status, stdout and stderr (bytes), seconds."""

    def __init__(self, status, stdout, stderr, seconds):
        self.status = status
        self.stdout = stdout
        self.stderr = stderr
        self.seconds = seconds

    def __repr__(self):
        return "status %s\nstdout:\n%s\nstderr:\n%s" % (
            self.status, escaped(self.stdout), escaped(self.stderr))


def run_piped(argv, stdin=b"", env=None, cwd=None, timeout=30, dir=None,
              term="dumb", uid=None, gid=None):
    """Runs a program with pipes instead of a terminal, in its own session;
    on a timeout its process group is killed and Failure raised."""
    top = dir or tempfile.mkdtemp(prefix="pipe-")
    owner = None
    if uid is not None:
        owner = (uid, uid if gid is None else gid)
        os.chown(top, *owner)
        # setpriv, not Popen(user=): Python 3.8 has none.
        argv = ["setpriv", "--reuid", str(owner[0]), "--regid",
                str(owner[1]), "--clear-groups", "--"] + list(argv)
    try:
        homes = make_home(top, owner)
        env = build_env(homes, term, env)
        service = service_for(argv, env)
        start = time.monotonic()
        child = subprocess.Popen(
            service.argv if service else argv, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
            cwd=cwd or os.path.join(top, "work"), start_new_session=True)
        try:
            out, err = child.communicate(stdin, timeout)
        except BaseException as exc:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            if not isinstance(exc, subprocess.TimeoutExpired):
                raise
            raise Failure("%s: not within %g s\n%r" % (
                " ".join(map(os.fspath, argv)), timeout,
                Piped(child.returncode, out, err, timeout)))
        finally:
            if service:
                service.end(child.returncode != -signal.SIGKILL)
        return Piped(child.returncode, out, err, time.monotonic() - start)
    finally:
        if dir is None:
            shutil.rmtree(top, ignore_errors=True)
