/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_codec_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "claude/claude_raw_internal.h"

/* Longest part of a message of the service that is shown. */
enum { MAX_DETAIL_BYTES = 300, MAX_REQUEST_ID_BYTES = 80 };

#define CACHE_CONTROL "\"cache_control\":{\"type\":\"ephemeral\"}"

const char claude_codec_breakpoint[] = "," CACHE_CONTROL;

struct model_rule {
    const char *prefix; /* the whole id, or followed by "-", "." or a digit */
    enum claude_thinking thinking;
};

/* The families before adaptive thinking. */
static const struct model_rule model_rules[] = {
    {"claude-haiku-4-5", CLAUDE_THINKING_NONE},
    {"claude-opus-4-5", CLAUDE_THINKING_NONE},
    {"claude-sonnet-4-5", CLAUDE_THINKING_NONE},
    {"claude-opus-4-1", CLAUDE_THINKING_NONE},
    {"claude-opus-4-0", CLAUDE_THINKING_NONE},
    {"claude-sonnet-4-0", CLAUDE_THINKING_NONE},
    {"claude-opus-4-2025", CLAUDE_THINKING_NONE},
    {"claude-sonnet-4-2025", CLAUDE_THINKING_NONE},
    {"claude-3", CLAUDE_THINKING_NONE},
    {"claude-2", CLAUDE_THINKING_NONE},
    {"claude-instant", CLAUDE_THINKING_NONE},
};

static const char *const efforts[] = {"low", "medium", "high", "xhigh", "max"};

struct stop_name {
    const char *name;
    enum claude_stop stop;
};

static const struct stop_name stop_names[] = {
    {"end_turn", CLAUDE_STOP_END_TURN},
    {"tool_use", CLAUDE_STOP_TOOL_USE},
    {"max_tokens", CLAUDE_STOP_MAX_TOKENS},
    {"stop_sequence", CLAUDE_STOP_SEQUENCE},
    {"pause_turn", CLAUDE_STOP_PAUSE},
    {"refusal", CLAUDE_STOP_REFUSAL},
    {"model_context_window_exceeded", CLAUDE_STOP_CONTEXT},
};

struct refusal {
    int status;
    const char *type;
    enum error_code code;
    bool retry;
    bool show_detail; /* what the service says helps the user */
    const char *sentence;
};

/* In a stream there is only the type. 503 is said to mean the same as 529. */
static const struct refusal refusals[] = {
    {400, "invalid_request_error", ERR_REMOTE, false, true,
     "the service refused the request"},
    {401, "authentication_error", ERR_AUTH, false, false,
     "the service does not accept the key, or got none; check "
     "ANTHROPIC_API_KEY or model.api_key"},
    {402, "billing_error", ERR_AUTH, false, true,
     "the service refused the request because of billing"},
    {403, "permission_error", ERR_AUTH, false, true,
     "the key does not permit this request"},
    {404, "not_found_error", ERR_REMOTE, false, true,
     "the service does not know the model or the address (model.name, "
     "model.base_url)"},
    {408, NULL, ERR_TIMEOUT, true, false, "the service waited too long"},
    {409, "conflict_error", ERR_REMOTE, true, true,
     "the service reports a conflict"},
    {413, "request_too_large", ERR_TOO_LARGE, false, false,
     "the conversation is too large for the service; begin a new session"},
    {429, "rate_limit_error", ERR_RATE_LIMIT, true, false,
     "the service limits how often it is asked"},
    {500, "api_error", ERR_REMOTE, true, false,
     "the service has an internal problem"},
    {503, NULL, ERR_OVERLOADED, true, false, "the service is overloaded"},
    {504, "timeout_error", ERR_TIMEOUT, true, false,
     "the service took too long"},
    {529, "overloaded_error", ERR_OVERLOADED, true, false,
     "the service is overloaded"},
};

static const struct refusal unknown_refusal = {
    0, NULL, ERR_REMOTE, false, true, "the service refused the request"};
static const struct refusal redirect_refusal = {
    0,
    NULL,
    ERR_REMOTE,
    false,
    false,
    "the service redirects to another address, which is not followed; check "
    "model.base_url"};
static const struct refusal server_refusal = {
    0, NULL, ERR_REMOTE, true, false, "the service has an internal problem"};
static const struct refusal spend_refusal = {
    429,
    NULL,
    ERR_AUTH,
    false,
    false,
    "the spend limit of the account is reached; it can be raised in the "
    "account's settings"};

