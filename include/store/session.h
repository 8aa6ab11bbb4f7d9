/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The directory of one session: private, locked while the session runs, home of
 * everything that is kept of it. It holds no secret.
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include "base/cleanup.h"

struct error;
struct session;

/*
 * Makes parent/NAME (0700) with a name from the date, and locks it. parent is
 * made too. Errors: ERR_IO.
 */
WARN_UNUSED struct session *session_new(const char *parent, struct error *err);

/* Unlocks; removes the directory when nothing was kept in it. NULL allowed. */
void session_free(struct session *s);

/* Absolute path and last component; borrowed. */
const char *session_path(const struct session *s);
const char *session_name(const struct session *s);

/* Notes that something was kept: the directory stays. */
void session_keep(struct session *s);

#endif
