/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/config_internal.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "config/config.h"

#define SANDBOXES "sandboxes"

/* What is read: the document, and which keys have been seen. */
struct reader {
    struct config *config;
    const char *where;
    yaml_document_t doc;
    bool *seen; /* owned; by index in config_keys */
    bool seen_sandboxes;
    const yaml_node_t *chosen; /* the value of sandbox.use; or NULL */
};

static int walk_sandboxes(struct reader *r, const yaml_node_t *key,
                          const yaml_node_t *value, struct error *err);

/* Puts path, line and column (both from 1) in front of the message. */
static int
fail_at(const char *where, const yaml_node_t *node, struct error *err)
{
    yaml_mark_t mark = {0};

    if (node != NULL)
        mark = node->start_mark;
    if (err != NULL)
        err->code = ERR_CONFIG;
    return err_wrap(err, "%s:%zu:%zu", where, mark.line + 1, mark.column + 1);
}

/* The text of a scalar without NUL bytes inside, or NULL. */
static const char *
scalar_text(const yaml_node_t *node)
{
    if (node == NULL || node->type != YAML_SCALAR_NODE)
        return NULL;
    if (strlen((const char *)node->data.scalar.value) !=
        node->data.scalar.length)
        return NULL;
    return (const char *)node->data.scalar.value;
}

/* A value that was left out: "model:" with nothing behind it. */
static bool
is_empty(const yaml_node_t *node)
{
    return node != NULL && node->type == YAML_SCALAR_NODE &&
           node->data.scalar.length == 0;
}

/* The names that can stand where name does: whole keys, or sections; one more
   than there are keys. Elements and array are owned by the caller. */
static char **
known_names(bool sections)
{
    char **names = xcalloc(config_n_keys + 1, sizeof(*names));

    for (size_t i = 0; i < config_n_keys; i++) {
        const char *key = config_keys[i].name;

        names[i] = sections ? xstrndup(key, strcspn(key, ".")) : xstrdup(key);
    }
    names[config_n_keys] = xstrdup(sections ? SANDBOXES : names[0]);
    return names;
}

/* The key that is called name within its section, or NULL. */
static const char *
find_in_sections(const char *name)
{
    for (size_t i = 0; i < config_n_keys; i++) {
        const char *dot = strchr(config_keys[i].name, '.');

        if (dot != NULL && str_eq(dot + 1, name))
            return config_keys[i].name;
    }
    return NULL;
}

static int
unknown_key(const struct reader *r, const yaml_node_t *node, const char *name,
            bool is_section_name, struct error *err)
{
    char **names = known_names(is_section_name);
    const char *near =
        str_nearest(name, (const char *const *)names, config_n_keys + 1);
    const char *dot = strrchr(name, '.');
    const char *inner = is_section_name ? find_in_sections(name) : NULL;

    if (config_looks_secret(dot != NULL ? dot + 1 : name) ||
        config_looks_secret(name))
        error_fill(err, ERR_CONFIG,
                   "unknown key, not repeated since it may be a secret; a key "
                   "for the Claude API is the value of 'api_key:' below "
                   "'model:'");
    else if (is_section_name && config_find_key(name) != NULL)
        error_fill(err, ERR_CONFIG,
                   "unknown key '%s': write '%s:' below '%.*s:'", name,
                   strchr(name, '.') + 1, (int)strcspn(name, "."), name);
    else if (inner != NULL)
        error_fill(err, ERR_CONFIG,
                   "unknown key '%s': write it below '%.*s:', moved to the "
                   "right",
                   name, (int)strcspn(inner, "."), inner);
    else if (near != NULL)
        error_fill(err, ERR_CONFIG, "unknown key '%s'; the nearest is '%s'",
                   name, near);
    else
        error_fill(err, ERR_CONFIG, "unknown key '%s'", name);
    for (size_t i = 0; i <= config_n_keys; i++)
        free(names[i]);
    free(names);
    return fail_at(r->where, node, err);
}

/* True when some key begins with "section.". */
static bool
is_section(const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < config_n_keys; i++) {
        if (strncmp(config_keys[i].name, name, len) == 0 &&
            config_keys[i].name[len] == '.')
            return true;
    }
    return false;
}

