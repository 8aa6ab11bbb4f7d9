# SPDX-License-Identifier: GPL-3.0-or-later
"""The process in which the cells of one bash context run: as e2b_kernel.py,
with a shell that lives on."""

import datetime
import json
import os
import select
import signal
import subprocess
import sys

LOOP = r"""
while IFS= read -r -d '' -u 50 CELL; do
    eval "$CELL" 50<&- 51>&-
    printf '%s\n' "$?" >&51
done
"""


def main():
    requests = os.fdopen(os.dup(0), "rb")
    events = os.fdopen(int(sys.argv[1]), "wb", buffering=0)
    os.set_inheritable(events.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipes = [os.pipe() for _ in range(4)]
    (out, out_w), (err, err_w), (cells_r, cells), (ends, ends_w) = pipes
    os.dup2(cells_r, 50)
    os.dup2(ends_w, 51)
    shell = subprocess.Popen(
        ["/bin/bash", "--norc", "-c", "trap : INT\n" + LOOP],
        stdin=subprocess.DEVNULL, stdout=out_w, stderr=err_w,
        pass_fds=(50, 51), preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL))
    for fd in (out_w, err_w, cells_r, ends_w, 50, 51):
        os.close(fd)

    def emit(**event):
        events.write(json.dumps(event).encode() + b"\n")

    count = 0
    for line in requests:
        request = json.loads(line)
        silent = request.get("silent")
        if not silent:
            count += bool(request["code"].strip())
            emit(type="number_of_executions", execution_count=count)
        os.write(cells, request["code"].encode() + b"\0")
        status = None
        while True:
            ready = select.select([out, err] if status is not None
                                  else [out, err, ends], [], [],
                                  0 if status is not None else None)[0]
            for fd in ready:
                data = os.read(fd, 65536)
                if fd == ends:
                    if not data:
                        os._exit(shell.wait())
                    status = int(data)
                elif data and not silent:
                    now = datetime.datetime.now(datetime.timezone.utc)
                    emit(type="stdout" if fd == out else "stderr",
                         text=data.decode("utf-8", "replace"),
                         timestamp=now.isoformat())
            if not ready:
                break
        emit(type="done")


if __name__ == "__main__":
    main()
