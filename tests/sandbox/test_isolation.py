#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be seen from inside: no file, secret, process or descriptor of the
host, and no rights."""

import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from attack_program import (  # noqa: E402
    CANARY, DIGEST, all_are, host, inside, main, sandbox)
from sandbox_session import Sandbox, attack, level, open_session  # noqa: E402


# ---- what is there ---------------------------------------------------------

def test_data_can_be_read():
    """The control: the sandbox does what it is for."""
    found = inside("""
import pandas as pd
report("sum", int(pd.read_csv("sales.csv").revenue.sum()))
report("who", __import__("getpass").getuser())
""")
    assert found == {"sum": 3, "who": "sandbox"}, found


@attack(1)
def test_no_directory_of_the_host():
    found = inside("""
for d in ("/home", "/root", "/var", "/run/user", "/mnt", "/boot", "/sys",
          "/srv", "/media", "/opt/secret", "/lost+found", "/run/dbus", %r):
    report(d, outcome(os.listdir, d))
report("secret", outcome(open, %r))
for d in ("/", "/run", "/tmp"):
    try:
        report(d, sorted(os.listdir(d)))
    except OSError:
        report(d, None)
""" % (host().dir, host().dir + "/secret.txt"))
    if level() == "reduced":
        all_are(found, "ENOENT", "EACCES", None)
        return
    top = found.pop("/")
    assert found.pop("/run") == ["kernel.py"], found
    # .cache is fontconfig's, when figures were drawn ahead.
    extra = set(found.pop("/tmp")) - {"mpl", ".cache"}
    assert not extra, extra
    all_are(found, "ENOENT", "ok: []")
    extra = set(top) - {"bin", "dev", "etc", "lib", "lib32", "lib64",
                        "libx32", "proc", "run", "sbin", "tmp", "usr",
                        "workspace", "opt"}
    assert not extra, extra


@attack(2)
def test_no_file_of_etc():
    found = inside("""
for f in ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/sudoers",
          "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ed25519_key",
          "/etc/ssh/ssh_host_ecdsa_key", "/etc/machine-id",
          "/var/lib/dbus/machine-id", "/etc/environment", "/etc/hostname",
          "/etc/resolv.conf", "/etc/hosts", "/etc/fstab", "/etc/profile"):
    report(f, outcome(open, f))
for d in ("/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private", "/etc/security"):
    report(d, outcome(os.listdir, d))
try:
    report("passwd", open("/etc/passwd").read())
    report("etc", sorted(os.listdir("/etc")))
except OSError:
    pass
""")
    if level() == "reduced":
        all_are(found, "ENOENT", "EACCES")
        return
    assert found.pop("passwd").count("\n") == 1
    extra = set(found.pop("etc")) - {
        "alternatives", "fonts", "group", "ld.so.cache", "localtime",
        "matplotlibrc", "passwd"}
    assert not extra, extra
    all_are(found, "ENOENT")


@attack(4)
def test_command_line_of_pid_1_has_no_host_path():
    """Fails with the arguments given to bwrap directly instead of by --args
    (launch() in local_bwrap.c)."""
    found = inside("""
for pid in filter(str.isdigit, os.listdir("/proc")):
    report(pid, open("/proc/%s/cmdline" % pid, "rb").read().decode(
        "utf-8", "replace"))
""")
    assert "1" in found and len(found) < 20, found
    for text in found.values():
        assert host().dir not in text, text
        assert sandbox().parent not in text, text
        assert "--bind" not in text and "--ro-bind" not in text, text
        assert not re.search(r"/(home|root|tmp|var)/", text), text


# ---- secrets ---------------------------------------------------------------

SEARCH = r"""
import hashlib, re
pattern = re.compile(rb"CANARY-" + rb"[0-9a-f]" * 24)
def find(data):
    return [m for m in pattern.findall(data)
            if hashlib.sha256(m).hexdigest() == DIGEST]
def scan(path):
    try:
        with open(path, "rb") as f:
            return find(f.read(1 << 24))
    except OSError:
        return []
def scan_memory(pid):
    hits = []
    try:
        maps = open("/proc/%s/maps" % pid).read().split("\n")
        with open("/proc/%s/mem" % pid, "rb", 0) as mem:
            for line in maps:
                m = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
                if not m or "[v" in line:
                    continue
                start, end = int(m[1], 16), int(m[2], 16)
                try:
                    while start < end:
                        mem.seek(start)
                        data = mem.read(min(1 << 22, end - start))
                        hits += find(data)
                        start += len(data) or end
                except (OSError, OverflowError, ValueError):
                    pass
    except OSError:
        return hits
    return hits