static int
read_value(struct reader *r, const yaml_node_t *key_node, const char *name,
           const yaml_node_t *value_node, struct error *err)
{
    const struct config_key *key = config_find_key(name);
    const char *text = scalar_text(value_node);

    if (key == NULL)
        return unknown_key(r, key_node, name, false, err);
    if (r->seen[key - config_keys]) {
        error_fill(err, ERR_CONFIG, "%s is there twice", name);
        return fail_at(r->where, key_node, err);
    }
    r->seen[key - config_keys] = true;
    if (text == NULL) {
        error_fill(err, ERR_CONFIG, "%s: expected one value", name);
        return fail_at(r->where, value_node, err);
    }
    if (config_assign(r->config, key, text, err) < 0)
        return fail_at(r->where, value_node, err);
    if (str_eq(name, CONFIG_SANDBOX_KEY))
        r->chosen = value_node;
    return 0;
}

static int
read_section(struct reader *r, const char *section, const yaml_node_t *map,
             struct error *err)
{
    const yaml_node_pair_t *pair = map->data.mapping.pairs.start;

    for (; pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&r->doc, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&r->doc, pair->value);
        const char *name = scalar_text(key);
        AUTO_FREE char *full = NULL;

        if (name == NULL) {
            error_fill(err, ERR_CONFIG, "expected a name before ':'");
            return fail_at(r->where, key, err);
        }
        full = xasprintf("%s.%s", section, name);
        if (read_value(r, key, full, value, err) < 0)
            return -1;
    }
    return 0;
}

/* What stands behind one name at the top. */
static int
read_part(struct reader *r, const yaml_node_t *key, const char *name,
          const yaml_node_t *value, struct error *err)
{
    if (str_eq(name, SANDBOXES))
        return walk_sandboxes(r, key, value, err);
    if (!is_section(name))
        return unknown_key(r, key, name, true, err);
    if (is_empty(value))
        return 0;
    /* "sandbox: NAME" is short for the one key that says which. */
    if (str_eq(name, "sandbox") && value != NULL &&
        value->type == YAML_SCALAR_NODE)
        return read_value(r, key, CONFIG_SANDBOX_KEY, value, err);
    if (value == NULL || value->type != YAML_MAPPING_NODE) {
        error_fill(err, ERR_CONFIG, "%s: expected keys below it", name);
        return fail_at(r->where, value, err);
    }
    return read_section(r, name, value, err);
}

/* The entry may stand behind the place where it is chosen. */
static int
check_chosen(const struct reader *r, struct error *err)
{
    if (r->chosen == NULL ||
        config_check_sandbox_name(r->config, r->config->sandbox,
                                  CONFIG_SANDBOX_KEY, err) == 0)
        return 0;
    return fail_at(r->where, r->chosen, err);
}

static int
read_root(void *ctx, struct error *err)
{
    struct reader *r = ctx;
    const yaml_node_t *root = yaml_document_get_root_node(&r->doc);
    const yaml_node_pair_t *pair = NULL;

    if (root == NULL || is_empty(root))
        return 0;
    if (root->type != YAML_MAPPING_NODE) {
        error_fill(err, ERR_CONFIG, "expected sections such as 'model:'");
        return fail_at(r->where, root, err);
    }
    pair = root->data.mapping.pairs.start;
    for (; pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&r->doc, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&r->doc, pair->value);
        const char *name = scalar_text(key);

        if (name == NULL) {
            error_fill(err, ERR_CONFIG, "expected a name before ':'");
            return fail_at(r->where, key, err);
        }
        if (read_part(r, key, name, value, err) < 0)
            return -1;
    }
    return check_chosen(r, err);
}

/* Whether the line (from 0) begins with blanks of which one is a tab. */
static bool
has_leading_tab(const char *text, size_t len, size_t line)
{
    const char *end = text + len;

    for (; line > 0 && text < end; line--) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));

        text = lf != NULL ? lf + 1 : end;
    }
    while (text < end && *text == ' ')
        text++;
    return text < end && *text == '\t';
}

/* A name of hosts such as *.example.org is an alias to the library. */
static bool
is_alias(const yaml_parser_t *parser)
{
    return parser->context != NULL && strstr(parser->context, "alias") != NULL;
}

/* The library's words, but for the mistakes that are made most often. */
static int
fail_to_parse(const char *where, const char *text, size_t len,
              const yaml_parser_t *parser, struct error *err)
{
    if (has_leading_tab(text, len, parser->problem_mark.line))
        return err_set(err, ERR_CONFIG,
                       "%s:%zu:%zu: a tab; blanks are needed at the beginning "
                       "of a line",
                       where, parser->problem_mark.line + 1,
                       parser->problem_mark.column + 1);
    return err_set(
        err, ERR_CONFIG, "%s:%zu:%zu: %s", where, parser->problem_mark.line + 1,
        parser->problem_mark.column + 1,
        is_alias(parser)          ? "a value that begins with '*' needs quotes"
        : parser->problem != NULL ? parser->problem
                                  : "not YAML");
}

