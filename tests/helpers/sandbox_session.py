# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives a local sandbox, for tests of its back end alone: a Session of
driver_session.py, and

    with Sandbox("put=/tmp/x.csv") as sb:
        sb.attack("ACCESS...")       # runs with PRELUDE; returns report(...)'s
        sb.descendants()

Each looks, after each attack and at its end, whether anything has changed
outside (host_check.py). open_session() is the same at the level of isolation
that SANDBOX_LEVEL names, if it is set.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake_kernel  # noqa: E402
from driver_session import (Session, driver_path, peak_mib,  # noqa: E402
                            wait_until)
from host_check import HostCheck, fresh_uid  # noqa: E402
from processes import descendants_of, process_table  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
LANDLOCK_CREATE_RULESET = 444

__all__ = ["FORGE", "Fake", "PRELUDE", "REDUCED", "Sandbox", "attack",
           "cell_uid", "descendants_of", "driver_path", "landlock_abi",
           "level", "open_session", "peak_mib", "process_table",
           "wait_until", "warden_path"]


def warden_path():
    return os.path.abspath(os.environ.get("SANDPIPER_WARDEN") or os.path.join(
        os.environ.get("abs_top_builddir", "."), "sandpiper-warden"))


def landlock_abi():
    """The level reduced needs 6."""
    return ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)


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


_uids = []


def cell_uid():
    """Root's cells of one test program are those of one fresh user, so that
    its processes can be counted."""
    if os.getuid() != 0:
        return os.getuid()
    if not _uids:
        _uids.append(fresh_uid())
    return _uids[0]


class Sandbox(Session):
    """The local one. host: a HostCheck of the caller's; else one is made."""

    def __init__(self, *options, env=None, prefix=(), timeout=30, uid=None,
                 host=None, pass_fds=(), level=None):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
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
        options = ("parent=" + self.parent,) + options
        if self.level != "full":
            options += ("level=" + self.level,)
            # The limit of processes counts whatever the user runs.
            if os.getuid() == 0 and not any(o.startswith("uid=")
                                            for o in options):
                options += ("uid=%d" % (40000 + os.getpid() % 4000),)
            env = dict({"SANDPIPER_WARDEN": warden_path()}, **(env or {}))
        if uid is not None:
            prefix = ["setpriv", "--reuid", str(uid), "--regid", str(uid),
                      "--clear-groups", "--"] + list(prefix)
            os.chown(self.parent, uid, uid)
        try:
            super().__init__(options, env, prefix, timeout, pass_fds)
        except OSError:
            self.host.close()
            raise

    def descendants(self):
        return descendants_of(self.process.pid)

    def close(self):
        below = self.descendants()
        if not self.release():
            return
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
            self.host.check_end(alone=not Session.open_ones)
        finally:
            if self.own_host:
                self.host.close()

    def quit(self):
        below = self.descendants()
        super().quit()
        wait_until(lambda: not self._reap(below), 20, "all processes end")
        assert os.listdir(self.parent) == [], os.listdir(self.parent)

    def end_outside(self):
        for pid in self.descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

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

    def start_cell(self, code, *args, **more):
        if self.level == "reduced":
            self.opened()
            code = re.sub(r"(?<![\w.])/workspace\b",
                          lambda _: self.workspace(), code)
        super().start_cell(code, *args, **more)

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
