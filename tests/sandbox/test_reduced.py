#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The level "reduced": Landlock and the filter without namespaces.

First what is special to it: what Landlock does not cover, which the filter has
to; what is hunted down where no namespace ends it; names, and the wardens. Then
the attacks that must be refused here too (REDUCED in sandbox_session.py), by
the other programs of this directory.
"""

import importlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

# Before the helpers are imported: all sandboxes of this program are of it.
os.environ["SANDBOX_LEVEL"] = "reduced"

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
sys.path.insert(0, HERE)

import tap  # noqa: E402
from attack_program import finish, tests_of  # noqa: E402
from sandbox_session import (REDUCED, Sandbox, landlock_abi,  # noqa: E402
                             process_table, wait_until, warden_path)

# Root's cells are those of one user of this run.
UID = os.getuid() or 40000 + os.getpid() % 4000


def reduced(*options, **more):
    if os.getuid() == 0:
        options = ("uid=%d" % UID,) + options
    return Sandbox(*options, level="reduced", **more)


def host_dir():
    """A directory of whose files are the cells' user's own."""
    path = tempfile.mkdtemp(prefix="reduced-")
    os.chmod(path, 0o755)
    for name in ("mine.txt", "sales.csv"):
        file = os.path.join(path, name)
        with open(file, "w") as f:
            f.write("a,b\n1,2\n3,4\n")
        os.chmod(file, 0o644)
        os.chown(file, UID, UID)
    os.chown(path, UID, UID)
    return path


def remove(path):
    for name in os.listdir(path):
        os.unlink(os.path.join(path, name))
    os.rmdir(path)


def all_are(found, *allowed):
    wrong = {k: v for k, v in found.items() if v not in allowed}
    assert not wrong, "not refused: %s" % wrong


# ---- it works --------------------------------------------------------------

@tap.timeout(90)
def test_analysis_works():
    """With relative names, and in directories that are its own."""
    top = host_dir()
    try:
        with reduced("put=%s/sales.csv" % top) as sb:
            assert sb.opened()["end"] == "done", sb.events
            found = sb.attack("""
import getpass, json, shutil, subprocess, tempfile, time
import pandas as pd
report("name", int(pd.read_csv("sales.csv").b.sum()))
report("data", int(pd.read_csv("data/sales.csv").b.sum()))
report("here", os.getcwd() == os.environ["SANDPIPER_WORKSPACE"])
report("user", getpass.getuser())
with tempfile.NamedTemporaryFile() as f:
    report("tmp", f.name.startswith(os.environ["TMPDIR"] + "/"))
pd.DataFrame({"a": [1]}).to_csv("output/out.csv", index=False)
shutil.copy("sales.csv", "copy.csv")
shutil.copy2("sales.csv", "copy2.csv")
os.chmod("copy.csv", 0o777)
report("mode", os.stat("copy.csv").st_mode & 0o111)
report("none", outcome(os.chmod, "none.csv", 0o600))
report("child", subprocess.run(["/usr/bin/echo", "hi"],
                               capture_output=True).stdout.decode())
report("zone", time.localtime().tm_year > 2000)
""")
            assert found == {"name": 6, "data": 6, "here": True,
                             "user": "sandbox", "tmp": True, "mode": 0,
                             "none": "ENOENT", "child": "hi\n", "zone": True}, found
            cell = sb.cell("import matplotlib.pyplot as plt\n"
                           "plt.plot([1, 2]);plt.title('x')\nplt.show()",
                           timeout=60)
            assert [o["png"] > 0 for o in cell.outputs] == [True], cell
            files = sb.list()
            assert sorted(files) == ["copy.csv", "copy2.csv",
                                     "output/out.csv"], files
            assert sb.get("output/out.csv") == ("done", "", b"a\n1\n")
            # Its own copy, so that a change of its mode reaches nobody.
            found = sb.attack("""
