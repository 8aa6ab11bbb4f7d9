/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Who makes things that outlive the program, such as a sandbox of a service:
 * this installation, and this run of the program. Both ids are random, of a-z
 * and 0-9, and say nothing of the person or the machine. Each run holds a lock
 * on a file as long as it lives, by which the others know that it does, however
 * it ends.
 */
#ifndef STORE_RUNS_H
#define STORE_RUNS_H

#include <stdbool.h>

#include "base/cleanup.h"

struct error;
struct runs;

#define RUNS_ID_BYTES 20

/*
 * Begins a run below dir, the state directory, which is made if it is not
 * there: reads the installation's id in DIR/installation, or makes it, once;
 * locks DIR/runs/RUN; removes what dead runs have left there.
 * Errors: ERR_IO, ERR_DATA (the file of the installation holds no id),
 * ERR_INTERNAL (no random bytes).
 */
WARN_UNUSED struct runs *runs_open(const char *dir, struct error *err);

/* Ends it; its file goes. NULL allowed. */
void runs_close(struct runs *r);

/* Borrowed. */
const char *runs_installation(const struct runs *r);
const char *runs_id(const struct runs *r);

/* Whether a run of this installation lives: this one or another. One of which
   that cannot be found out does; what is no id does not. */
bool runs_is_alive(const struct runs *r, const char *id);

#endif
