# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the kernel that shows: tables, charts, pictures.

No triple single quotes in this file; see part() in local_kernel.py.
"""
import _thread
import os
import sys

from sandpiper_kernel import (
    MAX_PIXELS, MIB, S, TABLE, cut, modules, note, plain, reraise_interrupt,
    safe_text, send, type_name)

MAX_KEPT = 64
MAX_WARNINGS = 5
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
            if type_name(obj) == "matrix":
                obj = obj.A
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
    if kind in (("pyarrow", "Table"), ("pyarrow", "RecordBatch")):
        return Grid(obj.num_rows, obj.num_columns, lambda j: (
            obj.schema[j].name, obj.schema[j].type,
            lambda a, b: obj.column(j).slice(a, b - a).to_pylist()))
    if kind[0] == "pyarrow" and hasattr(obj, "to_pylist") \
            and hasattr(obj, "slice") and hasattr(obj, "type"):
        return Grid(len(obj), 1, lambda j: (
            "value", obj.type,
            lambda a, b: obj.slice(a, b - a).to_pylist()))
    return None


def is_missing(value):
    if value is None or type_name(value) in ("NAType", "MaskedConstant"):
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
    return issubclass(type(obj), getattr(figure, "Figure", ()))


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
             "pixels. %s" % (what, width, height, MAX_PIXELS // 1000000,
                             "Use a smaller figsize or dpi."
                             if what == "A chart" else "Resize it."))
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


def draw_warning_once(fig):
    """draw(); what it warns of (mostly letters that the font lacks) is said
    once and without the place, which is none of the cell's."""
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        data = draw(fig)
    texts = list(dict.fromkeys(
        "%s: %s" % (w.category.__name__, safe_text(w.message))
        for w in caught))
    for text in texts[:MAX_WARNINGS]:
        print(text, file=sys.stderr)
    if len(texts) > MAX_WARNINGS:
        print("and %s" % plural(len(texts) - MAX_WARNINGS, "more warning"),
              file=sys.stderr)
    return data


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
    data = draw_warning_once(fig)
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


def close_figures():
    """Whether there were any."""
    numbers = modules["matplotlib.pyplot"].get_fignums()
    if numbers:
        close_figure("all")
    return bool(numbers)


def show_figure(fig, name="display"):
    try:
        state = state_of(fig)
        if state in S.drawn_as_file:
            return
        S.drawn.add(state)
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
    if issubclass(type(value), artist) and not is_figure(value):
        return True
    if type(value).__module__ == "seaborn.axisgrid":
        return True
    if type_name(value) == "ndarray":
        value = list(value.flat)[:100] if value.dtype == object else ()
    if type(value).__module__ in ("matplotlib.container",
                                  "matplotlib.colorbar"):
        return True
    if issubclass(type(value), (list, tuple)) and value and depth < 3:
        # hist returns its counts and edges beside the bars.
        rest = [v for v in value[:100] if not is_drawing(v, depth + 1)]
        return len(rest) < len(value[:100]) and all(
            type_name(v) == "ndarray" for v in rest)
    return False


def png_of(obj, make):
    """What _repr_png_ gives; PNG has no CMYK and the like."""
    is_pillow = str(type(obj).__module__).startswith("PIL.")
    try:
        data = make()
    except Exception:
        if not is_pillow:
            raise
        data = None
    if data is None and is_pillow:
        data = obj.convert("RGB")._repr_png_()
    return data


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
    data = png_of(obj, make)
    if type(data) is tuple and data:
        data = data[0]
    size = png_size(data)
    if size is None or not fits(size[0], size[1], len(data), "A picture"):
        return None
    if is_one_too_many():
        return None
    return {"image/png": png_text(data)}


# Display -------------------------------------------------------------------

def has(obj, name):
    """Whether the class of obj has a method; asks no code of the class."""
    return any(name in vars(base) for base in
               type.__dict__["__mro__"].__get__(type(obj)))


def show(obj, name="display"):
    """Sends obj as a display or result event."""
    if is_figure(obj):
        show_figure(obj, name)
    elif has(obj, "sandpiper_show"):
        obj.sandpiper_show(name)
    elif is_plotly(obj):
        show_plotly(obj, name)
    elif has(obj, "_ipython_display_") \
            and call_quietly(obj._ipython_display_):
        pass
    else:
        show_other(obj, name)


def call_quietly(function):
    """Whether the call came to its end."""
    try:
        function()
    except BaseException as error:
        reraise_interrupt(error)
        return False
    return True


