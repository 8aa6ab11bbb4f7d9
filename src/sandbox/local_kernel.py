# SPDX-License-Identifier: GPL-3.0-or-later
"""The interpreter that runs cells inside the local sandbox.

Requests come in on descriptor 3 and events go out on descriptor 4, one JSON
object a line. What cells print is not part of that: it goes straight to
descriptors 1 and 2, where a mark before each event keeps the order.

Once the first cell has run, nothing here can be relied on by the client: the
cell shares this process. The care taken below is for honest accidents (a
repr that raises, a closed descriptor, an interrupt at the wrong moment).

Only the standard library; heavier modules are imported on first use, since
the time to "ready" is what a person waits for. For the same reason there are
other parts (local_kernel_*.py) that are compiled after "ready"; see part().
"""
import _ast
import _signal
import _thread
import builtins
import json
import os
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
TABLE = "application/x-table.v1+json"
COROUTINE = 0x80
COMPILE_FLAGS = getattr(_ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0x2000)
LIMITS = {"text": 65536, "rows": 20, "cols": 50, "cell": 256,
          "png": 8 * MIB, "figures": 20, "events": 1000}
LIBRARIES = ("pandas", "numpy", "matplotlib", "scipy", "sklearn", "seaborn",
             "statsmodels", "polars", "pyarrow", "openpyxl", "PIL", "plotly",
             "cloudpickle")
HERE = (lambda: 0).__code__.co_filename
# In the order in which they are loaded while there is nothing else to do.
PARTS = ("show", "errors", "display", "notebook", "vars", "script")
# Held back while a line is written; faults must stay deliverable.
HELD = set(signal.valid_signals()) - {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGSYS, signal.SIGABRT, signal.SIGTRAP}

dumps = json.JSONEncoder(ensure_ascii=True, allow_nan=False,
                         separators=(",", ":")).encode
loads = json.loads
modules = sys.modules
# Those of the module signal make objects of numbers, 60 for a mask.
pthread_sigmask = _signal.pthread_sigmask
getsignal = _signal.getsignal
leave = os._exit


class State:
    """What the kernel knows; one instance, S."""

    def __init__(self):
        self.requests = None
        self.lock = _thread.RLock()
        self.main = _thread.get_ident()
        self.child = False
        # armed: SIGINT may raise. pending: one came while it might not.
        self.armed = self.pending = self.interrupted = False
        self.signal_time = 0.0
        self.in_cell = self.silent = self.mute = self.online = False
        self.waking = -1
        self.n_begun = 0
        self.limits = dict(LIMITS)
        self.figure = {}
        self.nonce = ""
        self.mark = self.id = self.n = self.index = 0
        self.events = self.figures = self.sent_bytes = 0
        self.hidden = 0
        self.flooded = False
        self.steps = []
        self.finish = []
        self.sources = {}
        self.kept = {}
        self.saved = {}
        self.known = set()
        self.drawn = set()
        self.drawn_as_file = set()
        self.spare = {}
        self.files = {}
        self.streams = {}
        self.fflush = self.loop = None
        self.parts = {}
        self.libraries = {}
        self.paths = ()
        self.workspace = ""
        self.namespace, self.theirs = {}, {}


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


def is_like(value, original):
    """Whether it can stand where the original does: a cell may have a print
    of its own, or a class in place of int."""
    if isinstance(original, type):
        return isinstance(value, type)
    return callable(value) or not callable(original)


def with_builtins(function, *args):
    """Calls function while builtins are as at the start: the standard library
    looks names up there, which a cell may have deleted or replaced. What
    cannot stand for the original does not come back."""
    current = vars(builtins)
    kept = {name: current[name] for name, original in __builtins__.items()
            if name in current and current[name] is not original
            and is_like(current[name], original)}
    current.update(__builtins__)
    try:
        return function(*args)
    finally:
        current.update(kept)


def write_event(event, mark):
    with S.lock:
        if mark:
            S.mark += 1
            event["m"] = S.mark
        try:
            line = dumps(event)
        except Exception:
            line = with_builtins(dumps, event)
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
    if not S.in_cell or S.mute:
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
        part("show").keep(S.n, S.index, source)
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
    return "%s\n… %s characters left out …\n%s" % (
        text[:head], format(len(text) - head - tail, ","),
        text[len(text) - tail:])


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

