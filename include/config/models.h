/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The table of models: what their tokens cost, and how long a reply may be. A
 * table is built in (share/models.yaml); the user's own file,
 * models.yaml beside config.yaml, wins model by model.
 */
#ifndef CONFIG_MODELS_H
#define CONFIG_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;

enum {
    CONFIG_RATE_INPUT,
    CONFIG_RATE_OUTPUT,
    CONFIG_RATE_WRITE_5M,
    CONFIG_RATE_WRITE_1H,
    CONFIG_RATE_READ,
    CONFIG_N_RATES
};

struct config_model {
    char *name; /* owned */
    char *date; /* owned; of the prices; NULL: not said */

    /* Micro-dollars for a million tokens. */
    int64_t rates[CONFIG_N_RATES];
    int64_t long_rates[CONFIG_N_RATES]; /* where long_above is not 0 */

    /* Tokens; 0: not said. */
    int64_t long_above;
    int64_t max_output;
};

struct config_models {
    struct config_model *models; /* owned; sorted by name, each once */
    size_t n_models;
};

/*
 * Reads the built-in table and then the user's, if there is one.
 * Errors: ERR_CONFIG, with path, line, and what is wrong: unreadable, not YAML,
 * an unknown name or one that is there twice, no price for input or output, a
 * value that is no number.
 */
WARN_UNUSED int config_read_models(struct config_models *m, struct error *err);
void config_models_fini(struct config_models *m);

#endif
