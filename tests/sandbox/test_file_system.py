#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing can be written, made, mounted or reached outside of what is the
sandbox's own, and that is bounded."""

import os
import re
import stat
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from attack_program import (  # noqa: E402
    DATA, all_are, host, inside, main, sandbox)
from sandbox_session import attack, level  # noqa: E402


# ---- writing ---------------------------------------------------------------

@attack(5)
def test_nothing_can_be_made_outside():
    """In every directory that there is, by every way to make something; and
    no file that is there already is opened for writing."""
    found = inside("""
import itertools, tempfile
own = ("/workspace", "/tmp", "/dev/shm")
tops = ["/"]
if LEVEL == "reduced":
    # Without a root of its own, which could not be listed.
    own = ("/workspace", tempfile.gettempdir())
    tops += ["/usr", "/etc", "/dev", "/dev/shm", "/tmp", "/var/tmp", "/run",
             "/home", "/root", "/opt", "/srv", "/workspace/data", %r]
O_TMPFILE = getattr(os, "O_TMPFILE", 0)
n = 0
made = []
def attempt(what, function, *args):
    # What is made all the same does not stay.
    try:
        value = function(*args)
    except OSError:
        return
    made.append(what)
    if isinstance(value, int):
        os.close(value)
    for undo in (os.unlink, os.rmdir):
        if "made-by-cell" in what:
            outcome(undo, args[-1] if function is os.symlink else args[0])
def walk(top):
    yield top, [], []
    yield from os.walk(top)
for folder, dirs, files in itertools.chain(*map(walk, tops)):
    if folder in own:
        dirs[:] = [d for d in dirs if folder + "/" + d == "/workspace/data"]
        continue
    n += 1
    if len(made) > 20:
        break
    path = os.path.join(folder, "made-by-cell")
    attempt("file " + path, os.open, path,
            os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    attempt("directory " + path + "-d", os.mkdir, path + "-d")
    attempt("link " + path + "-l", os.symlink, "x", path + "-l")
    attempt("FIFO " + path + "-f", os.mkfifo, path + "-f")
    attempt("nameless " + folder, os.open, folder, O_TMPFILE | os.O_RDWR,
            0o600)
    if folder.startswith(("/proc", "/dev")):
        continue
    for name in files[:2]:
        path = os.path.join(folder, name)
        if not os.path.islink(path):
            attempt("append " + path, os.open, path, os.O_WRONLY | os.O_APPEND)
            # Of a copy it is the cells' own: see test_data_is_read_only.
            if LEVEL == "reduced" and folder == "/workspace/data":
                continue
            attempt("mode " + path, os.chmod, path,
                    stat.S_IMODE(os.lstat(path).st_mode))
report("made", made)
report("n", n)
for d in ("/", "/dev", "/run", "/etc", "/proc", "/proc/1", "/workspace/data"):
    report(d, outcome(os.mkdir, d + "/d"))
    outcome(os.rmdir, d + "/d")
report("kernel", outcome(lambda: open("/run/kernel.py", "a")))
report("rm", outcome(os.unlink, "/run/kernel.py"))
report("mv", outcome(os.rename, "/etc/passwd", "/tmp/passwd"))
""" % host().dir)
    assert found.pop("n") > 1000
    made = found.pop("made")
    assert made == [], made
    all_are(found, "EROFS", "EACCES", "EPERM", "EBUSY", "ENOENT", "EXDEV")


