#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings: each key does something, each mistake is said with its place."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (KEY, SANDPIPER, Place, messages, question,  # noqa: E402
                     results, run)

import tap  # noqa: E402
from claude_server import ClaudeServer, error, reply  # noqa: E402


def ask(config, script=None, *args, key=KEY, env=None, mode=0o600,
        models=(), stdin=b"", question="how is it?"):
    """One question with these settings; (what came of it, requests)."""
    with Place() as place:
        with ClaudeServer([reply(["Fine."])] if script is None else script,
                          models=models) as server:
            place.config(config.replace("PLACE", place.dir), mode)
            more = ("-c", question) if question else ()
            done = place.script(server, *more, *args, key=key, env=env,
                                stdin=stdin)
            assert KEY.encode() not in done.stdout + done.stderr, done
            return done, server.message_requests


def is_fine(config, script=None, **options):
    done, requests = ask(config, script, **options)
    assert done.status == 0, done
    return done, requests


def is_refused(config, *words, **options):
    """Nothing is asked, the status says settings, the line says where."""
    done, requests = ask(config, [], **options)
    assert done.status == 3, done
    assert done.stdout == b"", done
    assert not requests
    err = done.stderr.decode()
    assert err.startswith("error: ") and err.count("error: ") == 1, done
    for word in words:
        assert word in err, (word, err)
    return err


def told_of(config, code, **options):
    """What the model is told of a cell under these settings."""
    _, requests = is_fine(config, [reply([run(code)]), reply(["Done."])],
                          **options)
    return results(requests[1])[0]


# ---- model ------------------------------------------------------------------

def test_no_file_and_an_empty_file():
    for text in ("", "\n", "# nothing\n", "model:\n", "---\n", "{}\n"):
        is_fine(text)


def test_name():
    _, requests = is_fine("model:\n  name: claude-sonnet-5-5\n")
    assert requests[0].body["model"] == "claude-sonnet-5-5"
    _, requests = is_fine("")
    assert requests[0].body["model"] == "claude-opus-5-5"


def test_api_key():
    done, requests = is_fine("model:\n  api_key: sk-from-the-file\n",
                             key=None)
    assert requests[0].credentials == [
        ("authorization", "Bearer sk-from-the-file")]
    assert b"sk-from" not in done.stdout + done.stderr


def test_key_header():
    _, requests = is_fine("model:\n  key_header: x-api-key\n")
    assert requests[0].credentials == [("x-api-key", KEY)]
    _, requests = is_fine("model:\n  key_header: bearer\n")
    assert requests[0].credentials == [("authorization", "Bearer " + KEY)]


def test_base_url():
    with Place() as place, ClaudeServer([reply(["Fine."])]) as server:
        place.config("model:\n  base_url: %s/\n" % server.url)
        done = place.script(None, "-c", "hello")
        assert done.status == 0, done
        assert server.requests[0].path == "/v1/messages"
    with Place() as place, ClaudeServer([reply(["Fine."])]) as server:
        place.config("model:\n  base_url: %s/some/where\n" % server.url)
        assert place.script(None, "-c", "hello").status == 0
        assert server.requests[0].path == "/some/where/v1/messages"


def test_an_address_that_is_none():
    """From either source it is the configuration, and the source is named."""
    with Place() as place:
        done = place.script("localhost:11434", "-c", "hello")
        assert done.status == 3, done
        assert b"error: ANTHROPIC_BASE_URL: an address begins with " \
            b"http:// or https://\n" == done.stderr, done
        place.config("model:\n  base_url: localhost:11434\n")
        done = place.script(None, "-c", "hello")
        assert done.status == 3, done
        assert b"2:13: model.base_url: an address begins" in done.stderr, done


def test_api_version():
    _, requests = is_fine("model:\n  api_version: 2023-06-01\n")
    assert requests[0].header("anthropic-version") == "2023-06-01"
    _, requests = is_fine("model:\n  api_version: \"2026-10-21\"\n")
    assert requests[0].header("anthropic-version") == "2026-10-21"


def test_effort():
    for effort in ("low", "medium", "high", "xhigh", "max"):
        _, requests = is_fine("model:\n  effort: %s\n" % effort)
        assert requests[0].body["output_config"]["effort"] == effort
    _, requests = is_fine("")
    assert "output_config" not in requests[0].body