report("inode", os.stat("data/sales.csv").st_ino)
""")
            assert found["inode"] != os.stat(top + "/sales.csv").st_ino
            end = sb.request(op="put", path=top + "/mine.txt",
                             name="late.txt") or sb.wait("op")
            assert end["end"] == "done", end
            cell = sb.cell("print(open('late.txt').read())")
            assert "1,2" in cell.stdout, cell
    finally:
        remove(top)


def test_tables_are_fetched():
    """What :full and :save run, whatever a cell has done before."""
    with reduced() as sb:
        sb.cell("import os, pandas as pd\nos.chdir('/')\n"
                "pd.DataFrame({'a': [1, 2]})")
        cell = sb.cell("from sandpiper import save_table as f\n"
                       "f(1, 0, '.table.csv')", silent=True)
        assert cell.outcome == "ok", cell
        assert sb.get(".table.csv")[2] == b"a\n1\n2\n", sb.get(
            ".table.csv")
        cell = sb.cell("from sandpiper import remove_file as f\n"
                       "f('.table.csv')", silent=True)
        assert cell.outcome == "ok" and ".table.csv" not in sb.list(), cell


def test_frames_of_own_files_are_shown():
    with reduced() as sb:
        sb.cell("open('mine.py', 'w').write('def f():\\n    1 / 0\\n')")
        cell = sb.cell("import mine\nmine.f()")
        assert "mine.py" in cell.traceback, cell.traceback


@tap.timeout(90)
def test_names_without_a_directory_of_their_own():
    """Files that are offered, and variables that are kept, are found in the
    workspace wherever a cell has gone; and what is idle is suspended."""
    top = tempfile.mkdtemp(prefix="reduced-")
    path = top + "/kept"
    try:
        with reduced("idle_suspend_ms=300") as sb:
            cell = sb.cell("x = [1, 2]\nopen('mine.txt', 'w').write('a')\n"
                           "display('mine.txt')")
            assert [(n["kind"], n["text"]) for n in cell.notes] == [
                ("file", "mine.txt")], cell
            sb.in_state("suspended")
            cell = sb.cell("import os\nos.chdir('/usr')\n"
                           "display(os.environ['SANDPIPER_WORKSPACE'] + "
                           "'/mine.txt')")
            assert [n["text"] for n in cell.notes if n["kind"] == "file"] == [
                "mine.txt"], cell
            saved = sb.snapshot(path)
            assert saved["names"] == ["x"], saved
            assert sorted(sb.list()) == ["mine.txt"], sb.list()
            assert sb.restart()["end"] == "done"
            assert sb.restore(path)["names"] == ["x"]
            assert sb.cell("print(x)").stdout == "[1, 2]\n"
    finally:
        remove(top)


def test_temporary_files_go_with_the_interpreter():
    with reduced() as sb:
        sb.cell("import os, tempfile\n"
                "open(tempfile.gettempdir() + '/left', 'w').close()\n"
                "os.mkdir(tempfile.gettempdir() + '/closed', 0)\n"
                "os.unlink('data')\nos._exit(1)")
        cell = sb.cell("import os\nprint(sorted(os.listdir(os.environ["
                       "'TMPDIR'])), os.listdir('data'))")
        assert cell.stdout == "['mpl'] []\n", cell


# ---- files of the user -----------------------------------------------------

@tap.timeout(60)
def test_files_of_the_user():
    """Landlock decides what is opened; modes, owners, times and attributes it
    does not cover. Fails without the rows of shared_table
    (local_seccomp.c)."""
    top = host_dir()
    path = top + "/mine.txt"
    before = os.stat(path)
    try:
        with reduced() as sb:
            found = sb.attack("""
