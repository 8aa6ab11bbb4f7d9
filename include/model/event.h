/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The one stream of events. The agent emits them and knows no consumer; what a
 * person sees, what is recorded and what a script reads are all made from them.
 * An event is borrowed for the call.
 */
#ifndef MODEL_EVENT_H
#define MODEL_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct output;
struct usage;

enum event_kind {
    EVENT_QUESTION, /* text: what the person asked */
    EVENT_REPLY,    /* text: raw JSON of one message's content array, as it is
                       sent back; stop_reason; usage. Never shown */
    EVENT_THINKING, /* text: a piece of the summarised thinking; end at its end
                     */
    EVENT_TEXT,     /* text: a piece of the answer; end at the end of a block;
                       is_void: none of this reply's words count. They do once
                       its EVENT_REPLY is there */
    EVENT_CODE,     /* text: the whole source of cell, before it runs;
                       language */
    EVENT_OUTPUT,   /* text: bytes that the running cell wrote; stream */
    EVENT_RESULT,   /* output: what cell showed */
    EVENT_FILE,   /* file: a file that the cell left behind, or that was refused
                   */
    EVENT_LOAD,   /* load: a file was loaded */
    EVENT_USAGE,  /* usage of the turn */
    EVENT_NOTICE, /* text: the program's own words; level */
    EVENT_STATUS, /* text: what is going on now, or why it waits until until_ms;
                     for the live line, not stored */
    EVENT_ERROR,  /* a cell failed: error_name, text (value), traceback, hint */
    EVENT_DONE    /* scope, outcome, duration; err when it is a failed turn; at
                     a limit what is kept, the setting, and the way on */
};

enum event_stream { EVENT_STDOUT, EVENT_STDERR };
enum event_level { EVENT_INFO, EVENT_WARNING, EVENT_FAILURE };
enum event_scope { EVENT_SCOPE_CELL, EVENT_SCOPE_TURN };

/* How a cell or a turn ended. */
enum event_outcome {
    EVENT_OK,
    EVENT_FAILED,      /* an exception; a turn without an answer */
    EVENT_INTERRUPTED, /* by the person; variables kept */
    EVENT_TIMEOUT,     /* by the time limit; variables kept */
    EVENT_OUTPUT_LIMIT,
    EVENT_DISK_LIMIT,
    EVENT_KILLED, /* did not stop; variables lost */
    EVENT_DIED,   /* ended by itself; variables lost */
    EVENT_MEMORY, /* killed at the memory limit; variables lost */
    EVENT_LIMIT   /* a limit of the turn was reached */
};

/* How a person can go on after a limit. */
enum event_way {
    EVENT_WAY_NONE,
    EVENT_WAY_RETRY,    /* again: from where it stopped */
    EVENT_WAY_BUDGET,   /* again, with a budget of way_nanousd */
    EVENT_WAY_SETTING,  /* not before the setting has changed */
    EVENT_WAY_REPHRASE, /* again, or asked in another way */
    EVENT_WAY_SMALLER   /* again, or in smaller steps */
};

struct event_file {
    const char *name; /* below the workspace; bytes, untrusted */
    int fd;           /* a copy outside, open for reading at 0; -1: refused */
    uint64_t size_bytes;
    const char *refused; /* why it is not offered; NULL when it is */
    const char *advice;  /* how it would be, behind "it is not copied"; NULL */
    bool offered;        /* the cell showed it by its name */
};

struct event_column {
    const char *name; /* untrusted */
    const char *kind; /* a table_kind_name */
    int64_t n_missing;
    const char *range; /* "1 … 48", "North 262 · South 251"; untrusted */
};

struct event_load {
    const char *file;     /* as it was named; bytes, untrusted */
    const char *variable; /* identifier */
    int64_t n_rows;
    int64_t n_cols_total;
    uint64_t size_bytes;
    const char *how;  /* how it was read: "comma, header" */
    size_t n_columns; /* described; fewer than n_cols_total for wide files */
    const struct event_column *columns;
};

struct event {
    enum event_kind kind;
    uint64_t seq; /* given by the chain of sinks, from 1 */
    int cell;     /* number for the life of the session; 0: none */

    const char *text;
    size_t len;
    bool end;
    bool is_void;

    const char *language; /* of EVENT_CODE: "r"; NULL: Python */
    enum event_stream stream;
    enum event_level level;
    enum event_scope scope;
    enum event_outcome outcome;
    int64_t duration_ms;
    int64_t until_ms; /* EVENT_STATUS: as clock_now_ms; 0: no wait */
    int n_cells;      /* EVENT_DONE of a turn: how many it ran */

    /* EVENT_DONE of a turn: what it cost, in nano-dollars; 0: not known. */
    int64_t cost_nanousd;
    bool cost_at_least; /* a reply broke off: it may have been more */

    const char *stop_reason;
    const char *error_name;
    const char *traceback;
    const char *hint;

    /* EVENT_DONE of a turn that reached a limit. */
    const char *limit; /* the name of its setting, or NULL */
    enum event_way way;
    int64_t way_nanousd;
    int first_kept_cell; /* of those whose variables are there; 0: none */
    int last_kept_cell;

    const struct output *output;
    const struct event_file *file;
    const struct event_load *load;
    const struct usage *usage;
    const struct error *err;
};

/* "question", "reply" ...; never NULL. */
const char *event_kind_name(enum event_kind kind);

/* "ok", "error", "interrupted", "timeout" ...; never NULL. */
const char *event_outcome_name(enum event_outcome outcome);

/* Whether the interpreter and its variables are gone after this outcome. */
bool event_outcome_lost(enum event_outcome outcome);

#endif
