# SPDX-License-Identifier: GPL-3.0-or-later
"""The interpreter that runs cells inside the local sandbox.

Requests come in on descriptor 3 and events go out on descriptor 4, one JSON
object a line. What cells print is not part of that: it goes straight to
descriptors 1 and 2, where a mark before each event keeps the order.

Once the first cell has run, nothing here can be relied on by the client: the
cell shares this process. The care taken below is for honest accidents (a
repr that raises, a closed descriptor, an interrupt at the wrong moment).

Only the standard library; heavier modules are imported on first use, since
the time to "ready" is what a person waits for. For the same reason there is
a second half (local_kernel_tools.py) that is compiled after "ready".
"""
import _ast
import _queue
import _thread
import builtins
import json
import os
import re
import resource
import signal
import sys
import time
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import PathFinder

STARTED = time.monotonic()

# Functions made below look names up here: a cell that replaces builtins.len
# does not break the kernel.
__builtins__ = dict(vars(builtins))

VERSIONS = [1]
MIB = 1 << 20
MAX_PIXELS = 8000000
MAX_EVENT_BYTES = 30 * MIB
IDLE_SECONDS = 0.3
TABLE = "application/x-table.v1+json"
COROUTINE = 0x80
COMPILE_FLAGS = getattr(_ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0x2000)
LIMITS = {"text": 65536, "rows": 20, "cols": 50, "cell": 256,
          "png": 8 * MIB, "figures": 20, "events": 1000}
LIBRARIES = ("pandas", "numpy", "matplotlib", "scipy", "sklearn", "seaborn",
             "statsmodels", "polars", "pyarrow", "openpyxl", "PIL")
HERE = (lambda: 0).__code__.co_filename
TOOLS = HERE[:-3] + "_tools.py"
# Frames of these are cut from tracebacks.
FILES = (HERE, TOOLS)
# Held back while a line is written; faults must stay deliverable.
HELD = set(signal.valid_signals()) - {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGSYS, signal.SIGABRT, signal.SIGTRAP}

dumps = json.JSONEncoder(ensure_ascii=True, allow_nan=False,
                         separators=(",", ":")).encode
loads = json.loads
modules = sys.modules
pthread_sigmask = signal.pthread_sigmask
leave = os._exit


class State:
    """What the kernel knows; one instance, S."""

    def __init__(self):
        self.requests = _queue.SimpleQueue()
        self.answers = _queue.SimpleQueue()
        self.lock = _thread.RLock()
        self.main = _thread.get_ident()
        self.child = False
        # armed: SIGINT may raise. pending: one came while it might not.
        self.armed = self.pending = self.interrupted = False
        self.signal_time = 0.0
        self.in_cell = self.silent = False
        self.wake = self.n_marked = 0
        self.limits = dict(LIMITS)
        self.figure = {}
        self.nonce = ""
        self.mark = self.id = self.n = self.index = 0
        self.events = self.figures = self.sent_bytes = 0
        self.hidden = 0
        self.flooded = False
        self.steps = []
        self.sources = {}
        self.kept = {}
        self.spare = {}
        self.streams = {}
        self.fflush = self.loop = self.tools = None
        self.libraries = {}
        self.namespace = {}


S = State()


# Signals and events --------------------------------------------------------

def on_sigint(_signum, frame):
    S.signal_time = time.monotonic()
    # In the except clause of call_user the cell is over already, and a second
    # interrupt would escape from it.
    if frame is not None and frame.f_code is CALL_USER_CODE \
            and sys.exc_info()[0] is not None:
        S.pending = True
        return
    if S.armed:
        S.interrupted = True
        raise KeyboardInterrupt
    S.pending = S.in_cell


def call_user(function):
    """Calls function with SIGINT enabled; returns (value, exception)."""
    value = error = None
    try:
        S.armed = True
        if S.pending:
            S.pending = False
            S.interrupted = True
            raise KeyboardInterrupt
        value = function()
        S.armed = False
    except BaseException as caught:
        error = caught
        S.armed = False
    return value, error


CALL_USER_CODE = call_user.__code__


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os_write(fd, view):]


os_write = os.write


def flush_output():
    """Brings what is still in buffers of Python and C to the pipes."""
    for stream in {id(s): s for s in (S.streams.get(1), S.streams.get(2),
                                      sys.stdout, sys.stderr)}.values():
        try:
            stream.flush()
        except Exception:
            pass
    if S.fflush is None and "ctypes" in modules:
        try:
            S.fflush = modules["ctypes"].CDLL(None).fflush
        except Exception:
            S.fflush = False
    if S.fflush:
        S.fflush(None)


