# SPDX-License-Identifier: GPL-3.0-or-later
"""The second half of the kernel: tables, charts, notebook lines, errors.

Loaded once "ready" is out, or when first needed: compiling it would double
the time to the first result. It finds its other half under a module name of
its own. No triple single quotes in this file, so that a build may carry it
inside a string; see load_tools in the first half.
"""
import os
import re
import sys
import time

import sandpiper_kernel as kernel
from sandpiper_kernel import (
    MAX_PIXELS, MIB, S, TABLE, cut, display, flush_output, modules, note,
    plain, refuse, remember_source, reraise_interrupt, safe_text, send, took,
    type_name)

MAX_KEPT = 64
COPY_BYTES = 32 * MIB
KEPT_BYTES = 512 * MIB
MAX_SAFE = 2 ** 53


# Tables --------------------------------------------------------------------

DTYPE_KINDS = {"i": "integer", "u": "integer", "f": "number", "b": "boolean",
               "M": "datetime", "m": "duration", "U": "string",
               "S": "string", "T": "string", "c": "other"}
# Tried in order on the lower-case type text of polars, pyarrow and pandas'
# extension types; "interval" must come before "int".
PREFIX_KINDS = (
    ("interval", "other"), ("int", "integer"), ("uint", "integer"),
    ("float", "number"), ("double", "number"), ("half", "number"),
    ("decimal", "number"), ("str", "string"), ("utf8", "string"),
    ("large_string", "string"), ("bool", "boolean"), ("date", "datetime"),
    ("timestamp", "datetime"), ("timedelta", "duration"),
    ("duration", "duration"), ("categ", "category"), ("enum", "category"),
    ("dictionary", "category"))


class Grid:
    """A table of any library: columns are (name, dtype, fetch(start, stop))
    and made on demand, since a frame may have 20,000 of them."""

    def __init__(self, rows, cols, column, index=()):
        self.rows = rows
        self.cols = cols
        self.column = column
        self.index = list(index)


def label(name):
    """The shown name of a column; levels are joined, empty ones dropped."""
    if type(name) is str:
        return name
    if type(name) is tuple:
        parts = [label(part) for part in name]
        return " / ".join(part for part in parts if part)
    if hasattr(name, "isoformat"):
        return safe_text(name, lambda v: v.isoformat().replace(
            "T00:00:00", ""))
    return safe_text(name)


def index_levels(index):
    if getattr(index, "nlevels", 1) == 1:
        return [(index.name, index.dtype, lambda a, b: list(index[a:b]))]

    def level(k):
        return (index.names[k], index.levels[k].dtype,
                lambda a, b: list(index[a:b].get_level_values(k)))
    return [level(k) for k in range(index.nlevels)]


def frame_grid(df):
    def column(j):
        values = df.iloc[:, j]
        return (df.columns[j], values.dtype,
                lambda a, b: list(values.iloc[a:b]))
    return Grid(len(df), df.shape[1], column, index_levels(df.index))


def series_grid(values):
    name = "value" if values.name is None else values.name
    return Grid(len(values), 1, lambda j: (
        name, values.dtype, lambda a, b: list(values.iloc[a:b])),
        index_levels(values.index))


def array_grid(array):
    row = (None, "int64", lambda a, b: list(range(a, b)))
    if array.ndim == 1:
        return Grid(len(array), 1, lambda j: (
            "value", array.dtype, lambda a, b: list(array[a:b])), [row])
    return Grid(array.shape[0], array.shape[1], lambda j: (
        str(j), array.dtype, lambda a, b: list(array[a:b, j])), [row])