/* A second document would be settings that nobody sees are not read. */
static int
refuse_more(const char *where, const char *text, size_t len,
            yaml_parser_t *parser, struct error *err)
{
    yaml_document_t doc;
    const yaml_node_t *root = NULL;
    size_t line = 0;
    bool more = false;

    if (!yaml_parser_load(parser, &doc))
        return fail_to_parse(where, text, len, parser, err);
    root = yaml_document_get_root_node(&doc);
    more = root != NULL;
    line = doc.start_mark.line + 1;
    yaml_document_delete(&doc);
    if (more)
        return err_set(err, ERR_CONFIG,
                       "%s:%zu:1: a second document begins ('---'); one is "
                       "read",
                       where, line);
    return 0;
}

/* Loads the document and gives it to read; there must be no other behind it. */
static int
read_document(const char *where, const char *text, size_t len,
              yaml_document_t *doc, int (*read)(void *ctx, struct error *err),
              void *ctx, struct error *err)
{
    yaml_parser_t parser;
    int rc = -1;

    if (!yaml_parser_initialize(&parser))
        return err_set(err, ERR_INTERNAL, "the YAML parser did not start");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (!yaml_parser_load(&parser, doc)) {
        fail_to_parse(where, text, len, &parser, err);
    } else {
        rc = read(ctx, err);
        yaml_document_delete(doc);
        if (rc == 0)
            rc = refuse_more(where, text, len, &parser, err);
    }
    yaml_parser_delete(&parser);
    return rc;
}

int
config_read_yaml(struct config *c, const char *where, const char *text,
                 size_t len, struct error *err)
{
    struct reader r = {.config = c, .where = where};
    int rc = -1;

    r.seen = xcalloc(config_n_keys, sizeof(*r.seen));
    rc = read_document(where, text, len, &r.doc, read_root, &r, err);
    free(r.seen);
    return rc;
}

/* ---- any file of mappings -------------------------------------------------
 */

/* Aliases can make few bytes many values. */
#define MAX_VALUES 40000

struct walk {
    const char *where;
    const yaml_document_t *doc;
    const char *names[CONFIG_MAX_NAMES];
    size_t n_values; /* that have been seen, mappings too */
    const struct config_walker *fns;
    void *ctx;
};

static yaml_node_t *
get_node(const struct walk *w, int index)
{
    /* It is only read, which the library does not say. */
    return yaml_document_get_node((yaml_document_t *)(uintptr_t)w->doc, index);
}

/* The values of a list, borrowed; NULL where one is none. */
static const char **
list_items(const struct walk *w, const yaml_node_t *node, size_t *n_items)
{
    const yaml_node_item_t *item = node->data.sequence.items.start;
    size_t n = (size_t)(node->data.sequence.items.top - item);
    AUTO_FREE const char **items = NULL;

    if (n > MAX_VALUES)
        return NULL;
    items = xcalloc(n + 1, sizeof(*items));
    for (size_t i = 0; i < n; i++) {
        items[i] = scalar_text(get_node(w, item[i]));
        if (items[i] == NULL)
            return NULL;
    }
    *n_items = n;
    return take_ptr(&items);
}

/* Gives what stands behind names[0 .. n_names - 1] to the caller's function. */
static int
give_leaf(struct walk *w, size_t n_names, enum config_leaf_kind kind,
          const yaml_node_t *node, struct error *err)
{
    struct config_leaf leaf = {
        .names = w->names, .n_names = n_names, .kind = kind, .value = ""};
    AUTO_FREE const char **items = NULL;

    if (kind == CONFIG_LEAF_VALUE)
        leaf.value = scalar_text(node);
    else if (kind == CONFIG_LEAF_LIST)
        leaf.items = items = list_items(w, node, &leaf.n_items);
    if (leaf.value == NULL)
        error_fill(err, ERR_CONFIG, "%s: a NUL in the value",
                   w->names[n_names - 1]);
    if (leaf.value == NULL || w->fns->leaf(w->ctx, &leaf, err) < 0)
        return fail_at(w->where, node, err);
    return 0;
}

static int
compare_nodes(const void *a, const void *b)
{
    const yaml_node_t *x = *(const yaml_node_t *const *)a;
    const yaml_node_t *y = *(const yaml_node_t *const *)b;
    int order = strcmp(scalar_text(x), scalar_text(y));

    /* Of two that are equal, the second is the one that is too many. */
    return order != 0 ? order : x < y ? -1 : x > y;
}