@attack(11)
def test_sysctls_are_not_writable():
    """As root this fails without the change of identity (proc_spec.drop_ids
    in launch(), local_bwrap.c): bubblewrap leaves /proc/sys writable."""
    found = inside("""
for f in ("kernel/core_pattern", "kernel/modprobe", "kernel/hotplug",
          "kernel/poweroff_cmd", "kernel/usermodehelper/bset",
          "vm/overcommit_memory", "vm/overcommit_ratio",
          "kernel/domainname", "kernel/hostname",
          "kernel/yama/ptrace_scope", "fs/binfmt_misc/register",
          "fs/binfmt_misc/status", "user/max_user_namespaces"):
    report(f, outcome(os.open, "/proc/sys/" + f, os.O_WRONLY))
for f in ("sysrq-trigger", "kcore", "kmsg", "timer_list", "kallsyms",
          "scsi/scsi", "mtrr", "irq/default_smp_affinity"):
    report(f, outcome(os.open, "/proc/" + f, os.O_WRONLY))
for f in ("/sys/kernel/uevent_helper", "/sys/power/state",
          "/sys/fs/cgroup/release_agent", "/dev/mem", "/dev/kmem",
          "/dev/kmsg", "/dev/port"):
    report(f, outcome(os.open, f, os.O_WRONLY))
n = 0
writable = []
for top in ("/proc/sys", "/proc/fs", "/proc/irq", "/proc/bus",
            "/proc/driver"):
    for folder, dirs, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            n += 1
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                writable.append(path)
            except OSError:
                pass
report("n", n)
report("writable", writable)
for path, value in (("pid_max", "400001"), ("shmmni", "4001"),
                    ("msgmax", "8001")):
    try:
        open("/proc/sys/kernel/" + path, "w").write(value)
    except OSError:
        pass
""")
    assert found.pop("n") > 100
    # Those of the sandbox's own IPC and pid namespaces are its own to set.
    shared = [path for path in found.pop("writable")
              if not re.match(r"/proc/sys/(fs/mqueue/|kernel/(auto_msgmni|"
                              r"msgm|ns_last_pid$|pid_max$|sem$|shm))", path)]
    assert shared == [], shared
    all_are(found, "EROFS", "EACCES", "EPERM", "ENOENT")


@attack(14)
def test_hard_link_of_read_only_files():
    path = os.path.join(host().dir, "sales.csv")
    before = os.stat(path).st_nlink
    found = inside("""
AT_FDCWD, FOLLOW, EMPTY = -100, 0x400, 0x1000
for source in ("/usr/bin/env", "/usr/bin/su", "/run/kernel.py",
               "/workspace/data/sales.csv", "/etc/passwd"):
    report(source, outcome(os.link, source, "/workspace/linked"))
    report(source + " tmp", outcome(os.link, source, "/tmp/linked"))
    fd = os.open(source, os.O_PATH)
    report(source + " fd", call(nr("linkat"), AT_FDCWD,
                                b"/proc/self/fd/%d" % fd, AT_FDCWD,
                                b"/workspace/linked", FOLLOW))
    value = call(nr("linkat"), fd, b"", AT_FDCWD, b"/workspace/linked", EMPTY)
    # Refused before the file systems are compared, for want of a right.
    report(source + " empty", "EXDEV" if value == "ENOENT" else value)
    os.close(fd)
""")
    all_are(found, "EXDEV")
    assert os.stat(path).st_nlink == before
    assert "linked" not in os.listdir(sandbox().workspace())


