# SPDX-License-Identifier: GPL-3.0-or-later
"""Places in which a sandbox cannot be had: prefixes of a command that runs in
one, and programs in place of bubblewrap."""

import os
import shutil
import subprocess
import sys

BWRAP = shutil.which("bwrap") or "/usr/bin/bwrap"

IN_USERNS = [sys.executable,
             os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "in_userns.py")]
NO_USERNS = IN_USERNS + ["--no-userns"]
MASKED = IN_USERNS + ["--mask-proc"]
HIDDEN = IN_USERNS + ["--hide", "/usr/bin/bwrap", "--hide",
                      "/usr/local/bin/bwrap"]
ONLY_ROOT = IN_USERNS + ["--only-root"]
CHROOT = IN_USERNS + ["--chroot"]
NO_PROCESSES = ["prlimit", "--nproc=1"]  # for an ordinary user

FAKE = """#!/bin/sh
if [ "$1" = --version ]; then
    echo "bubblewrap %(version)s"
    exit 0
fi
for option in %(lacks)s; do
    if tr '\\0' '\\n' </proc/self/fd/7 | grep -q -x -e "--$option"; then
        echo "bwrap: Unknown option --$option" >&2
        exit 1
    fi
done
%(then)s
"""


def can(prefix):
    return subprocess.run(list(prefix) + ["true"], capture_output=True
                          ).returncode == 0


def fake_bwrap(folder, version="0.8.0", lacks=(), says=None, hangs=False):
    """A bubblewrap of another version, in front of the real one: without
    options, with words to fail with (octal escapes are meant), or one that
    never ends."""
    then = 'exec %s "$@"' % BWRAP
    if says is not None:
        then = "printf 'bwrap: %s\\n' >&2\nexit 1" % says
    if hangs:
        then = "exec sleep 600"
    path = os.path.join(folder, "bwrap-" + version)
    os.makedirs(folder, exist_ok=True)
    with open(path, "w") as f:
        f.write(FAKE % {"version": version, "lacks": " ".join(lacks),
                        "then": then})
    os.chmod(path, 0o755)
    return path
