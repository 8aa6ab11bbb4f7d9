/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Settings: built-in values, over them the configuration file, over them the
 * environment, over them the command line. One table (options.def) names every
 * key and every option; help, checks and the manual's check come from it.
 *
 * The modules that are configured know nothing of this one: whoever builds
 * them copies values into their own plain structs.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct config_sandbox;
struct config_service;
struct error;
struct sbuf;
struct secret;

/* A header of the person's own. */
struct config_header {
    char *name;           /* owned */
    struct secret *value; /* owned */
};

struct config {
    /* model. */
    char *model;
    struct secret *api_key;
    char *key_header; /* "bearer" or "x-api-key" */
    char *base_url;
    char *api_version; /* NULL: chosen by the host */
    char *ca_file;
    char *dialect; /* "auto", "anthropic", "compatible" */
    char *effort;  /* NULL: the model's own default */
    int64_t max_tokens;
    int64_t max_attempts;
    int64_t budget_nanousd; /* of the session; 0: none */
    char *see_charts;       /* "true" or "false" */

    /* limits. */
    int64_t rounds;
    int64_t turn_seconds;
    int64_t turn_nanousd; /* of one question; 0: none */
    int64_t result_kb;
    int64_t result_rows;
    int64_t cell_seconds;
    int64_t memory_mb;
    int64_t output_kb;
    int64_t workspace_mb;
    int64_t processes;
    int64_t idle_suspend_seconds; /* 0: never */
    int64_t idle_close_seconds;   /* 0: never */

    /* sandbox. */
    char *sandbox; /* the name of the one that is used; "local" */
    char *python;
    char *bwrap;
    char *isolation;  /* "full", "full-without-proc" or "reduced" */
    int64_t drop_uid; /* -1: chosen by the program */

    /* display. */
    char *graphics; /* "auto", "sixel", "none" */
    char *thinking; /* "show", "brief", "hide" */
    char *color;    /* "auto", "never" */

    /* The command line. */
    char *question; /* -c */
    bool demo;
    bool doctor;
    char *replay_file;
    char *config_file;
    bool help;
    bool version;
    char **files; /* owned; n_files of them */
    size_t n_files;

    struct config_header *headers; /* owned; n_headers of them */
    size_t n_headers;

    /* Services (config/sandboxes.h). */
    struct config_sandbox *sandboxes; /* owned; n_sandboxes of them */
    size_t n_sandboxes;
    struct secret *e2b_key;          /* of E2B_API_KEY; NULL: none */
    struct config_service *services; /* owned (config/services.h) */
    size_t n_services;

    char *key_source; /* where the key came from, for messages; NULL: no key */

    /* Values of options that stand for a key, by index of the key; owned. */
    char **overrides;
};

/* Built-in values. */
void config_init(struct config *c);
void config_fini(struct config *c); /* wipes what is secret */

/*
 * Reads the command line. argv is permuted by nobody: options may stand among
 * files, "--" ends them. Errors: ERR_USAGE, naming the option and the nearest
 * known one.
 */
WARN_UNUSED int config_read_args(struct config *c, int argc, char *const *argv,
                                 struct error *err);

/*
 * Reads, after the command line, everything else: the configuration file (the
 * one that was named, else the user's own; a missing one is an error only when
 * it was named), then ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN,
 * ANTHROPIC_BASE_URL and ANTHROPIC_CUSTOM_HEADERS (all but the address are
 * wiped from the environment; a key wins over a token; empty ones count as
 * unset), those of E2B (config/sandboxes.h), then options that stand for a key.
 * Errors: ERR_CONFIG, with path, line and column: unreadable, readable by
 * others, not YAML, unknown key (and the nearest known one), a value out of
 * range; ERR_USAGE: an option names a sandbox that is not there. The
 * environment is wiped in any case.
 */
WARN_UNUSED int config_read_rest(struct config *c, struct error *err);

/* The path of the user's configuration file; owned by the caller; or NULL. */
char *config_default_path(void);

/*
 * The whole of text as an amount in US dollars, with at most nine decimals and
 * above zero, in nano-dollars. Errors: ERR_USAGE, naming text.
 */
WARN_UNUSED int config_read_dollars(const char *text, int64_t *nanousd,
                                    struct error *err);

/* The options and keys, for --help. */
void config_add_help(struct sbuf *sb);

/* One "section.key" after the other; NULL behind the last. */
const char *config_key_name(size_t i);

#endif