"""


@attack(3)
def test_canary_is_nowhere_inside():
    """Fails with the client's environ as envp of bwrap (launch() in
    local_bwrap.c: --clearenv does not clear the environment of pid 1)."""
    found = inside("DIGEST = %r\n" % DIGEST + SEARCH + """
report("os.environ", len([v for v in os.environ.values()
                          if find(v.encode())]))
names = sorted(os.environ)
report("names", names)
for pid in pids():
    for f in ("environ", "cmdline", "auxv", "comm", "stat"):
        report("%s/%s" % (pid, f), len(scan("/proc/%s/%s" % (pid, f))))
    report(pid + "/mem", len(scan_memory(pid)))
    try:
        fds = os.listdir("/proc/%s/fd" % pid)
    except OSError:
        fds = []
    for fd in fds:
        path = "/proc/%s/fd/%s" % (pid, fd)
        try:
            if stat.S_ISREG(os.stat(path).st_mode):
                report("%s/fd/%s" % (pid, fd), len(scan(path)))
        except OSError:
            pass
import tempfile
hits = []
for top in ("/etc", "/run", "/workspace", "/tmp", "/dev", "/dev/shm", "/var",
            "/home", "/root", tempfile.gettempdir()):
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            try:
                regular = stat.S_ISREG(os.lstat(path).st_mode)
            except OSError:
                continue
            if regular and scan(path):
                hits.append(path)
report("files", len(hits))
""")
    names = set(found.pop("names"))
    if level() != "reduced":
        assert "1/environ" in found and "1/mem" in found, found
    all_are(found, 0)
    allowed = {"PATH", "HOME", "LANG", "TZ", "MPLBACKEND", "MPLCONFIGDIR",
               "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PWD",
               "PYTHONDONTWRITEBYTECODE", "LC_CTYPE", "SHLVL", "_"}
    if level() == "reduced":
        allowed |= {"TMPDIR", "USER", "LOGNAME", "SANDPIPER_WORKSPACE"}
    assert names <= allowed, names - allowed


@attack(3)
def test_search_finds_a_planted_canary():
    """The control of the test above."""
    first, second = CANARY[:12], CANARY[12:]
    found = inside("DIGEST = %r\n" % DIGEST + SEARCH + """
import subprocess, tempfile
planted = %r + %r
path = os.path.join(tempfile.gettempdir(), "planted")
open(path, "w").write(planted)
report("file", len(scan(path)))
os.unlink(path)
if LEVEL == "reduced":
    raise SystemExit  # without /proc
report("mem", len(scan_memory(os.getpid())))
child = subprocess.Popen(["/usr/bin/sleep", "30"], env={"X": planted})
hits = []
# Popen returns in the middle of exec, before there is an environment.
for _ in range(100000):
    hits = scan("/proc/%%d/environ" %% child.pid)
    if hits:
        break
report("environ", len(hits))
child.kill()
child.wait()
planted = None
""" % (first, second))
    assert all(n >= 1 for n in found.values()), found


# ---- processes and descriptors ---------------------------------------------

@attack(7)
def test_no_way_out_through_proc():
    found = inside("""
import subprocess
child = subprocess.Popen(["/usr/bin/sleep", "60"], cwd="/")
paths = []
for pid in pids():
    paths.append("/proc/" + pid)
    for task in os.listdir("/proc/%%s/task" %% pid):
        paths.append("/proc/%%s/task/%%s" %% (pid, task))
report("n", len(pids()))
for path in paths:
    for name in ("root", "cwd"):
        for what in (%r, "/etc/shadow", "/home/", "/var/"):
            full = path + "/" + name + what
            report(full, outcome(lambda: os.path.lexists(full)))
    for name in ("root/..", "root/../..", "cwd/../.."):
        try:
            report(path + "/" + name, not set(os.listdir(path + "/" + name))
                   <= set(os.listdir("/")))
        except OSError as exc:
            report(path + "/" + name, code_of(exc.errno))
try:
    report("fd1", [os.readlink("/proc/1/fd/" + f)
                   for f in os.listdir("/proc/1/fd")])
except OSError as exc:
    report("fd1", [])
child.kill()
child.wait()
""" % (host().dir + "/secret.txt"))
    assert found.pop("n") < 20
    for target in found.pop("fd1"):
        assert re.match(r"(pipe|socket|anon_inode):|/dev/null", target), target
    assert len(found) > 20
    all_are(found, "ok: False", False, "EACCES", "EPERM")


@attack(8)
def test_descriptors():
    found = inside("""
