#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Notes on style depend on which manuals this machine has, so warnings decide.
set -eu
. tests/lint/common.sh

need mandoc
find_files -path 'man/*.[1-9]' | xargs -r mandoc -Tlint -Wwarning
