#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures how a streamed answer gets to the screen, beside `curl -N`.

    bench_screen.py [--runs N] [--seconds N]

The program and curl run on a pseudo-terminal, in turn, against a server of
this machine.  First one piece of text at a time is sent, the next when the
last one is on the screen; then 10,000 pieces a second.  SANDPIPER names the
program, else ./sandpiper is taken.
"""

import argparse
import os
import pty
import select
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time

PROGRAM = os.path.abspath(os.environ.get("SANDPIPER", "./sandpiper"))
HEAD = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
BEGIN = (b'event: message_start\ndata: {"type":"message_start","message":'
         b'{"id":"msg_1","type":"message","role":"assistant","model":"m",'
         b'"content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
         b'event: content_block_start\ndata: {"type":"content_block_start",'
         b'"index":0,"content_block":{"type":"text","text":""}}\n\n')
END = (b'event: content_block_stop\ndata: {"type":"content_block_stop",'
       b'"index":0}\n\n'
       b'event: message_delta\ndata: {"type":"message_delta","delta":'
       b'{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}\n\n'
       b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
RATE = 10000


def delta(text):
    return (b'event: content_block_delta\ndata: {"type":'
            b'"content_block_delta","index":0,"delta":{"type":"text_delta",'
            b'"text":"%s"}}\n\n' % text)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server:
    """Answers one request after the other; a child process."""

    def __init__(self, answer):
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.sock.getsockname()[1]
        self.near, far = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.near.close()
                self._serve(answer, far)
            finally:
                os._exit(0)
        far.close()

    def _serve(self, answer, control):
        while True:
            conn, _ = self.sock.accept()
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._read_request(conn)
            conn.sendall(HEAD + chunk(BEGIN))
            answer(conn, control)
            conn.sendall(chunk(END) + b"0\r\n\r\n")
            conn.close()

    @staticmethod
    def _read_request(conn):
        data = b""
        while b"\r\n\r\n" not in data:
            data += conn.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(body) < length:
            body += conn.recv(65536)

    def close(self):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        self.near.close()
        self.sock.close()


def one_by_one(conn, control):
    """Each piece when it is asked for."""
    while True:
        text = control.recv(64)
        if text == b"end":
            return
        conn.sendall(chunk(delta(text)))


def at_a_rate(seconds):
    def answer(conn, control):
        start = time.monotonic()
        sent = 0
        total = int(seconds * RATE)
        while sent < total:
            due = min(int((time.monotonic() - start) * RATE), total)
            while sent < due:
                conn.sendall(chunk(delta(b"word%05d%s" % (
                    sent, b"\\n" if sent % 8 == 7 else b" "))))
                sent += 1
            time.sleep(0.00002)
    return answer


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, argv, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, env)
        self.seen = b""

    def until(self, text, limit=30):
        end = time.monotonic() + limit
        while text not in self.seen:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise SystemExit("no %r in %r" % (text, self.seen[-2000:]))
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                raise SystemExit("ended before %r: %r" % (
                    text, self.seen[-2000:]))
            # No sequence stands within a word.
            self.seen = (self.seen + data)[-65536:]

    def cpu_seconds(self):
        """Of all threads; exact, where ticks would miss short ones."""
        total = 0
        for task in os.listdir("/proc/%d/task" % self.pid):
            with open("/proc/%d/task/%s/schedstat" % (self.pid, task)) as f:
                total += int(f.read().split()[0])
        return total / 1e9

    def close(self):
        os.kill(self.pid, signal.SIGTERM)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def start_mine(url, home):
    env = {"PATH": "/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8",
           "TERM": "xterm-256color", "INPUTRC": "/dev/null",
           "ANTHROPIC_API_KEY": "sk-bench-0123456789",
           "ANTHROPIC_BASE_URL": url}
    term = Terminal([PROGRAM], env)
    term.until(b"> ")
    os.write(term.fd, b"go on\r")
    return term


def start_curl(url, home):
    del home
    return Terminal([shutil.which("curl"), "-sN", "-d", "{}", url],
                    {"PATH": "/usr/bin:/bin"})


def delays(start, server, home, count):
    """Seconds from sending a piece to its being on the screen."""
    term = start(server.url, home)
    took = []
    try:
        for i in range(count + 10):
            word = b"word%05d " % i
            begin = time.perf_counter()
            server.near.send(word)
            term.until(word.strip())
            if i >= 10:
                took.append(time.perf_counter() - begin)
            # Not in a burst.
            time.sleep(0.007)
        server.near.send(b"end")
    finally:
        term.close()
    return took


def busy(start, server, home, seconds):
    """The part of a core that RATE pieces a second take."""
    term = start(server.url, home)
    try:
        term.until(b"word00000")
        before, begin = term.cpu_seconds(), time.monotonic()
        term.until(b"word%05d" % (int(seconds * RATE) - 1), 10 * seconds + 30)
        took = time.monotonic() - begin
        used = term.cpu_seconds() - before
    finally:
        term.close()
    return used / seconds, took


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    args = parser.parse_args()
    if not shutil.which("curl"):
        raise SystemExit("curl is not installed")
    home = tempfile.mkdtemp(prefix="sandpiper-bench-")
    os.chmod(home, 0o700)
    good = True
    try:
        server = Server(one_by_one)
        mine, peer = [], []
        try:
            for _ in range(args.runs):
                mine += delays(start_mine, server, home, 100)
                peer += delays(start_curl, server, home, 100)
        finally:
            server.close()
        a, b = statistics.median(mine), statistics.median(peer)
        print("| one piece, sent to shown | %.2f ms | `curl -N` %.2f ms | "
              "**%.2f** | at most 1 ms more |" % (a * 1e3, b * 1e3, a / b))
        good &= a - b <= 1e-3
        server = Server(at_a_rate(args.seconds))
        mine, peer, times = [], [], []
        try:
            for _ in range(args.runs):
                used, took = busy(start_mine, server, home, args.seconds)
                mine.append(used)
                times.append(took)
                peer.append(busy(start_curl, server, home, args.seconds)[0])
        finally:
            server.close()
        a, b = statistics.median(mine), statistics.median(peer)
        print("| 10,000 pieces a second, of a core | %.0f %% | `curl -N` "
              "%.0f %% | **%.2f** | at most 30 %% |" % (
                  a * 100, b * 100, a / b))
        print("| shown whole after %g s of them | %.2f s | | | |" % (
            args.seconds, statistics.median(times)))
        good &= a <= 0.3
    finally:
        shutil.rmtree(home)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
