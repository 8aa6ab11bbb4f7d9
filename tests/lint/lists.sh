#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The lists of files in the makefiles are complete.
set -eu
exec sh build-aux/lists.sh check 2>&1
