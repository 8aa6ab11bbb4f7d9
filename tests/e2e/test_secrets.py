#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key: where it may be, and everywhere else.

A real key travels to a fake service while a cell runs; then it is looked for
from inside the sandbox, from outside as another user, in every child, in the
log, in the session directory and on the screen. Each protection is named
beside its test; with it removed the test fails (each was tried).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
sys.path.insert(0, os.path.join(HERE, "..", "fakes"))

import tap  # noqa: E402
from claude_server import ClaudeServer, reply, tool_use  # noqa: E402
from pty_session import PtySession, run_piped  # noqa: E402
from replay import program  # noqa: E402

OTHER_UID = 61235
DROPPED_UID = 61234
PLAIN_BUILD = not os.environ.get("SANDPIPER_SANITIZERS", "").strip()


def new_key():
    return "sk-ant-api03-" + os.urandom(24).hex()


# Finds a key by its form and its digest, so that the search itself, which
# travels the same way as the key, is not found.
SEARCH = r'''
import hashlib, os, re, stat, sys
form = re.compile(rb"sk-ant-api03-" + rb"[0-9a-f]" * 48)
def find(data):
    return [m for m in form.findall(data)
            if hashlib.sha256(m).hexdigest() == DIGEST]
def scan(path, limit=1 << 24):
    try:
        with open(path, "rb") as f:
            return len(find(f.read(limit)))
    except OSError:
        return 0
def scan_memory(pid):
    """(could it be read, hits)"""
    hits = read = 0
    try:
        lines = open("/proc/%s/maps" % pid).read().split("\n")
        mem = open("/proc/%s/mem" % pid, "rb", 0)
    except OSError:
        return False, 0
    with mem:
        for line in lines:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if not m or "[v" in line:
                continue
            at, end = int(m[1], 16), int(m[2], 16)
            try:
                mem.seek(at)
                while at < end:
                    data = mem.read(min(1 << 22, end - at))
                    if not data:
                        break
                    read += len(data)
                    hits += len(find(data))
                    at += len(data)
            except (OSError, OverflowError, ValueError):
                pass
    return read > 0, hits
'''

INSIDE = SEARCH + r'''
where = []
for name, value in os.environ.items():
    if find(value.encode("utf-8", "surrogateescape")):
        where.append("os.environ " + name)
pids = [p for p in os.listdir("/proc") if p.isdigit()]
for pid in pids:
    for f in ("environ", "cmdline", "comm", "status", "stat", "auxv"):
        if scan("/proc/%s/%s" % (pid, f)):
            where.append("/proc/%s/%s" % (pid, f))
    if scan_memory(pid)[1]:
        where.append("/proc/%s/mem" % pid)
    try:
        fds = os.listdir("/proc/%s/fd" % pid)
    except OSError:
        fds = []
    for fd in fds:
        path = "/proc/%s/fd/%s" % (pid, fd)
        try:
            if stat.S_ISREG(os.stat(path).st_mode) and scan(path):
                where.append(path)
        except OSError:
            pass
for top in ("/etc", "/run", "/workspace", "/tmp", "/dev", "/opt", "/home",
            "/root", "/var"):
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            try:
                regular = stat.S_ISREG(os.lstat(path).st_mode)
            except OSError:
                continue
            if regular and scan(path):
                where.append(path)
print("searched", len(pids), "found", where)
'''