def part(name):
    """Another part of the kernel, as a module. A build may put its source into
    a string PART_NAME before the first line of this one; else it is a file
    beside this one."""
    module = S.parts.get(name)
    if module is None:
        path = "%s_%s.py" % (HERE[:-3], name)
        source = globals().get("PART_" + name.upper())
        if source is None:
            with open(path, encoding="utf-8") as file:
                source = file.read()
        module = type(sys)("sandpiper_" + name)
        module.__builtins__ = __builtins__
        with_builtins(exec, compile(source, path, "exec", 0, True),
                      module.__dict__)
        S.parts[name] = module
    return module


# What can be shown without the part for it.
SIMPLE = (int, float, complex, bool, str, bytes, list, tuple, dict, set)


def show(obj, name="display"):
    """Sends obj as a display or result event."""
    if type(obj) in SIMPLE:
        send(name, {"text/plain": cut(plain(obj), S.limits["text"])})
    else:
        part("show").show(obj, name)


def save_table(cell, index, path):
    """Writes the whole table shown as output index of cell to path, as CSV.
    Paths here are relative to the workspace."""
    part("show").save_table(cell, index, os.path.join(S.workspace, path))


def display(*objects, **options):
    """Shows objects at once: tables as tables, charts as charts. A path of a
    file in the workspace offers the file."""
    if not options and len(objects) == 1 and type(objects[0]) in SIMPLE \
            and type(objects[0]) is not str:
        return show(objects[0])
    return part("display").display(*objects, **options)


def show_figures(with_data=False):
    if "matplotlib.pyplot" in modules:
        part("show").show_figures(with_data)


def close_figures():
    """Whether there may have been any."""
    return "matplotlib.pyplot" in modules \
        and call_user(lambda: part("show").close_figures())[0] is not False


def is_drawing(value):
    return "matplotlib.artist" in modules and part("show").is_drawing(value)


# Imports that are watched --------------------------------------------------

# Module: the part whose AFTER_IMPORT has a function for it.
WATCHED = {"matplotlib": "show", "matplotlib.pyplot": "show", "pandas": "show",
           "plotly.basedatatypes": "show", "plotly.io": "show",
           "getpass": "display", "pdb": "display", "IPython": "display",
           "IPython.display": "display", "IPython.core.display": "display",
           "asyncio": "notebook", "multiprocessing.context": "display"}


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
                part(WATCHED[name]).AFTER_IMPORT[name](module)
            except Exception:
                pass
        spec.loader.exec_module = exec_module
        return spec


class StandIn:
    """Modules of notebooks where they are not installed; asked last."""

    names = ("IPython", "IPython.display", "IPython.core",
             "IPython.core.display", "IPython.core.display_functions",
             "IPython.core.getipython", "IPython.core.interactiveshell",
             "IPython.core.pylabtools", "nest_asyncio")

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
        part("display").fill_module(module)


def refuse(name, instead="Put the value in a variable instead."):
    def refused(*_args, **_options):
        raise RuntimeError(name + " isn't available here: nobody is at the "
                           "keyboard. " + instead)
    return refused


def system(command):
    return part("notebook").system(command)


def get_ipython():
    """What notebooks have: an object that runs magics."""
    return part("notebook").SHELL


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


def parse(source, filename):
    return compile(source, filename, "exec",
                   _ast.PyCF_ONLY_AST | COMPILE_FLAGS, True)


def compile_cell(source, filename):
    """Code of the statements, and of the last expression if it is shown."""
    source = source.replace("\r\n", "\n")
    try:
        tree = parse(source, filename)
    except SyntaxError:
        changed = part("notebook").rewrite(source)
        S.namespace["__sandpiper__"] = part("notebook").SHELL
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


def run_code(code, last):
    steps = [step for step in (code, last) if step is not None]
    if any(step.co_flags & COROUTINE for step in steps):
        return part("notebook").run_async(steps)
    value = None
    for step in steps:
        value = eval(step, S.namespace)
    return value


