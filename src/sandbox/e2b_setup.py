# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the kernel that lives in somebody else's interpreter: that of a
service, which has its own main loop, its own streams and its own ways to show
things. The client sends each request as a cell there that calls hosted(), and
gets each event as something that the cell shows, under a media type of ours.
So a cell runs by the code that runs it in the local sandbox, and gives the
same.

No triple single quotes in this file; see part() in local_kernel.py.
"""
import builtins
import fcntl
import os
import signal
import sys
import termios
import time
import types

import sandpiper_kernel as kernel
from sandpiper_kernel import S, TABLE, modules, part

EVENT = "application/x-sandpiper-event.v1+json"
# The client drops whole what has more than 1 MiB within one value.
MAX_VALUE_BYTES = 900000
DRAIN_SECONDS = 0.5
# What the interpreter gives to cells, and the kernel has its own of; and what
# it keeps of cells, which are ours.
NAMES = ("display", "get_ipython", "input", "exit", "quit")
HISTORY = ("In", "Out")
# By which the client names this module in the namespace of cells.
KERNEL = "_sandpiper_kernel"


class Host:
    """The interpreter around this; one instance, H."""

    publish = None
    names = {}
    originals = {}
    # What cells have put in the place of builtins.
    replaced = {}


H = Host()


# Events --------------------------------------------------------------------

def find_publish():
    """The function that sends data by media type to the client."""
    display = modules.get("IPython.core.getipython")
    shell = display.get_ipython() if display is not None else None
    if shell is not None:
        publish = shell.display_pub.publish
        return lambda bundle: publish(data=bundle)
    display = S.namespace["display"]
    return lambda bundle: display(bundle, raw=True)


def n_waiting(fd):
    """Bytes in a pipe that nobody has read yet; None where it is no pipe."""
    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)),
                              sys.byteorder)
    except OSError:
        return None


def drain():
    """What commands have printed comes by pipes that a thread of the
    interpreter reads: it has its place before the event, and is lost behind
    the end of the cell."""
    end = time.monotonic() + DRAIN_SECONDS
    pipes = [fd for fd in (1, 2) if n_waiting(fd) is not None]
    while any(map(n_waiting, pipes)) and time.monotonic() < end:
        time.sleep(0.001)
    # What has been read may not have been passed on.
    if pipes:
        time.sleep(0.001)


def write_event(event, mark):
    """In place of the kernel's. What the interpreter sends it by looks names up
    among the builtins, which a cell may have replaced."""
    kernel.with_builtins(send_event, event, mark)


def send_event(event, mark):
    """The text has a first character of its own, since the service takes away
    quotes around it."""
    if event["ev"] == "begin":
        return
    data = event.pop("data", {})
    bundle = {EVENT: event}
    if "image/png" in data:
        bundle["image/png"] = data["image/png"]
    if "text/plain" in data:
        bundle["text/plain"] = "=" + data["text/plain"]
    if TABLE in data:
        bundle[TABLE] = data[TABLE]
        if len(kernel.dumps(data[TABLE])) > MAX_VALUE_BYTES:
            del bundle[TABLE]
    with S.lock:
        kernel.flush_output()
        if mark:
            drain()
        line = kernel.dumps(event)
        S.sent_bytes += len(line) + sum(
            len(v) for v in bundle.values() if type(v) is str)
        H.publish(bundle)


# Requests ------------------------------------------------------------------

class Requests:
    """A cell that is here has not been given up."""

    @staticmethod
    def may_begin(_request_id):
        return True


def original_of(save):
    """What a function in place of Pillow's calls, if that is Pillow's own."""
    code = getattr(save, "__code__", None)
    if code is None or code.co_filename.startswith("<cell "):
        return None
    found = [save.__globals__.get(name) for name in code.co_names]
    for cell in save.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            pass
    return next((f for f in found if type(f) is types.FunctionType
                 and f.__module__ == "PIL.Image" and f.__name__ == "save"),
                None)


def undo_showing():
    """Services show each picture that is saved, and so a chart twice."""
    image = getattr(modules.get("PIL.Image"), "Image", None)
    save = getattr(image, "save", None)
    if getattr(save, "__module__", "PIL.Image") != "PIL.Image":
        original = original_of(save)
        if original is not None:
            image.save = original


def without_loop(function):
    """Calls function as if no loop of asyncio were running, as some
    interpreters have one around a cell."""
    asyncio = modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio is not None else None
    if loop is None:
        return function()
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        return function()
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


def put_builtins_back():
    """The interpreter, and what it runs before the next cell, look names up
    there."""
    current = vars(builtins)
    H.replaced = {
        name: current[name] for name, original in H.originals.items()
        if name in current and current[name] is not original
        and kernel.is_like(current[name], original)}
    current.update(H.originals)


def hosted(line):
    """Handles one request of the client."""
    handler = signal.getsignal(signal.SIGINT)
    mask = kernel.pthread_sigmask(signal.SIG_BLOCK, ())
    S.namespace.pop(KERNEL, None)
    vars(builtins).update(H.replaced)
    vars(builtins).update(H.names)
    undo_showing()
    try:
        signal.signal(signal.SIGINT, kernel.on_sigint)
        without_loop(lambda: kernel.handle(line))
    finally:
        kernel.restore_process()
        signal.signal(signal.SIGINT, handler)
        kernel.pthread_sigmask(signal.SIG_SETMASK, mask)
        put_builtins_back()


def op_remove(request):
    """Removes the file of a snapshot."""
    path = os.path.join(S.workspace, str(request.get("path")))
    for remove, name in ((os.unlink, path), (os.rmdir, os.path.dirname(path))):
        try:
            remove(name)
        except OSError:
            pass
    kernel.emit({"ev": "remove", "id": request.get("id")}, mark=False)


# Set-up --------------------------------------------------------------------

def hide_names(user):
    """Names that are there before the first cell are not the person's."""
    for name in NAMES + HISTORY:
        user.__dict__.pop(name, None)
    S.theirs = dict(user.__dict__)


