#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# make check-clean: the commands of the README on a fresh Debian that holds git,
# apt, sudo and certificates, and nothing else.
#
# Two such trees are made by debootstrap from this machine's own package
# sources. In one root runs everything, in the other a user with sudo: each in
# a clone of what is committed here. A tree is entered by pivot_root in mount
# and process namespaces of its own and not by chroot, where the kernel refuses
# user namespaces, so that the sandbox could not be tried. What was started
# ends, and what was mounted is gone, when the namespaces end.
#
# For root. CHECK_CLEAN_SUITE names another suite than bookworm,
# CHECK_CLEAN_MIRROR another mirror, CHECK_CLEAN_STEPS fewer steps
# (of: demo again check), CHECK_CLEAN_DIR a directory with 8 GB.
set -eu

self=$(cd "$(dirname "$0")" && pwd)/${0##*/}
top=$(cd "$(dirname "$0")/../.." && pwd)
user=analyst

say() {
    printf '%s\n' "check-clean: $*"
}

die() {
    printf '%s\n' "check-clean: FAILED: $*"
    exit 1
}

# ---- inside, part 3: the steps, as the user they are for -------------------

# run_steps: in the clone. Prints a line for each step; status 1 if one failed.
run_steps() {
    cd "$HOME/sandpiper" || exit 1
    who=$(id -un)
    status=0
    for step in $CHECK_CLEAN_STEPS; do
        begin=$(date +%s)
        step_status=0
        last=
        case $step in
        demo) ./bootstrap demo </dev/null || step_status=$? ;;
        again)
            # The second time needs no network: there is none.
            if [ "$(id -u)" -eq 0 ]; then
                unshare -n ./bootstrap </dev/null || step_status=$?
            else
                sudo unshare -n setpriv --reuid "$(id -u)" \
                    --regid "$(id -g)" --init-groups env HOME="$HOME" \
                    ./bootstrap </dev/null || step_status=$?
            fi
            ;;
        check)
            CI=true ./.ci/run >"$HOME/check.log" 2>&1 || step_status=$?
            cat "$HOME/check.log"
            last=$(tail -n 1 "$HOME/check.log")
            printf '%s\n' "$last" |
                grep -q '^[0-9][0-9]* passed, 0 failed' || step_status=1
            ;;
        *) step_status=2 ;;
        esac
        took=$(($(date +%s) - begin))
        if [ "$step" = again ] && [ "$took" -gt 30 ]; then
            last="slow, over 30 s"
            step_status=1
        fi
        if [ "$step_status" -eq 0 ]; then
            say "ok: $who: $step, $took s ${last:+($last)}"
        else
            say "not ok: $who: $step, $took s, status $step_status" \
                "${last:+($last)}"
            status=1
        fi
    done
    exit "$status"
}

# ---- inside, part 2: process 1 of the new root -----------------------------

run_as() {
    if [ "$1" = root ]; then
        home=/root
        sh /check-clean.sh --steps
    else
        useradd -m -s /bin/sh "$1"
        echo "$1 ALL=(ALL) NOPASSWD: ALL" >"/etc/sudoers.d/$1"
        chmod 440 "/etc/sudoers.d/$1"
        home=/home/$1
        mv /root/sandpiper "$home/sandpiper"
        chown -R "$1:" "$home/sandpiper"
        setpriv --reuid "$1" --regid "$1" --init-groups env HOME="$home" \
            USER="$1" LOGNAME="$1" sh /check-clean.sh --steps
    fi
}

# ---- inside, part 1: mounts, while both roots are there --------------------

enter() {
    root=$1
    who=$2
    mount --bind "$root" "$root"
    cd "$root"
    mount -t proc -o nosuid,nodev,noexec proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
    mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
    mkdir -p old
    pivot_root . old
    cd /
    # Sockets and mounts of the machine are out of reach after this.
    umount -l old
    rmdir old
    exec sh /check-clean.sh --as "$who"
}

case ${1-} in
--steps) run_steps ;;
--as)
    run_as "$2"
    exit
    ;;
--enter) enter "$2" "$3" ;;
esac

# ---- outside ---------------------------------------------------------------

[ "$(id -u)" -eq 0 ] || die "only root can make and enter another root"
for tool in debootstrap unshare pivot_root git apt-get apt-config; do
    command -v "$tool" >/dev/null 2>&1 || die "$tool is not installed"
done
[ -d "$top/.git" ] || [ -f "$top/.git" ] || die "$top is not a git clone"

