#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of attacks look at outside is really looked at: each kind of
change is found."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import host_check  # noqa: E402
import tap  # noqa: E402
from host_check import HostCheck  # noqa: E402
from sandbox_session import cell_uid  # noqa: E402


def finds(host, word, end=False):
    try:
        if end:
            host.check_end(timeout=0)
        else:
            host.check(timeout=0)
    except AssertionError as exc:
        assert word in str(exc), (word, exc)
        return
    raise AssertionError("not found: %s" % word)


def connect(family, address):
    s = socket.socket(family)
    s.connect(address)
    return s


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


CHANGES = {
    "new": lambda h: write(h.dir + "/new", ""),
    "secret.txt": lambda h: write(h.dir + "/secret.txt", "other!"),
    "tool": lambda h: os.chmod(h.dir + "/tool", 0o6755),
    "closed.txt": lambda h: os.unlink(h.dir + "/closed.txt"),
    "127.0.0.1": lambda h: connect(socket.AF_INET, ("127.0.0.1", h.port)),
    "somebody came": lambda h: connect(socket.AF_UNIX, "\0" + h.abstract),
    "listener": lambda h: connect(socket.AF_UNIX, h.path),
}


def test_changes_are_found():
    for word, change in CHANGES.items():
        host = HostCheck(cell_uid())
        held = None
        try:
            host.check()
            held = change(host)
            finds(host, word)
        finally:
            if held is not None:
                held.close()
            host.close()
        assert not os.path.exists(host.dir)


def test_directories_and_settings_are_looked_at():
    top = tempfile.mkdtemp(prefix="place-")
    before = host_check.DIRECTORIES
    host_check.DIRECTORIES = before + (top,)
    host = HostCheck(cell_uid())
    try:
        host.check()
        os.chmod(top, 0o777)
        finds(host, top)
        os.chmod(top, 0o700)
        host.check()
        for name in ("kernel/core_pattern", "host name", "mounts", "/tmp"):
            value = host.settings[name]
            host.settings[name] = "other"
            finds(host, name)
            host.settings[name] = value
        host.check()
    finally:
        host_check.DIRECTORIES = before
        host.close()
        shutil.rmtree(top)


def test_what_is_left_is_found():
    if not host_check.is_nobodys(cell_uid()):
        tap.skip("processes are counted by user, and this one may run others")
    host = HostCheck(cell_uid())
    child = None
    try:
        host.check_end()
        how = {} if os.getuid() else {"user": cell_uid(), "extra_groups": []}
        child = subprocess.Popen(["/usr/bin/sleep", "60"], **how)
        finds(host, "left behind: %d sleep" % child.pid, end=True)
        child.kill()
        child.wait()
        host.check_end()
        host.free["/tmp"] += 1 << 50
        finds(host, "/tmp has", end=True)
    finally:
        if child is not None:
            child.kill()
            child.wait()
        host.close()


if __name__ == "__main__":
    tap.main(globals())
