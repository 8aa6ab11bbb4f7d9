/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A bundle as JSON text. What is accepted keeps its limits and can be walked
 * over, every row and column of it.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/output.h"
#include "model/table.h"
#include "sandbox/mime_bundle_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_mime_bundle: %s\n", what);
    abort();
}

static void
check_table(const struct table *t)
{
    size_t n_rows = t->n_head + t->n_tail;

    require(t->n_index <= t->n_columns, "more levels than columns");
    require(t->gap_at <= t->n_columns, "the gap is outside");
    require(n_rows <= MIME_BUNDLE_MAX_ROWS, "too many rows");
    require(t->n_rows_total >= (int64_t)n_rows, "rows are not counted");
    require(t->n_cols_total >= 0 && t->n_cols_left_out >= 0, "below zero");
    for (size_t c = 0; c < t->n_columns; c++) {
        require(t->columns[c].type != NULL, "a column without a type");
        require(table_kind_name(t->columns[c].kind) != NULL, "no kind");
    }
    for (size_t r = 0; r < n_rows; r++)
        for (size_t c = 0; c < t->n_columns; c++) {
            const struct table_cell *cell = table_at(t, r, c);

            require(cell->text == NULL ||
                        strlen(cell->text) <= MIME_BUNDLE_MAX_CELL_BYTES,
                    "a cell is too long");
        }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct cJSON *json = json_parse((const char *)data, size, 16, &err);
    char *refused = NULL;
    struct output *out;

    if (json == NULL)
        return 0;
    out = mime_bundle_parse(json, json_get(json, "meta"), &refused, &err);
    json_free(json);
    free(refused);
    if (out == NULL)
        return 0;
    require(out->text != NULL || out->table != NULL || out->png != NULL,
            "nothing is left");
    require(out->text == NULL || strlen(out->text) == out->text_len,
            "the length of the text is wrong");
    require((out->png == NULL) == (out->width_px == 0), "a picture of no size");
    require((uint64_t)out->width_px * (uint64_t)out->height_px <=
                OUTPUT_MAX_PIXELS,
            "a picture is too large");
    if (out->table != NULL)
        check_table(out->table);
    output_free(out);
    return 0;
}
