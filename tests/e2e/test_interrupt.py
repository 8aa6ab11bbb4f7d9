#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ctrl-C: the prompt is back at once, variables and conversation are kept.

Wherever the program waits, the prompt must come within 0.2 s (longer where
TAP_TIMEOUT_FACTOR says that the machine or the build is slow), and the next
question must be answered by a fake that refuses a conversation that is not
valid.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (DEAF, PROMPT_S, SANITIZED, STEP_S, Place,  # noqa: E402
                     messages, news, question, results, run, wait_until)

import certs  # noqa: E402
import tap  # noqa: E402
from claude_server import (ClaudeServer, error, hang, mark,  # noqa: E402
                           reply, text, thinking, tool_use)


CUT_OFF = "[The previous reply was interrupted by the user.]"


def stop(s):
    """Ctrl-C, and the bound on the time to the prompt."""
    seconds = s.interrupt()
    assert seconds <= PROMPT_S, "the prompt took %.3f s" % seconds
    tap.diag("prompt after %.0f ms" % (seconds * 1000))


def stop_in_reply(first, shown=None):
    """Interrupts a reply that stands still at mark "there"; asks again.
    Returns the conversation as the second request had it."""
    with Place() as place, ClaudeServer([
            first, reply(["All is well."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("first question")
        server.wait_reached("there", STEP_S)
        if shown:
            s.shows(shown)
        stop(s)
        s.has("· stopped by Ctrl-C")
        server.requests[0].wait_closed(STEP_S)
        s.ask("second question")
        s.has("All is well.")
        asked = question(server.requests[1])
        assert "second question" in asked
        # Of a reply that is kept in part the model learns that it is one.
        talk = messages(server.requests[1])
        assert (CUT_OFF in asked) == (len(talk) > 1), talk
        assert str(talk).count(CUT_OFF) <= 1, talk
        return talk


@tap.timeout(90)
def test_in_a_busy_loop():
    with Place() as place, ClaudeServer([
            reply([run("x = 1")]), reply(["It is set."]),
            reply([run("print('spinning')\nwhile True:\n    x = 1\n")]),
            reply([run("print('x is', x)")]), reply(["Still there."])
            ]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("set x")
        s.type_line("spin")
        s.shows("│ spinning")
        stop(s)
        s.shows("variables are kept")
        s.ask("what is x?")
        (told, is_error), = results(server.requests[4])
        assert "x is 1" in told and not is_error, told
        # The stopped call was answered before the question.
        content = news(server.requests[3])
        kinds = [b["type"] for b in content]
        assert kinds[0] == "tool_result" and content[0]["is_error"], kinds
        assert "spinning" in str(content[0]["content"]), content[0]


@tap.timeout(90)
def test_in_a_sleep_in_c():
    with Place() as place, ClaudeServer([
            reply([run("import time\nx = 1\nprint('zzz')\ntime.sleep(900)")]),
            reply([run("print('x is', x)")]), reply(["Still there."])
            ]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("sleep")
        s.shows("│ zzz")
        stop(s)
        s.ask("what is x?")
        assert "x is 1" in results(server.requests[2])[0][0]


@tap.timeout(90)
def test_the_second_of_two_calls_does_not_run():
    with Place() as place, ClaudeServer([
            reply([run("print('here')\nwhile True: pass"),
                   run("print('never')")]),
            reply(["I see."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("run both")
        s.shows("│ here")
        stop(s)
        s.ask("and?")
        s.has_not("│ never")
        answers = [b for b in news(server.requests[1])
                   if b["type"] == "tool_result"]
        assert len(answers) == 2 and answers[1]["is_error"], answers
        assert "Not executed" in str(answers[1]["content"]), answers[1]


@tap.timeout(90)
def test_a_cell_that_ignores_it():
    """Ends by force, which costs the variables, and that is said."""
    with Place() as place, ClaudeServer([
            reply([run(DEAF)]), reply([run("print(1 + 1)")]),
            reply(["Works."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("be deaf")
        s.shows("│ deaf")
        s.send(b"\x03")
        s.at_prompt(20)
        s.ask("go on")
        s.has("Works.")
        (told, is_error), = results(server.requests[2])
        assert "2" in told and not is_error, told
        shown = s.text()
        assert "interpreter" in shown or "variables" in shown, shown


@tap.timeout(60)
def test_before_the_head_of_the_reply():
    talk = stop_in_reply(reply(["never"], before=[mark("there"), hang()]))
    assert len(talk) == 1, talk


@tap.timeout(60)
def test_before_the_first_event():
    talk = stop_in_reply(reply(["never"], leading=[mark("there"), hang()]))
    assert len(talk) == 1, talk


@tap.timeout(60)
def test_in_a_stalled_text():
    talk = stop_in_reply(
        reply([text("Half of the", mark("there"), hang())]), "Half of the")
    # What the person has read, the model remembers.
    assert [role for role, _ in talk] == ["user", "assistant", "user"], talk
    assert talk[1][1][0]["text"].startswith("Half of the"), talk[1]


@tap.timeout(60)
def test_in_thinking():
    talk = stop_in_reply(
        reply([thinking("Let me see", mark("there"), hang()),
               text("never")]), "Let me see")
    assert "thinking" not in str([b["type"] for _, c in talk for b in c])


@tap.timeout(60)
def test_in_text_behind_thinking():
    talk = stop_in_reply(
        reply([thinking("Let me see."),
               text("It is", mark("there"), hang())]), "It is")
    assert "second question" in str(talk[-1]), talk


@tap.timeout(60)
def test_in_the_input_of_a_tool():
    talk = stop_in_reply(
        reply([text("I run it."), tool_use("run_python", fragments=[
            '{"code": "print(', mark("there"), hang()])]), "I run it.")
    assert not [b for _, c in talk for b in c
                if b["type"] in ("tool_use", "tool_result")], talk


@tap.timeout(60)
def test_between_two_blocks():
    talk = stop_in_reply(
        reply([text("I run it."), run("print(1)"), mark("there"), hang()]),
        "I run it.")
    assert not [b for _, c in talk for b in c if b["type"] == "tool_use"]


@tap.timeout(60)
def test_in_the_reply_behind_a_cell():
    with Place() as place, ClaudeServer([
            reply([run("z = 5")]),
            reply([text("So ", mark("there"), hang())]),
            reply([run("print('z', z)")]), reply(["Yes."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("first")
        server.wait_reached("there", STEP_S)
        stop(s)
        s.ask("second")
        assert CUT_OFF in question(server.requests[2])
        assert "z 5" in results(server.requests[3])[0][0]


@tap.timeout(60)
def test_in_thinking_behind_a_cell():
    """Nothing of the reply is kept, and all of what came before it."""
    with Place() as place, ClaudeServer([
            reply([run("z = 5\nprint('z is', z)")]),
            reply([thinking("Let me see", mark("there"), hang())]),
            reply(["Yes."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("first")
        server.wait_reached("there", STEP_S)
        s.shows("Let me see")
        stop(s)
        s.ask("second")
        asked = server.requests[2]
        assert "z is 5" in str(news(asked)), news(asked)
        assert CUT_OFF in question(asked), question(asked)
        assert "Let me see" not in str(messages(asked)), messages(asked)


@tap.timeout(60)
def test_in_the_wait_before_another_try():
    with Place() as place, ClaudeServer([
            error(529, headers={"retry-after": "50"}),
            reply(["All is well."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("first question")
        # One line that counts, and of which nothing is left.
        s.shows("waiting 50 s: the service is overloaded (529")
        s.shows("waiting 49 s: the service is overloaded (529")
        assert s.text().count("waiting ") == 1, s.text()
        stop(s)
        s.has_not("waiting ")
        s.has("· stopped by Ctrl-C")
        s.ask("second question")
        s.has("All is well.")
        assert "first question" not in str(messages(server.requests[1]))


class Gate:
    """A port on which nobody answers a connect until open() is called; then
    it leads to another port."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.address = self.listener.getsockname()
        self.url = "http://127.0.0.1:%d" % self.address[1]
        self.fillers = []
        self.pairs = []
        # The kernel drops what does not fit into the backlog.
        while len(self.fillers) < 16:
            filler = socket.socket()
            filler.settimeout(0.3)
            try:
                filler.connect(self.address)
            except OSError:
                filler.close()
                return
            self.fillers.append(filler)
        raise AssertionError("the backlog does not fill")

    def open(self):
        for filler in self.fillers:
            filler.close()
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.pairs += [client, server]
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(a, b),
                                 daemon=True).start()

    @staticmethod
    def _copy(a, b):
        try:
            while True:
                data = a.recv(65536)
                if not data:
                    break
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        for sock in [self.listener] + self.fillers + self.pairs:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()


@tap.timeout(60)
def test_in_a_connect_that_hangs():
    with Place() as place, ClaudeServer([reply(["All is well."])]) as server:
        port = Gate(server.port)
        try:
            with place.repl(port) as s:
                s.at_prompt()
                s.type_line("first question")
                # Nothing tells that the connect has begun but the kernel.
                wait_until(lambda: is_connecting(s.pid, port.address[1]),
                           "the program does not connect")
                stop(s)
                assert not server.requests
                port.open()
                s.ask("second question")
                s.has("All is well.")
                assert len(messages(server.requests[0])) == 1
        finally:
            port.close()


def is_connecting(pid, port):
    """Whether a socket of the process waits for an answer from the port."""
    wanted = ":%04X" % port
    try:
        with open("/proc/%d/net/tcp" % pid) as table:
            rows = [line.split() for line in table][1:]
    except OSError:
        return False
    # 02: SYN_SENT, on the side of the program.
    return any(r[2].endswith(wanted) and r[3] == "02" for r in rows)


SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
getaddrinfo(const char *node, const char *service,
            const struct addrinfo *hints, struct addrinfo **res)
{
    int (*real)(const char *, const char *, const struct addrinfo *,
                struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    const char *dir = getenv("SLOW_LOOKUP");

    if (dir != NULL && access(dir, F_OK) == 0) {
        int at = open(dir, O_RDONLY | O_DIRECTORY);
        int fd = openat(at, "asked", O_CREAT | O_WRONLY, 0600);

        close(fd);
        close(at);
        while (access(dir, F_OK) == 0)
            usleep(20000);
    }
    if (node != NULL && strcmp(node, "slow.test") == 0)
        node = "127.0.0.1";
    return real(node, service, hints, res);
}
"""


def slow_lookup(place):
    """The environment in which names are not found while a directory is
    there, that directory, and a certificate for slow.test, which is this
    machine: libcurl answers for "localhost" itself, and to other names the
    key goes over https only."""
    if SANITIZED:
        tap.skip("a preloaded library and a sanitizer do not go together")
    if not shutil.which("openssl"):
        tap.skip("no openssl command")
    source = os.path.join(place.dir, "slow.c")
    library = os.path.join(place.dir, "slow.so")
    with open(source, "w") as out:
        out.write(SLOW)
    compiler = os.environ.get("CC", "cc").split() or ["cc"]
    try:
        done = subprocess.run(compiler + ["-shared", "-fPIC", "-o", library,
                                          source, "-ldl"],
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    except OSError as exc:
        tap.skip("no C compiler: %s" % exc)
    assert done.returncode == 0, done.stdout
    block = os.path.join(place.dir, "block")
    os.mkdir(block)
    ca = certs._ca(place.dir, "slow-ca")
    cert = certs._server(place.dir, "slow", "DNS:slow.test", ca)
    place.config("model:\n  ca_file: %s\n" % ca[0])
    return {"LD_PRELOAD": library, "SLOW_LOOKUP": block}, block, cert


def let_go(block):
    for name in os.listdir(block):
        os.unlink(os.path.join(block, name))
    os.rmdir(block)


@tap.timeout(60)
def test_in_a_slow_name_look_up():
    with Place() as place:
        env, block, cert = slow_lookup(place)
        with ClaudeServer([reply(["All is well."])], tls=cert) as server, \
                place.repl("https://slow.test:%d" % server.port,
                           env=env) as s:
            s.at_prompt()
            s.type_line("first question")
            wait_until(lambda: os.listdir(block), "no name is looked up")
            stop(s)
            # Nothing else hangs meanwhile.
            s.ask(":files")
            let_go(block)
            s.ask("second question")
            s.has("All is well.")
            assert len(messages(server.requests[0])) == 1


@tap.timeout(60)
def test_leaving_in_a_slow_name_look_up():
    with Place() as place:
        env, block, _ = slow_lookup(place)
        with place.repl("https://slow.test:9", env=env) as s:
            s.at_prompt()
            s.type_line("first question")
            wait_until(lambda: os.listdir(block), "no name is looked up")
            stop(s)
            s.send(b"\x04")
            assert s.wait_exit(5) == 0


@tap.timeout(60)
def test_while_a_file_is_loaded():
    """A load runs Python too; it stops, and the file is not there."""
    with Place() as place, ClaudeServer([
            reply([run("print('sales' in globals())")]),
            reply(["No."])]) as server:
        path = place.file("sales.csv")
        with open(path, "ab") as out:
            for i in range(150):
                out.write(b"2025-03-04,West,9,40.00\n" * 20000)
        with place.repl(server) as s:
            s.at_prompt()
            s.ask(":files")
            s.type_line(":load sales.csv")
            s.send(b"\x03")
            s.at_prompt(20)
            shown = s.text()
            if "3,000,004 rows" in shown:
                tap.skip("the file was loaded faster than Ctrl-C came")
            assert "stopped" in shown, shown
            s.ask("is it there?")
            assert "False" in results(server.requests[1])[0][0]


@tap.timeout(60)
def test_twice_and_between():
    """Ctrl-C again and again harms nothing."""
    with Place() as place, ClaudeServer([
            reply([text("One", mark("there"), hang())]),
            reply([run("print('on')\nwhile True: pass")]),
            reply(["All is well."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("first")
        server.wait_reached("there", STEP_S)
        s.send(b"\x03\x03")
        s.at_prompt()
        s.type_line("second")
        s.shows("│ on")
        s.send(b"\x03\x03\x03")
        s.at_prompt()
        s.ask("third")
        s.has("All is well.")


if __name__ == "__main__":
    tap.main(globals())
