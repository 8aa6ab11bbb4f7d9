# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives a sandbox through sandbox_driver, for tests of the back end alone.

    with Sandbox("put=/tmp/x.csv") as sb:
        r = sb.cell("print(1)")
        r.stdout, r.stderr, r.outcome, r.outputs, r.notes, r.error, ...
        sb.script(["/bin/cat", "f"], {"f": "text"})  # as cell; exit, signal
        sb.attack("ACCESS...")       # runs with PRELUDE; returns report(...)'s
        sb.list()                    # {name: file}, and sb.left_out
        sb.get("chart.png")          # (end, message, bytes)
        sb.descendants()

Each looks, after each attack and at its end, whether anything has changed
outside (host_check.py). open_session() is the same at the level of isolation
that SANDBOX_LEVEL names, if it is set.

The driver is SANDBOX_DRIVER, else tests/helpers/sandbox_driver in the build
tree. sb.events holds all that it said; nothing is waited for by sleeping.
"""

import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake_kernel  # noqa: E402
import tap  # noqa: E402
from host_check import HostCheck, fresh_uid  # noqa: E402
from processes import descendants_of, process_table  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
LANDLOCK_CREATE_RULESET = 444

def driver_path():
    if os.environ.get("SANDBOX_DRIVER"):
        return os.path.abspath(os.environ["SANDBOX_DRIVER"])
    build = os.environ.get("abs_top_builddir", ".")
    return os.path.abspath(os.path.join(build, "tests", "helpers",
                                        "sandbox_driver"))


def warden_path():
    return os.path.abspath(os.environ.get("SANDPIPER_WARDEN") or os.path.join(
        os.environ.get("abs_top_builddir", "."), "sandpiper-warden"))


def landlock_abi():
    """The level reduced needs 6."""
    return ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)


def wait_until(ready, timeout, what, step=0.01):
    """Polls what gives no event (the process table); the true value."""
    deadline = time.monotonic() + timeout * tap.FACTOR
    while True:
        value = ready()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("%s: not within %g s" % (what, timeout))
        select.select([], [], [], step)


# What must be refused without namespaces too.
REDUCED = frozenset(
    [1, 2, 3, 5, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33,
     34, 36, 37, 38, 40, 42, 45, 46, 47, 48, 49, 50, 52, 53, 54, 55, 56, 57,
     58, 59, 60, 61, 62])


def level():
    """Of sandboxes that name none: "full" or "reduced". At the latter there is
    no /workspace, so that name stands for the real one in the code of cells."""
    return os.environ.get("SANDBOX_LEVEL") or "full"


def attack(*numbers):
    """Marks a test with the numbers of the attacks that it tries (the list
    is in docs/testing.md); tests/lint/attacks.sh looks for them."""
    def mark(function):
        function.attacks = numbers
        return function
    return mark


def peak_mib(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


# For cells that write events themselves, as the interpreter would.
FORGE = r"""
import json, os, sys
def forge(**event):
    os.write(4, json.dumps(event).encode() + b"\n")
def kernel():
    for frame in list(sys._current_frames().values()):
        while frame:
            s = frame.f_globals.get("S")
            if hasattr(s, "nonce"):
                return s
            frame = frame.f_back
me = kernel().id
assert me > 0
"""


# Helpers for cells that attack. An attack says what it got: report(name,
# value) lines are collected by Sandbox.attack().
PRELUDE = r'''
import ctypes, errno, json, os, platform, signal, stat, sys
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
def report(name, value):
    sys.stdout.write("\n@@" + json.dumps([name, value]) + "\n")
    sys.stdout.flush()
def code_of(number):
    return errno.errorcode.get(number, str(number))
def outcome(function, *args):
    """The name of the error, or "ok: VALUE"."""
    try:
        value = function(*args)
    except OSError as exc:
        return code_of(exc.errno) if (exc.errno or 0) > 0 \
            else type(exc).__name__
    except Exception as exc:
        return type(exc).__name__
    return "ok: %r" % (value,)
def pids():
    """Those that can be seen."""
    try:
        return [p for p in os.listdir("/proc") if p.isdigit()]
    except OSError:
        return [str(os.getpid())]
def call(number, *args):
    """A raw system call in a child of its own: the sandbox goes on whatever
    it does. Returns the name of the error, "ok", or "signal N"."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.set_errno(0)
        words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
        value = _libc.syscall(ctypes.c_long(number), *words)
        text = "ok" if value != -1 else code_of(ctypes.get_errno())
        os.write(w, text.encode())
        os._exit(0)
    os.close(w)
    text = os.read(r, 100).decode()
    os.close(r)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "signal %d" % os.WTERMSIG(status)
    return text
