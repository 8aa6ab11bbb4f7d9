# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the kernel that describes errors: tracebacks, hints.

No triple single quotes in this file; see part() in local_kernel.py.
"""
import errno
import re
import sys

import sandpiper_kernel as kernel
from sandpiper_kernel import (
    S, cut, modules, remember_source, reraise_interrupt, safe_text, type_name)

KERNEL_FILES = kernel.HERE[:-3]
# Code that libraries make up as they go.
MADE_UP = ("<frozen ", "<__array_function__", "<decorator-gen", "<attrs ",
           "<lambdifygenerated")


# Sources of extension modules, as these name them.
COMPILED = (".pyx", ".pxi", ".pxd", ".rs")


def is_kernel(filename):
    return filename == kernel.HERE or filename.startswith(KERNEL_FILES + "_")


def is_own(filename):
    """Whether a frame is of the user's code: cells, what they exec, and files
    that belong neither to Python nor to an installed package."""
    if is_kernel(filename):
        return False
    if filename.startswith("<"):
        return not filename.startswith(MADE_UP)
    if filename.endswith(COMPILED):
        return False
    return not any(filename.startswith(path + "/") for path in S.paths)


def keep_user_frames(summary, seen):
    """Leaves only the user's frames, if any, and says whether there are.
    Causes wholly inside a library are left out."""
    if summary is None or id(summary) in seen:
        return False
    seen.add(id(summary))
    frames = [f for f in summary.stack if not is_kernel(f.filename)]
    own = [f for f in frames if is_own(f.filename)]
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
        if not is_kernel(tb.tb_frame.f_code.co_filename):
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


# What looking up a name, and a socket of another family, end with in here.
NO_NETWORK = (errno.EAFNOSUPPORT, errno.ENETUNREACH, errno.EADDRNOTAVAIL)


def network_hint(error):
    """For what failed since there is no network, however deep that is."""
    for _ in range(10):
        if isinstance(error, OSError) and (type_name(error) == "gaierror"
                                           or error.errno in NO_NETWORK):
            return "no network in the sandbox, by design"
        error = getattr(error, "reason", None) or error.__cause__ \
            or error.__context__
        if not isinstance(error, BaseException):
            return None
    return None


def package_hint(error):
    """For a package that is not there."""
    if isinstance(error, ModuleNotFoundError) and type(error.name) is str \
            and "." not in error.name:
        return "packages cannot be installed from a cell"
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
        hint = column_hint(error) or not S.online and (
            network_hint(error) or package_hint(error))
    except BaseException as other:
        reraise_interrupt(other)
        hint = None
    if hint:
        described["hint"] = hint
    return described
