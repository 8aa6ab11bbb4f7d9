/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "render/sixel_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes that may stand between the introduction and the end. */
static int
is_sixel_byte(uint8_t c)
{
    return (c >= 0x3f && c <= 0x7e) || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("#!$-;\"", c) != NULL);
}

/*
 * The picture size is that of the corpus, 12x12, 16 colours. What is accepted
 * holds sixel bytes only and one line feed at most; cutting changes nothing.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sixel_limits limits = {12, 12, 16, 6};
    struct sixel_check_state s;
    struct error err = {0};
    /* A copy of exact size, so that reading beyond it is seen. */
    char *copy = calloc(1, size > 0 ? size : 1);
    int whole, pieces;
    size_t i, n_lines = 0;

    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    whole = sixel_check(copy, size, limits, &err);
    pieces = sixel_check_begin(&s, limits, &err);
    for (i = 0; i < size && pieces == 0; i++)
        pieces = sixel_check_feed(&s, copy + i, 1, &err);
    if (pieces == 0)
        pieces = sixel_check_end(&s, &err);
    assert(whole == pieces);
    if (whole == 0) {
        assert(size > 5 && memcmp(data, "\033Pq", 3) == 0 &&
               memcmp(data + size - 2, "\033\\", 2) == 0);
        for (i = 3; i < size - 2; i++) {
            assert(is_sixel_byte(data[i]));
            n_lines += data[i] == '-';
        }
        assert(n_lines <= 1);
    }
    free(copy);
    return 0;
}
