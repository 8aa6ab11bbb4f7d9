/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/config.h"
#include "config/sandboxes.h"
#include "render/table_layout.h"
#include "sandbox/e2b.h"
#include "sandbox/sandbox.h"
#include "term/sanitize.h"
#include "ui/app_internal.h"
#include "ui/cmd_sandbox_internal.h"
#include "ui/view.h"
#include "ui/words.h"

#define MAX_LIST_BYTES (256u << 10)
#define MAX_VALUE_BYTES 2048u

/* Behind the mark; a longer name has a line of its own. */
#define MARK_COLUMNS 2u
#define MAX_NAME_COLUMNS 14u

/* As sandbox_info says it of one that is open. */
static void
add_egress(struct sbuf *sb, const struct config_sandbox *s)
{
    switch (s->internet) {
    case CONFIG_NO_INTERNET:
        sbuf_add_str(sb, "no internet");
        break;
    case CONFIG_INTERNET:
        sbuf_add_str(sb, "internet");
        break;
    case CONFIG_SOME_HOSTS:
        sbuf_addf(sb, "%.300s", s->hosts[0]);
        if (s->n_hosts == 2)
            sbuf_addf(sb, " and %.300s", s->hosts[1]);
        else if (s->n_hosts > 2)
            sbuf_addf(sb, " and %zu more", s->n_hosts - 1);
        break;
    }
}

static void
add_row(struct sbuf *sb, size_t columns, size_t names, bool in_use,
        const char *name, const char *text)
{
    AUTO_SBUF struct sbuf clean = {0};
    size_t used = MARK_COLUMNS + strlen(name);

    sbuf_init(&clean, MAX_VALUE_BYTES * 8);
    sanitize_text(SANITIZE_ERROR, text, strlen(text), &clean);
    sbuf_addf(sb, "%s%s", in_use ? "* " : "  ", name);
    if (used >= names) {
        sbuf_add_char(sb, '\n');
        used = 0;
    }
    sbuf_add_repeat(sb, ' ', names - used);
    words_add(sb, clean.data, names, names, columns - 1);
}

static void
add_service(struct sbuf *sb, size_t columns, size_t names, bool in_use,
            const struct config_sandbox *s)
{
    AUTO_FREE char *host = config_sandbox_host(s);
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_VALUE_BYTES);
    sbuf_addf(&text, "E2B at %.300s, %.300s, ", host,
              s->template_name != NULL ? s->template_name : E2B_TEMPLATE);
    add_egress(&text, s);
    add_row(sb, columns, names, in_use, s->name, text.data);
}

void
cmd_sandbox_list(struct app *app)
{
    const struct config *c = app->config.config;
    const char *used = sandbox_caps(app->config.sandbox)->name;
    size_t columns = (size_t)view_table_options(app->config.view).width;
    size_t names = strlen(CONFIG_LOCAL);
    AUTO_SBUF struct sbuf sb = {0};

    for (size_t i = 0; i < c->n_sandboxes; i++) {
        size_t len = strlen(c->sandboxes[i].name);

        if (len > names && len <= MAX_NAME_COLUMNS)
            names = len;
    }
    names += MARK_COLUMNS + 2;
    sbuf_init(&sb, MAX_LIST_BYTES);
    add_row(&sb, columns, names, str_eq(used, CONFIG_LOCAL), CONFIG_LOCAL,
            "on this machine, no network");
    for (size_t i = 0; i < c->n_sandboxes; i++)
        add_service(&sb, columns, names, str_eq(used, c->sandboxes[i].name),
                    &c->sandboxes[i]);
    view_print(app->config.view, sb.data);
}
