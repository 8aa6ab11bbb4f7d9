# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes in a sandbox of an E2B service, by e2b_process_driver: the fake
runs them for real."""

import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
import tap  # noqa: E402
from e2b_requests import Box, E2bServer  # noqa: E402
from e2b_server import unavailable  # noqa: E402

DRIVER = os.path.join(os.path.dirname(os.environ.get(
    "SANDBOX_DRIVER", "tests/helpers/sandbox_driver")), "e2b_process_driver")
START, CONNECT = "/process.Process/Start", "/process.Process/Connect"
NONE, GONE, CUT, REFUSED = 0, 1, 4, 6
SESSION = """
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        open('child', 'w').write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
while not os.path.exists('child') or not open('child').read():
    time.sleep(0.02)
print('up', flush=True)
time.sleep(1000)
"""


class Run:
    """The driver with a process of its own."""

    def __init__(self, box, argv=(), version=None, token=None, **options):
        options = [("%s=%s" % pair) for name, value in options.items()
                   for pair in ([(name, v) for v in value]
                                if isinstance(value, list)
                                else [(name, value)])]
        self.child = subprocess.Popen(
            [DRIVER, box.server.url, box.id,
             box.token if token is None else token,
             version or box.server.version, *options, "--", *argv],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.errors = self.child.stderr.read().decode()
        self.child.stdout.close()
        self.child.stderr.close()

    def tell(self, line):
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()

    def send(self, data):
        self.tell("send " + data.hex())

    def next(self):
        line = self.child.stdout.readline()
        assert line, "the driver has ended"
        self.events.append(json.loads(line))
        return self.events[-1]

    def until(self, test):
        while not test():
            assert self.next()["ev"] != "done", self.events[-1]

    def output(self, stream=0):
        return b"".join(bytes.fromhex(e["data"]) for e in self.events
                        if e["ev"] == "bytes" and e["stream"] == stream)

    def until_output(self, data):
        self.until(lambda: data in self.output())

    def done(self):
        while not self.events or self.events[-1]["ev"] != "done":
            self.next()
        return self.events[-1]

    @property
    def kinds(self):
        return [e["ev"] for e in self.events]


def made(version="0.6.13", **options):
    return E2bServer(version=version, **options)


def run(box, *argv, **options):
    with Run(box, argv, **options) as r:
        r.done()
    return r


def is_alive(box, pid):
    out = box.start("kill -0 %d && echo yes; true" % pid)
    return any("data" in m.get("event", {}) and "stdout" in m["event"]["data"]
               for m in out)


def until_dead(box, pid):
    """Whether it ends: what ends it runs in the sandbox."""
    end = time.monotonic() + 60
    while is_alive(box, pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def child_of(box):
    """The number that a program has written into the file "child"."""
    with open(os.path.join(box.server.sandbox().home, "child")) as stream:
        return int(stream.read())


def ends(event):
    return (event["trouble"], event["exit"], event["signal"], event["limit"])


@tap.timeout(120)
def test_ends():
    """Status, signal, a program that is missing, both streams, whatever is
    binary, words and environment as they are."""
    with made() as server:
        box = Box(server)
        rows = [(["true"], (0, 0)), (["sh", "-c", "exit 7"], (7, 0)),
                (["sh", "-c", "exit 124"], (124, 0)),
                (["sh", "-c", "exit 142"], (142, 0)),
                (["sh", "-c", "kill -9 $$"], (-1, 9)),
                (["sh", "-c", "kill -SEGV $$"], (-1, 11)),
                (["sh", "-c", "kill -USR1 $$"], (-1, 10)),
                (["sh", "-c", "kill -ALRM $$"], (142, 0))]
        for argv, wanted in rows:
            for limit in (0, 60000):
                r = run(box, *argv, limit=limit)
                found = r.events[-1]
                assert (found["exit"], found["signal"]) == wanted, (argv,
                                                                    found)
                assert ends(found)[0::3] == (NONE, 0), found
                assert r.kinds == ["start", "done"], r.kinds
        r = run(box, "no-such-program")
        assert ends(r.events[-1]) == (NONE, 127, 0, 0), r.events
        assert b"no-such-program" in r.output(1), r.events
        r = run(box, "sh", "-c", "printf 'a\\000\\377'; printf '%s' \"$1\" "
                "\"$2\" \"$A\" >&2; pwd", "sh", "é 'x\"", "$HOME", cwd="/tmp",
                env=["A=1 = 2", "B="])
        assert r.output() == b"a\0\xff/tmp\n", r.events
        assert r.output(1) == "é 'x\"$HOME1 = 2".encode(), r.events


@tap.timeout(120)
def test_output_as_it_comes():
    """Before the end, and all of it when it is much; the input is empty."""
    with made() as server:
        box = Box(server)
        with Run(box, ["sh", "-c", "echo one; cat; until [ -e go ]; do "
                       "sleep 0.01; done; echo two"]) as r:
            r.until_output(b"one\n")
            open(os.path.join(server.sandbox().home, "go"), "w").close()
            assert ends(r.done()) == (NONE, 0, 0, 0)
            assert r.output() == b"one\ntwo\n"
        r = run(box, "python3", "-c", "import os\n"
                "os.write(1, bytes(range(256)) * 8192)")
        assert r.output() == bytes(range(256)) * 8192
    # That one keeps the input of every program open.
    with made("0.2.9") as server:
        r = run(Box(server), "cat")
        assert ends(r.events[-1]) == (NONE, 0, 0, 0), r.events


@tap.timeout(120)
def test_left_behind():
    """What a program leaves holds neither its end nor itself: it may write."""
    with made() as server:
        box = Box(server)
        r = run(box, "sh", "-c", "(until [ -e go ]; do sleep 0.01; done; "
                "echo x; echo y; echo done >end; exec sleep 1000) & "
                "echo $! >child; echo up")
        assert ends(r.events[-1]) == (NONE, 0, 0, 0), r.events
        assert r.output() == b"up\n"
        home = server.sandbox().home
        open(os.path.join(home, "go"), "w").close()
        while not os.path.exists(os.path.join(home, "end")):
            time.sleep(0.02)
        assert is_alive(box, child_of(box))


@tap.timeout(180)
def test_signals():
    """In order, to the whole group; SIGKILL to whatever it has started, in a
    session of its own too.  A program hears of several at once in no order:
    the order of many is that of the requests."""
    with made() as server:
        box = Box(server)
        # print() fails in a handler that interrupts a print().
        program = ("import os, signal, time\n"
                   "for n in (2, 10, 12):\n"
                   "    signal.signal(n, lambda n, f: os.write(1, b'%d\\n' % n))"
                   "\nprint('up', flush=True)\nwhile True:\n    time.sleep(9)\n")
        with Run(box, ["python3", "-c", program]) as r:
            r.until_output(b"up\n")
            wanted = b"up\n"
            for n in (10, 2, 12, 2):
                r.tell("signal %d" % n)
                wanted += b"%d\n" % n
                r.until_output(wanted)
            for n in (10, 2, 12, 15):
                r.tell("signal %d" % n)
            assert ends(r.done()) == (NONE, -1, 15, 0), r.events
        asked = [json.loads(q.raw[5:])["process"]["args"]
                 for q in server.find(START)]
        asked = [int(words[4]) for words in asked
                 if words[2:4] == ["bash", str(r.events[0]["pid"])]]
        assert asked == [10, 2, 12, 2, 10, 2, 12, 15], asked
        with Run(box, ["python3", "-c", SESSION]) as r:
            r.until_output(b"up\n")
            r.tell("signal 2")
            r.tell("signal 9")
            assert ends(r.done()) == (NONE, -1, 9, 0), r.events
            assert until_dead(box, child_of(box))


@tap.timeout(180)
def test_limit():
    """Ends all processes, also when the client has gone; a program's own
    status is not taken for it."""
    with made() as server:
        box = Box(server)
        r = run(box, "python3", "-c", SESSION, limit=1500)
        assert ends(r.events[-1]) == (NONE, -1, 9, 1), r.events
        assert r.output() == b"up\n", r.events
        assert until_dead(box, child_of(box))
        header = server.find(START)[0].header("connect-timeout-ms")
        assert int(header) > 1500, header
        os.unlink(os.path.join(server.sandbox().home, "child"))
        with Run(box, ["python3", "-c", SESSION], limit=4000) as r:
            r.until_output(b"up\n")
            r.child.kill()
        pid = child_of(box)
        assert until_dead(box, pid)


@tap.timeout(120)
def test_dropped():
    """Runs on, and can be found again by its number."""
    with made() as server:
        box = Box(server)
        with Run(box, ["sh", "-c", "echo up; until [ -e go ]; do sleep 0.01; "
                       "done; echo two; exit 3"]) as r:
            r.until_output(b"up\n")
            pid = r.events[0]["pid"]
            r.tell("drop")
            assert r.child.wait(60) == 0
        with Run(box, attach=pid) as r:
            assert r.next() == {"ev": "gap"}
            open(os.path.join(server.sandbox().home, "go"), "w").close()
            assert ends(r.done()) == (NONE, 3, 0, 0), r.events
            assert r.output() == b"two\n"
            assert r.events[-1]["lost"] == 1
        with Run(box, attach=999999) as r:
            assert r.done()["vanished"] == 1, r.events


@tap.timeout(180)
def test_input():
    """In order, of any bytes, much of it, and its end."""
    data = bytes(range(256)) * 4096
    with made() as server:
        box = Box(server)
        with Run(box, ["cat"], input=1) as r:
            r.send(b"one")
            r.until_output(b"one")
            r.send(data)
            r.send(b"\0last")
            r.tell("end")
            assert ends(r.done()) == (NONE, 0, 0, 0), r.events
            assert r.output() == b"one" + data + b"\0last"
        assert len(server.find("SendInput")) > 5
        with Run(box, ["sh", "-c", "exec <&-; echo up; sleep 0.2; echo end"],
                 input=1) as r:
            r.until_output(b"up\n")
            r.send(b"nobody reads this")
            assert ends(r.done()) == (NONE, 0, 0, 0), r.events
    with made("0.5.1") as server:
        with Run(Box(server), ["head", "-c", "3"], input=1) as r:
            r.send(b"abc")
            r.tell("end")
            assert ends(r.done()) == (NONE, 0, 0, 0), r.events
        assert not server.find("CloseStdin")


@tap.timeout(180)
def test_broken_stream():
    """Goes on by its number, says that something may be missing, and learns
    how it ended, also if that was meanwhile."""
    program = ["sh", "-c", "echo one; until [ -e go ]; do sleep 0.01; done; "
               "echo two; exit 5"]
    for reset in (False, True):
        with made() as server:
            box = Box(server)
            fault = server.fail(START, cut=70, reset=reset)
            with Run(box, program) as r:
                assert fault.reached.wait(60)
                r.until(lambda: "gap" in r.kinds)
                open(os.path.join(server.sandbox().home, "go"), "w").close()
                assert ends(r.done()) == (NONE, 5, 0, 0), r.events
                assert r.output().endswith(b"two\n"), r.events
                assert r.events[-1]["lost"] == 1, r.events
            assert r.kinds.count("gap") == 1, r.events
    with made() as server:
        box = Box(server)
        server.fail(START, split=1)
        r = run(box, "sh", "-c", "echo one; exit 4")
        assert ends(r.events[-1]) == (NONE, 4, 0, 0), r.events
        assert r.output() == b"one\n" and r.kinds.count("gap") == 0
        # The head of the answer and nothing else: what runs is found all the
        # same, by its tag.
        server.fail(START, cut=0)
        r = run(box, "sh", "-c", "exit 6")
        assert ends(r.events[-1]) == (NONE, 6, 0, 0), r.events
        assert server.find(CONNECT)
        server.fail(START, cut=60)
        server.fail(CONNECT, status=503, times=2, headers={
            "retry-after": "0"})
        r = run(box, "sh", "-c", "exit 8")
        assert ends(r.events[-1]) == (NONE, 8, 0, 0), r.events


@tap.timeout(180)
def test_sandbox_gone():
    with made() as server:
        box = Box(server)
        with Run(box, ["sh", "-c", "echo up; sleep 1000"]) as r:
            r.until_output(b"up\n")
            server.lose()
            found = r.done()
        assert found["trouble"] == GONE and not found["not_started"], found
        r = run(box, "true")
        assert r.events[-1]["trouble"] == GONE, r.events
        assert r.events[-1]["not_started"] == 1, r.events


@tap.timeout(120)
def test_refusals():
    with made() as server:
        box = Box(server)
        r = run(box, "true", cwd="/nowhere")
        found = r.events[-1]
        assert (found["trouble"], found["not_started"]) == (REFUSED, 1), found
        assert "/nowhere" in found["err"], found
        r = run(box, "true", token="ea_wrong")
        found = r.events[-1]
        assert (found["trouble"], found["not_started"]) == (REFUSED, 1), found
        for status, body in ((415, b""), (405, b""),
                             (404, b"404 page not found\n")):
            server.fail(START, status=status, body=body)
            found = run(box, "true").events[-1]
            assert (found["trouble"], found["not_started"]) == (REFUSED,
                                                                1), found
            assert str(status) in found["err"], found


@tap.timeout(120)
def test_user():
    """Named for daemons that have none of their own choice."""
    for version, wanted in (("0.3.9", "Basic dXNlcjo="), ("0.4.0", None)):
        with made(version) as server:
            box = Box(server)
            r = run(box, "sh", "-c", "echo $HOME")
            assert r.output() == b"/home/user\n", r.events
            found = server.find(START)[-1].header("authorization")
            assert found == wanted, found


@tap.timeout(120)
def test_without_python():
    """What is left of it: the group is ended."""
    with made() as server:
        box = Box(server)
        path = ["PATH=/home/user/bin"]
        bin = os.path.join(server.sandbox().home, "bin")
        os.mkdir(bin)
        for name in ("setsid", "timeout", "sh", "sleep", "cat"):
            os.symlink("/usr/bin/" + name, os.path.join(bin, name))
        r = run(box, "sh", "-c", "cat; exit 9", env=path, limit=60000)
        assert ends(r.events[-1]) == (NONE, 9, 0, 0), r.events
        r = run(box, "sh", "-c", "exit 124", env=path, limit=60000)
        assert ends(r.events[-1]) == (NONE, 124, 0, 0), r.events
        r = run(box, "sh", "-c", "sleep 1000 & echo $! >child; sleep 1000",
                env=path, limit=1000)
        assert ends(r.events[-1]) == (NONE, -1, 9, 1), r.events
        assert until_dead(box, child_of(box))
        with Run(box, ["sh", "-c", "sleep 1000 & echo $! >child; echo up; "
                       "sleep 1000"], env=path) as r:
            r.until_output(b"up\n")
            r.tell("signal 9")
            assert r.done()["signal"] == 9, r.events
        assert until_dead(box, child_of(box))


if __name__ == "__main__":
    if unavailable():
        tap.skip_all(unavailable())
    tap.main(globals())
