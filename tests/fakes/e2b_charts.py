# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of charts that the fake's interpreter sends beside pictures."""

import datetime
import math

SCALES = ("linear", "datetime", "categorical", "log", "symlog", "logit",
          "function", "functionlog", "asinh")


def plain(value):
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if hasattr(value, "item"):
        value = value.item()
    return value


def labels(axes):
    return {"title": axes.get_title() or None,
            "x_label": axes.get_xlabel() or None,
            "y_label": axes.get_ylabel() or None,
            "x_unit": None, "y_unit": None}


def ticks(axes):
    found = {}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        scale = axis.get_scale()
        found[name + "_ticks"] = [plain(t) for t in axis.get_ticklocs()]
        found[name + "_tick_labels"] = [t.get_text()
                                        for t in axis.get_ticklabels()]
        found[name + "_scale"] = scale if scale in SCALES else "linear"
    return found


def lines_of(axes):
    return [{"label": line.get_label(), "points": [
        [plain(x), plain(y)] for x, y in zip(line.get_xdata(),
                                             line.get_ydata())]}
            for line in axes.get_lines()]


def scatters_of(axes):
    return [{"label": group.get_label(),
             "points": [[plain(x), plain(y)]
                        for x, y in group.get_offsets()]}
            for group in axes.collections if len(group.get_offsets())]


def bars_of(axes):
    names = [t.get_text() for t in axes.get_xticklabels()]
    places = [plain(t) for t in axes.get_xticks()]
    found = []
    for container in axes.containers:
        group = str(container.get_label())
        for bar in container:
            middle = bar.get_x() + bar.get_width() / 2
            name = [n for n, p in zip(names, places)
                    if n and math.isclose(p, middle, abs_tol=1e-9)]
            found.append({"label": name[0] if name else str(plain(middle)),
                          "group": group, "value": plain(bar.get_height())})
    return found


def wedges_of(axes):
    return [{"label": w.get_label(), "angle": plain(w.theta2 - w.theta1),
             "radius": plain(w.r)} for w in axes.patches]


def axes_chart(axes):
    kinds = {type(p).__name__ for p in axes.patches}
    if kinds == {"Wedge"}:
        return {"type": "pie", "title": axes.get_title() or None,
                "elements": wedges_of(axes)}
    if axes.containers and kinds == {"Rectangle"}:
        return dict(labels(axes), type="bar", elements=bars_of(axes))
    if axes.get_lines():
        return dict(labels(axes), **ticks(axes), type="line",
                    elements=lines_of(axes))
    if axes.collections:
        return dict(labels(axes), **ticks(axes), type="scatter",
                    elements=scatters_of(axes))
    return {"type": "unknown", "title": axes.get_title() or None,
            "elements": []}


def chart_of(figure):
    """The chart of a figure; {} for one without axes."""
    charts = [axes_chart(axes) for axes in figure.get_axes()]
    if not charts:
        return {}
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if figure._suptitle else None
    return {"type": "superchart", "title": title, "elements": charts}