X86 = platform.machine() == "x86_64"
NR = dict(
    socket=(41, 198), socketpair=(53, 199), clone=(56, 220),
    ptrace=(101, 117), unshare=(272, 97), setns=(308, 268),
    clone3=(435, 435), mount=(165, 40), umount2=(166, 39),
    pivot_root=(155, 41), chroot=(161, 51), open_tree=(428, 428),
    move_mount=(429, 429), fsopen=(430, 430), fsmount=(432, 432),
    fspick=(433, 433), mount_setattr=(442, 442), bpf=(321, 280),
    perf_event_open=(298, 241), add_key=(248, 217), request_key=(249, 218),
    keyctl=(250, 219), io_uring_setup=(425, 425), io_uring_enter=(426, 426),
    io_uring_register=(427, 427), userfaultfd=(323, 282),
    vmsplice=(278, 75), memfd_create=(319, 279), memfd_secret=(447, 447),
    name_to_handle_at=(303, 264), open_by_handle_at=(304, 265),
    fanotify_init=(300, 262), inotify_init1=(294, 26),
    process_vm_readv=(310, 270), process_vm_writev=(311, 271),
    pidfd_getfd=(438, 438), kcmp=(312, 272), init_module=(175, 105),
    finit_module=(313, 273), delete_module=(176, 106), kexec_load=(246, 104),
    kexec_file_load=(320, 294), process_madvise=(440, 440),
    process_mrelease=(448, 448), fsconfig=(431, 431), statmount=(457, 457),
    listmount=(458, 458), fanotify_mark=(301, 263), adjtimex=(159, 171),
    clock_adjtime=(305, 266), vhangup=(153, 58), ioctl=(16, 29),
    prctl=(157, 167), setrlimit=(160, 164), prlimit64=(302, 261),
    linkat=(265, 37), fchmodat2=(452, 452), pidfd_open=(434, 434),
    move_pages=(279, 239), quotactl_fd=(443, 443),
    reboot=(169, 142), swapon=(167, 224), swapoff=(168, 225),
    syslog=(103, 116), acct=(163, 89), settimeofday=(164, 170),
    clock_settime=(227, 112), sethostname=(170, 161),
    setdomainname=(171, 162), seccomp=(317, 277), personality=(135, 92),
    shmget=(29, 194), msgget=(68, 186), semget=(64, 190), mq_open=(240, 180),
    openat2=(437, 437), mknodat=(259, 33), quotactl=(179, 60))
def nr(name):
    return NR[name][0 if X86 else 1]
