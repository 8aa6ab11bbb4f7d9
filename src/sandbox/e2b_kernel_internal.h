/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What e2b_kernel.c (opens, runs cells, ends) and e2b_kernel_ask.c (requests
 * that are no cells) share: our own interpreter, run in a sandbox of a service
 * and spoken to by a channel.
 */
#ifndef SANDBOX_E2B_KERNEL_INTERNAL_H
#define SANDBOX_E2B_KERNEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "sandbox/e2b_channel_internal.h"
#include "sandbox/e2b_runner_internal.h"
#include "sandbox/kernel_answer_internal.h"
#include "sandbox/kernel_show_internal.h"

struct cJSON;
struct e2b_file_call;
struct loop;
struct loop_task;
struct loop_timer;

enum e2b_kernel_state {
    E2B_KERNEL_NEW,
    E2B_KERNEL_OPENING,
    E2B_KERNEL_IDLE,
    E2B_KERNEL_RUNNING,      /* a cell */
    E2B_KERNEL_ASKING,       /* a request that is no cell */
    E2B_KERNEL_RECONNECTING, /* it has not answered yet */
    E2B_KERNEL_ENDING,
    E2B_KERNEL_GONE /* it, or the way to it */
};

/* What was asked, and what has come of it. */
struct e2b_asked {
    const char *op;      /* static; NULL: nothing is asked */
    const char *doing;   /* static; for messages */
    const char *changed; /* static; member of the answer; NULL: none */
    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;
    void *ctx;
    int fd; /* borrowed; outside */
    int64_t started_ms;
    char *path; /* owned; of the file in the sandbox; NULL: none */
    struct e2b_file_call *call;
    struct kernel_answer answer;
    uint64_t n_bytes;
    struct error err;
};

struct e2b_kernel {
    struct e2b_runner base; /* first: what others hold */
    struct e2b_site *site;  /* borrowed */
    struct loop *loop;      /* borrowed */
    struct e2b_runner_config config;
    struct e2b_channel *channel; /* owned; NULL: there is no interpreter */
    enum e2b_kernel_state state;

    e2b_run_fn fn; /* of open and reconnect */
    void *fn_ctx;
    struct loop_timer *timer; /* of what is asked */
    struct loop_timer *kill_timer;
    struct loop_task *task; /* reports later */
    struct error start_err;
    bool killed;
    bool was_cut;  /* while something was asked: it may still be at that */
    char *fatal;   /* owned; what the interpreter said of itself */
    char *version; /* owned; of Python */
    char *about;   /* owned; with its path */

    /* The cell that runs. */
    struct e2b_run_handlers on;
    void *cell_ctx;
    int64_t id; /* of the request */
    bool begun;
    bool begin_told;
    bool interrupts; /* as soon as it has begun */
    enum error_code refusal;
    struct kernel_show show;
    struct sbuf later; /* written while no cell ran */
    unsigned n_unasked;

    struct e2b_asked asked;
    bool asked_late;

    int depth; /* of callbacks */
    bool dead; /* freed within one */
};

/* Around everything that the loop calls; leave may free k. */
void e2b_kernel_enter(struct e2b_kernel *k);
void e2b_kernel_leave(struct e2b_kernel *k);

/* A line, without its line feed. */
void e2b_kernel_send(struct e2b_kernel *k, const struct sbuf *line);

/* A request that is no cell is on its way, as k->id. */
void e2b_kernel_begin_ask(struct e2b_kernel *k);
void e2b_kernel_end_ask(struct e2b_kernel *k);

/* --- e2b_kernel_ask.c --- */

/* False when it is no answer to what was asked. */
bool e2b_kernel_ask_event(struct e2b_kernel *k, const char *name,
                          const struct cJSON *event);

/* The interpreter, or the way to it, was lost under it. */
void e2b_kernel_ask_lost(struct e2b_kernel *k, const struct e2b_run_end *end);

/* Forgets what was asked, without telling anybody. */
void e2b_kernel_ask_drop(struct e2b_kernel *k);

void e2b_kernel_vars(struct e2b_runner *r, sandbox_vars_fn done, void *ctx);
void e2b_kernel_snapshot(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                         void *ctx);
void e2b_kernel_restore(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                        void *ctx);

#endif