def test_max_tokens():
    _, requests = is_fine("model:\n  max_tokens: 1234\n")
    assert requests[0].body["max_tokens"] == 1234


def test_max_attempts():
    done, requests = ask("model:\n  max_attempts: 1\n", [error(529)])
    assert done.status == 6 and len(requests) == 1, done


# ---- limits -----------------------------------------------------------------

def test_rounds():
    calls = [reply([run("print(%d)" % n)]) for n in range(2)]
    done, requests = ask("limits:\n  rounds: 2\n", calls)
    assert done.status == 8 and len(requests) == 2, done
    assert b"limits.rounds" in done.stderr, done


def test_cell_seconds():
    told, is_error = told_of("limits:\n  cell_seconds: 1\n",
                             "import time\ntime.sleep(100)")
    assert is_error and re.search(r"after 1(\.0)? s", told), told


@tap.timeout(90)
def test_memory_mb():
    code = ("try:\n    x = b'x' * (800 << 20)\n"
            "    print('got', len(x))\n"
            "except MemoryError:\n    print('none left')\n")
    told, _ = told_of("limits:\n  memory_mb: 768\n", code)
    assert "got" not in told, told
    told, _ = told_of("", code)
    assert "got 838860800" in told, told


def test_output_kb():
    code = "for i in range(2000): print('x' * 99)\n"
    told, _ = told_of("limits:\n  output_kb: 16\n", code)
    assert "dropped" in told, told[-300:]
    told, _ = told_of("", code)
    assert "dropped" not in told, told[-300:]


def test_workspace_mb():
    code = ("import os\nwritten = 0\n"
            "try:\n"
            "    for i in range(64):\n"
            "        with open('f%d' % i, 'wb') as f:\n"
            "            written += f.write(os.urandom(1 << 20))\n"
            "            f.flush()\n"
            "except OSError as e:\n"
            "    print('stopped', e.errno)\n"
            "print('written', written >> 20)\n")
    told, _ = told_of("", code)
    assert "written 64" in told, told
    told, is_error = told_of("limits:\n  workspace_mb: 16\n", code)
    assert "written 64" not in told or is_error, told


def test_processes():
    code = ("import subprocess, sys\nkids = []\n"
            "try:\n"
            "    for i in range(40):\n"
            "        kids.append(subprocess.Popen(['sleep', '60']))\n"
            "except OSError as e:\n    print('refused', type(e).__name__)\n"
            "print('started', len(kids))\n"
            "for k in kids: k.kill()\n")
    told, _ = told_of("", code)
    assert "started 40" in told, told
    told, _ = told_of("limits:\n  processes: 24\n", code)
    assert "refused" in told, told


# ---- sandbox ----------------------------------------------------------------

def test_python():
    with Place() as place:
        place.config("sandbox:\n  python: /usr/bin/python3\n")
        with ClaudeServer([reply([run("import sys\nprint(sys.executable)")]),
                           reply(["Done."])]) as server:
            done = place.script(server, "-c", "which?")
            assert done.status == 0, done
            assert "python3" in results(server.requests[1])[0][0]
        place.config("sandbox:\n  python: /nowhere/python3\n")
        with ClaudeServer([reply([run("print(1)")])]) as server:
            done = place.script(server, "-c", "which?")
            assert done.status == 7, done
            assert b"/nowhere/python3" in done.stderr, done


def test_bwrap():
    done, requests = ask("sandbox:\n  bwrap: /nowhere/bwrap\n",
                         [reply([run("print('unprotected')")])])
    assert done.status == 7, done
    assert b"/nowhere/bwrap" in done.stderr, done
    assert b"\nunprotected" not in done.stderr, done


