#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""System calls that reach other processes, the kernel or the machine are
refused, with the arguments with which they would do something."""

import os
import resource
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from attack_program import all_are, host, inside, main  # noqa: E402
from sandbox_session import Sandbox, attack, level  # noqa: E402


@attack(25)
def test_io_uring():
    found = inside("""
blob = ctypes.create_string_buffer(4096)
for flags in (0, 1, 2, 1 << 14):
    ctypes.memset(blob, 0, 4096)
    ctypes.memmove(ctypes.addressof(blob) + 8, flags.to_bytes(4, "little"), 4)
    report("setup %d" % flags, call(nr("io_uring_setup"), 8, blob))
report("enter", call(nr("io_uring_enter"), 3, 1, 1, 0, None, 0))
for code in range(0, 30):
    report("register %d" % code, call(nr("io_uring_register"), -1, code, blob,
                                      1))
# The older interface, of which no more is needed either.
context = ctypes.create_string_buffer(8)
report("io_setup", call(206 if X86 else 0, 8, context))
report("io_submit", call(209 if X86 else 2, 0, 0, None))
""")
    all_are(found, "ENOSYS")


@attack(26)
def test_other_processes():
    found = inside("""
import subprocess
child = subprocess.Popen(["/usr/bin/sleep", "30"])
buffer = ctypes.create_string_buffer(64)
local = (ctypes.c_long * 2)(ctypes.addressof(buffer), 8)
def remote(address):
    return (ctypes.c_long * 2)(address, 8)
own = ctypes.create_string_buffer(b"precious")
for who, pid in (("child", child.pid), ("1", 1), ("kernel", os.getpid()),
                 ("parent", os.getppid())):
    for request, name in ((16, "attach"), (0x4206, "seize"), (12, "regs"),
                          (1, "peek"), (4, "poke"), (0x4205, "options"),
                          (0x420e, "syscall info")):
        report(name + " " + who, call(nr("ptrace"), request, pid, 0, 0))
    for name in ("process_vm_readv", "process_vm_writev"):
        report(name + " " + who, call(
            nr(name), pid, local, 1, remote(ctypes.addressof(own)), 1, 0))
    report("kcmp " + who, call(nr("kcmp"), os.getpid(), pid, 0, 0, 0))
    fd = _libc.syscall(nr("pidfd_open"), pid, 0)
    if fd >= 0:
        for number in range(5):
            report("pidfd_getfd %s %d" % (who, number),
                   call(nr("pidfd_getfd"), fd, number, 0))
        report("madvise " + who, call(nr("process_madvise"), fd, local, 1, 4,
                                      0))
        report("mrelease " + who, call(nr("process_mrelease"), fd, 0))
        os.close(fd)
report("traceme", call(nr("ptrace"), 0, 0, 0, 0))
report("own memory", "EPERM" if own.value == b"precious" else own.value)
# By a debugger's way: a child that asks for it and is stopped.
pid = os.fork()
if pid == 0:
    os._exit(0 if _libc.ptrace(0, 0, 0, 0) == 0 else 1)
report("libc", "EPERM" if os.WEXITSTATUS(os.waitpid(pid, 0)[1]) else "ok")
child.kill()
child.wait()
""")
    assert len(found) > 40, found
    all_are(found, "EPERM", "ENOSYS")


@attack(27)
def test_keyrings():
    found = inside("""
blob = ctypes.create_string_buffer(4096)
for ring in (-1, -2, -3, -4, -5, -8):
    report("add user %d" % ring, call(nr("add_key"), b"user", b"planted",
                                      b"x", 1, ring))
    report("add keyring %d" % ring, call(nr("add_key"), b"keyring",
                                         b"planted", None, 0, ring))
    report("request %d" % ring, call(nr("request_key"), b"user", b"planted",
                                     None, ring))
    for name, number in (("id", 0), ("describe", 6), ("read", 11),
                         ("search", 10), ("clear", 7), ("setperm", 5),
                         ("link", 8)):
        report("%s %d" % (name, ring), call(nr("keyctl"), number, ring, blob,
                                            4096))