@attack(15)
def test_no_set_uid_bit_can_be_made():
    found = inside("""
import tempfile
def path_for(what, mode, where):
    return os.path.join(where, "%s%o" % (what, mode)).encode()
for where in ("/workspace", "/tmp", "/dev/shm"):
    tool = os.path.join(where, "tool")
    open(tool, "w").close()
    os.mkdir(os.path.join(where, "folder"))
    fd = os.open(tool, os.O_RDONLY)
    top = os.open(where, os.O_RDONLY)
    for mode in (0o4755, 0o2755, 0o6755, 0o7777):
        def tell(what, value):
            report("%s %s %o" % (what, where, mode), value)
        tell("chmod", outcome(os.chmod, tool, mode))
        tell("fchmod", outcome(os.fchmod, fd, mode))
        tell("at", outcome(lambda: os.chmod("tool", mode, dir_fd=top)))
        tell("by fd", outcome(os.chmod, "/proc/self/fd/%d" % fd, mode))
        tell("folder", outcome(os.chmod, where + "/folder", mode))
        tell("fchmodat2", call(nr("fchmodat2"), -100, tool.encode(), mode, 0))
        tell("open", outcome(os.open, path_for("made", mode, where),
                             os.O_CREAT | os.O_WRONLY, mode))
        tell("nameless", outcome(os.open, where, os.O_TMPFILE | os.O_RDWR,
                                 mode))
        tell("mknod", outcome(os.mknod, path_for("node", mode, where),
                              stat.S_IFREG | mode))
        tell("FIFO", outcome(os.mknod, path_for("fifo", mode, where),
                             stat.S_IFIFO | mode))
        tell("openat2", call(nr("openat2"), -100, path_for("two", mode, where),
                             b"".join(n.to_bytes(8, "little") for n in
                                      (os.O_CREAT | os.O_WRONLY, mode, 0)),
                             24))
        if X86:
            path = path_for("old", mode, where)
            tell("old chmod", call(90, tool.encode(), mode))
            tell("creat", call(85, path, mode))
            tell("old open", call(2, path, os.O_CREAT | os.O_WRONLY, mode))
            tell("old mknod", call(133, path, stat.S_IFREG | mode, 0))
        # Bits above those of the type that the kernel takes.
        tell("high", call(nr("mknodat"), -100, path_for("high", mode, where),
                          (1 << 32) | stat.S_IFREG | mode, 0))
    report(where + " capability", outcome(
        os.setxattr, tool, "security.capability",
        bytes.fromhex("0100000202000000000000000000000000000000")))
    report("plain " + where, outcome(os.chmod, tool, 0o755))
    os.close(fd)
    os.close(top)
made = []
for where in ("/workspace", "/tmp", "/dev/shm"):
    for folder, names, files in os.walk(where):
        made += [folder + "/" + name for name in names + files
                 if os.lstat(folder + "/" + name).st_mode & 0o6000]
report("made", made)
""")
    assert found.pop("made") == [], found
    for where in ("/workspace", "/tmp", "/dev/shm"):
        assert found.pop("plain " + where) == "ok: None", found
    all_are(found, "EPERM", "ENOSYS")
    for folder, names, files in os.walk(sandbox().workspace()):
        for name in names + files:
            mode = os.lstat(os.path.join(folder, name)).st_mode
            assert not mode & 0o6000, name


@attack(19)
def test_data_is_read_only():
    path = os.path.join(host().dir, "sales.csv")
    before = os.stat(path)
    found = inside("""
import mmap
d = "/workspace/data"
p = d + "/sales.csv"
report("write", outcome(lambda: open(p, "w")))
report("both", outcome(lambda: open(p, "r+")))
report("append", outcome(lambda: open("/workspace/sales.csv", "a")))
report("by fd", outcome(lambda: open(
    "/proc/self/fd/%d" % os.open(p, os.O_RDONLY), "w")))
report("map", outcome(lambda: mmap.mmap(os.open(p, os.O_RDONLY), 0,
                                        mmap.MAP_SHARED)))
report("new", outcome(lambda: open(d + "/new", "w")))
report("nameless", outcome(os.open, d, os.O_TMPFILE | os.O_RDWR))
report("mkdir", outcome(os.mkdir, d + "/new"))
report("symlink", outcome(os.symlink, "x", d + "/new"))
report("link", outcome(os.link, p, d + "/new"))
report("unlink", outcome(os.unlink, p))
report("rename", outcome(os.rename, p, d + "/other"))
report("out", outcome(os.rename, p, "/workspace/other"))
open("/workspace/mine", "w").close()
report("over", outcome(os.rename, "/workspace/mine", p))
report("chmod", outcome(os.chmod, p, 0o777))
report("chmod dir", outcome(os.chmod, d, 0o777))
report("fchmod", outcome(os.fchmod, os.open(p, os.O_RDONLY), 0o777))
report("chown", outcome(os.chown, p, 1000, 1000))
report("utime", outcome(os.utime, p, (1, 1)))
report("xattr", outcome(os.setxattr, p, "user.x", b"x"))
report("truncate", outcome(os.truncate, p, 0))
# Without mounts it is a link of the workspace.
if LEVEL != "reduced":
    report("rmdir", outcome(os.rmdir, d))
    report("move dir", outcome(os.rename, d, "/workspace/d2"))
# Whatever its mode says by now.
report("write again", outcome(lambda: open(p, "w")))
report("new again", outcome(lambda: open(d + "/new", "w")))
report("unlink again", outcome(os.unlink, p))
os.unlink("/workspace/mine")
""")
    if level() == "reduced":
        # It is a copy that belongs to the user, whose mode and times are the
        # cells' to change; only what is in it is not.
        for name in ("chmod", "chmod dir", "fchmod", "utime"):
            if found[name] == "ok: None":
                del found[name]
    all_are(found, "EROFS", "EACCES", "EPERM", "EXDEV", "EBUSY", "ENOTEMPTY")
    after = os.stat(path)
    assert (before.st_mtime_ns, before.st_mode, before.st_size,
            before.st_ino) == (after.st_mtime_ns, after.st_mode,
                               after.st_size, after.st_ino)
    with open(path) as f:
        assert f.read() == DATA