def test_drop_uid():
    if os.getuid() != 0:
        tap.skip("needs root")
    told, _ = told_of("sandbox:\n  drop_uid: 34567\n",
                      "print(open('/proc/self/status').read())")
    done = re.search(r"Uid:\s+(\d+)", told)
    assert done, told
    # Which uid a cell sees inside is the sandbox's business; outside, it
    # must be the one that was set.
    with Place() as place:
        place.config("sandbox:\n  drop_uid: 34567\n")
        os.chmod(place.dir, 0o755)
        with ClaudeServer([
                reply([run("import time\nprint('on')\ntime.sleep(60)")])
                ]) as server, place.repl(server) as s:
            s.at_prompt()
            s.type_line("wait")
            s.shows("\u2502 on")
            uids = set()
            for pid in s.descendants():
                with open("/proc/%d/status" % pid) as status:
                    uids.add(int(re.search(r"Uid:\s+(\d+)",
                                           status.read())[1]))
            assert 34567 in uids, uids


# ---- display ----------------------------------------------------------------

def test_graphics():
    code = ("import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
            "plt.title('Up')\n")
    for value, drawn in (("none", False), ("auto", True), ("sixel", True)):
        with Place() as place, ClaudeServer([
                reply([run(code)]), reply(["Done."])]) as server:
            place.config("display:\n  graphics: %s\n" % value)
            with place.repl(server, profile="vt340") as s:
                s.at_prompt()
                s.ask("plot", 60)
                assert bool(s.screen.images) == drawn, value


def test_graphics_of_the_command_line():
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
    with Place() as place, ClaudeServer([
            reply([run(code)]), reply(["Done."])]) as server:
        place.config("display:\n  graphics: sixel\n")
        with place.repl(server, "--graphics", "none", profile="vt340") as s:
            s.at_prompt()
            s.ask("plot", 60)
            assert not s.screen.images
        done = place.script(server, "--graphics=pixels", "-c", "x")
        assert done.status == 2, done
        assert b"auto|sixel|none" in done.stderr, done


# ---- mistakes ---------------------------------------------------------------

KEYS = {
    "model.name": ("claude-opus-5-5", '""'),
    "model.api_key": ("sk-x", '""'),
    "model.key_header": ("x-api-key", "basic"),
    "model.base_url": (None, '""'),
    "model.api_version": ("2026-10-21", '""'),
    "model.ca_file": (None, '""'),
    "model.dialect": ("compatible", "openai"),
    "model.effort": ("low", "huge"),
    "model.max_tokens": ("64", "128001"),
    "model.max_attempts": ("1", "0"),
    "model.budget_usd": ("0.50", "0"),
    "model.see_charts": ("false", "maybe"),
    "limits.turn_seconds": ("1800", "0"),
    "limits.turn_usd": ("1", "a lot"),
    "limits.result_kb": ("12", "3"),
    "limits.result_rows": ("20", "21"),
    "limits.rounds": ("1", "0"),
    "limits.cell_seconds": ("1", "1.5"),
    "limits.memory_mb": ("768", "767"),
    "limits.output_kb": ("16", "15"),
    "limits.workspace_mb": ("16", "1k"),
    "limits.processes": ("64", "7"),
    "limits.idle_suspend": ("0", "-1"),
    "limits.idle_close": ("1800", "604801"),
    "sandbox.use": ("local", "nowhere"),
    "sandbox.python": ("/usr/bin/python3", '""'),
    "sandbox.bwrap": ("/usr/bin/bwrap", '""'),
    "sandbox.drop_uid": ("-1", "-2"),
    "sandbox.isolation": ("reduced", "none"),
    "display.graphics": ("none", "kitty"),
    "display.thinking": ("brief", "none"),
    "display.color": ("never", "always"),
}


def test_every_key_is_known():
    """The table above has all the keys of the program, and no other."""
    top = os.environ.get("abs_top_srcdir", os.path.join(HERE, "..", ".."))
    path = os.path.join(top, "src", "config", "options.def")
    if not os.path.exists(path):
        tap.skip("no sources here")
    with open(path) as source:
        names = re.findall(r'^KEY\("([a-z_.]+)"', source.read(), re.M)
    assert sorted(names) == sorted(KEYS), set(names) ^ set(KEYS)


@tap.timeout(120)
def test_every_key_takes_a_value():
    for name, (good, _) in KEYS.items():
        if good is None:
            continue
        section, key = name.split(".")
        is_fine("%s:\n  %s: %s\n" % (section, key, good))