report("join", call(nr("keyctl"), 1, b"mine"))
report("capabilities", call(nr("keyctl"), 31, blob, 8))
report("watch", call(nr("keyctl"), 32, -3, 0, 0))
""")
    all_are(found, "EPERM")


@attack(28)
def test_bpf_and_perf():
    found = inside("""
blob = ctypes.create_string_buffer(256)
for command in range(0, 37):
    report("bpf %d" % command, call(nr("bpf"), command, blob, 128))
# A counter of its own time, in user space: what the system allows most.
for kind, config in ((0, 0), (1, 0), (1, 1), (2, 0), (4, 0), (5, 0)):
    attr = ctypes.create_string_buffer(128)
    ctypes.memmove(attr, kind.to_bytes(4, "little") +
                   (128).to_bytes(4, "little") + config.to_bytes(8, "little"),
                   16)
    ctypes.memmove(ctypes.addressof(attr) + 40, b"\\x61", 1)
    for pid, cpu in ((0, -1), (-1, 0), (1, -1)):
        report("perf %d %d %d" % (kind, config, pid),
               call(nr("perf_event_open"), attr, pid, cpu, -1, 0))
""")
    all_are(found, "EPERM")


@attack(29)
def test_namespaces():
    found = inside("""
import subprocess
flags = dict(user=0x10000000, pid=0x20000000, net=0x40000000, mnt=0x20000,
             uts=0x4000000, ipc=0x8000000, cgroup=0x2000000, time=0x80)
everything = 0
for name, flag in flags.items():
    everything |= flag
    report("unshare " + name, call(nr("unshare"), flag))
    report("unshare user and " + name, call(nr("unshare"), flag | 0x10000000))
    report("unshare high " + name, call(nr("unshare"), flag | 1 << 32))
    if name != "time":
        # For clone that bit is one of the signal's number.
        report("clone " + name, call(nr("clone"), flag | 17, 0, 0, 0, 0))
        report("clone high " + name, call(nr("clone"), flag | 17 | 1 << 32, 0,
                                          0, 0, 0))
        report("clone user and " + name, call(
            nr("clone"), flag | 0x10000000 | 17, 0, 0, 0, 0))
    for size in (64, 80, 88):
        args = ctypes.create_string_buffer(size)
        ctypes.memmove(args, flag.to_bytes(8, "little"), 8)
        ctypes.memmove(ctypes.addressof(args) + 32, (17).to_bytes(8, "little"),
                       8)
        report("clone3 %s %d" % (name, size), call(nr("clone3"), args, size))
    for pid in ("self", "1"):
        for link in (name, name + "_for_children"):
            try:
                fd = os.open("/proc/%s/ns/%s" % (pid, link), os.O_RDONLY)
            except OSError:
                continue
            report("setns %s %s" % (pid, link), call(nr("setns"), fd, flag))
            report("setns any %s %s" % (pid, link), call(nr("setns"), fd, 0))
            os.close(fd)
    for pid in (os.getpid(), 1):
        fd = _libc.syscall(nr("pidfd_open"), pid, 0)
        if fd >= 0:
            report("setns pidfd %d %s" % (pid, name),
                   call(nr("setns"), fd, flag))
            os.close(fd)
report("unshare everything", call(nr("unshare"), everything))
report("unshare files", call(nr("unshare"), 0x400))
for option in ("-U", "-Ur", "-m", "-n", "-p", "-i", "-u", "-C", "-T"):
    r = subprocess.run(["/usr/bin/unshare", option, "true"],
                       capture_output=True)
    report("program " + option, "EPERM" if r.returncode else "ok")
report("links", all(os.readlink("/proc/self/ns/" + n) ==
                    os.readlink("/proc/1/ns/" + n) for n in flags)
       if os.path.exists("/proc/1/ns/user") else True)