def write_event(event, mark):
    with S.lock:
        if mark:
            S.mark += 1
            event["m"] = S.mark
        try:
            line = dumps(event)
        except Exception:
            # json looks names up in the builtins a cell may have replaced.
            vars(builtins).update(__builtins__)
            line = dumps(event)
        if mark:
            flush_output()
            text = "\0\x1e%s:%d\x1e\0" % (S.nonce, S.mark)
            for fd in (1, 2):
                try:
                    write_all(S.spare[fd], text.encode())
                except OSError:
                    pass
        try:
            write_all(4, (line + "\n").encode("ascii"))
        except OSError:
            leave(1)
        S.sent_bytes += len(line)


def emit(event, mark=True):
    """Writes one event whole, whatever signals arrive meanwhile."""
    if S.child:
        return
    was_armed = False
    if _thread.get_ident() == S.main:
        was_armed = S.armed
        S.armed = False
    held = pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        write_event(event, mark)
    finally:
        try:
            pthread_sigmask(signal.SIG_SETMASK, held)
        finally:
            if was_armed:
                S.armed = True
    if was_armed and S.pending:
        S.pending = False
        S.interrupted = True
        raise KeyboardInterrupt


def admit(n_bytes=0):
    """Whether this cell may still send an event; says so once if not."""
    if not S.in_cell:
        return False
    S.events += 1
    if S.events <= max(S.limits["events"] - 8, 1) \
            and S.sent_bytes + n_bytes <= MAX_EVENT_BYTES:
        return True
    if not S.flooded:
        S.flooded = True
        emit({"ev": "note", "id": S.id, "kind": "limit", "text":
              "This cell shows too much; what follows is left out."})
    return False


def note(kind, text):
    if admit():
        emit({"ev": "note", "id": S.id, "kind": kind, "text": text})


def send(name, bundle, meta=None, source=None):
    """Sends a display or result and keeps its table under (cell, index)."""
    if not admit(sum(len(v) for v in bundle.values() if type(v) is str)):
        return
    event = {"ev": name, "id": S.id, "m": 0, "i": S.index, "n": S.n}
    if meta:
        event["meta"] = meta
    event["data"] = bundle
    if TABLE in bundle:
        load_tools().keep(S.n, S.index, source)
    S.index += 1
    emit(event)


# Text ----------------------------------------------------------------------

def reraise_interrupt(error):
    """A hostile repr may raise KeyboardInterrupt itself; a real one counts."""
    if isinstance(error, KeyboardInterrupt) and S.interrupted:
        raise error


def type_name(obj):
    return type.__dict__["__name__"].__get__(type(obj))


def safe_text(obj, function=str):
    try:
        return str.__str__(function(obj))
    except BaseException as error:
        reraise_interrupt(error)
        return "<%s object; its text failed with %s>" % (type_name(obj),
                                                        type_name(error))


def cut(text, limit):
    """Keeps head and tail of a text that is too long."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    head = max(limit - tail - 48, 0)
    return "%s\n… %d characters left out …\n%s" % (
        text[:head], len(text) - head - tail, text[len(text) - tail:])


def plain(obj):
    np = modules.get("numpy")
    kind = type(obj)
    if np is not None and hasattr(np, "generic") and issubclass(
            kind, np.generic) and not issubclass(kind, (str, bytes)):
        return safe_text(obj)
    text = safe_text(obj, repr)
    if kind in (dict, list, tuple, set) and 100 < len(text) < 20000:
        import pprint
        return safe_text(obj, lambda o: pprint.pformat(o, width=100,
                                                       sort_dicts=False))
    return text


# Display -------------------------------------------------------------------

def load_tools():
    """The second half, as a module. A build may put its source into a string
    SECOND_HALF before the first line of this half; else it is a file beside
    this one."""
    if S.tools is None:
        source = globals().get("SECOND_HALF")
        if source is None:
            with open(TOOLS, encoding="utf-8") as file:
                source = file.read()
        tools = type(sys)("sandpiper_tools")
        tools.__builtins__ = __builtins__
        exec(compile(source, TOOLS, "exec", 0, True), tools.__dict__)
        S.tools = tools
    return S.tools


# What the first half can show by itself.
SIMPLE = (int, float, complex, bool, str, bytes, list, tuple, dict, set)


def show(obj, name="display"):
    """Sends obj as a display or result event."""
    if type(obj) in SIMPLE:
        send(name, {"text/plain": cut(plain(obj), S.limits["text"])})
    else:
        load_tools().show(obj, name)


def save_table(cell, index, path):
    """Writes the whole table shown as output index of cell to path, as CSV."""
    load_tools().save_table(cell, index, path)


def display(*objects, **_options):
    """Shows objects at once: tables as tables, charts as charts."""
    for obj in objects:
        show(obj)


def show_figures(with_data=False):
    if "matplotlib.pyplot" in modules:
        load_tools().show_figures(with_data)


def is_drawing(value):
    return "matplotlib.artist" in modules and load_tools().is_drawing(value)


# Imports that are watched --------------------------------------------------

WATCHED = ("matplotlib.pyplot", "pandas", "getpass", "IPython.display")


class Watcher:
    """Calls a function of ours after the first import of some modules."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = None
        if name in WATCHED:
            spec = PathFinder.find_spec(name, path, target)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                load_tools().AFTER_IMPORT[name](module)
            except Exception:
                pass
        spec.loader.exec_module = exec_module
        return spec


