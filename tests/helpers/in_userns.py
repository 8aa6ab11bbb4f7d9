#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""usage: in_userns.py [--no-userns] [--mask-proc] [--hide FILE]...
                       [--over FILE PATH]... [--tmpfs MIB PATH]... [--only-root]
                       [--chroot]
                       COMMAND [ARGUMENT...]

Runs a command in a user and mount namespace of its own that lacks something,
as the same user as before (root keeps all its users):

--no-userns   no further user namespace can be made
--mask-proc   a part of /proc is covered, as containers do it
--hide FILE   /dev/null lies over it
--over FILE PATH   FILE lies over PATH
--tmpfs       a file system of so many MiB, of the caller's own, lies over it;
              MIB:FILES: it can have no more than so many files
--only-root   root and nobody else, as in a container with one user
--chroot      the same system, entered by chroot through a directory
"""

import ctypes
import os
import sys
import tempfile

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18

libc = ctypes.CDLL(None, use_errno=True)


def check(value, what):
    if value != 0:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (what, os.strerror(code)))


def mount(source, target, kind, flags, data=None):
    check(libc.mount(source, os.fsencode(target), kind, flags, data), target)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def map_ids(pid, only_root):
    """By the parent, which has the rights for it outside."""
    uid, gid = os.getuid(), os.getgid()
    if only_root:
        maps = ("0 %d 1" % uid, "0 %d 1" % gid)
    elif uid == 0:
        maps = ("0 0 4294967295", "0 0 4294967295")
    else:
        maps = ("%d %d 1" % (uid, uid), "%d %d 1" % (gid, gid))
    if uid != 0 or only_root:
        write("/proc/%d/setgroups" % pid, "deny")
    write("/proc/%d/uid_map" % pid, maps[0])
    write("/proc/%d/gid_map" % pid, maps[1])


def remove_empty(top):
    """The directory of a chroot, in which nothing is mounted out here."""
    for name in os.listdir(top):
        path = os.path.join(top, name)
        (os.unlink if os.path.islink(path) else os.rmdir)(path)
    os.rmdir(top)


def enter_chroot(top):
    for name in os.listdir("/"):
        source, target = os.path.join("/", name), os.path.join(top, name)
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
        elif os.path.isdir(source):
            os.mkdir(target)
            try:
                mount(os.fsencode(source), target, None, MS_BIND | MS_REC)
            except OSError:
                pass
    cwd = os.getcwd()
    os.chroot(top)
    os.chdir(cwd)


def enter(only_root, top):
    """The parent stays to write the maps, and then waits: the command is a
    child that the caller's signals reach as a group."""
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()
    pid = os.fork()
    if pid:
        os.close(ready_w)
        os.close(go_r)
        if os.read(ready_r, 1) == b"x":
            map_ids(pid, only_root)
            os.write(go_w, b"x")
        os.close(go_w)
        _, status = os.waitpid(pid, 0)
        if top:
            remove_empty(top)
        os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status)
                 else os.WEXITSTATUS(status))
    os.close(ready_r)
    os.close(go_w)
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    os.write(ready_w, b"x")
    if os.read(go_r, 1) != b"x":
        os._exit(125)
    os.close(ready_w)
    os.close(go_r)


def main():
    argv = sys.argv[1:]
    over, disks, flags, top = [], [], set(), None
    while argv and argv[0].startswith("--"):
        option = argv.pop(0)
        if option == "--hide":
            over.append(("/dev/null", argv.pop(0)))
        elif option == "--over":
            over.append((argv.pop(0), argv.pop(0)))
        elif option == "--tmpfs":
            disks.append((argv.pop(0), argv.pop(0)))
        elif option == "--":
            break
        else:
            flags.add(option)
    if not argv or flags - {"--no-userns", "--mask-proc", "--only-root",
                            "--chroot"}:
        sys.exit(__doc__)
    if "--chroot" in flags:
        top = tempfile.mkdtemp(prefix="chroot-")
        os.chmod(top, 0o755)
    enter("--only-root" in flags, top)
    mount(b"none", "/", None, MS_REC | MS_PRIVATE)
    for source, path in over:
        if os.path.exists(path):
            mount(os.fsencode(source), path, None, MS_BIND)
    for size, path in disks:
        size, _, files = size.partition(":")
        mount(b"tmpfs", path, b"tmpfs", 0, b"mode=0711,size=%dm,nr_inodes=%d"
              % (int(size), int(files or 0)))
    if "--mask-proc" in flags:
        mount(b"none", "/proc/fs", b"tmpfs", 0)
    if "--no-userns" in flags:
        write("/proc/sys/user/max_user_namespaces", "0")
    if top:
        enter_chroot(top)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