""")
    assert found.pop("links") is True
    assert len([n for n in found if n.startswith("clone3")]) == 24
    assert level() == "reduced" or \
        len([n for n in found if n.startswith("setns")]) > 32, found
    for name in list(found):
        if name.startswith("clone3"):
            assert found.pop(name) == "ENOSYS", name
    all_are(found, "EPERM")


@attack(30)
def test_building_blocks_of_exploits():
    found = inside("""
for flags in (0, 1, 0o2000000, 1 | 0o4000):
    report("userfaultfd %o" % flags, call(nr("userfaultfd"), flags))
report("device", outcome(os.open, "/dev/userfaultfd", os.O_RDWR))
r, w = os.pipe()
data = ctypes.create_string_buffer(b"spliced", 4096)
area = (ctypes.c_long * 2)(ctypes.addressof(data), 7)
for flags in (0, 1, 2, 8):
    report("vmsplice %d" % flags, call(nr("vmsplice"), w, area, 1, flags))
os.set_blocking(r, False)
report("pipe", outcome(os.read, r, 10))
for flags in (0, 0o2000000):
    report("memfd_secret %o" % flags, call(nr("memfd_secret"), flags))
""")
    assert found.pop("device") in ("ENOENT", "EACCES"), found
    assert found.pop("pipe") == "EAGAIN"
    for name in list(found):
        want = "ENOSYS" if name.startswith("memfd") else "EPERM"
        assert found.pop(name) == want, name


@attack(31)
def test_control_of_the_machine():
    before = time.time() - time.monotonic()
    found = inside("""
blob = ctypes.create_string_buffer(4096)
now = (ctypes.c_long * 2)(1, 0)
fd = os.open("/usr/bin/env", os.O_RDONLY)
calls = dict(
    init_module=(blob, 4096, b""), finit_module=(fd, b"", 0),
    delete_module=(b"loop", 0o4000), kexec_load=(0, 0, None, 0),
    kexec_file_load=(fd, -1, 1, b"", 4), swapon=(b"/workspace/swap", 0),
    swapoff=(b"/workspace/swap",), acct=(b"/workspace/acct",),
    settimeofday=(now, None), clock_settime=(0, now), adjtimex=(blob,),
    clock_adjtime=(0, blob), sethostname=(b"taken", 5),
    setdomainname=(b"taken", 5), vhangup=(),
    quotactl=(0x800002 << 8, b"/", 0, blob), quotactl_fd=(fd, 0, 0, blob))
for name, args in calls.items():
    report(name, call(nr(name), *args))
report("acct off", call(nr("acct"), None))
report("clock up", call(nr("clock_settime"), 1, now))
for command in (0x01234567, 0x4321fedc, 0, 0x89abcdef, 0x45584543):
    report("reboot %x" % command, call(
        nr("reboot"), 0xfee1dead - (1 << 32), 672274793, command -
        ((1 << 32) if command > 0x7fffffff else 0), None))
for action in range(0, 11):
    report("syslog %d" % action, call(nr("syslog"), action, blob, 4096))
if X86:
    for name, number in (("iopl", 172), ("ioperm", 173)):
        report(name, call(number, 3, 1, 1))
    for name, number in (("create_module", 174), ("_sysctl", 156),
                         ("uselib", 134), ("sysfs", 139), ("ustat", 136)):
        report(name, call(number, blob, 1, 1))
import socket
report("name", outcome(socket.sethostname, "taken"))
report("still", "taken" in os.uname())
""")
    assert found.pop("still") is False
    all_are(found, "EPERM", "ENOSYS")
    assert abs(time.time() - time.monotonic() - before) < 3600


@attack(32)
def test_terminal_injection():
    """The filter refuses it; without it, not every terminal does."""
    found = inside("""