'''


def open_session(*options, **more):
    """A Sandbox at the level that is asked for."""
    return Sandbox(*options, **more)


class Cell:
    """What one run_cell gave."""

    def __init__(self):
        self.stdout = ""
        self.stderr = ""
        self.outputs = []
        self.notes = []
        self.end = None

    def __repr__(self):
        return "Cell(%s)" % json.dumps(self.__dict__, default=str)[:3000]

    @property
    def text(self):
        return self.stdout + self.stderr


_uids = []
_open = []


def cell_uid():
    """Root's cells of one test program are those of one fresh user, so that
    its processes can be counted."""
    if os.getuid() != 0:
        return os.getuid()
    if not _uids:
        _uids.append(fresh_uid())
    return _uids[0]


class Sandbox:
    """host: a HostCheck of the caller's; else one is made."""

    def __init__(self, *options, env=None, prefix=(), timeout=30, uid=None,
                 host=None, pass_fds=(), level=None):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.timeout = timeout
        self.level = level or os.environ.get("SANDBOX_LEVEL") or "full"
        if os.getuid() == 0 and uid is None and not any(
                o.startswith(("uid=", "parent=")) for o in options):
            options = ("uid=%d" % cell_uid(),) + options
        self.own_host = host is None
        self.host = host or HostCheck(cell_uid())
        self.dir = tempfile.mkdtemp(prefix="sb-")
        self.parent = os.path.join(self.dir, "parent")
        os.mkdir(self.parent, 0o711)
        os.chmod(self.dir, 0o711)
        self.events = []
        self._buffer = b""
        self._open_event = None
        self.left_out = 0
        full = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                "HOME": self.dir, "TMPDIR": self.dir}
        if self.level != "full":
            options += ("level=" + self.level,)
            # The limit of processes counts whatever the user runs.
            if os.getuid() == 0 and not any(o.startswith("uid=")
                                            for o in options):
                options += ("uid=%d" % (40000 + os.getpid() % 4000),)
            full["SANDPIPER_WARDEN"] = warden_path()
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                full[name] = os.environ[name]
        full.update(env or {})
        argv = list(prefix) + [driver_path()] + \
            ["parent=" + self.parent] + list(options)
        if uid is not None:
            argv = ["setpriv", "--reuid", str(uid), "--regid", str(uid),
                    "--clear-groups", "--"] + argv
            os.chown(self.parent, uid, uid)
        try:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=full,
                start_new_session=True, pass_fds=pass_fds)
        except OSError:
            shutil.rmtree(self.dir)
            self.host.close()
            raise
        _open.append(self)
        os.set_blocking(self.process.stdout.fileno(), False)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def descendants(self):
        return descendants_of(self.process.pid)

    def close(self):
        if self not in _open:
            return
        _open.remove(self)
        below = self.descendants()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        # Not killed before that: who ends the others would be among them.
        try:
            wait_until(lambda: not self._reap(below), 20, "the sandbox ends")
        finally:
            for pid in self._reap(below):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        shutil.rmtree(self.dir, ignore_errors=True)
        try:
            self.host.check_end(alone=not _open)
        finally:
            if self.own_host:
                self.host.close()

    @staticmethod
    def _reap(pids):
        """Which of pids still run; orphans of ours are collected."""
        left = []
        for pid in pids:
            try:
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                pass
            if process_table().get(pid, (0, "X", 0))[1] not in "ZX":
                left.append(pid)
        return left

    # -- talking --

    def request(self, **fields):
        self.process.stdin.write(json.dumps(fields).encode() + b"\n")
        self.process.stdin.flush()

    def next_event(self, timeout):
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError("the driver is silent; last: %s"
                                     % self.events[-5:])
            if not select.select([self.process.stdout], [], [], left)[0]:
                continue
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise AssertionError("the driver ended with %s; last: %s" % (
                    self.process.wait(), self.events[-5:]))
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        event = json.loads(line.decode("utf-8"))
        self.events.append(event)
        if event["event"] == "open":
            self._open_event = event
        return event

    def wait(self, kind, timeout=None, **fields):
        """The next event of that kind."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            event = self.next_event(max(0.01, deadline - time.monotonic()))
            if event["event"] == kind and all(
                    event.get(k) == v for k, v in fields.items()):
                return event

    def opened(self):
        """Also where a test has cleared events since."""
        return self._open_event or self.wait("open")

    def start_cell(self, code, timeout_ms=None, silent=False):
        if self.level == "reduced":
            self.opened()
            code = re.sub(r"(?<![\w.])/workspace\b",
                          lambda _: self.workspace(), code)
        fields = {"op": "cell", "code": code, "silent": silent}
        if timeout_ms is not None:
            fields["timeout_ms"] = timeout_ms
        self.request(**fields)

    def finish_cell(self, timeout=None):
        cell = Cell()
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            event = self.next_event(max(0.01, deadline - time.monotonic()))
            kind = event["event"]
            if kind == "bytes" and event["stream"] == "stdout":
                cell.stdout += event["text"]
            elif kind == "bytes":
                cell.stderr += event["text"]
            elif kind == "output":
                cell.outputs.append(event)
            elif kind == "note":
                cell.notes.append(event)
            elif kind in ("cell", "script"):
                cell.__dict__.update(event)
                return cell

    def cell(self, code, timeout_ms=None, timeout=None, silent=False):
        self.start_cell(code, timeout_ms, silent)
        return self.finish_cell(timeout)

    def start_script(self, argv, files=None, dir="job", **more):
        self.request(op="script", dir=dir, files=files or {}, argv=argv,
                     **more)

    def script(self, argv, files=None, timeout=None, **more):
        """A program in a directory of the workspace; as a cell, with exit and
        signal. Relative names of files lead from there."""
        self.start_script(argv, files, **more)
        return self.finish_cell(timeout)

    def python(self, code, *args, **more):
        """The same for a program in Python."""
        return self.script(["python3", "analyze.py", *args],
                           {"analyze.py": code}, **more)

    def interrupt(self):
        self.request(op="interrupt")

    def attack(self, code, **more):
        """Runs an attack; the dictionary of what it reported. Nothing has
        changed outside."""
        cell = self.cell(PRELUDE + code, **more)
        assert cell.end in ("done", "restarted"), cell
        assert getattr(cell, "outcome", None) == "ok", cell
        found = {}
        for line in cell.stdout.split("\n"):
            if line.startswith("@@"):
                name, value = json.loads(line[2:])
                found[name] = value
        assert found, "the attack reported nothing: %r" % cell
        self.host.check()
        return found

    # -- the interpreter itself --

    def info(self):
        self.request(op="info")
        return self.wait("info")

    def in_state(self, state, timeout=30):
        """Asks until the sandbox is in that state; its info then."""
        found = {}

        def there():
            found.update(self.info())
            return found["state"] == state
        wait_until(there, timeout, "the sandbox is %s" % state, step=0.05)
        return found

    def vars(self):
        self.request(op="vars")
        return self.wait("vars")

    def snapshot(self, path):
        self.request(op="snapshot", path=path)
        return self.wait("saved", name="snapshot")

    def restore(self, path):
        self.request(op="restore", path=path)
        return self.wait("saved", name="restore")

    def restart(self):
        self.request(op="restart")
        return self.wait("op", name="restart")

    def switch(self):
        self.request(op="switch")
        return self.wait("op", name="switch")

    def take_loss(self):
        self.request(op="take_loss")
        return self.wait("loss").get("text")

    # -- files --

    def list(self):
        self.request(op="list")
        event = self.wait("list")
        self.left_out = event.get("left_out", 0)
        return {f["name"]: f for f in event["files"]}

    def get(self, name, limit=50 << 20):
        path = os.path.join(self.dir, "got")
        self.request(op="get", name=name, path=path, limit=limit)
        event = self.wait("op", name="get")
        with open(path, "rb") as f:
            data = f.read()
        os.unlink(path)
        return event["end"], event.get("message") or "", data

    def workspace(self):
        """The workspace's directory on this side."""
        names = os.listdir(self.parent)
        assert len(names) == 1, names
        return os.path.join(self.parent, names[0], "workspace")


class Fake(Sandbox):
    """One whose interpreter is fake_kernel: it does what a test tells it."""

    def __init__(self, *options, **more):
        self.venv = tempfile.mkdtemp(prefix="fake-")
        os.chmod(self.venv, 0o755)
        super().__init__("python=" + fake_kernel.install(self.venv), *options,
                         **more)

    def close(self):
        super().close()
        shutil.rmtree(self.venv, ignore_errors=True)

    def does(self, code):
        """From now on requests are answered by that body of a function."""
        body = "".join("    %s\n" % line for line in code.split("\n"))
        cell = self.cell("def answer(request):\n    id = request['id']\n"
                         + body)
        assert cell.outcome == "ok", cell
