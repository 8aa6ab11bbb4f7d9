/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "main_internal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "config/sandboxes.h"
#include "net/http.h"
#include "sandbox/e2b.h"
#include "sandbox/key_source.h"
#include "sandbox/sandbox.h"

/* The settings have what the back end has, in the same order. */
static const enum e2b_egress egress[] = {
    [CONFIG_NO_INTERNET] = E2B_NO_INTERNET,
    [CONFIG_INTERNET] = E2B_INTERNET,
    [CONFIG_SOME_HOSTS] = E2B_SOME_HOSTS,
};

static const enum e2b_version versions[] = {
    [CONFIG_API_AUTO] = E2B_AUTO,
    [CONFIG_API_V1] = E2B_V1,
    [CONFIG_API_V2] = E2B_V2,
};

/* The headers of an entry, which live as long as the run, since back ends do
   not copy them. */
static const struct http_extra_header *
get_headers(struct program *p, const struct config_sandbox *s)
{
    size_t i = (size_t)(s - p->config.sandboxes);
    struct http_extra_header *headers = NULL;

    if (p->service_headers == NULL)
        p->service_headers =
            xcalloc(p->config.n_sandboxes, sizeof(*p->service_headers));
    if (p->service_headers[i] != NULL)
        return p->service_headers[i];
    headers = xcalloc(s->n_headers + 1, sizeof(*headers));
    for (size_t k = 0; k < s->n_headers; k++)
        headers[k] = (struct http_extra_header){
            .name = s->headers[k].name,
            .value = s->headers[k].value,
        };
    p->service_headers[i] = headers;
    return headers;
}

/* One for each entry, whoever needs its key and however often it is used: the
   person is not to be asked again. NULL: no command prints it. */
static struct key_source *
get_key_source(struct program *p, const struct config_sandbox *s)
{
    size_t i = (size_t)(s - p->config.sandboxes);
    AUTO_FREE char *setting = NULL;

    if (s->key_command == NULL)
        return NULL;
    if (p->key_sources == NULL)
        p->key_sources =
            xcalloc(p->config.n_sandboxes, sizeof(*p->key_sources));
    if (p->key_sources[i] == NULL) {
        setting = xasprintf("sandboxes.%s.api_key_command", s->name);
        p->key_sources[i] = key_source_new(p->loop, s->key_command, setting);
    }
    return p->key_sources[i];
}

/* Where its key comes from, as a person would look for it. */
static const char *
name_key_setting(const struct config_sandbox *s)
{
    if (s->key_command != NULL)
        return "api_key_command";
    return s->key != NULL && s->own_key == NULL ? "E2B_API_KEY" : NULL;
}

void
main_fill_service(struct program *p, const struct config_sandbox *s,
                  struct e2b_config *config)
{
    *config = (struct e2b_config){
        .name = s->name,
        .api_url = s->api_url,
        .sandbox_url = s->sandbox_url,
        .domain = s->domain,
        .key = s->key,
        .key_source = get_key_source(p, s),
        .key_setting = name_key_setting(s),
        .headers = get_headers(p, s),
        .n_headers = s->n_headers,
        .template_name = s->template_name,
        .timeout_s = s->timeout_s,
        .egress = egress[s->internet],
        .hosts = (const char *const *)s->hosts,
        .n_hosts = s->n_hosts,
        .auto_pause = s->auto_pause,
        .version = versions[s->api],
        .owner = main_owner(p),
        .run = main_run(p),
        .user_agent = PACKAGE_NAME "/" PACKAGE_VERSION,
    };
}

static struct sandbox_backend *
make_service(struct program *p, const struct config_sandbox *s,
             struct error *err)
{
    AUTO_FREE struct e2b_env *envs = xcalloc(s->n_envs + 1, sizeof(*envs));
    struct e2b_config config;

    if (config_check_sandbox(&p->config, s, err) < 0)
        return NULL;
    for (size_t i = 0; i < s->n_envs; i++)
        envs[i] = (struct e2b_env){s->envs[i].name, s->envs[i].value};
    main_fill_service(p, s, &config);
    config.envs = envs;
    config.n_envs = s->n_envs;
    return e2b_new(p->loop, &config, &p->limits, err);
}

const char *
main_sandbox_name(const struct config *c)
{
    return c->demo ? CONFIG_LOCAL : c->sandbox;
}

struct sandbox_backend *
main_make_backend(void *ctx, const char *name, struct error *err)
{
    struct program *p = ctx;
    const struct config_sandbox *s = config_find_sandbox(&p->config, name);

    if (str_eq(name, CONFIG_LOCAL))
        return local_new(p->loop, &p->local, &p->limits);
    if (s != NULL)
        return make_service(p, s, err);
    config_unknown_sandbox(&p->config, name, err);
    return NULL;
}

void
main_free_headers(struct program *p)
{
    for (size_t i = 0; p->service_headers != NULL && i < p->config.n_sandboxes;
         i++)
        free(p->service_headers[i]);
    free(p->service_headers);
}

void
main_free_key_sources(struct program *p)
{
    for (size_t i = 0; p->key_sources != NULL && i < p->config.n_sandboxes; i++)
        key_source_free(p->key_sources[i]);
    free(p->key_sources);
}
