/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What an hour in a sandbox of a service costs. A table by the host of the API
 * is built in (share/services.yaml); the user's own file, services.yaml beside
 * config.yaml, wins service by service, and the entry's own price over both.
 */
#ifndef CONFIG_SERVICES_H
#define CONFIG_SERVICES_H

#include "base/cleanup.h"
#include "config/sandboxes.h"

struct config;
struct error;

struct config_service {
    char *host; /* owned; "e2b.app": that, and all below it */
    struct config_price price;
};

/*
 * Reads the built-in table into c and then the user's, if there is one.
 * Errors: ERR_CONFIG, with path, line, and what is wrong: unreadable, not YAML,
 * an unknown name or one that is there twice, a price that is missing or none.
 */
WARN_UNUSED int config_read_services(struct config *c, struct error *err);

/* What it costs, of the longest name that fits its host; NULL: not known.
   Borrowed from c. */
const struct config_price *config_sandbox_price(const struct config *c,
                                                const struct config_sandbox *s);

#endif
