#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: xterm_shot.sh OUT.png DONE-FILE COMMAND [ARGUMENT...]
#
# Shows COMMAND in a real xterm (as a VT340, so with sixel) on an X server that
# draws into memory, and writes a picture of the window to OUT.png once
# DONE-FILE exists and the window has stopped changing. COLUMNSxROWS come from
# SHOT_SIZE (100x50), the deadline from SHOT_SECONDS (60).
#
# Status 77: a program that is needed is missing; its name is on stderr.
set -eu

if [ $# -lt 3 ]; then
    echo "usage: xterm_shot.sh OUT.png DONE-FILE COMMAND [ARGUMENT...]" >&2
    exit 2
fi
out=$1
finished=$2
shift 2
for tool in Xvfb xterm xwd convert; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "$tool is not installed" >&2
        exit 77
    }
done

work=$(mktemp -d)
server=
terminal=
stop() {
    status=$?
    trap - EXIT
    for pid in $terminal $server; do
        kill "$pid" 2>/dev/null || :
        wait "$pid" 2>/dev/null || :
    done
    rm -rf "$work"
    exit "$status"
}
trap stop EXIT
trap 'exit 143' HUP INT TERM

# The server itself picks a free display and says which.
Xvfb -displayfd 3 -screen 0 1400x1200x24 -nolisten tcp \
    3>"$work/display" >"$work/log" 2>&1 &
server=$!
end=$(($(date +%s) + ${SHOT_SECONDS:-60}))
until [ -s "$work/display" ]; do
    kill -0 "$server" 2>/dev/null || {
        cat "$work/log" >&2
        exit 1
    }
    [ "$(date +%s)" -lt "$end" ] || exit 1
    sleep 0.05
done
DISPLAY=:$(cat "$work/display")
export DISPLAY

xterm -ti vt340 -geometry "${SHOT_SIZE:-100x50}+0+0" -bg white -fg black \
    -xrm 'XTerm*numColorRegisters: 256' -e "$@" >"$work/xterm.log" 2>&1 &
terminal=$!

# A window that two pictures in a row show alike has been drawn.
before=none
while :; do
    if [ -e "$finished" ] && xwd -root -silent -out "$work/shot.xwd" \
        2>/dev/null; then
        now=$(cksum <"$work/shot.xwd")
        if [ "$now" = "$before" ]; then
            break
        fi
        before=$now
    fi
    kill -0 "$terminal" 2>/dev/null || {
        echo "xterm has ended" >&2
        cat "$work/xterm.log" >&2
        exit 1
    }
    if [ "$(date +%s)" -ge "$end" ]; then
        echo "nothing was drawn in time" >&2
        exit 1
    fi
    sleep 0.3
done
convert "$work/shot.xwd" "$out"