def show_other(obj, name, about=("", "")):
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
        meta = {"width": size[0], "height": size[1], "title": about[0],
                "what": about[1]}
    bundle["text/plain"] = cut(plain(obj), S.limits["text"])
    send(name, bundle, meta, obj)


# plotly --------------------------------------------------------------------

def is_plotly(obj):
    base = getattr(modules.get("plotly.basedatatypes"), "BaseFigure", ())
    return issubclass(type(obj), base)


def describe_plotly(fig):
    try:
        title = safe_text(fig.layout.title.text or "")
        kinds = [safe_text(trace.type) for trace in fig.data[:100]]
        what = ", ".join(plural(kinds.count(kind), kind + " trace")
                         for kind in dict.fromkeys(kinds))
    except Exception:
        title = what = ""
    return title.replace("\n", " ")[:200], what[:200]


def show_plotly(fig, name):
    """A PNG where plotly can make one; else a note and what is in it."""
    title, what = describe_plotly(fig)
    data = None
    if is_one_too_many():
        return
    try:
        data = fig.to_image(format="png")
    except BaseException as error:
        reraise_interrupt(error)
        note("chart", "plotly can't make a picture here (that needs the "
             "package kaleido and a browser). Use matplotlib, or "
             "fig.write_html('output/chart.html') to hand it over.")
    size = png_size(data)
    about = "".join("; " + text for text in (title, what) if text)
    if size is None:
        send(name, {"text/plain": "[plotly chart%s]" % about})
    elif fits(size[0], size[1], len(data), "A chart"):
        text = "[chart, %d x %d pixels%s]" % (size[0], size[1], about)
        send(name, {"image/png": png_text(data), "text/plain": text},
             {"width": size[0], "height": size[1], "title": title,
              "what": what})


# Charts that are saved and shown -------------------------------------------

def state_of(fig):
    """What tells whether a figure changed since, as far as is cheap."""
    try:
        return id(fig), len(fig.findobj()), describe_figure(fig)
    except Exception:
        return id(fig), 0, ("", "")


def note_saving(savefig):
    """Keeps which file of this cell is which figure."""
    import functools

    @functools.wraps(savefig)
    def saves(self, fname, *args, **options):
        result = savefig(self, fname, *args, **options)
        if isinstance(fname, (str, os.PathLike)) \
                and _thread.get_ident() == S.main:
            path = os.path.realpath(fname)
            if not os.path.exists(path):
                path += ".png"
            S.saved[path] = state_of(self)
        return result
    return saves


def show_file(image, path, name):
    """Shows the picture of a file, unless it is of a figure that this cell
    has shown; else that figure counts as shown from now on."""
    state = S.saved.get(path)
    if state is not None and state in S.drawn:
        return
    S.drawn_as_file.add(state)
    show_other(image, name, state[2] if state is not None else ("", ""))


# After an import -----------------------------------------------------------

def after_matplotlib(module):
    """A backend with windows would fail here, where nothing has any."""
    original = module.use

    def use(backend, *args, **options):
        if safe_text(backend).lower() in ("agg", "cairo", "pdf", "pgf", "ps",
                                          "svg", "template"):
            original(backend, *args, **options)
        else:
            note("magic", "The backend %s of matplotlib is ignored: charts "
                 "are shown without it." % cut(safe_text(backend), 100))
    module.use = use


def after_pyplot(plt):
    def show_all(*_args, **_options):
        show_figures()

    def show_one(self, *_args, **_options):
        show_figure(self)

    Figure = modules["matplotlib.figure"].Figure
    plt.show = show_all
    Figure.show = show_one
    Figure.savefig = note_saving(Figure.savefig)
    size = S.figure
    dpi = float(size.get("dpi") or plt.rcParams["figure.dpi"])
    plt.rcParams["figure.dpi"] = dpi
    if size.get("width_px") and size.get("height_px"):
        plt.rcParams["figure.figsize"] = (size["width_px"] / dpi,
                                          size["height_px"] / dpi)


def after_pandas(pd):
    pd.set_option("display.width", 160)
    pd.set_option("display.max_columns", 30)


def after_plotly(module):
    def show_one(fig, *_args, **_options):
        show(fig)
    if hasattr(module, "BaseFigure"):
        module.BaseFigure.show = show_one
    else:
        module.show = show_one


AFTER_IMPORT = {"matplotlib": after_matplotlib,
                "matplotlib.pyplot": after_pyplot, "pandas": after_pandas,
                "plotly.basedatatypes": after_plotly,
                "plotly.io": after_plotly}


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


