/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What e2b_cells.c (operations), e2b_cells_steps.c (what all of them are made
 * of) and e2b_cells_ask.c (variables) share. An operation is a row of steps,
 * each a request, a cell or a process; whatever happens, it ends once, by
 * e2b_cells_end or e2b_cells_fail.
 */
#ifndef SANDBOX_E2B_CELLS_INTERNAL_H
#define SANDBOX_E2B_CELLS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/e2b_execute_internal.h"
#include "sandbox/e2b_runner_internal.h"
#include "sandbox/kernel_answer_internal.h"

struct cJSON;
struct e2b_file_call;
struct e2b_process;
struct loop_task;
struct loop_timer;
struct sbuf;

#define E2B_CELLS_LANGUAGES 6u

/* What the service calls an interpreter; there is one for each language. */
struct e2b_context {
    char *id;           /* owned; NULL: not made yet */
    int64_t count;      /* of the last cell; 0: none */
    int64_t dropped_ms; /* when a connection was closed under a cell, of which
                           is not known whether it has ended; 0: is not so */
    bool restarted;     /* nobody knows yet */
};

/* What was asked about variables. */
struct e2b_ask {
    const char *op; /* "vars"; NULL: nothing */
    const char *doing;
    const char *changed;
    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;
    void *ctx;
    int fd;        /* borrowed */
    char name[32]; /* of the file in the workspace; "": none */
    int64_t started_ms;
    bool answered;
    char *refusal; /* owned; what the kernel says went wrong */
    struct kernel_answer answer;
    uint64_t n_bytes; /* of a snapshot */
    struct error err; /* behind which the file is removed */
};

struct e2b_cells {
    struct e2b_runner base; /* first: what others hold */
    struct e2b_site *site;  /* borrowed */
    struct e2b_runner_config config;

    struct e2b_context contexts[E2B_CELLS_LANGUAGES]; /* 0: Python */
    bool no_contexts; /* the default ones are all there are */
    bool is_hosted;   /* our kernel lives in that of Python */
    unsigned n_setups;
    bool owes_note; /* that it does not */
    int64_t pid;    /* of the interpreter; 0: not known */
    bool has_group; /* which it leads */
    char *python;   /* owned */

    /* The operation. */
    void (*end)(struct e2b_cells *c, const struct e2b_run_end *end);
    e2b_run_fn fn;
    struct e2b_run_handlers on;
    void *ctx;
    struct e2b_context *context; /* NULL: it runs no cell */
    char *code;                  /* owned; as it is sent */
    size_t code_len;
    bool silent;
    bool interrupted;
    bool is_running; /* the cell has been sent */
    bool was_cut;    /* and its connection broke */
    bool answered;   /* an event that the step was for */
    bool killing;
    struct e2b_ask ask;

    /* Its step. */
    struct e2b_data *request;
    struct e2b_execute *execute;
    struct e2b_file_call *file;
    struct loop_timer *wait;
    struct loop_timer *late; /* a request that was interrupted */
    struct loop_task *task;
    void (*then)(struct e2b_cells *c, const struct e2b_data_result *result);
    void (*then_cell)(struct e2b_cells *c, const struct e2b_execute_end *end);
    void (*go_on)(struct e2b_cells *c);
    void (*after)(struct e2b_cells *c); /* of a context that is made ready */
    struct error err;                   /* of a step that could not begin */

    /* A signal on its way: nothing is run until it has arrived. */
    struct e2b_process *process;
    int signo;
    bool again;
    void (*sent)(struct e2b_cells *c, const struct error *err);
    void (*blocked)(struct e2b_cells *c); /* what waits for it */
    struct loop_task *kill_task;

    bool *gone; /* where to say that it was freed */
};

/* --- e2b_cells_steps.c --- */

/* The context of a language, which may not be made yet; NULL: there is no such
   language. */
struct e2b_context *e2b_cells_context(struct e2b_cells *c,
                                      const char *language);

/* What the service calls its language. */
const char *e2b_cells_language(const struct e2b_cells *c,
                               const struct e2b_context *context);

/* Stops all steps, without ending the operation. */
void e2b_cells_stop_steps(struct e2b_cells *c);

/* The end of the operation; c may be freed when it returns. */
void e2b_cells_end(struct e2b_cells *c, const struct e2b_run_end *end);
/* The same before any of the code has run. */
void e2b_cells_fail(struct e2b_cells *c, enum e2b_trouble trouble,
                    const struct error *err);

/* reason: static. Forgets what belonged to the interpreter. */
void e2b_cells_lose(struct e2b_cells *c, const char *reason);

/* The next step; each fails by itself from the loop. body NULL: none. */
void e2b_cells_request(struct e2b_cells *c, const char *method,
                       const char *path, const char *body, int64_t limit_ms,
                       const char *doing,
                       void (*then)(struct e2b_cells *c,
                                    const struct e2b_data_result *result));
void e2b_cells_execute(struct e2b_cells *c, const struct e2b_execute_spec *spec,
                       const struct e2b_execute_handlers *on,
                       void (*then)(struct e2b_cells *c,
                                    const struct e2b_execute_end *end));
void e2b_cells_later(struct e2b_cells *c, int64_t ms,
                     void (*go_on)(struct e2b_cells *c));

/* The code by which our kernel gets a request, a line of JSON. */
void e2b_cells_add_hosted(struct sbuf *sb, const char *line);

/* Makes the context if there is none, and sees that it answers. */
void e2b_cells_prepare(struct e2b_cells *c, struct e2b_context *context,
                       void (*go_on)(struct e2b_cells *c));
void e2b_cells_restart(struct e2b_cells *c, struct e2b_context *context,
                       void (*then)(struct e2b_cells *c,
                                    const struct e2b_data_result *result));

/* The same, for good. */
void e2b_cells_remove(struct e2b_cells *c, struct e2b_context *context,
                      void (*then)(struct e2b_cells *c,
                                   const struct e2b_data_result *result));

/* Ends the operation: the service has no interpreter for its language. */
void e2b_cells_refuse_language(struct e2b_cells *c, const struct error *why);

/* The spec of a cell in the operation's context, without its code. */
struct e2b_execute_spec e2b_cells_spec(const struct e2b_cells *c,
                                       const char *doing);

/* Whether a cell did not find our kernel, and has not run: the interpreter is
   another one. */
bool e2b_cells_is_new(const struct e2b_cells *c,
                      const struct e2b_execute_end *end);

/* Why there is no whole answer means the loss of the interpreter; NULL: it
   does not. */
const char *e2b_cells_loss(const struct e2b_execute_end *end);

/* sent is called from the loop; err NULL: it has arrived. */
void e2b_cells_signal(struct e2b_cells *c, int signo,
                      void (*sent)(struct e2b_cells *c,
                                   const struct error *err));

/* --- e2b_cells_ask.c --- */

/* What is asked, if anything is, ends soon, whether or not it is answered. */
void e2b_cells_ask_interrupt(struct e2b_cells *c);

void e2b_cells_vars(struct e2b_runner *r, sandbox_vars_fn done, void *ctx);
void e2b_cells_snapshot(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                        void *ctx);
void e2b_cells_restore(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                       void *ctx);
void e2b_cells_ask_fini(struct e2b_cells *c);

#endif
