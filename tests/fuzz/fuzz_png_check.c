/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/output.h"
#include "render/png_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
accepts(const uint8_t *data, size_t size, int width, int height, bool bare)
{
    struct error err = {0};
    bool ok = png_check(data, size, width, height, bare, &err) == 0;

    assert(ok == (err.code == ERR_NONE));
    return ok;
}

/*
 * What is accepted begins and ends as a PNG of the size that was asked for, and
 * nothing can be taken off its end or put behind it. A bare one is also one
 * that need not be bare.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of exact size, so that reading beyond it is seen. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    int width = 0;
    int height = 0;
    bool any, bare;

    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    if (!output_png_size(copy, size, &width, &height)) {
        assert(!accepts(copy, size, 1, 1, false));
        free(copy);
        return 0;
    }
    any = accepts(copy, size, width, height, false);
    bare = accepts(copy, size, width, height, true);
    assert(any || !bare);
    assert(!accepts(copy, size, width ^ 1, height, false));
    assert(!accepts(copy, size, width, height ^ 1, false));
    if (any) {
        assert(memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0);
        assert(memcmp(data + size - 12, "\0\0\0\0IEND", 8) == 0);
        for (size_t n = size < 64 ? 0 : size - 64; n < size; n++)
            assert(!accepts(copy, n, width, height, false));
    }
    png_check_fit(1 + (int)(size % 4096), &width, &height);
    assert(width >= 1 && height >= 1 && width <= 1 + (int)(size % 4096) &&
           height <= 1 + (int)(size % 4096));
    free(copy);
    return 0;
}
