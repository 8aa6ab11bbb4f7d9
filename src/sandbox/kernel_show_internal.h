/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is passed on of a cell that our own interpreter runs, wherever that is:
 * bytes that it wrote and events of what it showed, within the limits of a
 * cell. Any of it may be the cell's own making.
 */
#ifndef SANDBOX_KERNEL_SHOW_INTERNAL_H
#define SANDBOX_KERNEL_SHOW_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/sandbox.h"

struct cJSON;

struct kernel_show {
    const struct sandbox_cell_handlers *on; /* borrowed */
    void *ctx;
    uint64_t output_bytes; /* limit of what it writes */

    void (*on_flood)(void *owner); /* a limit is passed; once */
    bool (*is_open)(void *owner);  /* whether the cell still goes on, after a
                                      handler was called */
    void *owner;

    uint64_t n_bytes; /* written so far */
    uint64_t n_dropped;
    uint64_t n_event_bytes;
    unsigned n_events;
    unsigned n_images;
    bool flooded; /* past a limit: the rest is dropped */
};

/* Bytes that the cell wrote, without marks. */
void kernel_show_text(struct kernel_show *s, enum event_stream stream,
                      const char *data, size_t len);

/* An event of the running cell that neither begins nor ends it. len: bytes of
   its text. Those of other names are counted and skipped. */
void kernel_show_event(struct kernel_show *s, const struct cJSON *event,
                       size_t len);

#endif
