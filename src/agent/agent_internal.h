/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The state of the agent, shared by the turn (agent.c), requests and replies
 * (replies.c), replies that are cut (cut.c), tool calls and their cells
 * (calls.c), the files that cells leave behind (files.c), charts for the model
 * (charts.c), limits (limits.c) and money (spending.c).
 */
#ifndef AGENT_AGENT_INTERNAL_H
#define AGENT_AGENT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/context_internal.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sbuf.h"
#include "model/event.h"
#include "model/usage.h"
#include "sandbox/sandbox.h"

struct agent_limit;
struct claude_call;
struct claude_history;
struct claude_image;
struct claude_reply;
struct claude_tool_call;
struct claude_tool_result;
struct loop_task;
struct loop_timer;

/* Why a turn is being ended from outside. */
enum agent_stop {
    AGENT_GO_ON,
    AGENT_STOP_PERSON,
    AGENT_STOP_TIME,
    AGENT_STOP_BUDGET
};

enum agent_state { AGENT_IDLE, AGENT_ASKING, AGENT_RUNNING, AGENT_ENDING };

/* What a tool call is answered with; text NULL: not yet. */
struct agent_answer {
    char *text; /* owned */
    size_t len;
    bool is_error;
    struct claude_image *images; /* owned, their PNGs too */
    size_t n_images;
};

/* A file that was there before the cell. */
struct agent_seen {
    char *name; /* owned; where there is no inode; else NULL */
    uint64_t inode;
    uint64_t size_bytes;
    int64_t mtime_ns;
};

/* A file that is new or changed after the cell. */
struct agent_found {
    char *name;  /* owned */
    size_t seen; /* its place in agent.seen; SIZE_MAX: it is not there */
    uint64_t size_bytes;
    char *refused;      /* owned; or NULL */
    const char *advice; /* static; how it would not be; or NULL */
    bool offered;       /* the cell shows it: agent_offer_file */
};

/* A call of this turn with its outcome, and in how many rounds it came. */
struct agent_repeat {
    char hex[HASH_HEX_BYTES];
    int n;
    int round; /* the last of them */
};

struct agent {
    struct agent_config config;
    enum agent_state state;
    enum agent_stop stop;

    struct claude_history *history; /* owned */
    struct claude_call *request;    /* borrowed: the one in progress */
    size_t rewind_at;               /* in the history, before the question */
    char *question;                 /* owned; of the last turn */
    size_t asked_at;                /* in the history, before that question */
    int asked_cell;                 /* the last one before it */
    bool is_going_on;               /* this turn asked no question of its own */
    bool question_is_back;          /* it was taken out of the history */
    bool can_go_on;                 /* the last turn stopped in the middle */
    char *facts;                    /* owned; of the sandbox, as the model
                                       knows it */
    struct sbuf told;               /* goes before the next question */
    struct sbuf told_sent;          /* went before this message */
    struct sbuf told_asked;         /* has gone since the question, with it */
    size_t told_asked_before;       /* its length before this message */

    /* The turn. */
    int64_t turn_start_ms;
    int n_rounds;  /* replies that came whole and are kept */
    int n_replies; /* in the history, parts of one included */
    int n_nudges;
    int n_turn_cells;
    int first_kept_cell; /* of those whose variables are there, as far as the
                            interpreter is */
    const char *status;

    /* Limits of the turn. */
    struct loop_timer *turn_timer;
    int64_t turn_left_ms;
    int64_t tick_start_ms;
    int64_t tick_ms;
    struct agent_repeat *repeats; /* owned */
    size_t n_repeats;

    /* Money. */
    struct agent_spent session;
    struct agent_spent *turns; /* owned; the last one is this turn's */
    size_t n_turns;
    int64_t lost_nanousd; /* the most that broken off replies of the session may
                             have cost beyond what is known */
    int64_t turn_lost_nanousd; /* the same, of this turn */
    int64_t known_tokens; /* of the history, as the service counted it, ... */
    size_t known_len;     /* ... up to this byte */
    int64_t image_bytes;  /* of the pictures behind it, as text, ... */
    int64_t image_tokens; /* ... and as the service counts them */
    struct agent_known {
        int64_t tokens;
        size_t len;
        int64_t image_bytes;
        int64_t image_tokens;
    } asked_known;           /* the same four, before the question */
    size_t n_streamed_bytes; /* of the reply in progress */
    size_t n_call_bytes;     /* of the call in progress */
    int64_t asked_tokens;    /* the longest reply that was asked for; 0: as the
                                client has it */
    bool is_short;           /* the budget made the reply shorter */
    bool is_longer;          /* in this turn replies may be as long as can be */
    int64_t cut_tokens; /* where the reply was cut that is asked for again; 0:
                           none is */
    bool cut_in_call;   /* it was cut in a call */
    int n_calls_begun;  /* tool calls of the reply in progress */

