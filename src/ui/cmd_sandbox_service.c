/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/cmd_sandbox_internal.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/config.h"
#include "config/sandboxes.h"
#include "config/services.h"
#include "model/price.h"
#include "sandbox/sandbox.h"
#include "ui/app_internal.h"

#define MAX_VALUE_BYTES 1024u

/* "E2B at api.e2b.app" */
static void
add_place(struct sbuf *sb, const char *host)
{
    sbuf_add_str(sb, "E2B");
    if (host != NULL)
        sbuf_addf(sb, " at %.300s", host);
}

void
cmd_sandbox_add_greeting(const struct app *app, struct sbuf *sb)
{
    const struct sandbox_caps *caps = sandbox_caps(app->config.sandbox);
    struct sandbox_info info = {0};

    if (!caps->is_remote) {
        sbuf_addf(sb, "%s sandbox, %s", caps->name,
                  caps->has_network ? "with network" : "no network");
        return;
    }
    sandbox_info(app->config.sandbox, &info);
    sbuf_addf(sb, "%s (", caps->name);
    add_place(sb, info.host);
    sbuf_addf(sb, "), %.300s",
              info.egress != NULL ? info.egress
              : caps->has_network ? "internet"
                                  : "no internet");
}

/* ---- :sandbox -------------------------------------------------------------
 */

void
cmd_sandbox_add_service(const struct app *app, struct sbuf *sb, size_t columns,
                        const struct sandbox_info *info)
{
    const struct sandbox_caps *caps = sandbox_caps(app->config.sandbox);
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_VALUE_BYTES);
    sbuf_addf(&text, "%s, ", caps->name);
    if (caps->is_remote)
        add_place(&text, info->host);
    else
        sbuf_addf(&text, "on this machine, %s",
                  caps->has_network ? "with network" : "no network");
    cmd_sandbox_add_line(sb, columns, "sandbox", text.data);
    if (!caps->is_remote)
        return;
    if (info->id != NULL)
        cmd_sandbox_add_line(sb, columns, "id", info->id);
    if (info->template_name != NULL)
        cmd_sandbox_add_line(sb, columns, "template", info->template_name);
    if (info->egress != NULL)
        cmd_sandbox_add_line(sb, columns, "network", info->egress);
}

/* The local time, with the date unless it is today's. */
static void
add_moment(struct sbuf *sb, int64_t ms)
{
    time_t then = (time_t)(ms / 1000);
    time_t now = (time_t)(clock_wall_ms() / 1000);
    struct tm at = {0};
    struct tm today = {0};
    char text[32] = "";

    localtime_r(&then, &at);
    localtime_r(&now, &today);
    if (at.tm_year == today.tm_year && at.tm_yday == today.tm_yday)
        strftime(text, sizeof(text), "%H:%M:%S", &at);
    else
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &at);
    sbuf_add_str(sb, text);
}

static void
add_times(const struct app *app, struct sbuf *sb, size_t columns,
          const struct sandbox_info *info)
{
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_VALUE_BYTES);
    if (info->made_ms > 0) {
        add_moment(&text, info->made_ms);
        cmd_sandbox_add_line(sb, columns, "made", text.data);
    }
    if (info->end_ms <= 0)
        return;
    sbuf_clear(&text);
    add_moment(&text, info->end_ms);
    if (sandbox_state(app->config.sandbox) == SANDBOX_NEW)
        sbuf_add_str(&text, ", if it is still there");
    else if (info->end_is_fixed)
        sbuf_add_str(&text, "; the service does not prolong it");
    else
        sbuf_add_str(&text, ", prolonged while the program runs");
    cmd_sandbox_add_line(sb, columns, info->pauses_at_end ? "pauses" : "ends",
                         text.data);
}

static void
add_size(struct sbuf *sb, size_t columns, const struct sandbox_info *info)
{
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_VALUE_BYTES);
    if (info->cpu_count > 0)
        sbuf_addf(&text, "%d vCPU%s", info->cpu_count,
                  info->cpu_count == 1 ? "" : "s");
    if (info->memory_mib > 0)
        sbuf_addf(&text, "%s%d MiB", text.len > 0 ? ", " : "",
                  info->memory_mib);
    if (text.len > 0)
        cmd_sandbox_add_line(sb, columns, "machine", text.data);
}

/* ", estimated at ..." */
static void
add_source(struct sbuf *sb, const struct config_sandbox *s,
           const struct config_price *price)
{
    if (price->date != NULL)
        sbuf_addf(sb, ", estimated at prices of %.40s", price->date);
    else if (s->has_price)
        sbuf_add_str(sb, ", estimated at the price in your settings");
    else
        sbuf_add_str(sb, ", estimated at the prices of services.yaml");
}

/* What is not known is said to be so, and is never nothing. */
static void
add_cost(const struct app *app, struct sbuf *sb, size_t columns,
         const struct sandbox_info *info)
{
    const struct config *c = app->config.config;
    const struct config_sandbox *s =
        config_find_sandbox(c, sandbox_caps(app->config.sandbox)->name);
    const struct config_price *price =
        s != NULL ? config_sandbox_price(c, s) : NULL;
    AUTO_SBUF struct sbuf text = {0};

    if (info->billed_ms <= 0)
        return;
    sbuf_init(&text, MAX_VALUE_BYTES);
    if (price != NULL &&
        (info->cpu_count > 0 || price->vcpu_hour_nanousd == 0) &&
        (info->memory_mib > 0 || price->gib_hour_nanousd == 0)) {
        price_add_cost(&text,
                       price_of_time(info->billed_ms, info->cpu_count,
                                     info->memory_mib, price->vcpu_hour_nanousd,
                                     price->gib_hour_nanousd));
        sbuf_add_str(&text, " for ");
        str_add_duration(&text, info->billed_ms);
        add_source(&text, s, price);
    } else {
        sbuf_add_str(&text, "not known, for ");
        str_add_duration(&text, info->billed_ms);
        if (price != NULL)
            sbuf_add_str(&text, ": the service does not say how large it is");
        else
            sbuf_addf(&text,
                      ": no price is set for %.300s; see 'price' in "
                      "sandpiper(1)",
                      info->host != NULL ? info->host : "it");
    }
    cmd_sandbox_add_line(sb, columns, "cost", text.data);
}

void
cmd_sandbox_add_life(const struct app *app, struct sbuf *sb, size_t columns,
                     const struct sandbox_info *info)
{
    if (!sandbox_caps(app->config.sandbox)->is_remote)
        return;
    if (info->cells_by != NULL)
        cmd_sandbox_add_line(sb, columns, "cells by",
                             str_eq(info->cells_by, "interpreter")
                                 ? "the service's interpreter"
                             : str_eq(info->cells_by, "kernel")
                                 ? "sandpiper's own interpreter, sent there"
                                 : info->cells_by);
    add_times(app, sb, columns, info);
    add_size(sb, columns, info);
    add_cost(app, sb, columns, info);
}
