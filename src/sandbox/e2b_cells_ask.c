/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/e2b_cells_internal.h"
#include "sandbox/e2b_files_internal.h"
#include "sandbox/workspace_internal.h"

#define MAX_LINE_BYTES 512u
#define MAX_SIZE_BYTES 64u
#define MAX_REFUSAL_BYTES 1024u
/* From an interrupt on. */
#define LATE_MS 3000

#define STATE WORKSPACE_STATE

void
e2b_cells_ask_fini(struct e2b_cells *c)
{
    kernel_answer_fini(&c->ask.answer);
    free(c->ask.refusal);
    memset(&c->ask, 0, sizeof(c->ask));
}

/* --- the end --- */

/* "listing variables: the interpreter was restarted", of the first of the
   sentences that say why it is lost. */
static void
fill_loss(const struct e2b_ask *ask, const char *reason, struct error *err)
{
    AUTO_FREE char *why = xstrdup(reason);
    char *stop = strstr(why, ". ");

    if (stop != NULL)
        *stop = '\0';
    why[0] = (char)tolower((unsigned char)why[0]);
    error_fill(err, ERR_SANDBOX, "%s: %s", ask->doing, why);
}

static void
end_ask(struct e2b_cells *c, const struct e2b_run_end *end)
{
    struct e2b_ask ask = c->ask;
    struct error err = ask.err;
    bool gone = false;

    memset(&c->ask, 0, sizeof(c->ask));
    if (end->way == E2B_RUN_LOST)
        fill_loss(&ask, end->outcome->reason, &err);
    else if (end->way == E2B_RUN_TROUBLE)
        err = *end->err;
    c->gone = &gone;
    kernel_answer_tell(
        &ask.answer,
        &(struct kernel_asker){ask.vars_done, ask.saved_done, ask.ctx},
        ask.n_bytes, clock_now_ms() - ask.started_ms, &err);
    kernel_answer_fini(&ask.answer);
    free(ask.refusal);
    if (gone)
        return;
    c->gone = NULL;
    if (end->way == E2B_RUN_LOST && c->base.on_lost != NULL)
        c->base.on_lost(c->base.on_lost_ctx, end);
}

static void
finish(struct e2b_cells *c)
{
    e2b_cells_end(c, &(struct e2b_run_end){.way = E2B_RUN_DONE});
}

/* --- requests to our kernel --- */

static void
take_answer(void *ctx, const struct cJSON *event)
{
    struct e2b_cells *c = ctx;
    struct e2b_ask *ask = &c->ask;
    const char *name = json_string(event, "ev");
    const char *error = json_string(event, "error");

    if (name == NULL || ask->answered || strcmp(name, ask->op) != 0)
        return;
    ask->answered = true;
    if (error != NULL)
        ask->refusal = json_dup_string(event, "error", MAX_REFUSAL_BYTES);
    else if (ask->vars_done != NULL)
        kernel_answer_read_vars(&ask->answer, event);
    else
        kernel_answer_read_saved(&ask->answer, event, ask->changed);
}

static void
send_request(struct e2b_cells *c, const char *op,
             void (*then)(struct e2b_cells *c,
                          const struct e2b_execute_end *end))
{
    struct e2b_execute_handlers on = e2b_execute_quiet();
    struct e2b_execute_spec spec = e2b_cells_spec(c, c->ask.doing);
    AUTO_SBUF struct sbuf line = {0};
    AUTO_SBUF struct sbuf code = {0};
    AUTO_FREE char *path = xasprintf(STATE "/%s", c->ask.name);

    sbuf_init(&line, MAX_LINE_BYTES);
    sbuf_init(&code, 2 * MAX_LINE_BYTES);
    sbuf_add_char(&line, '{');
    json_add_member_str(&line, "op", op);
    json_add_member_int(&line, "id", 1);
    if (c->ask.name[0] != '\0') {
        json_add_member_str(&line, "path", path);
        json_add_member_int(&line, "limit_s", KERNEL_SNAPSHOT_SECONDS);
        json_add_member_int(&line, "limit_bytes",
                            (int64_t)KERNEL_SNAPSHOT_BYTES);
    }
    sbuf_add_char(&line, '}');
    e2b_cells_add_hosted(&code, line.data);
    spec.code = code.data;
    spec.code_len = code.len;
    on.on_event = take_answer;
    e2b_cells_execute(c, &spec, &on, then);
    c->is_running = c->execute != NULL;
}

