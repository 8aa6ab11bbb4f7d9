# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the kernel that knows the habits of notebooks: top-level await,
shell lines, magics.

No triple single quotes in this file; see part() in local_kernel.py.
"""
import os
import re
import signal
import sys
import time

import sandpiper_kernel as kernel
from sandpiper_kernel import (
    S, cut, flush_output, note, part, safe_text, type_name)


# Await ---------------------------------------------------------------------

def new_loop():
    import asyncio
    loop = asyncio.new_event_loop()
    whole = loop.run_until_complete

    def run_until_complete(future):
        if loop.is_running() and asyncio.iscoroutine(future):
            return run_in_thread(future)
        return whole(future)
    loop.run_until_complete = run_until_complete
    return loop


async def run_steps(steps):
    """The steps of a cell, of which one at least awaits, in a running loop."""
    value = None
    for step in steps:
        value = eval(step, S.namespace)
        if step.co_flags & kernel.COROUTINE:
            value = await value
    return value


def run_async(steps):
    """Runs a cell that awaits. Tasks that it leaves over go on in the next
    cell that awaits."""
    import asyncio
    if S.loop is None or S.loop.is_closed():
        S.loop = new_loop()
    asyncio.set_event_loop(S.loop)
    before = asyncio.all_tasks(S.loop)
    task = S.loop.create_task(run_steps(steps))
    try:
        value = S.loop.run_until_complete(task)
    except (KeyboardInterrupt, SystemExit):
        # What the cell was waiting for must not go on in the next one. An
        # interrupt inside asyncio may have lost the task: no endless wait.
        loop, S.loop = S.loop, None
        if not task.done():
            task.cancel()
            loop.run_until_complete(asyncio.wait([task], timeout=0.5))
        S.loop = loop if task.done() else None
        raise
    left = asyncio.all_tasks(S.loop) - before
    if left and not S.silent:
        note("async", "%d task%s not finished; what is left goes on while a "
             "later cell awaits." % (len(left), " is" if len(left) == 1
                                     else "s are"))
    return value


def run_in_thread(coroutine, run=None):
    """Runs a coroutine to its end while the cell's own loop is running."""
    import asyncio
    import contextvars
    import threading
    box = {}

    async def whole():
        box["loop"] = asyncio.get_running_loop()
        box["task"] = asyncio.current_task()
        return await coroutine

    def work():
        try:
            box["value"] = (run or asyncio.run)(whole())
        except BaseException as error:
            box["error"] = error
    thread = threading.Thread(target=contextvars.copy_context().run,
                              args=(work,), daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        if "task" in box:
            box["loop"].call_soon_threadsafe(box["task"].cancel)
        raise
    if "error" in box:
        raise box["error"]
    return box.get("value")


def after_asyncio(module):
    """asyncio.run in a cell that awaits: the loop of the cell is running, so
    it gets a thread of its own."""
    original = module.run

    def run(main, **options):
        try:
            loop = module.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is None or loop is not S.loop:
            return original(main, **options)
        return run_in_thread(main, lambda c: original(c, **options))
    module.run = module.runners.run = run


AFTER_IMPORT = {"asyncio": after_asyncio}


# Shell ---------------------------------------------------------------------

INSTALLS = re.compile(
    r"(?:(?:\S*/)?python[\d.]*\s+-m\s+)?"
    r"(?:pip[\d.]*|conda|mamba|uv(?:\s+pip)?)\s+"
    r"(?:install|uninstall|download|add)\b")


def system(command):
    """os.system: the C library's ignores SIGINT while it waits, so a loop of
    calls would go on when the user stops it."""
    pid = None
    try:
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", os.fsencode(command)],
                             os.environ)
        return os.waitpid(pid, 0)[1]
    except KeyboardInterrupt:
        if pid is not None:
            end_command(pid)
        raise


def end_command(pid):
    """The group got the signal, but perhaps before this child was there, or
    one that the child has started since: it gets it again."""
    S.armed = False
    try:
        for _ in range(10):
            os.killpg(os.getpgrp(), signal.SIGINT)
            for _ in range(10):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return
                time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except OSError:
        pass
    finally:
        S.pending = False
        S.armed = True


