# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the kernel that runs scripts: a program in a process of its own,
whose output goes straight to the pipes of cells. No triple single quotes in
this file; see part() in local_kernel.py.
"""
import os
import signal

import sandpiper_kernel as kernel
from sandpiper_kernel import S, call_user, cut, emit, safe_text, type_name

# Named by a script, these are the Python of the cells, wherever PATH leads.
PYTHONS = ("python", "python3")


def environment(extra):
    """That of the interpreter when it started: nothing of what cells have done
    to theirs. What is printed comes at once."""
    found = dict(S.environ)
    found["PYTHONUNBUFFERED"] = "1"
    for text in extra:
        name, _, value = text.partition("=")
        found[name] = value
    return found


def start(request):
    """Spare descriptors, since cells may have closed 0 to 2. A session of its
    own, so that what is meant for cells does not reach it. A cell may ignore
    the ends of children."""
    import subprocess
    argv = list(request["argv"])
    if argv[0] in PYTHONS:
        argv[0] = S.python
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return subprocess.Popen(
        argv, cwd=os.path.join(S.workspace, request["dir"]),
        env=environment(request.get("env") or ()), stdin=S.spare[0],
        stdout=S.spare[1], stderr=S.spare[2], close_fds=True,
        start_new_session=True)


def wait(pid):
    """Leaves the process to be collected: an interrupt may come in between."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def wait_to_end(process):
    """Passes interrupts on, as often as they come. Whether there was one, and
    how it ended: what subprocess says is 0 where a thread of a cell was faster.
    A cell's handler of another signal may raise what it likes meanwhile."""
    stopped = False
    while True:
        end, error = call_user(lambda: wait(process.pid))
        if error is None:
            break
        if isinstance(error, OSError) and error.errno is not None:
            raise error
        if not isinstance(error, KeyboardInterrupt):
            continue
        stopped = True
        try:
            os.killpg(process.pid, signal.SIGINT)
        except OSError:
            pass
    process.wait()
    return stopped, end


def run(request):
    """What is said of its end."""
    before = signal.getsignal(signal.SIGCHLD)
    try:
        process = start(request)
        stopped, end = wait_to_end(process)
    except Exception as error:
        return {"error": {"name": type_name(error)[:256],
                          "value": cut(safe_text(error), 4096)}}
    finally:
        if before is not None:
            signal.signal(signal.SIGCHLD, before)
    kind = "exit" if end.si_code == os.CLD_EXITED else "signal"
    return {"stopped": stopped, kind: end.si_status}


def op_script(request):
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
