/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/base64.h"

#include "base/sbuf.h"

void
base64_add(struct sbuf *sb, const void *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
                                 "stuvwxyz0123456789+/";
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        unsigned bits = (unsigned)p[i] << 16 |
                        (n > 1 ? (unsigned)p[i + 1] << 8 : 0) |
                        (n > 2 ? (unsigned)p[i + 2] : 0);
        char group[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                         n > 1 ? digits[bits >> 6 & 63] : '=',
                         n > 2 ? digits[bits & 63] : '='};

        sbuf_add(sb, group, sizeof(group));
    }
}
