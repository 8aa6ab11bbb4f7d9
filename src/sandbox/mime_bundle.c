/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/mime_bundle_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "model/output.h"
#include "model/table.h"

#define TYPE_TEXT "text/plain"
#define TYPE_PNG "image/png"

#define MAX_LABEL_BYTES 1024u

/* Row and column counts beyond this are no counts: 2^53, which is as far as
   numbers of JSON are exact. */
#define MAX_COUNT ((int64_t)1 << 53)

/* Text of the cell, cut at a character boundary. The caller owns it. */
static char *
copy_text(const char *text, size_t max)
{
    size_t len;

    if (text == NULL)
        return NULL;
    len = strlen(text);
    if (len > max)
        len = utf8_floor(text, len, max);
    return xstrndup(text, len);
}

static int
base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* Decodes a group of four; n_digits of them are digits, the rest padding. */
static bool
decode_group(const char *group, size_t n_digits, unsigned char *out)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < 4; i++) {
        int digit = i < n_digits ? base64_digit(group[i]) : 0;

        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
    }
    if ((n_digits == 2 && (bits & 0xffff) != 0) ||
        (n_digits == 3 && (bits & 0xff) != 0))
        return false;
    for (size_t i = 0; i + 1 < n_digits; i++)
        out[i] = (unsigned char)(bits >> (16 - 8 * i));
    return true;
}

unsigned char *
mime_bundle_base64(const char *text, size_t len, size_t max, size_t *out_len)
{
    AUTO_FREE unsigned char *out = NULL;
    size_t n_padding = 0;
    size_t n;

    if (len == 0 || len % 4 != 0)
        return NULL;
    if (text[len - 1] == '=')
        n_padding = text[len - 2] == '=' ? 2 : 1;
    n = len / 4 * 3 - n_padding;
    if (n > max)
        return NULL;
    out = xmalloc(n);
    for (size_t i = 0; i < len; i += 4) {
        size_t n_digits = i + 4 == len ? 4 - n_padding : 4;

        if (!decode_group(text + i, n_digits, out + i / 4 * 3))
            return NULL;
    }
    *out_len = n;
    return take_ptr(&out);
}

static int
read_count(const struct cJSON *json, const char *key, int64_t *out,
           struct error *err)
{
    int64_t n = json_int(json, key, -1);

    if (n < 0 || n > MAX_COUNT)
        return err_set(err, ERR_PROTOCOL, "table: %s is no count", key);
    *out = n;
    return 0;
}

static int
read_list(const struct cJSON *json, const char *key, size_t max,
          const struct cJSON **list, size_t *n, struct error *err)
{
    *list = json_get(json, key);
    if (!json_is_array(*list))
        return err_set(err, ERR_PROTOCOL, "table: %s is no list", key);
    *n = json_len(*list);
    if (*n > max)
        return err_set(err, ERR_PROTOCOL, "table: %s has %zu entries", key, *n);
    return 0;
}

static int
read_columns(struct table_column *out, const struct cJSON *list, bool is_index,
             struct error *err)
{
    for (const struct cJSON *c = json_first(list); c != NULL;
         c = json_next(c)) {
        if (!json_is_object(c))
            return err_set(err, ERR_PROTOCOL, "table: a column is no object");
        out->name = copy_text(json_string(c, "name"), MAX_LABEL_BYTES);
        out->type = copy_text(json_string(c, "type"), MAX_LABEL_BYTES);
        if (out->type == NULL)
            out->type = xstrdup("");
        out->kind = table_kind_from_wire(json_string(c, "kind"));
        out->is_index = is_index;
        out++;
    }
    return 0;
}

static int
read_cell(struct table_cell *out, const struct cJSON *value, struct error *err)
{
    const char *s = json_value_string(value);
    AUTO_FREE char *printed = NULL;

    if (s != NULL) {
        out->text = copy_text(s, MIME_BUNDLE_MAX_CELL_BYTES);
        return 0;
    }
    if (json_is_object(value) || json_is_array(value))
        return err_set(err, ERR_PROTOCOL, "table: a cell is no scalar");
    printed = json_print(value);
    if (strcmp(printed, "null") == 0)
        return 0;
    if (strcmp(printed, "true") == 0) {
        out->text = xstrdup("True");
    } else if (strcmp(printed, "false") == 0) {
        out->text = xstrdup("False");
    } else {
        out->is_number = true;
        out->text = take_ptr(&printed);
    }
    return 0;
}

static int
read_rows(struct table *t, size_t first, const struct cJSON *list,
          struct error *err)
{
    size_t row = first;

    for (const struct cJSON *r = json_first(list); r != NULL;
         r = json_next(r), row++) {
        size_t column = 0;

        if (!json_is_array(r) || json_len(r) != t->n_columns)
            return err_set(err, ERR_PROTOCOL,
                           "table: row %zu does not have %zu cells", row,
                           t->n_columns);
        for (const struct cJSON *c = json_first(r); c != NULL;
             c = json_next(c), column++)
            if (read_cell(table_at(t, row, column), c, err) < 0)
                return -1;
    }
    return 0;
}