def grid_of(obj):
    """The Grid of a table-like object, or None."""
    pd = modules.get("pandas")
    if isinstance(obj, getattr(pd, "DataFrame", ())):
        return frame_grid(obj)
    if isinstance(obj, getattr(pd, "Series", ())):
        return series_grid(obj)
    if isinstance(obj, getattr(modules.get("numpy"), "ndarray", ())):
        if obj.ndim in (1, 2) and not obj.dtype.names:
            return array_grid(obj)
        return None
    kind = (str(type(obj).__module__).split(".")[0], type_name(obj))
    if kind == ("polars", "DataFrame"):
        return Grid(obj.height, obj.width, lambda j: (
            obj.columns[j], obj.dtypes[j],
            lambda a, b: obj.to_series(j)[a:b].to_list()))
    if kind == ("polars", "Series"):
        return Grid(len(obj), 1, lambda j: (
            obj.name or "value", obj.dtype,
            lambda a, b: obj[a:b].to_list()))
    if kind == ("pyarrow", "Table"):
        return Grid(obj.num_rows, obj.num_columns, lambda j: (
            obj.schema[j].name, obj.schema[j].type,
            lambda a, b: obj.column(j).slice(a, b - a).to_pylist()))
    return None


def is_missing(value):
    if value is None or type_name(value) == "NAType":
        return True
    if hasattr(value, "dtype") and getattr(value, "ndim", 0):
        return False
    return bool(isinstance(value, float) or hasattr(value, "isoformat")
                or getattr(getattr(value, "dtype", None), "kind", "") in
                ("f", "M", "m")) and bool(value != value)


def value_kind(value):
    if isinstance(value, str):
        return "string"
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind in DTYPE_KINDS and not getattr(value, "ndim", 0):
        return DTYPE_KINDS[kind]
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float) or type_name(value) == "Decimal":
        return "number"
    if type_name(value) in ("datetime", "date", "Timestamp"):
        return "datetime"
    if type_name(value) in ("timedelta", "Timedelta"):
        return "duration"
    return "other"


