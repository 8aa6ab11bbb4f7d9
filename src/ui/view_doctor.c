/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "sandbox/doctor.h"
#include "ui/view_internal.h"
#include "ui/words.h"

#define MAX_LINE_BYTES (64u << 10)
#define INDENT 6 /* behind "ok    " */

static const struct {
    const char *tag; /* INDENT columns */
    enum style style;
} looks[] = {
    [DOCTOR_OK] = {"ok    ", STYLE_DIM},
    [DOCTOR_WARN] = {"warn  ", STYLE_WARNING},
    [DOCTOR_FAIL] = {"FAIL  ", STYLE_FAILURE},
    [DOCTOR_SKIPPED] = {"-     ", STYLE_DIM},
};

/* One line of a finding behind its tag or blanks, with what came from outside
   in it: label and text, fitted to the terminal. */
static void
say(struct view *v, const char *label, const char *text)
{
    struct out *out = v->config.out;
    AUTO_FREE char *line = xasprintf("%s: %s", label, text);
    AUTO_SBUF struct sbuf clean = {0};
    AUTO_SBUF struct sbuf fitted = {0};

    sbuf_init(&clean, MAX_LINE_BYTES);
    sanitize_text(SANITIZE_ERROR, line, strlen(line), &clean);
    sbuf_init(&fitted, MAX_LINE_BYTES);
    words_add(&fitted, clean.data, INDENT, INDENT,
              out_is_terminal(out) ? (size_t)out_columns(out) - 1 : 0);
    out_ready(out, view_main(v), fitted.data, fitted.len);
}

/* On a line of its own, and never broken: it is there to be copied. */
static void
say_command(struct view *v, const char *command)
{
    AUTO_SBUF struct sbuf clean = {0};

    sbuf_init(&clean, MAX_LINE_BYTES);
    sanitize_text(SANITIZE_ERROR, command, strlen(command), &clean);
    out_say(v->config.out, view_main(v), "      ");
    out_ready(v->config.out, view_main(v), clean.data, clean.len);
    out_say(v->config.out, view_main(v), "\n");
}

static void
show_finding(struct view *v, const struct doctor_finding *f)
{
    struct out *out = v->config.out;
    enum out_channel ch = view_main(v);

    out_style(out, ch, looks[f->status].style);
    out_say(out, ch, looks[f->status].tag);
    out_style(out, ch, STYLE_PLAIN);
    say(v, f->topic, f->what);
    if (f->why != NULL) {
        out_say(out, ch, "      ");
        say(v, "why", f->why);
    }
    if (f->fix != NULL) {
        out_say(out, ch, "      ");
        say(v, "fix", f->fix);
    }
    if (f->command != NULL)
        say_command(v, f->command);
}

void
view_doctor(struct view *v, const struct doctor_report *report)
{
    struct out *out = v->config.out;
    enum out_channel ch = view_main(v);
    AUTO_FREE char *verdict = doctor_verdict(report);
    AUTO_SBUF struct sbuf fitted = {0};

    view_speak(v, ch, VOICE_OWN);
    for (size_t i = 0; i < report->n_findings; i++)
        show_finding(v, &report->findings[i]);
    sbuf_init(&fitted, MAX_LINE_BYTES);
    words_add(&fitted, verdict, 0, 0,
              out_is_terminal(out) ? (size_t)out_columns(out) - 1 : 0);
    out_say(out, ch, "\n");
    out_style(out, ch, report->can_run ? STYLE_STRONG : STYLE_FAILURE);
    out_say(out, ch, fitted.data);
    out_style(out, ch, STYLE_PLAIN);
}