/* The file of the snapshot; whatever becomes of that, the answer is known. */
static void
then_removed(struct e2b_cells *c, const struct e2b_execute_end *end)
{
    (void)end;
    finish(c);
}

static void
clean_up(struct e2b_cells *c)
{
    if (c->ask.name[0] == '\0')
        finish(c);
    else
        send_request(c, "remove", then_removed);
}

static void
on_downloaded(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_cells *c = ctx;
    struct stat st;

    c->file = NULL;
    if (result->err != NULL) {
        c->ask.err = *result->err;
        err_wrap(&c->ask.err, "%s", c->ask.doing);
    } else if (fstat(c->ask.fd, &st) == 0) {
        c->ask.n_bytes = (uint64_t)st.st_size;
    }
    clean_up(c);
}

static void
download(struct e2b_cells *c)
{
    AUTO_FREE char *path =
        xasprintf(E2B_WORKSPACE "/" STATE "/%s", c->ask.name);

    c->file = e2b_file_download(c->site, path, c->ask.fd, 0,
                                (int64_t)KERNEL_SNAPSHOT_BYTES, on_downloaded,
                                c, &c->ask.err);
    if (c->file == NULL)
        clean_up(c);
}

static void
fill_refusal(struct e2b_cells *c)
{
    struct e2b_ask *ask = &c->ask;

    if (!ask->answered)
        error_fill(&ask->err, ERR_SANDBOX, "%s: the interpreter gave no answer",
                   ask->doing);
    else if (strcmp(ask->refusal, "interrupted") == 0)
        error_fill(&ask->err, ERR_CANCELLED, "%s: stopped%s", ask->doing,
                   strcmp(ask->op, "restore") == 0
                       ? "; some of them may be back"
                       : "");
    else {
        AUTO_FREE char *line = kernel_answer_line(ask->refusal);

        error_fill(&ask->err, ERR_DATA, "%s: %s", ask->doing, line);
    }
}

static void
then_answered(struct e2b_cells *c, const struct e2b_execute_end *end)
{
    const char *loss = e2b_cells_loss(end);
    struct sandbox_outcome outcome = {0};
    struct error err = {0};

    if (loss != NULL) {
        free(c->contexts[0].id);
        c->contexts[0].id = NULL;
        e2b_cells_lose(c, loss);
    } else if (end->trouble != E2B_TROUBLE_NONE) {
        e2b_cells_fail(c, end->trouble, end->err);
    } else if (e2b_cells_is_new(c, end)) {
        e2b_cells_lose(c, "The interpreter has ended, perhaps for lack of "
                          "memory. " SANDBOX_LOST_TEXT);
    } else if (e2b_result_outcome(end->result, &outcome, &err) == 0 &&
               e2b_result_end(end->result) == E2B_END_LOST) {
        e2b_cells_lose(c, outcome.reason);
    } else if (!c->ask.answered || c->ask.refusal != NULL) {
        fill_refusal(c);
        e2b_cells_later(c, 0, clean_up);
    } else if (strcmp(c->ask.op, "snapshot") == 0) {
        e2b_cells_later(c, 0, download);
    } else {
        e2b_cells_later(c, 0, clean_up);
    }
}

static void
send_ask(struct e2b_cells *c)
{
    send_request(c, c->ask.op, then_answered);
}

/* --- interrupts --- */

