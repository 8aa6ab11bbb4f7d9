/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/str.h"
#include "sandbox/e2b_files_internal.h"
#include "sandbox/e2b_kernel_internal.h"

#define MAX_LINE_BYTES 1024u

/* --- the end of it --- */

void
e2b_kernel_ask_drop(struct e2b_kernel *k)
{
    e2b_file_drop(k->asked.call);
    kernel_answer_fini(&k->asked.answer);
    free(k->asked.path);
    memset(&k->asked, 0, sizeof(k->asked));
}

/* Tells, and forgets before, so that the next may begin. */
static void
report_asked(struct e2b_kernel *k)
{
    struct e2b_asked a = k->asked;

    memset(&k->asked, 0, sizeof(k->asked));
    e2b_kernel_end_ask(k);
    if (a.path != NULL && k->channel != NULL)
        e2b_channel_remove(k->channel, a.path);
    kernel_answer_tell(&a.answer,
                       &(struct kernel_asker){a.vars_done, a.saved_done, a.ctx},
                       a.n_bytes, clock_now_ms() - a.started_ms, &a.err);
    kernel_answer_fini(&a.answer);
    free(a.path);
}

static void
report_later(void *ctx)
{
    struct e2b_kernel *k = ctx;

    k->task = NULL;
    e2b_kernel_enter(k);
    report_asked(k);
    e2b_kernel_leave(k);
}

static void
end_later(struct e2b_kernel *k)
{
    k->task = loop_defer(k->loop, report_later, k);
}

void
e2b_kernel_ask_lost(struct e2b_kernel *k, const struct e2b_run_end *end)
{
    struct e2b_asked *a = &k->asked;

    e2b_file_drop(a->call);
    a->call = NULL;
    if (end->way == E2B_RUN_LOST) {
        AUTO_FREE char *why = xstrdup(end->outcome->reason);

        why[0] = (char)tolower((unsigned char)why[0]);
        if (why[strlen(why) - 1] == '.')
            why[strlen(why) - 1] = '\0';
        error_fill(&a->err, ERR_SANDBOX, "%s: %s", a->doing, why);
    } else {
        error_fill(&a->err, end->err->code, "%s: %s", a->doing, end->err->msg);
    }
    report_asked(k);
    if (!k->dead && k->base.on_lost != NULL)
        k->base.on_lost(k->base.on_lost_ctx, end);
}

/* --- what the interpreter answers --- */

static void
fill_refusal(struct e2b_kernel *k, const char *text)
{
    struct e2b_asked *a = &k->asked;
    const char *more = a->changed != NULL && strcmp(a->changed, "restored") == 0
                           ? "; some of them may be back"
                           : "";
    AUTO_FREE char *line = kernel_answer_line(text);

    if (strcmp(text, "interrupted") == 0)
        error_fill(&a->err, k->asked_late ? ERR_TIMEOUT : ERR_CANCELLED,
                   "%s: %s%s", a->doing,
                   k->asked_late ? "took too long" : "stopped", more);
    else
        error_fill(&a->err, ERR_DATA, "%s: %s", a->doing, line);
}

/* A file in the sandbox was copied, or was not. */
static void
take_result(struct e2b_kernel *k, const struct e2b_data_result *result)
{
    struct e2b_asked *a = &k->asked;

    a->call = NULL;
    if (result->err != NULL)
        error_fill(&a->err, result->err->code, "%s: %s", a->doing,
                   result->err->msg);
}

static void
on_downloaded(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_kernel *k = ctx;
    struct stat st;

    e2b_kernel_enter(k);
    take_result(k, result);
    if (fstat(k->asked.fd, &st) == 0)
        k->asked.n_bytes = (uint64_t)st.st_size;
    report_asked(k);
    e2b_kernel_leave(k);
}

static void
download(struct e2b_kernel *k)
{
    struct e2b_asked *a = &k->asked;

    a->call = e2b_file_download(k->site, a->path, a->fd, 0,
                                (int64_t)KERNEL_SNAPSHOT_BYTES, on_downloaded,
                                k, &a->err);
    if (a->call == NULL)
        end_later(k);
}

