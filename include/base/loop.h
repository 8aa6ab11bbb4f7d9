/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The one event loop of the program, over poll: descriptors, timers, deferred
 * calls and signals. Everything runs in the thread that calls loop_run.
 *
 * Callbacks may add and remove anything, themselves included: what is removed
 * during dispatch gets no further call, and its memory is released afterwards.
 * Handles become invalid when removed; a one-shot timer or task is removed by
 * the loop just before its callback runs.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct loop;
struct loop_fd;
struct loop_signal;
struct loop_task;
struct loop_timer;

enum loop_event { LOOP_READ = 1, LOOP_WRITE = 2 };

/*
 * events: what is ready, a set of enum loop_event. An error or hang-up of the
 * descriptor is reported as everything that was asked for (LOOP_READ if
 * nothing was), so that the next read or write shows it.
 */
typedef void (*loop_fd_fn)(void *ctx, int fd, unsigned events);
typedef void (*loop_fn)(void *ctx);
typedef void (*loop_signal_fn)(void *ctx, int signo);

/* At most one loop at a time may have signals. Errors: ERR_IO. */
WARN_UNUSED struct loop *loop_new(struct error *err);

/* Frees what is still registered; runs no callback. */
void loop_free(struct loop *loop);

/* Runs until loop_stop, or until nothing is registered any more. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* fd is borrowed and must stay open until removed; events may be 0. */
struct loop_fd *loop_add_fd(struct loop *loop, int fd, unsigned events,
                            loop_fd_fn fn, void *ctx);
void loop_fd_set(struct loop_fd *h, unsigned events);
void loop_fd_remove(struct loop_fd *h); /* NULL is allowed */

/* One shot, at least delay_ms from now. */
struct loop_timer *loop_add_timer(struct loop *loop, int64_t delay_ms,
                                  loop_fn fn, void *ctx);
void loop_timer_remove(struct loop_timer *t); /* NULL is allowed */

/* Runs once, in the next round of the loop, in the order of the calls. */
struct loop_task *loop_defer(struct loop *loop, loop_fn fn, void *ctx);
void loop_task_remove(struct loop_task *t); /* NULL is allowed */

/*
 * From now on signo is caught (SA_RESTART) and fn called from the loop; the
 * old disposition comes back on removal. Errors: ERR_IO.
 */
WARN_UNUSED struct loop_signal *loop_add_signal(struct loop *loop, int signo,
                                                loop_signal_fn fn, void *ctx,
                                                struct error *err);
void loop_signal_remove(struct loop_signal *s); /* NULL is allowed */

#endif