class StandIn:
    """IPython.display where IPython is not installed; asked last."""

    names = ("IPython", "IPython.display", "IPython.core",
             "IPython.core.display")

    @classmethod
    def find_spec(cls, name, _path=None, _target=None):
        if name in cls.names:
            return ModuleSpec(name, cls, is_package=True)
        return None

    @staticmethod
    def create_module(_spec):
        return None

    @staticmethod
    def exec_module(module):
        module.get_ipython = lambda: None
        if module.__name__.endswith("display"):
            load_tools().fill_display(module)


def refuse(name):
    def refused(*_args, **_options):
        raise RuntimeError(
            name + " isn't available here: nobody is at the keyboard. Put the"
            " value in a variable instead.")
    return refused


def system(command):
    """os.system: the C library's ignores SIGINT while it waits, so a loop of
    calls would go on when the user stops it."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", os.fsencode(command)],
                         os.environ)
    try:
        return os.waitpid(pid, 0)[1]
    except KeyboardInterrupt:
        # The group got the signal, but perhaps before this child was there.
        try:
            os.kill(pid, signal.SIGINT)
            os.waitpid(pid, 0)
        except OSError:
            pass
        raise


def end_cell(code=None):
    """exit() and quit(): site's own would close sys.stdin."""
    raise SystemExit(code)


# Running a cell ------------------------------------------------------------

def ends_in_semicolon(source, node):
    """What follows the last expression is brackets, comments and maybe `;`."""
    lines = source.split("\n")[node.end_lineno - 1:]
    if not lines:
        return False
    lines[0] = lines[0].encode("utf-8", "replace")[
        node.end_col_offset:].decode("utf-8", "replace")
    return any(";" in line.partition("#")[0] for line in lines)


def took(start):
    print("Wall time: %.3g s" % (time.perf_counter() - start))


def parse(source, filename):
    return compile(source, filename, "exec",
                   _ast.PyCF_ONLY_AST | COMPILE_FLAGS, True)


def compile_cell(source, filename):
    """Code of the statements, and of the last expression if it is shown."""
    source = source.replace("\r\n", "\n")
    try:
        tree = parse(source, filename)
    except SyntaxError:
        changed = load_tools().rewrite(source)
        S.namespace["__sandpiper__"] = load_tools().Helpers
        if changed == source:
            raise
        source = changed
        tree = parse(source, filename)
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        node = tree.body[-1]
        if not ends_in_semicolon(source, node):
            tree.body.pop()
            last = compile(_ast.Expression(node.value), filename, "eval",
                           COMPILE_FLAGS, True)
    code = compile(tree, filename, "exec", COMPILE_FLAGS, True)
    return code, last


def run_async(coroutine):
    import asyncio
    if S.loop is None or S.loop.is_closed():
        S.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(S.loop)
    task = S.loop.create_task(coroutine)
    try:
        return S.loop.run_until_complete(task)
    except (KeyboardInterrupt, SystemExit):
        # What the cell was waiting for must not go on in the next one. An
        # interrupt inside asyncio may have lost the task: no endless wait.
        loop, S.loop = S.loop, None
        if not task.done():
            task.cancel()
            loop.run_until_complete(asyncio.wait([task], timeout=0.5))
        S.loop = loop if task.done() else None
        raise


