# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the kernel that runs scripts: a program in a process of its own,
whose output goes straight to the pipes of cells. No triple single quotes in
this file; see part() in local_kernel.py.
"""
import _signal
import os
import signal

import sandpiper_kernel as kernel
from sandpiper_kernel import (
    HELD, S, call_user, cut, emit, getsignal, safe_text, type_name)

# Named by a script, these are the Python of the cells, wherever PATH leads.
PYTHONS = ("python", "python3")
IGNORED = int(signal.SIG_IGN)


def environment(extra):
    """That of the interpreter when it started: nothing of what cells have done
    to theirs. What is printed comes at once."""
    found = dict(S.environ)
    found["PYTHONUNBUFFERED"] = "1"
    for text in extra:
        name, _, value = text.partition("=")
        found[name] = value
    return found


class Handlers:
    """Those of cells wait until a script has ended and its end is told: one
    may raise at any point before. What a cell ignores, as the ends of children,
    is not ignored meanwhile, nor by the script."""

    def __init__(self):
        self.before = {}
        self.came = set()

    def keep(self, number, _frame):
        self.came.add(number)

    def hold(self):
        """Again, if one that is not held yet raises here."""
        done = False
        keep = self.keep
        while not done:
            try:
                for number in HELD - {signal.SIGINT}:
                    handler = getsignal(number)
                    if handler is not keep and \
                            (callable(handler) or handler == IGNORED):
                        self.before[number] = handler
                        _signal.signal(number, keep)
                done = True
            except BaseException:
                pass

    def release(self):
        while self.before:
            try:
                for number, handler in list(self.before.items()):
                    _signal.signal(number, handler)
                    self.before.pop(number)
                    if number in self.came and callable(handler):
                        _signal.raise_signal(number)
            except BaseException:
                pass


def start(request):
    """Spare descriptors, since cells may have closed 0 to 2. A session of its
    own, so that what is meant for cells does not reach it."""
    import subprocess
    argv = list(request["argv"])
    if argv[0] in PYTHONS:
        argv[0] = S.python
    umask = os.umask(S.umask)
    try:
        return subprocess.Popen(
            argv, cwd=os.path.join(S.workspace, request["dir"]),
            env=environment(request.get("env") or ()), stdin=S.spare[0],
            stdout=S.spare[1], stderr=S.spare[2], close_fds=True,
            start_new_session=True)
    finally:
        os.umask(umask)


def wait(pid):
    """Leaves the process to be collected: an interrupt may come in between."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def wait_to_end(process):
    """Passes interrupts on, as often as they come. Whether there was one, and
    how it ended: what subprocess says is 0 where a thread of a cell was
    faster."""
    stopped = False
    while True:
        end, error = call_user(lambda: wait(process.pid))
        if error is None:
            break
        if not isinstance(error, KeyboardInterrupt):
            raise error
        stopped = True
        try:
            os.killpg(process.pid, signal.SIGINT)
        except OSError:
            pass
    process.wait()
    return stopped, end


def run(request):
    """What is said of its end."""
    try:
        process = start(request)
        stopped, end = wait_to_end(process)
    except Exception as error:
        return {"error": {"name": type_name(error)[:256],
                          "value": cut(safe_text(error), 4096)}}
    kind = "exit" if end.si_code == os.CLD_EXITED else "signal"
    return {"stopped": stopped, kind: end.si_status}


def run_and_tell(request):
    """As a cell: taken, begun, and ended by one event behind its output."""
    kernel.begin_request(request)
    if not S.requests.may_begin(S.id):
        S.in_cell = False
        return
    S.mute = True
    emit({"ev": "begin", "id": S.id}, mark=False)
    kernel.restore_process()
    answer = kernel.with_builtins(run, request)
    kernel.restore_process()
    S.in_cell = False
    emit(dict({"ev": "script", "id": S.id, "m": 0}, **answer))


def op_script(request):
    handlers = Handlers()
    handlers.hold()
    try:
        run_and_tell(request)
    finally:
        handlers.release()
