/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "helpers/sandbox_options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/secret.h"
#include "base/str.h"
#include "sandbox/key_source.h"

bool
sandbox_options_is(const char *arg, const char *name, const char **value)
{
    size_t len = strlen(name);

    if (strncmp(arg, name, len) != 0 || arg[len] != '=')
        return false;
    *value = arg + len + 1;
    return true;
}

static int64_t
number(const char *text)
{
    struct error err = {0};
    int64_t n = 0;

    if (str_to_int(text, -1, INT64_MAX, &n, &err) < 0) {
        fprintf(stderr, "sandbox_driver: %s\n", err.msg);
        exit(2);
    }
    return n;
}

enum kind { TEXT, INT, INT64, UINT64, FLAG };

#define AT(member) offsetof(struct sandbox_options, member)

/* Those that go into struct sandbox_options as they are. */
static const struct option {
    const char *name;
    enum kind kind;
    size_t at;
} option_table[] = {
    {"busctl", TEXT, AT(scope.busctl)},
    {"bus", TEXT, AT(scope.bus)},
    {"cgroups", TEXT, AT(scope.cgroups)},
    {"proc", TEXT, AT(scope.proc)},
    {"wait_ms", INT64, AT(scope.wait_ms)},
    {"bwrap", TEXT, AT(config.bwrap)},
    {"python", TEXT, AT(config.python)},
    {"parent", TEXT, AT(config.parent_dir)},
    {"terminal", FLAG, AT(config.on_terminal)},
    {"memory", UINT64, AT(limits.memory_bytes)},
    {"output", UINT64, AT(limits.output_bytes)},
    {"workspace", UINT64, AT(limits.workspace_bytes)},
    {"processes", INT, AT(limits.processes)},
    {"cell_ms", INT64, AT(limits.cell_ms)},
    {"idle_suspend_ms", INT64, AT(limits.idle_suspend_ms)},
    {"idle_close_ms", INT64, AT(limits.idle_close_ms)},
    {"timeout_ms", INT64, AT(timeout_ms)},
    {"count", FLAG, AT(count)},
    {"no_stop", FLAG, AT(no_stop)},
    {"api_url", TEXT, AT(e2b.api_url)},
    {"sandbox_url", TEXT, AT(e2b.sandbox_url)},
    {"domain", TEXT, AT(e2b.domain)},
    {"template", TEXT, AT(e2b.template_name)},
    {"timeout_s", INT64, AT(e2b.timeout_s)},
    {"auto_pause", FLAG, AT(e2b.auto_pause)},
    {"key_command", TEXT, AT(key_command)},
    {"name", TEXT, AT(e2b.name)},
    {"owner", TEXT, AT(e2b.owner)},
    {"run", TEXT, AT(e2b.run)},
};

static void
set(struct sandbox_options *o, const struct option *option, const char *value)
{
    void *at = (char *)o + option->at;

    switch (option->kind) {
    case TEXT:
        *(const char **)at = value;
        break;
    case INT:
        *(int *)at = (int)number(value);
        break;
    case INT64:
        *(int64_t *)at = number(value);
        break;
    case UINT64:
        *(uint64_t *)at = (uint64_t)number(value);
        break;
    case FLAG:
        *(bool *)at = number(value) != 0;
        break;
    }
}

static void
refuse(const char *arg)
{
    fprintf(stderr, "sandbox_driver: bad option: %s\n", arg);
    exit(2);
}

/* The two parts of NAME=VALUE, copied. */
static void
split(const char *text, char **name, char **value)
{
    const char *at = strchr(text, '=');

    if (at == NULL)
        refuse(text);
    *name = xstrndup(text, (size_t)(at - text));
    *value = xstrdup(at + 1);
}

static void
add_env(struct sandbox_options *o, const char *text)
{
    char *name = NULL;
    char *value = NULL;

    if (o->e2b.n_envs == LEN(o->envs))
        refuse(text);
    split(text, &name, &value);
    o->envs[o->e2b.n_envs++] = (struct e2b_env){.name = name, .value = value};
    o->e2b.envs = o->envs;
}

static void
add_header(struct sandbox_options *o, const char *text)
{
    char *name = NULL;
    AUTO_FREE char *value = NULL;

    if (o->e2b.n_headers == LEN(o->headers))
        refuse(text);
    split(text, &name, &value);
    o->values[o->e2b.n_headers] = secret_new(value, strlen(value));
    o->headers[o->e2b.n_headers] = (struct http_extra_header){
        .name = name,
        .value = o->values[o->e2b.n_headers],
    };
    o->e2b.n_headers++;
    o->e2b.headers = o->headers;
}