def run_code(code, last):
    value = None
    for part in (code, last):
        if part is not None:
            value = eval(part, S.namespace)
            if part.co_flags & COROUTINE:
                value = run_async(value)
    return value


def run_cell(source, filename):
    """The part of a cell that an interrupt may end at any point."""
    code, last = compile_cell(source, filename)
    S.timed = None
    try:
        value = run_code(code, last)
    finally:
        if S.timed is not None:
            took(S.timed)
    if last is not None and value is not None and not S.silent:
        S.namespace["_"] = value
        if not is_drawing(value):
            show(value, "result")
    if not S.silent:
        show_figures()


# One request ---------------------------------------------------------------

def same_file(a, b):
    try:
        a, b = os.fstat(a), os.fstat(b)
    except OSError:
        return False
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def restore_process():
    """Undoes what would keep the next cell from working or being seen."""
    pthread_sigmask(signal.SIG_SETMASK, S.base_mask)
    if signal.getsignal(signal.SIGINT) is not on_sigint:
        signal.signal(signal.SIGINT, on_sigint)
    for fd, spare in S.spare.items():
        if not same_file(fd, spare):
            os.dup2(spare, fd)
    for fd in (1, 2):
        if S.streams[fd] is None or S.streams[fd].closed:
            S.streams[fd] = open(fd, "w", buffering=1, encoding="utf-8",
                                 errors="backslashreplace", closefd=False)
    sys.stdout, sys.stderr = S.streams[1], S.streams[2]


def finish_cell(error):
    """Status and error of the cell that ended with this exception."""
    if error is None:
        return "ok", None
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
        note("exit", "exit() ended the cell; the interpreter keeps running.")
        return "ok", None
    stop = isinstance(error, KeyboardInterrupt)
    if not S.interrupted and not stop and not S.silent:
        call_user(lambda: show_figures(with_data=True))
    described = None
    # Its __str__ may be what was interrupted: not called again then.
    if stop or not S.interrupted:
        described = call_user(lambda: load_tools().describe_error(error))[0]
    if described is None:
        described = {"name": type_name(error)[:256], "value": "",
                     "traceback": ""}
    return ("interrupted" if stop or S.interrupted else "error"), described


def forget_half_imports(known):
    """An import that was broken off leaves the parts of a package that were
    done. Python would take them for the next import as they are, and build a
    package that lacks them."""
    for name in set(modules) - known:
        parents = name.split(".")[:-1]
        if any(".".join(parents[:n + 1]) not in modules
               for n in range(len(parents))):
            modules.pop(name, None)


def remember_source(linecache, name, source):
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)


def may_begin():
    """Asks the client, who may have given the cell up meanwhile. It answers
    every cell once, and need not wait for the question."""
    emit({"ev": "begin", "id": S.id}, mark=False)
    while True:
        request_id, go = S.answers.get()
        if request_id == S.id:
            return go


def mark_signals():
    """What watch_signals reads from here on is of another cell. A cell may
    have closed the pipe, and have a file of its own in its place."""
    try:
        if os.path.samestat(os.fstat(S.wake), S.wake_stat):
            os.write(S.wake, b"\0")
            S.n_marked += 1
    except OSError:
        pass


def op_exec(request):
    start = time.monotonic()
    S.pending = False
    mark_signals()
    S.id = request.get("id")
    # From here on an interrupt counts.
    S.in_cell = True
    if not may_begin():
        S.in_cell = False
        return
    S.silent = bool(request.get("silent"))
    cell = request.get("cell")
    S.n = cell if type(cell) is int else S.n + 1
    S.index = S.events = S.figures = S.hidden = S.sent_bytes = 0
    S.flooded = S.interrupted = False
    source = str(request.get("code", ""))
    filename = "<cell %d>" % S.n
    # At most 500 sources: tracebacks reach back only so far.
    S.sources.pop(filename, None)
    S.sources[filename] = source
    if len(S.sources) > 500:
        S.sources.pop(next(iter(S.sources)))
    if "linecache" in modules:
        remember_source(modules["linecache"], filename, source)
    known = set(modules)
    _, error = call_user(lambda: run_cell(source, filename))
    if S.child:
        leave(0 if error is None else 1)
    if error is not None or S.interrupted:
        forget_half_imports(known)
    restore_process()
    status, described = finish_cell(error)
    del error
    if "matplotlib.pyplot" in modules:
        call_user(lambda: load_tools().close_figure("all"))
    # finish_cell ran code of the cell's (a __str__) as well.
    restore_process()
    if S.hidden:
        load_tools().note_hidden()
    done = {"ev": "done", "id": S.id, "m": 0, "status": status, "n": S.n,
            "ms": int((time.monotonic() - start) * 1000)}
    if described:
        done["error"] = described
    usage = resource.getrusage(resource.RUSAGE_SELF)
    done["mem"] = usage.ru_maxrss * 1024
    S.in_cell = False
    emit(done)


