# SPDX-License-Identifier: GPL-3.0-or-later
"""One sandbox of the fake: directories of its own, and a tree of processes in
bubblewrap that can be stopped, continued and ended from outside."""

import json
import os
import queue
import secrets
import select
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BWRAP = shutil.which("bwrap") or "/usr/bin/bwrap"
PYTHON = "/usr/bin/python3"
PATH = "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin"
READY_S = 60
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
CONFIGURATION = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\n"
              "user:x:1000:1000::/home/user:/bin/bash\n",
    "group": "root:x:0:\nuser:x:1000:\n", "profile": ""}


def unavailable():
    """Why no sandbox can be made here; None if one can."""
    if not os.path.exists(PYTHON):
        return "no " + PYTHON
    try:
        done = subprocess.run(isolation() + ["/bin/true"], timeout=30,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return "bubblewrap: %s" % exc
    if done.returncode:
        return done.stdout.decode("utf-8", "replace").strip() or "bubblewrap"
    return None


def isolation():
    """Everything of bubblewrap's options that is the same for all."""
    argv = [BWRAP, "--unshare-user", "--unshare-pid", "--unshare-net",
            "--unshare-ipc", "--uid", "1000", "--gid", "1000",
            "--die-with-parent", "--ro-bind", "/usr", "/usr",
            "--ro-bind", "/etc", "/etc"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(name):
            argv += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            argv += ["--ro-bind", name, name]
    return argv + ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run"]


class Spawner:
    """A thread that lives as long as the server: bubblewrap ends with the
    thread that started it, whatever happens to the process of the tests."""

    def __init__(self):
        self.jobs = queue.Queue()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        for job, done in iter(self.jobs.get, None):
            try:
                done.put((job(), None))
            except Exception as exc:
                done.put((None, exc))

    def do(self, job):
        done = queue.Queue()
        self.jobs.put((job, done))
        value, error = done.get()
        if error:
            raise error
        return value

    def close(self):
        self.jobs.put(None)
        self.thread.join(10)


def table_of_processes():
    """{pid: (pid of the parent, moment of the start)}"""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as stream:
                    words = stream.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if words[0] not in (b"Z", b"X"):
                found[int(name)] = (int(words[1]), int(words[19]))
    return found


def descendants(pid):
    """{pid: moment of the start} of all that come from pid."""
    table = table_of_processes()
    found = {}
    parents = {pid}
    while parents:
        parents = {p for p, (parent, _) in table.items()
                   if parent in parents and p not in found}
        found.update({p: table[p][1] for p in parents})
    return found


class Sandbox:
    """What the control API knows, and the processes.

    state is "running" or "paused"; start and end are in seconds since 1970.
    home is the directory that is /home/user inside, tmp is /tmp."""

    def __init__(self, spawner, fields, config):
        self.id = "i" + "".join(secrets.choice(ALPHABET) for _ in range(20))
        self.__dict__.update(fields)
        self.state = "running"
        self.cold = False
        self.spawner = spawner
        self.folder = tempfile.mkdtemp(prefix="e2b-fake-")
        self.home = os.path.join(self.folder, "home", "user")
        self.tmp = os.path.join(self.folder, "tmp")
        for path in (self.home, self.tmp, os.path.join(self.folder, "root")):
            os.makedirs(path)
        for name, text in CONFIGURATION.items():
            with open(os.path.join(self.folder, name), "w") as stream:
                stream.write(text)
        self.config = dict(config, own_envs={
            "E2B_SANDBOX": "true", "E2B_SANDBOX_ID": self.id,
            "E2B_TEAM_ID": "team", "E2B_TEMPLATE_ID": self.template})
        self.child = None
        self.log = ""
        self.open_sockets = set()
        try:
            self.begin()
        except RuntimeError:
            remove(self.folder)
            raise

    def begin(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with listener:
            listener.bind("")
            listener.listen(64)
            self.address = listener.getsockname()
            fd = listener.fileno()
            argv = isolation() + [
                "--bind", os.path.join(self.folder, "home"), "/home",
                "--bind", self.tmp, "/tmp",
                "--bind", os.path.join(self.folder, "root"), "/root",
                "--ro-bind", HERE, "/fake"]
            for name in CONFIGURATION:
                argv += ["--ro-bind", os.path.join(self.folder, name),
                         "/etc/" + name]
            argv += ["--chdir", "/home/user", PYTHON, "-B",
                     "/fake/e2b_guest.py", str(fd)]
            # Not within tests' files: what the program says of itself.
            with open(os.path.join(self.folder, "log"), "ab") as log:
                self.child = self.spawner.do(lambda: subprocess.Popen(
                    argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=log, pass_fds=(fd,), start_new_session=True, cwd="/",
                    env={"PATH": PATH, "LANG": "C.UTF-8"}))
        try:
            self.child.stdin.write(json.dumps(self.config).encode() + b"\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass
        # From here on everything inside ends with the process outside.
        ready = select.select([self.child.stdout], [], [], READY_S)[0]
        if not ready or self.child.stdout.readline() != b"ready\n":
            self.end_processes()
            with open(os.path.join(self.folder, "log")) as log:
                raise RuntimeError("no sandbox: " + log.read())

    def connect(self, _port=None):
        """A connection to the program inside, or None. It serves all
        ports."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self.address)
        except OSError:
            sock.close()
            return None
        return sock

    # -- states --

    def drop_connections(self):
        for sock in list(self.open_sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def pause(self, memory=True):
        self.state = "paused"
        self.cold = not memory
        self.drop_connections()
        if self.cold:
            self.end_processes()
            return
        stopped = {}
        while True:
            found = descendants(self.child.pid)
            new = {p for p in found if stopped.get(p) != found[p]}
            if not new:
                break
            for pid in new:
                send_signal(pid, signal.SIGSTOP)
            stopped.update(found)

    def resume(self):
        if self.cold:
            self.begin()
        else:
            for pid in descendants(self.child.pid):
                send_signal(pid, signal.SIGCONT)
        self.cold = False
        self.state = "running"

    def end_processes(self):
        """Ends all of them and waits until they are gone."""
        child, self.child = self.child, None
        if child is None:
            return
        # Killed from below: bubblewrap that has only just begun is not yet
        # bound to end with the process outside. That one is stopped first,
        # so that it begins nothing more.
        send_signal(child.pid, signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            left = descendants(child.pid)
            if not left and is_stopped(child.pid):
                break
            for pid in left:
                send_signal(pid, signal.SIGKILL)
            time.sleep(0.002)
        child.kill()
        child.wait()
        child.stdout.close()
        try:
            child.stdin.close()
        except OSError:
            pass
        if left:
            raise RuntimeError("processes of a sandbox do not end: %s"
                               % sorted(left))

    def kill(self):
        self.state = "gone"
        self.drop_connections()
        self.end_processes()
        with open(os.path.join(self.folder, "log"), errors="replace") as log:
            self.log = log.read()
        remove(self.folder)


def is_stopped(pid):
    """Whether it is stopped, or has ended."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] in (
                b"T", b"t", b"Z", b"X")
    except OSError:
        return True


def send_signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def remove(folder):
    """Also what a program has closed to its owner."""
    for path, names, _ in os.walk(folder):
        for name in names:
            below = os.path.join(path, name)
            if not os.path.islink(below):
                os.chmod(below, stat.S_IRWXU)
    shutil.rmtree(folder)