def run_cell(source, filename):
    """The part of a cell that an interrupt may end at any point."""
    code, last = compile_cell(source, filename)
    S.finish = []
    try:
        value = run_code(code, last)
    finally:
        hidden = S.mute
        for finish in S.finish:
            finish()
    if hidden:
        return
    if last is not None and value is not None and not S.silent:
        S.namespace["_"] = value
        if not is_drawing(value):
            show(value, "result")
    if not S.silent:
        show_figures()


# One request ---------------------------------------------------------------

def file_of(fd):
    """What tells whether a descriptor still is the file that it was."""
    try:
        found = fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


fstat = os.fstat


def restore_process():
    """Undoes what would keep the next cell from working or being seen."""
    pthread_sigmask(signal.SIG_SETMASK, S.base_mask)
    if getsignal(signal.SIGINT) is not on_sigint:
        signal.signal(signal.SIGINT, on_sigint)
    for fd, spare in S.spare.items():
        if file_of(fd) != S.files[fd]:
            os.dup2(spare, fd)
    for fd in (1, 2):
        if S.streams[fd] is None or S.streams[fd].closed:
            S.streams[fd] = open(fd, "w", buffering=1, encoding="utf-8",
                                 errors="backslashreplace", closefd=False)
    sys.stdout, sys.stderr = S.streams[1], S.streams[2]


def finish_cell(error):
    """Status and error of the cell that ended with this exception. One that
    was interrupted and went on, as in "except: pass", has no error, and what
    it has done may lack a part all the same."""
    if error is None:
        return ("interrupted" if S.interrupted else "ok"), None
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
        note("exit", "exit() ended the cell; the interpreter keeps running. "
             "To leave a cell early, use if or a function's return.")
        return ("interrupted" if S.interrupted else "ok"), None
    stop = isinstance(error, KeyboardInterrupt)
    if not S.interrupted and not stop and not S.silent:
        call_user(lambda: show_figures(with_data=True))
    described = None
    # Its __str__ may be what was interrupted: not called again then.
    if stop or not S.interrupted:
        described = call_user(
            lambda: part("errors").describe_error(error))[0]
    if described is None:
        described = {"name": type_name(error)[:256], "value": "",
                     "traceback": ""}
    return ("interrupted" if stop or S.interrupted else "error"), described


def forget_half_imports():
    """An import that was broken off leaves the parts of a package that were
    done. Python would take them for the next import as they are, and build a
    package that lacks them."""
    for name in set(modules) - S.known:
        parents = name.split(".")[:-1]
        if any(".".join(parents[:n + 1]) not in modules
               for n in range(len(parents))):
            modules.pop(name, None)


def remember_source(linecache, name, source):
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)


def forget_signals():
    """What watch_signals reads from here on is of another cell; in this order,
    see there. A cell may have closed the pipe, and have a file of its own in
    its place."""
    try:
        if file_of(S.waking) == S.files["waking"]:
            os_read(S.waking, 4096)
    except OSError:
        pass
    S.n_begun += 1


os_read = os.read


def begin_request(request):
    """From here on an interrupt counts."""
    S.pending = S.interrupted = False
    forget_signals()
    S.id = request.get("id")
    S.mute = False
    S.in_cell = True


def begin_cell(request):
    """Numbers the cell and keeps its source; returns source and name."""
    S.silent = bool(request.get("silent"))
    cell = request.get("cell")
    S.n = cell if type(cell) is int else S.n + 1
    S.index = S.events = S.figures = S.hidden = S.sent_bytes = 0
    S.flooded = False
    S.saved.clear()
    S.drawn.clear()
    S.drawn_as_file.clear()
    source = str(request.get("code", ""))
    filename = "<cell %d>" % S.n
    # At most 500 sources: tracebacks reach back only so far.
    S.sources.pop(filename, None)
    S.sources[filename] = source
    if len(S.sources) > 500:
        S.sources.pop(next(iter(S.sources)))
    if "linecache" in modules:
        remember_source(modules["linecache"], filename, source)
    return source, filename


