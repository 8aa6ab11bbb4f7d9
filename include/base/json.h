/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * JSON: strict parsing of text from outside (size, depth, nothing behind it,
 * NUL escapes replaced), reading without surprises, and writing into a buffer.
 * Trees are cJSON's; only this module includes its header.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cJSON;
struct error;
struct sbuf;

#define AUTO_JSON __attribute__((cleanup(json_cleanup)))

#define JSON_MAX_DEPTH 64
#define JSON_MAX_VALUES 100000

/*
 * Parses exactly one value in len bytes, at most max_depth deep (0:
 * JSON_MAX_DEPTH), of at most JSON_MAX_VALUES values, names of members
 * included. Bytes that are no UTF-8 and the escape \u0000 become
 * U+FFFD, lone surrogate escapes too, since cJSON would refuse them or cut
 * the string. Duplicate keys: json_get finds the last. The caller owns the
 * tree. Errors: ERR_PROTOCOL.
 */
WARN_UNUSED struct cJSON *json_parse(const char *text, size_t len,
                                     int max_depth, struct error *err);
void json_free(struct cJSON *json);
void json_cleanup(struct cJSON **json);

/* True when the raw text has an escaped NUL (\u0000) in a string. */
bool json_has_nul_escape(const char *text, size_t len);

/* Readers. A NULL object, a missing key or another type gives the default. All
   returned pointers are borrowed from the tree. */
struct cJSON *json_get(const struct cJSON *obj, const char *key);
const char *json_string(const struct cJSON *obj, const char *key);
/* A copy, cut to max bytes between two characters; owned by the caller. */
char *json_dup_string(const struct cJSON *obj, const char *key, size_t max);
int64_t json_int(const struct cJSON *obj, const char *key, int64_t def);
bool json_bool(const struct cJSON *obj, const char *key, bool def);
bool json_is_object(const struct cJSON *json);
bool json_is_array(const struct cJSON *json);
bool json_is_null(const struct cJSON *json); /* false where there is nothing */
size_t json_len(const struct cJSON *array);
struct cJSON *json_item(const struct cJSON *array, size_t i); /* O(i) */
struct cJSON *json_first(const struct cJSON *array_or_object);
struct cJSON *json_next(const struct cJSON *item);
const char *json_key(const struct cJSON *item);          /* of a member */
const char *json_value_string(const struct cJSON *item); /* NULL: no string */

/* The value as compact JSON text; the caller owns it. */
char *json_print(const struct cJSON *json);

/* Writers: append to sb. Text that is no UTF-8 is repaired; everything that is
   not printable ASCII or valid UTF-8 is escaped. NULL text writes null. */
void json_add_string(struct sbuf *sb, const char *s, size_t len);
void json_add_str(struct sbuf *sb, const char *s);

/* "key":  -- with a comma before it unless the last byte opens an object. */
void json_add_key(struct sbuf *sb, const char *key);
void json_add_member_str(struct sbuf *sb, const char *key, const char *s);
void json_add_member_int(struct sbuf *sb, const char *key, int64_t value);
void json_add_member_bool(struct sbuf *sb, const char *key, bool value);

#endif
