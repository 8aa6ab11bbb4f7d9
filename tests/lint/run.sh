#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: tests/lint/run.sh [CHECK...]
#
# make lint: runs the checks named, or all, and prints TAP. Ends with 1 when
# one found something; what needs a tool that is not there is skipped.
set -eu

[ $# -gt 0 ] || set -- format layers headers banned spdx lists shell python \
    spelling mandoc man attacks
[ -f tests/lint/layers.txt ] || cd "$(dirname "$0")/../.."

echo "1..$#"
number=0
failed=0
for check; do
    number=$((number + 1))
    status=0
    found=$(sh "tests/lint/$check.sh" 2>&1) || status=$?
    case $status in
    0) echo "ok $number - lint $check" ;;
    77)
        echo "ok $number - lint $check # SKIP $(printf '%s\n' "$found" |
            tail -n 1)"
        ;;
    *)
        [ -z "$found" ] || printf '%s\n' "$found" | sed 's/^/# /'
        echo "not ok $number - lint $check"
        failed=$((failed + 1))
        ;;
    esac
done
if [ "$failed" -gt 0 ]; then
    echo "make lint: $failed of $number checks found something" >&2
    exit 1
fi
