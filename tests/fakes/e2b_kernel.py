# SPDX-License-Identifier: GPL-3.0-or-later
"""The process in which the cells of one Python context run.

Requests are lines of JSON on standard input, {"code": "..."}, with "silent"
when neither output nor count is wanted.  Events go to the descriptor
that is the argument, in the form in which the interpreter's /execute sends
them; the last one of a cell is {"type": "done"}.  What children of a cell write to descriptors 1 and 2 is
output of the cell, too."""

import ast
import base64
import builtins
import datetime
import io
import json
import linecache
import math
import os
import signal
import sys
import threading
import time
import traceback
import types

MAX_TEXT = 1 << 16
FLUSH_S = 0.05
KEYS = {"text/plain": "text", "text/html": "html", "text/markdown":
        "markdown", "image/svg+xml": "svg", "text/latex": "latex",
        "application/javascript": "javascript", "image/png": "png",
        "image/jpeg": "jpeg", "application/pdf": "pdf",
        "application/json": "json", "e2b/data": "data", "e2b/chart": "chart"}
METHODS = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_",
           "image/svg+xml": "_repr_svg_", "text/latex": "_repr_latex_",
           "application/javascript": "_repr_javascript_",
           "image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_",
           "application/pdf": "_repr_pdf_",
           "application/json": "_repr_json_"}
RULE = "-" * 75


def finite(value, null):
    """JSON never has NaN here: it is a word, or null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if null else str(value)
    if isinstance(value, dict):
        return {str(k): finite(v, null) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v, null) for v in value]
    return value


class Lock:
    """A lock that an interrupt cannot leave taken. Of the kernel's own
    threads only the main one gets interrupts, and not while it holds this."""

    def __init__(self):
        self.lock = threading.RLock()
        self.masks = []

    def __enter__(self):
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.lock.acquire()
        self.masks.append(mask)

    def __exit__(self, *_error):
        mask = self.masks.pop()
        self.lock.release()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Output(io.TextIOBase):
    """sys.stdout and sys.stderr of the cells."""

    encoding = "utf-8"

    def __init__(self, kernel, name, fd):
        self.kernel, self.name, self.fd = kernel, name, fd

    def fileno(self):
        return self.fd

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s"
                            % type(text).__name__)
        self.kernel.output(self.name, text)
        return len(text)

    def flush(self):
        self.kernel.flush()


class Kernel:
    def __init__(self):
        self.events = os.fdopen(int(sys.argv[1]), "wb", buffering=0)
        self.lock = Lock()
        self.kept = []
        self.count = 0
        self.silent = False
        self.names = types.ModuleType("__main__")
        self.names.__dict__.update(
            display=self.display, input=no_input, exit=sys.exit,
            quit=sys.exit, __builtins__=builtins)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.drains = [self.redirect(1, "stdout"), self.redirect(2, "stderr")]
        sys.stdout = Output(self, "stdout", 1)
        sys.stderr = Output(self, "stderr", 2)
        threading.Thread(target=self.flush_often, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    # -- output --

    def redirect(self, fd, name):
        """Reads what is written to fd itself; returns a function that waits
        until all of it is read."""
        inside, outside = os.pipe()
        os.dup2(outside, fd, inheritable=True)
        os.close(outside)
        mark = b"\0mark-%d\0" % os.getpid()
        seen = threading.Event()

        def read():
            rest = b""
            while True:
                rest += os.read(inside, 65536)
                text, marked, rest = rest.partition(mark)
                if not marked:
                    keep = max(n for n in range(len(mark))
                               if text.endswith(mark[:n]))
                    text, rest = text[:len(text) - keep], mark[:keep]
                self.output(name, text.decode("utf-8", "replace"))
                if marked:
                    seen.set()
        threading.Thread(target=read, daemon=True).start()

        def drain():
            seen.clear()
            os.write(fd, mark)
            seen.wait(2)
        return drain

    def emit(self, event):
        data = json.dumps(event, default=str).encode() + b"\n"
        with self.lock:
            view = memoryview(data)
            while view:
                view = view[self.events.write(view):]

    def output(self, name, text):
        if self.silent or not text:
            return
        with self.lock:
            if self.kept and self.kept[0] != name:
                self.flush()
            if not self.kept:
                self.kept = [name, [], 0]
            self.kept[1].append(text)
            self.kept[2] += len(text)
            if self.kept[2] >= MAX_TEXT:
                self.flush()

    def flush(self):
        with self.lock:
            if not self.kept:
                return
            name, texts, _ = self.kept
            self.kept = []
            text = "".join(texts).encode("utf-8", "ignore").decode()
            now = datetime.datetime.now(datetime.timezone.utc)
            self.emit({"type": name, "text": text,
                       "timestamp": now.isoformat()})

    def flush_often(self):
        while True:
            time.sleep(FLUSH_S)
            self.flush()

    # -- results --

    def result(self, value, is_main):
        bundle = bundle_of(value)
        text = bundle.get("text/plain")
        # Of whatever is shown, as the service does.
        if text and text[0] in "'\"" and text[-1] == text[0]:
            bundle["text/plain"] = text[1:-1]
        event = {"type": "result"}
        extra = {}
        for kind, data in bundle.items():
            if kind in KEYS:
                event[KEYS[kind]] = data
            else:
                extra[kind] = data
        event["extra"] = extra
        event["is_main_result"] = is_main
        with self.lock:
            self.flush()
            self.emit(event)

    def display(self, *values, raw=False, **_kw):
        for value in values:
            self.result(Raw(value) if raw else value, False)

    def show_figures(self):
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is None:
            return
        for number in plt.get_fignums():
            self.result(plt.figure(number), False)
        plt.close("all")

    # -- cells --

    def run(self, request):
        self.silent = bool(request.get("silent"))
        if self.silent:
            try:
                exec(request["code"], self.names.__dict__)
            except Exception:
                pass
            self.silent = False
            return
        code = request["code"]
        if code.strip():
            self.count += 1
        self.emit({"type": "number_of_executions",
                   "execution_count": self.count})
        self.file = "<cell %d>" % self.count
        linecache.cache[self.file] = (len(code), None,
                                      code.splitlines(True), self.file)
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                self.run_code(code)
                self.hook_savers()
                self.show_figures()
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        except BaseException as exc:
            self.say_end()
            self.emit(self.error_of(exc, code))
        self.say_end()

    def say_end(self):
        for drain in self.drains:
            drain()
        self.flush()

    def run_code(self, code):
        tree = ast.parse(code, self.file)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) \
                and not code.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        for node in tree.body:
            exec(compile(ast.Module([node], []), self.file, "exec"),
                 self.names.__dict__)
            self.hook_savers()
        if last is not None:
            value = eval(compile(last, self.file, "eval"),
                         self.names.__dict__)
            if value is not None:
                self.names.__dict__["_"] = value
                self.result(value, True)

    def hook_savers(self):
        """A bitmap that is saved is shown, as the vendor's template does."""
        pil = sys.modules.get("PIL.Image")
        if pil is None or hasattr(pil, "shown_when_saved"):
            return
        pil.shown_when_saved = True
        save = pil.Image.save

        def save_and_show(image, path, *args, **kw):
            save(image, path, *args, **kw)
            if isinstance(path, (str, os.PathLike)):
                self.result(image, False)
        pil.Image.save = save_and_show

    def error_of(self, exc, code):
        if isinstance(exc, SyntaxError) and exc.filename == self.file:
            frames = []
        else:
            frames = [f for f in traceback.extract_tb(exc.__traceback__)
                      if f.filename != __file__]
        name = type(exc).__name__
        head = name + "Traceback (most recent call last)".rjust(
            75 - len(name))
        parts = [RULE, head]
        lines = code.splitlines()
        for frame in frames:
            if frame.filename.startswith("<cell "):
                where = "Cell In[%s], line %d" % (frame.filename[6:-1],
                                                  frame.lineno)
            else:
                where = "File %s:%d, in %s" % (frame.filename, frame.lineno,
                                               frame.name)
            text = frame.line or ""
            if not text and 0 < frame.lineno <= len(lines):
                text = lines[frame.lineno - 1]
            parts.append("%s\n----> %d %s\n" % (where, frame.lineno, text))
        parts.append("%s: %s" % (name, exc))
        return {"type": "error", "name": name, "value": str(exc),
                "traceback": "".join(parts)}