/* "off", "on" or hosts with commas between. */
static void
take_egress(struct sandbox_options *o, const char *text)
{
    if (str_eq(text, "on"))
        o->e2b.egress = E2B_INTERNET;
    if (str_eq(text, "on") || str_eq(text, "off"))
        return;
    o->e2b.egress = E2B_SOME_HOSTS;
    o->e2b.hosts = o->hosts;
    for (;;) {
        size_t len = strcspn(text, ",");

        if (o->e2b.n_hosts == LEN(o->hosts))
            refuse(text);
        o->hosts[o->e2b.n_hosts++] = xstrndup(text, len);
        if (text[len] == '\0')
            return;
        text += len + 1;
    }
}

static void
take_version(struct sandbox_options *o, const char *text)
{
    static const char *const names[] = {
        [E2B_AUTO] = "auto",
        [E2B_V1] = "v1",
        [E2B_V2] = "v2",
    };

    for (size_t i = 0; i < LEN(names); i++) {
        if (str_eq(text, names[i])) {
            o->e2b.version = (enum e2b_version)i;
            return;
        }
    }
    refuse(text);
}

/* Those of a service that are not in the table. */
static bool
take_e2b_argument(struct sandbox_options *o, const char *arg)
{
    const char *v;

    if (sandbox_options_is(arg, "backend", &v)) {
        o->is_e2b = str_eq(v, "e2b");
        if (!o->is_e2b && !str_eq(v, "local"))
            refuse(arg);
        /* Not in argv, which others can read. */
        if (o->is_e2b && o->key == NULL)
            o->key = secret_take_env("E2B_API_KEY");
    } else if (sandbox_options_is(arg, "internet", &v)) {
        take_egress(o, v);
    } else if (sandbox_options_is(arg, "version", &v)) {
        take_version(o, v);
    } else if (sandbox_options_is(arg, "env", &v)) {
        add_env(o, v);
    } else if (sandbox_options_is(arg, "header", &v)) {
        add_header(o, v);
    } else {
        return false;
    }
    return true;
}

/* False: it is the first cell. Files to put are for later. */
static bool
take_argument(struct sandbox_options *o, const char *arg)
{
    struct error err = {0};
    const char *v;

    for (size_t i = 0; i < LEN(option_table); i++) {
        if (sandbox_options_is(arg, option_table[i].name, &v)) {
            set(o, &option_table[i], v);
            return true;
        }
    }
    if (take_e2b_argument(o, arg))
        return true;
    if (sandbox_options_is(arg, "level", &v)) {
        if (!local_isolation_find(v, &o->config.isolation))
            exit(2);
    } else if (sandbox_options_is(arg, "uid", &v)) {
        o->config.drop_uid_set = true;
        o->config.drop_uid = (uid_t)number(v);
    } else if (sandbox_options_is(arg, "log", &v)) {
        if (log_open(v, LOG_LEVEL_DBG, &err) < 0)
            exit(2);
    } else {
        return sandbox_options_is(arg, "put", &v);
    }
    return true;
}

int
sandbox_options_take(struct sandbox_options *o, int argc, char **argv)
{
    int first = 1;

    while (first < argc && strcmp(argv[first], "--") != 0 &&
           take_argument(o, argv[first]))
        first++;
    return first;
}

void
sandbox_options_fini(struct sandbox_options *o)
{
    for (size_t i = 0; i < o->e2b.n_envs; i++) {
        free_const(o->envs[i].name);
        free_const(o->envs[i].value);
    }
    for (size_t i = 0; i < o->e2b.n_headers; i++) {
        free_const(o->headers[i].name);
        secret_free(o->values[i]);
    }
    for (size_t i = 0; i < o->e2b.n_hosts; i++)
        free_const(o->hosts[i]);
    secret_free(o->key);
    key_source_free(o->e2b.key_source);
    *o = (struct sandbox_options){0};
}

struct sandbox_backend *
sandbox_options_backend(struct sandbox_options *o, struct loop *loop)
{
    struct error err = {0};
    struct sandbox_backend *backend;

    if (!o->is_e2b)
        return local_new(loop, &o->config, &o->limits);
    if (o->e2b.name == NULL)
        o->e2b.name = "e2b";
    o->e2b.key = o->key;
    if (o->key_command != NULL && o->e2b.key_source == NULL)
        o->e2b.key_source =
            key_source_new(loop, o->key_command, "api_key_command");
    o->e2b.user_agent = "sandbox_driver";
    backend = e2b_new(loop, &o->e2b, &o->limits, &err);
    if (backend == NULL) {
        fprintf(stderr, "sandbox_driver: %s\n", err.msg);
        exit(2);
    }
    return backend;
}

char *
sandbox_options_warden(void)
{
    const char *given = getenv("SANDPIPER_WARDEN");
    AUTO_FREE char *self = realpath("/proc/self/exe", NULL);
    AUTO_FREE char *dir = self != NULL ? paths_dir(self) : NULL;

    if (given != NULL || dir == NULL)
        return xstrdup(given);
    return xasprintf("%s/../../sandpiper-warden", dir);
}
