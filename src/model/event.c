/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "model/event.h"

#include <assert.h>

#include "base/array.h"

static const char *const kind_names[] = {
    [EVENT_QUESTION] = "question", [EVENT_REPLY] = "reply",
    [EVENT_THINKING] = "thinking", [EVENT_TEXT] = "text",
    [EVENT_CODE] = "code",         [EVENT_OUTPUT] = "output",
    [EVENT_RESULT] = "result",     [EVENT_FILE] = "file",
    [EVENT_LOAD] = "load",         [EVENT_USAGE] = "usage",
    [EVENT_NOTICE] = "notice",     [EVENT_STATUS] = "status",
    [EVENT_ERROR] = "error",       [EVENT_DONE] = "done",
};

static const struct {
    const char *name;
    bool lost;
} outcomes[] = {
    [EVENT_OK] = {"ok", false},
    [EVENT_FAILED] = {"error", false},
    [EVENT_INTERRUPTED] = {"interrupted", false},
    [EVENT_TIMEOUT] = {"timeout", false},
    [EVENT_OUTPUT_LIMIT] = {"output_limit", false},
    [EVENT_DISK_LIMIT] = {"disk_limit", false},
    [EVENT_KILLED] = {"killed", true},
    [EVENT_DIED] = {"died", true},
    [EVENT_MEMORY] = {"memory", true},
    [EVENT_LIMIT] = {"limit", false},
};

const char *
event_kind_name(enum event_kind kind)
{
    assert((size_t)kind < LEN(kind_names));
    return kind_names[kind];
}

const char *
event_outcome_name(enum event_outcome outcome)
{
    assert((size_t)outcome < LEN(outcomes));
    return outcomes[outcome].name;
}

bool
event_outcome_lost(enum event_outcome outcome)
{
    assert((size_t)outcome < LEN(outcomes));
    return outcomes[outcome].lost;
}
