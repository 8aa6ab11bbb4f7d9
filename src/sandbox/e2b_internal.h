/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The back end for services that speak the E2B protocol, in seven parts: e2b.c
 * makes the object and ends it; e2b_open.c makes a sandbox, or finds what is
 * still there of one, and an interpreter in it; e2b_run.c runs a cell or a
 * script and decides how it ended; e2b_loss.c finds out what is lost when
 * something went wrong, and builds it anew; e2b_move.c moves files; e2b_life.c
 * keeps a sandbox alive, pauses it and brings it back; e2b_retire.c has it
 * ended for good.
 */
#ifndef SANDBOX_E2B_INTERNAL_H
#define SANDBOX_E2B_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sbuf.h"
#include "sandbox/deaths_internal.h"
#include "sandbox/e2b.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_data_internal.h"
#include "sandbox/e2b_files_internal.h"
#include "sandbox/e2b_process_internal.h"
#include "sandbox/e2b_runner_internal.h"
#include "sandbox/e2b_wire_internal.h"
#include "sandbox/sandbox.h"

struct e2b_farewell;
struct e2b_sweep;
struct key_ask;
struct loop_task;
struct loop_timer;

/* What it is at. */
enum e2b_phase {
    E2B_PHASE_SHUT,    /* not opened; there may be a sandbox all the same */
    E2B_PHASE_OPENING, /* also anew, under a cell whose interpreter is lost */
    E2B_PHASE_IDLE,
    E2B_PHASE_BUSY, /* an operation */
    E2B_PHASE_PAUSED
};

/* A file that was sent to this sandbox. */
struct e2b_sent {
    char *name; /* owned */
    char hash[HASH_HEX_BYTES];
    uint64_t size_bytes; /* as the sandbox says */
    int64_t mtime_ns;
};

/* The running cell or script. */
struct e2b_cell {
    struct sandbox_cell_handlers on;
    void *ctx;
    bool active;
    bool silent;
    bool is_script;
    const struct sandbox_cell
        *what; /* borrowed until it ends; not of a script */
    bool begun;
    bool flooded;
    int64_t timeout_ms;
    int64_t started_ms;
    int64_t ended_ms;          /* when the interpreter was lost */
    enum event_outcome stop;   /* why it was asked to stop; EVENT_OK: was not */
    enum event_outcome ending; /* how it ended, once the interpreter is lost */
    bool killed;               /* not only asked */
    bool files_lost;
    char *reason; /* owned */
    uint64_t n_bytes;
    uint64_t n_dropped;
    struct loop_timer *timeout;
    struct loop_timer *again; /* asks once more */
    struct loop_timer *grace; /* then it is ended */
};

/* A script before it runs: its files are sent one after the other. */
struct e2b_script {
    struct sandbox_script what; /* borrowed until it ends */
    size_t n_sent;
    bool has_dir;
};

struct e2b {
    struct sandbox_backend base; /* first: what others hold */
    char id[E2B_UUID_BYTES];     /* a label of what this one makes */
    struct loop *loop;
    struct e2b_config config; /* strings owned, but for the secrets */
    struct e2b_pair *envs;    /* owned; of config's texts */
    struct sandbox_limits limits;
    char *egress;        /* owned; in words */
    char *unsure_egress; /* owned; the same where the service does not say it */
    enum e2b_phase phase;

    struct http *http;               /* owned */
    struct e2b_api *api;             /* owned; NULL: not opened yet */
    const struct secret *own_key;    /* borrowed: from config.key_source */
    struct key_ask *key_asked;       /* borrowed: from it too */
    struct key_ask *other_key_asked; /* the same, while a sandbox is used ... */
    bool other_key_was_asked;        /* ... and not accepted since */
    void (*then)(struct e2b *e, const struct error *err); /* ... for this */

