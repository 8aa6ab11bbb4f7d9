/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/script_check_internal.h"

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/utf8.h"
#include "sandbox/sandbox.h"
#include "sandbox/workspace_internal.h"

static bool
is_text(const char *word)
{
    return utf8_valid(word, strlen(word));
}

/* Counts the words and their bytes into *n_bytes. -1: they are no words. */
static int
check_words(const char *const *words, const char *what, size_t *n_bytes,
            struct error *err)
{
    size_t n = 0;

    for (; words != NULL && words[n] != NULL; n++) {
        if (!is_text(words[n]))
            return err_set(err, ERR_USAGE, "%s %zu: is no UTF-8", what, n + 1);
        *n_bytes += strlen(words[n]) + 1;
    }
    if (n > SANDBOX_MAX_SCRIPT_WORDS || *n_bytes > SANDBOX_MAX_WORDS_BYTES)
        return err_set(err, ERR_TOO_LARGE,
                       "%s: %zu words of %zu bytes, at most %u of %u", what, n,
                       *n_bytes, SANDBOX_MAX_SCRIPT_WORDS,
                       SANDBOX_MAX_WORDS_BYTES);
    return 0;
}

static int
check_env(const char *const *env, struct error *err)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        const char *equals = strchr(env[i], '=');

        if (equals == NULL || equals == env[i])
            return err_set(err, ERR_USAGE, "environment %zu: is no NAME=VALUE",
                           i + 1);
    }
    return 0;
}

static bool
is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return str_starts(path, top) && (path[len] == '\0' || path[len] == '/');
}

int
script_check(const struct sandbox_script *s, size_t *n_file_bytes,
             struct error *err)
{
    size_t n_bytes = 0;

    if (!workspace_path_ok(s->dir) || !is_text(s->dir) ||
        is_below(s->dir, "data") || is_below(s->dir, WORKSPACE_STATE))
        return err_set(err, ERR_USAGE, "%s: is no directory for a script",
                       s->dir != NULL ? s->dir : "");
    if (s->argv == NULL || s->argv[0] == NULL || s->argv[0][0] == '\0')
        return err_set(err, ERR_USAGE, "a script has no program to run");
    if (check_words(s->argv, "argument", &n_bytes, err) < 0 ||
        check_words(s->env, "environment", &n_bytes, err) < 0 ||
        check_env(s->env, err) < 0)
        return -1;
    if (s->n_files > SANDBOX_MAX_SCRIPT_FILES)
        return err_set(err, ERR_TOO_LARGE, "a script of %zu files, at most %u",
                       s->n_files, SANDBOX_MAX_SCRIPT_FILES);
    *n_file_bytes = 0;
    for (size_t i = 0; i < s->n_files; i++) {
        const struct sandbox_script_file *f = &s->files[i];

        if (!workspace_path_ok(f->name))
            return err_set(err, ERR_USAGE,
                           "%s: is no name for a file of a script",
                           f->name != NULL ? f->name : "");
        if (f->len > SANDBOX_MAX_SCRIPT_BYTES - *n_file_bytes)
            return err_set(err, ERR_TOO_LARGE,
                           "%s: the files of a script have more than %u bytes",
                           f->name, SANDBOX_MAX_SCRIPT_BYTES);
        *n_file_bytes += f->len;
    }
    return 0;
}
