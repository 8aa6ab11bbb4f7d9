# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that envd of the fake has started, and who listens to them."""

import base64
import os
import queue
import signal
import subprocess
import threading
import time

PIECE = 32 * 1024
KEPT_S = 30

# A program that is missing ends with a line on its standard error and with
# 127, since it is started by a wrapper.
WRAPPER = ["/bin/sh", "-c", 'exec "$@"', "envd"]


class Listener:
    """One stream that gets the events of a process from now on."""

    def __init__(self, process, owner):
        self.process = process
        self.owner = owner
        self.events = queue.Queue()

    def next(self, timeout):
        try:
            return self.events.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self):
        with self.process.lock:
            if self in self.process.listeners:
                self.process.listeners.remove(self)


class Process:
    def __init__(self, cmd, args, env, cwd, stdin, config, tag):
        self.config = config
        self.tag = tag
        self.lock = threading.Lock()
        self.listeners = []
        self.end = None
        self.ended_at = None
        self.child = subprocess.Popen(
            WRAPPER + [cmd] + args, env=env, cwd=cwd,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.pid = self.child.pid

    def begin(self):
        readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                   for pair in (("stdout", self.child.stdout),
                                ("stderr", self.child.stderr))]
        for reader in readers:
            reader.start()
        threading.Thread(target=self.finish, args=(readers,),
                         daemon=True).start()

    def listen(self, owner=False):
        listener = Listener(self, owner)
        with self.lock:
            listener.events.put({"start": {"pid": self.pid}})
            if self.end is not None:
                listener.events.put({"end": self.end})
            else:
                self.listeners.append(listener)
        return listener

    def tell(self, event):
        with self.lock:
            if "end" in event:
                self.end = event["end"]
                self.ended_at = time.monotonic()
            for listener in self.listeners:
                listener.events.put(event)

    def read(self, name, stream):
        while True:
            data = os.read(stream.fileno(), PIECE)
            if not data:
                break
            self.tell({"data": {name: base64.b64encode(data).decode()}})
        stream.close()

    def finish(self, readers):
        """The end is told once the output is closed, too."""
        status = self.child.wait()
        self.close_stdin()
        for reader in readers:
            reader.join()
        self.tell({"end": end_of(status)})

    @property
    def is_running(self):
        return self.child.poll() is None

    def signal(self, number):
        try:
            self.child.send_signal(number)
        except ProcessLookupError:
            pass

    def feed(self, data):
        stdin = self.child.stdin
        if stdin is None or stdin.closed:
            return False
        try:
            view = memoryview(data)
            while view:
                view = view[stdin.write(view):]
        except (BrokenPipeError, ValueError):
            return False
        return True

    def close_stdin(self):
        if self.child.stdin is not None:
            try:
                self.child.stdin.close()
            except OSError:
                pass


def end_of(status):
    """The end event of a process, without what is zero or false."""
    if status < 0:
        name = signal.strsignal(-status)
        text = "signal: " + (name or str(-status)).lower()
        return {"exitCode": -1, "status": text, "error": text}
    text = "exit status %d" % status
    end = {"exited": True, "status": text}
    if status:
        end = {"exitCode": status, "exited": True, "status": text,
               "error": text}
    return end


class Processes:
    def __init__(self):
        self.all = []
        self.lock = threading.Lock()

    def add(self, process):
        with self.lock:
            now = time.monotonic()
            self.all = [p for p in self.all if p.ended_at is None
                        or now - p.ended_at < KEPT_S]
            self.all.append(process)

    def running(self):
        with self.lock:
            return [p for p in self.all if p.is_running]

    def find(self, pid, tag, ended=False):
        """The process that was started last of those with this tag."""
        now = time.monotonic()
        with self.lock:
            for process in reversed(self.all):
                if process.pid != pid and (tag is None
                                           or process.tag != tag):
                    continue
                if process.is_running or ended and (
                        process.ended_at is None
                        or now - process.ended_at < KEPT_S):
                    return process
        return None
