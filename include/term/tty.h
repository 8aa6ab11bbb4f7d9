/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The terminal as a device: opened anew, its modes set once for the whole run
 * and restored on every way out, its keyboard read (by term/input), its size
 * watched, its abilities asked.
 */
#ifndef TERM_TTY_H
#define TERM_TTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "term/caps.h"
#include "term/input.h"

struct error;
struct loop;
struct out;
struct tty;

struct tty_handlers {
    void (*on_unit)(void *ctx, const struct input_unit *unit); /* no replies */
    void (*on_resize)(void *ctx, int columns, int rows);
    void (*on_caps)(void *ctx); /* all answers are in, or the deadline passed */
    void (*on_gone)(void *ctx); /* hang-up: the terminal went away */
};

/*
 * Opens /dev/tty (O_NONBLOCK on a description of our own); changes nothing
 * yet. term: the value of TERM, NULL or "dumb" for a terminal without
 * sequences. Errors: ERR_IO.
 */
WARN_UNUSED struct tty *tty_open(struct loop *loop, const char *term,
                                 struct error *err);

/* Descriptor for reading and writing; borrowed. */
int tty_fd(const struct tty *t);

/* Sets the modes, installs what restores them (exit, signals, abort), begins
   to read, turns bracketed paste on. out is borrowed. Errors: ERR_IO. */
WARN_UNUSED int tty_start(struct tty *t, struct out *out,
                          const struct tty_handlers *on, void *ctx,
                          struct error *err);

/* Others are told from now on. on and ctx are borrowed. */
void tty_set_handlers(struct tty *t, const struct tty_handlers *on, void *ctx);

void tty_set_input_mode(struct tty *t, const struct input_mode *mode);

/* Sends the queries; on_caps follows. limit_ms: 300; 1,000 over SSH. */
void tty_probe(struct tty *t, int64_t limit_ms);
const struct caps *tty_caps(const struct tty *t);
bool tty_caps_pending(const struct tty *t);

void tty_size(const struct tty *t, int *columns, int *rows);
void tty_cell_size(const struct tty *t, int *width_px, int *height_px);

/* Stops the program as Ctrl-Z does and returns when it goes on: modes are
   restored in between. */
void tty_stop(struct tty *t);

/* Gives the modes back as they were found, reads no more and watches no signal:
   no handler is called any more. tty_close does it too. */
void tty_restore(struct tty *t);

/* Restores the modes and closes; NULL is allowed. */
void tty_close(struct tty *t);

#endif
