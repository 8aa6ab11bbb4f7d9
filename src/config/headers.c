/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"
#include "config/config.h"
#include "config/config_internal.h"

#define VARIABLE "ANTHROPIC_CUSTOM_HEADERS"
#define MAX_HEADERS 64

/* They say how the bytes of a message travel, which is the program's to say. */
static const char *const reserved[] = {
    "accept-encoding", "connection", "content-encoding",
    "content-length",  "expect",     "te",
    "trailer",         "upgrade",    "transfer-encoding",
};

static bool
is_name(const char *name, size_t len)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789"
                                  "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return len > 0 && strspn(name, allowed) >= len;
}

static bool
is_value(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];

        if ((c < 0x20 && c != '\t') || c == 0x7F)
            return false;
    }
    return true;
}

static bool
is_reserved(const char *name)
{
    for (size_t i = 0; i < LEN(reserved); i++) {
        if (str_eq_nocase(reserved[i], name))
            return true;
    }
    return false;
}

static void
trim(const char **text, size_t *len)
{
    while (*len > 0 && strchr(" \t\r", (*text)[0]) != NULL) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && strchr(" \t\r", (*text)[*len - 1]) != NULL)
        (*len)--;
}

int
config_check_header_name(const char *name, struct error *err)
{
    if (!is_name(name, strlen(name)))
        return err_set(err, ERR_CONFIG, "no header has such a name");
    if (is_reserved(name))
        return err_set(err, ERR_CONFIG, "%s is set by the program alone", name);
    return 0;
}

int
config_check_header_value(const char *name, const char *value, size_t len,
                          struct error *err)
{
    if (!is_value(value, len))
        return err_set(err, ERR_CONFIG,
                       "a control character in the value of %s", name);
    return 0;
}

/* Takes name. */
static void
keep(struct config *c, char *name, const char *value, size_t len)
{
    struct config_header *h = NULL;

    for (size_t i = 0; i < c->n_headers && h == NULL; i++) {
        if (str_eq_nocase(c->headers[i].name, name))
            h = &c->headers[i];
    }
    if (h == NULL) {
        c->headers =
            xreallocarray(c->headers, c->n_headers + 1, sizeof(*c->headers));
        h = &c->headers[c->n_headers++];
    } else {
        free(h->name);
        secret_free(h->value);
    }
    *h = (struct config_header){name, secret_new(value, len)};
}

static int
read_line(struct config *c, size_t number, const char *line, size_t len,
          struct error *err)
{
    AUTO_FREE char *name = NULL;
    const char *colon = memchr(line, ':', len);
    const char *value = NULL;
    size_t name_len = 0;

    if (colon == NULL)
        return err_set(err, ERR_CONFIG, VARIABLE ": line %zu has no colon",
                       number);
    name_len = (size_t)(colon - line);
    trim(&line, &name_len);
    if (!is_name(line, name_len))
        return err_set(err, ERR_CONFIG,
                       VARIABLE ": line %zu begins with no header's name",
                       number);
    value = colon + 1;
    len -= (size_t)(value - line);
    trim(&value, &len);
    name = xstrndup(line, name_len);
    if (config_check_header_value(name, value, len, err) < 0 ||
        config_check_header_name(name, err) < 0)
        return err_wrap(err, VARIABLE ": line %zu", number);
    if (c->n_headers == MAX_HEADERS)
        return err_set(err, ERR_CONFIG, VARIABLE ": more than %d headers",
                       MAX_HEADERS);
    keep(c, take_ptr(&name), value, len);
    return 0;
}

int
config_read_headers(struct config *c, const char *text, struct error *err)
{
    for (size_t number = 1; *text != '\0'; number++) {
        size_t whole = strcspn(text, "\n");
        const char *line = text;
        size_t len = whole;

        trim(&line, &len);
        if (len > 0 && read_line(c, number, line, len, err) < 0)
            return -1;
        text += whole;
        text += *text == '\n' ? 1 : 0;
    }
    return 0;
}

void
config_free_headers(struct config *c)
{
    for (size_t i = 0; i < c->n_headers; i++) {
        free(c->headers[i].name);
        secret_free(c->headers[i].value);
    }
    free(c->headers);
}
