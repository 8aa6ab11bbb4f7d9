/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/key_source.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/secret.h"
#include "sandbox/key_command_internal.h"

struct key_ask {
    struct key_source *source; /* borrowed: it owns this */
    struct key_ask *next;
    key_ask_fn done;
    void *ctx;
};

/* While there are asks, one of run and task is there; both outlive them. */
struct key_source {
    struct loop *loop;    /* borrowed */
    char *command;        /* owned */
    char *setting;        /* owned */
    struct key_ask *asks; /* owned; in the order in which they came */

    struct key_command *run; /* owned: in progress */
    struct loop_task *task;  /* tells the first of asks */

    const struct secret *current; /* the last of keys; NULL: err, or nothing */
    struct error err;             /* of the last run */
    struct secret **keys;         /* owned; all that were printed */
    size_t n_keys;
};

/* ---- telling --------------------------------------------------------------
 */

static void
remove_task(struct key_source *s)
{
    loop_task_remove(s->task);
    s->task = NULL;
}

static void on_turn(void *ctx);

/* One in each round of the loop: the callback comes last, since it may free s,
   drop others, and ask anew, which may begin another run for all that wait. */
static void
tell_first(struct key_source *s)
{
    struct key_ask *a = s->asks;
    struct key_ask told;
    struct error err = s->err;

    if (a == NULL)
        return;
    told = *a;
    s->asks = a->next;
    free(a);
    if (s->asks != NULL)
        s->task = loop_defer(s->loop, on_turn, s);
    told.done(told.ctx, s->current, s->current == NULL ? &err : NULL);
}

static void
on_turn(void *ctx)
{
    struct key_source *s = ctx;

    s->task = NULL;
    tell_first(s);
}

/* ---- running --------------------------------------------------------------
 */

static void
on_key(void *ctx, struct secret *key, const struct error *err)
{
    struct key_source *s = ctx;

    if (err != NULL) {
        s->err = *err;
    } else {
        s->keys = xgrow(s->keys, s->n_keys, sizeof(struct secret *));
        s->keys[s->n_keys++] = key;
        s->current = key;
    }
    key_command_free(s->run);
    s->run = NULL;
    tell_first(s);
}

/* All that wait, wait for this. */
static void
run_command(struct key_source *s)
{
    remove_task(s);
    s->current = NULL;
    s->err = (struct error){0};
    s->run =
        key_command_start(s->loop, s->command, s->setting, on_key, s, &s->err);
    if (s->run == NULL)
        s->task = loop_defer(s->loop, on_turn, s);
}

/* ---- the asks -------------------------------------------------------------
 */

bool
key_source_has(const struct key_source *s, const struct secret *refused)
{
    return s->run == NULL && s->current != NULL && s->current != refused;
}

void
key_source_refuse(struct key_source *s, const struct secret *key)
{
    /* Whoever waits for it is told by the service. */
    if (s->asks == NULL && s->run == NULL && s->current == key)
        s->current = NULL;
}

struct key_ask *
key_source_ask(struct key_source *s, const struct secret *refused,
               key_ask_fn done, void *ctx)
{
    struct key_ask *a = xcalloc(1, sizeof(*a));
    struct key_ask **end = &s->asks;

    *a = (struct key_ask){.source = s, .done = done, .ctx = ctx};
    while (*end != NULL)
        end = &(*end)->next;
    *end = a;
    if (s->run != NULL)
        return a;
    if (!key_source_has(s, refused))
        run_command(s);
    else if (s->task == NULL)
        s->task = loop_defer(s->loop, on_turn, s);
    return a;
}

/* The command is not ended with the last of them: a dialogue that goes away
   while a person types a password into it would leave the rest of the password
   to the window behind it, perhaps this program's own prompt. It has a button
   for giving up and a limit to its time, and whoever asks again meanwhile gets
   no second one. Whoever dropped the ask waits for nothing, as after Ctrl-C. */
void
key_ask_drop(struct key_ask *a)
{
    struct key_ask **at;

    if (a == NULL)
        return;
    at = &a->source->asks;
    while (*at != NULL && *at != a)
        at = &(*at)->next;
    assert(*at == a);
    *at = a->next;
    free(a);
}

/* ---- the source -----------------------------------------------------------
 */

struct key_source *
key_source_new(struct loop *loop, const char *command, const char *setting)
{
    struct key_source *s = xcalloc(1, sizeof(*s));

    s->loop = loop;
    s->command = xstrdup(command);
    s->setting = xstrdup(setting);
    return s;
}

void
key_source_free(struct key_source *s)
{
    if (s == NULL)
        return;
    key_command_free(s->run);
    remove_task(s);
    while (s->asks != NULL) {
        struct key_ask *next = s->asks->next;

        free(s->asks);
        s->asks = next;
    }
    for (size_t i = 0; i < s->n_keys; i++)
        secret_free(s->keys[i]);
    free(s->keys);
    free(s->command);
    free(s->setting);
    free(s);
}