def op_exec(request):
    start = time.monotonic()
    begin_request(request)
    if not S.requests.may_begin(S.id):
        S.in_cell = False
        return
    emit({"ev": "begin", "id": S.id}, mark=False)
    if len(S.known) != len(modules):
        S.known = set(modules)
    source, filename = begin_cell(request)
    _, error = call_user(lambda: run_cell(source, filename))
    if S.child:
        flush_output()
        leave(0 if error is None else 1)
    S.mute = False
    if error is not None or S.interrupted:
        forget_half_imports()
    restore_process()
    status, described = finish_cell(error)
    # The first runs code of the cell's (a __str__), the second may.
    if error is not None or close_figures():
        restore_process()
    del error
    if S.hidden:
        part("show").note_hidden()
    done = {"ev": "done", "id": S.id, "m": 0, "status": status, "n": S.n,
            "ms": int((time.monotonic() - start) * 1000)}
    if described:
        done["error"] = described
    usage = resource.getrusage(resource.RUSAGE_SELF)
    done["mem"] = usage.ru_maxrss * 1024
    S.in_cell = False
    emit(done)


def op_state(request):
    """vars, snapshot and restore: one answer each, whatever happens."""
    begin_request(request)
    S.mute = True
    answer = part("vars").answer(request)
    restore_process()
    S.in_cell = False
    emit(dict({"ev": request["op"], "id": S.id}, **answer), mark=False)


def fatal(text):
    emit({"ev": "fatal", "text": text}, mark=False)
    leave(1)


def op_init(request):
    if request.get("v") not in VERSIONS:
        fatal("protocol version %r is not spoken here" % (request.get("v"),))
    S.nonce, S.online = str(request.get("nonce", "")), "online" in request
    limits = request.get("limits") or {}
    for name in LIMITS:
        if type(limits.get(name)) is int and limits[name] > 0:
            S.limits[name] = limits[name]
    if type(limits.get("nproc")) is int:
        part("start").limit_processes(limits["nproc"])
    if type(request.get("ticket")) is int:
        S.requests.take_tickets(request["ticket"])
    if isinstance(request.get("figure"), dict):
        S.figure = request["figure"]
    part("start").plan_preload(request.get("preload") or [],
                               bool(request.get("tty")))


def op_ping(request):
    emit({"ev": "pong", "id": request.get("id")}, mark=False)


OPS = {"init": op_init, "exec": op_exec, "exit": lambda _request: leave(0),
       "vars": op_state, "snapshot": op_state, "restore": op_state,
       "ping": op_ping, "script": lambda r: part("script").op_script(r)}


# Preload -------------------------------------------------------------------

def run_quietly(step):
    """Runs a preload step, unless cells hold all descriptors that there may be;
    what it prints belongs to no cell."""
    null = -1
    try:
        null = os.open("/dev/null", os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        step()
    except BaseException:
        pass
    finally:
        flush_output()
        if null >= 0:
            os.close(null)
        restore_process()


def next_request():
    """The next line of the client; preloads while there is none."""
    while S.steps:
        step, wait = S.steps[0]
        line = S.requests.take(wait)
        if line is not None:
            return line
        S.steps.pop(0)
        run_quietly(step)
    return S.requests.take()


# Main loop -----------------------------------------------------------------

def handle(line):
    try:
        request = loads(line)
    except Exception:
        try:
            request = with_builtins(loads, line)
        except Exception:
            return
    operation = type(request) is dict and OPS.get(str(request.get("op")))
    if not operation:
        return
    try:
        operation(request)
    except BaseException as error:
        if not S.in_cell:
            return
        S.in_cell = S.armed = S.mute = False
        emit({"ev": "done", "id": S.id, "m": 0, "status": "error", "n": S.n,
              "ms": 0, "mem": 0, "error": {
                  "name": "KernelError", "value": cut(safe_text(error), 4096),
                  "traceback": ""}})


def main():
    signal.signal(signal.SIGINT, on_sigint)
    modules["sandpiper_kernel"] = modules["__main__"]
    if sys.version_info < (3, 8):
        fatal("Python %s is too old: 3.8 or newer is needed"
              % sys.version.split()[0])
    part("start").run()
    S.steps = [(lambda name=name: part(name), 0) for name in PARTS]
    restore_process()
    emit({"ev": "ready", "v": VERSIONS, "python": sys.version.split()[0],
          "modules": S.libraries,
          "ms": round((time.monotonic() - STARTED) * 1000, 1)}, mark=False)
    while True:
        try:
            while True:
                handle(next_request())
        except BaseException:
            pass  # a cell's own handler of a signal; there is nobody to tell


if __name__ == "__main__":
    main()
