#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sandbox is used, what is wrong with that, and where its key is."""

import os
import re
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import STEP_S, Place, run, wait_until  # noqa: E402

import tap  # noqa: E402
from claude_server import ClaudeServer, reply  # noqa: E402
from e2b_server import E2bServer  # noqa: E402

E2B_KEY = "e2b_5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0"
WORK = "sandboxes:\n  work: {kind: e2b, template: sales}\n"
OWN = ("sandboxes:\n  work:\n    kind: e2b\n    api_key: %s\n"
       "    internet: [pypi.org, 10.0.0.0/8]\n" % E2B_KEY)


def refused(status, *words, args=(), config="", env=None, stdin=b""):
    """The program ends at once, and nobody was asked for anything."""
    with Place() as place, ClaudeServer([]) as server:
        place.config(config)
        done = place.script(server, *args, env=env, stdin=stdin)
        assert done.status == status, done
        assert done.stdout == b"" and not server.requests, done
        err = done.stderr.decode()
        assert err.startswith("error: ") and err.count("error: ") == 1, err
        assert E2B_KEY not in err, err
        for word in words:
            assert word.replace("SETTINGS", place.settings) in err, (word, err)


def test_a_name_that_is_not_known():
    for args, stdin in ((("-c", "hello"), b""), ((), b":files\n")):
        for option in (("--sandbox", "wurk"), ("--sandbox=wurk",)):
            refused(2, "--sandbox: no sandbox is called 'wurk'; known are "
                    "local, work, e2b\n", args=option + args, stdin=stdin,
                    config=WORK)
    refused(2, "known are local, e2b\n", args=("--sandbox", "x", "-c", "y"))
    refused(2, "--sandbox needs NAME", args=("--sandbox",))
    refused(3, "SETTINGS:1:10: sandbox.use: no sandbox is called 'wurk'; "
            "known are local, work, e2b\n", args=("-c", "hello"),
            config="sandbox: wurk\n" + WORK)


def test_no_key():
    """What is missing, and both places where it can go."""
    for args, config in ((("--sandbox", "work"), WORK),
                         ((), "sandbox: work\n" + WORK),
                         ((), WORK + "sandbox: {use: work}\n")):
        refused(4, "no key for the sandbox work at api.e2b.app\n",
                "SETTINGS", "sandboxes.work.api_key", "E2B_API_KEY",
                args=args + ("-c", "hello"), config=config)
    refused(4, "no key for the sandbox e2b at api.example.org\n",
            "sandboxes.e2b.api_key", args=("--sandbox", "e2b", "-c", "hello"),
            env={"E2B_DOMAIN": "example.org", "E2B_API_KEY": "  "})


def test_an_address_of_the_environment():
    """It is looked at where it is used, and only there."""
    env = {"E2B_API_KEY": E2B_KEY, "E2B_API_URL": "localhost:3000"}
    refused(3, "error: E2B_API_URL: an address begins with http:// or "
            "https://\n", args=("--sandbox", "e2b", "-c", "hello"), env=env)
    with Place() as place, ClaudeServer([reply(["Fine."])]) as server:
        done = place.script(server, "-c", "hello", env=env)
        assert done.status == 0, done


def test_local_wins_on_the_command_line():
    with Place() as place, ClaudeServer([
            reply([run("print('it ran')")]), reply(["Done."])]) as server:
        place.config("sandbox: work\n" + WORK)
        done = place.script(server, "--sandbox", "local", "-c", "hello")
        assert done.status == 0 and b"it ran" in done.stderr, done


@tap.timeout(120)
def test_demo_and_doctor_need_no_service():
    with Place() as place:
        place.config("sandbox: work\n" + WORK)
        done = place.script(None, "--demo", key=None)
        assert done.status == 0, done
        assert b"local sandbox, no network" in done.stderr, done
        done = place.script(None, "--demo", "--sandbox", "work", key=None)
        assert done.status == 0, done
        done = place.script(None, "--doctor", key=None)
        assert done.status == 0, done
        # A name that is wrong is wrong there as well.
        done = place.script(None, "--doctor", "--sandbox", "wurk", key=None)
        assert done.status == 2, done


def test_the_list():
    with Place() as place:
        place.config(OWN)
        done = place.script(None, stdin=":sandbox list\n", key=None)
        assert done.status == 0, done
        assert done.stdout.decode().splitlines() == [
            "* local  on this machine, no network",
            "  work   E2B at api.e2b.app, code-interpreter-v1, pypi.org and "
            "10.0.0.0/8",
            "  e2b    E2B at api.e2b.app, code-interpreter-v1, no internet",
        ], done


# ---- what is said of a service ----------------------------------------------

def at(e2b, **changes):
    """The environment that leads to a service; None takes a variable away."""
    env = {"E2B_API_URL": e2b.url, "E2B_SANDBOX_URL": e2b.url,
           "E2B_API_KEY": e2b.key}
    env.update(changes)
    return {name: value for name, value in env.items() if value is not None}


