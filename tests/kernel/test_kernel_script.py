#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel: scripts, which are programs in a process of their own.

Prints TAP."""
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernel_session import (  # noqa: E402
    NONCE, PATIENCE, Kernel, Shared, main, mark)


class Scripts(Shared):

    def begin(self, *argv, code=None, **fields):
        """Sends one that runs in "job", where code is in a.py."""
        job = os.path.join(self.k.home.name, "job")
        os.makedirs(job, exist_ok=True)
        if code is not None:
            with open(os.path.join(job, "a.py"), "w") as file:
                file.write(code)
            argv = ("python3", "a.py") + argv
        fields.setdefault("dir", "job")
        self.k.begun.clear()
        self.k.ask_only("script", argv=argv, **fields)

    def end(self):
        answer = self.k.wait("script", self.k.id)
        for stream in ("out", "err"):
            self.k.wait_for(stream, mark(answer["m"]))
        self.assertEqual(self.k.begun, [self.k.id])
        return answer

    def script(self, *argv, **more):
        self.begin(*argv, **more)
        return self.end()

    def members(self, answer):
        return {k: v for k, v in answer.items()
                if k not in ("line", "m", "id")}

    def test_exit_and_signal(self):
        self.assertEqual(self.members(self.script(code="")),
                         {"ev": "script", "stopped": False, "exit": 0})
        answer = self.script(code="import sys\nsys.exit(9)")
        self.assertEqual((answer["exit"], answer.get("signal")), (9, None))
        answer = self.script(code="import os\nos.kill(os.getpid(), 15)")
        self.assertEqual((answer.get("exit"), answer["signal"]), (None, 15))

    def test_marks_come_behind_the_output(self):
        answer = self.script("/bin/sh", "-c", "echo out; echo err >&2")
        for stream, text in (("out", b"out\n"), ("err", b"err\n")):
            self.assertEqual(self.k.bytes[stream], text + b"\0\x1e%s:%d\x1e\0"
                             % (NONCE.encode(), answer["m"]))

    def test_what_cannot_be_started(self):
        for fields, name in (({"argv": ["nothing"]}, "FileNotFoundError"),
                             ({"argv": ["true"], "dir": "none"},
                              "FileNotFoundError"),
                             ({"argv": [" "]}, "FileNotFoundError"),
                             ({"argv": ["a\0b"]}, "ValueError"),
                             ({"argv": []}, "IndexError"),
                             ({}, "KeyError")):
            self.begin("true")
            self.end()
            self.k.begun.clear()
            self.k.ask_only("script", **dict({"dir": "job"}, **fields))
            answer = self.end()
            self.assertEqual(answer["error"]["name"], name, fields)
            self.assertNotIn("exit", answer)
        self.assertEqual(self.plain("6 * 7"), "42")

    def test_environment(self):
        """That of the start, what is given, and nothing of the cells."""
        self.k.run("import os\nos.environ['HOME'] = '/x'\n"
                   "os.environ['MINE'] = '1'")
        self.script("/usr/bin/env", env=["A=1=2", "B=", "LANG=de"])
        found = dict(line.split("=", 1)
                     for line in self.k.text().strip().split("\n"))
        self.assertEqual((found["A"], found["B"], found["LANG"]),
                         ("1=2", "", "de"))
        self.assertEqual(found["HOME"], self.k.home.name)
        self.assertNotIn("MINE", found)

    def test_interrupts_are_passed_on(self):
        """As often as they come, and none is left for the next cell."""
        code = ("import signal\nn = 0\n"
                "def count(*_):\n    global n\n    n += 1\n    print(n)\n"
                "signal.signal(signal.SIGINT, count)\nprint('up')\n"
                "while n < 2:\n    signal.pause()\n")
        self.begin(code=code)
        self.k.wait_for("out", b"up\n")
        for n in (b"1\n", b"2\n"):
            self.k.process.send_signal(signal.SIGINT)
            self.k.wait_for("out", n)
        answer = self.end()
        self.assertEqual((answer["stopped"], answer["exit"]), (True, 0))
        self.assertEqual(self.k.run("x = 1")["status"], "ok")

    def test_an_interrupt_before_it_waits(self):
        """While it is being started: the script gets it all the same."""
        self.k.run("import subprocess, sandpiper_kernel\n"
                   "before = subprocess.Popen\n"
                   "def slow(*args, **more):\n"
                   "    process = before(*args, **more)\n"
                   "    open('started', 'w').close()\n"
                   "    import time\n"
                   "    end = time.monotonic() + 60\n"
                   "    while not sandpiper_kernel.S.pending and "
                   "time.monotonic() < end:\n"
                   "        time.sleep(0.01)\n"
                   "    return process\n"
                   "subprocess.Popen = slow")
        self.begin("/bin/sleep", "1000")
        started = os.path.join(self.k.home.name, "started")
        end = time.monotonic() + PATIENCE
        while not os.path.exists(started) and time.monotonic() < end:
            time.sleep(0.01)
        self.k.process.send_signal(signal.SIGINT)
        answer = self.end()
        self.assertEqual((answer["stopped"], answer["signal"]), (True, 2))
        self.k.run("subprocess.Popen = before")

    def test_nothing_is_shown_meanwhile(self):
        """Threads of cells go on, but what they show belongs to no cell."""
        self.k.run("import threading, time\n"
                   "def later():\n"
                   "    time.sleep(0.3)\n    display(1)\n"
                   "    open('shown', 'w').close()\n"
                   "threading.Thread(target=later).start()")
        self.script(code="import os, time\n"
                         "while not os.path.exists('../shown'):\n"
                         "    time.sleep(0.01)\n")
        self.assertEqual([e["ev"] for e in self.k.events], ["script"])

    def test_one_that_somebody_else_has_waited_for(self):
        """As a thread of a cell may do at any time: how it ended is told as
        it was."""
        self.k.run("import os, subprocess\n"
                   "before = subprocess.Popen.wait\n"
                   "def wait(self, *_):\n"
                   "    os.waitpid(self.pid, 0)\n"
                   "    return before(self)\n"
                   "subprocess.Popen.wait = wait")
        answer = self.script("/bin/sh", "-c", "exit 5")
        self.assertEqual(answer.get("exit"), 5)
        self.k.run("subprocess.Popen.wait = before")


class Tickets(unittest.TestCase):

    def test_one_that_was_given_up_never_runs(self):
        kernel = Kernel(tickets=True)
        try:
            kernel.ask_only("script", dir=".", argv=["/bin/sh", "-c",
                                                     "touch ran"])
            self.assertEqual(kernel.run("x = 1")["status"], "ok")
            self.assertEqual(kernel.begun, [kernel.id])
            self.assertFalse(os.path.exists(os.path.join(kernel.home.name,
                                                         "ran")))
            kernel.id += 1
            os.write(kernel.tickets[1], kernel.id.to_bytes(8, sys.byteorder))
            # 3 is that of the listing.
            kernel.send(op="script", id=kernel.id, dir=".", argv=[
                "python3", "-c",
                "import os\nprint(sorted(os.listdir('/proc/self/fd')))"])
            kernel.wait("script", kernel.id)
            kernel.wait_for("out", b"]")
            self.assertIn("['0', '1', '2', '3']", kernel.text())
        finally:
            kernel.close()


if __name__ == "__main__":
    main()