static const struct refusal hold_refusal = {
    400, NULL, ERR_AUTH, false, true, "the account is on hold"};
static const struct refusal no_stream_refusal = {
    0,     NULL,  ERR_PROTOCOL,
    false, false, "the service answered without a reply; check model.base_url"};

/* Their answers carry no time after which asking again would help. */
static const char *const spend_codes[] = {
    "enforced_spend_limit_reached",
    "contract_spend_limit_reached",
};

static const char *const hold_codes[] = {"organization_on_hold"};

/* Refusals for a reason that no other form of the request would take away. */
static const char *const other_codes[] = {
    "organization_on_hold",
    "image_dimensions_too_large",
};

enum claude_thinking
claude_codec_thinking(const char *model)
{
    for (size_t i = 0; i < LEN(model_rules); i++) {
        const struct model_rule *rule = &model_rules[i];
        size_t len = strlen(rule->prefix);

        if (strncmp(model, rule->prefix, len) != 0) {
            continue;
        }
        /* "claude-opus-4-1" is no prefix of "claude-opus-4-10", but that of
           a date is cut. */
        if (model[len] == '\0' || model[len] == '-' || model[len] == '.' ||
            model[len] == '@' || str_ends(rule->prefix, "-2025")) {
            return rule->thinking;
        }
    }
    return CLAUDE_THINKING_ADAPTIVE;
}

enum claude_stop
claude_codec_stop(const char *stop_reason)
{
    for (size_t i = 0; i < LEN(stop_names); i++) {
        if (str_eq(stop_reason, stop_names[i].name)) {
            return stop_names[i].stop;
        }
    }
    return CLAUDE_STOP_UNKNOWN;
}

static int
check_config(const struct claude_config *config, struct error *err)
{
    bool known = config->effort == NULL;

    if (str_blank(config->model)) {
        return err_set(err, ERR_USAGE, "model: no name");
    }
    if (config->max_tokens < 1) {
        return err_set(err, ERR_USAGE, "max_tokens: %lld is below 1",
                       (long long)config->max_tokens);
    }
    for (size_t i = 0; i < LEN(efforts); i++) {
        known = known || str_eq(config->effort, efforts[i]);
    }
    if (!known) {
        return err_set(err, ERR_USAGE, "effort: %s is not known",
                       config->effort);
    }
    return 0;
}

static int
add_tools(struct sbuf *sb, const char *tools, struct error *err)
{
    AUTO_JSON struct cJSON *tree = NULL;

    if (tools == NULL) {
        return 0;
    }
    tree = json_parse(tools, strlen(tools), CLAUDE_JSON_DEPTH, err);
    if (tree == NULL || !json_is_array(tree)) {
        return err_set(err, ERR_USAGE, "tools: not a JSON array");
    }
    if (json_first(tree) != NULL) {
        json_add_key(sb, "tools");
        sbuf_add_str(sb, tools);
    }
    return 0;
}

int
claude_codec_head(struct sbuf *sb, const struct claude_config *config,
                  bool compatible, struct error *err)
{
    bool own = !compatible;
    bool thinks;

    if (check_config(config, err) < 0) {
        return -1;
    }
    thinks =
        own && claude_codec_thinking(config->model) == CLAUDE_THINKING_ADAPTIVE;
    sbuf_add_char(sb, '{');
    json_add_member_str(sb, "model", config->model);
    json_add_member_bool(sb, "stream", true);
    if (config->system != NULL &&
        !claude_text_is_blank(config->system, strlen(config->system))) {
        json_add_key(sb, "system");
        sbuf_add_str(sb, "[{\"type\":\"text\",\"text\":");
        claude_add_text(sb, config->system, strlen(config->system));
        sbuf_addf(sb, "%s}]", own ? claude_codec_breakpoint : "");
    }
    if (own) {
        sbuf_add_str(sb, claude_codec_breakpoint);
    }
    if (thinks) {
        sbuf_add_str(sb, ",\"thinking\":{\"type\":\"adaptive\","
                         "\"display\":\"summarized\"}");
    }
    if (thinks && config->effort != NULL) {
        sbuf_addf(sb, ",\"output_config\":{\"effort\":\"%s\"}", config->effort);
    }
    return add_tools(sb, config->tools, err);
}

void
claude_codec_begin(struct sbuf *sb, int64_t max_tokens)
{
    json_add_member_int(sb, "max_tokens", max_tokens);
    json_add_key(sb, "messages");
    sbuf_add_char(sb, '[');
}

