# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the kernel that runs once, before "ready": how requests are
read, the threads that watch for the end of the client and for signals, the
descriptors, and the names that cells find; then what is imported ahead. No
triple single quotes in this file; see part() in local_kernel.py.
"""
import _thread
import builtins
import os
import resource
import select
import signal
import sys
import time

import sandpiper_kernel as kernel
from sandpiper_kernel import (
    HELD, LIBRARIES, MIB, S, leave, modules, on_sigint, pthread_sigmask, refuse)

IDLE_SECONDS = 0.3
PRELOAD_BYTES = 512 * MIB


def is_of_a_handler(error):
    """A cell's handler of a signal may raise TimeoutError while a call of ours
    waits. What the system says has a number."""
    return error.errno is None


class Requests:
    """The lines that come in on descriptor 3, read by the main thread when it
    has nothing else to do. Names are bound early, out of the reach of cells."""

    def __init__(self):
        self.fds = (3, 4)
        self.tickets = -1
        self.ticket = None
        self.lines = []
        self.rest = []
        self.poll = select.poll()
        self.poll.register(3, select.POLLIN)

    def read(self, read=os.read, end=leave):
        """Waits for bytes. Their end is the end of the process."""
        try:
            data = read(3, 1 << 16)
        except OSError as error:
            if is_of_a_handler(error):
                raise
            data = b""
        if not data:
            end(0)
        first, *more = data.split(b"\n")
        self.rest.append(first)
        if not more:
            return
        more.insert(0, b"".join(self.rest))
        self.rest = [more.pop()]
        self.lines += more

    def take(self, wait=None):
        """The next line; None if none comes for so many seconds. One that has
        come in part is waited for."""
        while not self.lines:
            if wait is not None and not any(self.rest) \
                    and not self.poll.poll(wait * 1000):
                return None
            self.read()
        return self.lines.pop(0)

    def take_tickets(self, fd):
        """From now on a cell needs one."""
        os.set_inheritable(fd, False)
        self.fds += (fd,)
        self.tickets = fd

    def may_begin(self, request_id, read=os.read, end=leave,
                  number=int.from_bytes, order=sys.byteorder):
        """Whether the client has not given the cell up. Either side can take
        its ticket, its number in a pipe that both read, and one does. One of
        a later cell is kept for that."""
        if self.tickets < 0:
            return True
        try:
            self.ticket = number(read(self.tickets, 8), order)
        except BlockingIOError:
            pass
        except OSError as error:
            if is_of_a_handler(error):
                raise
            end(0)
        return self.ticket == request_id


def watch_client(end=leave):
    """Ends the process as soon as the client is gone, also while a cell runs.
    Bytes that come in do not wake it."""
    poll = select.poll()
    poll.register(3, 0)
    poll.poll()
    end(0)


def watch_signals(fd, read=os.read, sleep=time.sleep, now=time.monotonic,
                  getsignal=signal.getsignal, again=signal.pthread_kill):
    """Python runs a handler between two instructions. When SIGINT comes after
    the last look and just before a call that waits, as time.sleep does, it is
    noticed only when the call returns; a second one breaks it off. That must
    not reach the cell behind the one that was meant: each takes out of the pipe
    what was of the one before and counts then, and here the count is looked at
    before the pipe is read."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        poll.poll()
        n_begun = S.n_begun
        try:
            data = read(fd, 64)
        except BlockingIOError:
            continue
        except OSError:
            data = b""
        # A cell has closed one end of the pipe.
        if not data:
            return
        if signal.SIGINT in data:
            came = now() - 0.005
            sleep(0.05)
            if S.in_cell and S.n_begun == n_begun and S.signal_time < came \
                    and getsignal(signal.SIGINT) is on_sigint:
                again(S.main, signal.SIGINT)


def after_fork_in_child():
    """Children must not hold the client's pipes, nor go on as the kernel."""
    S.child = True
    signal.set_wakeup_fd(-1)
    for fd in S.requests.fds:
        try:
            os.close(fd)
        except OSError:
            pass


def protect_process():
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    # The client forbids core dumps by a limit of 1; where the hard limit was
    # 0 already, a core_pattern that is a pipe is only stopped this way.
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        try:
            import ctypes
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        except Exception:
            pass


def find_libraries():
    """Versions by the names of the metadata directories: importlib.metadata
    would take longer than everything else here together."""
    wanted = {name.lower(): name for name in LIBRARIES}
    wanted.update({"scikit_learn": "sklearn", "pillow": "PIL"})
    found = dict.fromkeys(LIBRARIES)
    for path in sys.path:
        try:
            entries = os.listdir(path)
        except OSError:
            continue
        for entry in entries:
            if entry.endswith((".dist-info", ".egg-info")):
                name, _, version = entry.rpartition(".")[0].partition("-")
                name = wanted.get(name.lower().replace("-", "_"))
                if name and found[name] is None:
                    found[name] = version.partition("-")[0]
    return found


def new_function(*args):
    """Named in snapshots."""
    return kernel.part("vars").new_function(*args)


def fill_function(*args):
    """Named in snapshots."""
    kernel.part("vars").fill_function(*args)