def op_init(request):
    if request.get("v") not in VERSIONS:
        fatal("protocol version %r is not spoken here" % (request.get("v"),))
    S.nonce = str(request.get("nonce", ""))
    limits = request.get("limits") or {}
    for name in LIMITS:
        if type(limits.get(name)) is int and limits[name] > 0:
            S.limits[name] = limits[name]
    if type(limits.get("nproc")) is int:
        limit_processes(limits["nproc"])
    if isinstance(request.get("figure"), dict):
        S.figure = request["figure"]
    plan_preload(request.get("preload") or [], bool(request.get("tty")))


def limit_processes(n):
    """Set in here and not by the client: the count is per user namespace."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard != resource.RLIM_INFINITY:
        n = min(n, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (n, n))


OPS = {"init": op_init, "exec": op_exec, "exit": lambda _request: leave(0)}


# Preload -------------------------------------------------------------------

def plan_preload(names, tty):
    """Steps (function, seconds without a request before it). Importing pyplot
    is long and cannot be broken off, so it waits for a quiet moment."""
    steps = []
    quiet = 0 if tty else IDLE_SECONDS
    for name in sorted(names, key=lambda n: str(n).startswith("matplotlib")):
        wait = quiet if str(name).startswith("matplotlib") else 0
        steps.append((lambda name=name: __import__(name), wait))
    if "matplotlib.pyplot" in names:
        steps.append((lambda: load_tools().warm_figure(), 0))
    if "pandas" in names:
        steps.append((lambda: load_tools().warm_frame(), 0))
    S.steps = S.steps + steps


def run_quietly(step):
    """Runs a preload step; what it prints belongs to no cell."""
    null = os.open("/dev/null", os.O_WRONLY)
    try:
        os.dup2(null, 1)
        os.dup2(null, 2)
        step()
    except BaseException:
        pass
    finally:
        flush_output()
        os.close(null)
        restore_process()


def next_request():
    """The next line of the client; preloads while there is none."""
    while S.steps:
        step, wait = S.steps[0]
        try:
            return S.requests.get(wait > 0, wait or None)
        except _queue.Empty:
            S.steps.pop(0)
            run_quietly(step)
    return S.requests.get()


# Start ---------------------------------------------------------------------

ANSWER = re.compile(
    rb'\{"op": ?"(go|drop)", ?"id": ?([0-9]{1,18})\}').fullmatch


def read_requests(read=os.read, put=S.requests.put, end=leave,
                  put_answer=S.answers.put, answer=ANSWER, number=int):
    """The only reader of descriptor 3, in a thread of its own: when the
    client is gone the process ends at once, also while a cell runs. Names
    are bound early, out of the reach of cells."""
    rest = b""
    while True:
        try:
            data = read(3, 1 << 16)
        except OSError:
            data = b""
        if not data:
            end(0)
        parts = (rest + data).split(b"\n") if b"\n" in data else None
        if parts is None:
            rest += data
            continue
        rest = parts.pop()
        for line in parts:
            found = answer(line)
            if found is None:
                put(line)
            else:
                put_answer((number(found[2]), found[1] == b"go"))


def watch_signals(fd, read=os.read, sleep=time.sleep, now=time.monotonic,
                  getsignal=signal.getsignal, again=signal.pthread_kill):
    """Python runs a handler between two instructions. When SIGINT comes after
    the last look and just before a call that waits, as time.sleep does, it is
    noticed only when the call returns; a second one breaks it off. That must
    not reach the cell behind the one that was meant."""
    n_marks = 0
    while True:
        try:
            data = read(fd, 64)
        except OSError:
            data = b""
        # A cell has closed one end of the pipe.
        if not data:
            return
        n_marks += data.count(0)
        if signal.SIGINT in data.rpartition(b"\0")[2]:
            came = now() - 0.005
            sleep(0.05)
            if S.in_cell and S.n_marked == n_marks and S.signal_time < came \
                    and getsignal(signal.SIGINT) is on_sigint:
                again(S.main, signal.SIGINT)


def fatal(text):
    emit({"ev": "fatal", "text": text}, mark=False)
    leave(1)


def after_fork_in_child():
    """Children must not hold the client's pipes, nor go on as the kernel."""
    S.child = True
    signal.set_wakeup_fd(-1)
    for fd in (3, 4):
        try:
            os.close(fd)
        except OSError:
            pass


