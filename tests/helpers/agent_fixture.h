/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An agent against a model and a sandbox that follow a script. The model checks
 * every request as the service would. What went wrong fails the test.
 */
#ifndef HELPERS_AGENT_FIXTURE_H
#define HELPERS_AGENT_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "claude/transport.h"
#include "model/event.h"
#include "model/sink.h"
#include "sandbox/sandbox.h"

#define MAX_EXCHANGES 64
#define MAX_PIECES 64
#define GUARD_MS 20000

struct fixture;
struct transport_call;
struct loop;
struct loop_task;
struct loop_timer;
struct claude;

enum piece_kind { PIECE_BODY, PIECE_HANG, PIECE_CUT };

struct piece {
    enum piece_kind kind;
    char *text; /* owned */
};

struct exchange {
    int status;
    const char *retry_after_ms; /* NULL: no such header */
    bool hang_before_head;
    struct piece pieces[MAX_PIECES];
    size_t n_pieces;
    int n_blocks;
};

struct fixture {
    struct loop *loop;
    struct transport transport;
    struct claude *claude;
    struct sandbox *sandbox;
    struct sink_chain *chain;
    struct agent *agent;
    struct agent_config config; /* for remake_agent */

    struct exchange x[MAX_EXCHANGES];
    size_t n_x;
    size_t at_x;
    struct transport_call *call;

    /* Requests */
    struct sbuf last;      /* messages of the last one */
    struct sbuf turn_base; /* what had been sent before the question */
    bool first_in_turn;
    bool is_retry;   /* this turn goes on with the question of an earlier one */
    bool may_rewind; /* the last turn got no reply, or was refused */
    bool may_pause;  /* a reply of this test says that it is paused */
    size_t n_requests;
    int64_t max_tokens; /* of the last one */

    /* Sandbox */
    struct sbuf ran;             /* "code|" for each cell */
    struct sandbox_backend *box; /* borrowed */
    bool open_fails;
    enum error_code open_code; /* with this; ERR_NONE: ERR_SANDBOX */
    struct sandbox_file files[4];
    size_t n_files;
    bool cancel_in_list;
    bool cancel_in_open;
    bool files_lost; /* with an interpreter that is "gone" */

    /* Events */
    struct sbuf log;
    int n_events;
    int n_replies;
    int cancel_at; /* the number of an event; 0: never */
    int fail_at;
    int fail_barrier; /* the number of a barrier */
    int n_barriers;
    int cancel_barrier;
    bool pending;
    sink_done_fn barrier_done;
    void *barrier_ctx;
    struct loop_task *barrier_task;
    char file_text[64];

    /* The end of a turn */
    bool over;
    enum event_outcome outcome;
    struct error err;
    struct loop_timer *guard;
    struct loop_timer *cancel_timer;
    int64_t took_ms;
};

/* The script of the model: an exchange begins, and gets its pieces. */
struct exchange *x_status(struct fixture *f, int status, const char *body);
void x_begin(struct fixture *f);
void x_begin_with(struct fixture *f, const char *usage);
void x_open_thinking(struct fixture *f, const char *text);
void x_thinking(struct fixture *f, const char *text);
void x_open_text(struct fixture *f, const char *text);
void x_text(struct fixture *f, const char *text);
void x_open_tool(struct fixture *f, const char *id, const char *name,
                 const char *input);
void x_tool(struct fixture *f, const char *id, const char *name,
            const char *input);
void x_python(struct fixture *f, const char *id, const char *code);
void x_end(struct fixture *f, const char *stop_reason);
void x_end_with(struct fixture *f, const char *stop_reason, int output_tokens);
void x_answer(struct fixture *f, const char *text);
void x_hang(struct fixture *f);
void clear_exchanges(struct fixture *f);
struct exchange *last_exchange(struct fixture *f);
void add_piece(struct fixture *f, enum piece_kind kind, char *text);
void add_delta(struct fixture *f, const char *type, const char *key,
               const char *text, size_t len);
void end_block(struct fixture *f);

/* Checks a request as the service would. */
void check_request(struct fixture *f, const char *body, size_t len);

struct fixture *fixture_begin(void);
void fixture_end(struct fixture *f);

/* From now on the sandbox has what such a one has. */
void switch_sandbox(struct fixture *f, const struct sandbox_caps *caps);

/* A new agent, with f->config. */
void remake_agent(struct fixture *f);
void make_agent(struct fixture *f, int max_rounds);

/* Asks and runs until the turn is over. cancel_ms: when it is cancelled; -1:
   never. */
enum event_outcome ask_and_cancel(struct fixture *f, const char *question,
                                  int64_t cancel_ms);
enum event_outcome ask(struct fixture *f, const char *question);
enum event_outcome retry(struct fixture *f);

void expect_ok(struct fixture *f, const char *question);
void expect_logged(const struct fixture *f, const char *text);
void expect_sent(const struct fixture *f, const char *text);
void expect_not_sent(const struct fixture *f, const char *text);

/* Whatever went before, the next question is answered. */
void expect_next_is_fine(struct fixture *f);
void expect_nothing_ran_twice(const struct fixture *f);
size_t count(const char *text, const char *word);
void on_guard(void *ctx);
void on_over(void *ctx, enum event_outcome outcome, const struct error *err);

#endif
