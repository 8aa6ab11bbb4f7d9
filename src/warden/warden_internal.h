/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The parts of the warden: its orders, what it does to the process that becomes
 * the interpreter, and the end of everything that descends from it. Nothing but
 * the C library is linked, and there is one thread.
 */
#ifndef WARDEN_WARDEN_INTERNAL_H
#define WARDEN_WARDEN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { WARDEN_MAX_RULES = 128, WARDEN_MAX_WORDS = 32 };

struct warden_rule {
    const char *kind; /* WARDEN_READ, WARDEN_WRITE or WARDEN_DEVICE */
    const char *path;
};

/* All strings lie in text. */
struct warden_orders {
    char *text; /* owned, until the end of the program */
    struct warden_rule rules[WARDEN_MAX_RULES];
    size_t n_rules;
    char *environment[WARDEN_MAX_WORDS + 1]; /* ended by NULL */
    size_t n_environment;
    char *command[WARDEN_MAX_WORDS + 1]; /* ended by NULL */
    size_t n_command;
    const char *directory;
    long processes; /* 0: no limit of its own */
};

/* Says on standard error what could not be done, with the text of errno unless
   that is 0, and ends the process. */
__attribute__((noreturn)) void warden_fail(const char *what);

/* The same for what is wrong without an error of the system's. */
__attribute__((noreturn)) void warden_refuse(const char *what);

/* Reads WARDEN_FD_ORDERS; ends the process where they are not understood. */
void warden_read_orders(struct warden_orders *orders);

/*
 * Takes from the calling process what the orders do not give: rights, access to
 * files, other processes and the network, most system calls. Not to be undone.
 * Ends the process when any of it cannot be had.
 */
void warden_confine(const struct warden_orders *orders);

/* Ends everything that descends from the calling process, and waits for it.
   The caller must be a child subreaper. */
void warden_hunt(void);

#endif
