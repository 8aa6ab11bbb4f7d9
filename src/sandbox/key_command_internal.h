/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The key of a service from a program that keeps secrets, such as a password
 * manager: a command of the person's own, run by the shell at the moment the
 * key is needed. The first line that it prints is the key.
 */
#ifndef SANDBOX_KEY_COMMAND_INTERNAL_H
#define SANDBOX_KEY_COMMAND_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct key_command;
struct loop;
struct secret;

#define KEY_COMMAND_MS 60000
#define KEY_COMMAND_MAX_BYTES ((size_t)4096) /* of a key */

/*
 * Runs command with /bin/sh -c: no terminal, nothing on standard input, and an
 * environment that has what programs find a person's secrets by (HOME, PATH,
 * the agents' sockets) and no key. command is copied, and so is setting, which
 * messages begin with: "sandboxes.work.api_key_command".
 *
 * done runs once, from the loop: with the key (owned by the callee) and err
 * NULL; or with NULL and ERR_AUTH: it ended with another status than 0 or by a
 * signal (the first line that it said on standard error is in the message),
 * took longer than KEY_COMMAND_MS, or printed no line, one that is too long, or
 * one with a control character in it. Errors here: ERR_IO; done is not called.
 */
WARN_UNUSED struct key_command *key_command_start(
    struct loop *loop, const char *command, const char *setting,
    void (*done)(void *ctx, struct secret *key, const struct error *err),
    void *ctx, struct error *err);

/* Ends what runs, without done; NULL is allowed. May be called in done, and is
   needed after it. */
void key_command_free(struct key_command *k);

/* For tests: another limit on the time. */
void key_command_set_limit(struct key_command *k, int64_t limit_ms);

#endif