    /* The reply whose calls are being run. */
    struct claude_tool_call *calls; /* owned */
    struct agent_answer *answers;   /* owned; one for each call */
    size_t n_calls;
    size_t at_call;

    /* The cell. */
    int n_cells; /* of the session */
    int cell;
    char *code;            /* owned */
    char *language;        /* owned; NULL: Python */
    struct sandbox_op *op; /* borrowed: the operation in progress */
    struct context context;
    struct sandbox_outcome outcome; /* its texts are owned */

    /* Charts of the cell that the model will see. */
    struct claude_image *charts; /* owned, their PNGs too */
    size_t n_charts;
    size_t at_chart;
    size_t n_charts_left_out;
    void *shrinking; /* the work in progress; NULL: none */
    struct loop_task *charts_task;

    /* Files. */
    void (*after_list)(struct agent *a);
    struct agent_seen *seen; /* owned */
    size_t n_seen;
    bool seen_known;
    unsigned seen_workspace;   /* sandbox_workspace, where they were seen */
    struct agent_found *found; /* owned */
    size_t n_found;
    size_t at_found;
    char **offers; /* owned: names of files that the cell shows */
    size_t n_offers;
    uint64_t n_left_out;
    struct sbuf left_out; /* names of the first of them */
    uint64_t n_unlisted;  /* that were not looked at, the last time */
    char *not_listed; /* owned: why the files of the last cell are not known,
                         for the end of the turn; NULL: they are */
    unsigned not_listed_in; /* sandbox_workspace of then */
    uint64_t late_bytes;    /* that may be copied though the turn is to end */
    int copy_fd;            /* owned; -1: none */

    struct error sink_err;
    struct error end_err;
    enum event_outcome end_outcome;
    const char *end_key; /* the setting of the limit that was reached */
    enum event_way end_way;
    int64_t end_way_nanousd;
    struct loop_task *end_task;
};

void agent_emit(struct agent *a, struct event *ev);
void agent_emit_text(struct agent *a, enum event_kind kind, const char *text,
                     size_t len, bool end);
void agent_emit_status(struct agent *a, const char *text);
void agent_notice(struct agent *a, enum event_level level, const char *text);

/* Ends the turn; err may be NULL. The history must be valid by now. */
void agent_end_turn(struct agent *a, enum event_outcome outcome,
                    const struct error *err);

/* The same for a failure that leaves the history as it was before the request:
   a question that was never answered is taken back, so that it can be asked
   again. */
void agent_fail_turn(struct agent *a, enum event_outcome outcome,
                     const struct error *err);

/* Takes the question and all that came of it out of the conversation, so that
   it can be asked again; what was told with it goes before the next one. */
void agent_leave_question(struct agent *a);

/* What a limit says when it ends a turn. */
struct agent_limit {
    const char *key; /* its setting, or NULL */
    enum event_way way;
    int64_t way_nanousd; /* of EVENT_WAY_BUDGET */
    const char *why;     /* what calls are answered that were not run */
};

/* Ends the turn at a limit: open calls are answered, text is what is said. */
void agent_end_at_limit(struct agent *a, const struct agent_limit *limit,
                        const char *text);

/* Stops what is going on; the turn then ends through agent_end_stopped. */
void agent_begin_stop(struct agent *a, enum agent_stop stop);
void agent_end_stopped(struct agent *a);

/* The wall clock of a turn. Time in which the program was stopped by Ctrl-Z is
   not counted. */
void agent_clock_start(struct agent *a);
void agent_clock_stop(struct agent *a);

/* Notes a call of this turn (name, language and code) with its outcome; in how
   many rounds the four came together by now. language may be NULL. */
int agent_count_repeat(struct agent *a, const char *name, const char *language,
                       const char *input, const char *outcome, size_t len);
