#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""usage: in_userns.py [--no-userns] [--mask-proc] [--hide FILE]...
                       [--only-root] COMMAND [ARGUMENT...]

Runs a command in a user and mount namespace of its own that lacks something,
as the same user as before (root keeps all its users):

--no-userns   no further user namespace can be made
--mask-proc   a part of /proc is covered, as containers do it
--hide FILE   /dev/null lies over it
--only-root   root and nobody else, as in a container with one user
"""

import ctypes
import os
import sys

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18

libc = ctypes.CDLL(None, use_errno=True)


def check(value, what):
    if value != 0:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (what, os.strerror(code)))


def mount(source, target, kind, flags):
    check(libc.mount(source, os.fsencode(target), kind, flags, None), target)


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


def enter(only_root):
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
    hidden, flags = [], set()
    while argv and argv[0].startswith("--"):
        option = argv.pop(0)
        if option == "--hide":
            hidden.append(argv.pop(0))
        elif option == "--":
            break
        else:
            flags.add(option)
    if not argv or flags - {"--no-userns", "--mask-proc", "--only-root"}:
        sys.exit(__doc__)
    enter("--only-root" in flags)
    mount(b"none", "/", None, MS_REC | MS_PRIVATE)
    for path in hidden:
        if os.path.exists(path):
            mount(b"/dev/null", path, None, MS_BIND)
    if "--mask-proc" in flags:
        mount(b"none", "/proc/fs", b"tmpfs", 0)
    if "--no-userns" in flags:
        write("/proc/sys/user/max_user_namespaces", "0")
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