def expand(text):
    """{name} and $name in a shell line, as notebooks have it; unknown ones
    stay."""
    def value(match):
        try:
            return safe_text(eval(match.group(1), S.namespace))
        except Exception:
            return match.group(0)

    def variable(match):
        name = match.group(1)
        return safe_text(S.namespace[name]) if name in S.namespace \
            and not name.startswith("_") else match.group(0)
    text = re.sub(r"\{([A-Za-z_][\w.\[\]'\"]*)\}", value, text)
    return re.sub(r"(?<![$\\])\$([A-Za-z_]\w*)", variable, text)


def run_script(command, capture=False, program="/bin/sh"):
    import subprocess
    flush_output()
    run = subprocess.run([program, "-c", command],
                         stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE if capture else None)
    if run.returncode:
        note("magic", "The command ended with status %d: %s"
             % (run.returncode, command[:200]))
    if capture:
        return run.stdout.decode("utf-8", "replace").splitlines()
    return None


def shell(command, capture=False):
    command = expand(command).strip()
    if is_install(command):
        return installs()
    return run_script(command, capture)


def is_install(command):
    """Whether it could only fail, and slowly."""
    return not S.online and INSTALLS.match(command)


def installs(_rest=None):
    there = [name for name in kernel.LIBRARIES if S.libraries.get(name)]
    note("pip", "Packages can't be installed from here: there is no network,"
         " by design. Available: %s, and Python's standard library."
         % (", ".join(there) or "no others"))


# Line magics ---------------------------------------------------------------

IGNORED = ("matplotlib", "config", "load_ext", "reload_ext", "unload_ext",
           "autoreload", "aimport", "precision", "colors", "xmode", "gui",
           "autosave", "autoindent", "automagic", "doctest_mode")
SHELL_COMMANDS = ("ls", "ll", "cat", "cp", "mv", "rm", "mkdir", "rmdir",
                  "head", "tail", "less", "more")


def duration(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return "%.3g %s" % (seconds / size, unit)
    return "%.3g ns" % (seconds / 1e-9)


def took(start):
    print("Wall time: " + duration(time.perf_counter() - start))


def time_line(rest):
    code, last = kernel.compile_cell(rest, "<time>")
    start = time.perf_counter()
    try:
        return kernel.run_code(code, last)
    finally:
        took(start)


def timeit_line(rest, body=None):
    """%timeit STATEMENT, or the body of %%timeit with a set-up line."""
    import timeit
    loops = repeats = None
    while True:
        match = re.match(r"\s*-([nrtcpqov])\s*(\d*)\s*", rest)
        if not match:
            break
        if match.group(2) and match.group(1) == "n":
            loops = int(match.group(2))
        elif match.group(2) and match.group(1) == "r":
            repeats = int(match.group(2))
        rest = rest[match.end():]
    timer = timeit.Timer(rest if body is None else body,
                         "pass" if body is None else rest or "pass",
                         globals=S.namespace)
    if not loops:
        loops = timer.autorange()[0]
    times = timer.repeat(max(repeats or 3, 1), max(loops, 1))
    print("%s per loop (best of %d, %d loop%s)" % (
        duration(min(times) / loops), len(times), loops,
        "" if loops == 1 else "s"))


def env_line(rest):
    """%env, %env NAME, %env NAME=VALUE, %env NAME VALUE."""
    rest = rest.strip()
    if not rest:
        return dict(os.environ)
    name, _, value = rest.partition("=") if "=" in rest \
        else rest.partition(" ")
    name, value = name.strip(), expand(value.strip())
    if not value and "=" not in rest:
        return os.environ.get(name)
    os.environ[name] = value
    print("env: %s=%s" % (name, value))
    return None


def run_line(rest):
    """%run FILE [ARGUMENT...], in the cells' own namespace."""
    import shlex
    words = shlex.split(expand(rest))
    while words and words[0] in ("-i", "-n", "-e"):
        words.pop(0)
    if not words:
        raise RuntimeError("%run needs the name of a file")
    path = words[0] if words[0].endswith(".py") else words[0] + ".py"
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), os.path.abspath(path), "exec", 0, True)
    old, sys.argv = sys.argv, words
    try:
        exec(code, S.namespace)
    finally:
        sys.argv = old


def who_line(_rest):
    names = [v["name"] for v in part("vars").list_vars()[0]]
    print("  ".join(names) or "There are no variables.")


def whos_line(_rest):
    found = part("vars").list_vars()[0]
    if not found:
        print("There are no variables.")
    for v in found:
        print("%-20s %-16s %s" % (v["name"], v["type"], v["size"]))


def reset_line(_rest):
    for name in part("vars").user_names():
        S.namespace.pop(name, None)


