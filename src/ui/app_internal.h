/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The state of the app, for the commands.
 */
#ifndef UI_APP_INTERNAL_H
#define UI_APP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/io.h"
#include "base/sbuf.h"
#include "ui/app.h"
#include "ui/command.h"

struct app_fetch;
struct doctor;
struct load;
struct loop_task;
struct sandbox_op;
struct sandbox_replay;
struct sbuf;

/* A loaded file, for ":files". */
struct app_file {
    char *variable; /* owned */
    char *path;     /* owned */
    int64_t n_rows;
    int64_t n_cols;
    uint64_t size_bytes;
};

/* ":save" of a table, while it runs. */
struct app_save {
    struct io_new file; /* where it goes */
};

/* ":full", while it runs. */
struct app_full {
    int cell;
    int only;  /* the output that was asked for; -1: all */
    size_t at; /* the piece that comes next */
    int fd;    /* owned; a table */
};

/* ":snapshot" or ":restore", while it runs. */
struct app_snapshot {
    struct io_new file; /* where it goes */
    int fd;             /* owned; what is restored; -1: nothing */
    char *name;         /* owned */
};

/* ":sandbox kill", while it runs, and the search at the start. */
struct app_kill {
    bool searching; /* by itself */
    bool runs;      /* as a command */
    char **ids;     /* owned, the texts too: what was asked for; none: all */
    size_t n_ids;
    struct sbuf ended; /* ids */
    struct error err;  /* the first; it was shown */
};

/* ":sandbox NAME", while it runs: what was before. */
struct app_switch {
    char *name; /* owned; of the one that is to be next */
    bool had_run;
    bool was_reduced;
};

enum app_state { APP_IDLE, APP_COMMAND, APP_LOADING, APP_ASKING };

struct app {
    struct app_config config;
    struct agent *agent; /* borrowed */
    enum app_state state;
    const struct command *command; /* that waits; or NULL */
    struct load *load;             /* borrowed: in progress */

    app_done_fn done;
    void *ctx;
    struct loop_task *task; /* calls done */
    struct error err;
    bool quit;
    bool told_level; /* that isolation is reduced */
    bool has_asked;  /* a question, at least one */

    struct app_file *files; /* owned */
    size_t n_files;
    struct app_fetch *fetches; /* owned: fetch_table.c */
    unsigned n_fetches;        /* so far */
    struct app_save save;
    struct app_full full;
    struct doctor *doctor; /* owned: ":doctor", while it runs */
    struct app_snapshot snapshot;
    struct app_kill kill;
    struct app_switch switching;
    struct sandbox_op *op;         /* borrowed: of a command, in progress */
    struct sandbox_replay *replay; /* borrowed: ":replay", while it runs */
};

/* Begins to load; ends through app_finish. */
WARN_UNUSED int app_begin_load(struct app *app, const char *path,
                               const char *variable, struct error *err);

/* Tells the person and, before the next question, the model of variables that
   are gone. */
void app_tell_loss(struct app *app, const char *loss);

/* Tells the model, before the next question, of a loss that it does not know
   of. */
void app_tell_model_of_loss(struct app *app);

/* Adds which files are loaded again, behind a statement: "; loaded again: a".
 */
void app_add_loaded(const struct app *app, struct sbuf *sb);

/* Ends the operation of a command early, as a command's cancel. */
void app_cancel_op(struct app *app);

/* The live line of one: text, or what it waits for. */
void app_op_status(struct app *app, const char *text);

/* Why the sandbox cannot be asked now: none runs, or none can. 0: it can. */
WARN_UNUSED int app_check_sandbox(const struct app *app, struct error *err);

/* Where a key for the Claude API goes. Owned by the caller. */
char *app_key_advice(void);

/* As command_done, for an error that the command has shown itself. */
void app_end_shown(struct app *app, const struct error *err);

/* Gives up ":sandbox kill" and the search, without a word. */
void app_drop_kill(struct app *app);

/* Begins the last question anew; ends as a question does. */
WARN_UNUSED int app_begin_retry(struct app *app, struct error *err);

#endif