    /* The sandbox, whether running, paused, or of an unknown state. */
    bool has_sandbox;
    struct e2b_sandbox sandbox; /* without its tokens */
    struct e2b_site site;
    bool is_new;        /* files that were put into others are not in it */
    bool is_unsure;     /* whether it is still there: ask before it is used */
    bool was_asked_for; /* a create is under way */
    int n_strays;       /* that may be there, and that nobody wants */
    struct e2b_sweep *sweep; /* owned; looks for them */
    bool is_paused;
    bool has_set_network; /* once more, after it was made */
    bool is_confirmed;    /* that it reaches what was asked for, and no more */
    int64_t made_ms;      /* wall clock */
    int64_t end_ms;       /* wall clock; 0: not known */
    int64_t since_ms;     /* monotonic; since when it is billed; 0: it is not */
    int64_t billed_ms;    /* before that */
    int cpu_count;        /* of the last one whose size is known; 0: of none */
    int memory_mib;

    struct e2b_runner *runner; /* owned; NULL: none is open */
    bool runner_ready;
    bool is_stale; /* its interpreter is to be ended before it is used again */
    bool no_interpreter; /* the template has none: the kernel runs cells */
    int64_t ready_ms;    /* when the interpreter was ready */
    int n_rebuilt;       /* in a row, without a cell that ended between */
    struct deaths deaths;

    struct e2b_sent *sent; /* owned */
    size_t n_sent;

    /* Opening. */
    void (*progress)(void *ctx, const char *what);
    size_t n_dirs;         /* that were made */
    bool open_was_retried; /* the interpreter has begun once more */

    /* In progress; at most one of each. */
    struct e2b_call *call;
    struct e2b_call *renewal; /* beside all others */
    struct e2b_file_call *file;
    struct e2b_process *process;
    struct loop_timer *renew_timer;
    bool no_renewal;   /* the service has no such thing */
    struct error loss; /* what the search for one began with */
    bool key_is_bad;   /* the service has refused own_key */

    struct e2b_cell cell;
    struct e2b_script script;

    /* The one operation of the caller's that is no cell. */
    sandbox_done_fn done;
    sandbox_list_fn list_done;
    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;
    sandbox_progress_fn put_progress;
    void *op_ctx;
    void (*start)(struct e2b *e); /* what runs, from its beginning */
    bool was_retried;             /* it has begun once more */
    bool gone_is_told;            /* the caller, when the operation has ended */
    struct error op_err;
    struct loop_task *task; /* reports later */
    char *name;             /* owned; of a put or a get */
    int fd;                 /* borrowed */
    off_t offset;
    off_t limit;
    struct hash hash;
    off_t hashed; /* bytes of a put */
    off_t total;
    char hash_text[HASH_HEX_BYTES];
    unsigned n_uploads; /* of puts; each has a name of its own until then */
    struct sbuf errors; /* of a put: what the sandbox said */
    size_t n_stats;     /* components of the name of a file that is fetched */
    struct loop_task *hashing;

    struct e2b_farewell *farewell; /* owned; NULL: it is not retired */

    int depth; /* of calls from the loop */
    bool dead; /* closed within one */
};

/* Around everything that the loop calls and that may call back; leave may free
   e. */
void e2b_enter(struct e2b *e);
void e2b_leave(struct e2b *e);

void e2b_set_phase(struct e2b *e, enum e2b_phase phase);

/* Ends the operation from the loop. err NULL: well. */
void e2b_end_op(struct e2b *e, const struct error *err);

/* The same at once: for what the loop has called. */
void e2b_end_op_now(struct e2b *e, const struct error *err);

void e2b_fill_api_config(const struct e2b *e, struct e2b_api_config *config,
                         const struct e2b_pair *labels, size_t n_labels);

/* What is in progress ends without callbacks. */
void e2b_drop_everything(struct e2b *e);

/* --- e2b_open.c --- */

/* Makes a sandbox ready, with an interpreter; ends in e2b_opened. */
void e2b_open_begin(struct e2b *e);

/* Takes over what an answer says of the sandbox. Errors: as e2b_site_init. */
WARN_UNUSED int e2b_take_sandbox(struct e2b *e, struct e2b_result *result,
                                 struct error *err);

/* After an answer that the API gave: whether it refused the key, which is then
   asked for anew at the next open. */
void e2b_check_key(struct e2b *e, const struct e2b_result *result);

/* The service has refused the key while a sandbox is used: asks for another
   one, and calls then when it is in use; or with what went wrong (borrowed).
   False: there is none to ask for, or the last one was refused, too. */
