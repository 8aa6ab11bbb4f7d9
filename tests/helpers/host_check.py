# SPDX-License-Identifier: GPL-3.0-or-later
"""What of this machine an attack must leave as it was.

    host = HostCheck(uid)    before; uid: whose processes the cells are
    host.check()             after each attack: settings, files, listeners
    host.check_end()         when all sandboxes have ended: also processes,
                             room on the file systems, the kernel's log
    host.close()

Both checks raise an AssertionError that names all that is different. The files
and listeners are the check's own: host.dir holds some that a sandbox must not
see (secret.txt, sales.csv, tool, a socket "listener"); host.port on 127.0.0.1
(and ::1, where there is one) and host.abstract must never be connected to.
"""

import errno
import os
import pwd
import re
import select
import shutil
import socket
import stat
import tempfile
import time

MARGIN_BYTES = 1 << 30
SHM_MARGIN_BYTES = 64 << 20

# Those of /proc/sys that matter most; each is one value for the whole machine.
SYSCTLS = (
    "kernel/core_pattern", "kernel/core_uses_pid", "kernel/core_pipe_limit",
    "kernel/modprobe", "kernel/modules_disabled", "kernel/hotplug",
    "kernel/poweroff_cmd", "kernel/sysrq", "kernel/randomize_va_space",
    "kernel/dmesg_restrict", "kernel/kptr_restrict", "kernel/pid_max",
    "kernel/threads-max", "kernel/shmmni", "kernel/shmmax", "kernel/msgmax",
    "kernel/sem", "kernel/hostname", "kernel/domainname", "kernel/panic",
    "kernel/yama/ptrace_scope", "kernel/unprivileged_userns_clone",
    "kernel/perf_event_paranoid", "kernel/unprivileged_bpf_disabled",
    "vm/overcommit_memory", "vm/overcommit_ratio", "vm/mmap_min_addr",
    "vm/max_map_count", "vm/swappiness", "fs/suid_dumpable",
    "fs/protected_hardlinks", "fs/protected_symlinks", "fs/file-max",
    "fs/binfmt_misc/status", "user/max_user_namespaces",
    "net/ipv4/ip_forward", "net/core/somaxconn")

# Whose they are, and who may go there.
DIRECTORIES = ("/", "/dev", "/dev/shm", "/etc", "/home", "/root", "/tmp",
               "/usr", "/usr/bin", "/var", "/var/lib", "/var/tmp")

# What a defect of the kernel that somebody has found looks like in its log.
OOPS = re.compile(r"\b(BUG:|Oops|general protection fault, |kernel panic|"
                  r"unable to handle|refcount_t:|WARNING: CPU|"
                  r"Attempt to access)")


