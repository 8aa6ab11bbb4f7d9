#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: run.sh   (from the build tree; make bench calls it)
#
# Prints the figures of docs/performance.md: medians, and ratios to a peer that
# was measured in turn with the program in the same run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec /usr/bin/env PYTHONDONTWRITEBYTECODE=1 python3 "$here/bench.py" "$@"