class Run:
    """A question with a real key; looks around while its cell waits.

    how: "env", "token" or "config". outside: called with (self, pid) while
    the cell runs.
    """

    def __init__(self, how, cell, outside=None, term=False, extra=None):
        self.key = new_key()
        self.digest = hashlib.sha256(self.key.encode()).hexdigest()
        self.top = tempfile.mkdtemp(prefix="sec-")
        os.chmod(self.top, 0o755)
        self.log = os.path.join(self.top, "log.txt")
        self.outside_result = None
        code = "DIGEST = %r\n" % self.digest + cell
        if outside:
            # The cell goes on when the test has looked.
            code += ("\nprint('wait' + 'ing', flush=True)\n"
                     "import os, select\n"
                     "while not os.path.exists('/workspace/go'):\n"
                     "    select.select([], [], [], 0.02)\n")
        env = {"SANDPIPER_LOG": self.log}
        options = []
        if how == "env":
            env["ANTHROPIC_API_KEY"] = self.key
        elif how == "token":
            env["ANTHROPIC_AUTH_TOKEN"] = self.key
        with ClaudeServer([
                reply(["Looking.", tool_use("run_python", {"code": code})]),
                reply(["Done looking."])]) as server:
            env["ANTHROPIC_BASE_URL"] = server.url
            if how == "config":
                path = os.path.join(self.top, "config.yaml")
                with open(path, "w") as f:
                    f.write("model:\n  api_key: %s\n  base_url: %s\n" % (
                        self.key, server.url))
                os.chmod(path, 0o600)
                options = ["--config", path]
                del env["ANTHROPIC_BASE_URL"]
            env.update(extra or {})
            with PtySession([program()] + options, env=env, cols=160,
                            rows=50, dir=self.top,
                            profile="vt340" if term else "silent") as s:
                s.expect("> ", 30)
                s.send("look around\r")
                if outside:
                    s.expect(b"waiting", 40)
                    self.session = s
                    self.outside_result = outside(self, s.pid)
                    self.let_go(s)
                s.expect("Done looking.", 60)
                s.expect(re.compile(rb"1 cell.*> ", re.S), 10)
                s.send("\x04")
                s.wait_exit(10)
                self.screen = bytes(s.transcript)
                self.text = s.screen.all_text()
            sent = [value for request in server.requests
                    for _, value in request.credentials]
            assert len(sent) == 2 and all(self.key in v for v in sent)
        assert self.key.encode() not in self.screen

    def let_go(self, session):
        """Makes /workspace/go, through the root of a process inside."""
        for pid in session.descendants():
            path = "/proc/%d/root/workspace" % pid
            try:
                if os.path.exists(path) and os.path.exists(
                        "/proc/%d/root/run/kernel.py" % pid):
                    open(path + "/go", "w").close()
                    return
            except OSError:
                pass
        for folder in (self.top, "/tmp", "/var/lib/sandpiper"):
            for where, dirs, _ in os.walk(folder):
                if os.path.basename(where).startswith("sandpiper-") and \
                        "workspace" in dirs and "data" in dirs and \
                        os.access(where + "/workspace", os.W_OK):
                    open(where + "/workspace/go", "w").close()
                if where.count("/") > 6:
                    dirs[:] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top, ignore_errors=True)

    def files_with_key(self):
        found, seen = [], 0
        for folder, _, names in os.walk(self.top):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.isfile(path) or os.path.islink(path):
                    continue
                seen += 1
                with open(path, "rb") as f:
                    data = f.read()
                if self.key.encode() in data or \
                        self.key[20:].encode() in data:
                    found.append(os.path.relpath(path, self.top))
        return found, seen


# ---- inside ----------------------------------------------------------------

def check_inside(how):
    with Run(how, INSIDE) as run:
        flat = re.sub(r"\n│ ?", "", run.text)
        found = re.search(r"searched (\d+) found (\[.*?\])", flat)
        assert found, run.text
        assert int(found[1]) >= 2
        assert found[2] == "[]", found[0]


@tap.timeout(90)
def test_cell_does_not_find_the_key_of_the_environment():
    """Protections: the built environment of bwrap (envp in launch(),
    local_bwrap.c) and the wiping in secret_take_env(); the first alone is
    enough here."""
    check_inside("env")


@tap.timeout(90)
def test_cell_does_not_find_the_token():
    check_inside("token")


@tap.timeout(90)
def test_cell_does_not_find_the_key_of_the_configuration():
    """Protections: close_range in the child (close_others() in proc.c) and
    the sandbox's mounts."""
    check_inside("config")


# ---- children --------------------------------------------------------------

def look_at_children(run, pid):
    """environ and cmdline of every process below the client, those of the
    client itself included for cmdline; as root all can be read."""
    hits, read = [], 0
    scope = {"DIGEST": run.digest}
    exec(SEARCH, scope)
    for child in run.session.descendants():
        for name in ("environ", "cmdline"):
            if child == pid and name == "environ":
                continue
            try:
                with open("/proc/%d/%s" % (child, name), "rb") as f:
                    data = f.read()
            except OSError:
                continue
            read += 1
            if scope["find"](data):
                hits.append((child, name))
    return hits, read