def column_kind(dtype, values):
    if type_name(dtype) == "CategoricalDtype":
        return "category"
    kind = DTYPE_KINDS.get(getattr(dtype, "kind", None))
    if kind:
        return kind
    text = safe_text(dtype).lower()
    for prefix, kind in PREFIX_KINDS:
        if text.startswith(prefix):
            return kind
    kinds = {value_kind(v) for v in values if not is_missing(v)}
    if kinds == {"integer", "number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "other"


def cell_value(value):
    """A value of a table as JSON has it; texts are cut by the caller."""
    if type(value) is str:
        return value
    if is_missing(value):
        return None
    kind = value_kind(value)
    if kind == "boolean":
        return bool(value)
    if kind == "integer":
        number = int(value)
        return number if -MAX_SAFE <= number <= MAX_SAFE else str(number)
    if kind == "number" and type_name(value) != "Decimal":
        number = float(value)
        return number if abs(number) != float("inf") else str(number)
    if kind == "datetime" and hasattr(value, "isoformat"):
        return value.isoformat()
    if type_name(value) == "bytes_":
        return safe_text(bytes(value))
    return safe_text(value)


def column_cells(values, dtype, kind, limit):
    """Cells of the shown part of a column; True if one had to be cut."""
    cells = []
    # The short text of a float32 is what its owner means by it.
    narrow = dtype.type if kind == "number" \
        and getattr(dtype, "itemsize", 8) < 8 else None
    for value in values:
        try:
            if narrow and not is_missing(value):
                value = float(str(narrow(value)))
            cells.append(cell_value(value))
        except BaseException as error:
            reraise_interrupt(error)
            cells.append("<%s object; its text failed>" % type_name(value))
    texts = [c for c in cells if type(c) is str]
    if kind == "datetime" and all(t.endswith("T00:00:00") for t in texts):
        cells = [c[:-9] if type(c) is str else c for c in cells]
    if not any(len(t) > limit for t in texts):
        return cells, False
    return [c[:limit] + "…" if type(c) is str and len(c) > limit else c
            for c in cells], True


def table_of(obj):
    """Head and tail of a table; None if obj is none."""
    grid = grid_of(obj)
    if grid is None:
        return None
    limits = S.limits
    half = limits["rows"] // 2
    whole = grid.rows <= limits["rows"]
    n_head = grid.rows if whole else half
    side = limits["cols"] // 2
    if grid.cols <= limits["cols"]:
        shown = list(range(grid.cols))
    else:
        shown = list(range(side)) + list(range(grid.cols - side, grid.cols))
    was_cut = False
    descriptions = []
    columns = []
    n_levels = len(grid.index)
    for name, dtype, fetch in grid.index + [grid.column(j) for j in shown]:
        values = fetch(0, n_head)
        if not whole:
            values = values + fetch(grid.rows - half, grid.rows)
        kind = column_kind(dtype, values)
        cells, shortened = column_cells(values, dtype, kind,
                                        limits["cell"])
        was_cut = was_cut or shortened
        columns.append(cells)
        if name is not None or len(descriptions) >= n_levels:
            name = label(name)[:limits["cell"]]
        descriptions.append({"name": name, "type": safe_text(dtype)[:64],
                             "kind": kind})
    n_shown = n_head if whole else n_head + half
    rows = [[cells[r] for cells in columns] for r in range(n_shown)]
    return {"rows": grid.rows, "cols": grid.cols,
            "columns": descriptions[n_levels:],
            "index": descriptions[:n_levels],
            "head": rows[:n_head], "tail": rows[n_head:],
            "cols_left_out": grid.cols - len(shown),
            "truncated_cells": was_cut}


def keep(cell, index, obj):
    """Keeps a shown table, so that it can be saved whole as it was shown.

    Small ones are copied; larger ones share their data with the cell's
    variable; very large ones are not kept alive by us."""
    size = int(getattr(obj, "size", 0) or 0) * 8
    holder = obj
    try:
        if hasattr(obj, "iloc"):
            holder = obj.copy(deep=size <= COPY_BYTES)
        elif hasattr(obj, "dtype") and size <= COPY_BYTES \
                and hasattr(obj, "strides"):
            holder = obj.copy()
        if size > KEPT_BYTES:
            import weakref
            holder, size = weakref.ref(obj), 0
    except Exception:
        return
    S.kept.pop((cell, index), None)
    S.kept[(cell, index)] = (holder, size)
    total = sum(entry[1] for entry in S.kept.values())
    while len(S.kept) > MAX_KEPT or total > KEPT_BYTES:
        total -= S.kept.pop(next(iter(S.kept)))[1]


def save_table(cell, index, path):
    """Writes the whole table shown as output index of cell to path, as CSV."""
    holder = S.kept.get((cell, index), (None,))[0]
    why = "many or large ones were shown since"
    if type_name(holder) in ("ref", "ReferenceType"):
        holder = holder()
        why = "it is too large to be copied, and its variable is gone"
    if holder is None:
        # Outputs are counted from 1 where people see them.
        raise LookupError("the table of cell %s.%s is not kept any more: %s; "
                          "ask for it again" % (cell, index + 1, why))
    pd = modules.get("pandas")
    if isinstance(holder, getattr(pd, "Series", ())):
        name = "value" if holder.name is None else holder.name
        holder = holder.to_frame(name=label(name))
    if isinstance(holder, getattr(pd, "DataFrame", ())):
        holder = holder.copy(deep=False)
        holder.columns = [label(name) for name in holder.columns]
        numbered = isinstance(holder.index, pd.RangeIndex) \
            and holder.index.name is None
        holder.to_csv(path, index=not numbered, encoding="utf-8",
                      errors="backslashreplace")
        return
    import csv
    grid = grid_of(holder)
    columns = [grid.column(j) for j in range(grid.cols)]
    with open(path, "w", encoding="utf-8", newline="",
              errors="backslashreplace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([label(column[0]) for column in columns])
        for start in range(0, grid.rows, 10000):
            stop = min(start + 10000, grid.rows)
            writer.writerows(zip(*[fetch(start, stop)
                                   for _, _, fetch in columns]))


# Pictures ------------------------------------------------------------------

def is_figure(obj):
    figure = modules.get("matplotlib.figure")
    return isinstance(obj, getattr(figure, "Figure", ()))


def png_size(data):
    """Width and height by the header of a PNG; None if it is none."""
    if type(data) is not bytes or data[:8] != b"\x89PNG\r\n\x1a\n" \
            or data[12:16] != b"IHDR":
        return None
    return (int.from_bytes(data[16:20], "big"),
            int.from_bytes(data[20:24], "big"))


def fits(width, height, n_bytes, what):
    """Whether a picture may be sent; notes the reason if not."""
    if width * height > MAX_PIXELS:
        note("limit", "%s of %d x %d pixels is not shown: at most %d million "
             "pixels. Use a smaller figsize or dpi."
             % (what, width, height, MAX_PIXELS // 1000000))
    elif n_bytes > S.limits["png"]:
        note("limit", "%s of %d bytes is not shown: at most %d bytes."
             % (what, n_bytes, S.limits["png"]))
    else:
        return True
    return False


def png_text(data):
    import base64
    return base64.b64encode(data).decode("ascii")


def plural(n, word):
    return "%d %s%s" % (n, word, "" if n == 1 else "s")


def describe_axes(axes):
    parts = []
    containers = [c for c in getattr(axes, "containers", [])
                  if type_name(c) == "BarContainer"]
    n_bars = sum(len(c) for c in containers)
    n_wedges = sum(type_name(p) == "Wedge" for p in axes.patches)
    n_lines = sum(len(line.get_xdata()) > 1 for line in axes.get_lines())
    n_points = sum(len(c.get_offsets()) for c in axes.collections
                   if type_name(c) == "PathCollection")
    if n_lines:
        parts.append(plural(n_lines, "line"))
    if n_bars:
        bars = containers[0].patches
        touching = len(bars) > 1 and all(
            abs(a.get_x() + a.get_width() - b.get_x())
            <= 1e-6 * abs(a.get_width()) for a, b in zip(bars, bars[1:]))
        parts.append("histogram, " + plural(n_bars, "bin") if touching
                     else "bar chart, " + plural(n_bars, "bar"))
    if n_wedges:
        parts.append("pie chart, " + plural(n_wedges, "slice"))
    if n_points:
        parts.append("scatter, " + plural(n_points, "point"))
    for image in axes.get_images():
        parts.append("heat map, %d x %d" % tuple(image.get_size()))
    for name, text in (("x", axes.get_xlabel()), ("y", axes.get_ylabel())):
        if text:
            parts.append("%s: %s" % (name, text))
    return ", ".join(parts)


def describe_figure(fig):
    """Title and a short plain description; never fails."""
    title = what = ""
    try:
        if getattr(fig, "_suptitle", None) is not None:
            title = fig._suptitle.get_text()
        for axes in fig.axes:
            for place in ("center", "left", "right"):
                title = title or axes.get_title(loc=place)
        # A colour bar is an Axes too, but none that a person would count.
        panels = [axes for axes in fig.axes
                  if axes.get_label() != "<colorbar>"]
        what = describe_axes(panels[0]) if panels else ""
        if len(panels) > 1:
            what = "%d panels; first: %s" % (len(panels), what)
    except Exception:
        pass
    return (safe_text(title).replace("\n", " ")[:200],
            safe_text(what).replace("\n", " ")[:200])


def draw(fig):
    """PNG bytes of a figure, cropped or widened to what is drawn unless that
    would change its size much (a label far outside of the axes)."""
    import io
    width, height = [float(v) for v in fig.get_size_inches()]
    box = None
    if hasattr(fig, "draw_without_rendering") \
            and hasattr(fig.canvas, "get_renderer"):
        fig.draw_without_rendering()
        box = fig.get_tightbbox(fig.canvas.get_renderer())
        box = box.padded(0.1) if box.width > 0 and box.height > 0 else None
        if box is not None and not (box.width <= 1.5 * width
                                    and box.height <= 1.5 * height):
            box = None
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", bbox_inches=box)
    return buffer.getvalue()


def is_one_too_many():
    """Counts a chart or picture; True where it is past what a cell may
    show."""
    S.figures += 1
    if S.figures <= S.limits["figures"]:
        return False
    S.hidden += 1
    return True


def note_hidden():
    note("limit", "%s %s not shown: at most %d a cell." % (
        plural(S.hidden, "more chart"), "was" if S.hidden == 1 else "were",
        S.limits["figures"]))


def figure_bundle(fig):
    """Bundle and meta of a figure; (None, None) where a note says why not."""
    if is_one_too_many():
        return None, None
    width, height = [int(v) for v in fig.get_size_inches() * fig.dpi]
    # Before drawing: the canvas alone could take all memory.
    if not fits(width, height, 0, "A chart"):
        return None, None
    data = draw(fig)
    width, height = png_size(data)
    if not fits(width, height, len(data), "A chart"):
        return None, None
    title, what = describe_figure(fig)
    text = "[chart, %d x %d pixels%s]" % (
        width, height, "".join("; " + t for t in (title, what) if t))
    return ({"image/png": png_text(data), "text/plain": text},
            {"width": width, "height": height, "title": title, "what": what})


def close_figure(fig):
    plt = modules.get("matplotlib.pyplot")
    if plt is not None:
        plt.close(fig)


def show_figure(fig, name="display"):
    try:
        bundle, meta = figure_bundle(fig)
        if bundle:
            send(name, bundle, meta)
    finally:
        close_figure(fig)


def has_content(fig, with_data):
    if with_data:
        return any(axes.has_data() for axes in fig.axes)
    return bool(fig.axes or fig.texts or fig.images or fig.lines)


def show_figures(with_data=False):
    """Sends and closes all open figures; the empty ones are only closed."""
    plt = modules.get("matplotlib.pyplot")
    if plt is None or not hasattr(plt, "get_fignums"):
        return
    try:
        for number in plt.get_fignums():
            fig = plt.figure(number)
            if has_content(fig, with_data):
                show_figure(fig)
    finally:
        # A broken one that stayed open would fail again in the next cell.
        plt.close("all")


def is_drawing(value, depth=0):
    """Axes, lines and the like, alone or in containers: what plotting calls
    return. Beside the chart itself their text is noise."""
    artist = getattr(modules.get("matplotlib.artist"), "Artist", None)
    if artist is None:
        return False
    if isinstance(value, artist) and not is_figure(value):
        return True
    if type_name(value) == "ndarray":
        value = list(value.flat)[:100] if value.dtype == object else ()
    if type(value).__module__ in ("matplotlib.container",
                                  "matplotlib.colorbar"):
        return True
    if isinstance(value, (list, tuple)) and value and depth < 3:
        # hist returns its counts and edges beside the bars.
        rest = [v for v in value[:100] if not is_drawing(v, depth + 1)]
        return len(rest) < len(value[:100]) and all(
            type_name(v) == "ndarray" for v in rest)
    return False


def image_bundle(obj):
    """Bundle of anything that gives a PNG; None if it does not."""
    make = getattr(obj, "_repr_png_", None)
    if make is None or isinstance(obj, type):
        return None
    size = getattr(obj, "size", None)
    if type(size) is tuple and len(size) == 2 \
            and all(type(v) is int for v in size) \
            and not fits(size[0], size[1], 0, "A picture"):
        return None
    data = make()
    if type(data) is tuple and data:
        data = data[0]
    size = png_size(data)
    if size is None or not fits(size[0], size[1], len(data), "A picture"):
        return None
    if is_one_too_many():
        return None
    return {"image/png": png_text(data)}


# Display -------------------------------------------------------------------

def show(obj, name="display"):
    """Sends obj as a display or result event."""
    if is_figure(obj):
        show_figure(obj, name)
        return
    if type_name(obj) == "Styler" and hasattr(obj, "data"):
        obj = obj.data
    bundle = {}
    for key, make in ((None, image_bundle), (TABLE, table_of)):
        try:
            part = make(obj)
        except BaseException as error:
            reraise_interrupt(error)
            part = None
        if part is not None:
            bundle.update(part if key is None else {key: part})
            break
    meta = None
    if "image/png" in bundle:
        import base64
        size = png_size(base64.b64decode(bundle["image/png"][:64]))
        meta = {"width": size[0], "height": size[1], "title": "", "what": ""}
    bundle["text/plain"] = cut(plain(obj), S.limits["text"])
    send(name, bundle, meta, obj)


class Rich:
    """Base of what the stand-in for IPython.display offers."""

    def __init__(self, data=None, url=None, filename=None, **_options):
        self.url = url
        if data is None and filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        elif isinstance(self, Image) and isinstance(data, str) \
                and os.path.exists(data):
            with open(data, "rb") as file:
                data = file.read()
        if isinstance(data, bytes) and not isinstance(self, Image):
            data = data.decode("utf-8", "replace")
        self.data = data

    def __repr__(self):
        return "" if self.data is None else str(self.data)


class Markdown(Rich):
    pass


class HTML(Rich):
    def __repr__(self):
        import html
        text = re.sub(r"(?is)<(script|style)\b.*?</\1>", "", str(self.data))
        return html.unescape(re.sub(r"<[^>]*>", "", text)).strip()


class Image(Rich):
    def _repr_png_(self):
        if png_size(self.data) or not isinstance(self.data, bytes):
            return self.data
        import io
        from PIL import Image as pillow
        picture = pillow.open(io.BytesIO(self.data))
        if picture.size[0] * picture.size[1] > MAX_PIXELS:
            return None
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        return buffer.getvalue()

    def __repr__(self):
        size = png_size(self.data)
        return "[picture%s]" % (", %d x %d pixels" % size if size else "")


def fill_display(module):
    """Fills the stand-in for IPython.display."""
    for thing in (display, HTML, Image, Markdown):
        setattr(module, thing.__name__, thing)
    module.Latex = module.Pretty = Markdown
    module.SVG = HTML
    module.clear_output = lambda *_args, **_options: None


# After an import -----------------------------------------------------------

def after_pyplot(plt):
    def show_all(*_args, **_options):
        show_figures()

    def show_one(self, *_args, **_options):
        show_figure(self)

    plt.show = show_all
    modules["matplotlib.figure"].Figure.show = show_one
    size = S.figure
    dpi = float(size.get("dpi") or plt.rcParams["figure.dpi"])
    plt.rcParams["figure.dpi"] = dpi
    if size.get("width_px") and size.get("height_px"):
        plt.rcParams["figure.figsize"] = (size["width_px"] / dpi,
                                          size["height_px"] / dpi)


def after_pandas(pd):
    pd.set_option("display.width", 160)
    pd.set_option("display.max_columns", 30)


def after_getpass(module):
    module.getpass = refuse("getpass.getpass()")


def after_display(module):
    module.display = display


AFTER_IMPORT = {"matplotlib.pyplot": after_pyplot, "pandas": after_pandas,
           "getpass": after_getpass, "IPython.display": after_display}


# Magics --------------------------------------------------------------------

IGNORED = ("matplotlib", "config", "load_ext", "reload_ext", "autoreload",
           "pylab", "precision")
MAGIC_LINE = re.compile(
    r"([ \t]*)([\w.,\[\]'\" \t]+=[ \t]*)?(%(?=[A-Za-z])|!)(?!=)([^\n]*)")
# One step through a line: comment, string, bracket, continuation, line end.
SCAN = re.compile(
    r"#[^\n]*|(\"\"\"|'{3})(?:\\.|(?!\1).)*(?:\1|\Z)"
    r"|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?"
    r"|[\[({\])}]|\\\n|\n", re.S)
INSTALLS = re.compile(
    r"(?:python[\d.]*\s+-m\s+)?(?:pip[\d.]*|conda|mamba|uv(?:\s+pip)?)\s+"
    r"(?:install|uninstall|download|add)\b")


def expand(text):
    """{name} in a shell line, as notebooks have it; unknown ones stay."""
    def value(match):
        try:
            return safe_text(eval(match.group(1), S.namespace))
        except Exception:
            return match.group(0)
    return re.sub(r"\{([A-Za-z_][\w.\[\]'\"]*)\}", value, text)


def shell(command, capture=False):
    import subprocess
    command = expand(command).strip()
    if INSTALLS.match(command):
        return installs()
    flush_output()
    run = subprocess.run(["/bin/sh", "-c", command],
                         stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE if capture else None)
    if run.returncode:
        note("magic", "The command ended with status %d: %s"
             % (run.returncode, command[:200]))
    if capture:
        return run.stdout.decode("utf-8", "replace").splitlines()
    return None


def installs():
    there = [name for name in kernel.LIBRARIES if S.libraries.get(name)]
    note("pip", "Packages can't be installed from here: there is no network,"
         " by design. Available: %s, and Python's standard library."
         % (", ".join(there) or "no others"))


def magic(name, rest):
    """Runs a line that began with %."""
    if name in IGNORED:
        note("magic", "%%%s is ignored: it isn't needed here." % name)
    elif name in ("pip", "conda"):
        return shell("pip " + rest)
    elif name == "time":
        code, last = kernel.compile_cell(rest, "<time>")
        start = time.perf_counter()
        try:
            return kernel.run_code(code, last)
        finally:
            took(start)
    elif name == "timeit":
        import timeit
        rest = re.sub(r"^(\s*-[nrpoq]\s*\d*)+\s*", "", rest)
        timer = timeit.Timer(rest, globals=S.namespace)
        loops, seconds = timer.autorange()
        best = min([seconds] + timer.repeat(2, loops)) / loops
        print("%.3g s per loop (best of 3, %d loops)" % (best, loops))
    elif name == "cd":
        os.chdir(os.path.expanduser(expand(rest).strip() or "~"))
    elif name == "pwd":
        return os.getcwd()
    elif name == "ls":
        return shell("ls " + rest)
    else:
        raise RuntimeError("the line magic %%%s isn't available here; write "
                           "it in plain Python" % name)
    return None


def rewrite_line(match):
    indent, target, sign, text = match.groups()
    if sign == "!":
        call = "__sandpiper__.shell(%r, %r)" % (text.lstrip("!"),
                                                bool(target))
    else:
        name, _, rest = text.strip().partition(" ")
        call = "__sandpiper__.magic(%r, %r)" % (name, rest)
    return indent + (target or "") + call


def rewrite(source):
    """Replaces notebook lines by calls, line for line. Only asked when the
    source is no Python as it stands, so a % inside brackets is safe twice."""
    if source.lstrip().startswith("%%"):
        first, _, body = source.lstrip().partition("\n")
        name = first[2:].strip().partition(" ")[0]
        if name in ("bash", "sh", "script"):
            return "__sandpiper__.shell(%r)" % body
        if name not in ("time", "capture", "timeit"):
            return "__sandpiper__.magic(%r, '')" % ("%" + name)
        source = ("__sandpiper__.start()" if name != "capture" else "") \
            + "\n" + body
    out = []
    at = depth = 0
    fresh = True
    while at < len(source):
        match = MAGIC_LINE.match(source, at) if fresh and not depth else None
        if match:
            out.append(rewrite_line(match))
            at = match.end()
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


class Helpers:
    """What rewritten lines call; known to cells as __sandpiper__."""

    shell = staticmethod(shell)
    magic = staticmethod(magic)

    @staticmethod
    def start():
        S.timed = time.perf_counter()


# Errors --------------------------------------------------------------------

def keep_user_frames(summary, seen):
    """Leaves only frames of cells and of the user's own files, if any, and
    says whether there are. Causes wholly inside a library are left out."""
    if summary is None or id(summary) in seen:
        return False
    seen.add(id(summary))
    frames = [f for f in summary.stack if f.filename not in kernel.FILES]
    own = [f for f in frames if f.filename.startswith(("<cell ", "<time>",
                                                       "/workspace/"))]
    # Without one, the innermost frames at least say where it happened.
    summary.stack[:] = own or frames[-3:]
    if not keep_user_frames(summary.__cause__, seen) and own:
        summary.__cause__ = None
    if not keep_user_frames(summary.__context__, seen) and own:
        summary.__context__ = None
    for part in getattr(summary, "exceptions", None) or ():
        keep_user_frames(part, seen)
    return bool(own)


def traceback_text(error):
    import linecache
    import traceback
    for name, source in S.sources.items():
        remember_source(linecache, name, source)
    summary = traceback.TracebackException(type(error), error,
                                           error.__traceback__, compact=True) \
        if sys.version_info >= (3, 10) else traceback.TracebackException(
            type(error), error, error.__traceback__)
    keep_user_frames(summary, set())
    return "".join(summary.format())


def frames_in_reach(error):
    """DataFrames seen from the failing line outwards, then the variables."""
    frame_type = getattr(modules.get("pandas"), "DataFrame", ())
    places = []
    tb = error.__traceback__
    while tb is not None and len(places) < 200:
        if tb.tb_frame.f_code.co_filename not in kernel.FILES:
            places.insert(0, tb.tb_frame.f_locals)
        tb = tb.tb_next
    n = 0
    for place in places + [S.namespace]:
        for value in list(place.values())[:500]:
            if isinstance(value, frame_type) and n < 20:
                n += 1
                yield value


def column_hint(error):
    """For a column that does not exist: the one that was probably meant."""
    if "pandas" not in modules or not isinstance(
            error, (KeyError, AttributeError)) or not error.args:
        return None
    key = error.args[0]
    if isinstance(error, AttributeError):
        found = re.search(r"'DataFrame' object has no attribute '(.+)'",
                          str(key))
        key = found.group(1) if found else None
    elif isinstance(key, str) and ("not in index" in key
                                   or "are in the [" in key
                                   or "not found in axis" in key):
        found = re.search(r"\['(.*?)'", key)
        key = found.group(1) if found else None
    if not isinstance(key, str) or len(key) > 100:
        return None
    import difflib
    for df in frames_in_reach(error):
        names = [n for n in list(df.columns)[:2000] if type(n) is str]
        if key in names:
            continue
        folded = {n.strip().lower(): n for n in reversed(names)}
        near = difflib.get_close_matches(key.strip().lower(), list(folded),
                                         1, 0.6)
        if near:
            return "nearest column: " + folded[near[0]][:200]
    return None


def describe_error(error):
    """The `error` field of done; runs code of the exception's class."""
    value = safe_text(error)
    if type(error) is KeyError and len(error.args) == 1:
        value = safe_text(error.args[0], repr)
    try:
        text = traceback_text(error)
    except BaseException as other:
        reraise_interrupt(other)
        text = "%s: %s\n" % (type_name(error), value)
    described = {"name": type_name(error)[:256], "value": cut(value, 4096),
                 "traceback": cut(text, 16384)}
    try:
        hint = column_hint(error)
    except BaseException as other:
        reraise_interrupt(other)
        hint = None
    if hint:
        described["hint"] = hint
    return described


# Preload -------------------------------------------------------------------

def warm_figure():
    if "matplotlib.pyplot" in modules:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        fig = Figure(figsize=(2, 1.5))
        FigureCanvasAgg(fig)
        axes = fig.add_subplot()
        axes.plot([0, 1], [0, 1])
        axes.set_title("a")
        draw(fig)


def warm_frame():
    if "pandas" in modules:
        frame = modules["pandas"].DataFrame({"a": [1, 2], "b": ["x", "y"]})
        table_of(frame)
        repr(frame)