bool
e2b_kernel_ask_event(struct e2b_kernel *k, const char *name,
                     const struct cJSON *event)
{
    struct e2b_asked *a = &k->asked;
    const char *error = json_string(event, "error");

    if (a->op == NULL || strcmp(name, a->op) != 0)
        return false;
    /* Answered: a second time nobody asks. */
    k->id++;
    loop_timer_remove(k->timer);
    k->timer = NULL;
    e2b_channel_acknowledge(k->channel);
    if (error != NULL)
        fill_refusal(k, error);
    else if (a->vars_done != NULL)
        kernel_answer_read_vars(&a->answer, event);
    else
        kernel_answer_read_saved(&a->answer, event, a->changed);
    if (error == NULL && strcmp(a->op, "snapshot") == 0)
        download(k);
    else
        report_asked(k);
    return true;
}

/* --- operations --- */

static struct e2b_asked *
begin_ask(struct e2b_kernel *k, const char *op, const char *doing,
          const char *changed, void *ctx)
{
    struct e2b_asked *a = &k->asked;

    *a = (struct e2b_asked){.op = op,
                            .doing = doing,
                            .changed = changed,
                            .ctx = ctx,
                            .started_ms = clock_now_ms()};
    if (k->state != E2B_KERNEL_IDLE)
        error_fill(&a->err, ERR_SANDBOX, "%s: no interpreter runs", doing);
    return a;
}

static void
send_ask(struct e2b_kernel *k)
{
    struct e2b_asked *a = &k->asked;
    AUTO_SBUF struct sbuf sb = {0};

    e2b_kernel_begin_ask(k);
    sbuf_init(&sb, MAX_LINE_BYTES);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "op", a->op);
    json_add_member_int(&sb, "id", k->id);
    if (a->path != NULL)
        json_add_member_str(&sb, "path", a->path);
    if (strcmp(a->op, "snapshot") == 0) {
        json_add_member_int(&sb, "limit_s", KERNEL_SNAPSHOT_SECONDS);
        json_add_member_int(&sb, "limit_bytes", (int64_t)KERNEL_SNAPSHOT_BYTES);
    }
    sbuf_add_char(&sb, '}');
    e2b_kernel_send(k, &sb);
}

void
e2b_kernel_vars(struct e2b_runner *r, sandbox_vars_fn done, void *ctx)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;
    struct e2b_asked *a = begin_ask(k, "vars", "listing variables", NULL, ctx);

    a->vars_done = done;
    if (a->err.code != ERR_NONE)
        end_later(k);
    else
        send_ask(k);
}

/* Nobody can have made that name a link. */
static char *
make_path(void)
{
    uint64_t number[2] = {0};

    (void)!getrandom(number, sizeof(number), 0);
    return xasprintf("/tmp/sandpiper-%016llx%016llx",
                     (unsigned long long)number[0],
                     (unsigned long long)number[1]);
}

void
e2b_kernel_snapshot(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                    void *ctx)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;
    struct e2b_asked *a =
        begin_ask(k, "snapshot", "saving variables", "saved", ctx);

    a->saved_done = done;
    a->fd = fd;
    if (a->err.code != ERR_NONE) {
        end_later(k);
        return;
    }
    a->path = make_path();
    send_ask(k);
}

static void
on_uploaded(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_kernel *k = ctx;

    e2b_kernel_enter(k);
    take_result(k, result);
    if (k->asked.err.code != ERR_NONE)
        report_asked(k);
    else
        send_ask(k);
    e2b_kernel_leave(k);
}

void
e2b_kernel_restore(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                   void *ctx)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;
    struct e2b_asked *a =
        begin_ask(k, "restore", "restoring variables", "restored", ctx);

    a->saved_done = done;
    a->fd = fd;
    if (a->err.code == ERR_NONE)
        (void)!kernel_answer_check_size(fd, a->doing, &a->n_bytes, &a->err);
    if (a->err.code == ERR_NONE) {
        a->path = make_path();
        k->state = E2B_KERNEL_ASKING;
        a->call = e2b_file_upload(k->site, a->path, fd, 0, (int64_t)a->n_bytes,
                                  NULL, on_uploaded, k, &a->err);
    }
    if (a->err.code != ERR_NONE)
        end_later(k);
}
