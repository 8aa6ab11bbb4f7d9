/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The top layer: main_build.c builds the objects of a session out of the
 * settings, main_sandbox.c that in which cells run; main_leftovers.c has who
 * makes sandboxes of services, and what is left of them; main.c has what comes
 * before and after, the loop and the signals.
 */
#ifndef MAIN_INTERNAL_H
#define MAIN_INTERNAL_H

#include <stdbool.h>

#include "claude/transport.h"
#include "config/config.h"
#include "model/price.h"
#include "model/sink.h"
#include "sandbox/local.h"
#include "sandbox/sandbox.h"
#include "ui/app.h"

struct config_sandbox;
struct e2b_config;
struct e2b_leftovers;
struct error;
struct key_source;
struct runs;

/* Everything that lives as long as the run; all owned. */
struct program {
    struct config config;
    struct price_table prices;
    char *prompt;      /* the person's own system prompt; NULL: built in */
    char *prompt_path; /* where it is */
    char *system;      /* the one that is sent */
    char *tools;       /* sent with it */
    struct loop *loop;
    struct out *out;
    struct tty *tty;
    struct session *session;
    struct recorder *recorder;
    struct view *view;
    struct sink_chain *chain;
    struct local_config local;
    struct sandbox_limits limits;
    struct sandbox *sandbox;
    struct runs *runs; /* NULL: no service is used, or runs_failed */
    bool runs_failed;  /* which was said */
    struct e2b_leftovers **leftovers; /* by entry of config; NULL: none yet */
    struct key_source **key_sources;  /* the same */
    struct http *http;
    struct http_extra_header *headers;          /* of config */
    struct http_extra_header **service_headers; /* by index of the entry */
    struct transport transport;
    bool has_transport;
    struct claude *claude;
    struct agent *agent;
    struct app *app;
    struct app_config app_config;
    struct repl *repl;
    struct oneshot *oneshot;
    struct checkup *checkup;
    struct loop_signal *signals[3];
    int ended_by;     /* a signal, or 0 */
    bool interrupted; /* by a signal: output need not be waited for */

    /* When all is done: what is still waited for. */
    bool at_end;
    bool is_hurried; /* by a Ctrl-C behind the key that leaves */
    bool waits_for_reader;
    bool waits_for_service;
    int64_t end_ms;            /* monotonic; when it began */
    struct loop_timer *notice; /* that the service is waited for */
    struct loop_timer *limit;  /* of that */
};

/* A person at a terminal, both ways; else lines are read and text is written
   as a script wants it. */
bool main_is_interactive(const struct config *config);

/* The name of the sandbox that is used. */
const char *main_sandbox_name(const struct config *config);

/* The back end of that name, owned by the caller; ctx: the program. Errors:
   ERR_CONFIG; ERR_AUTH, there is no key for it. */
struct sandbox_backend *main_make_backend(void *ctx, const char *name,
                                          struct error *err);
void main_free_headers(struct program *p);

/* After the back ends and the leftovers, which borrow from them. */
void main_free_key_sources(struct program *p);

/* Fills the settings of the sandbox, local and limits. */
void main_set_up_sandbox(struct program *p);

/* The ids of this installation and this run, for the labels of what is made
   with a service; NULL: there are none, which has been said. Borrowed. */
const char *main_owner(struct program *p);
const char *main_run(struct program *p);

/* What earlier runs have left with the service of the sandbox that is used. */
struct app_leftovers main_leftovers(struct program *p);
void main_free_leftovers(struct program *p);

/* What is set for a service, but for the variables of its sandboxes; borrowed
   from p. */
void main_fill_service(struct program *p, const struct config_sandbox *s,
                       struct e2b_config *config);

/* Reads what is needed besides the settings: the file of the demonstration,
   prices and the system prompt. */
int main_read(struct program *p, struct error *err);

/* Builds all objects above loop, out and tty, which are there, up to the
   agent. */
int main_build(struct program *p, struct error *err);

#endif
