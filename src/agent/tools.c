/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/tools_internal.h"

#include <assert.h>
#include <string.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"
#include "claude/claude.h"
#include "sandbox/sandbox.h"

#define MAX_TOOLS_BYTES (16u << 10)

/* Of a language that there is not, in the answer. */
#define MAX_SHOWN_BYTES 100u

#define PYTHON "python"

/* ---- the tools ------------------------------------------------------------
 */

bool
tools_has_more(const char *const *languages)
{
    for (size_t i = 0; languages[i] != NULL; i++) {
        if (!str_eq(languages[i], PYTHON))
            return true;
    }
    return false;
}

void
tools_add_languages(struct sbuf *sb, const char *const *languages)
{
    for (size_t i = 0; languages[i] != NULL; i++)
        sbuf_addf(sb, "%s%s", i > 0 ? ", " : "", languages[i]);
}

static void
add_description(const struct sandbox_caps *caps, struct sbuf *sb)
{
    bool more = tools_has_more(caps->languages);
    AUTO_FREE char *text = xasprintf(
        "Runs %s as one cell of a persistent interpreter in a sandbox %s%s, "
        "and returns what it printed, the value of its last expression, and "
        "the error if there was one. Variables and imports live on from call "
        "to call; pandas, numpy and matplotlib are %sinstalled. The user sees "
        "the code, its output, tables and charts as they come. Loaded files "
        "are in /workspace/data, read-only, and already are variables%s; the "
        "working directory is /workspace.",
        more ? "source, Python 3 unless \"language\" says otherwise,"
             : "Python 3 source",
        caps->has_network
            ? "with network (the internet, or what of it the user has allowed)"
            : "without network",
        caps->is_remote ? " that a service runs, not the user's machine" : "",
        caps->is_remote ? "as a rule " : "", more ? " of Python" : "");

    json_add_str(sb, text);
}

static void
add_language(const char *const *languages, struct sbuf *sb)
{
    sbuf_add_str(sb, ",\"language\":{\"type\":\"string\",\"enum\":[");
    for (size_t i = 0; languages[i] != NULL; i++) {
        if (i > 0)
            sbuf_add_char(sb, ',');
        json_add_str(sb, languages[i]);
    }
    sbuf_add_str(sb, "],\"description\":"
                     "\"Language of the source; python if it is not given. "
                     "Each has an interpreter of its own, and variables are "
                     "not shared between them. Not every template has each\"}");
}

char *
agent_tools(const struct sandbox_caps *caps)
{
    AUTO_SBUF struct sbuf sb = {0};
    bool more = tools_has_more(caps->languages);

    sbuf_init(&sb, MAX_TOOLS_BYTES);
    sbuf_add_str(&sb, "[{\"name\":\"run_python\",\"description\":");
    add_description(caps, &sb);
    sbuf_add_str(&sb, ",\"input_schema\":{\"type\":\"object\","
                      "\"properties\":{\"code\":{\"type\":\"string\","
                      "\"description\":");
    json_add_str(&sb, more ? "Source to run" : "Python source to run");
    sbuf_add_char(&sb, '}');
    if (more)
        add_language(caps->languages, &sb);
    sbuf_add_str(&sb, "},\"required\":[\"code\"]}}]");
    assert(sbuf_ok(&sb));
    return sbuf_take(&sb);
}

/* ---- calls ----------------------------------------------------------------
 */

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

/* The code of an input that is JSON, borrowed; NULL: it must not run. */
static const char *
read_code(const struct cJSON *input, struct sbuf *why)
{
    const char *code = json_string(input, "code");

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
    return code;
}

static void
explain_language(const char *name, const char *const *languages,
                 struct sbuf *why)
{
    if (name != NULL) {
        sbuf_add_str(why, "Not executed: this sandbox does not run ");
        json_add_string(why, name,
                        utf8_floor(name, strlen(name), MAX_SHOWN_BYTES));
        sbuf_add_str(why, "; \"language\" can be: ");
    } else {
        sbuf_add_str(why,
                     "Not executed: \"language\" is no string; it can be: ");
    }
    tools_add_languages(why, languages);
    sbuf_add_char(why, '.');
}

/* Sets *language to one of languages, or to NULL: Python, which each has. False
   for what is none. */
static bool
read_language(const struct cJSON *input, const char *const *languages,
              const char **language, struct sbuf *why)
{
    const struct cJSON *item = json_get(input, "language");
    const char *name = json_value_string(item);

    *language = NULL;
    if (item == NULL || json_is_null(item) || str_eq(name, PYTHON))
        return true;
    for (size_t i = 0; name != NULL && languages[i] != NULL; i++) {
        if (str_eq(name, languages[i])) {
            *language = languages[i];
            return true;
        }
    }
    explain_language(name, languages, why);
    return false;
}

char *
tools_read_code(const struct claude_tool_call *call,
                const struct sandbox_caps *caps, char **language,
                struct sbuf *why)
{
    AUTO_JSON struct cJSON *input = NULL;
    struct error err = {0};
    const char *code = NULL;
    const char *name = NULL;

    *language = NULL;
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
    code = read_code(input, why);
    if (code == NULL || !read_language(input, caps->languages, &name, why))
        return NULL;
    *language = xstrdup(name);
    return xstrdup(code);
}