def protect_process():
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
    # The client forbids core dumps by a limit of 1; where the hard limit was
    # 0 already, a core_pattern that is a pipe is only stopped this way.
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        try:
            import ctypes
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        except Exception:
            pass


def find_libraries():
    """Versions by the names of the metadata directories: importlib.metadata
    would take longer than everything else here together."""
    wanted = {name.lower(): name for name in LIBRARIES}
    wanted.update({"scikit_learn": "sklearn", "pillow": "PIL"})
    found = dict.fromkeys(LIBRARIES)
    for path in sys.path:
        try:
            entries = os.listdir(path)
        except OSError:
            continue
        for entry in entries:
            if entry.endswith((".dist-info", ".egg-info")):
                name, _, version = entry.rpartition(".")[0].partition("-")
                name = wanted.get(name.lower().replace("-", "_"))
                if name and found[name] is None:
                    found[name] = version.partition("-")[0]
    return found


def prepare_cells():
    """The module __main__ of the cells, and the builtins they get."""
    S.kernel = modules["__main__"]
    user = type(sys)("__main__")
    user.__builtins__ = builtins
    modules["__main__"] = user
    S.namespace = user.__dict__
    tools = type(sys)("sandpiper", "Tools of the sandpiper kernel.")
    tools.save_table = save_table
    modules["sandpiper_kernel"] = S.kernel
    modules["sandpiper"] = tools
    builtins.display = display
    builtins.input = refuse("input()")
    builtins.exit = builtins.quit = end_cell
    sys.breakpointhook = refuse("breakpoint()")
    os.system = system
    sys.argv = [""]
    sys.path.append("/workspace")
    sys.meta_path.insert(0, Watcher)
    sys.meta_path.append(StandIn)
    os.environ.setdefault("MPLBACKEND", "agg")


def prepare_descriptors():
    import fcntl
    for fd in (3, 4):
        os.set_inheritable(fd, False)
    # Spares: a cell may close 0 to 2, or let them point elsewhere.
    for fd in (0, 1, 2):
        S.spare[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    for fd, stream in ((1, sys.stdout), (2, sys.stderr)):
        S.streams[fd] = stream
        if stream is not None:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace",
                               line_buffering=True)
    os.register_at_fork(after_in_child=after_fork_in_child)


def start_threads():
    """With all signals blocked there, they reach the main thread, whose
    waiting they must break off."""
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    S.wake, S.wake_stat = wake, os.fstat(wake)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    S.base_mask = pthread_sigmask(signal.SIG_BLOCK, HELD)
    _thread.stack_size(1 << 18)
    _thread.start_new_thread(read_requests, ())
    _thread.start_new_thread(watch_signals, (waking,))
    _thread.stack_size(0)
    pthread_sigmask(signal.SIG_SETMASK, S.base_mask)


def handle(line):
    try:
        request = loads(line)
        operation = OPS.get(request.get("op"))
    except Exception:
        return
    if operation is None:
        return
    try:
        operation(request)
    except BaseException as error:
        if not S.in_cell:
            return
        S.in_cell = S.armed = False
        emit({"ev": "done", "id": S.id, "m": 0, "status": "error", "n": S.n,
              "ms": 0, "mem": 0, "error": {
                  "name": "KernelError", "value": cut(safe_text(error), 4096),
                  "traceback": ""}})


def main():
    signal.signal(signal.SIGINT, on_sigint)
    protect_process()
    prepare_descriptors()
    start_threads()
    if sys.version_info < (3, 8):
        fatal("Python %s is too old: 3.8 or newer is needed"
              % sys.version.split()[0])
    S.libraries = find_libraries()
    prepare_cells()
    S.steps = [(load_tools, 0)]
    restore_process()
    emit({"ev": "ready", "v": VERSIONS, "python": sys.version.split()[0],
          "modules": S.libraries,
          "ms": round((time.monotonic() - STARTED) * 1000, 1)}, mark=False)
    while True:
        handle(next_request())


if __name__ == "__main__":
    main()
