/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is sent to a sandbox's daemon to start a process (e2b_process.c), and
 * what its refusals are to this program. Pure: no input or output.
 */
#ifndef SANDBOX_E2B_LAUNCH_INTERNAL_H
#define SANDBOX_E2B_LAUNCH_INTERNAL_H

#include <stddef.h>

#include "base/error.h"
#include "net/http.h"
#include "sandbox/e2b_data_internal.h"

struct e2b_process_spec;
struct sbuf;

/* Headers that all calls of the daemon's services need; returns how many. */
#define E2B_RPC_MAX_HEADERS ((size_t)2)
size_t e2b_launch_headers(const struct e2b_site *site,
                          struct http_header headers[E2B_RPC_MAX_HEADERS]);

/* Adds the message of Start; tag: by which the process is found. */
void e2b_launch_add(struct sbuf *sb, const struct e2b_process_spec *spec,
                    const char *tag);

enum error_code e2b_launch_error(enum e2b_code code);

#endif