# ---- mounts and nodes ------------------------------------------------------

@attack(6)
def test_mounts():
    found = inside("""
import subprocess
MS_REMOUNT, MS_BIND, MS_MOVE, MS_PRIVATE, DETACH = 32, 4096, 8192, 1 << 18, 2
before = open("/proc/self/mounts").read()
for what in ("/usr", "/", "/dev", "/workspace/data", "/proc/sys"):
    report("rw " + what, call(nr("mount"), b"none", what.encode(), None,
                              MS_REMOUNT | MS_BIND, None))
for kind in (b"tmpfs", b"proc", b"sysfs", b"cgroup", b"cgroup2", b"devpts",
             b"overlay", b"mqueue", b"ramfs", b"fuse", b"binfmt_misc"):
    report(kind.decode(), call(nr("mount"), b"none", b"/tmp", kind, 0, None))
for name, flags in (("bind", MS_BIND), ("move", MS_MOVE)):
    report(name, call(nr("mount"), b"/proc", b"/tmp", None, flags, None))
report("private", call(nr("mount"), b"none", b"/", None, MS_PRIVATE, None))
for what in ("/workspace/data", "/tmp", "/usr", "/dev/shm", "/proc", "/"):
    report("umount " + what, call(nr("umount2"), what.encode(), DETACH))
report("pivot", call(nr("pivot_root"), b"/tmp", b"/tmp"))
report("pivot .", call(nr("pivot_root"), b".", b"."))
report("chroot", call(nr("chroot"), b"/tmp"))
blob = ctypes.create_string_buffer(256)
for name, args in dict(
        open_tree=(-100, b"/usr", 1), move_mount=(-1, b"/usr", -100, b"/tmp",
                                                  0),
        fsopen=(b"tmpfs", 0), fsconfig=(3, 6, None, None, 0),
        fsmount=(3, 0, 0), fspick=(-100, b"/usr", 0),
        mount_setattr=(-100, b"/usr", 0, blob, 32),
        statmount=(blob, blob, 256, 0), listmount=(blob, blob, 8, 0)).items():
    report(name, call(nr(name), *args))
for command in (["mount", "-o", "remount,rw", "/usr"],
                ["mount", "-t", "tmpfs", "none", "/tmp"],
                ["umount", "/workspace/data"], ["unshare", "-m", "true"],
                ["unshare", "-Urm", "true"]):
    r = subprocess.run(["/usr/bin/" + command[0]] + command[1:],
                       capture_output=True)
    report(" ".join(command), "EPERM" if r.returncode else "ok")
report("mounts", "EPERM" if open("/proc/self/mounts").read() == before
       else "changed")
""")
    all_are(found, "EPERM", "ENOSYS")


@attack(9)
def test_handles_of_inodes():
    """A file that is outside of the mount tree, by its inode number."""
    found = inside("""
handle = ctypes.create_string_buffer(64)
mount = ctypes.create_string_buffer(8)
def number(value, size=4):
    return value.to_bytes(size, "little")
for where in ("/workspace", "/workspace/data", "/usr", "/tmp", "/"):
    fd = os.open(where, os.O_RDONLY)
    # Inode and generation, as ext4, xfs and tmpfs write them.
    for inode in list(range(1, 17)) + [32, 64, 96, 128, 256]:
        for kind, words in ((1, number(inode) + number(0)),
                            (0x81, number(inode, 8) + number(0)),
                            (1, number(0) + number(inode, 8))):
            ctypes.memmove(handle, number(len(words)) + number(kind) + words,
                           8 + len(words))
            report("%s %d %d" % (where, inode, kind),
                   call(nr("open_by_handle_at"), fd, handle, 0))
    ctypes.memmove(handle, number(48), 4)
    report("name " + where, call(nr("name_to_handle_at"), -100,
                                 where.encode(), handle, mount, 0))
    os.close(fd)
""")
    all_are(found, "EPERM")