p, top = %r, %r
b = p.encode()
report("read", outcome(open, p))
report("write", outcome(open, p, "a"))
report("list", outcome(os.listdir, top))
report("make", outcome(open, top + "/new", "w"))
report("unlink", outcome(os.unlink, p))
report("rename", outcome(os.rename, p, top + "/other"))
report("into", outcome(os.rename, p, "moved"))
report("truncate", outcome(os.truncate, p, 0))
report("link", outcome(os.link, p, "linked"))
report("mkdir", outcome(os.mkdir, top + "/d"))
report("symlink", outcome(os.symlink, "x", top + "/s"))
report("chmod", outcome(os.chmod, p, 0o777))
report("utime", outcome(os.utime, p, (1, 1)))
report("chown", outcome(os.chown, p, os.getuid(), os.getgid()))
report("lchown", outcome(os.lchown, p, os.getuid(), os.getgid()))
report("setxattr", outcome(os.setxattr, p, "user.x", b"1"))
report("removexattr", outcome(os.removexattr, p, "user.x"))
if X86:
    report("raw chmod", call(90, b, 0o777))
    report("raw utime", call(132, b, 0))
    report("raw utimes", call(235, b, 0))
    report("raw futimesat", call(261, -100, b, 0))
    report("raw chown", call(92, b, os.getuid(), os.getgid()))
report("fchmodat", call(268 if X86 else 53, -100, b, 0o777))
report("fchmodat2", call(452, -100, b, 0o777, 0))
report("fchownat", call(260 if X86 else 54, -100, b, os.getuid(), -1, 0))
report("utimensat", call(280 if X86 else 88, -100, b, 0, 0))
report("setxattrat", call(463, -100, b, 0, b"user.x", 0, 0))
# A descriptor that was not opened for reading shows, and does no more.
fd = os.open(p, os.O_PATH)
report("path fchmod", call(91 if X86 else 52, fd, 0o777))
report("path fchmodat2", call(452, fd, b"", 0o777, 0x1000))
report("path utimensat", call(280 if X86 else 88, fd, None, 0, 0))
report("path utimensat 2", call(280 if X86 else 88, fd, b"", 0, 0x1000))
report("path chmod", call(268 if X86 else 53, -100,
                          b"/proc/self/fd/%%d" %% fd, 0o777))
report("path open", outcome(open, "/proc/self/fd/%%d" %% fd))
report("path exec", call(322 if X86 else 281, fd, b"", 0, 0, 0x1000))
os.close(fd)
""" % (path, top))
            all_are(found, "EACCES", "EPERM", "EXDEV", "EBADF", "ENOSYS",
                    "ELOOP")
            # What is known to be open: that it is there, and its size.
            cell = sb.cell("import os\nprint(os.stat(%r).st_size)" % path)
            assert cell.stdout == "12\n", cell
        after = os.stat(path)
        assert [getattr(before, n) for n in (
            "st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_ino",
            "st_nlink", "st_size", "st_ctime_ns")] == [getattr(after, n)
            for n in ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_ino",
                      "st_nlink", "st_size", "st_ctime_ns")]
        assert sorted(os.listdir(top)) == ["mine.txt", "sales.csv"]
    finally:
        remove(top)


FS_IOC_SETFLAGS = 0x40086602


def test_files_that_may_be_read():
    """An interpreter that the user has installed is his own, and open to cells:
    as its owner they could change it by a descriptor for reading. Fails without
    fchmod and its like in shared_table (local_seccomp.c)."""
    venv = tempfile.mkdtemp(prefix="venv-")
    os.chmod(venv, 0o755)
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip",
                    "--system-site-packages", venv], check=True)
    path = venv + "/pyvenv.cfg"
    for name in (venv, path):
        os.chown(name, UID, UID)
    before = os.stat(path)
    try:
        with reduced("python=%s/bin/python3" % venv) as sb:
            found = sb.attack("""
import fcntl
for name in (%r, %r):
    fd = os.open(name, os.O_RDONLY)
    report("fchmod " + name, outcome(os.fchmod, fd, 0o777))
    report("utimensat " + name, call(280 if X86 else 88, fd, None, None, 0))
    report("set " + name, outcome(os.setxattr, fd, "user.x", b"1"))
    report("remove " + name, outcome(os.removexattr, fd, "user.x"))
    for number in (%d, 0x401c5820, 0x40087602, 0x40806685):
        for high in (0, 1 << 32):
            report("ioctl %%s %%#x" %% (name, number | high),
                   call(nr("ioctl"), fd, number | high, bytes(256)))
    report("write " + name, outcome(os.write, fd, b"x"))
