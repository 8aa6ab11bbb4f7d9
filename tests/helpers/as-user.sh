#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: as-user.sh COMMAND [ARGUMENT...]
#
# Runs a command as an ordinary user that has no account, with an empty HOME
# and TMPDIR of its own; for root only. Where that user cannot reach the build
# tree (below a closed home, for instance), the command runs in a copy of what
# the tests need, and the paths in the arguments and in SANDPIPER,
# SANDPIPER_PICTURE, SANDPIPER_WARDEN, abs_top_srcdir and abs_top_builddir are
# changed to it.
set -eu

if [ $# -eq 0 ]; then
    echo "usage: as-user.sh COMMAND [ARGUMENT...]" >&2
    exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "as-user.sh: only root can become another user" >&2
    exit 2
fi

# A uid of each run's own: limits on processes are counted by uid.
uid=$((50000 + $$ % 9000))
while getent passwd "$uid" >/dev/null 2>&1; do
    uid=$((uid + 1))
done

# Not below TMPDIR, which may be closed to the user.
base=$(mktemp -d /tmp/sandpiper-user.XXXXXX)
trap 'rm -rf "$base"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$base"
mkdir -m 700 "$base/home" "$base/tmp"
chown "$uid:$uid" "$base/home" "$base/tmp"

as_user() {
    if command -v setpriv >/dev/null 2>&1; then
        setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
    else
        python3 -c 'import os, sys
uid = int(sys.argv[1])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.execvp(sys.argv[2], sys.argv[2:])' "$uid" "$@"
    fi
}

src=${abs_top_srcdir-}
build=${abs_top_builddir-}
if [ -n "$src" ] && [ -n "$build" ] && ! {
    as_user test -r "$src/configure.ac" &&
        as_user test -x "$build/sandpiper" &&
        as_user test -x "$build/sandpiper-picture" &&
        as_user test -x "$build/sandpiper-warden"
} 2>/dev/null; then
    tree=$base/tree
    mkdir "$tree" "$tree/tests"
    for name in sandpiper sandpiper-picture sandpiper-warden \
        config.status; do
        [ ! -e "$build/$name" ] || cp "$build/$name" "$tree/"
    done
    for name in share src include man configure.ac; do
        [ ! -e "$src/$name" ] || cp -R "$src/$name" "$tree/"
    done
    # Unit tests and fuzz targets are large and not run this way.
    for name in "$src"/tests/*; do
        case ${name##*/} in
        unit | fuzz) ;;
        *) cp -R "$name" "$tree/tests/" ;;
        esac
    done
    for name in "$build"/tests/helpers/*_driver; do
        [ ! -x "$name" ] || cp "$name" "$tree/tests/helpers/"
    done
    chmod -R a+rX "$tree"
    for argument; do
        shift
        case $argument in
        "$src"/*) argument=$tree/${argument#"$src"/} ;;
        "$build"/*) argument=$tree/${argument#"$build"/} ;;
        esac
        set -- "$@" "$argument"
    done
    abs_top_srcdir=$tree
    abs_top_builddir=$tree
    srcdir=$tree
    SANDPIPER=$tree/sandpiper
    SANDPIPER_PICTURE=$tree/sandpiper-picture
    SANDPIPER_WARDEN=$tree/sandpiper-warden
    SANDBOX_DRIVER=$tree/tests/helpers/sandbox_driver
    LINEEDIT_DRIVER=$tree/tests/helpers/lineedit_driver
    TURN_DRIVER=$tree/tests/helpers/turn_driver
    E2B_API_DRIVER=$tree/tests/helpers/e2b_api_driver
    export abs_top_srcdir abs_top_builddir srcdir SANDPIPER SANDPIPER_PICTURE
    export SANDPIPER_WARDEN
    export SANDBOX_DRIVER LINEEDIT_DRIVER TURN_DRIVER E2B_API_DRIVER
    cd "$tree"
fi

HOME=$base/home
TMPDIR=$base/tmp
export HOME TMPDIR
unset USER LOGNAME MAIL XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_STATE_HOME \
    XDG_DATA_HOME XDG_CACHE_HOME SUDO_USER SUDO_UID SUDO_GID SUDO_COMMAND

status=0
as_user "$@" || status=$?
exit "$status"