import pty
requests = dict(sti=0x5412, linux=0x541c, setd=0x5423)
try:
    master, slave = pty.openpty()
except OSError:
    master, slave = -1, -1
def attempts(name, fd):
    for what, request in requests.items():
        value = ctypes.create_string_buffer(b"\\x03" + bytes(7))
        for high in (0, 1 << 32, 1 << 63, -1 << 32):
            report("%s %s %d" % (name, what, high),
                   call(nr("ioctl"), fd, request | high, value))
for fd, name in ((0, "0"), (1, "1"), (2, "2"), (slave, "slave"),
                 (master, "master")):
    attempts(name, fd)
report("tty", outcome(os.open, "/dev/tty", os.O_RDWR))
report("console", outcome(os.open, "/dev/console", os.O_RDWR))
if slave < 0:
    raise SystemExit
# With a terminal of its own as the controlling one.
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.setsid()
    import fcntl, termios
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    tty = os.open("/dev/tty", os.O_RDWR)
    lines = []
    for what, request in requests.items():
        value = ctypes.create_string_buffer(b"\\x03" + bytes(7))
        for high in (0, 1 << 32):
            _libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_long,
                                    ctypes.c_void_p]
            got = _libc.ioctl(tty, request | high, value)
            lines.append(what + " " + (
                "ok" if got == 0 else code_of(ctypes.get_errno())))
    os.write(w, "\\n".join(lines).encode())
    os._exit(0)
os.close(w)
os.waitpid(pid, 0)
for i, line in enumerate(os.read(r, 4096).decode().split("\\n")):
    report("controlling %d %s" % (i, line.split()[0]), line.split()[1])
report("pts", [n for n in os.listdir("/dev/pts") if n.isdigit()])
os.close(master)
os.close(slave)
""")
    assert found.pop("tty") in ("ENXIO", "ENOENT", "EACCES"), found
    assert found.pop("console") in ("ENXIO", "ENOENT", "EACCES"), found
    # The one that the attack itself has made.
    assert len(found.pop("pts", [])) <= 1, found
    assert len(found) >= 60, found
    all_are(found, "EPERM")


@attack(32)
def test_terminal_of_the_client():
    """Nobody types into it: the sandbox has no controlling terminal, not even
    where the client has one."""
    import pty
    import select
    master, slave = pty.openpty()
    try:
        steal = ("import fcntl, os, sys, termios\n"
                 "fcntl.ioctl(%d, termios.TIOCSCTTY, 0)\n"
                 "os.execv(sys.argv[1], sys.argv[1:])" % slave)
        os.set_inheritable(slave, True)
        with Sandbox(prefix=[sys.executable, "-c", steal], host=host(),
                     pass_fds=(slave,)) as sb:
            assert sb.opened()["end"] == "done"
            with open("/proc/%d/stat" % sb.process.pid) as f:
                assert f.read().rsplit(")", 1)[1].split()[4] != "0"
            found = sb.attack("LEVEL = %r" % level() + """
report("tty", outcome(os.open, "/dev/tty", os.O_RDWR))
for pid in pids() if LEVEL != "reduced" else []:
    with open("/proc/%s/stat" % pid) as f:
        report("of " + pid, f.read().rsplit(")", 1)[1].split()[4])
report("fds", [fd for fd in range(256) if os.isatty(fd)])
""")
            assert found.pop("tty") in ("ENXIO", "EACCES"), found
            assert found.pop("fds") == []
            all_are(found, "0")
        assert select.select([master], [], [], 0)[0] == []
    finally:
        os.close(master)
        os.close(slave)


@attack(33)
def test_other_call_tables():
    found = inside("""
