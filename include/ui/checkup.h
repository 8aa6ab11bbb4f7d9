/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The run of "--doctor": what ":doctor" does, without a session around it. It
 * needs no key and no network, and asks no model.
 */
#ifndef UI_CHECKUP_H
#define UI_CHECKUP_H

struct checkup;
struct local_config;
struct loop;
struct out;
struct sandbox_limits;
struct tty;

/* Begins; the loop is stopped when the report has been shown. All borrowed;
   tty: NULL where there is no terminal. */
struct checkup *checkup_new(struct loop *loop, struct out *out, struct tty *tty,
                            const struct local_config *local,
                            const struct sandbox_limits *limits);
void checkup_free(struct checkup *c); /* NULL is allowed */

/* 0 when cells can run, else the one of the sandbox. */
int checkup_exit_status(const struct checkup *c);

#endif
