# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a program in a sandbox so that it can be ended with all that it has
started, whatever session that is in, and ends it at a time limit although
nobody may be there any more.

    python3 -c THIS LIMIT_MS TAKES_INPUT PROGRAM [ARGUMENT ...]

It ends as the program does, by the same exit status or signal; at the limit by
SIGALRM, and then with status 142 if the program itself ended by that. Signals
go on to the program's process group; 40 ends all processes.

What the program leaves behind when it ends by itself lives on: it has pipes of
its own, which somebody goes on reading, so that the end of the program can be
told at once.
"""
import fcntl
import os
import resource
import select
import signal
import struct
import sys
import termios
import time

END_ALL = 40
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGTERM, signal.SIGCONT, signal.SIGWINCH)
# Without those of the C library's own.
ALL = set(range(1, signal.NSIG)) - {32, 33}
PIECE = 32768
# How long what cannot be killed is waited for.
PATIENCE_S = 5
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """What loses its parent becomes a child of this process."""
    try:
        import ctypes
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except Exception:
        pass


def descendants():
    """Of this process; what has ended already is left out."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as stream:
                    words = stream.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if words[0] not in (b"Z", b"X"):
                parents[int(name)] = int(words[1])
    found = set()
    last = {os.getpid()}
    while last:
        last = {pid for pid, parent in parents.items()
                if parent in last and pid not in found}
        found |= last
    return found


def send(function, pid, number):
    try:
        function(pid, number)
    except OSError:
        pass


class Watch:
    def __init__(self, limit_ms, takes_input, argv):
        self.limit_ms = limit_ms
        self.takes_input = takes_input
        self.argv = argv
        self.child = None
        self.status = None
        self.cause = None
        self.wake = None

    # -- the program --

    def begin(self):
        out, err = os.pipe(), os.pipe()
        self.child = os.fork()
        if self.child == 0:
            try:
                self.become(out, err)
            finally:
                os._exit(127)
        os.close(out[1])
        os.close(err[1])
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        return {out[0]: 1, err[0]: 2}

    def become(self, out, err):
        os.setsid()
        os.dup2(out[1], 1)
        os.dup2(err[1], 2)
        if not self.takes_input:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.closerange(3, 256)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, END_ALL, signal.SIGCHLD,
                       signal.SIGALRM, *PASSED_ON):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            os.execvp(self.argv[0], self.argv)
        except OSError as error:
            os.write(2, ("%s: %s\n" % (self.argv[0], error.strerror)).encode(
                "utf-8", "surrogateescape"))
            os._exit(126 if isinstance(error, PermissionError) else 127)

    # -- signals: in handlers, since writing may block for ever --

    def listen(self):
        reader, writer = os.pipe()
        for fd in (reader, writer):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self.wake = reader
        for number in PASSED_ON:
            signal.signal(number, self.on_signal)
        signal.signal(END_ALL, self.on_end_all)
        signal.signal(signal.SIGALRM, self.on_limit)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def on_signal(self, number, _frame):
        if self.status is None:
            send(os.killpg, self.child, number)

    def on_end_all(self, _number, _frame):
        self.end_all(signal.SIGKILL)

    def on_limit(self, _number, _frame):
        self.end_all(signal.SIGALRM)

    def end_all(self, cause):
        """Again until there are none: they may start more meanwhile."""
        if self.cause is None and self.status is None:
            self.cause = cause
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = descendants()
            if not found:
                return
            for pid in found:
                send(os.kill, pid, signal.SIGKILL)
            time.sleep(0.01)

    def collect(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.status = status

    # -- output --

    def copy(self, fd, to, most=PIECE):
        """How much there was; 0 at the end."""
        data = os.read(fd, most)
        view = memoryview(data)
        while view:
            view = view[os.write(to, view):]
        return len(data)

    def run(self):
        adopt_orphans()
        try:
            os.setsid()
        except OSError:
            pass
        signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
        pipes = self.begin()
        self.listen()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if self.limit_ms > 0:
            signal.setitimer(signal.ITIMER_REAL, self.limit_ms / 1000)
        try:
            self.follow(dict(pipes))
        except OSError:
            # Nobody reads what is written here.
            pass
        while self.status is None:
            self.collect()
            if self.status is None:
                select.select([self.wake], [], [], 1)
                self.clear()
        self.leave(pipes)
        self.end()

    def follow(self, pipes):
        while self.status is None:
            ready = select.select([self.wake, *pipes], [], [])[0]
            self.clear()
            for fd in ready:
                if fd in pipes and self.copy(fd, pipes[fd]) == 0:
                    del pipes[fd]
            self.collect()
        for fd, to in pipes.items():
            # All that it has written; what others go on writing has no end.
            count = fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4)
            left = struct.unpack("i", count)[0]
            while left > 0:
                left -= self.copy(fd, to, min(left, PIECE))

    def clear(self):
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            pass

    def leave(self, pipes):
        """What is left behind may go on writing, to nobody."""
        if not descendants() or os.fork() != 0:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        for number in (*PASSED_ON, END_ALL, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        pipes = set(pipes)
        while pipes:
            for fd in select.select(list(pipes), [], [])[0]:
                if not os.read(fd, PIECE):
                    pipes.discard(fd)
        os._exit(0)

    # -- the end --

    def end(self):
        """As the program has ended."""
        number = 0
        if os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
        if number == signal.SIGALRM:
            os._exit(128 + number)
        if self.cause is not None:
            number = self.cause
        if number:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            os.kill(os.getpid(), number)
            os._exit(128 + number)
        os._exit(os.WEXITSTATUS(self.status))


if __name__ == "__main__":
    # What -c and its text are, and all behind them.
    Watch(int(sys.argv[1]), sys.argv[2] == "1", sys.argv[3:]).run()
