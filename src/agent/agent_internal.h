/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The state of the agent, shared by the turn (agent.c) and the files that cells
 * leave behind (files.c).
 */
#ifndef AGENT_AGENT_INTERNAL_H
#define AGENT_AGENT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/context_internal.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "model/event.h"
#include "model/usage.h"
#include "sandbox/sandbox.h"

struct claude_call;
struct claude_history;
struct claude_tool_call;
struct loop_task;

enum agent_state { AGENT_IDLE, AGENT_ASKING, AGENT_RUNNING, AGENT_ENDING };

/* What a tool call is answered with; text NULL: not yet. */
struct agent_answer {
    char *text; /* owned */
    size_t len;
    bool is_error;
};

/* A file that was there before the cell. */
struct agent_seen {
    uint64_t inode;
    uint64_t size_bytes;
    int64_t mtime_ns;
};

/* A file that is new or changed after the cell. */
struct agent_found {
    char *name; /* owned */
    uint64_t size_bytes;
    char *refused; /* owned; or NULL */
};

struct agent {
    struct agent_config config;
    enum agent_state state;
    bool cancelled;

    struct claude_history *history; /* owned */
    struct claude_call *call;       /* borrowed: the request in progress */
    size_t mark;                    /* of the history, before the question */
    struct sbuf told;               /* goes before the next question */
    struct sbuf told_sent;          /* went before this one */

    /* The turn. */
    int64_t turn_start_ms;
    int n_rounds;
    int n_replies; /* in the history */
    int n_nudges;
    int n_turn_cells;
    struct usage usage;
    const char *status;

    /* The reply whose calls are being run. */
    struct claude_tool_call *calls; /* owned */
    struct agent_answer *answers;   /* owned; one for each call */
    size_t n_calls;
    size_t at_call;

    /* The cell. */
    int n_cells; /* of the session */
    int cell;
    char *code;            /* owned */
    struct sandbox_op *op; /* borrowed: the operation in progress */
    struct context context;
    struct sandbox_outcome outcome; /* its texts are owned */

    /* Files. */
    void (*after_list)(struct agent *a);
    struct agent_seen *seen; /* owned */
    size_t n_seen;
    bool seen_known;
    struct agent_found *found; /* owned */
    size_t n_found;
    size_t at_found;
    uint64_t n_left_out;
    int copy_fd; /* owned; -1: none */

    struct error sink_err;
    struct error end_err;
    enum event_outcome end_outcome;
    struct loop_task *end_task;
};

void agent_emit(struct agent *a, struct event *ev);
void agent_notice(struct agent *a, enum event_level level, const char *text);

/* Continues after the cell and its files. */
void agent_cell_over(struct agent *a);

void agent_files_init(struct agent *a);
void agent_files_fini(struct agent *a);

/* Notes what is in the workspace, then calls then. */
void agent_list_before(struct agent *a, void (*then)(struct agent *a));

/* Finds what the cell left behind, copies it out and emits EVENT_FILE for each,
   then calls agent_cell_over. */
void agent_collect_files(struct agent *a);

/* Copies the outcome, since it is borrowed for the call only. */
void agent_keep_outcome(struct agent *a, const struct sandbox_outcome *o);
void agent_free_outcome(struct agent *a);

#endif
