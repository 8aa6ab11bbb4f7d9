/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_entries_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"
#include "sandbox/e2b_wire_internal.h"

#define NS_PER_S ((int64_t)1000000000)

void
e2b_entries_fini(struct e2b_entries *e)
{
    for (size_t i = 0; i < e->n; i++) {
        free_const(e->items[i].path);
    }
    free(e->items);
    *e = (struct e2b_entries){0};
}

/* --- paths --- */

/* Of what comes behind the first slash; 0: it is not plain. */
static int
count_levels(const char *rest)
{
    int n = 0;

    while (true) {
        size_t len = strcspn(rest, "/");

        if (len == 0 || (len == 1 && rest[0] == '.') ||
            (len == 2 && rest[0] == '.' && rest[1] == '.')) {
            return 0;
        }
        n++;
        if (rest[len] == '\0') {
            return n;
        }
        rest += len + 1;
    }
}

bool
e2b_is_path(const char *path)
{
    size_t len = strnlen(path, E2B_MAX_PATH_BYTES + 1);

    return len <= E2B_MAX_PATH_BYTES && path[0] == '/' &&
           (len == 1 || count_levels(path + 1) > 0) && utf8_valid(path, len);
}

static bool
is_below(const char *path, const char *dir, int depth)
{
    size_t len = strlen(dir);
    int levels = 0;

    if (len == 1) {
        len = 0; /* the root: its slash is the first of what is in it */
    }
    if (!e2b_is_path(path) || strncmp(path, dir, len) != 0 ||
        path[len] != '/') {
        return false;
    }
    levels = count_levels(path + len + 1);
    return levels > 0 && levels <= depth;
}

/* --- entries --- */

/*
 * A number of 64 bits is text, and a smaller one may be a number; what is 0 is
 * left out. Returns false for what is none.
 */
static bool
read_size(const struct cJSON *entry, uint64_t *size)
{
    const struct cJSON *value = json_get(entry, "size");
    const char *text = json_value_string(value);
    AUTO_FREE char *printed = NULL;
    int64_t n = 0;

    if (value == NULL) {
        *size = 0;
        return true;
    }
    if (text == NULL) {
        printed = json_print(value);
        text = str_eq(printed, "null") ? "0" : printed;
    }
    if (str_to_int(text, 0, INT64_MAX, &n, NULL) < 0) {
        return false;
    }
    *size = (uint64_t)n;
    return true;
}

