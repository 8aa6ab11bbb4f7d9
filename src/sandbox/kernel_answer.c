/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/kernel_answer_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"

#define MAX_TEXT_BYTES 256u
/* More than there can be; the interpreter may say anything. */
#define MAX_MORE 1000000000
#define MAX_WHY_BYTES 200u
#define MAX_SIZE_BYTES 64u

static void
free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

void
kernel_answer_fini(struct kernel_answer *a)
{
    free_texts(a->names, a->n_names * a->texts_each);
    free_texts(a->left_out, a->n_left_out * 2);
    memset(a, 0, sizeof(*a));
}

static char *
keep_text(const char *text)
{
    size_t len = strlen(text);

    return xstrndup(text, utf8_floor(text, len, MAX_TEXT_BYTES));
}

static void
add_text(char ***texts, size_t n, const char *text)
{
    *texts = xgrow(*texts, n, sizeof(char *));
    (*texts)[n] = keep_text(text != NULL ? text : "");
}

/* How many more there are than are named. */
static uint64_t
read_more(const struct cJSON *event, const char *key)
{
    int64_t more = json_int(event, key, 0);

    return more <= 0 ? 0 : more < MAX_MORE ? (uint64_t)more : MAX_MORE;
}

void
kernel_answer_read_vars(struct kernel_answer *a, const struct cJSON *event)
{
    const struct cJSON *item = json_first(json_get(event, "vars"));

    a->texts_each = 3;
    a->n_more = read_more(event, "left_out");
    for (; item != NULL; item = json_next(item)) {
        const char *name = json_string(item, "name");

        if (name == NULL)
            continue;
        if (a->n_names >= SANDBOX_MAX_VARS) {
            a->n_more++;
            continue;
        }
        add_text(&a->names, 3 * a->n_names, name);
        add_text(&a->names, 3 * a->n_names + 1, json_string(item, "type"));
        add_text(&a->names, 3 * a->n_names + 2, json_string(item, "size"));
        a->n_names++;
    }
}

void
kernel_answer_read_saved(struct kernel_answer *a, const struct cJSON *event,
                         const char *changed)
{
    const struct cJSON *item = json_first(json_get(event, changed));

    a->texts_each = 1;
    a->n_more = read_more(event, "more");
    a->n_left_out_more = read_more(event, "left_out_more");
    for (; item != NULL && a->n_names < SANDBOX_MAX_SAVED;
         item = json_next(item))
        if (json_value_string(item) != NULL)
            add_text(&a->names, a->n_names++, json_value_string(item));
    item = json_first(json_get(event, "left_out"));
    for (; item != NULL && a->n_left_out < SANDBOX_MAX_SAVED;
         item = json_next(item)) {
        const char *name = json_string(item, "name");

        if (name == NULL)
            continue;
        add_text(&a->left_out, 2 * a->n_left_out, name);
        add_text(&a->left_out, 2 * a->n_left_out + 1, json_string(item, "why"));
        a->n_left_out++;
    }
}

static void
tell_vars(const struct kernel_answer *a, sandbox_vars_fn fn, void *ctx)
{
    struct sandbox_vars vars = {.n_vars = a->n_names, .n_left_out = a->n_more};
    AUTO_FREE struct sandbox_variable *list =
        xcalloc(a->n_names + 1, sizeof(list[0]));

    for (size_t i = 0; i < a->n_names; i++) {
        list[i].name = a->names[3 * i];
        list[i].type = a->names[3 * i + 1];
        list[i].size = a->names[3 * i + 2];
    }
    vars.vars = list;
    fn(ctx, &vars, NULL);
}

static void
tell_saved(const struct kernel_answer *a, uint64_t n_bytes, int64_t duration_ms,
           sandbox_saved_fn fn, void *ctx)
{
    struct sandbox_saved saved = {
        .names = (const char *const *)a->names,
        .n_names = a->n_names,
        .n_more = a->n_more,
        .n_left_out = a->n_left_out,
        .n_left_out_more = a->n_left_out_more,
        .n_bytes = n_bytes,
        .duration_ms = duration_ms,
    };
    AUTO_FREE struct sandbox_left_out *list =
        xcalloc(a->n_left_out + 1, sizeof(list[0]));

    for (size_t i = 0; i < a->n_left_out; i++) {
        list[i].name = a->left_out[2 * i];
        list[i].why = a->left_out[2 * i + 1];
    }
    saved.left_out = list;
    fn(ctx, &saved, NULL);
}

void
kernel_answer_tell(const struct kernel_answer *a,
                   const struct kernel_asker *asker, uint64_t n_bytes,
                   int64_t duration_ms, const struct error *err)
{
    if (err->code != ERR_NONE && asker->vars_done != NULL)
        asker->vars_done(asker->ctx, NULL, err);
    else if (err->code != ERR_NONE)
        asker->saved_done(asker->ctx, NULL, err);
    else if (asker->vars_done != NULL)
        tell_vars(a, asker->vars_done, asker->ctx);
    else
        tell_saved(a, n_bytes, duration_ms, asker->saved_done, asker->ctx);
}

char *
kernel_answer_line(const char *text)
{
    char *line = xstrndup(text, utf8_floor(text, strlen(text), MAX_WHY_BYTES));

    for (char *p = line; *p != '\0'; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    return line;
}

int
kernel_answer_check_size(int fd, const char *doing, uint64_t *n_bytes,
                         struct error *err)
{
    AUTO_SBUF struct sbuf size = {0};
    AUTO_SBUF struct sbuf limit = {0};
    struct stat st;

    if (fstat(fd, &st) != 0)
        return err_set_errno(err, ERR_IO, "%s", doing);
    *n_bytes = (uint64_t)st.st_size;
    if (*n_bytes <= KERNEL_SNAPSHOT_BYTES)
        return 0;
    sbuf_init(&size, MAX_SIZE_BYTES);
    sbuf_init(&limit, MAX_SIZE_BYTES);
    str_add_bytes(&size, *n_bytes);
    str_add_bytes(&limit, KERNEL_SNAPSHOT_BYTES);
    return err_set(err, ERR_TOO_LARGE,
                   "%s: the snapshot has %s, at most %s are read", doing,
                   size.data, limit.data);
}
