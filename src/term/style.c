/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/style.h"

#include <assert.h>
#include <stddef.h>

#include "base/array.h"

static const char *const params[] = {
    [STYLE_PLAIN] = "0",  [STYLE_DIM] = "2",        [STYLE_STRONG] = "1",
    [STYLE_CODE] = "0",   [STYLE_WARNING] = "1;33", [STYLE_FAILURE] = "1;31",
    [STYLE_PROMPT] = "1",
};

const char *
style_sgr(enum style style)
{
    assert((size_t)style < LEN(params));
    return params[style];
}