""" % (venv, path, FS_IOC_SETFLAGS))
            all_are(found, "EPERM", "EBADF")
        after = os.stat(path)
        assert (before.st_mode, before.st_ctime_ns) == \
            (after.st_mode, after.st_ctime_ns)
    finally:
        shutil.rmtree(venv)


# ---- sockets ---------------------------------------------------------------

SOCKETS = """
import socket
path, name = %r, %r
for kind in (1, 2, 3, 5):
    report("socket %%d" %% kind, call(nr("socket"), 1, kind, 0))
    report("flags %%d" %% kind, call(nr("socket"), 1, kind | 0o2004000, 0))
for kind in (2, 3, 2 | 0o2004000, 3 | 0o2000000, 4, 6, 10, 0):
    report("pair %%d" %% kind, call(nr("socketpair"), 1, kind, 0, bytes(8)))
a, b = socket.socketpair()
for where in (path, "\\0" + name):
    report("connect " + where, outcome(a.connect, where))
    report("sendto " + where, outcome(a.sendto, b"x", where))
    report("sendmsg " + where, outcome(a.sendmsg, [b"x"], [], 0, where))
report("bind", outcome(b.bind, "made"))
b.close()
report("connect alone", outcome(a.connect, path))
"""


def test_sockets_of_the_system():
    """Whoever talks to the desktop's session has programs started for him, and
    Landlock lets sockets with a path be connected to."""
    top = host_dir()
    path = top + "/socket"
    name = "reduced-test-%d" % os.getpid()
    listeners = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for where in (path + str(int(kind)), "\0" + name + str(int(kind))):
            s = socket.socket(socket.AF_UNIX, kind)
            s.bind(where)
            if kind == socket.SOCK_STREAM:
                s.listen(1)
            s.setblocking(False)
            listeners.append(s)
    for kind in "12":
        os.chmod(path + kind, 0o777)
    try:
        with reduced() as sb:
            for kind in "12":
                found = sb.attack(SOCKETS % (path + kind, name + kind))
                all_are(found, "EPERM", "EISCONN", "ENOTCONN", "EOPNOTSUPP")
            # Pairs are what asyncio needs.
            cell = sb.cell("import asyncio\nawait asyncio.sleep(0)\n"
                           "import socket\na, b = socket.socketpair()\n"
                           "a.send(b'x'); print(b.recv(1))")
            assert cell.stdout == "b'x'\n", cell
        for s in listeners:
            try:
                got = s.accept() if s.type == socket.SOCK_STREAM \
                    else s.recv(10)
            except BlockingIOError:
                continue
            raise AssertionError("somebody came: %r" % (got,))
    finally:
        for s in listeners:
            s.close()
        remove(top)


# ---- other processes -------------------------------------------------------

def start_other():
    """A process of the cells' user, outside."""
    argv = ["/usr/bin/sleep", "600"]
    if os.getuid() == 0:
        argv = ["setpriv", "--reuid", str(UID), "--regid", str(UID),
                "--clear-groups", "--"] + argv
    child = subprocess.Popen(argv)
    wait_until(lambda: open("/proc/%d/comm" % child.pid).read() == "sleep\n",
               20, "it sleeps")
    return child


def state_of(pid):
    with open("/proc/%d/limits" % pid) as f:
        limits = f.read()
    return (limits, os.getpriority(os.PRIO_PROCESS, pid),
            os.sched_getaffinity(pid), os.sched_getscheduler(pid))


