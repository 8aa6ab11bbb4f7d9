/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * JSON as text: what is sent back to the service must stay equal value for
 * value, and a tree of cJSON rounds large integers and ends strings at an
 * escaped NUL. Everything here expects text that json_parse has accepted.
 */
#ifndef CLAUDE_RAW_INTERNAL_H
#define CLAUDE_RAW_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

struct sbuf;

struct claude_raw_iter {
    const char *at;
    const char *end;
    char open; /* '{' or '[' */
};

struct claude_raw_member {
    const char *key; /* between the quotes, escapes as they are */
    size_t key_len;
    const char *value;
    size_t value_len;
};

/* Begins at an object or an array; text is borrowed while iterating. */
void claude_raw_begin(struct claude_raw_iter *it, const char *text, size_t len);

/* The next member; false at the end, and in a text that is no object. */
bool claude_raw_next(struct claude_raw_iter *it, struct claude_raw_member *m);

/* The next value of an array; false at the end, and in any other text. */
bool claude_raw_next_value(struct claude_raw_iter *it, const char **value,
                           size_t *len);

/* The last member of that name, as json_get finds it. */
bool claude_raw_find(const char *text, size_t len, const char *key,
                     struct claude_raw_member *m);

/*
 * Adds the text with the escapes of lone surrogates replaced by that of
 * U+FFFD: the service refuses a request that holds one.
 */
void claude_raw_add_mended(struct sbuf *sb, const char *text, size_t len);

/* True for no text and for white space only (Unicode's, and U+001C to U+001F,
   which the service strips too). */
bool claude_text_is_blank(const char *text, size_t len);

/* The length without white space at the end. */
size_t claude_text_trimmed(const char *text, size_t len);

/* Adds text as a JSON string, without NULs, which are of no use to anyone. */
void claude_add_text(struct sbuf *sb, const char *text, size_t len);

#endif
