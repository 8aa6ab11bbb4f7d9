/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/services.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/config.h"
#include "config/config_internal.h"
#include "config/services_internal.h"

#define MAX_FILE_BYTES (256u << 10)
#define NOT_SAID (-1)

static const char *const rate_names[] = {"vcpu_hour_usd", "gib_hour_usd"};

/* The text that is read. */
struct reading {
    struct config_service *services; /* owned, as they come */
    size_t n_services;
    char *date; /* owned; NULL: not said */
};

static void
service_fini(struct config_service *s)
{
    free(s->host);
    free(s->price.date);
}

static void
free_services(struct config_service *services, size_t n)
{
    for (size_t i = 0; i < n; i++)
        service_fini(&services[i]);
    free(services);
}

void
config_free_services(struct config *c)
{
    free_services(c->services, c->n_services);
    c->services = NULL;
    c->n_services = 0;
}

/* ---- one text -------------------------------------------------------------
 */

/* What is below one name comes one after the other. */
static struct config_service *
get_service(struct reading *r, const char *host)
{
    struct config_service *s = NULL;
    size_t n = r->n_services;

    if (n > 0 && str_eq(r->services[n - 1].host, host))
        return &r->services[n - 1];
    r->services = xgrow(r->services, n, sizeof(*r->services));
    s = &r->services[r->n_services++];
    *s = (struct config_service){
        .host = xstrdup(host),
        .price = {.vcpu_hour_nanousd = NOT_SAID, .gib_hour_nanousd = NOT_SAID},
    };
    return s;
}

static int
set_date(struct reading *r, const struct config_leaf *leaf, struct error *err)
{
    if (leaf->n_names > 1 || leaf->kind != CONFIG_LEAF_VALUE ||
        str_blank(leaf->value))
        return err_set(err, ERR_CONFIG,
                       "date: expected a date, such as 2026-11-29");
    r->date = xstrdup(leaf->value);
    return 0;
}

static int
set_rate(struct reading *r, const struct config_leaf *leaf, struct error *err)
{
    const char *name = leaf->names[2];
    struct config_service *s = get_service(r, leaf->names[1]);
    const char *near = NULL;
    int64_t *field = str_eq(name, rate_names[0])   ? &s->price.vcpu_hour_nanousd
                     : str_eq(name, rate_names[1]) ? &s->price.gib_hour_nanousd
                                                   : NULL;

    if (field == NULL) {
        near = str_nearest(name, rate_names, LEN(rate_names));
        return near != NULL
                   ? err_set(err, ERR_CONFIG,
                             "unknown name '%s'; the nearest is '%s'", name,
                             near)
                   : err_set(err, ERR_CONFIG, "unknown name '%s'", name);
    }
    if (leaf->n_names > 3 || leaf->kind != CONFIG_LEAF_VALUE)
        return err_set(err, ERR_CONFIG, "%s: expected one value", name);
    if (config_read_rate(leaf->value, field, err) < 0)
        return err_wrap(err, "%s", name);
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
    if (!str_eq(leaf->names[0], "services"))
        return err_set(err, ERR_CONFIG,
                       "unknown name '%s'; there are 'date' and 'services'",
                       leaf->names[0]);
    if (leaf->n_names == 1)
        return is_empty ? 0
                        : err_set(err, ERR_CONFIG,
                                  "services: expected names of hosts below it");
    if (leaf->n_names == 2)
        return err_set(err, ERR_CONFIG,
                       "%s: expected names below it: %s and %s", leaf->names[1],
                       rate_names[0], rate_names[1]);
    return set_rate(r, leaf, err);
}

/* Takes all of a text, each in the place of one of the same name. */
static void
merge(struct config *c, struct reading *r)
{
    for (size_t i = 0; i < r->n_services; i++) {
        size_t at = 0;

        while (at < c->n_services &&
               !str_eq_nocase(c->services[at].host, r->services[i].host))
            at++;
        if (at == c->n_services)
            c->services =
                xgrow(c->services, c->n_services++, sizeof(*c->services));
        else
            service_fini(&c->services[at]);
        c->services[at] = r->services[i];
        c->services[at].price.date = xstrdup(r->date);
    }
    free(r->services);
    *r = (struct reading){.date = r->date};
}

int
config_services_read_text(struct config *c, const char *where, const char *text,
                          size_t len, struct error *err)
{
    struct reading r = {0};
    int rc = config_each_leaf(where, text, len, on_leaf, &r, err);

    for (size_t i = 0; rc == 0 && i < r.n_services; i++) {
        if (r.services[i].price.vcpu_hour_nanousd == NOT_SAID ||
            r.services[i].price.gib_hour_nanousd == NOT_SAID)
            rc = err_set(err, ERR_CONFIG, "%s: %s: %s or %s is missing", where,
                         r.services[i].host, rate_names[0], rate_names[1]);
    }
    if (rc == 0)
        merge(c, &r);
    free_services(r.services, r.n_services);
    free(r.date);
    return rc;
}

/* ---- public ---------------------------------------------------------------
 */

int
config_read_services(struct config *c, struct error *err)
{
    AUTO_FREE char *dir = paths_config_dir();
    AUTO_FREE char *path = NULL;
    AUTO_SBUF struct sbuf text = {0};
    struct error why = {0};

    if (config_services_read_text(c, "services.yaml",
                                  (const char *)services_yaml,
                                  services_yaml_len, err) < 0)
        return -1;
    if (dir == NULL)
        return 0;
    path = paths_join(dir, "services.yaml");
    sbuf_init(&text, MAX_FILE_BYTES);
    if (io_read_file(path, &text, &why) < 0)
        return why.sys_errno == ENOENT
                   ? 0
                   : err_set(err, ERR_CONFIG, "%s", why.msg);
    return config_services_read_text(c, path, text.data, text.len, err);
}

/* Whether host is name, or below it. */
static bool
is_below(const char *host, size_t len, const char *name)
{
    size_t n = strlen(name);

    return n > 0 && len >= n && strncasecmp(host + len - n, name, n) == 0 &&
           (len == n || host[len - n - 1] == '.');
}

const struct config_price *
config_sandbox_price(const struct config *c, const struct config_sandbox *s)
{
    AUTO_FREE char *host = config_sandbox_host(s);
    size_t len = strcspn(host, ":");
    const struct config_service *best = NULL;

    if (s->has_price)
        return &s->price;
    for (size_t i = 0; i < c->n_services; i++) {
        const struct config_service *one = &c->services[i];

        if (is_below(host, len, one->host) &&
            (best == NULL || strlen(one->host) > strlen(best->host)))
            best = one;
    }
    return best != NULL ? &best->price : NULL;
}