/* A mapping's names are names, and each is there once. */
static int
check_names(struct walk *w, const yaml_node_t *map, struct error *err)
{
    const yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    size_t n = (size_t)(map->data.mapping.pairs.top - pair);
    AUTO_FREE const yaml_node_t **keys = xcalloc(n + 1, sizeof(*keys));

    for (size_t i = 0; i < n; i++) {
        keys[i] = get_node(w, pair[i].key);
        if (scalar_text(keys[i]) == NULL) {
            error_fill(err, ERR_CONFIG, "expected a name before ':'");
            return fail_at(w->where, keys[i], err);
        }
    }
    qsort(keys, n, sizeof(*keys), compare_nodes);
    for (size_t i = 1; i < n; i++) {
        const char *name = scalar_text(keys[i]);

        if (str_eq(scalar_text(keys[i - 1]), name)) {
            error_fill(err, ERR_CONFIG, "%s is there twice",
                       config_looks_secret(name) ? "the same name" : name);
            return fail_at(w->where, keys[i], err);
        }
    }
    return 0;
}

static int walk_node(struct walk *w, size_t n_names, const yaml_node_t *node,
                     struct error *err);

static int
walk_pair(struct walk *w, size_t n_names, const yaml_node_pair_t *pair,
          struct error *err)
{
    const yaml_node_t *key = get_node(w, pair->key);

    w->names[n_names] = scalar_text(key);
    if (w->fns->name != NULL &&
        w->fns->name(w->ctx, w->names, n_names + 1, err) < 0)
        return fail_at(w->where, key, err);
    return walk_node(w, n_names + 1, get_node(w, pair->value), err);
}

static int
walk_node(struct walk *w, size_t n_names, const yaml_node_t *node,
          struct error *err)
{
    const yaml_node_pair_t *pair = NULL;

    if (++w->n_values > MAX_VALUES) {
        error_fill(err, ERR_CONFIG, "more than %d values", MAX_VALUES);
        return fail_at(w->where, node, err);
    }
    if (node == NULL || node->type == YAML_SCALAR_NODE)
        return give_leaf(w, n_names, CONFIG_LEAF_VALUE, node, err);
    if (node->type != YAML_MAPPING_NODE)
        return give_leaf(w, n_names, CONFIG_LEAF_LIST, node, err);
    pair = node->data.mapping.pairs.start;
    if (pair == node->data.mapping.pairs.top || n_names == CONFIG_MAX_NAMES)
        return n_names == 0
                   ? 0
                   : give_leaf(w, n_names, CONFIG_LEAF_NAMES, node, err);
    if (check_names(w, node, err) < 0)
        return -1;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        if (walk_pair(w, n_names, pair, err) < 0)
            return -1;
    }
    if (w->fns->end != NULL && w->fns->end(w->ctx, w->names, n_names, err) < 0)
        return fail_at(w->where, node, err);
    return 0;
}

static int
walk_sandboxes(struct reader *r, const yaml_node_t *key,
               const yaml_node_t *value, struct error *err)
{
    struct walk w = {.where = r->where,
                     .doc = &r->doc,
                     .names = {SANDBOXES},
                     .fns = &config_sandboxes_walker,
                     .ctx = r->config};

    if (r->seen_sandboxes) {
        error_fill(err, ERR_CONFIG, SANDBOXES " is there twice");
        return fail_at(r->where, key, err);
    }
    r->seen_sandboxes = true;
    return walk_node(&w, 1, value, err);
}

/* A document that is one mapping, which is walked through. */
struct any {
    struct walk walk;
    yaml_document_t doc;
};

static int
walk_root(void *ctx, struct error *err)
{
    struct any *any = ctx;
    const yaml_node_t *root = yaml_document_get_root_node(&any->doc);

    if (root == NULL || is_empty(root))
        return 0;
    if (root->type != YAML_MAPPING_NODE) {
        error_fill(err, ERR_CONFIG, "expected names with ':' behind them");
        return fail_at(any->walk.where, root, err);
    }
    return walk_node(&any->walk, 0, root, err);
}

int
config_each_leaf(const char *where, const char *text, size_t len,
                 int (*fn)(void *ctx, const struct config_leaf *leaf,
                           struct error *err),
                 void *ctx, struct error *err)
{
    struct config_walker fns = {.leaf = fn};
    struct any any = {.walk = {.where = where, .fns = &fns, .ctx = ctx}};

    any.walk.doc = &any.doc;
    return read_document(where, text, len, &any.doc, walk_root, &any, err);
}
