# SPDX-License-Identifier: GPL-3.0-or-later
"""PNGs for tests, good and bad, from their chunks.

CELL is the same for the code of cells, which can import nothing of this.
"""

import inspect
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind, data):
    crc = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)


def ihdr(width, height, depth=8, colour=2, interlace=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour,
                                      0, 0, interlace))


def one_row(width, height, row):
    """A whole PNG that says it is that large, with these bytes of data."""
    return SIGNATURE + ihdr(width, height) + chunk(
        b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")


CELL = "import struct, zlib\nSIGNATURE = %r\n" % SIGNATURE + \
    inspect.getsource(chunk) + inspect.getsource(ihdr)