@tap.timeout(90)
def test_no_child_has_the_key():
    """Protection: envp in launch(), local_bwrap.c."""
    for how in ("env", "config"):
        with Run(how, "", look_at_children) as run:
            hits, read = run.outside_result
            assert hits == [], hits
            assert read >= 4, read


def look_at_environ(run, pid):
    """What /proc/PID/environ of the client says, read as root."""
    with open("/proc/%d/environ" % pid, "rb") as f:
        return f.read()


@tap.timeout(90)
def test_environment_of_the_client_is_wiped():
    """Protection: secret_wipe() in secret_take_env(), secret.c; unsetenv()
    alone leaves the bytes where /proc shows them."""
    if os.getuid() != 0:
        tap.skip("only root can read the environment of what is not dumpable")
    for how in ("env", "token"):
        with Run(how, "", look_at_environ) as run:
            data = run.outside_result
            assert b"ANTHROPIC_BASE_URL" in data, "the control"
            assert run.key.encode() not in data
            assert run.key[-16:].encode() not in data


def test_doubled_variable_is_wiped():
    """A variable may stand twice in an environment; /proc shows both."""
    if os.getuid() != 0:
        tap.skip("only root can read the environment of what is not dumpable")
    code = r'''
import ctypes, os, sys
libc = ctypes.CDLL(None)
argv = (ctypes.c_char_p * 2)(sys.argv[1].encode(), None)
env = (ctypes.c_char_p * 5)(b"PATH=/usr/bin:/bin", b"TERM=dumb",
    b"ANTHROPIC_API_KEY=first-" + sys.argv[2].encode(),
    b"ANTHROPIC_API_KEY=second-" + sys.argv[2].encode(), None)
libc.execve(sys.argv[1].encode(), argv, env)
'''
    key = os.urandom(16).hex()
    with PtySession([sys.executable, "-c", code, program(), key]) as s:
        s.expect("> ", 30)
        data = look_at_environ(None, s.pid)
        assert b"TERM=dumb" in data and data.count(b"ANTHROPIC") >= 1
        assert key.encode() not in data, data


# ---- from outside ----------------------------------------------------------

OUTSIDE = "DIGEST = sys.argv[1]\n" + SEARCH + r'''
import ctypes
pid = sys.argv[2]
out = []
for name in ("environ", "mem", "maps", "fd", "cwd", "root", "exe"):
    path = "/proc/%s/%s" % (pid, name)
    try:
        if name == "fd":
            os.listdir(path)
        elif name in ("cwd", "root", "exe"):
            os.readlink(path)
        else:
            open(path, "rb").read(1)
        out.append(name)
    except OSError:
        pass
if scan("/proc/%s/cmdline" % pid):
    out.append("key in cmdline")
readable, hits = scan_memory(pid)
if hits:
    out.append("key in memory")
libc = ctypes.CDLL(None, use_errno=True)
# PTRACE_SEIZE: PTRACE_ATTACH stops the process, and one that has not stopped
# yet when this one detaches and ends is left stopped for ever.
if libc.ptrace(0x4206, int(pid), 0, 0) == 0:
    out.append("ptrace")
print(out)
'''


def look_as(uid):
    def look(run, pid):
        argv = [sys.executable, "-c", "import sys\n" + OUTSIDE, run.digest,
                str(pid)]
        if not os.access(sys.executable, os.X_OK) or \
                sys.executable.startswith("/root"):
            argv[0] = "/usr/bin/python3"
        if uid is not None:
            argv = ["setpriv", "--reuid", str(uid), "--regid", str(uid),
                    "--clear-groups", "--"] + argv
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == 0, done
        return done.stdout.strip()
    return look


@tap.timeout(90)
def test_other_users_and_the_dropped_one_cannot_look():
    if os.getuid() != 0:
        tap.skip("needs root, to be two others")
    for uid in (DROPPED_UID, OTHER_UID):
        with Run("env", "", look_as(uid)) as run:
            assert run.outside_result == "[]", run.outside_result


