/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Locals that release themselves, and handing over what they hold.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#define WARN_UNUSED __attribute__((warn_unused_result))

#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_CLOSE __attribute__((cleanup(cleanup_close)))

/* The pointer in *pp, which becomes NULL: ownership moves to the caller. */
#define take_ptr(pp)                                                           \
    (__extension__({                                                           \
        __typeof__(pp) take_pp_ = (pp);                                        \
        __typeof__(*take_pp_) take_p_ = *take_pp_;                             \
        *take_pp_ = NULL;                                                      \
        take_p_;                                                               \
    }))

/* The descriptor in *fd, which becomes -1. */
int take_fd(int *fd);

/* Closes the descriptor in *fd, which becomes -1; nothing for -1. Keeps errno.
 */
void close_fd(int *fd);

/* For the macros above only: pp is the address of a pointer, or of an int. */
void cleanup_free(void *pp);
void cleanup_close(int *fd);

#endif