def read_text(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError as exc:
        return errno.errorcode.get(exc.errno, "?")


def is_nobodys(uid):
    """Without an account there is no one else who runs anything by it."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return True
    return False


def fresh_uid():
    """An id that no account and no process has."""
    start = 45000 + os.getpid() % 4000
    for uid in range(start, start + 1000):
        if is_nobodys(uid) and not processes_of(uid):
            return uid
    raise AssertionError("no free uid")


def processes_of(uid):
    """pid -> name of the live processes with any of their ids uid."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        # The owner of the directory is root for what may not be looked at.
        fields = dict(line.partition(":")[::2] for line in
                      read_text("/proc/%s/status" % name).split("\n"))
        if str(uid) in fields.get("Uid", "").split() and \
                fields.get("State", "Z").strip()[:1] not in "ZX":
            found[int(name)] = fields.get("Name", "").strip()
    return found


def tree(top):
    """path -> all that can be told of it, below top."""
    found = {}
    for folder, dirs, files in os.walk(top):
        for name in [""] + dirs + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            data = b""
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    data = f.read()
            # A file that is loaded may be given another name.
            links = st.st_nlink if name != "sales.csv" else None
            found[path] = (st.st_mode, st.st_ino, links, st.st_uid,
                           st.st_gid, st.st_size, st.st_mtime_ns, data)
    return found


def differences(what, before, after):
    names = sorted(k for k in set(before) | set(after)
                   if before.get(k) != after.get(k))
    return ["%s %s: %r is now %r" % (what, k, before.get(k), after.get(k))
            for k in names]


def free_bytes(path):
    st = os.statvfs(path)
    return st.f_bavail * st.f_frsize


class HostCheck:
    def __init__(self, uid, secret="secret", data="a\n1\n"):
        self.uid = uid
        self.dir = tempfile.mkdtemp(prefix="host-")
        os.chmod(self.dir, 0o755)
        for name, text, mode in (("secret.txt", secret, 0o644),
                                 ("sales.csv", data, 0o644),
                                 ("closed.txt", secret, 0o600),
                                 ("tool", "#!/bin/sh\nid\n", 0o755)):
            path = os.path.join(self.dir, name)
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, mode)
            # A file of the cells' own user, which only the mount protects.
            if os.getuid() == 0 and name == "sales.csv":
                os.chown(path, uid, uid)
        self._listen()
        self._log = self._open_log()
        self.places = {p: SHM_MARGIN_BYTES if p == "/dev/shm" else MARGIN_BYTES
                       for p in ("/dev/shm", "/tmp", self.dir)
                       if os.path.isdir(p)}
        self.free = {p: free_bytes(p) for p in self.places}
        self.etc = self._etc()
        self.files = tree(self.dir)
        self.settings = self._settings()
        self.processes = processes_of(uid)

    def _listen(self):
        server = socket.create_server(("127.0.0.1", 0))
        self.port = server.getsockname()[1]
        self.listeners = [server]
        self.port6 = None
        try:
            six = socket.create_server(("::1", 0), family=socket.AF_INET6)
            self.port6 = six.getsockname()[1]
            self.listeners.append(six)
        except OSError:
            pass
        self.abstract = "sandpiper-test-%d-%d" % (os.getpid(), id(self))
        self.path = os.path.join(self.dir, "listener")
        for address in ("\0" + self.abstract, self.path):
            s = socket.socket(socket.AF_UNIX)
            s.bind(address)
            s.listen(5)
            self.listeners.append(s)
        os.chmod(self.path, 0o777)
        # The same by datagrams, which ask for no connection.
        for kind, address in ((socket.AF_UNIX, "\0" + self.abstract + "-d"),
                              (socket.AF_INET, ("127.0.0.1", self.port))):
            s = socket.socket(kind, socket.SOCK_DGRAM)
            self.listeners.append(s)
            try:
                s.bind(address)
            except OSError:
                pass  # somebody else's

    @staticmethod
    def _etc():
        found = {}
        for name in ("passwd", "group", "shadow", "hosts", "hostname",
                     "ld.so.preload", "crontab"):
            try:
                st = os.lstat("/etc/" + name)
                found[name] = (st.st_ino, st.st_size, st.st_mtime_ns,
                               st.st_mode)
            except OSError:
                found[name] = None
        return found

    @staticmethod
    def _open_log():
        """The kernel's log from here on, where it may be read."""
        try:
            fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        os.lseek(fd, 0, os.SEEK_END)
        return fd

    def _read_log(self):
        lines = []
        while self._log is not None:
            try:
                lines.append(os.read(self._log, 8192).decode(
                    "utf-8", "replace"))
            except BlockingIOError:
                break
            except OSError as exc:
                # EPIPE: some was overwritten before it was read.
                if exc.errno != errno.EPIPE:
                    break
        return lines

    @staticmethod
    def _settings():
        values = {name: read_text("/proc/sys/" + name) for name in SYSCTLS}
        values["host name"] = os.uname().nodename
        for path in DIRECTORIES:
            try:
                st = os.stat(path)
                values[path] = (oct(st.st_mode), st.st_uid, st.st_gid)
            except OSError:
                pass
        values["mounts"] = sorted(read_text("/proc/self/mounts").split("\n"))
        values["swap"] = sorted(line.split("\t")[0] for line in
                                read_text("/proc/swaps").split("\n"))
        return values

    def _changes(self):
        found = differences("the file", self.files, tree(self.dir))
        found += differences("the setting", self.settings, self._settings())
        found += differences("/etc/", self.etc, self._etc())
        for s in self.listeners:
            if select.select([s], [], [], 0)[0]:
                found.append("somebody came to %r" % (s.getsockname(),))
        return found

    @staticmethod
    def _fail(found):
        assert not found, "changed outside: " + "; ".join(found)

    def check(self, timeout=10):
        """What others change for a moment is waited for."""
        deadline = time.monotonic() + timeout
        found = self._changes()
        while found and time.monotonic() < deadline:
            select.select([], [], [], 0.1)
            found = self._changes()
        self._fail(found)

    def _left(self):
        """Processes of the cells' user that were not there before."""
        if not is_nobodys(self.uid):
            return {}
        now = processes_of(self.uid)
        return {pid: name for pid, name in now.items()
                if pid not in self.processes and pid != os.getpid()}

    def _full(self):
        return ["%s has %d MB less" % (p, (self.free[p] - free_bytes(p)) >> 20)
                for p, margin in self.places.items()
                if self.free[p] - free_bytes(p) > margin]

    def check_end(self, alone=True, timeout=30):
        """alone: no other sandbox of the same user is open."""
        self.check()
        deadline = time.monotonic() + timeout
        left = self._left if alone else dict
        while (left() or self._full()) and time.monotonic() < deadline:
            select.select([], [], [], 0.05)
        found = self._full()
        found += ["left behind: %d %s" % pair
                  for pair in sorted(left().items())]
        found += ["the kernel says: " + line.strip()
                  for line in self._read_log() if OOPS.search(line)]
        self._fail(found)

    def close(self):
        for s in self.listeners:
            s.close()
        if self._log is not None:
            os.close(self._log)
            self._log = None
        shutil.rmtree(self.dir, ignore_errors=True)
