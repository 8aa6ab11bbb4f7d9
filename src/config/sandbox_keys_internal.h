/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The keys of an entry below "sandboxes:", and what their values may be.
 */
#ifndef CONFIG_SANDBOX_KEYS_INTERNAL_H
#define CONFIG_SANDBOX_KEYS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "config/sandboxes.h"

struct config_leaf;
struct error;

/* How many names lead to an entry, and to a key of it. */
enum { CONFIG_AT_ALL = 1, CONFIG_AT_ENTRY, CONFIG_AT_KEY, CONFIG_AT_BELOW };

struct config_sandbox_key {
    const char *name;

    /* Takes a value; full: "sandboxes.work.timeout". Errors: ERR_CONFIG. */
    int (*set)(struct config_sandbox *s, const char *full,
               const struct config_leaf *leaf, struct error *err);
    bool has_names; /* set is called for each name below it */
    bool may_be_list;
};

extern const struct config_sandbox_key config_sandbox_keys[];
extern const size_t config_n_sandbox_keys;

/* The names below "price:". */
#define CONFIG_N_PRICE_NAMES 3u
extern const char *const config_price_names[CONFIG_N_PRICE_NAMES];

/* Addresses, wherever they come from; setting: what messages begin with.
   Errors: ERR_CONFIG. */
WARN_UNUSED int config_check_domain(const char *setting, const char *text,
                                    struct error *err);
WARN_UNUSED int config_check_api_url(const char *setting, const char *text,
                                     struct error *err);
WARN_UNUSED int config_check_sandbox_url(const char *setting, const char *text,
                                         struct error *err);

#endif
