/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/models.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/config_internal.h"
#include "config/models_internal.h"

#define MAX_FILE_BYTES (256u << 10)

/* 1,000 dollars for a million tokens; 10 million tokens. */
#define MAX_RATE INT64_C(1000000000)
#define MAX_TOKENS 10000000

#define NOT_SAID (-1)

static const char *const rate_names[CONFIG_N_RATES] = {
    [CONFIG_RATE_INPUT] = "input",
    [CONFIG_RATE_OUTPUT] = "output",
    [CONFIG_RATE_WRITE_5M] = "cache_write_5m",
    [CONFIG_RATE_WRITE_1H] = "cache_write_1h",
    [CONFIG_RATE_READ] = "cache_read",
};

/* What there is besides rates below a model, and below its "long_prompt:". */
static const char *const own_names[] = {"max_output", "long_prompt"};
static const char *const long_names[] = {"above"};

/* The text that is read. */
struct reading {
    struct config_models new; /* of this text, as they come */
    char *date;               /* owned; NULL: not said */
};

static void
model_fini(struct config_model *model)
{
    free(model->name);
    free(model->date);
}

void
config_models_fini(struct config_models *m)
{
    for (size_t i = 0; i < m->n_models; i++)
        model_fini(&m->models[i]);
    free(m->models);
    memset(m, 0, sizeof(*m));
}

/* The model of that name; what is below one name comes one after the other. */
static struct config_model *
get_model(struct config_models *m, const char *name)
{
    size_t n = m->n_models;
    struct config_model *model = NULL;

    if (n > 0 && str_eq(m->models[n - 1].name, name))
        return &m->models[n - 1];
    m->models = xgrow(m->models, n, sizeof(*m->models));
    model = &m->models[m->n_models++];
    *model = (struct config_model){.name = xstrdup(name)};
    for (size_t i = 0; i < CONFIG_N_RATES; i++) {
        model->rates[i] = NOT_SAID;
        model->long_rates[i] = NOT_SAID;
    }
    return model;
}

/* What stands where something else was expected. */
static int
wrong_kind(const struct config_leaf *leaf, const char *name,
           const char *expected, struct error *err)
{
    if (leaf->kind == CONFIG_LEAF_LIST)
        return err_set(err, ERR_CONFIG, "%s: a list; expected %s", name,
                       expected);
    if (leaf->kind == CONFIG_LEAF_NAMES)
        return err_set(err, ERR_CONFIG, "%s: a group of names; expected %s",
                       name, expected);
    if (str_blank(leaf->value))
        return err_set(err, ERR_CONFIG, "%s: nothing; expected %s", name,
                       expected);
    return err_set(err, ERR_CONFIG, "%s: '%.60s'; expected %s", name,
                   leaf->value, expected);
}

static int
unknown_name(const char *name, bool is_long, struct error *err)
{
    const char *names[CONFIG_N_RATES + LEN(own_names) + LEN(long_names)];
    const char *near = NULL;
    size_t n = 0;

    for (; n < CONFIG_N_RATES; n++)
        names[n] = rate_names[n];
    for (size_t i = 0; !is_long && i < LEN(own_names); i++)
        names[n++] = own_names[i];
    for (size_t i = 0; is_long && i < LEN(long_names); i++)
        names[n++] = long_names[i];
    near = str_nearest(name, names, n);
    if (near != NULL)
        return err_set(err, ERR_CONFIG,
                       "unknown name '%s'; the nearest is '%s'", name, near);
    return err_set(err, ERR_CONFIG, "unknown name '%s'", name);
}

/* The field for a number, and whether it is an amount of money; NULL: there is
   none of that name. */
static int64_t *
find_field(struct config_model *model, bool is_long, const char *name,
           bool *is_rate)
{
    *is_rate = true;
    for (size_t i = 0; i < CONFIG_N_RATES; i++) {
        if (str_eq(name, rate_names[i]))
            return is_long ? &model->long_rates[i] : &model->rates[i];
    }
    *is_rate = false;
    if (is_long)
        return str_eq(name, "above") ? &model->long_above : NULL;
    return str_eq(name, "max_output") ? &model->max_output : NULL;
}

/* What stands below a model, or below its "long_prompt:". */
static int
set_field(struct config_model *model, const struct config_leaf *leaf,
          bool is_long, struct error *err)
{
    const char *name = leaf->names[is_long ? 3 : 2];
    bool is_rate = false;
    int64_t *field = find_field(model, is_long, name, &is_rate);
    struct config_leaf shown = *leaf;

    if (!is_long && str_eq(name, "long_prompt"))
        return wrong_kind(leaf, name, "names below it: above, input, output",
                          err);
    if (field == NULL)
        return unknown_name(name, is_long, err);
    if (!is_long && leaf->n_names > 3)
        shown.kind = CONFIG_LEAF_NAMES;
    if (shown.kind != CONFIG_LEAF_VALUE || str_blank(shown.value))
        return wrong_kind(&shown, name,
                          is_rate ? "a number from 0 to 1000 with at most 6 "
                                    "decimals"
                                  : "a whole number from 1 to 10000000",
                          err);
    if (is_rate ? str_to_decimal(leaf->value, 6, MAX_RATE, field, err) < 0
                : str_to_int(leaf->value, 1, MAX_TOKENS, field, err) < 0)
        return err_wrap(err, "%s", name);
    return 0;
}

