/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/models.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static const char *const other_names[] = {"context", "max_output",
                                          "long_prompt"};

/* The text that is read. */
struct reading {
    struct config_models new; /* of this text */
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

static struct config_model *
find_model(struct config_models *m, const char *name)
{
    for (size_t i = 0; i < m->n_models; i++) {
        if (str_eq(m->models[i].name, name))
            return &m->models[i];
    }
    return NULL;
}

static struct config_model *
add_model(struct config_models *m, const char *name)
{
    struct config_model *model = NULL;

    m->models = xreallocarray(m->models, m->n_models + 1, sizeof(*m->models));
    model = &m->models[m->n_models++];
    *model = (struct config_model){.name = xstrdup(name)};
    for (size_t i = 0; i < CONFIG_N_RATES; i++) {
        model->rates[i] = NOT_SAID;
        model->long_rates[i] = NOT_SAID;
    }
    return model;
}

static int
set_rate(int64_t *rates, const char *name, const char *value, bool *found,
         struct error *err)
{
    *found = false;
    for (size_t i = 0; i < CONFIG_N_RATES; i++) {
        if (!str_eq(name, rate_names[i]))
            continue;
        *found = true;
        if (rates[i] != NOT_SAID)
            return err_set(err, ERR_CONFIG, "%s is there twice", name);
        if (str_to_decimal(value, 6, MAX_RATE, &rates[i], err) < 0)
            return err_wrap(err, "%s", name);
    }
    return 0;
}

static int
set_tokens(int64_t *field, const char *name, const char *value,
           struct error *err)
{
    if (*field != 0)
        return err_set(err, ERR_CONFIG, "%s is there twice", name);
    if (str_to_int(value, 1, MAX_TOKENS, field, err) < 0)
        return err_wrap(err, "%s", name);
    return 0;
}

static int
unknown_name(const char *name, struct error *err)
{
    const char *names[CONFIG_N_RATES + LEN(other_names)];
    const char *near = NULL;
    size_t n = 0;

    for (; n < CONFIG_N_RATES; n++)
        names[n] = rate_names[n];
    for (size_t i = 0; i < LEN(other_names); i++)
        names[n++] = other_names[i];
    near = str_nearest(name, names, n);
    if (near != NULL)
        return err_set(err, ERR_CONFIG,
                       "unknown name '%s'; the nearest is '%s'", name, near);
    return err_set(err, ERR_CONFIG, "unknown name '%s'", name);
}

/* A value below "models: NAME:", or below its "long_prompt:". */
static int
set_value(struct config_model *model, bool is_long, const char *name,
          const char *value, struct error *err)
{
    bool found = false;

    if (set_rate(is_long ? model->long_rates : model->rates, name, value,
                 &found, err) < 0)
        return -1;
    if (found)
        return 0;
    if (is_long && str_eq(name, "above"))
        return set_tokens(&model->long_above, name, value, err);
    if (!is_long && str_eq(name, "context"))
        return set_tokens(&model->context, name, value, err);
    if (!is_long && str_eq(name, "max_output"))
        return set_tokens(&model->max_output, name, value, err);
    return unknown_name(name, err);
}

static int
on_scalar(void *ctx, const struct config_scalar *s, struct error *err)
{
    struct reading *r = ctx;
    struct config_model *model = NULL;

    if (s->n_names == 1 && str_eq(s->names[0], "date")) {
        if (str_blank(s->value) || r->date != NULL)
            return err_set(err, ERR_CONFIG, "date: expected one value");
        r->date = xstrdup(s->value);
        return 0;
    }
    if (!str_eq(s->names[0], "models"))
        return err_set(err, ERR_CONFIG,
                       "unknown name '%s'; there are 'date' and 'models'",
                       s->names[0]);
    if (s->n_names == 1 && s->value[0] == '\0')
        return 0;
    if (s->n_names < 3 ||
        (s->n_names == 4 && !str_eq(s->names[2], "long_prompt")))
        return err_set(err, ERR_CONFIG, "%s: expected names below it",
                       s->names[s->n_names < 3 ? s->n_names - 1 : 2]);
    model = find_model(&r->new, s->names[1]);
    if (model == NULL)
        model = add_model(&r->new, s->names[1]);
    return set_value(model, s->n_names == 4, s->names[s->n_names - 1], s->value,
                     err);
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

/* Moves the models of a text over those that were there. */
static void
take_over(struct config_models *m, struct config_model *model)
{
    struct config_model *old = find_model(m, model->name);

    if (old == NULL) {
        m->models =
            xreallocarray(m->models, m->n_models + 1, sizeof(*m->models));
        old = &m->models[m->n_models++];
        memset(old, 0, sizeof(*old));
    }
    model_fini(old);
    *old = *model;
    memset(model, 0, sizeof(*model));
}

int
config_models_read_text(struct config_models *m, const char *where,
                        const char *text, size_t len, struct error *err)
{
    struct reading r = {0};
    int rc = config_each_scalar(where, text, len, on_scalar, &r, err);

    for (size_t i = 0; rc == 0 && i < r.new.n_models; i++) {
        struct config_model *model = &r.new.models[i];

        rc = complete_model(model, err);
        if (rc < 0) {
            rc = err_wrap(err, "%s", where);
            break;
        }
        model->date = xstrdup(r.date);
        take_over(m, model);
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
