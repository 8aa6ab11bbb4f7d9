/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/utf8.h"

/* Longest number that is taken at all. */
#define MAX_NUMBER_BYTES 400

/* cJSON before 1.7.18 reads only so many bytes of a number. */
#define CJSON_NUMBER_BYTES 63

/*
 * The text on its way to cJSON. cJSON is told only what it reads right: it
 * takes any control character for white space, ends a string at an escaped
 * NUL or at a broken escape, refuses lone surrogates, takes "01" for a number
 * and passes broken UTF-8 on. The structure (commas, colons) it checks itself.
 */
struct scan {
    const char *text;
    size_t len;
    size_t pos;
    size_t depth;
    size_t max_depth;
    size_t n_values;

    /* The changed text so far; covers text[0..copied). Empty: no change. */
    struct sbuf out;
    size_t copied;
};

static int
fail_at(const struct scan *sc, struct error *err, const char *what)
{
    return err_set(err, ERR_PROTOCOL, "JSON, byte %zu: %s", sc->pos, what);
}

/* The next n bytes are replaced by text in what cJSON sees. */
static void
replace_bytes(struct scan *sc, size_t n, const char *text)
{
    sbuf_add(&sc->out, sc->text + sc->copied, sc->pos - sc->copied);
    sbuf_add_str(&sc->out, text);
    sc->pos += n;
    sc->copied = sc->pos;
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The value of four hexadecimal digits at s, or -1. */
static int
read_hex4(const char *s, size_t len)
{
    int value = 0;

    if (len < 4) {
        return -1;
    }
    for (size_t i = 0; i < 4; i++) {
        int digit;

        if (is_digit(s[i])) {
            digit = s[i] - '0';
        } else if (s[i] >= 'a' && s[i] <= 'f') {
            digit = s[i] - 'a' + 10;
        } else if (s[i] >= 'A' && s[i] <= 'F') {
            digit = s[i] - 'A' + 10;
        } else {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* pos is at the backslash of \u. */
static int
scan_unicode_escape(struct scan *sc, struct error *err)
{
    const char *s = sc->text + sc->pos;
    size_t left = sc->len - sc->pos;
    int unit = read_hex4(s + 2, left - 2);

    if (unit < 0) {
        return fail_at(sc, err, "\\u without four hexadecimal digits");
    }
    if (unit >= 0xD800 && unit <= 0xDBFF && left >= 12 && s[6] == '\\' &&
        s[7] == 'u') {
        int low = read_hex4(s + 8, 4);

        if (low >= 0xDC00 && low <= 0xDFFF) {
            sc->pos += 12;
            return 0;
        }
    }
    if (unit == 0 || (unit >= 0xD800 && unit <= 0xDFFF)) {
        replace_bytes(sc, 6, "\\ufffd");
    } else {
        sc->pos += 6;
    }
    return 0;
}

static int
scan_escape(struct scan *sc, struct error *err)
{
    char c = sc->len - sc->pos < 2 ? '\0' : sc->text[sc->pos + 1];

    if (c == 'u') {
        return scan_unicode_escape(sc, err);
    }
    if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL) {
        return fail_at(sc, err, "unknown escape");
    }
    sc->pos += 2;
    return 0;
}

/* pos is at the opening quote. */
static int
scan_string(struct scan *sc, struct error *err)
{
    sc->pos++;
    while (sc->pos < sc->len) {
        unsigned char c = (unsigned char)sc->text[sc->pos];

        if (c == '"') {
            sc->pos++;
            return 0;
        }
        if (c == '\\') {
            if (scan_escape(sc, err) < 0) {
                return -1;
            }
        } else if (c < 0x20) {
            return fail_at(sc, err, "control character in a string");
        } else if (c < 0x80) {
            sc->pos++;
        } else {
            uint32_t cp;
            bool ok;
            size_t n =
                utf8_decode(sc->text + sc->pos, sc->len - sc->pos, &cp, &ok);

            if (ok) {
                sc->pos += n;
            } else {
                replace_bytes(sc, n, "\xEF\xBF\xBD");
            }
        }
    }
    return fail_at(sc, err, "string without an end");
}

/* Skips digits from i on; false when there is none. */
static bool
skip_digits(const char *s, size_t len, size_t *i)
{
    size_t start = *i;

    while (*i < len && is_digit(s[*i])) {
        ++*i;
    }
    return *i > start;
}

/* The length of the number at s by the grammar of JSON; 0: it is none. */
static size_t
measure_number(const char *s, size_t len)
{
    size_t i = 0;

    if (s[0] == '-') {
        i++;
    }
    if (i < len && s[i] == '0') {
        i++;
    } else if (!skip_digits(s, len, &i)) {
        return 0;
    }
    if (i < len && s[i] == '.') {
        i++;
        if (!skip_digits(s, len, &i)) {
            return 0;
        }
    }
    if (i < len && (s[i] == 'e' || s[i] == 'E')) {
        i++;
        if (i < len && (s[i] == '+' || s[i] == '-')) {
            i++;
        }
        if (!skip_digits(s, len, &i)) {
            return 0;
        }
    }
    /* "01" or "1.2.3": what follows must not look like more of it. */
    if (i < len && (is_digit(s[i]) || strchr("+-.eE", s[i]) != NULL)) {
        return 0;
    }
    return i;
}

static int
scan_number(struct scan *sc, struct error *err)
{
    size_t n = measure_number(sc->text + sc->pos, sc->len - sc->pos);
    char digits[MAX_NUMBER_BYTES + 1];
    double value;

    if (n == 0) {
        return fail_at(sc, err, "not a number");
    }
    if (n > MAX_NUMBER_BYTES) {
        return fail_at(sc, err, "number too long");
    }
    memcpy(digits, sc->text + sc->pos, n);
    digits[n] = '\0';
    value = strtod(digits, NULL);
    if (!isfinite(value)) {
        return fail_at(sc, err, "number out of range");
    }
    if (n > CJSON_NUMBER_BYTES) {
        AUTO_FREE char *shorter = xasprintf("%.17g", value);

        replace_bytes(sc, n, shorter);
    } else {
        sc->pos += n;
    }
    return 0;
}

static int
scan_word(struct scan *sc, struct error *err)
{
    static const char *const words[] = {"null", "true", "false"};

    for (size_t i = 0; i < LEN(words); i++) {
        size_t n = strlen(words[i]);

        if (sc->len - sc->pos >= n &&
            memcmp(sc->text + sc->pos, words[i], n) == 0) {
            sc->pos += n;
            return 0;
        }
    }
    return fail_at(sc, err, "not a value");
}

static int
scan_token(struct scan *sc, struct error *err)
{
    char c = sc->text[sc->pos];

    /* A node of cJSON takes many times the bytes of the value it holds. */
    if (strchr(" \t\n\r,:]}", c) == NULL && ++sc->n_values > JSON_MAX_VALUES)
        return fail_at(sc, err, "too many values");
    switch (c) {
    case '"':
        return scan_string(sc, err);
    case '[':
    case '{':
        if (sc->depth >= sc->max_depth) {
            return fail_at(sc, err, "nested too deeply");
        }
        sc->depth++;
        sc->pos++;
        return 0;
    case ']':
    case '}':
        /* One too many is cJSON's to refuse. */
        sc->depth -= sc->depth > 0 ? 1 : 0;
        sc->pos++;
        return 0;
    case ' ':
    case '\t':
    case '\n':
    case '\r':
    case ',':
    case ':':
        sc->pos++;
        return 0;
    case '\0':
        return fail_at(sc, err, "NUL byte");
    default:
        return c == '-' || is_digit(c) ? scan_number(sc, err)
                                       : scan_word(sc, err);
    }
}

/* Checks the words of the text and mends them into sc->out. */
static int
scan_text(struct scan *sc, struct error *err)
{
    while (sc->pos < sc->len) {
        if (scan_token(sc, err) < 0) {
            return -1;
        }
    }
    if (sc->copied > 0) {
        sbuf_add(&sc->out, sc->text + sc->copied, sc->len - sc->copied);
    }
    return 0;
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool
is_blank(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_space(s[i])) {
            return false;
        }
    }
    return true;
}

/* Lets cJSON read one value, and makes sure that nothing stands behind it. */
static struct cJSON *
parse_checked(const char *text, size_t len, struct error *err)
{
    const char *end = NULL;
    struct cJSON *json = cJSON_ParseWithLengthOpts(text, len, &end, 0);

    if (json == NULL) {
        error_fill(err, ERR_PROTOCOL, "JSON, byte %zu of %zu: not well-formed",
                   end == NULL ? (size_t)0 : (size_t)(end - text), len);
        return NULL;
    }
    assert(end != NULL);
    if (!is_blank(end, len - (size_t)(end - text))) {
        error_fill(err, ERR_PROTOCOL, "JSON, byte %zu: text behind the value",
                   (size_t)(end - text));
        json_free(json);
        return NULL;
    }
    return json;
}

struct cJSON *
json_parse(const char *text, size_t len, int max_depth, struct error *err)
{
    struct scan sc = {0};
    struct cJSON *json = NULL;

    /* Some servers put a byte order mark before their JSON. */
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        len -= 3;
    }
    if (len == 0 || is_blank(text, len)) {
        error_fill(err, ERR_PROTOCOL, "JSON: empty text");
        return NULL;
    }
    /* A broken byte grows to three; a buffer that large never overflows. */
    if (len > SIZE_MAX / 4) {
        error_fill(err, ERR_PROTOCOL, "JSON: %zu bytes are too many", len);
        return NULL;
    }
    sc.text = text;
    sc.len = len;
    sc.max_depth = (size_t)(max_depth > 0 ? max_depth : JSON_MAX_DEPTH);
    if (sc.max_depth > CJSON_NESTING_LIMIT) {
        sc.max_depth = CJSON_NESTING_LIMIT;
    }
    sbuf_init(&sc.out, 3 * len + 1);
    if (scan_text(&sc, err) == 0) {
        json = sc.copied > 0 ? parse_checked(sc.out.data, sc.out.len, err)
                             : parse_checked(text, len, err);
    }
    sbuf_fini(&sc.out);
    return json;
}

void
json_free(struct cJSON *json)
{
    cJSON_Delete(json);
}

void
json_cleanup(struct cJSON **json)
{
    json_free(*json);
}

bool
json_has_nul_escape(const char *text, size_t len)
{
    for (size_t i = 0; i + 1 < len;) {
        if (text[i] != '\\') {
            i++;
            continue;
        }
        if (text[i + 1] == 'u' && read_hex4(text + i + 2, len - i - 2) == 0) {
            return true;
        }
        i += 2;
    }
    return false;
}

struct cJSON *
json_get(const struct cJSON *obj, const char *key)
{
    struct cJSON *found = NULL;

    if (!cJSON_IsObject(obj)) {
        return NULL;
    }
    for (struct cJSON *item = obj->child; item != NULL; item = item->next) {
        if (item->string != NULL && strcmp(item->string, key) == 0) {
            found = item;
        }
    }
    return found;
}

const char *
json_string(const struct cJSON *obj, const char *key)
{
    return json_value_string(json_get(obj, key));
}

char *
json_dup_string(const struct cJSON *obj, const char *key, size_t max)
{
    const char *text = json_string(obj, key);

    if (text == NULL) {
        return NULL;
    }
    return xstrndup(text, utf8_floor(text, strlen(text), max));
}

int64_t
json_int(const struct cJSON *obj, const char *key, int64_t def)
{
    const struct cJSON *item = json_get(obj, key);
    double value;
    int64_t whole;

    if (item == NULL || !cJSON_IsNumber(item)) {
        return def;
    }
    value = item->valuedouble;
    /* 2^63 itself is a double and does not fit. */
    if (!(value >= -0x1p63 && value < 0x1p63)) {
        return def;
    }
    whole = (int64_t)value;
    return (double)whole < value || (double)whole > value ? def : whole;
}

bool
json_bool(const struct cJSON *obj, const char *key, bool def)
{
    const struct cJSON *item = json_get(obj, key);

    return cJSON_IsBool(item) ? cJSON_IsTrue(item) != 0 : def;
}

bool
json_is_object(const struct cJSON *json)
{
    return cJSON_IsObject(json) != 0;
}

bool
json_is_array(const struct cJSON *json)
{
    return cJSON_IsArray(json) != 0;
}

bool
json_is_null(const struct cJSON *json)
{
    return cJSON_IsNull(json) != 0;
}

size_t
json_len(const struct cJSON *array)
{
    size_t n = 0;

    for (const struct cJSON *item = json_first(array); item != NULL;
         item = item->next) {
        n++;
    }
    return n;
}

struct cJSON *
json_item(const struct cJSON *array, size_t i)
{
    struct cJSON *item = json_first(array);

    for (; item != NULL && i > 0; i--) {
        item = item->next;
    }
    return item;
}

struct cJSON *
json_first(const struct cJSON *array_or_object)
{
    return json_is_array(array_or_object) || json_is_object(array_or_object)
               ? array_or_object->child
               : NULL;
}

struct cJSON *
json_next(const struct cJSON *item)
{
    return item == NULL ? NULL : item->next;
}

const char *
json_key(const struct cJSON *item)
{
    return item == NULL ? NULL : item->string;
}

const char *
json_value_string(const struct cJSON *item)
{
    return item != NULL && cJSON_IsString(item) ? item->valuestring : NULL;
}

char *
json_print(const struct cJSON *json)
{
    char *text;

    if (json == NULL) {
        return xstrdup("null");
    }
    text = cJSON_PrintUnformatted(json);
    assert(text != NULL);
    return text;
}

/* The letter of the short escape of c, or 0. */
static char
short_escape(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

static void
add_escape(struct sbuf *sb, unsigned char c)
{
    char letter = short_escape(c);

    if (letter != 0) {
        sbuf_add_char(sb, '\\');
        sbuf_add_char(sb, letter);
    } else {
        sbuf_addf(sb, "\\u%04x", (unsigned)c);
    }
}

void
json_add_string(struct sbuf *sb, const char *s, size_t len)
{
    size_t start = 0;

    if (s == NULL) {
        sbuf_add_str(sb, "null");
        return;
    }
    sbuf_add_char(sb, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c >= 0x20 && c != 0x7F && c != '"' && c != '\\') {
            continue;
        }
        utf8_add_repaired(sb, s + start, i - start);
        add_escape(sb, c);
        start = i + 1;
    }
    utf8_add_repaired(sb, s + start, len - start);
    sbuf_add_char(sb, '"');
}

void
json_add_str(struct sbuf *sb, const char *s)
{
    json_add_string(sb, s, s == NULL ? 0 : strlen(s));
}

void
json_add_key(struct sbuf *sb, const char *key)
{
    if (sb->len > 0 && sb->data[sb->len - 1] != '{') {
        sbuf_add_char(sb, ',');
    }
    json_add_str(sb, key);
    sbuf_add_char(sb, ':');
}

void
json_add_member_str(struct sbuf *sb, const char *key, const char *s)
{
    json_add_key(sb, key);
    json_add_str(sb, s);
}

void
json_add_member_int(struct sbuf *sb, const char *key, int64_t value)
{
    json_add_key(sb, key);
    sbuf_addf(sb, "%" PRId64, value);
}

void
json_add_member_bool(struct sbuf *sb, const char *key, bool value)
{
    json_add_key(sb, key);
    sbuf_add_str(sb, value ? "true" : "false");
}