@tap.timeout(120)
def test_a_wrong_key_is_named_by_where_it_is():
    """Protection: name_key_setting() in main_sandbox.c."""
    with E2bServer() as e2b, Place() as place:
        place.file("f.csv")
        for entry, env, words in (
                ("", {"E2B_API_KEY": E2B_KEY}, "see E2B_API_KEY ("),
                ("    api_key: %s\n" % E2B_KEY, {}, "see api_key ("),
                ("    api_key_command: echo %s\n" % E2B_KEY, {},
                 "see api_key_command (")):
            place.config("sandboxes:\n  work:\n    kind: e2b\n" + entry)
            done = place.script(None, "--sandbox", "work", key=None,
                                stdin=":load f.csv\n", env=at(e2b, **env))
            assert words in done.stderr.decode(), (words, done)
        assert not e2b.created


@tap.timeout(120)
def test_sandboxes_that_are_not_where_they_are_looked_for():
    """Protection: fail_workspace() in e2b_open.c."""
    with E2bServer() as e2b, Place() as place:
        place.file("f.csv")
        done = place.script(None, "--sandbox", "e2b", stdin=":load f.csv\n",
                            key=None,
                            env=at(e2b, E2B_SANDBOX_URL="http://127.0.0.1:1",
                                   E2B_DOMAIN="sandbox.invalid"))
        assert "sandbox_url or domain" not in done.stderr.decode(), done
        done = place.script(None, "--sandbox", "e2b", stdin=":load f.csv\n",
                            key=None,
                            env=at(e2b, E2B_SANDBOX_URL=None,
                                   E2B_DOMAIN="sandbox.invalid"))
        assert done.status == 5, done
        assert ("sandbox.invalid; is the name right and the network up? "
                "(sandbox_url or domain says where sandboxes are)"
                in done.stderr.decode()), done
        assert not e2b.sandboxes


@tap.timeout(120)
def test_each_step_is_said_once():
    """Also where there is no interpreter, and our own is sent."""
    for interpreters in (("code-interpreter-v1",), ()):
        with E2bServer(interpreters=interpreters) as e2b, Place() as place:
            place.file("f.csv")
            done = place.script(None, "--sandbox", "e2b", stdin=":load f.csv\n",
                                env=at(e2b), key=None)
            assert done.status == 0, done
            for words in ("making a sandbox at", "starting Python in the"):
                assert done.stderr.decode().count(words) == 1, done


# ---- where the key is -------------------------------------------------------

# Every child of the local sandbox, the programs for pictures among them.
LOOK = ("import os, time\n"
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
        "print(sorted(os.environ))\nprint('on')\ntime.sleep(60)\n")


def environment(pid, name="environ"):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as data:
            return data.read()
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return None


@tap.timeout(90)
def test_no_child_has_the_key():
    """Protections: secret_take_env() in config_fill_sandboxes(), and the
    built environments of children (envp in launch(), local_bwrap.c)."""
    for config, env in ((WORK, {"E2B_API_KEY": E2B_KEY}), (OWN, {})):
        with Place() as place, ClaudeServer([reply([run(LOOK)])]) as server:
            place.config(config)
            with place.repl(server, env=env) as s:
                s.at_prompt()
                s.type_line("wait")
                s.shows("\u2502 on", STEP_S * 2)
                s.has_not("E2B_API_KEY")
                children = [pid for pid in s.descendants() if pid != s.pid]
                assert children
                read = 0
                for pid in children:
                    for name in ("environ", "cmdline"):
                        data = environment(pid, name)
                        read += data is not None
                        assert E2B_KEY.encode() not in (data or b""), pid
                assert read > 0
                # /proc shows the bytes that the program began with.
                if os.getuid() == 0:
                    data = environment(s.pid)
                    assert b"TERM=" in data
                    assert E2B_KEY.encode() not in data
                    assert not re.search(rb"E2B_API_KEY=[^\0]*[0-9a-f]", data)


# ---- a command that prints it -----------------------------------------------

def lines_of(path):
    with open(path) as lines:
        return len(lines.readlines())


def by_command(place, e2b, command):
    """The settings of an entry; each run of its command adds a line to a file,
    which is returned."""
    path = os.path.join(place.dir, "runs")
    place.config("sandbox: work\nsandboxes:\n  work:\n    kind: e2b\n"
                 "    api_url: %s\n    sandbox_url: %s\n"
                 "    api_key_command: 'echo run >>%s; %s'\n"
                 % (e2b.url, e2b.url, path, command.replace("PATH", path)))
    return path