def prepare_streams():
    S.streams = {1: sys.stdout, 2: sys.stderr}
    for fd in (1, 2):
        S.spare[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
        S.files[fd] = kernel.file_of(fd)
    S.files["waking"] = 0
    S.base_mask = kernel.pthread_sigmask(signal.SIG_BLOCK, ())

    def after_fork():
        S.child = True
    os.register_at_fork(after_in_child=after_fork)


def take_over():
    """What the interpreter has imported already, and its own ways to show."""
    os.environ["MPLBACKEND"] = "agg"
    for name, where in list(kernel.WATCHED.items()) + [
            ("IPython.core.display_functions", "display")]:
        if name not in modules:
            continue
        table = part(where).AFTER_IMPORT
        table.get(name, table.get("IPython.display"))(modules[name])
    if "matplotlib.pyplot" in modules:
        modules["matplotlib.pyplot"].switch_backend("agg")
    shell = modules.get("IPython.core.getipython")
    shell = shell.get_ipython() if shell is not None else None
    # A whole data frame by each display() of it.
    formatter = getattr(shell, "display_formatter", None)
    getattr(formatter, "formatters", {}).pop("e2b/data", None)


def begin(workspace, figure, online):
    user = modules["__main__"]
    S.namespace = user.__dict__
    H.publish = find_publish()
    kernel.write_event = write_event
    kernel.hosted = hosted
    kernel.OPS["remove"] = op_remove
    S.requests = Requests()
    S.figure, S.online = figure, online
    os.chdir(workspace)
    hide_names(user)
    prepare_streams()
    part("start").prepare_cells(user)
    H.names = {name: vars(builtins)[name] for name in NAMES}
    # The last value that was shown is no builtin.
    H.originals = {name: value for name, value in vars(builtins).items()
                   if name not in NAMES and name != "_"}
    take_over()
    S.known = set(modules)
    S.libraries = part("start").find_libraries()
    kernel.emit({"ev": "ready", "python": sys.version.split()[0],
                 "executable": sys.executable, "pid": os.getpid(),
                 "group": os.getpgrp() == os.getpid()}, mark=False)