import mmap
if X86:
    for number in (0, 39, 41, 56, 101, 272, 512, 520, 547):
        report("x32 %d" % number, call(0x40000000 + number, 0, 0, 0, 0))
    # mov eax, NUMBER; int 0x80; ret
    for number in (20, 1, 102, 359, 120, 26):
        code = b"\\xb8" + number.to_bytes(4, "little") + b"\\xcd\\x80\\xc3"
        pid = os.fork()
        if pid == 0:
            area = mmap.mmap(-1, 4096, prot=7)
            area.write(code)
            address = ctypes.addressof(ctypes.c_char.from_buffer(area))
            ctypes.CFUNCTYPE(ctypes.c_int)(address)()
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        report("int80 %d" % number, "signal %d" % os.WTERMSIG(status)
               if os.WIFSIGNALED(status) else "lived")
for number in (463, 470, 511, 600, 1000, 4000, 0x3fffffff, 0x7fffffff, -1):
    report("new %d" % number, call(number, 0, 0, 0))
""")
    for name in list(found):
        if name.startswith("int80"):
            assert found.pop(name) == "signal 31", name
    assert len(found) >= 9
    all_are(found, "ENOSYS")


@attack(34)
def test_filters_personality_and_segments():
    found = inside("""
# ret ALLOW
program = ctypes.create_string_buffer(
    (6).to_bytes(2, "little") + bytes(2) + (0x7fff0000).to_bytes(4, "little"))
blob = ctypes.create_string_buffer(
    (1).to_bytes(8, "little") +
    ctypes.addressof(program).to_bytes(8, "little"))
for flags in (0, 1, 2, 8, 8 | 16, 1 << 5):
    report("seccomp %d" % flags, call(nr("seccomp"), 1, flags, blob))
report("strict", call(nr("seccomp"), 0, 0, None))
report("sizes", call(nr("seccomp"), 3, 0, blob))
report("actions", call(nr("seccomp"), 2, 0, blob))
for mode in (1, 2):
    for high in (0, 1 << 32):
        report("prctl %d %d" % (mode, high),
               call(nr("prctl"), 22 | high, mode, blob))
for name, value in dict(no_randomize=0x40000, read_implies_exec=0x400000,
                        mmap_page_zero=0x100000, compat=0x200000,
                        linux32=8, short_inode=0x1000000,
                        uname26=0x20000, bsd=6).items():
    report(name, call(nr("personality"), value))
report("high", call(nr("personality"), 1 << 32 | 0x40000))
if X86:
    for function in (0, 1, 2, 0x11):
        report("ldt %d" % function, call(154, function, blob, 16))
for name, args in dict(move_pages=(0, 0, None, None, None, 0)).items():
    report(name, call(nr(name), *args))
# The controls: what a C library asks.
report("query", call(nr("personality"), 0xffffffff))
report("name", call(nr("prctl"), 15, b"me"))
""")
    assert found.pop("query") == "ok" and found.pop("name") == "ok", found
    all_are(found, "EPERM")


@attack(36)
def test_watching_files():
    found = inside("""
for flags in (0, 0o4000, 0o2000000):
    report("inotify %o" % flags, call(nr("inotify_init1"), flags))
if X86:
    report("inotify old", call(253))
report("libc", "ENOSYS" if _libc.inotify_init() == -1 else "ok")
for flags in (0, 4, 8, 0x200, 0x203, 1):
    report("fanotify %x" % flags, call(nr("fanotify_init"), flags, 0))
report("mark", call(nr("fanotify_mark"), 3, 1, 2, -100, b"/workspace"))
""")
    for name in list(found):
        if name.startswith(("inotify", "libc")):
            assert found.pop(name) == "ENOSYS", name
    all_are(found, "EPERM")


CORE_LIMIT = """
import resource, subprocess
report("limit", list(resource.getrlimit(resource.RLIMIT_CORE)))
try:
    report("of 1", list(resource.prlimit(1, resource.RLIMIT_CORE)))
except OSError:
    report("of 1", None)