def pylab_line(_rest):
    exec("import numpy as np, matplotlib.pyplot as plt\n"
         "from pylab import *", S.namespace)


def pip_line(rest):
    if is_install("pip " + rest.strip()):
        return installs()
    return run_script("exec %s -m pip %s" % (sys.executable, expand(rest)))


def package_line(program):
    return lambda rest: shell(program + " " + rest) if S.online \
        else installs()


def lsmagic_line(_rest):
    print("  ".join("%" + name for name in sorted(LINES)))
    print("  ".join("%%" + name for name in sorted(CELLS)))


def change_directory(rest):
    os.chdir(os.path.expanduser(expand(rest).strip() or S.workspace))


LINES = {
    "time": time_line, "timeit": timeit_line, "pip": pip_line,
    "conda": package_line("conda"), "mamba": package_line("mamba"),
    "uv": package_line("uv"),
    "cd": change_directory, "pwd": lambda _rest: os.getcwd(),
    "env": env_line, "set_env": env_line, "run": run_line, "who": who_line,
    "who_ls": lambda _rest: [v["name"]
                             for v in part("vars").list_vars()[0]],
    "whos": whos_line, "reset": reset_line, "pylab": pylab_line,
    "lsmagic": lsmagic_line, "sx": lambda rest: shell(rest, True),
    "system": lambda rest: shell(rest, True)}
for command_name in SHELL_COMMANDS:
    LINES[command_name] = lambda rest, name=command_name: shell(
        name + " " + rest)


def magic(name, rest=""):
    """Runs a line that began with %."""
    if name in IGNORED:
        note("magic", "%%%s is ignored: it isn't needed here." % name)
        return None
    if name not in LINES:
        raise RuntimeError("the line magic %%%s isn't available here; write "
                           "it in plain Python" % name)
    return LINES[name](rest)


# Cell magics ---------------------------------------------------------------

def begin_timing(_rest):
    start = time.perf_counter()
    S.finish.append(lambda: took(start))


class Captured:
    """What %%capture NAME leaves in a variable."""

    def __init__(self, stdout, stderr):
        self.stdout, self.stderr = stdout, stderr
        self.outputs = []

    def __str__(self):
        return self.stdout

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)

    __call__ = show


def begin_capture(rest):
    """Only what Python prints: what commands print is shown."""
    import io
    out, err = io.StringIO(), io.StringIO()
    names = [word for word in rest.split() if not word.startswith("-")]
    if "--no-stdout" not in rest:
        sys.stdout = out
    if "--no-stderr" not in rest:
        sys.stderr = err
    S.mute = True

    def finish():
        sys.stdout, sys.stderr = S.streams[1], S.streams[2]
        S.mute = False
        if names:
            S.namespace[names[0]] = Captured(out.getvalue(), err.getvalue())
    S.finish.append(finish)


def bash_cell(_rest, body):
    program = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    if is_install(body.strip()):
        installs()
    else:
        run_script(body, program=program)


def write_cell(rest, body):
    words = rest.split()
    mode = "a" if "-a" in words or "--append" in words else "w"
    path = [word for word in words if not word.startswith("-")][-1:]
    if not path:
        raise RuntimeError("%%writefile needs the name of a file")
    with open(os.path.expanduser(path[0].strip("'\"")), mode,
              encoding="utf-8") as file:
        file.write(body if body.endswith("\n") else body + "\n")
    print("Written: " + path[0])


def timeit_cell(rest, body):
    timeit_line(rest, body)


# These run before the rest of the cell, which stays as it is.
BEFORE = {"time": begin_timing, "capture": begin_capture}
CELLS = {"bash": bash_cell, "sh": bash_cell, "script": bash_cell,
         "writefile": write_cell, "file": write_cell, "timeit": timeit_cell,
         "time": None, "capture": None}


def cell_magic(name, rest, body):
    """Runs a cell that began with %%."""
    if name in BEFORE:
        BEFORE[name](rest)
        code, last = kernel.compile_cell(body, "<%s>" % name)
        return kernel.run_code(code, last)
    if name not in CELLS:
        raise RuntimeError("the cell magic %%%%%s isn't available here; write "
                           "it in plain Python" % name)
    return CELLS[name](rest, body)


