# SPDX-License-Identifier: GPL-3.0-or-later
"""Values on the wire: refusals, strict JSON, one text per value, the size
an image's header states."""

import json
import math
import struct

ERROR_TYPES = {
    400: "invalid_request_error", 401: "authentication_error",
    402: "billing_error", 403: "permission_error", 404: "not_found_error",
    409: "conflict_error", 413: "request_too_large",
    429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
}


def error_type(status):
    return ERROR_TYPES.get(status, "api_error" if status >= 500
                           else "invalid_request_error")


class Rejection(Exception):
    """A request the service answers with an error."""

    def __init__(self, message, status=400, details=None):
        super().__init__(message)
        self.message = message
        self.status = status
        self.type = error_type(status)
        self.details = details


def need(condition, message, status=400, details=None):
    if not condition:
        raise Rejection(message, status, details)


def _no_duplicates(pairs):
    out = {}
    for key, value in pairs:
        need(key not in out, "The request body is not valid JSON: "
             "duplicate key %r" % key)
        out[key] = value
    return out


def _finite(text):
    value = float(text)
    need(math.isfinite(value), "The request body is not valid JSON: number "
         "out of range")
    return value


def _no_constant(name):
    raise Rejection("The request body is not valid JSON: %s" % name)


def parse_json(data):
    """Parses bytes as strict JSON; raises Rejection."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise Rejection("The request body is not valid JSON: invalid UTF-8 "
                        "at byte %d" % exc.start)
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates,
                           parse_float=_finite, parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        raise Rejection("The request body is not valid JSON: %s" % exc)
    if "\\u" in text:
        _no_surrogates(value)
    return value


def _no_surrogates(value):
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Rejection("The request body is not valid JSON: no low "
                            "surrogate in string")
    elif isinstance(value, dict):
        for key, item in value.items():
            _no_surrogates(key)
            _no_surrogates(item)
    elif isinstance(value, list):
        for item in value:
            _no_surrogates(item)


def _plain_numbers(value):
    # 1.0 and 1 are one value to the service; 2**53 + 1 and its double are not.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    return value


def canonical(value):
    """One text per value: key order, spacing and escapes do not matter."""
    return json.dumps(_plain_numbers(value), sort_keys=True,
                      separators=(",", ":"), ensure_ascii=True)


def image_size(data):
    """(media type, width, height) of an image file's header, or None."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        return ("image/png",) + struct.unpack(">II", data[16:24])
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return ("image/gif",) + struct.unpack("<HH", data[6:10])
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        if data[12:16] == b"VP8X":
            return ("image/webp",
                    1 + int.from_bytes(data[24:27], "little"),
                    1 + int.from_bytes(data[27:30], "little"))
        if data[12:16] == b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return ("image/webp", 1 + (bits & 0x3fff),
                    1 + (bits >> 14 & 0x3fff))
        width, height = struct.unpack("<HH", data[26:30])
        return ("image/webp", width & 0x3fff, height & 0x3fff)
    if data[:2] == b"\xff\xd8":
        return _jpeg_size(data)
    return None


def _jpeg_size(data):
    at = 2
    while at + 9 <= len(data) and data[at] == 0xff:
        marker = data[at + 1]
        size = struct.unpack(">H", data[at + 2:at + 4])[0]
        if 0xc0 <= marker <= 0xcf and marker not in (0xc4, 0xc8, 0xcc):
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return ("image/jpeg", width, height)
        at += 2 + size
    return None