static const struct refusal *
find_refusal(int status, const char *type)
{
    for (size_t i = 0; i < LEN(refusals); i++) {
        const struct refusal *r = &refusals[i];

        if (status != 0 ? r->status == status
                        : type != NULL && str_eq(r->type, type)) {
            return r;
        }
    }
    if (status == 0 || status >= 500) {
        return &server_refusal;
    }
    if (status < 300) {
        return &no_stream_refusal;
    }
    return status >= 300 && status < 400 ? &redirect_refusal : &unknown_refusal;
}

/* One line of printable text out of what a peer sent. */
static char *
clean_line(const char *text, size_t max)
{
    struct sbuf sb;
    size_t len = strlen(text);

    sbuf_init(&sb, len * 3);
    utf8_add_repaired(&sb, text, len);
    for (size_t i = 0; i < sb.len; i++) {
        if ((unsigned char)sb.data[i] < 0x20 || sb.data[i] == 0x7F) {
            sb.data[i] = ' ';
        }
    }
    sbuf_truncate(&sb, utf8_floor(sb.data, sb.len, max));
    while (sb.len > 0 &&
           (sb.data[sb.len - 1] == '.' || sb.data[sb.len - 1] == ' ')) {
        sbuf_truncate(&sb, sb.len - 1);
    }
    return sbuf_take(&sb);
}

static bool
has_code(const struct cJSON *error, const char *const *codes, size_t n)
{
    const char *code = json_string(json_get(error, "details"), "error_code");

    for (size_t i = 0; code != NULL && i < n; i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * The sentence of whoever answered. *is_foreign: it is not in the form of the
 * vendor; then it may be all that helps, whatever the status is. Seen:
 * {"error":"text"} (Ollama), {"error":{"message","code"}} (llama.cpp),
 * {"object":"error","message"} (vLLM), {"detail":"text"} (FastAPI).
 */
static const char *
find_message(const struct cJSON *tree, bool *is_foreign)
{
    const struct cJSON *error = json_get(tree, "error");
    const char *message = json_string(error, "message");

    *is_foreign = json_string(error, "type") == NULL ||
                  !str_eq(json_string(tree, "type"), "error");
    if (message == NULL) {
        message = json_value_string(error);
    }
    if (message == NULL) {
        message = json_string(tree, "message");
    }
    return message != NULL ? message : json_string(tree, "detail");
}

/* " (529, request req_01)", " (529)", " (request req_01)" or nothing. */
static char *
make_reference(int status, const char *request_id)
{
    AUTO_FREE char *id = request_id != NULL
                             ? clean_line(request_id, MAX_REQUEST_ID_BYTES)
                             : NULL;
    bool has_id = id != NULL && id[0] != '\0';

    if (status != 0 && has_id) {
        return xasprintf(" (%d, request %s)", status, id);
    }
    if (has_id) {
        return xasprintf(" (request %s)", id);
    }
    return status != 0 ? xasprintf(" (%d)", status) : xstrdup("");
}

void
claude_codec_failure(int status, const char *body, size_t len,
                     const char *request_id, struct claude_failure *out)
{
    AUTO_JSON struct cJSON *tree =
        json_parse(body, len, CLAUDE_JSON_DEPTH, NULL);
    const struct cJSON *error = json_get(tree, "error");
    const char *type = json_string(error, "type");
    bool is_foreign = false;
    const char *message = find_message(tree, &is_foreign);
    const struct refusal *r = find_refusal(status, type);
    AUTO_FREE char *detail = NULL;
    AUTO_FREE char *reference = NULL;

    if (has_code(error, spend_codes, LEN(spend_codes))) {
        r = &spend_refusal;
    } else if (has_code(error, hold_codes, LEN(hold_codes))) {
        r = &hold_refusal;
    }
    if (request_id == NULL) {
        request_id = json_string(tree, "request_id");
    }
    reference = make_reference(status, request_id);
    detail = message != NULL && (r->show_detail || is_foreign)
                 ? clean_line(message, MAX_DETAIL_BYTES)
                 : xstrdup("");
    error_fill(&out->err, r->code, "%s%s%s%s", r->sentence,
               detail[0] != '\0' ? ": " : "", detail, reference);
    out->err.http_status = status;
    out->retry = r->retry;
    out->is_final = r == &spend_refusal || r == &hold_refusal;
    out->is_told = message != NULL;
    out->is_invalid = (status == 400 || status == 422) &&
                      (is_foreign || str_eq(type, "invalid_request_error")) &&
                      !has_code(error, other_codes, LEN(other_codes));
}
