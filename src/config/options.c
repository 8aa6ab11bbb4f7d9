/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/config_internal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "config/config.h"

/* The largest budget. */
#define MAX_DOLLARS 1000000

#define FIELD(f) offsetof(struct config, f)

const struct config_key config_keys[] = {
#define KEY(name, type, field, value, min, max, values, help)                  \
    {name, CONFIG_##type, FIELD(field), value, min, max, values, help},
#include "config/options.def"
};
const size_t config_n_keys = sizeof(config_keys) / sizeof(config_keys[0]);

const struct config_option config_options[] = {
#define OPT(name, letter, type, field, argument, help)                         \
    {name, letter, CONFIG_##type, FIELD(field), argument, help},
#include "config/options.def"
};
const size_t config_n_options =
    sizeof(config_options) / sizeof(config_options[0]);

/* Whether word is one of "a|b|c". */
static bool
is_one_of(const char *word, const char *values)
{
    size_t len = strlen(word);

    for (const char *p = values; *p != '\0';) {
        size_t n = strcspn(p, "|");

        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n;
        if (*p == '|')
            p++;
    }
    return false;
}

const struct config_key *
config_find_key(const char *name)
{
    for (size_t i = 0; i < config_n_keys; i++) {
        if (str_eq(config_keys[i].name, name))
            return &config_keys[i];
    }
    return NULL;
}

bool
config_looks_secret(const char *text)
{
    size_t len = strlen(text);

    return len > 40 || (len > 16 && strstr(text, "sk-") != NULL);
}

int
config_check_address(const char *name, const char *text, struct error *err)
{
    const char *host = strstr(text, "://");
    size_t len = 0;

    host = host != NULL ? host + 3 : text;
    len = strcspn(host, "/?#");
    if (memchr(host, '@', len) != NULL)
        return err_set(err, ERR_CONFIG,
                       "%s: an address with a user name or a password in it; "
                       "a key has a setting of its own",
                       name);
    if (!str_starts(text, "http://") && !str_starts(text, "https://"))
        return err_set(err, ERR_CONFIG,
                       "%s: an address begins with http:// or https://", name);
    /* Without this, the first part of the path would be taken for it. */
    if (len == 0 || host[0] == ':')
        return err_set(err, ERR_CONFIG, "%s: an address without a host", name);
    if (strpbrk(text, "?#") != NULL)
        return err_set(err, ERR_CONFIG,
                       "%s: an address with a '?' or a '#' in it", name);
    return 0;
}

int
config_read_dollars(const char *text, int64_t *nanousd, struct error *err)
{
    int64_t value = 0;

    if (str_to_decimal(text, 9, MAX_DOLLARS * INT64_C(1000000000), &value,
                       NULL) < 0 ||
        value == 0)
        return err_set(err, ERR_USAGE,
                       "'%s' is no amount in dollars above 0 and up to %d, "
                       "such as 0.50",
                       text, MAX_DOLLARS);
    *nanousd = value;
    return 0;
}

static int
assign_text(char **p, const struct config_key *key, const char *text,
            struct error *err)
{
    if (str_blank(text))
        return err_set(err, ERR_CONFIG, "%s: the value is empty", key->name);
    if (key->offset == FIELD(base_url) &&
        config_check_address(key->name, text, err) < 0)
        return -1;
    if (key->values[0] != '\0' && !is_one_of(text, key->values) &&
        config_looks_secret(text))
        return err_set(err, ERR_CONFIG,
                       "%s: the value, not repeated since it may be a secret, "
                       "is not one of %s",
                       key->name, key->values);
    if (key->values[0] != '\0' && !is_one_of(text, key->values))
        return err_set(err, ERR_CONFIG, "%s: '%s' is not one of %s", key->name,
                       text, key->values);
    free(*p);
    *p = xstrdup(text);
    return 0;
}

int
config_assign(struct config *c, const struct config_key *key, const char *text,
              struct error *err)
{
    void *field = (char *)c + key->offset;

    switch (key->type) {
    case CONFIG_TEXT:
        return assign_text(field, key, text, err);
    case CONFIG_INTEGER:
        if (config_looks_secret(text))
            return err_set(err, ERR_CONFIG,
                           "%s: the value, not repeated since it may be a "
                           "secret, is no number",
                           key->name);
        if (str_to_int(text, key->min, key->max, field, err) < 0) {
            if (err != NULL)
                err->code = ERR_CONFIG;
            return err_wrap(err, "%s", key->name);
        }
        return 0;
    case CONFIG_DOLLARS:
        if (config_looks_secret(text))
            return err_set(err, ERR_CONFIG,
                           "%s: the value, not repeated since it may be a "
                           "secret, is no amount",
                           key->name);
        if (config_read_dollars(text, field, err) < 0) {
            if (err != NULL)
                err->code = ERR_CONFIG;
            return err_wrap(err, "%s", key->name);
        }
        return 0;
    case CONFIG_SECRET: {
        struct secret **p = field;

        if (str_blank(text))
            return err_set(err, ERR_CONFIG, "%s: the value is empty",
                           key->name);
        secret_free(*p);
        *p = secret_new(text, strlen(text));
        return 0;
    }
    case CONFIG_FLAG:
        break;
    }
    return err_set(err, ERR_INTERNAL, "%s has no value", key->name);
}

const char *
config_key_name(size_t i)
{
    return i < config_n_keys ? config_keys[i].name : NULL;
}

void
config_add_help(struct sbuf *sb)
{
    sbuf_add_str(sb, "usage: sandpiper [OPTION]... [FILE]...\n"
                     "Ask questions about data files in plain English; "
                     "Claude writes Python,\nwhich runs in a sandbox.\n\n"
                     "options:\n");
    for (size_t i = 0; i < config_n_options; i++) {
        const struct config_option *o = &config_options[i];
        size_t at = sb->len;

        if (o->letter != 0)
            sbuf_addf(sb, "  -%c, --%s", o->letter, o->name);
        else
            sbuf_addf(sb, "      --%s", o->name);
        if (o->argument != NULL)
            sbuf_addf(sb, " %s", o->argument);
        if (sb->len - at < 30)
            sbuf_add_repeat(sb, ' ', 30 - (sb->len - at));
        else
            sbuf_add_str(sb, "\n                              ");
        sbuf_addf(sb, "%s\n", o->help);
    }
    sbuf_add_str(sb, "\nWithout -c, questions and commands are read from the "
                     "terminal or from standard\ninput, one a line; :help "
                     "lists the commands. See sandpiper(1).\n");
}
