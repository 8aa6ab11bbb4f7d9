# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands between the interpreter of cells and a client that has nothing but
standard input and output of a process, and a connection that may break.

It starts the interpreter with the pipes that it expects: requests on 3, events
on 4, what cells print on 1 and 2. All that comes out goes to the client in
numbered frames

    kind (1 byte: o, e, v, s)  number (8 bytes)  length (4 bytes)  bytes

and is kept until the client has acknowledged it. The client sends lines

    NUMBER s TEXT    a part of the interpreter's source, in base64
    NUMBER S         the source is whole: start
    NUMBER r TEXT    a part of a request
    NUMBER R TEXT    the last part of one
    NUMBER i         interrupt
    NUMBER a N       frames up to N have arrived
    NUMBER g WORD    say WORD, then all frames again that were not acknowledged
    NUMBER u PATH    remove a file

of which one whose number is not above all before has come already. The end of
the interpreter is a frame s and the end of all processes; so is the end of
input without that frame.
"""
import base64
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time

HEAD = struct.Struct(">cQI")
PIECE = 65536
# Kept for a client that does not answer; then cells wait.
MAX_KEPT = 8 << 20
MAX_QUEUED = 1 << 20
# How long the last frame is offered to a client that may come back.
LAST_S = 30
WATCH_END_ALL = 40
SOURCE_FD = 9
# No -I: packages that were installed for this user are to be found.
BOOT = ("import sys\n"
        "sys.path[:] = [p for p in sys.path if p]\n"
        "p = '/proc/self/fd/%d'\n"
        "with open(p, encoding='utf-8') as f:\n"
        "    c = compile(f.read(), p, 'exec')\n"
        "del f, p\n"
        "exec(c)\n" % SOURCE_FD)


class Relay:
    def __init__(self):
        self.seen = 0
        self.source = []
        self.request = []
        self.input = b""
        self.to_kernel = b""
        self.number = 0
        self.kept = []
        self.n_kept = 0
        self.queue = bytearray()
        self.kernel = None
        self.pipes = {}
        self.requests = None
        self.wake = None
        self.ended = None
        self.synced = False

    # -- to the client --

    def add_frame(self, kind, data):
        self.number += 1
        frame = HEAD.pack(kind, self.number, len(data)) + data
        self.kept.append((self.number, frame))
        self.n_kept += len(frame)
        if self.synced:
            self.queue += frame

    def write(self):
        try:
            n = os.write(1, self.queue[:PIECE])
        except BlockingIOError:
            n = 0
        del self.queue[:n]

    # -- from the client --

    def read(self):
        data = os.read(0, 1 << 18)
        if not data:
            self.end_all()
        *lines, self.input = (self.input + data).split(b"\n")
        for line in lines:
            number, _, rest = line.partition(b" ")
            if number.isdigit() and int(number) > self.seen:
                self.seen = int(number)
                self.take(rest[:1], rest[2:])

    def take(self, kind, text):
        if kind == b"s":
            self.source.append(base64.b64decode(text))
        elif kind == b"S":
            self.start(b"".join(self.source))
            self.source = []
        elif kind == b"r":
            self.request.append(text)
        elif kind == b"R":
            self.to_kernel += b"".join(self.request) + text + b"\n"
            self.request = []
        elif kind == b"i" and self.kernel is not None and self.ended is None:
            try:
                os.killpg(self.kernel.pid, signal.SIGINT)
            except OSError:
                pass
        elif kind == b"a":
            self.forget(int(text))
        elif kind == b"g":
            self.go_on(text)
        elif kind == b"u":
            try:
                os.unlink(text)
            except OSError:
                pass

    def forget(self, number):
        n = 0
        while n < len(self.kept) and self.kept[n][0] <= number:
            self.n_kept -= len(self.kept[n][1])
            n += 1
        del self.kept[:n]

    def go_on(self, word):
        """What is queued was for a stream that is gone; a frame of it may be
        in the pipe in part, and WORD ends that."""
        self.request = []
        self.synced = True
        self.queue = bytearray(word)
        for _, frame in self.kept:
            self.queue += frame

    # -- the interpreter --

    def start(self, source):
        pipes = [os.pipe() for _ in range(4)]
        (out, out_w), (err, err_w), (req_r, req), (events, events_w) = pipes
        try:
            code = os.memfd_create("kernel", 0)
        except (AttributeError, OSError):
            import tempfile
            with tempfile.TemporaryFile() as file:
                code = os.dup(file.fileno())
        os.write(code, source)
        os.lseek(code, 0, os.SEEK_SET)

        def child():
            # Out of the way first: a pipe may itself be one of these.
            ends = [os.dup2(fd, 100 + i) for i, fd in enumerate(
                (out_w, err_w, req_r, events_w, code))]
            for target, fd in zip((1, 2, 3, 4, SOURCE_FD), ends):
                os.dup2(fd, target)
            os.closerange(5, SOURCE_FD)
            os.closerange(SOURCE_FD + 1, 256)
        self.kernel = subprocess.Popen(
            [sys.executable, "-c", BOOT], stdin=subprocess.DEVNULL,
            close_fds=False, preexec_fn=child, start_new_session=True)
        for fd in (out_w, err_w, req_r, events_w, code):
            os.close(fd)
        self.requests = req
        for fd in (out, err, events, req):
            os.set_blocking(fd, False)
        self.pipes = {out: b"o", err: b"e", events: b"v"}
        self.add_frame(b"s", json.dumps(
            {"python": sys.executable}).encode())

    def feed(self):
        try:
            n = os.write(self.requests, self.to_kernel[:PIECE])
        except BlockingIOError:
            n = 0
        except OSError:
            n = len(self.to_kernel)
        self.to_kernel = self.to_kernel[n:]

    def copy(self, fd):
        """Whether there was something; a pipe at its end is forgotten."""
        try:
            data = os.read(fd, PIECE)
        except BlockingIOError:
            return False
        if not data:
            del self.pipes[fd]
            os.close(fd)
            return False
        self.add_frame(self.pipes[fd], data)
        return True

    def copy_all(self, ready):
        """The mark before an event is in the pipes of text before the event is
        in its own: what is in them goes first."""
        events = [fd for fd in ready if self.pipes.get(fd) == b"v"]
        data = [self.read_events(fd) for fd in events]
        for fd in [fd for fd in self.pipes if self.pipes[fd] != b"v"]:
            left = 1 << 20
            while left > 0 and fd in self.pipes and self.copy(fd):
                left -= PIECE
        for piece in data:
            if piece:
                self.add_frame(b"v", piece)

    def read_events(self, fd):
        try:
            data = os.read(fd, PIECE)
        except BlockingIOError:
            return b""
        if not data:
            del self.pipes[fd]
            os.close(fd)
        return data

    def look(self):
        """Whether the interpreter has ended: what it wrote comes first, but
        not what others may go on writing."""
        if self.kernel is None or self.ended is not None \
                or self.kernel.poll() is None:
            return
        for fd in list(self.pipes):
            left = 64
            while left and fd in self.pipes and self.copy(fd):
                left -= 1
        self.pipes = {}
        code = self.kernel.returncode
        self.add_frame(b"s", json.dumps(
            {"signal": -code} if code < 0 else {"exit": code}).encode())
        self.ended = time.monotonic()

    def end_all(self):
        """The watch ends all that it has started, this process too."""
        os.kill(os.getppid(), WATCH_END_ALL)
        time.sleep(10)
        os._exit(1)

    # -- the loop --

    def run(self):
        reader, writer = os.pipe()
        for fd in (reader, writer, 1):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # Not ignored, which the interpreter would inherit.
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM,
                       signal.SIGHUP):
            signal.signal(number, lambda number, frame: None)
        self.wake = reader
        while True:
            self.step()

    def step(self):
        readers = [0, self.wake]
        if self.n_kept < MAX_KEPT and len(self.queue) < MAX_QUEUED:
            readers += self.pipes
        writers = [1] if self.queue else []
        if self.to_kernel:
            writers.append(self.requests)
        ready, free, _ = select.select(readers, writers, [],
                                       1 if self.ended else None)
        if self.wake in ready:
            try:
                os.read(self.wake, 4096)
            except BlockingIOError:
                pass
        if 0 in ready:
            self.read()
        if self.requests in free:
            self.feed()
        if any(fd in self.pipes for fd in ready):
            self.copy_all(ready)
        if 1 in free and self.queue:
            self.write()
        self.look()
        if self.ended is not None and (
                not self.kept or time.monotonic() - self.ended > LAST_S):
            self.end_all()


if __name__ == "__main__":
    Relay().run()
