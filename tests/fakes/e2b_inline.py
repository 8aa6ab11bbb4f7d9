# SPDX-License-Identifier: GPL-3.0-or-later
"""A matplotlib backend for the cells of the fake: figures become results."""

import sys

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backend_bases import FigureManagerBase

FigureCanvas = FigureCanvasAgg
FigureManager = FigureManagerBase


def show(*_args, **_kw):
    sys.modules["__main__"].KERNEL.show_figures()