@tap.timeout(90)
def test_same_user_cannot_look():
    """Protection: PR_SET_DUMPABLE in close_memory(), main.c."""
    if os.getuid() == 0:
        tap.skip("root may look at everything")
    if not PLAIN_BUILD:
        tap.skip("sanitizers need to look into the program")
    for how in ("env", "config"):
        with Run(how, "", look_as(None)) as run:
            assert run.outside_result == "[]", run.outside_result


def test_looking_works_where_nothing_protects():
    """The control of the two tests above."""
    key = new_key()
    digest = hashlib.sha256(key.encode()).hexdigest()
    child = subprocess.Popen(
        ["/usr/bin/python3", "-c", "import os, sys\nk = os.environ['K']\n"
         "print('up', flush=True)\nsys.stdin.read()"],
        env={"K": key, "PATH": "/usr/bin"}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        run = type("R", (), {"digest": digest})()
        said = look_as(None)(run, child.pid)
        for word in ("environ", "mem", "key in memory", "ptrace"):
            assert word in said, said
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


# ---- what is kept ----------------------------------------------------------

@tap.timeout(90)
def test_key_is_in_no_file():
    """Log at its most talkative, session directory, history. Protection:
    log_hide() in secret_new() for the log."""
    for how in ("env", "token"):
        with Run(how, "print('hello')", term=True) as run:
            found, seen = run.files_with_key()
            assert seen >= 2, seen
            assert found == [], found
            assert os.path.getsize(run.log) > 0
    with Run("config", "print('hello')", term=True) as run:
        found, _ = run.files_with_key()
        assert found == ["config.yaml"], found


@tap.timeout(90)
def test_key_that_the_service_repeats_is_not_logged():
    """An error of the service that holds the key, as text."""
    key = new_key()
    top = tempfile.mkdtemp(prefix="sec-")
    log = os.path.join(top, "log.txt")
    from claude_server import error
    try:
        with ClaudeServer([error(
                400, "invalid_request_error", "bad key %s here" % key)]) as s:
            done = run_piped([program(), "-c", "hi"], dir=top, timeout=30,
                             env={"ANTHROPIC_API_KEY": key,
                                  "ANTHROPIC_BASE_URL": s.url,
                                  "SANDPIPER_LOG": log})
        assert done.status != 0
        with open(log, "rb") as f:
            assert key.encode() not in f.read()
        assert key.encode() not in done.stdout + done.stderr, done
    finally:
        shutil.rmtree(top)


def test_key_is_no_argument():
    """There is no way to give a key on the command line."""
    done = run_piped([program(), "--help"])
    assert done.status == 0
    assert not re.search(rb"--(api-)?key", done.stdout), done
    for option in ("--key", "--api-key", "--token"):
        done = run_piped([program(), option, new_key()])
        assert done.status == 2, done


@tap.timeout(60)
def test_configuration_that_others_can_read_is_refused():
    for mode in (0o644, 0o640, 0o604, 0o660):
        top = tempfile.mkdtemp(prefix="sec-")
        try:
            key = new_key()
            path = os.path.join(top, "config.yaml")
            with open(path, "w") as f:
                f.write("model:\n  api_key: %s\n" % key)
            os.chmod(path, mode)
            done = run_piped([program(), "--config", path, "-c", "hi"])
            assert done.status == 3, done
            assert b"chmod 600" in done.stderr or b"others" in done.stderr
            assert key.encode() not in done.stdout + done.stderr, done
        finally:
            shutil.rmtree(top)


@tap.timeout(60)
def test_faulty_configuration_does_not_show_the_key():
    key = new_key()
    for text in ("model:\n  api_kay: %s\n" % key,
                 "model:\n  api_key: [%s\n" % key,
                 "model:\n  api_key: {a: %s}\n" % key):
        top = tempfile.mkdtemp(prefix="sec-")
        try:
            path = os.path.join(top, "config.yaml")
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, 0o600)
            done = run_piped([program(), "--config", path, "-c", "hi"])
            assert done.status == 3, (text, done)
            assert key.encode() not in done.stdout + done.stderr, (text, done)
        finally:
            shutil.rmtree(top)


if __name__ == "__main__":
    tap.main(globals())