class Raw:
    """A bundle of MIME types that is shown as it is."""

    def __init__(self, bundle):
        self.bundle = bundle


def no_input(*_args):
    error = type("StdinNotImplementedError", (NotImplementedError,), {})
    raise error("raw_input was called, but this frontend does not support "
                "input requests.")


def bundle_of(value):
    if isinstance(value, Raw):
        return {k: as_text(k, v) for k, v in value.bundle.items()}
    bundle = {}
    if callable(getattr(type(value), "_repr_mimebundle_", None)):
        found = value._repr_mimebundle_()
        found = found[0] if isinstance(found, tuple) else found
        bundle.update({k: as_text(k, v) for k, v in (found or {}).items()})
    for kind, name in METHODS.items():
        method = getattr(type(value), name, None)
        if kind in bundle or not callable(method):
            continue
        try:
            data = method(value)
        except Exception:
            continue
        data = data[0] if isinstance(data, tuple) else data
        if data is not None:
            bundle[kind] = as_text(kind, data)
    text = value if isinstance(value, str) else repr(value)
    bundle.setdefault("text/plain", text)
    if type(value) in (list, dict):
        try:
            json.dumps(value)
            bundle["application/json"] = finite(value, True)
        except (TypeError, ValueError):
            pass
    add_libraries(value, bundle)
    return bundle


def as_text(kind, data):
    if isinstance(data, bytes):
        return base64.b64encode(data).decode() + "\n"
    return finite(data, True) if kind == "application/json" else data


def add_libraries(value, bundle):
    name = type(value).__module__.split(".")[0]
    if name == "pandas" and type(value).__name__ == "DataFrame":
        bundle["e2b/data"] = finite(value.to_dict(orient="list"), False)
    if name == "matplotlib" and hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.canvas.print_png(picture)
        bundle["image/png"] = base64.b64encode(picture.getvalue()).decode()
        try:
            import e2b_charts
            bundle["e2b/chart"] = finite(e2b_charts.chart_of(value), False)
        except Exception:
            bundle["e2b/chart"] = {}


def main():
    global KERNEL
    requests = os.fdopen(os.dup(0), "rb")
    os.set_inheritable(int(sys.argv[1]), False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    os.environ["MPLBACKEND"] = "module://e2b_inline"
    KERNEL = Kernel()
    main_module = sys.modules["__main__"]
    KERNEL.names.KERNEL = KERNEL
    sys.modules["__main__"] = KERNEL.names
    assert main_module is not KERNEL.names
    sys.path.insert(0, "")
    for line in requests:
        KERNEL.run(json.loads(line))
        KERNEL.emit({"type": "done"})


if __name__ == "__main__":
    main()
