#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: run.sh   (from the build tree; make bench calls it)
#
# Prints the figures of docs/performance.md: medians, and ratios to a peer that
# was measured in turn with the program in the same run. All are measured even
# if one is not as it must be; the status says whether all are.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
status=0
python3 "$here/bench.py" "$@" || status=1
# Not the first one of PATH: the peers are packages of the system.
/usr/bin/python3 "$here/bench_sandbox.py" "$@" || status=1
if [ -x ./tests/bench/bench_stream ]; then
    ./tests/bench/bench_stream || status=1
fi
python3 "$here/bench_screen.py" || status=1
python3 "$here/bench_e2b.py" || status=1
exit "$status"