@tap.timeout(180)
def test_a_command_for_a_key_runs_once():
    """For the back end, the search for leftovers, and all that comes later.
    Protection: get_key_source() in main_sandbox.c."""
    with E2bServer() as e2b, Place() as place:
        runs = by_command(place, e2b, "echo " + e2b.key)
        with ClaudeServer([reply([run("print(6 * 7)")]),
                           reply(["Done."])]) as server:
            done = place.script(server, "-c", "hello", timeout=STEP_S * 3)
            assert done.status == 0 and b"42" in done.stderr, done
        e2b.wait_request("GET /v2/sandboxes")
        assert lines_of(runs) == 1
        os.unlink(runs)
        replies = [reply([run("print(%d + 1)" % n)]) if n % 100 == 0
                   else reply(["Done."]) for n in (100, 1, 200, 2, 300, 3)]
        with ClaudeServer(replies) as server, place.repl(server) as s:
            s.at_prompt()
            e2b.wait_request("GET /v2/sandboxes", 2)
            s.ask("one")
            s.has("101")
            s.type_line(":sandbox local")
            s.shows("the sandbox is local now")
            s.ask("two")
            s.has("201")
            s.type_line(":sandbox work")
            s.shows("the sandbox is work now")
            s.ask("three")
            s.has("301")
            assert lines_of(runs) == 1
            assert len(e2b.created) == 3, e2b.created


@tap.timeout(180)
def test_a_key_that_is_refused_is_asked_for_again():
    """Once more for the one who needs it next; the other gets the same.
    Protection: e2b_check_key() in e2b_open.c."""
    with E2bServer() as e2b, Place() as place:
        runs = by_command(
            place, e2b, "if [ $(wc -l <PATH) -eq 1 ]; then echo e2b_first; "
            "else echo %s; fi" % e2b.key)
        with ClaudeServer([reply([run("print(6 * 7)")]),
                           reply(["Done."])]) as server, \
                place.repl(server) as s:
            s.at_prompt()
            s.shows("see api_key_command (")
            e2b.wait_request("GET /v2/sandboxes")
            assert lines_of(runs) == 1
            s.ask("hello")
            s.has("42")
            assert lines_of(runs) == 2
            s.ask(":sandbox kill")
            assert e2b.find("GET /v2/sandboxes")[-1].status == 200
            assert lines_of(runs) == 2


@tap.timeout(180)
def test_a_command_for_a_key_that_takes_its_time():
    """Ctrl-C ends the wait and not the command, whose key is used then."""
    with E2bServer() as e2b, Place() as place:
        runs = by_command(place, e2b, "until [ -e PATH.go ]; do sleep 0.05; "
                          "done; echo " + e2b.key)
        with ClaudeServer([reply([run("print(6 * 7)")]),
                           reply([run("print(6 * 9)")]),
                           reply(["Done."])]) as server, \
                place.repl(server) as s:
            s.at_prompt()
            s.type_line("hello")
            s.shows("asking for the key")
            s.interrupt()
            assert not e2b.requests
            with open(runs + ".go", "w"):
                pass
            s.ask("again")
            s.has("54")
            assert lines_of(runs) == 1


def has_ended(pid):
    """Or is an orphan that nobody has reaped yet."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return ") Z " in stat.read()
    except FileNotFoundError:
        return True


@tap.timeout(180)
def test_a_command_for_a_key_ends_with_the_program():
    """With what it has begun. Protection: main_free_key_sources() in
    take_down()."""
    with E2bServer() as e2b, Place() as place:
        runs = by_command(place, e2b, "sleep 600 & echo $! >PATH.new; "
                          "mv PATH.new PATH.pid; wait")
        with ClaudeServer([]) as server, place.repl(server) as s:
            s.at_prompt()
            wait_until(lambda: os.path.exists(runs + ".pid"), "it runs")
            with open(runs + ".pid") as text:
                pid = int(text.read())
            s.signal(signal.SIGTERM)
            assert s.wait_exit(STEP_S) == 128 + signal.SIGTERM
            wait_until(lambda: has_ended(pid), "it ends")
        assert not e2b.requests


def test_the_key_is_in_no_message():
    for config in ("sandboxes:\n  work: {kind: e2b, api_key: [%s]}\n",
                   "sandboxes:\n  work: {kind: e2b, api_kye: %s}\n",
                   "sandboxes:\n  work: %s\n", "sandboxes: %s\n",
                   "sandboxes:\n  %s: {kind: e2b}\n",
                   "sandboxes:\n  work: {kind: %s}\n",
                   "sandboxes:\n  work: {kind: e2b, %s: x}\n",
                   "sandbox: %s\n",
                   "sandboxes:\n  work: {kind: e2b, timeout: %s}\n",
                   "sandboxes:\n  work: {kind: e2b, envs: {%s-: x}}\n",
                   "sandboxes:\n  work: {kind: e2b, internet: %s}\n",
                   "sandboxes:\n  work: {kind: e2b, headers: {\"%s \": x}}\n"):
        key = E2B_KEY + "0123456789"
        with Place() as place, ClaudeServer([]) as server:
            place.config(config % key)
            done = place.script(server, "-c", "hello")
            assert done.status == 3, (config, done)
            assert key.encode() not in done.stderr + done.stdout, done


if __name__ == "__main__":
    tap.main(globals())