/* What the counts say must agree with what is there. */
static int
check_counts(const struct table *t, struct error *err)
{
    size_t n_shown = t->n_columns - t->n_index;
    size_t n_rows = t->n_head + t->n_tail;

    if (t->n_cols_total != (int64_t)n_shown + t->n_cols_left_out)
        return err_set(err, ERR_PROTOCOL, "table: columns do not add up");
    if (t->n_rows_total < (int64_t)n_rows)
        return err_set(err, ERR_PROTOCOL, "table: more rows than there are");
    if (t->n_tail == 0 && t->n_rows_total != (int64_t)n_rows)
        return err_set(err, ERR_PROTOCOL, "table: rows do not add up");
    return 0;
}

static int
fill_table(struct table *t, const struct cJSON *json, struct error *err)
{
    if (read_count(json, "rows", &t->n_rows_total, err) < 0 ||
        read_count(json, "cols", &t->n_cols_total, err) < 0 ||
        read_count(json, "cols_left_out", &t->n_cols_left_out, err) < 0 ||
        check_counts(t, err) < 0)
        return -1;
    if (t->n_cols_left_out > 0)
        t->gap_at = t->n_index + (t->n_columns - t->n_index + 1) / 2;
    if (read_columns(t->columns, json_get(json, "index"), true, err) < 0 ||
        read_columns(t->columns + t->n_index, json_get(json, "columns"), false,
                     err) < 0 ||
        read_rows(t, 0, json_get(json, "head"), err) < 0 ||
        read_rows(t, t->n_head, json_get(json, "tail"), err) < 0)
        return -1;
    return 0;
}

struct table *
mime_bundle_table(const struct cJSON *json, struct error *err)
{
    const struct cJSON *list;
    size_t n_index;
    size_t n_columns;
    size_t n_head;
    size_t n_tail;
    struct table *t;

    if (!json_is_object(json)) {
        error_fill(err, ERR_PROTOCOL, "table: is no object");
        return NULL;
    }
    if (read_list(json, "index", MIME_BUNDLE_MAX_LEVELS, &list, &n_index, err) <
            0 ||
        read_list(json, "columns", MIME_BUNDLE_MAX_COLUMNS, &list, &n_columns,
                  err) < 0 ||
        read_list(json, "head", MIME_BUNDLE_MAX_ROWS, &list, &n_head, err) <
            0 ||
        read_list(json, "tail", MIME_BUNDLE_MAX_ROWS, &list, &n_tail, err) < 0)
        return NULL;
    if (n_head + n_tail > MIME_BUNDLE_MAX_ROWS) {
        error_fill(err, ERR_PROTOCOL, "table: %zu rows", n_head + n_tail);
        return NULL;
    }
    t = table_new(n_index + n_columns, n_head, n_tail);
    t->n_index = n_index;
    if (fill_table(t, json, err) < 0) {
        table_free(t);
        return NULL;
    }
    return t;
}

static void
take_png(struct output *out, const char *text, size_t text_len, char **refused)
{
    AUTO_FREE unsigned char *png = NULL;
    size_t len = 0;
    int width = 0;
    int height = 0;

    if (text == NULL)
        return;
    png = mime_bundle_base64(text, text_len, MIME_BUNDLE_MAX_PNG_BYTES, &len);
    if (png == NULL || !output_png_size(png, len, &width, &height)) {
        free(*refused);
        *refused =
            xstrdup("a picture that is no PNG of at most 8 MiB was left out");
        return;
    }
    if ((uint64_t)width * (uint64_t)height > OUTPUT_MAX_PIXELS) {
        free(*refused);
        *refused = xasprintf("a picture of %d x %d pixels was left out: at "
                             "most %u pixels in all",
                             width, height, OUTPUT_MAX_PIXELS);
        return;
    }
    out->png = take_ptr(&png);
    out->png_len = len;
    out->width_px = width;
    out->height_px = height;
}

struct output *
mime_bundle_make(const struct mime_bundle_parts *parts, char **refused,
                 struct error *err)
{
    struct output *out = xcalloc(1, sizeof(*out));
    AUTO_FREE char *why = NULL;
    struct error table_err = {0};

    out->text = copy_text(parts->text, MIME_BUNDLE_MAX_TEXT_BYTES);
    out->text_len = out->text != NULL ? strlen(out->text) : 0;
    if (parts->table != NULL) {
        out->table = mime_bundle_table(parts->table, &table_err);
        if (out->table == NULL)
            why = xstrdup("a table that contradicts itself was left out");
    }
    take_png(out, parts->png, parts->png_len, &why);
    out->title = copy_text(parts->title, MAX_LABEL_BYTES);
    out->what = copy_text(parts->what, MAX_LABEL_BYTES);
    if (out->text == NULL && out->table == NULL && out->png == NULL) {
        output_free(out);
        out = NULL;
        error_fill(err, ERR_PROTOCOL, "bundle: %s",
                   why != NULL ? why : "nothing in it is known");
    }
    if (refused != NULL)
        *refused = take_ptr(&why);
    return out;
}

struct output *
mime_bundle_parse(const struct cJSON *data, const struct cJSON *meta,
                  char **refused, struct error *err)
{
    const char *png = json_string(data, TYPE_PNG);
    struct mime_bundle_parts parts = {
        .text = json_string(data, TYPE_TEXT),
        .png = png,
        .png_len = png != NULL ? strlen(png) : 0,
        .table = json_get(data, MIME_BUNDLE_TABLE),
        .title = json_string(meta, "title"),
        .what = json_string(meta, "what"),
    };

    return mime_bundle_make(&parts, refused, err);
}