for pid in ("self", "1"):
    fds = {}
    try:
        for f in os.listdir("/proc/%s/fd" % pid):
            try:
                mode = os.stat("/proc/%s/fd/%s" % (pid, f)).st_mode
                fds[f] = [os.readlink("/proc/%s/fd/%s" % (pid, f)),
                          stat.S_ISDIR(mode) or stat.S_ISSOCK(mode)]
            except OSError:
                pass
    except OSError:
        pass
    report(pid, fds)
report("terminal", [fd for fd in range(256) if os.isatty(fd)])
""")
    assert found.pop("terminal") == []
    own = found["self"]
    for number in "01234":
        assert number in own, own
    assert own["0"][0] == "/dev/null", own
    for number, (target, is_bad) in own.items():
        # matplotlib keeps a font of the read-only system open.
        assert re.match(r"pipe:|anon_inode:|/dev/null$|/proc/|/usr/share/",
                        target), own
        assert not is_bad, own
    assert len(own) <= 16, own
    for target, is_bad in found["1"].values():
        assert re.match(r"pipe:|anon_inode:|/dev/null$", target), found
        assert not is_bad, found


LEAK = """
import os, pty, socket, sys
top = sys.argv[1]
held = [os.open(top, os.O_RDONLY | os.O_DIRECTORY),
        os.open(top + "/secret.txt", os.O_RDONLY),
        pty.openpty()[1], socket.socket(socket.AF_UNIX).detach(),
        socket.socket(socket.AF_INET).detach()]
for i, fd in enumerate(held):
    os.dup2(fd, 40 + i)
    os.set_inheritable(40 + i, True)
os.execv(sys.argv[2], sys.argv[2:])
"""


@attack(8)
def test_leaked_descriptors_do_not_arrive():
    """A directory, a file, a terminal and sockets that the client has open
    without close-on-exec."""
    with open_session(prefix=[sys.executable, "-c", LEAK, host().dir],
                      host=host()) as sb:
        assert sb.opened()["end"] == "done"
        try:
            fds = os.listdir("/proc/%d/fd" % sb.process.pid)
            assert {"40", "41", "42", "43", "44"} <= set(fds), fds
        except PermissionError:
            pass
        found = sb.attack("""
out = {}
for pid in ("self", "1"):
    try:
        for f in os.listdir("/proc/%s/fd" % pid):
            try:
                out[pid + "/" + f] = os.readlink("/proc/%s/fd/%s" % (pid, f))
            except OSError:
                pass
    except OSError:
        pass
report("fds", out)
for fd in range(5, 256):
    try:
        mode = os.fstat(fd).st_mode
        report(str(fd), stat.S_ISDIR(mode) or stat.S_ISSOCK(mode) or
               os.isatty(fd))
    except OSError:
        pass
for fd in range(40, 45):
    report("at %d" % fd, outcome(
        lambda: os.open("secret.txt", os.O_RDONLY, dir_fd=fd)))
""")
        for name, target in found.pop("fds").items():
            assert host().dir not in target, target
            assert "/pts/" not in target and "socket:" not in target, target
            assert name.split("/")[1] not in (
                "40", "41", "42", "43", "44"), found
        all_are(found, False, "EBADF")


@attack(35)
def test_capabilities_and_filter():
    found = inside("""
for pid in filter(str.isdigit, os.listdir("/proc")):
    text = open("/proc/%s/status" % pid).read()
    for line in text.split("\\n"):
        key, _, value = line.partition(":")
        if key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
                   "NoNewPrivs", "Seccomp"):
            report(pid + key, value.strip())
report("ids", [os.getuid(), os.geteuid(), os.getgid()])
report("groups", os.getgroups())
for what in ("setuid", "setgid", "seteuid"):
    report("0 " + what, outcome(getattr(os, what), 0))