@tap.timeout(60)
def test_other_processes_of_the_user():
    """Without the scope of signals they would end; limits and priorities are
    for the filter."""
    other = start_other()
    try:
        before = state_of(other.pid)
        with reduced() as sb:
            sb.opened()
            wardens = sb.descendants()[:2]
            found = sb.attack("""
pid = %d
wardens = %r
for target in [pid, 1, os.getppid()] + wardens:
    for signo in (0, 9, 15, 19):
        report("kill %%d %%d" %% (target, signo), outcome(os.kill, target,
                                                          signo))
    report("group %%d" %% target, outcome(os.killpg, target, 19)
           if target not in (1, os.getpgid(0)) else "EPERM")
    fd = os.pidfd_open(target)
    report("pidfd %%d" %% target, call(424, fd, 9, 0, 0))
    report("getfd %%d" %% target, call(nr("pidfd_getfd"), fd, 0, 0))
    os.close(fd)
    report("queue %%d" %% target, call(129 if X86 else 138, target, 9,
                                       b"\\xff" * 128))
report("everybody", outcome(os.kill, -1, 9))
small = (0).to_bytes(16, "little")
for target in [pid] + wardens:
    for limit in (0, 7, 9):
        report("limit %%d %%d" %% (target, limit),
               call(302 if X86 else 261, target, limit, small, None))
    report("nice %%d" %% target, outcome(os.setpriority, os.PRIO_PROCESS,
                                         target, 19))
    report("affinity %%d" %% target, outcome(os.sched_setaffinity, target,
                                             [0]))
    report("scheduler %%d" %% target, outcome(
        os.sched_setscheduler, target, os.SCHED_IDLE, os.sched_param(0)))
    report("param %%d" %% target, outcome(os.sched_setparam, target,
                                          os.sched_param(0)))
    report("attr %%d" %% target, call(314 if X86 else 274, target,
                                      (48).to_bytes(48, "little"), 0))
    report("io %%d" %% target, call(251 if X86 else 30, 1, target, 3 << 13))
    report("trace %%d" %% target, call(nr("ptrace"), 16, target, 0, 0))
    for name in ("environ", "mem", "maps", "fd", "cwd", "root"):
        report("%%s %%d" %% (name, target), outcome(
            os.open, "/proc/%%d/%%s" %% (target, name), os.O_RDONLY))
        report("%%s link %%d" %% (name, target), outcome(
            os.readlink, "/proc/%%d/%%s" %% (target, name)))
report("user's", outcome(os.setpriority, os.PRIO_USER, 0, 19))
report("own nice", outcome(os.setpriority, os.PRIO_PROCESS, 0, 19))
report("own limit", outcome(lambda: __import__("resource").getrlimit(7)[0] >
                            0))
""" % (other.pid, wardens))
            assert found.pop("own nice") == "ok: None", found
            assert found.pop("own limit") == "ok: True", found
            for name in list(found):
                if " link " in name and found[name] == "EINVAL":
                    del found[name]
            # There is nobody but itself whom it could reach.
            assert found.pop("everybody") in ("EPERM", "ok: None", "ESRCH")
            all_are(found, "EPERM", "EACCES", "ESRCH", "ENOSYS")
            assert sb.descendants()[:2] == wardens
        assert other.poll() is None
        assert state_of(other.pid) == before
    finally:
        other.kill()
        other.wait()


def test_shared_objects():
    """System V and POSIX objects are those of the whole system here."""
    import ctypes
    libc = ctypes.CDLL(None)
    key = libc.shmget(0, 4096, 0o1666)
    assert key >= 0
    try:
        with reduced() as sb:
            found = sb.attack("""
number = %d
numbers = dict(shmctl=(31, 195), shmat=(30, 196), semctl=(66, 191),
               semop=(65, 193), semtimedop=(220, 192), msgctl=(71, 187),
               msgsnd=(69, 189), msgrcv=(70, 188), mq_unlink=(241, 181),
               mq_open=(240, 180), shmget=(29, 194))
for name, pair in numbers.items():
    report(name, call(pair[0 if X86 else 1], number, 0, 0, 0, 0))
""" % key)
        all_are(found, "EPERM", "ENOSYS")
    finally:
        libc.shmctl(key, 0, None)


# ---- the end of processes --------------------------------------------------

DAEMONS = """
import subprocess, sys
code = ("import signal, os\\n"
        "for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\\n"
        "os.setsid()\\nif os.fork(): os._exit(0)\\nos.setsid()\\n"
        "print(os.getpid(), flush=True)\\nos.close(1)\\nsignal.pause()")
for i in range(3):
    p = subprocess.Popen([sys.executable, "-c", code], stdout=-1)
    print(int(p.stdout.readline()))
    p.wait()
"""