@tap.timeout(120)
def test_every_key_refuses_a_wrong_value():
    for name, (_, bad) in KEYS.items():
        section, key = name.split(".")
        err = is_refused("# first\n%s:\n  %s: %s\n" % (section, key, bad),
                         name)
        column = 3 + len(key) + 2
        assert "config.yaml:3:%d: " % column in err, err


def test_unknown_keys():
    for text, where, near in (
            ("model:\n  nmae: x\n", "2:3", "model.name"),
            ("limits:\n  rounds: 3\n  cell_second: 3\n", "3:3",
             "limits.cell_seconds"),
            ("modle:\n  name: x\n", "1:1", "model"),
            ("limit:\n  rounds: 3\n", "1:1", "limits"),
            ("model.name: x\n", "1:1", None),
            ("display:\n  xyzzy_plugh: 1\n", "2:3", None)):
        err = is_refused(text, "config.yaml:%s: " % where, "unknown key")
        if near:
            assert "the nearest is '%s'" % near in err, err


def test_what_is_no_yaml():
    for text in ("model: [1, 2\n", "\tmodel: x\n", "a: b: c\n",
                 "model:\n  name: 'x\n", "\x00", "- a\n- b\n", "words\n",
                 "model: 7\n", "model:\n  name: [a]\n", "model:\n  ? [a]\n"
                 "  : b\n", "&a model: *a\n", "%YAML 9.9\n---\nmodel:\n"):
        err = is_refused(text)
        assert re.search(r"config\.yaml:\d+:\d+: ", err), (text, err)


def test_a_key_twice():
    is_refused("model:\n  name: a\n  name: b\n", "config.yaml:3:3: ",
               "twice")


def test_a_message_never_has_the_key():
    """Not even when the line with the key is the one that is wrong."""
    for text in ("model:\n  api_key: [%s]\n", "model:\n  api_keys: %s\n",
                 "model: %s\n", "model:\n  api_key: '%s\n", "%s\n",
                 "model:\n  api_key: %s\n   x: y\n"):
        done, _ = ask(text % "sk-in-the-file-9876543210", [], key=None)
        assert done.status == 3, (text, done)
        assert b"9876543210" not in done.stderr + done.stdout, done


def test_others_may_not_read_it():
    for mode in (0o644, 0o640, 0o604, 0o620, 0o602, 0o610):
        err = is_refused("model:\n  name: claude-opus-5-5\n", "config.yaml",
                         "%04o" % mode, "chmod 600", mode=mode)
        assert "read" in err
    for mode in (0o600, 0o400):
        is_fine("model:\n  name: claude-opus-5-5\n", mode=mode)


def test_a_directory_or_a_fifo_in_its_place():
    with Place() as place, ClaudeServer() as server:
        os.makedirs(place.settings)
        done = place.script(server, "-c", "hello")
        assert done.status == 3 and b"regular file" in done.stderr, done
        os.rmdir(place.settings)
        os.mkfifo(place.settings, 0o600)
        done = place.script(server, "-c", "hello", timeout=20)
        assert done.status == 3 and b"regular file" in done.stderr, done


def test_the_option_config():
    with Place() as place:
        path = place.file("my.yaml", "model:\n  name: claude-haiku-5-5\n")
        os.chmod(path, 0o600)
        place.config("nonsense:\n  x: y\n")
        with ClaudeServer([reply(["Fine."])]) as server:
            done = place.script(server, "--config", path, "-c", "hello")
            assert done.status == 0, done
            assert server.requests[0].body["model"] == "claude-haiku-5-5"
            done = place.script(server, "--config=/nowhere.yaml", "-c", "x")
            assert done.status == 3 and b"/nowhere.yaml" in done.stderr, done
            os.chmod(path, 0o644)
            done = place.script(server, "--config", path, "-c", "hello")
            assert done.status == 3, done


# ---- the environment --------------------------------------------------------

def test_the_environment_comes_first():
    text = ("model:\n  api_key: sk-from-the-file\n"
            "  base_url: http://127.0.0.1:9\n")
    _, requests = is_fine(text, key="sk-from-the-environment")
    assert requests[0].credentials[0][1] == "Bearer sk-from-the-environment"