report("0 setgroups", outcome(os.setgroups, [0]))
""")
    assert found.pop("ids") == [1000, 1000, 1000]
    assert 0 not in found.pop("groups")
    assert "1CapEff" in found and "1Seccomp" in found
    for key, value in found.items():
        if "Cap" in key:
            assert int(value, 16) == 0, (key, value)
        elif "NoNewPrivs" in key:
            assert value == "1", (key, value)
        elif "Seccomp" in key:
            assert value == "2", (key, value)
        else:
            assert value in ("EPERM", "EINVAL"), (key, value)


PROGRAMS = """
import glob, subprocess
for path in sorted(set(PATHS) | {
        p for d in ("/usr/bin", "/usr/sbin", "/usr/lib/openssh")
        for p in glob.glob(d + "/*")
        if os.path.isfile(p) and os.stat(p).st_mode & 0o6000}):
    if not os.path.exists(path):
        report(path, "absent")
        continue
    # An id of its own is what a program gets that may be set-uid.
    child = subprocess.Popen(
        [path] + (["-c", "id -u"] if path.endswith("/su") else []),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    gain = False
    try:
        for line in open("/proc/%d/status" % child.pid):
            words = line.split()
            if words[0] in ("Uid:", "Gid:"):
                gain |= set(words[1:]) != {"1000"}
            if words[0] in ("CapEff:", "CapPrm:"):
                gain |= int(words[1], 16) != 0
    except OSError:
        pass
    try:
        out = child.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        out = child.communicate()[0]
    report(path, "gain" if gain or out.strip() == b"0" or b"uid=0" in out
           else "no")
r = subprocess.run(["/usr/bin/id", "-u"], capture_output=True)
report("id", r.stdout.decode().strip())
"""


@attack(35)
def test_set_uid_programs_give_nothing():
    names = ["su", "sudo", "mount", "umount", "newgrp", "pkexec", "passwd"]
    found = inside("PATHS = %r\n" % ["/usr/bin/" + n for n in names] +
                   PROGRAMS)
    assert found.pop("id") == "1000"
    assert len(found) >= len(names)
    all_are(found, "no", "absent")


@attack(35)
def test_set_uid_program_of_root_in_the_workspace():
    """Even where somebody has put one there."""
    if os.getuid() != 0:
        tap.skip("only root can make a set-uid program of root")
    tool = os.path.join(sandbox().workspace(), "root-id")
    shutil.copy("/usr/bin/id", tool)
    try:
        os.chmod(tool, 0o6755)
        run = subprocess.run([tool, "-u"], capture_output=True)
        assert run.stdout == b"0\n", run
        found = inside("PATHS = ['/workspace/root-id']\n" + PROGRAMS)
        assert found["/workspace/root-id"] == "no", found
    finally:
        os.unlink(tool)


# ---- two of them -----------------------------------------------------------

@attack(66)
def test_two_sandboxes_do_not_see_each_other():
    """As the same user outside, in the same directory."""
    first = inside("""
import socket, subprocess
for d in ("/workspace", "/tmp", "/dev/shm"):
    open(d + "/mine.txt", "w").write("one")
other = subprocess.Popen(["/usr/bin/sleep", "6060"])
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0one-of-two")
listener.listen(1)
by_path = socket.socket(socket.AF_UNIX)
by_path.bind("/tmp/one-of-two")
by_path.listen(1)
for kind in ("pid", "net", "ipc", "mnt", "uts", "user", "cgroup"):
    report(kind, os.readlink("/proc/self/ns/" + kind))
""")
    before = sandbox().list()["mine.txt"]
    with Sandbox(host=host()) as second:
        assert second.opened()["end"] == "done"
        found = second.attack("""
import socket
kinds = {}
for kind in ("pid", "net", "ipc", "mnt", "uts", "user", "cgroup"):
    kinds[kind] = os.readlink("/proc/self/ns/" + kind)
report("kinds", kinds)
for d in ("/workspace", "/tmp", "/dev/shm"):
    report(d, "mine.txt" in os.listdir(d))
report("data", outcome(os.listdir, "/workspace/data"))
seen = [open("/proc/%s/cmdline" % p).read() for p in pids()]
report("sleep", any("6060" in text for text in seen))
report("n", len(seen) < 20)
report("var", "other" in globals())
for name in ("\\0one-of-two", "/tmp/one-of-two"):
    report(repr(name), outcome(socket.socket(socket.AF_UNIX).connect, name))
report("unix", "one-of-two" in open("/proc/net/unix").read())
os.makedirs("/workspace/output", exist_ok=True)
for d in ("/workspace", "/tmp", "/dev/shm"):
    open(d + "/mine.txt", "w").write("two")
""")
        kinds = found.pop("kinds")
        same = [k for k in kinds if kinds[k] == first[k]]
        assert same == [], same
        assert found.pop("data") == "ok: []", found
        assert found.pop("n") is True
        all_are(found, False, "ECONNREFUSED", "ENOENT")
        assert os.path.basename(os.path.dirname(second.workspace())) != \
            os.path.basename(os.path.dirname(sandbox().workspace()))
        # What the second does to all that it sees does not reach the first.
        second.cell("import os\nos.kill(-1, 9)")
        assert "mine.txt" in second.list()
    assert sandbox().list()["mine.txt"] == before
    found = inside("""
report("lives", other.poll() is None)
for d in ("/workspace", "/tmp", "/dev/shm"):
    report(d, open(d + "/mine.txt").read() == "one")
    os.unlink(d + "/mine.txt")
other.kill()
other.wait()
listener.close()
by_path.close()
os.unlink("/tmp/one-of-two")
""")
    all_are(found, True)


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has hardly a part in it")
    main(globals())
