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

struct agent;
struct app;
struct config;
struct error;
struct local_config;
struct loop;
struct out;
struct recorder;
struct sandbox;
struct sandbox_limits;
struct session;
struct sink_chain;
struct tty;
struct view;

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
    struct sink_chain *chain;
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

/* How long the terminal's answers are waited for, in milliseconds: longer over
   SSH. */
int app_probe_ms(void);

#endif
