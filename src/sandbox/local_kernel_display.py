# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the kernel that is display(), files that are offered by it, and
the stand-in for IPython.

No triple single quotes in this file; see part() in local_kernel.py.
"""
import os
import re
import stat
import sys

import sandpiper_kernel as kernel
from sandpiper_kernel import (
    MAX_PIXELS, S, cut, modules, note, part, refuse, safe_text, type_name)


# Files ---------------------------------------------------------------------

def path_in_workspace(path):
    """The path of a regular file relative to the workspace, else None."""
    try:
        root = os.path.realpath(S.workspace)
        real = os.path.realpath(os.fspath(path))
        if not isinstance(real, str) or not real.startswith(root + "/") \
                or not stat.S_ISREG(os.lstat(real).st_mode):
            return None
        # A name that is no text could not be told.
        real.encode("utf-8")
    except (OSError, ValueError):
        return None
    return real[len(root) + 1:]


def offer_file(path):
    """Tells the client of a file; False if there is no such file."""
    name = path_in_workspace(path)
    if name is None or len(name) > 4096:
        return False
    note("file", name)
    return True


def is_path(obj):
    """A pathlib path, or a text that reads like the name of a file."""
    if type(obj) is str:
        return 0 < len(obj) <= 4096 and "\n" not in obj \
            and "\0" not in obj and ("/" in obj or "." in obj)
    return issubclass(type(obj), getattr(modules.get("pathlib"), "PurePath",
                                         ()))


# Display -------------------------------------------------------------------

def display(*objects, raw=False, display_id=None, **_options):
    """Shows objects; one path of a file in the workspace offers the file."""
    if len(objects) == 1 and not raw and is_path(objects[0]) \
            and offer_file(objects[0]):
        objects = ()
    for obj in objects:
        if raw:
            show_bundle(obj)
        else:
            kernel.show(obj)
    if display_id is None or display_id is False:
        return None
    return DisplayHandle(None if display_id is True else display_id)


def show_bundle(bundle):
    """Data by media type, as display(raw=True) takes it."""
    if not isinstance(bundle, dict):
        kernel.show(bundle)
        return
    png = bundle.get("image/png")
    if type(png) is str:
        import base64
        try:
            png = base64.b64decode(png)
        except ValueError:
            png = None
    if png:
        kernel.show(Image(png))
        return
    for key, kind in (("text/plain", Pretty), ("text/markdown", Markdown),
                      ("text/latex", Latex), ("text/html", HTML)):
        if key in bundle:
            kernel.show(kind(safe_text(bundle[key])))
            return
    note("display", "Data of type %s can't be shown here." % ", ".join(
        safe_text(key)[:100] for key in list(bundle)[:5]))


class DisplayHandle:
    """What display(display_id=...) gives. Nothing on a terminal can change
    afterwards: an update shows the object once more."""

    n_made = 0

    def __init__(self, display_id=None):
        if display_id is None:
            DisplayHandle.n_made += 1
            display_id = "display-%d" % DisplayHandle.n_made
        self.display_id = display_id

    def display(self, obj, **options):
        display(obj, **options)

    update = display

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id

    def sandpiper_show(self, _name):
        pass


def update_display(obj, *, display_id=None, **options):
    display(obj, **options)


def publish_display_data(data, *_args, **_options):
    show_bundle(data)


def clear_output(*_args, **_options):
    """Nothing: what a person has seen stays on the terminal."""


def ignore(*_args, **_options):
    """For settings that mean nothing here."""


class DisplayObject:
    """Base of what the stand-in for IPython.display offers; shown as text."""

    def __init__(self, data=None, url=None, filename=None, *_args,
                 **_options):
        self.path = None
        self.url = url
        if isinstance(data, os.PathLike):
            filename, data = data, None
        elif isinstance(self, Image) and isinstance(data, str):
            if data.startswith(("http:", "https:")):
                self.url, data = data, None
            else:
                filename, data = data, None
        if data is None and filename is not None:
            self.path = os.path.realpath(filename)
            with open(filename, "rb") as file:
                data = file.read()
        if isinstance(data, bytes) and not isinstance(self, Image):
            data = data.decode("utf-8", "replace")
        self.data = data

    def __repr__(self):
        if self.data is None and self.url is not None:
            return "[%s: %s]" % (type_name(self), self.url)
        return "" if self.data is None else str(self.data)


class TextDisplayObject(DisplayObject):
    pass


class Pretty(TextDisplayObject):
    pass


class Markdown(TextDisplayObject):
    pass


class Latex(TextDisplayObject):
    pass


class Math(TextDisplayObject):
    pass


class Code(TextDisplayObject):
    pass


class HTML(TextDisplayObject):
    def __repr__(self):
        import html
        text = re.sub(r"(?is)<(script|style)\b.*?</\1>", "", str(self.data))
        text = re.sub(r"(?i)</t[dh]>\s*(?=<t[dh])", "\t", text)
        text = re.sub(r"(?i)<br\s*/?>|</(tr|p|div|li|h[1-6]|table)>", "\n",
                      text)
        text = html.unescape(re.sub(r"<[^>]*>", "", text))
        return re.sub(r"\n\s*\n\s*\n+", "\n\n", text).strip()


class JSON(DisplayObject):
    def __repr__(self):
        import json
        data = self.data
        try:
            if isinstance(data, str):
                data = json.loads(data)
            return json.dumps(data, indent=2, ensure_ascii=False,
                              default=safe_text)
        except Exception:
            return safe_text(data)


class GeoJSON(JSON):
    pass


class Image(DisplayObject):
    def _repr_png_(self):
        size = part("show").png_size
        if size(self.data) or not isinstance(self.data, bytes):
            return self.data
        import io
        from PIL import Image as pillow
        picture = pillow.open(io.BytesIO(self.data))
        if picture.size[0] * picture.size[1] > MAX_PIXELS:
            return None
        buffer = io.BytesIO()
        if picture.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
            picture = picture.convert("RGB")
        picture.save(buffer, "PNG")
        return buffer.getvalue()

    def sandpiper_show(self, name):
        show = part("show")
        if self.data is None:
            note("display", "A picture can't be fetched from here: there is "
                 "no network. Give the name of a file.")
            return
        if show.png_size(self.data) is None:
            try:
                self.data = self._repr_png_()
            except Exception:
                self.data = None
        if show.png_size(self.data):
            show.show_file(self, self.path, name)
        else:
            note("display", "%s is not shown: it is no picture that can be "
                 "read, or one of more than %d million pixels."
                 % (self.name(), MAX_PIXELS // 1000000))

    def name(self):
        return "This picture" if self.path is None else cut(
            os.path.basename(self.path), 100)

    def __repr__(self):
        size = part("show").png_size(self.data)
        return "[picture%s]" % (", %d x %d pixels" % size if size else "")


class Refused(DisplayObject):
    """What no terminal shows; a note says so."""

    def __init__(self, *_args, **_options):
        self.path = self.url = self.data = None

    def sandpiper_show(self, _name):
        note("display", "%s can't be shown in a terminal. Write a file below "
             "output and display() its path to hand it over."
             % type_name(self))

    def __repr__(self):
        return "[%s: not shown]" % type_name(self)


class FileLink:
    """Offers a file of the workspace."""

    def __init__(self, path, *_args, **_options):
        self.path = os.fspath(path)

    def __repr__(self):
        return self.path

    def files(self):
        return [self.path]

    def sandpiper_show(self, _name):
        files = self.files()
        if not any([offer_file(path) for path in files]):
            note("display", "There is no such file in the workspace: %s"
                 % cut(self.path, 200))


class FileLinks(FileLink):
    """Offers the files of a directory, at most 20."""

    def files(self):
        try:
            paths = [os.path.join(self.path, name)
                     for name in sorted(os.listdir(self.path))]
        except OSError:
            return []
        return [path for path in paths if os.path.isfile(path)][:20]


def refused_class(name):
    return type(name, (Refused,), {})


def display_as(kind):
    def shows(*objects, raw=False, **_options):
        for obj in objects:
            kernel.show(kind(obj) if raw else obj)
    return shows


SHOWN_AS = {"pretty": Pretty, "html": HTML, "markdown": Markdown,
            "latex": Latex, "png": Image, "jpeg": Image, "json": JSON}
NO_TERMINAL = ("Audio", "Video", "IFrame", "YouTubeVideo", "VimeoVideo",
               "ScribdDocument", "Javascript", "SVG", "ProgressBar")


def display_names():
    """What IPython.display offers, by name."""
    names = {c.__name__: c for c in (
        DisplayHandle, DisplayObject, TextDisplayObject, Pretty, Markdown,
        Latex, Math, Code, HTML, JSON, GeoJSON, Image, FileLink, FileLinks)}
    for name in NO_TERMINAL:
        names[name] = refused_class(name)
    for name, kind in SHOWN_AS.items():
        names["display_" + name] = display_as(kind)
    for name in ("svg", "javascript", "pdf"):
        names["display_" + name] = display_as(names["Javascript"])
    names.update(
        display=kernel.display, update_display=update_display,
        publish_display_data=publish_display_data, clear_output=clear_output,
        set_matplotlib_formats=ignore, set_matplotlib_close=ignore)
    return names


NAMES = display_names()


# Stand-ins for modules -----------------------------------------------------

class InteractiveShell:
    """Where notebooks set how much of a cell is shown."""

    ast_node_interactivity = "last_expr"

    @staticmethod
    def instance(*_args, **_options):
        return kernel.get_ipython()


def fill_module(module):
    """Fills a stand-in of StandIn."""
    name = module.__name__
    if name == "nest_asyncio":
        module.apply = ignore
        return
    module.get_ipython = kernel.get_ipython
    if "display" in name:
        vars(module).update(NAMES)
    elif name == "IPython":
        module.version_info = (9, 0, 0, "")
        module.__version__ = "9.0.0"
    elif name.endswith("interactiveshell"):
        module.InteractiveShell = InteractiveShell
    elif name.endswith("pylabtools"):
        # Older versions of matplotlib ask for it.
        module.backend2gui = {}


def after_ipython(module):
    module.get_ipython = kernel.get_ipython


def after_display(module):
    for name, thing in NAMES.items():
        if name == "display" or hasattr(module, name):
            setattr(module, name, thing)


def after_getpass(module):
    module.getpass = module.unix_getpass = refuse("getpass.getpass()")


def after_pdb(module):
    for name in ("set_trace", "post_mortem", "pm", "run", "runcall",
                 "runeval"):
        setattr(module, name, refuse("pdb.%s()" % name,
                                     "Print the values instead."))


def after_multiprocessing(module):
    """Functions of cells are found in a forked child only; from Python 3.14
    on another way is the default."""
    if sys.version_info >= (3, 14):
        module._default_context._default_context = \
            module._concrete_contexts["fork"]


AFTER_IMPORT = {
    "IPython": after_ipython, "IPython.display": after_display,
    "IPython.core.display": after_display, "getpass": after_getpass,
    "pdb": after_pdb, "multiprocessing.context": after_multiprocessing}