work=$(mktemp -d "${CHECK_CLEAN_DIR:-/var/tmp}/check-clean.XXXXXX")
cleanup() {
    status=$?
    trap - EXIT
    # Mounts live in namespaces that have ended; should one not have, nothing
    # behind it may be removed.
    rm -rf --one-file-system "$work"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# git and wget look here: the tree may be another user's, and passwords of
# package sources are in a format that wget reads too.
home=$work/home
mkdir -m 700 "$home"
printf '[safe]\n\tdirectory = *\n' >"$home/.gitconfig"
for file in /etc/apt/auth.conf /etc/apt/auth.conf.d/*.conf; do
    [ ! -f "$file" ] || cat "$file" >>"$home/.netrc"
done

if [ -n "$(HOME=$home git -C "$top" status --porcelain)" ]; then
    say "note: what is not committed is not tried"
fi

suite=${CHECK_CLEAN_SUITE:-bookworm}
mirror=${CHECK_CLEAN_MIRROR:-}
if [ -z "$mirror" ]; then
    # shellcheck disable=SC2016  # apt's own variables
    mirror=$(apt-get indextargets --format \
        '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v suite="$suite" '$2 == suite && $3 == "main" { print $1; exit }')
fi
[ -n "$mirror" ] ||
    die "no package source of $suite here; name one in CHECK_CLEAN_MIRROR"

http_from_apt=
https_from_apt=
eval "$(apt-config shell http_from_apt Acquire::http::Proxy \
    https_from_apt Acquire::https::Proxy)"
http_proxy=${http_proxy:-$http_from_apt}
https_proxy=${https_proxy:-$https_from_apt}
no_proxy=${no_proxy:-}

pristine=$work/pristine
say "debootstrap of $suite from $mirror"
# In a mount namespace too: it mounts proc, and may be stopped in between.
HOME=$home http_proxy=$http_proxy https_proxy=$https_proxy no_proxy=$no_proxy \
    unshare -m debootstrap --variant=minbase \
    --include=git,apt,sudo,ca-certificates "$suite" "$pristine" "$mirror" \
    >"$work/debootstrap.log" 2>&1 || {
    tail -n 20 "$work/debootstrap.log"
    tail -n 20 "$pristine/debootstrap/debootstrap.log" 2>/dev/null || :
    die "debootstrap"
}

# How this machine reaches its packages: sources, keys, passwords, proxies,
# certificates, name service. Hooks of other packages stay behind.
copy() {
    for name in "$@"; do
        [ -e "$name" ] || continue
        mkdir -p "$pristine$(dirname "$name")"
        cp -RL --remove-destination "$name" "$pristine$(dirname "$name")/"
    done
}
rm -f "$pristine/etc/apt/sources.list"
copy /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
    /etc/apt/sources.list.d/*.sources /etc/apt/auth.conf \
    /etc/apt/auth.conf.d /etc/apt/keyrings /etc/apt/trusted.gpg \
    /etc/apt/trusted.gpg.d /usr/share/keyrings \
    /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates \
    /etc/resolv.conf /etc/hosts /etc/pip.conf
apt-config dump --format '%F "%v";%n' Acquire |
    grep -v '^Acquire "";' >"$pristine/etc/apt/apt.conf.d/99machine" || :
[ -z "$http_proxy" ] || echo "Acquire::http::Proxy \"$http_proxy\";" \
    >>"$pristine/etc/apt/apt.conf.d/99machine"
[ -z "$https_proxy" ] || echo "Acquire::https::Proxy \"$https_proxy\";" \
    >>"$pristine/etc/apt/apt.conf.d/99machine"

HOME=$home git clone -q --no-hardlinks "$top" "$pristine/root/sandpiper" ||
    die "git clone"
cp "$self" "$pristine/check-clean.sh"

failed=
for who in root "$user"; do
    say "$who: a new tree"
    cp -a "$pristine" "$work/$who"
    # The kernel ends all processes of the namespace with its first one.
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        http_proxy="$http_proxy" https_proxy="$https_proxy" \
        no_proxy="$no_proxy" PIP_INDEX_URL="${PIP_INDEX_URL:-}" \
        CHECK_CLEAN_STEPS="${CHECK_CLEAN_STEPS:-demo again check}" \
        unshare --mount --propagation private --pid --fork --kill-child \
        sh "$self" --enter "$work/$who" "$who" </dev/null ||
        failed="$failed $who"
    rm -rf --one-file-system "${work:?}/$who"
done

[ -z "$failed" ] || die "as$failed"
say "passed: as root and as a user with sudo"