void agent_forget_repeats(struct agent *a);

/* The same call ended in the same way for the third time. */
void agent_end_repeating(struct agent *a);

/* Counts what a reply used; at_least: it broke off. */
void agent_spend(struct agent *a, const struct usage *usage, bool at_least);

/* Counts against the budgets what a reply that broke off may have cost beyond
   what is known of it (NULL: nothing is), at one token a byte. */
void agent_lose_reply(struct agent *a, const struct usage *known);

/* The history is known to have so many tokens. */
void agent_know_prompt(struct agent *a, const struct usage *usage);

/* What is known of the prompt is noted before a question, and is known again
   once the question is left. */
void agent_mark_prompt(struct agent *a);
void agent_forget_prompt(struct agent *a);

/* Results were added behind len bytes of the history: pictures have fewer
   tokens than bytes. */
void agent_know_images(struct agent *a,
                       const struct claude_tool_result *results,
                       size_t n_results, size_t len);

/* Sets the longest reply that the budgets allow; false when they allow no
   useful one. */
bool agent_afford_reply(struct agent *a);

/* Replies of this turn may be as long as the model has them from now on; how
   long the next one may be within the budgets. */
int64_t agent_afford_longer(struct agent *a);

/* The budget that made the reply shorter, and the way on. */
void agent_name_budget(struct agent *a, struct agent_limit *limit);

/* Whether they allow the request in progress to be sent once more. */
bool agent_affords_again(struct agent *a);
void agent_end_at_budget(struct agent *a);

/* Sends the history, which ends with a user message. */
void agent_send_request(struct agent *a);

/* Whether the limit of tokens cut the reply so that nothing of it can be kept:
   in a call, or in thinking alone. */
bool agent_is_cut_short(const struct agent *a,
                        const struct claude_reply *reply);

/* Asks for such a reply once more with a larger limit, or ends the turn. */
void agent_ask_longer(struct agent *a, const struct claude_reply *reply);
void agent_end_cut(struct agent *a);

/* Tells the person that the answer is no longer than it may be. */
void agent_tell_cut(struct agent *a);

/* Tells the person of calls that were left out, since the reply did not end
   with them. */
void agent_tell_dropped(struct agent *a, const struct claude_reply *reply);

/* Tells that what was shown of the reply in progress does not count. */
void agent_void_reply(struct agent *a);

/* Copies the tool calls of a reply. */
void agent_take_calls(struct agent *a, const struct claude_reply *reply);
void agent_free_calls(struct agent *a);

/* Runs the next call of the reply, or sends all answers. */
void agent_next_call(struct agent *a);

/* Answers what is open with why it was not run, and ends the turn. */
void agent_stop_calls(struct agent *a, enum event_outcome outcome,
                      const char *why, const struct error *err);

/* Continues after the cell and its files. */
void agent_cell_over(struct agent *a);

/* Keeps a chart of the cell, for the model. */
void agent_keep_chart(struct agent *a, const struct output *o);

/* Makes the charts small enough and gives them to the answer of the call, then
   calls agent_cell_over. */
void agent_send_charts(struct agent *a);

/* False when there is nothing to stop; else agent_cell_over follows. */
bool agent_stop_charts(struct agent *a);
void agent_charts_fini(struct agent *a);
void agent_free_images(struct claude_image *images, size_t n);
int64_t agent_image_tokens(const struct claude_image *image);

void agent_files_init(struct agent *a);
void agent_files_fini(struct agent *a);

/* Notes what is in the workspace, then calls then. */
void agent_list_before(struct agent *a, void (*then)(struct agent *a));

/* The running cell shows a file: untrusted UTF-8, as a name below the
   workspace. */
void agent_offer_file(struct agent *a, const char *name);
void agent_forget_offers(struct agent *a);

/* Finds what the cell left behind and what it shows, copies it out and emits
   EVENT_FILE for each, then calls agent_send_charts. */
void agent_collect_files(struct agent *a);

/* At the end of a turn: that files of its last cell are not known. */
void agent_tell_not_listed(struct agent *a);

/* Copies the outcome, since it is borrowed for the call only. */
void agent_keep_outcome(struct agent *a, const struct sandbox_outcome *o);
void agent_free_outcome(struct agent *a);

#endif
