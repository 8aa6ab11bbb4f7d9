/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Base64 with padding (RFC 4648, 4), written. mime_bundle_base64 reads it.
 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stddef.h>

struct sbuf;

void base64_add(struct sbuf *sb, const void *data, size_t len);

#endif