def remove_file(path):
    """path is relative to the workspace."""
    os.unlink(os.path.join(S.workspace, path))


def leave_as_it_is(path, *_, dir_fd=None, follow_symlinks=True, **__):
    """Without mounts of the sandbox's own, modes and times of files cannot be
    changed: any file that can be read may be the user's. What copies or unpacks
    files sets those of new ones, and is not to fail of it."""
    os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    ours = tuple(place + "/" for place in (S.workspace, os.environ["HOME"]))
    if isinstance(path, int) or dir_fd is not None or \
            not os.path.realpath(os.fsdecode(path)).startswith(ours):
        raise PermissionError(1, os.strerror(1), path)


def prepare_cells(user):
    """The module __main__ of the cells, and the builtins they get."""
    user.__builtins__ = builtins
    modules["__main__"] = user
    S.namespace = user.__dict__
    tools = type(sys)("sandpiper", "Tools of the sandpiper kernel.")
    tools.save_table = kernel.save_table
    tools.remove_file = remove_file
    for function in (new_function, fill_function):
        function.__module__ = "sandpiper"
        setattr(tools, function.__name__, function)
    modules["sandpiper"] = tools
    builtins.display = kernel.display
    builtins.get_ipython = kernel.get_ipython
    builtins.input = refuse("input()")
    builtins.exit = builtins.quit = kernel.end_cell
    for name in ("display", "get_ipython", "input", "exit", "quit"):
        kernel.__builtins__[name] = getattr(builtins, name)
    sys.breakpointhook = refuse("breakpoint()", "Print the values instead.")
    os.system = kernel.system
    if "SANDPIPER_WORKSPACE" in os.environ:
        os.chmod = os.utime = leave_as_it_is
    sys.argv = [""]
    # What lies below these is no code of the user's.
    S.paths = (os.path.dirname(os.__file__),) + tuple(
        path for path in sys.path if path)
    # The client starts the interpreter in the workspace.
    S.workspace = os.getcwd()
    # Of scripts, whatever cells do to theirs.
    S.python = sys.executable
    S.umask = os.umask(0o77)
    os.umask(S.umask)
    sys.path.append(S.workspace)
    sys.meta_path.insert(0, kernel.Watcher)
    sys.meta_path.append(kernel.StandIn)
    os.environ.setdefault("MPLBACKEND", "agg")
    S.environ = dict(os.environ)


def prepare_descriptors():
    import fcntl
    for fd in (3, 4):
        os.set_inheritable(fd, False)
    # Spares: a cell may close 0 to 2, or let them point elsewhere.
    for fd in (0, 1, 2):
        S.spare[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
        S.files[fd] = kernel.file_of(fd)
    for fd, stream in ((1, sys.stdout), (2, sys.stderr)):
        S.streams[fd] = stream
        if stream is not None:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace",
                               line_buffering=True)
    os.register_at_fork(after_in_child=after_fork_in_child)
    # The source, where it has no name.
    if kernel.HERE.startswith("/proc/self/fd/"):
        os.close(int(kernel.HERE[len("/proc/self/fd/"):]))


def start_threads():
    """With all signals blocked there, they reach the main thread, whose
    waiting they must break off."""
    waking, wake = os.pipe()
    for fd in (waking, wake):
        os.set_blocking(fd, False)
    S.waking, S.files["waking"] = waking, kernel.file_of(waking)
    S.requests = Requests()
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    S.base_mask = pthread_sigmask(signal.SIG_BLOCK, HELD)
    _thread.stack_size(1 << 18)
    _thread.start_new_thread(watch_client, ())
    _thread.start_new_thread(watch_signals, (waking,))
    _thread.stack_size(0)
    pthread_sigmask(signal.SIG_SETMASK, S.base_mask)


def limit_processes(n):
    """Set in here and not by the client: the count is per user namespace."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard != resource.RLIM_INFINITY:
        n = min(n, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (n, n))


def memory_is_short():
    """Whether there is too little for libraries that may not be needed."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < PRELOAD_BYTES:
        return True
    try:
        with open("/proc/meminfo", "rb") as file:
            found = file.read().partition(b"MemAvailable:")[2].split()
        return int(found[0]) * 1024 < PRELOAD_BYTES
    except (OSError, ValueError, IndexError):
        return False


def plan_preload(names, tty):
    """Steps (function, seconds without a request before it). Importing pyplot
    is long and cannot be broken off, so it waits for a quiet moment."""
    if memory_is_short():
        return
    steps = []
    quiet = 0 if tty else IDLE_SECONDS
    for name in sorted(names, key=lambda n: str(n).startswith("matplotlib")):
        wait = quiet if str(name).startswith("matplotlib") else 0
        steps.append((lambda name=name: __import__(name), wait))
    if "matplotlib.pyplot" in names:
        steps.append((lambda: kernel.part("show").warm_figure(), 0))
    if "pandas" in names:
        steps.append((lambda: kernel.part("show").warm_frame(), 0))
    S.steps = S.steps + steps


def run():
    protect_process()
    prepare_descriptors()
    start_threads()
    S.libraries = find_libraries()
    prepare_cells(type(sys)("__main__"))