static int64_t
read_mtime(const struct cJSON *entry)
{
    struct timespec t = {0};

    if (!e2b_read_time(json_string(entry, "modifiedTime"), &t) ||
        t.tv_sec <= 0 || t.tv_sec >= INT64_MAX / NS_PER_S) {
        return 0;
    }
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Whether there is something other than what stands for nothing. */
static bool
says_something(const struct cJSON *entry, const char *key)
{
    const struct cJSON *value = json_get(entry, key);
    AUTO_FREE char *printed = value != NULL ? json_print(value) : NULL;

    return printed != NULL && !str_eq(printed, "null") &&
           !str_eq(printed, "false");
}

/* Any of the three marks: which of them there are depends on the version, and
   a link that is taken for a file leads anywhere. */
static bool
is_link(const struct cJSON *entry)
{
    return says_something(entry, "isSymlink") ||
           says_something(entry, "symlinkTarget") ||
           str_eq(json_string(entry, "type"), "FILE_TYPE_SYMLINK");
}

/* What has no type is told by the letters of its mode, as Go writes them.
   https://pkg.go.dev/io/fs#FileMode */
static enum e2b_entry_type
type_of_mode(const char *permissions)
{
    switch (permissions != NULL ? permissions[0] : '\0') {
    case 'p':
        return E2B_ENTRY_FIFO;
    case 'S':
        return E2B_ENTRY_SOCKET;
    case 'D':
        return E2B_ENTRY_DEVICE;
    default:
        return E2B_ENTRY_OTHER;
    }
}

/* Its path is borrowed from the tree. Returns false if it cannot be believed:
   no file has a NUL in its name. */
static bool
read_entry(const struct cJSON *tree, const char *text, size_t len,
           struct e2b_entry *entry)
{
    const char *type = json_string(tree, "type");

    *entry = (struct e2b_entry){.path = json_string(tree, "path"),
                                .type = E2B_ENTRY_OTHER,
                                .is_link = is_link(tree),
                                .mtime_ns = read_mtime(tree)};
    if (str_eq(type, "FILE_TYPE_FILE")) {
        entry->type = E2B_ENTRY_FILE;
    } else if (str_eq(type, "FILE_TYPE_DIRECTORY")) {
        entry->type = E2B_ENTRY_DIRECTORY;
    } else {
        entry->type = type_of_mode(json_string(tree, "permissions"));
    }
    return entry->path != NULL && read_size(tree, &entry->size_bytes) &&
           !json_has_nul_escape(text, len);
}

static void
add_entry(struct e2b_entries *e, const struct e2b_entry *entry)
{
    e->items = xgrow(e->items, e->n, sizeof(*e->items));
    e->items[e->n] = *entry;
    e->items[e->n].path = xstrdup(entry->path);
    e->n++;
}

/* --- lists --- */

/*
 * The list is cut into its elements before any is parsed, so that the memory
 * that a tree takes, and its limit on the number of values, are those of one
 * entry however many there are.
 */
struct cursor {
    const char *at;
    const char *end;
};

static void
skip_space(struct cursor *c)
{
    while (c->at < c->end && *c->at != '\0' &&
           strchr(" \t\r\n", *c->at) != NULL) {
        c->at++;
    }
}

static bool
skip_char(struct cursor *c, char what)
{
    skip_space(c);
    if (c->at == c->end || *c->at != what) {
        return false;
    }
    c->at++;
    return true;
}

/* at is behind the opening quote. */
static bool
skip_string(struct cursor *c)
{
    while (c->at < c->end && *c->at != '"') {
        c->at += *c->at == '\\' ? 2 : 1;
    }
    if (c->at >= c->end) {
        return false;
    }
    c->at++;
    return true;
}

/* Up to the end of one value, whose inside json_parse judges. */
static bool
skip_value(struct cursor *c)
{
    size_t depth = 0;

    skip_space(c);
    while (c->at < c->end) {
        char ch = *c->at;

        if (depth == 0 && (ch == ',' || ch == ']' || ch == '}')) {
            return true;
        }
        c->at++;
        if (ch == '"') {
            if (!skip_string(c)) {
                return false;
            }
        } else if (ch == '{' || ch == '[') {
            depth++;
        } else if (ch == '}' || ch == ']') {
            depth--;
        }
    }
    return false;
}

static int
read_element(const char *text, size_t len, const char *dir, int depth,
             size_t max, struct e2b_entries *out, struct error *err)
{
    AUTO_JSON struct cJSON *tree = json_parse(text, len, 0, err);
    struct e2b_entry entry;

    if (tree == NULL) {
        return err_wrap(err, "an entry of the list");
    }
    if (!json_is_object(tree)) {
        return err_set(err, ERR_PROTOCOL, "an entry of the list is no object");
    }
    if (!read_entry(tree, text, len, &entry) ||
        !is_below(entry.path, dir, depth)) {
        return 0;
    }
    if (out->n == max) {
        out->more = true;
        return 0;
    }
    add_entry(out, &entry);
    return 0;
}

/* c is behind the opening bracket. */
static int
read_elements(struct cursor *c, const char *dir, int depth, size_t max,
              struct e2b_entries *out, struct error *err)
{
    if (skip_char(c, ']')) {
        return 0;
    }
    do {
        const char *start = c->at;

        if (!skip_value(c)) {
            break;
        }
        if (read_element(start, (size_t)(c->at - start), dir, depth, max, out,
                         err) < 0) {
            return -1;
        }
        if (skip_char(c, ']')) {
            return 0;
        }
    } while (skip_char(c, ','));
    return err_set(err, ERR_PROTOCOL, "the list has no end");
}

/* A value of no concern is JSON all the same. */
static int
skip_checked(struct cursor *c, struct error *err)
{
    const char *start = c->at;
    struct cJSON *tree;

    if (!skip_value(c)) {
        return err_set(err, ERR_PROTOCOL, "the answer has no end");
    }
    tree = json_parse(start, (size_t)(c->at - start), 0, err);
    json_free(tree);
    return tree != NULL ? 0 : -1;
}

/* Sets *is_entries for the one member that matters. */
static int
read_name(struct cursor *c, bool *is_entries, struct error *err)
{
    AUTO_JSON struct cJSON *name = NULL;
    const char *start;

    skip_space(c);
    start = c->at;
    if (!skip_char(c, '"') || !skip_string(c)) {
        return err_set(err, ERR_PROTOCOL, "the answer is no JSON");
    }
    name = json_parse(start, (size_t)(c->at - start), 0, err);
    if (name == NULL) {
        return -1;
    }
    *is_entries = str_eq(json_value_string(name), "entries");
    return skip_char(c, ':')
               ? 0
               : err_set(err, ERR_PROTOCOL, "the answer is no JSON");
}

/* What is empty is left out, or said to be nothing. */
static int
read_entries(struct cursor *c, const char *dir, int depth, size_t max,
             struct e2b_entries *out, struct error *err)
{
    const char *start = NULL;
    AUTO_FREE char *value = NULL;

    if (skip_char(c, '[')) {
        return read_elements(c, dir, depth, max, out, err);
    }
    start = c->at;
    if (skip_value(c)) {
        AUTO_FREE char *whole = xstrndup(start, (size_t)(c->at - start));

        value = str_trim(whole);
    }
    return str_eq(value, "null")
               ? 0
               : err_set(err, ERR_PROTOCOL, "entries is no list");
}

static int
read_members(struct cursor *c, const char *dir, int depth, size_t max,
             struct e2b_entries *out, struct error *err)
{
    bool is_entries = false;

    if (!skip_char(c, '{')) {
        return err_set(err, ERR_PROTOCOL, "the answer is no object");
    }
    if (skip_char(c, '}')) {
        return 0;
    }
    do {
        if (read_name(c, &is_entries, err) < 0) {
            return -1;
        }
        if ((is_entries ? read_entries(c, dir, depth, max, out, err)
                        : skip_checked(c, err)) < 0) {
            return -1;
        }
        if (skip_char(c, '}')) {
            return 0;
        }
    } while (skip_char(c, ','));
    return err_set(err, ERR_PROTOCOL, "the answer has no end");
}

int
e2b_entries_read_list(const char *text, size_t len, const char *dir, int depth,
                      size_t max, struct e2b_entries *out, struct error *err)
{
    struct cursor c = {text, text + len};
    struct e2b_entries read = {0};
    int rc = read_members(&c, dir, depth, max, &read, err);

    assert(e2b_is_path(dir));
    skip_space(&c);
    if (rc == 0 && c.at != c.end) {
        rc = err_set(err, ERR_PROTOCOL, "%zu bytes are behind the answer",
                     (size_t)(c.end - c.at));
    }
    if (rc < 0) {
        e2b_entries_fini(&read);
        return -1;
    }
    *out = read;
    return 0;
}

int
e2b_entries_read_one(const char *text, size_t len, const char *path,
                     struct e2b_entries *out, struct error *err)
{
    AUTO_JSON struct cJSON *tree = json_parse(text, len, 0, err);
    const struct cJSON *member = json_get(tree, "entry");
    struct e2b_entry entry;

    if (tree == NULL) {
        return -1;
    }
    if (!json_is_object(member)) {
        return err_set(err, ERR_PROTOCOL, "the answer has no entry");
    }
    if (!read_entry(member, text, len, &entry) || !str_eq(entry.path, path)) {
        return err_set(err, ERR_PROTOCOL, "the answer is about something else");
    }
    *out = (struct e2b_entries){0};
    add_entry(out, &entry);
    return 0;
}

int
e2b_entries_check_upload(const char *text, size_t len, const char *path,
                         struct error *err)
{
    AUTO_JSON struct cJSON *tree = json_parse(text, len, 0, err);
    const struct cJSON *first = json_first(tree);
    const char *type = json_string(first, "type");

    if (tree == NULL) {
        return -1;
    }
    if (!json_is_array(tree)) {
        return err_set(err, ERR_PROTOCOL, "the answer is no list of files");
    }
    /* A part by a name that is not known is left out in silence. */
    if (json_len(tree) != 1) {
        return err_set(err, ERR_PROTOCOL, "%zu files were written instead of 1",
                       json_len(tree));
    }
    if (!str_eq(json_string(first, "path"), path) ||
        (type != NULL && !str_eq(type, "file"))) {
        return err_set(err, ERR_PROTOCOL, "another file was written");
    }
    return 0;
}
