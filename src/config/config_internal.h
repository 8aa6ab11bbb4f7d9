/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tables of options.def and the assignment of one value, for this layer.
 */
#ifndef CONFIG_CONFIG_INTERNAL_H
#define CONFIG_CONFIG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct config;
struct error;

enum config_type {
    CONFIG_TEXT,
    CONFIG_INTEGER,
    CONFIG_DOLLARS, /* the field is in nano-dollars */
    CONFIG_SECRET,
    CONFIG_FLAG
};

struct config_key {
    const char *name; /* "section.key" */
    enum config_type type;
    size_t offset;     /* of the field in struct config */
    const char *value; /* built-in; NULL: none */
    int64_t min;
    int64_t max;
    const char *values; /* "a|b"; "": any */
    const char *help;
};

struct config_option {
    const char *name;
    char letter; /* 0: none */
    enum config_type type;
    size_t offset;
    const char *argument; /* NULL: takes none */
    const char *help;
};

extern const struct config_key config_keys[];
extern const size_t config_n_keys;
extern const struct config_option config_options[];
extern const size_t config_n_options;

/*
 * Sets the field of key from text, checking type, range and words.
 * Errors: ERR_CONFIG, naming key and value (never that of a secret).
 */
WARN_UNUSED int config_assign(struct config *c, const struct config_key *key,
                              const char *text, struct error *err);

/* Text that messages do not repeat: it may be a key in the wrong place. */
bool config_looks_secret(const char *text);

/* An http or https address with a host, perhaps a path, and nothing else.
   Errors: ERR_CONFIG, beginning with name and never repeating the address. */
WARN_UNUSED int config_check_address(const char *name, const char *text,
                                     struct error *err);

/*
 * Reads headers, one "Name: value" a line, into c; a later one of the same name
 * takes the place of an earlier one. Errors: ERR_CONFIG, naming the line and
 * never a value.
 */
WARN_UNUSED int config_read_headers(struct config *c, const char *text,
                                    struct error *err);
void config_free_headers(struct config *c);

/* The key of that name, or NULL. */
const struct config_key *config_find_key(const char *name);

/* Reads YAML text into c; where: path, for messages. Errors: ERR_CONFIG. */
WARN_UNUSED int config_read_yaml(struct config *c, const char *where,
                                 const char *text, size_t len,
                                 struct error *err);

enum config_leaf_kind {
    CONFIG_LEAF_VALUE, /* one value, perhaps an empty one */
    CONFIG_LEAF_LIST,
    CONFIG_LEAF_NAMES /* names below it: none, or deeper than is read */
};

/* What ends a path of names in a YAML text, from the outermost. All borrowed
   for the call. */
struct config_leaf {
    const char *const *names;
    size_t n_names;
    enum config_leaf_kind kind;
    const char *value;        /* "" when it was left out, and for other kinds */
    const char *const *items; /* of a list; NULL: one of them is no value */
    size_t n_items;
};

#define CONFIG_MAX_NAMES 4u

/* Whoever is told of a mapping: of each name before what is behind it, of each
   leaf, and of each mapping that is not empty at its end, with the names that
   lead to it. An error gets line and column: of the name, of the value, of the
   mapping. name and end may be NULL. */
struct config_walker {
    int (*name)(void *ctx, const char *const *names, size_t n_names,
                struct error *err);
    int (*leaf)(void *ctx, const struct config_leaf *leaf, struct error *err);
    int (*end)(void *ctx, const char *const *names, size_t n_names,
               struct error *err);
};

/* Reads "sandboxes:" of the configuration file; the context is struct config.
   The first name is "sandboxes", and given already. */
extern const struct config_walker config_sandboxes_walker;

/* "sandbox.use": which of them is used. */
#define CONFIG_SANDBOX_KEY "sandbox.use"

/* That there is a sandbox of that name. setting: what names it. Errors:
   ERR_CONFIG, with those that there are. */
WARN_UNUSED int config_check_sandbox_name(const struct config *c,
                                          const char *name, const char *setting,
                                          struct error *err);

/* The whole of text as dollars for an hour, 0 to 1000 with at most nine
   decimals, in nano-dollars. Errors: ERR_CONFIG, naming text. */
WARN_UNUSED int config_read_rate(const char *text, int64_t *nanousd,
                                 struct error *err);

/* Takes E2B_API_KEY out of the environment; then fills in what entries have
   left out, and adds the entry "e2b" unless there is one. */
void config_fill_sandboxes(struct config *c);
void config_free_sandboxes(struct config *c);

/* Whether a header can be called so, and have that value. Errors: ERR_CONFIG;
   the value is never in the message. */
WARN_UNUSED int config_check_header_name(const char *name, struct error *err);
WARN_UNUSED int config_check_header_value(const char *name, const char *value,
                                          size_t len, struct error *err);

/*
 * Reads a YAML text of mappings within mappings, at most CONFIG_MAX_NAMES deep,
 * and calls fn for each leaf, in order: those below one name follow each other,
 * since no mapping may have a name twice. An error of fn ends it and gets line
 * and column. where: path, for messages. Errors: ERR_CONFIG.
 */
WARN_UNUSED int config_each_leaf(
    const char *where, const char *text, size_t len,
    int (*fn)(void *ctx, const struct config_leaf *leaf, struct error *err),
    void *ctx, struct error *err);

#endif