def test_the_two_variables():
    _, requests = is_fine("", key=None,
                          env={"ANTHROPIC_AUTH_TOKEN": "token-1"})
    assert requests[0].credentials == [("authorization", "Bearer token-1")]
    _, requests = is_fine("", key="sk-2",
                          env={"ANTHROPIC_AUTH_TOKEN": "token-1"})
    assert requests[0].credentials == [("authorization", "Bearer sk-2")]
    _, requests = is_fine("model:\n  api_key: sk-3\n", key="")
    assert requests[0].credentials == [("authorization", "Bearer sk-3")]


def test_an_empty_address_is_none():
    with Place() as place, ClaudeServer([reply(["Fine."])]) as server:
        place.config("model:\n  base_url: %s\n" % server.url)
        done = place.script(None, "-c", "hello",
                            env={"ANTHROPIC_BASE_URL": ""})
        assert done.status == 0, done


# ---- without a key ----------------------------------------------------------

def test_a_question_without_a_key():
    with Place() as place:
        place.file("sales.csv")
        done = place.script(None, "-c", "hello", "sales.csv", key=None)
        assert done.status == 4, done
        assert done.stdout == b"", done
        err = done.stderr.decode()
        assert "sales  4 rows" in err, err
        lines = err.split("revenue", 1)[1].splitlines()[1:]
        lines = [line for line in lines if line.strip()]
        assert len(lines) == 3, lines
        assert lines[0].startswith("error: ") and "key" in lines[0], lines
        assert place.settings in lines[1], lines
        assert "ANTHROPIC_API_KEY" in lines[1], lines
        assert "--demo" in lines[2], lines


def test_files_without_a_key():
    with Place() as place:
        place.file("sales.csv")
        done = place.script(None, "sales.csv", stdin=":files\n", key=None)
        assert done.status == 0, done
        assert "4 rows × 4 columns" in done.stdout.decode(), done


# ---- the command line -------------------------------------------------------

def test_version_and_help():
    with Place() as place:
        place.config("nonsense: 1\n", 0o644)
        done = place.script(None, "--version", key=None)
        assert done.status == 0 and done.stderr == b"", done
        assert re.match(rb"sandpiper \d+\.\d+", done.stdout), done
        for word in ("--help", "-h"):
            done = place.script(None, word, key=None)
            assert done.status == 0 and done.stderr == b"", done
            for option in (b"--command", b"-c", b"--demo", b"--config",
                           b"--replay-model", b"--graphics", b"--sandbox",
                           b"--version"):
                assert option in done.stdout, (option, done)


def test_bad_options():
    with Place() as place:
        for args, word in ((("--hepl",), b"--help"), (("-x",), b"-x"),
                           (("-c",), b"--command"), (("--config",),
                                                     b"--config"),
                           (("-c", ""), b"empty"),
                           (("--version=3",), b"no value"),
                           (("--demo", "x.csv"), b"--demo")):
            done = place.script(None, *args, key=None)
            assert done.status == 2, (args, done)
            assert word in done.stderr and done.stdout == b"", (args, done)


def test_the_key_does_not_reach_argv_or_children():
    """Looked at from outside, while a cell runs."""
    code = ("import os, time\nprint(sorted(os.environ))\nprint('on')\n"
            "time.sleep(60)\n")
    with Place() as place, ClaudeServer([reply([run(code)])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("wait")
        s.shows("\u2502 on")
        s.has_not("ANTHROPIC")
        children = [pid for pid in s.descendants() if pid != s.pid]
        assert children
        for pid in children:
            for name in ("environ", "cmdline"):
                try:
                    with open("/proc/%d/%s" % (pid, name), "rb") as data:
                        assert KEY.encode() not in data.read(), (pid, name)
                except (PermissionError, FileNotFoundError,
                        ProcessLookupError):
                    pass


def test_settings_of_one_run_do_not_change_the_file():
    with Place() as place, ClaudeServer([reply(["Fine."])]) as server:
        path = place.config("model:\n  name: claude-haiku-5-5\n")
        done = place.script(server, "-c", "hello")
        assert done.status == 0, done
        with open(path) as data:
            assert data.read() == "model:\n  name: claude-haiku-5-5\n"
        assert question(server.requests[0]) == "hello"
        assert len(messages(server.requests[0])) == 1
        assert os.path.exists(SANDPIPER)


if __name__ == "__main__":
    tap.main(globals())