report("dumpable", _libc.prctl(3, 0, 0, 0, 0))
unlimited = (1 << 64) - 1
for value in ((0, 0), (0, 1), (1, 1), (unlimited, unlimited), (2, 2)):
    words = (ctypes.c_ulong * 2)(*value)
    report("setrlimit %d %d" % value, call(nr("setrlimit"), 4, words))
    for pid in (0, os.getpid(), 1):
        report("prlimit %d %d %d" % ((pid,) + value),
               call(nr("prlimit64"), pid, 4, words, None))
    report("high %d %d" % value, call(nr("prlimit64"), 0, 1 << 32 | 4, words,
                                      None))
    report("high old %d %d" % value, call(nr("setrlimit"), 1 << 32 | 4,
                                          words))
r = subprocess.run(["/bin/sh", "-c", "ulimit -c 0"], capture_output=True)
report("shell", "EPERM" if r.returncode else "ok")
report("after", list(resource.getrlimit(resource.RLIMIT_CORE)))
"""


@attack(37)
def test_core_limit_cannot_be_changed():
    """A core_pattern that is a pipe is run on the host, as root, for a limit
    of 0 too; the kernel makes an exception for 1 only."""
    found = inside(CORE_LIMIT)
    outer = resource.getrlimit(resource.RLIMIT_CORE)[1]
    want = [1, 1] if outer != 0 or may_raise_limits() else [0, 0]
    assert found.pop("limit") == found.pop("after") == want
    assert found.pop("of 1") in (want, None)
    assert found.pop("dumpable") == (1 if want == [1, 1] else 0)
    all_are(found, "EPERM")


def may_raise_limits():
    """Not even root may everywhere."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0


@attack(37)
def test_core_limit_that_is_zero_already():
    """Who may raises it to 1; else the interpreter leaves no core by another
    way."""
    code = ("import os, resource, sys\n"
            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
            "os.execv(sys.argv[1], sys.argv[1:])")
    with Sandbox(prefix=[sys.executable, "-c", code], host=host()) as sb:
        assert sb.opened()["end"] == "done"
        found = sb.attack(CORE_LIMIT)
    raised = may_raise_limits()
    want = [1, 1] if raised else [0, 0]
    assert found.pop("limit") == found.pop("after") == want
    assert found.pop("of 1") in (want, None)
    assert found.pop("dumpable") == (1 if raised else 0)
    all_are(found, "EPERM")


@attack(42)
def test_memory_nobody_counts():
    found = inside("""
words = ctypes.create_string_buffer(64)
for name, args in dict(
        memfd_create=(b"x", 0), memfd_secret=(0,),
        shmget=(0, 1 << 20, 0o1600), msgget=(0, 0o1600),
        semget=(0, 1, 0o1600), mq_open=(b"q", 0o102, 0o600, None),
        openat2=(-100, b"/tmp", words, 24)).items():
    report(name, call(nr(name), *args))
report("shmat", call(30 if X86 else 196, 0, None, 0))
report("memfd", outcome(lambda: os.memfd_create("x")))
report("huge", outcome(lambda: os.memfd_create("x", 4)))
""")
    all_are(found, "ENOSYS")


@attack(42)
def test_attributes_of_files():
    """In a tmpfs they take memory besides its size: 60,000 bytes for each of
    as many files as it can have. What copies files goes on without them."""
    found = inside("""
import shutil, tempfile
name = tempfile.mkdtemp() + "/x"
open(name, "w").close()
b = name.encode()
for number in ("setxattr", "lsetxattr"):
    report(number, call({"setxattr": (188, 5), "lsetxattr": (189, 6)}[number][
        0 if X86 else 1], b, b"user.x", b"y", 1, 0))
with open(name) as f:
    report("fsetxattr", outcome(os.setxattr, f.fileno(), "user.x", b"y"))
report("copy", outcome(lambda: shutil.copy2(name, name + "2")) ==
       "ok: %r" % (name + "2"))
""")
    assert found.pop("copy"), found
    all_are(found, "EPERM")


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has hardly a part in it")
    main(globals())
