#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""usage: without_landlock.py COMMAND [ARGUMENT...]

Runs a command as a system without Landlock would: a filter answers ENOSYS to
landlock_create_ruleset."""

import ctypes
import errno
import os
import struct
import sys

CALL = 444
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7fff0000, 0x00050000


def main():
    code = b"".join(struct.pack("<HBBI", *row) for row in (
        (LOAD, 0, 0, 0), (EQUAL, 0, 1, CALL),
        (RETURN, 0, 0, ERRNO | errno.ENOSYS), (RETURN, 0, 0, ALLOW)))
    area = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(
        struct.pack("@HP", 4, ctypes.addressof(area)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "filter")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
