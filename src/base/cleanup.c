/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

void
cleanup_free(void *pp)
{
    void *ptr;

    /* pp may be the address of any pointer type; copying its bytes is the way
       that aliasing rules allow. */
    memcpy(&ptr, pp, sizeof(ptr));
    free(ptr);
}

void
cleanup_close(int *fd)
{
    int saved = errno;

    /* Never again on EINTR: Linux has closed it by then. */
    if (*fd >= 0) {
        close(*fd);
    }
    errno = saved;
}

void
close_fd(int *fd)
{
    cleanup_close(fd);
    *fd = -1;
}
