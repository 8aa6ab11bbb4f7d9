/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The built-in table of models, and reading one from text.
 */
#ifndef CONFIG_MODELS_INTERNAL_H
#define CONFIG_MODELS_INTERNAL_H

#include <stddef.h>

#include "base/cleanup.h"

struct config_models;
struct error;

/* share/models.yaml, made by the build. */
extern const unsigned char models_yaml[];
extern const size_t models_yaml_len;

/* Adds the models of a text to m; those that are there already are replaced.
   where: path, for messages. Errors: ERR_CONFIG; m is as before then. */
WARN_UNUSED int config_models_read_text(struct config_models *m,
                                        const char *where, const char *text,
                                        size_t len, struct error *err);

#endif
