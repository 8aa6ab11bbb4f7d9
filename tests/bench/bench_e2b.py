#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures an upload to a service, which here is the fake: the memory that it
takes of the client, and how long Ctrl-C in the middle of it takes.

    bench_e2b.py [--runs N]

UPLOAD_MIB is the size, 1024 if not set.
"""

import argparse
import os
import statistics
import sys

os.environ.setdefault("UPLOAD_MIB", "1024")

HERE = os.path.dirname(os.path.abspath(__file__))
for _name in ("e2e", "helpers", "fakes"):
    sys.path.insert(0, os.path.join(HERE, "..", _name))

from claude_server import ClaudeServer  # noqa: E402
from e2b_server import E2bServer, unavailable  # noqa: E402
from program import Place  # noqa: E402
from test_e2b_upload import (GROWTH_MIB, STOP_MS, UPLOAD_MIB,  # noqa: E402
                             seconds_to_stop, upload)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    why = unavailable()
    if why:
        print("| upload to a service | not measured: %s | | | |" % why)
        return 0
    growth = upload("0.6.13")
    print("| memory for an upload of %d MiB | %.1f MiB | | | at most %d MiB |"
          % (UPLOAD_MIB, growth, GROWTH_MIB))
    times = []
    for _ in range(args.runs):
        with E2bServer(drop=True) as server, Place() as place, \
                ClaudeServer() as claude:
            times.append(seconds_to_stop(server, place, claude))
    took = statistics.median(times) * 1000
    print("| Ctrl-C in the middle of it, to the prompt | %.0f ms | | | at most "
          "%d ms |" % (took, STOP_MS))
    return 0 if growth <= GROWTH_MIB and took <= STOP_MS else 1


if __name__ == "__main__":
    sys.exit(main())
