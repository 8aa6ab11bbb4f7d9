/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/tools_internal.h"

#include <string.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "claude/claude.h"
#include "sandbox/sandbox.h"

/* Sent with every request; a change in mid-session would break what the service
   has signed, so it is one constant. */
static const char TOOLS[] =
    "[{\"name\":\"run_python\",\"description\":"
    "\"Runs Python 3 source as one cell of a persistent interpreter in a "
    "sandbox without network, and returns what it printed, the value of its "
    "last expression, and the error if there was one. Variables and imports "
    "live on from call to call; pandas, numpy and matplotlib are installed. "
    "The user sees the code, its output, tables and charts as they come. "
    "Loaded files are in /workspace/data, read-only, and already are "
    "variables; the working directory is /workspace.\","
    "\"input_schema\":{\"type\":\"object\",\"properties\":"
    "{\"code\":{\"type\":\"string\",\"description\":"
    "\"Python source to run\"}},\"required\":[\"code\"]}}]";

const char *
agent_tools(void)
{
    return TOOLS;
}

/* Tells what arrived instead of an object, as the service's guide does. */
static void
explain_invalid(const struct claude_tool_call *call, struct sbuf *why)
{
    const char *raw = call->raw_input != NULL ? call->raw_input : "";

    sbuf_add_str(why, "Not executed: the input is not valid JSON, or has a NUL "
                      "character. {\"INVALID_JSON\":");
    json_add_string(why, raw, strlen(raw));
    sbuf_add_char(why, '}');
}

char *
tools_read_code(const struct claude_tool_call *call, struct sbuf *why)
{
    AUTO_JSON struct cJSON *input = NULL;
    struct error err = {0};
    const char *code = NULL;

    if (!str_eq(call->name, "run_python")) {
        sbuf_add_str(why, "Not executed: there is no tool named ");
        json_add_str(why, call->name);
        sbuf_add_str(why, "; the only one is run_python.");
        return NULL;
    }
    if (call->input == NULL) {
        explain_invalid(call, why);
        return NULL;
    }
    input = json_parse(call->input, strlen(call->input), 0, &err);
    code = json_string(input, "code");
    if (code == NULL) {
        sbuf_add_str(why, "Not executed: run_python needs one string, "
                          "\"code\".");
        return NULL;
    }
    if (strlen(code) > SANDBOX_MAX_CODE_BYTES) {
        sbuf_addf(why, "Not executed: the code has %zu bytes, the limit is %u.",
                  strlen(code), SANDBOX_MAX_CODE_BYTES);
        return NULL;
    }
    if (str_blank(code)) {
        sbuf_add_str(why, "Not executed: the code is empty.");
        return NULL;
    }
    return xstrdup(code);
}
