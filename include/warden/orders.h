/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What sandpiper-warden is told, and by which descriptors. The warden is the
 * program that stands in for bubblewrap at the level "reduced": it confines an
 * interpreter by Landlock and a system call filter, waits for it, and ends what
 * it leaves behind. It decides nothing: what may be seen is in its orders.
 *
 * Orders are pairs of a word and a value, each ended by NUL. The order of rules
 * does not matter; that of the words of the command does.
 */
#ifndef WARDEN_ORDERS_H
#define WARDEN_ORDERS_H

/* The descriptors that the warden is started with, besides 0 to 4. Those and
   that of the kernel it passes on to the interpreter. */
enum warden_fd {
    WARDEN_FD_LIFE = 6, /* a pipe: its end is that of the client */
    WARDEN_FD_ORDERS = 7,
    WARDEN_FD_FILTER = 8, /* an array of struct sock_filter */
    WARDEN_FD_KERNEL = 12
};

/* A path that may be read, listed and executed, with all below it. One that is
   not there is left out. */
#define WARDEN_READ "read"

/* The same, and what is below may be changed. It must be there. */
#define WARDEN_WRITE "write"

/* A file that may be read and written, but not asked to do more (ioctl). */
#define WARDEN_DEVICE "device"

/* The working directory. */
#define WARDEN_DIRECTORY "directory"

/* NAME=VALUE of the environment, which holds nothing else. */
#define WARDEN_ENVIRONMENT "environment"

/* How many processes and threads the interpreter may have with all below it,
   as a decimal number. */
#define WARDEN_PROCESSES "processes"

/* One word of the command; the first is the absolute path of the program. */
#define WARDEN_RUN "run"

#define WARDEN_MAX_ORDERS_BYTES (1u << 20)

/* The first version of Landlock that keeps signals and abstract sockets in. */
#define WARDEN_LANDLOCK_ABI 6

#endif
