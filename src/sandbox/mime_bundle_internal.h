/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a cell shows, from a bundle of media types to a struct output. Any byte
 * of it may come from the cell: parts that contradict themselves or pass a
 * limit are left out as a whole, the others are kept. No part of a picture is
 * decoded.
 */
#ifndef SANDBOX_MIME_BUNDLE_INTERNAL_H
#define SANDBOX_MIME_BUNDLE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct cJSON;
struct error;
struct output;
struct table;

#define MIME_BUNDLE_MAX_TEXT_BYTES (64u << 10)
#define MIME_BUNDLE_MAX_PNG_BYTES (8u << 20)
#define MIME_BUNDLE_MAX_COLUMNS 50u
#define MIME_BUNDLE_MAX_LEVELS 16u
#define MIME_BUNDLE_MAX_ROWS 20u
#define MIME_BUNDLE_MAX_CELL_BYTES 4096u

/* The media type of a table of the kernel's form. */
#define MIME_BUNDLE_TABLE "application/x-table.v1+json"

/* The parts of a bundle that are used, by whatever names they came. Borrowed;
   each may be NULL. */
struct mime_bundle_parts {
    const char *text;
    const char *png; /* strict base64 */
    size_t png_len;
    const struct cJSON *table;
    const char *title;
    const char *what;
};

/*
 * An output of at least a text, a table or a picture; the caller owns it.
 * *refused, if not NULL, becomes a sentence of ours about a part that was left
 * out, owned by the caller, or NULL. Errors: ERR_PROTOCOL when nothing is left.
 */
WARN_UNUSED struct output *
mime_bundle_make(const struct mime_bundle_parts *parts, char **refused,
                 struct error *err);

/*
 * The same of the kernel's events. data: the bundle; meta: an object with
 * width, height, title, what, or NULL.
 */
WARN_UNUSED struct output *mime_bundle_parse(const struct cJSON *data,
                                             const struct cJSON *meta,
                                             char **refused, struct error *err);

/* A table of the kernel's form, or NULL. The caller owns it.
   Errors: ERR_PROTOCOL, naming the field. */
WARN_UNUSED struct table *mime_bundle_table(const struct cJSON *json,
                                            struct error *err);

/*
 * Strict base64 (RFC 4648, 4): padded, no white space, zero trailing bits. The
 * caller owns the result. NULL when text is none or gives more than max bytes.
 */
WARN_UNUSED unsigned char *mime_bundle_base64(const char *text, size_t len,
                                              size_t max, size_t *out_len);

#endif