static int
set_date(struct reading *r, const struct config_leaf *leaf, struct error *err)
{
    struct config_leaf shown = *leaf;

    if (leaf->n_names > 1)
        shown.kind = CONFIG_LEAF_NAMES;
    if (shown.kind != CONFIG_LEAF_VALUE || str_blank(shown.value))
        return wrong_kind(&shown, "date", "a date, such as 2026-11-29", err);
    r->date = xstrdup(leaf->value);
    return 0;
}

static int
on_leaf(void *ctx, const struct config_leaf *leaf, struct error *err)
{
    struct reading *r = ctx;
    bool is_empty = leaf->kind == CONFIG_LEAF_NAMES ||
                    (leaf->kind == CONFIG_LEAF_VALUE && leaf->value[0] == '\0');

    if (str_eq(leaf->names[0], "date"))
        return set_date(r, leaf, err);
    if (!str_eq(leaf->names[0], "models"))
        return err_set(err, ERR_CONFIG,
                       "unknown name '%s'; there are 'date' and 'models'",
                       leaf->names[0]);
    if (leaf->n_names == 1 && is_empty)
        return 0;
    if (leaf->n_names == 1)
        return wrong_kind(leaf, "models", "names of models below it", err);
    if (leaf->n_names == 2)
        return wrong_kind(leaf, leaf->names[1], "names below it: input, output",
                          err);
    return set_field(
        get_model(&r->new, leaf->names[1]), leaf,
        leaf->n_names == 4 && str_eq(leaf->names[2], "long_prompt"), err);
}

/* Fills in what was not said of a set of rates. */
static void
complete_rates(int64_t *rates)
{
    int64_t input = rates[CONFIG_RATE_INPUT];

    if (rates[CONFIG_RATE_WRITE_5M] == NOT_SAID)
        rates[CONFIG_RATE_WRITE_5M] = input + input / 4;
    if (rates[CONFIG_RATE_WRITE_1H] == NOT_SAID)
        rates[CONFIG_RATE_WRITE_1H] = input * 2;
    if (rates[CONFIG_RATE_READ] == NOT_SAID)
        rates[CONFIG_RATE_READ] = input;
}

static int
complete_model(struct config_model *model, struct error *err)
{
    bool is_long = model->long_above > 0;

    for (size_t i = 0; i < CONFIG_N_RATES; i++)
        is_long = is_long || model->long_rates[i] != NOT_SAID;
    if (model->rates[CONFIG_RATE_INPUT] == NOT_SAID ||
        model->rates[CONFIG_RATE_OUTPUT] == NOT_SAID)
        return err_set(err, ERR_CONFIG, "%s: input or output is missing",
                       model->name);
    if (is_long && (model->long_above == 0 ||
                    model->long_rates[CONFIG_RATE_INPUT] == NOT_SAID ||
                    model->long_rates[CONFIG_RATE_OUTPUT] == NOT_SAID))
        return err_set(err, ERR_CONFIG,
                       "%s: long_prompt: above, input or output is missing",
                       model->name);
    complete_rates(model->rates);
    if (is_long)
        complete_rates(model->long_rates);
    return 0;
}

static int
compare_models(const void *a, const void *b)
{
    return strcmp(((const struct config_model *)a)->name,
                  ((const struct config_model *)b)->name);
}

/* Puts the models of a text among those that were there, and in the place of
   those of the same name. Both are sorted. */
static void
merge(struct config_models *m, struct config_models *new)
{
    struct config_models old = *m;
    size_t i = 0;
    size_t k = 0;

    m->n_models = 0;
    m->models = xcalloc(old.n_models + new->n_models + 1, sizeof(*m->models));
    while (i < old.n_models || k < new->n_models) {
        int order = i == old.n_models ? 1
                    : k == new->n_models
                        ? -1
                        : compare_models(&old.models[i], &new->models[k]);

        if (order == 0)
            model_fini(&old.models[i++]);
        m->models[m->n_models++] =
            order < 0 ? old.models[i++] : new->models[k++];
    }
    free(old.models);
    free(new->models);
    *new = (struct config_models){0};
}

int
config_models_read_text(struct config_models *m, const char *where,
                        const char *text, size_t len, struct error *err)
{
    struct reading r = {0};
    int rc = config_each_leaf(where, text, len, on_leaf, &r, err);

    for (size_t i = 0; rc == 0 && i < r.new.n_models; i++) {
        r.new.models[i].date = xstrdup(r.date);
        rc = complete_model(&r.new.models[i], err);
        if (rc < 0)
            rc = err_wrap(err, "%s", where);
    }
    if (rc == 0 && r.new.n_models > 0) {
        qsort(r.new.models, r.new.n_models, sizeof(*r.new.models),
              compare_models);
        merge(m, &r.new);
    }
    config_models_fini(&r.new);
    free(r.date);
    return rc;
}

/* The user's file; one that is missing is none. */
static int
read_own(struct config_models *m, struct error *err)
{
    AUTO_FREE char *dir = paths_config_dir();
    AUTO_FREE char *path = NULL;
    AUTO_SBUF struct sbuf text = {0};
    struct error why = {0};

    if (dir == NULL)
        return 0;
    path = paths_join(dir, "models.yaml");
    sbuf_init(&text, MAX_FILE_BYTES);
    if (io_read_file(path, &text, &why) < 0) {
        if (why.sys_errno == ENOENT)
            return 0;
        return err_set(err, ERR_CONFIG, "%s", why.msg);
    }
    return config_models_read_text(m, path, text.data, text.len, err);
}

int
config_read_models(struct config_models *m, struct error *err)
{
    if (config_models_read_text(m, "models.yaml", (const char *)models_yaml,
                                models_yaml_len, err) < 0)
        return -1;
    return read_own(m, err);
}
