/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the interactive and the scripted run share: the objects of a session,
 * and carrying out one line (a command or a question) at a time.
 */
#ifndef UI_APP_H
#define UI_APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/event.h"
#include "sandbox/e2b.h"

struct agent;
struct app;
struct config;
struct error;
struct local_config;
struct loop;
struct out;
struct recorder;
struct sandbox;
struct sandbox_backend;
struct sandbox_limits;
struct session;
struct sink_chain;
struct tty;
struct view;

/*
 * The service of the sandbox, and what earlier runs that are dead have left
 * there: as struct e2b_leftovers has them. Of the sandbox that is used at the
 * moment, so that each is asked for when it is needed.
 */
struct app_leftovers {
    /* NULL, or NULL returned: the sandbox is of no service, and none of the
       others is called. */
    const char *(*host)(void *ctx);
    void (*find)(void *ctx, e2b_leftovers_fn done, void *done_ctx);
    void (*end)(void *ctx, const char *const *ids, size_t n_ids,
                e2b_ended_fn each, void (*done)(void *ctx), void *done_ctx);
    void (*cancel)(void *ctx);
    void *ctx;
};

/* All borrowed for the life of the app. */
struct app_config {
    struct loop *loop;
    const struct config *config;
    struct out *out;
    struct tty *tty; /* NULL: no terminal */
    struct view *view;
    struct recorder *recorder;
    struct sandbox *sandbox;
    const struct local_config *local;    /* what sandbox was made from, */
    const struct sandbox_limits *limits; /* for ":doctor" */
    struct app_leftovers leftovers;
    struct sink_chain *chain;

    /* Makes another sandbox, which the caller owns, for ":sandbox NAME". NULL:
       there is only one. Errors: ERR_USAGE for a name that there is not, and
       what its settings have. */
    struct sandbox_backend *(*make_backend)(void *ctx, const char *name,
                                            struct error *err);
    void *make_ctx;
    bool is_replay;      /* the model's words were written in advance */
    const char *version; /* of the program */
    const char
        *prompt_path; /* the person's own system prompt; NULL: built in */
};

/*
 * How a line ended: from the loop, exactly once for each app_submit and
 * app_load. err NULL: well. quit: the person wants to leave.
 */
typedef void (*app_done_fn)(void *ctx, const struct error *err, bool quit);

struct app *app_new(const struct app_config *config);
void app_free(struct app *app);

/* The agent, whose on_done is app_turn_done with the app as context. Borrowed;
   set once, before the first line. */
void app_set_agent(struct app *app, struct agent *agent);
void app_turn_done(void *app, enum event_outcome outcome,
                   const struct error *err);

void app_on_done(struct app *app, app_done_fn done, void *ctx);

/* Carries out one line. Not while one is being carried out. Errors are shown
   here, once, before done is told of them. */
void app_submit(struct app *app, const char *line);

/* Loads a file as ":load" does. */
void app_load(struct app *app, const char *path, const char *variable);

bool app_is_busy(const struct app *app);

/* Ends what is going on; done follows as it would. */
void app_cancel(struct app *app);

/* The first lines of a session. */
void app_greet(struct app *app);

/* Whether cells run with less isolation than is usual; warns of it, once. */
bool app_tell_level(struct app *app);

/* Looks, in the background, for what earlier runs have left with the service of
   the sandbox, and warns of it. What fails is not told. */
void app_find_leftovers(struct app *app);

/* How long the terminal's answers are waited for, in milliseconds: longer over
   SSH. */
int app_probe_ms(void);

#endif