@attack(10)
def test_device_nodes():
    found = inside("""
for kind, name in ((stat.S_IFBLK, "block"), (stat.S_IFCHR, "char")):
    for device in ((8, 0), (1, 1), (1, 3), (5, 1), (10, 200), (259, 0)):
        for where in ("/workspace", "/tmp", "/dev/shm", "/dev"):
            report("%s %s %s" % (name, where, device), outcome(
                os.mknod, where + "/node", kind | 0o666,
                os.makedev(*device)))
            if X86:
                report("old %s %s %s" % (name, where, device), call(
                    133, where.encode() + b"/node", kind | 0o666,
                    os.makedev(*device)))
report("dev", sorted(os.listdir("/dev")))
nodes = []
for folder, dirs, files in os.walk("/dev"):
    for name in files:
        st = os.lstat(os.path.join(folder, name))
        if stat.S_ISBLK(st.st_mode):
            nodes.append(name)
report("block", nodes)
""")
    dev = set(found.pop("dev"))
    extra = dev - {"core", "fd", "full", "null", "ptmx", "pts", "random",
                   "shm", "stderr", "stdin", "stdout", "tty", "urandom",
                   "zero", "console"}
    assert not extra, extra
    assert found.pop("block") == []
    all_are(found, "EPERM", "EROFS")
    for name in os.listdir(sandbox().workspace()):
        mode = os.lstat(os.path.join(sandbox().workspace(), name)).st_mode
        assert not stat.S_ISBLK(mode) and not stat.S_ISCHR(mode), name


@attack(23)
def test_no_socket_of_the_host_in_the_file_system():
    found = inside("""
import socket
hits = []
n = 0
def look(folder):
    global n
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    n += 1
    for entry in entries:
        try:
            if entry.is_symlink() or entry.is_file(follow_symlinks=False):
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.path not in ("/workspace", "/tmp"):
                    look(entry.path)
            elif stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                hits.append(entry.path)
        except OSError:
            pass
for top in ("/", "/workspace/data") if LEVEL != "reduced" else (
        "/usr", "/etc", "/dev", "/run", "/var", "/tmp"):
    look(top)
report("sockets", hits)
report("n", n)
for name in (%r, "/run/dbus/system_bus_socket", "/var/run/docker.sock",
             "/run/systemd/private", "/tmp/.X11-unix/X0",
             "/run/user/1000/bus", "/dev/log"):
    report(name, outcome(lambda: socket.socket(socket.AF_UNIX).connect(name)))
""" % host().path)
    assert found.pop("n") > 1000
    assert found.pop("sockets") == [], found
    all_are(found, "ENOENT", "EPERM" if level() == "reduced" else "EACCES")


# ---- what is its own -------------------------------------------------------

@attack(43)
def test_private_directories_are_bounded():
    """Also: what is full does not end the interpreter."""
    found = inside("""
def fill(path, block=1 << 22):
    total, data = 0, bytes(block)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        while total < 1 << 30:
            total += os.write(fd, data)
    except OSError as exc:
        return [code_of(exc.errno), total >> 20]
    finally:
        os.close(fd)
        os.unlink(path)
    return ["no limit", total >> 20]
report("tmp", fill("/tmp/fill"))
report("shm", fill("/dev/shm/fill"))
report("dev", outcome(os.open, "/dev/fill", os.O_CREAT | os.O_WRONLY))
""")
    assert found["tmp"][0] == "ENOSPC" and 240 <= found["tmp"][1] <= 256, found
    assert found["shm"][0] == "ENOSPC" and 56 <= found["shm"][1] <= 64, found
    assert found["dev"] == "EROFS", found


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has hardly a part in it")
    main(globals())