def is_alive(pid):
    return process_table().get(pid, (0, "X", 0))[1] not in "ZX"


def daemons_of(sb):
    cell = sb.cell(DAEMONS)
    found = [int(line) for line in cell.stdout.split()]
    assert len(found) == 3 and all(is_alive(p) for p in found), cell
    assert set(found) <= set(sb.descendants())
    return found


def gone(pids, what):
    wait_until(lambda: not any(is_alive(p) for p in pids), 20, what)


@tap.timeout(120)
def test_daemons_end_with_their_interpreter():
    """Fails without PR_SET_CHILD_SUBREAPER in warden.c: orphans go to init."""
    for code in ("import os\nos._exit(3)", "import ctypes\n"
                 "ctypes.string_at(1)", "import os\nos.kill(os.getpid(), 9)"):
        with reduced() as sb:
            pids = daemons_of(sb)
            cell = sb.cell(code)
            assert cell.outcome == "died" and cell.end == "restarted", cell
            gone(pids, "daemons of an interpreter that has ended")
    assert "killed" in cell.reason, cell
    with reduced() as sb:
        pids = daemons_of(sb)
        cell = sb.cell("import signal\nsignal.signal(2, signal.SIG_IGN)\n"
                       "while True: pass", timeout_ms=100)
        assert cell.outcome == "killed", cell
        gone(pids, "daemons of an interpreter that was ended")
        pids = daemons_of(sb)
        sb.request(op="quit")
        sb.process.wait()
        gone(pids, "daemons of a sandbox that was closed")


@tap.timeout(120)
def test_all_end_with_the_client():
    for stop in (False, True):
        sb = reduced()
        try:
            daemons_of(sb)
            sb.start_cell("print(1, flush=True)\nwhile True: pass")
            sb.wait("bytes")
            below = sb.descendants()
            if stop:
                for pid in below[1:]:
                    os.kill(pid, signal.SIGSTOP)
            sb.process.kill()
            sb.process.wait()
            gone(below, "all processes of a client that was killed")
        finally:
            sb.close()


@tap.timeout(120)
def test_client_that_is_killed_at_any_time():
    rng = random.Random(7)
    for _ in range(25):
        sb = reduced()
        try:
            below = set()
            steps = rng.randrange(40)
            for _ in range(steps):
                below |= set(sb.descendants())
            sb.process.kill()
            below |= set(sb.descendants())
            sb.process.wait()
            gone(below, "all processes")
            assert not [p for p in sb.descendants()], sb.descendants()
        finally:
            sb.close()


@tap.timeout(120)
def test_wardens_that_are_killed():
    """By somebody outside: nothing stays, and the next cell runs."""
    for which in (0, 1):
        with reduced() as sb:
            pids = daemons_of(sb)
            below = sb.descendants()
            os.kill(below[which], signal.SIGKILL)
            gone(below + pids, "all that the warden kept")
            cell = sb.cell("print('next')")
            if cell.end != "done":
                cell = sb.cell("print('next')")
            assert "next" in cell.stdout, cell


def test_client_and_warden_that_are_killed():
    """While all of them are stopped, so that none notices anything itself. Fails
    without tie_to in run_inner() (warden.c)."""
    sb = reduced()
    try:
        pids = daemons_of(sb)
        below = sb.descendants()
        for pid in (below[2], sb.process.pid, below[0]):
            os.kill(pid, signal.SIGSTOP)
        sb.process.kill()
        os.kill(below[0], signal.SIGKILL)
        sb.process.wait()
        gone(below + pids, "all that there was")
    finally:
        sb.close()