def show_help(name):
    """NAME? of notebooks: signature and documentation."""
    import inspect
    obj = eval(name, S.namespace)
    try:
        print(name + str(inspect.signature(obj)))
    except (TypeError, ValueError):
        print("%s: %s" % (name, type_name(obj)))
    text = inspect.getdoc(obj)
    if text:
        print(cut(text, 8000))


# Rewriting -----------------------------------------------------------------

MAGIC_LINE = re.compile(
    r"([ \t]*)([\w.,\[\]'\" \t]+=[ \t]*)?(%(?=[A-Za-z])|!)(?!=)([^\n]*)")
HELP_LINE = re.compile(
    r"([ \t]*)(?:\?{1,2}([A-Za-z_][\w.]*)|([A-Za-z_][\w.]*)\?{1,2})"
    r"[ \t]*(?=\n|\Z)")
# Blank lines and comments may come before a cell magic.
CELL_MAGIC = re.compile(r"((?:[ \t]*(?:#[^\n]*)?\n)*)[ \t]*%%([^\n]*)\n?")
# One step through a line: comment, string, bracket, continuation, line end.
SCAN = re.compile(
    r"#[^\n]*|(\"\"\"|'{3})(?:\\.|(?!\1).)*(?:\1|\Z)"
    r"|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?"
    r"|[\[({\])}]|\\\n|\n", re.S)


def rewrite_line(match):
    indent, target, sign, text = match.groups()
    if sign == "!":
        call = "__sandpiper__.system(%r, %r)" % (text.lstrip("!"),
                                                 bool(target))
    else:
        name, _, rest = text.strip().partition(" ")
        call = "__sandpiper__.run_line_magic(%r, %r)" % (name, rest)
    return indent + (target or "") + call


def rewrite_help(match):
    return "%s__sandpiper__.help(%r)" % (match.group(1),
                                         match.group(2) or match.group(3))


def rewrite(source):
    """Replaces notebook lines by calls, line for line. Only asked when the
    source is no Python as it stands, so a % inside brackets is safe twice."""
    first = CELL_MAGIC.match(source)
    if first:
        name, _, rest = first.group(2).strip().partition(" ")
        body = source[first.end():]
        if name not in BEFORE:
            return "%s__sandpiper__.run_cell_magic(%r, %r, %r)" % (
                first.group(1), name, rest, body)
        source = "%s__sandpiper__.begin(%r, %r)\n%s" % (
            first.group(1), name, rest, body)
    out = []
    at = depth = 0
    fresh = True
    while at < len(source):
        for pattern, change in ((MAGIC_LINE, rewrite_line),
                                (HELP_LINE, rewrite_help)):
            match = pattern.match(source, at) if fresh and not depth else None
            if match:
                out.append(change(match))
                at = match.end()
                break
        fresh = False
        step = SCAN.search(source, at)
        end = step.end() if step else len(source)
        out.append(source[at:end])
        at = end
        token = step.group() if step else ""
        if token and token in "[({":
            depth += 1
        elif token and token in "])}":
            depth = max(depth - 1, 0)
        fresh = token == "\n"
    return "".join(out)


def ignore(*_args, **_options):
    """For what means nothing here."""


class Events:
    """Nothing of a cell is announced to callbacks."""

    register = unregister = staticmethod(ignore)


class Shell:
    """What get_ipython() gives, and what rewritten lines call; known to cells
    as __sandpiper__ too."""

    ast_node_interactivity = "last_expr"

    def __init__(self):
        # Empty, so that libraries do not take this for a notebook.
        self.config = {}
        self.events = Events()

    @property
    def user_ns(self):
        return S.namespace

    def run_line_magic(self, name, rest="", *_args):
        return magic(name, rest)

    def run_cell_magic(self, name, rest="", body=""):
        return cell_magic(name, rest, body)

    def magic(self, text):
        name, _, rest = text.strip().lstrip("%").partition(" ")
        return magic(name, rest)

    def system(self, command, capture=False):
        return shell(command, capture)

    def getoutput(self, command, split=True):
        lines = shell(command, True) or []
        return lines if split else "\n".join(lines)

    def run_cell(self, source, *_args, **_options):
        code, last = kernel.compile_cell(source, "<run_cell>")
        value = kernel.run_code(code, last)
        if value is not None:
            kernel.show(value)

    def push(self, variables, **_options):
        S.namespace.update(variables)

    def begin(self, name, rest):
        BEFORE[name](rest)

    def help(self, name):
        show_help(name)

    enable_gui = enable_matplotlib = set_custom_exc = staticmethod(ignore)


SHELL = Shell()
