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
#include "base/str.h"

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