def test_session_and_group():
    with reduced() as sb:
        found = sb.attack("""
report("tty", outcome(os.open, "/dev/tty", os.O_RDWR))
report("session", os.getsid(0) == os.getppid())
report("group", os.getpgid(0) == os.getppid())
report("privileges", ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))
report("filter", ctypes.CDLL(None).prctl(21, 0, 0, 0, 0))
fds = [fd for fd in range(64) if outcome(os.fstat, fd) != "EBADF"]
report("descriptors", [fd for fd in fds if not (
    stat.S_ISFIFO(os.fstat(fd).st_mode) or stat.S_ISCHR(os.fstat(fd).st_mode)
    or fd > 12)])
""")
        assert found == {"tty": "EACCES", "session": True, "group": True,
                         "privileges": 1, "filter": 2, "descriptors": []}, \
            found
        outer, inner, kernel = sb.descendants()[:3]
        for pid in (outer, inner):
            for name in ("environ", "cmdline"):
                with open("/proc/%d/%s" % (pid, name), "rb") as f:
                    text = f.read()
                assert sb.dir.encode() not in text, text
        with open("/proc/%d/oom_score_adj" % kernel) as f:
            assert f.read().strip() == "1000"


def test_two_sandboxes():
    with reduced() as one, reduced() as two:
        one.cell("open('mine.txt', 'w').write('one')\nimport os")
        kernel = one.descendants()[2]
        found = two.attack("""
report("ls", outcome(os.listdir, %r))
report("read", outcome(open, %r))
report("kill", outcome(os.kill, %d, 9))
report("tmp", outcome(os.listdir, %r))
""" % (one.workspace(), one.workspace() + "/mine.txt", kernel,
            os.path.join(os.path.dirname(one.workspace()), "tmp")))
        all_are(found, "EACCES", "EPERM")
        assert one.cell("print(1)").stdout == "1\n"


# ---- the warden by itself --------------------------------------------------

def run_warden(orders, fds=True):
    """The status and message of a warden with these orders."""
    with tempfile.TemporaryFile() as f:
        f.write(orders)
        f.flush()

        def prepare():
            os.dup2(f.fileno(), 7)
        done = subprocess.run(
            [warden_path()], stdin=subprocess.DEVNULL, capture_output=True,
            preexec_fn=prepare if fds else None, pass_fds=(7,) if fds else (),
            timeout=60)
    return done.returncode, done.stderr.decode()


def test_orders_that_are_not_understood():
    good = b"directory\0/\0run\0/usr/bin/true\0"
    for orders in (b"", b"\0", b"run\0", b"run\0/usr/bin/true", good + b"x\0",
                   good + b"allow\0/\0", b"directory\0/\0", good[12:],
                   good + b"read\0relative\0", good + b"processes\0many\0",
                   good + b"processes\0000\0", good + b"run\0x\0" * 40,
                   good + b"read\0/x\0" * 200):
        status, said = run_warden(orders)
        assert status == 1 and re.match(r"sandpiper-warden: .*orders", said), \
            (orders[:80], status, said)
    status, said = run_warden(b"", fds=False)
    assert status == 1 and "run by sandpiper alone" in said, said


# ---- the attacks of all levels ---------------------------------------------

def add_others(tests):
    """The tests of the other programs that are marked with an attack that must
    be refused here too, as PROGRAM_TEST; and the programs."""
    modules = []
    names = sorted(n[:-3] for n in os.listdir(HERE) if re.match(
        r"test_\w+\.py$", n) and n != os.path.basename(__file__))
    for name in names:
        module = importlib.import_module(name)
        found = {test: function for test, function in tests_of(
            vars(module)).items()
            if REDUCED & set(getattr(function, "attacks", ()))}
        for test, function in found.items():
            tests["%s_%s" % (name, test[len("test_"):])] = function
        if found:
            modules.append(module)
    return modules


def close_others(modules):
    """What they have open in the end: one sandbox of all, or one of their
    own."""
    finish()
    for module in modules:
        shared = getattr(module, "_shared", {})
        if "sb" in shared:
            shared.pop("sb").close()


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has hardly a part in it")
    if landlock_abi() < 6:
        print("1..0 # SKIP Landlock ABI %d is below 6" % landlock_abi())
        sys.exit(0)
    everything = dict(globals())
    others = add_others(everything)
    status = tap.run(everything, sys.argv[1:])
    close_others(others)
    sys.exit(status)