static void
on_late(void *ctx)
{
    struct e2b_cells *c = ctx;
    struct error err = {0};

    c->late = NULL;
    error_fill(&err, ERR_CANCELLED,
               "%s: stopped, since the sandbox did not answer", c->ask.doing);
    e2b_cells_fail(c, E2B_TROUBLE_CUT, &err);
}

void
e2b_cells_ask_interrupt(struct e2b_cells *c)
{
    if (c->ask.op == NULL || c->late != NULL)
        return;
    if (c->file != NULL) {
        e2b_file_drop(c->file);
        c->file = NULL;
        error_fill(&c->ask.err, ERR_CANCELLED, "%s: stopped", c->ask.doing);
        clean_up(c);
    }
    c->late = loop_add_timer(c->site->loop, LATE_MS, on_late, c);
}

/* --- operations --- */

static void
fail_ask(struct e2b_cells *c)
{
    finish(c);
}

static struct e2b_cells *
begin_ask(struct e2b_runner *r, const char *op, const char *doing, void *ctx)
{
    struct e2b_cells *c = (struct e2b_cells *)r;

    assert(c->end == NULL);
    c->end = end_ask;
    c->interrupted = false;
    c->context = &c->contexts[0];
    c->ask.op = op;
    c->ask.doing = doing;
    c->ask.ctx = ctx;
    c->ask.started_ms = clock_now_ms();
    if (!c->is_hosted)
        error_fill(&c->ask.err, ERR_UNSUPPORTED,
                   "%s: this sandbox's interpreter could not be made ready for "
                   "that",
                   doing);
    return c;
}

static void
block(struct e2b_cells *c)
{
    if (c->process != NULL)
        c->blocked = block;
    else
        c->after(c);
}

static void
start(struct e2b_cells *c, void (*first)(struct e2b_cells *c))
{
    c->after = first;
    e2b_cells_later(c, 0, c->ask.err.code == ERR_NONE ? block : fail_ask);
}

void
e2b_cells_vars(struct e2b_runner *r, sandbox_vars_fn done, void *ctx)
{
    struct e2b_cells *c = begin_ask(r, "vars", "listing variables", ctx);

    c->ask.vars_done = done;
    start(c, send_ask);
}

static void
make_name(struct e2b_ask *ask)
{
    uint64_t number = 0;

    /* Two at a time do not exist: any name will do. */
    (void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
    snprintf(ask->name, sizeof(ask->name), "%016llx",
             (unsigned long long)number);
}

void
e2b_cells_snapshot(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                   void *ctx)
{
    struct e2b_cells *c = begin_ask(r, "snapshot", "saving variables", ctx);

    c->ask.saved_done = done;
    c->ask.changed = "saved";
    c->ask.fd = fd;
    make_name(&c->ask);
    start(c, send_ask);
}

static void
on_uploaded(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_cells *c = ctx;

    c->file = NULL;
    if (result->err != NULL) {
        c->ask.err = *result->err;
        err_wrap(&c->ask.err, "%s", c->ask.doing);
        clean_up(c);
    } else {
        send_ask(c);
    }
}

static void
upload(struct e2b_cells *c)
{
    AUTO_FREE char *path =
        xasprintf(E2B_WORKSPACE "/" STATE "/%s", c->ask.name);

    c->file =
        e2b_file_upload(c->site, path, c->ask.fd, 0, (int64_t)c->ask.n_bytes,
                        NULL, on_uploaded, c, &c->ask.err);
    if (c->file == NULL)
        finish(c);
}

void
e2b_cells_restore(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                  void *ctx)
{
    struct e2b_cells *c = begin_ask(r, "restore", "restoring variables", ctx);

    c->ask.saved_done = done;
    c->ask.changed = "restored";
    c->ask.fd = fd;
    if (c->ask.err.code == ERR_NONE)
        (void)!kernel_answer_check_size(c->ask.fd, c->ask.doing,
                                        &c->ask.n_bytes, &c->ask.err);
    make_name(&c->ask);
    start(c, upload);
}
