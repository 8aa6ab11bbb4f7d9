/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The key of one service, from a command of the person's own: whoever needs the
 * key asks here, so that a password manager which wants a finger or a password
 * each time wants it once. The command is run when the first ask comes, and
 * again only if the service has refused what it printed.
 */
#ifndef SANDBOX_KEY_SOURCE_H
#define SANDBOX_KEY_SOURCE_H

#include <stdbool.h>

struct error;
struct key_ask;
struct key_source;
struct loop;
struct secret;

/* key is borrowed, and lives as long as the source, also when there is a newer
   one: requests that are under way may hold it. Or NULL, and err says why;
   borrowed for the call. */
typedef void (*key_ask_fn)(void *ctx, const struct secret *key,
                           const struct error *err);

/* Runs nothing yet. command is for /bin/sh -c; setting is what messages call
   it: "sandboxes.work.api_key_command". Both are copied. */
struct key_source *key_source_new(struct loop *loop, const char *command,
                                  const char *setting);

/* Asks in progress end without their callbacks, and are freed; so is a command
   that runs, with all that it began. NULL is allowed. May be called in a
   callback. */
void key_source_free(struct key_source *s);

/*
 * done runs once, from the loop. A key that is known is given without running
 * the command, unless it is refused: the one that the service did not accept
 * (NULL: none was). What is asked while the command runs shares its outcome.
 * After a failure the next ask runs it again. Errors: ERR_AUTH, as the command
 * ended; ERR_IO, it could not be started.
 *
 * The ask is owned by the source and ends with done; until then it may be
 * dropped.
 */
struct key_ask *key_source_ask(struct key_source *s,
                               const struct secret *refused, key_ask_fn done,
                               void *ctx);

/* The service has not accepted that key: whoever asks next has the command run
   again, if there is no newer one. NULL is allowed. */
void key_source_refuse(struct key_source *s, const struct secret *key);

/* Whether the same ask would be answered without waiting for the command. */
bool key_source_has(const struct key_source *s, const struct secret *refused);

/* Ends an ask without its callback; NULL is allowed. The command runs on, also
   when nobody waits for it any more, and its key is kept for the next ask. */
void key_ask_drop(struct key_ask *a);

#endif
