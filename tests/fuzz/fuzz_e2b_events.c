/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Events of a process. Whatever comes is one of them or an error of one line;
 * numbers are within their ranges.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/e2b_events_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_e2b_events: %s\n", what);
    abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *copy = xmemdup((const char *)data, size);
    struct e2b_event e = {0};
    struct error err = {0};

    if (e2b_event_read(copy, size, &e, &err) < 0) {
        require(err.code == ERR_PROTOCOL || err.code == ERR_TOO_LARGE,
                "a wrong error");
        require(strchr(err.msg, '\n') == NULL, "an error of two lines");
        e2b_event_fini(&e);
        return 0;
    }
    switch (e.kind) {
    case E2B_EVENT_OTHER:
        require(e.data == NULL && e.pid == 0, "a skipped one says something");
        break;
    case E2B_EVENT_START:
        require(e.pid > 0, "a number of no process");
        break;
    case E2B_EVENT_DATA:
        require(e.len == 0 || e.data != NULL, "no bytes");
        require(e.len < size, "more bytes than digits");
        break;
    case E2B_EVENT_END:
        require(e.exit_status >= -1 && e.exit_status <= 255, "a status");
        require(e.signal >= 0 && e.signal <= 64, "a signal");
        require((e.exit_status == -1) == (e.signal != 0), "both ends");
        break;
    }
    e2b_event_fini(&e);
    return 0;
}