bool e2b_ask_other_key(struct e2b *e,
                       void (*then)(struct e2b *e, const struct error *err));

/* Forgets what is known of the sandbox; it is gone. */
void e2b_forget_sandbox(struct e2b *e);

/* Ends the sandbox, without waiting, and forgets it. */
void e2b_abandon_sandbox(struct e2b *e);

/* Ends the interpreter's object. */
void e2b_drop_runner(struct e2b *e);

/* Everything in progress that has to do with opening. */
void e2b_open_drop(struct e2b *e);

/* --- e2b_run.c --- */

void e2b_run_cell(struct sandbox_backend *b, const struct sandbox_cell *cell,
                  const struct sandbox_cell_handlers *on, void *ctx);
void e2b_run_script(struct sandbox_backend *b,
                    const struct sandbox_script *script,
                    const struct sandbox_cell_handlers *on, void *ctx);

/* Asks what runs to stop. */
void e2b_cell_stop(struct e2b *e, enum event_outcome why);

/* After the loss of its interpreter: another one, unless that has ended too
   often of late. Ends in e2b_cell_reopened. */
void e2b_cell_reopen(struct e2b *e);

/* After a loss: a new interpreter is ready, or (err, which says what is lost)
   is not. */
void e2b_cell_reopened(struct e2b *e, const struct error *err);

/* Forgets it, without telling anybody. */
void e2b_cell_drop(struct e2b *e);

/* It has not been run, and all is as before. err is borrowed. */
void e2b_cell_refuse(struct e2b *e, const struct error *err);

/* The interpreter is lost under the running cell: how it ends, in which words
   (NULL: an error will have them); texts are copied. */
void e2b_cell_lose(struct e2b *e, enum event_outcome how, const char *reason,
                   bool files_lost);

/* It is over and the interpreter lives on, but how it ended is not known. */
void e2b_cell_end_unknown(struct e2b *e, const char *reason);

/* --- e2b_loss.c --- */

/*
 * Begins what was asked for: e->start, at once, or after the sandbox was asked
 * whether it is still there, where that is not sure: one that was paused comes
 * back first. The end of a sandbox ends the operation, and is told.
 */
void e2b_begin(struct e2b *e, void (*start)(struct e2b *e));

/* Something went wrong with the sandbox, or on the way to it, while something
   was asked of it. Ends the operation, or begins it again where it has
   certainly not been carried out (not_done) or may be twice. */
void e2b_handle_trouble(struct e2b *e, enum e2b_trouble trouble, bool not_done,
                        const struct error *err);

/* The interpreter ended while nothing was asked of it. */
void e2b_on_runner_lost(void *ctx, const struct e2b_run_end *end);

/* The sandbox has ended while nothing was asked of it. */
void e2b_on_sandbox_gone(struct e2b *e);

/* --- e2b_move.c --- */

void e2b_put(struct sandbox_backend *b, const struct sandbox_put *put,
             sandbox_progress_fn progress, sandbox_done_fn done, void *ctx);
void e2b_list(struct sandbox_backend *b, sandbox_list_fn done, void *ctx);
void e2b_get(struct sandbox_backend *b, const char *name, int fd, off_t offset,
             off_t limit, sandbox_done_fn done, void *ctx);

/* What is in progress of them ends with ERR_CANCELLED; false: nothing is. */
bool e2b_move_cancel(struct e2b *e);
void e2b_move_drop(struct e2b *e);
void e2b_forget_sent(struct e2b *e);

/* --- e2b_life.c --- */

void e2b_suspend(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);
void e2b_resume(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);
void e2b_stop(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);

/* Begins and ends to renew the time of the sandbox, and to count what is
   billed. */
void e2b_life_begin(struct e2b *e);
void e2b_life_end(struct e2b *e);

/* Milliseconds for which sandboxes of this object have run. */
int64_t e2b_billed_ms(const struct e2b *e);

/* --- e2b_retire.c --- */

/* As struct sandbox_ops has it. */
void e2b_retire(struct sandbox_backend *b, void (*done)(void *ctx), void *ctx);

/* Waits for it no longer, and tells what is left. */
void e2b_give_up(struct e2b *e);

#endif
