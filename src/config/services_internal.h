/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The built-in table of services, and reading one from text.
 */
#ifndef CONFIG_SERVICES_INTERNAL_H
#define CONFIG_SERVICES_INTERNAL_H

#include <stddef.h>

#include "base/cleanup.h"

struct config;
struct error;

/* share/services.yaml, made by the build. */
extern const unsigned char services_yaml[];
extern const size_t services_yaml_len;

/* Adds the services of a text to c; those that are there already are replaced.
   where: path, for messages. Errors: ERR_CONFIG; c is as before then. */
WARN_UNUSED int config_services_read_text(struct config *c, const char *where,
                                          const char *text, size_t len,
                                          struct error *err);
void config_free_services(struct config *c);

#endif
