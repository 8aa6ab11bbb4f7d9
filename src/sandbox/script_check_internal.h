/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Whether what is asked for can be a script, before any back end begins one.
 * Pure.
 */
#ifndef SANDBOX_SCRIPT_CHECK_INTERNAL_H
#define SANDBOX_SCRIPT_CHECK_INTERNAL_H

#include <stddef.h>

#include "base/cleanup.h"

struct error;
struct sandbox_script;

/* *n_file_bytes: of all its files. Errors: ERR_USAGE, ERR_TOO_LARGE, as struct
   sandbox_script says. */
WARN_UNUSED int script_check(const struct sandbox_script *s,
                             size_t *n_file_bytes, struct error *err);

#endif
