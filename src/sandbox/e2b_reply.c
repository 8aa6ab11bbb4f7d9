/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_wire_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/utf8.h"
#include "sandbox/service_words_internal.h"

/* Longest part of what the service says that is shown. */
#define MAX_WORDS_BYTES ((size_t)200)

#define MAX_CODE_BYTES ((size_t)64)

/* Of a description; metadata may hold others inside. */
#define MAX_DEPTH 16

enum { MAX_CPUS = 4096, MAX_MEMORY_MIB = 64 << 20, MAX_VERSION = 999999 };

/* --- what a refusal says --- */

/* Pages are for browsers; whatever part of one is quoted says nothing. */
static bool
is_page(const char *text)
{
    static const char *const marks[] = {"<html", "<!doctype", "<head", "<body"};

    for (size_t i = 0; i < LEN(marks); i++) {
        if (strcasestr(text, marks[i]) != NULL) {
            return true;
        }
    }
    return text[strspn(text, " \t\r\n")] == '<';
}

/* One line without secrets, controls and a point at its end. */
static char *
clean_line(const char *text)
{
    struct sbuf out;

    sbuf_init(&out, SERVICE_WORDS_MAX_BYTES);
    service_words_add(&out, text, strlen(text));
    if (out.len > MAX_WORDS_BYTES) {
        sbuf_truncate(&out, utf8_floor(out.data, out.len, MAX_WORDS_BYTES));
        sbuf_add_str(&out, "...");
    }
    while (out.len > 0 && out.data[out.len - 1] == '.' &&
           !str_ends(out.data, "...")) {
        sbuf_truncate(&out, out.len - 1);
    }
    return sbuf_take(&out);
}

/* {"message"}, {"error"}, {"detail"} or {"error":{"message"}}. */
static const char *
find_message(const struct cJSON *tree)
{
    static const char *const keys[] = {"message", "error", "detail"};
    const char *text = NULL;

    for (size_t i = 0; i < LEN(keys) && text == NULL; i++) {
        text = json_string(tree, keys[i]);
    }
    return text != NULL ? text
                        : json_string(json_get(tree, "error"), "message");
}

static bool
is_code(const char *text)
{
    return text != NULL && strlen(text) <= MAX_CODE_BYTES &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789")] == '\0';
}

void
e2b_words_read(struct e2b_words *w, const struct e2b_reply *r)
{
    bool page =
        r->content_type != NULL && strcasestr(r->content_type, "html") != NULL;
    AUTO_JSON struct cJSON *tree = NULL;
    const char *text = NULL;
    const char *code = NULL;

    if (r->body != NULL && !page && !r->too_large) {
        tree = json_parse(r->body, r->body_len, MAX_DEPTH, NULL);
        text = tree != NULL ? find_message(tree) : r->body;
        code = json_string(tree, "error_code");
    }
    w->text = text != NULL && !is_page(text) ? clean_line(text) : xstrdup("");
    w->error_code = xstrdup(is_code(code) ? code : "");
}

void
e2b_words_fini(struct e2b_words *w)
{
    free(w->text);
    free(w->error_code);
    *w = (struct e2b_words){0};
}

/* --- what it means --- */

const char *
e2b_op_name(enum e2b_op op)
{
    static const char *const names[] = {
        [E2B_CREATE] = "creating a sandbox",
        [E2B_CONNECT] = "connecting to a sandbox",
        [E2B_TIMEOUT] = "setting the time of a sandbox",
        [E2B_PAUSE] = "pausing a sandbox",
        [E2B_KILL] = "ending a sandbox",
        [E2B_INFO] = "asking about a sandbox",
        [E2B_LIST] = "listing sandboxes",
        [E2B_NETWORK] = "setting what a sandbox reaches",
    };

    return names[op];
}

struct meaning {
    int status;
    enum e2b_fault fault;
    enum error_code code;
    const char *sentence; /* %s: the setting of the key, or the subject */
};

static const struct meaning meanings[] = {
    {400, E2B_FAULT_OTHER, ERR_REMOTE, "the request is not accepted"},
    {401, E2B_FAULT_AUTH, ERR_AUTH, "the key is not accepted; see "},
    {403, E2B_FAULT_OTHER, ERR_REMOTE,
     "the account or its plan does not allow it"},
    {404, E2B_FAULT_GONE, ERR_SANDBOX, "there is no sandbox "},
    {405, E2B_FAULT_OTHER, ERR_UNSUPPORTED, "the service does not offer this"},
    {409, E2B_FAULT_CHANGING, ERR_SANDBOX,
     "the sandbox is changing its state; try again soon"},
    {429, E2B_FAULT_LIMIT, ERR_RATE_LIMIT,
     "too many requests; try again later"},
    {501, E2B_FAULT_OTHER, ERR_UNSUPPORTED, "the service does not offer this"},
    {502, E2B_FAULT_OTHER, ERR_OVERLOADED,
     "the service is not reached behind its gateway; try again later"},
    {503, E2B_FAULT_CAPACITY, ERR_OVERLOADED,
     "the service has no capacity; try again later"},
    {504, E2B_FAULT_CAPACITY, ERR_OVERLOADED,
     "the service found no place in time; try again later"},
};

static const struct meaning template_unknown = {
    404, E2B_FAULT_OTHER, ERR_CONFIG, "there is no template "};
static const struct meaning list_unknown = {
    404, E2B_FAULT_OTHER, ERR_UNSUPPORTED, "the service does not offer this"};
static const struct meaning no_more_sandboxes = {
    429, E2B_FAULT_LIMIT, ERR_LIMIT,
    "as many sandboxes run as the account may have; end one first"};
static const struct meaning create_conflict = {
    409, E2B_FAULT_OTHER, ERR_REMOTE, "the request is not accepted now"};
static const struct meaning needs_cold = {
    409, E2B_FAULT_COLD, ERR_SANDBOX,
    "the sandbox did not answer when it was paused; only its files can be "
    "brought back"};
static const struct meaning redirected = {
    0, E2B_FAULT_OTHER, ERR_REMOTE,
    "the answer leads to another address, which is not followed; see api_url"};
static const struct meaning broken = {0, E2B_FAULT_OTHER, ERR_REMOTE,
                                      "the service has failed"};
static const struct meaning refused = {0, E2B_FAULT_OTHER, ERR_REMOTE,
                                       "the request is not accepted"};

static const struct meaning *
find_meaning(enum e2b_op op, const struct e2b_reply *r,
             const struct e2b_words *w)
{
    if (op == E2B_CREATE && r->status == 404) {
        return &template_unknown;
    }
    if (op == E2B_LIST && r->status == 404) {
        return &list_unknown;
    }
    if (r->status == 429 &&
        strcasestr(w->text, "maximum number of concurrent") != NULL) {
        return &no_more_sandboxes;
    }
    if (str_eq(w->error_code, "sandbox_snapshot_guest_agent_unresponsive")) {
        return &needs_cold;
    }
    if (op == E2B_CREATE && r->status == 409 &&
        !str_eq(w->error_code, "idempotency_in_progress") &&
        !str_eq(w->error_code, "sandbox_start_in_flight")) {
        return &create_conflict;
    }
    for (size_t i = 0; i < LEN(meanings); i++) {
        if (meanings[i].status == r->status) {
            return &meanings[i];
        }
    }
    return r->status < 400 ? &redirected : r->status < 500 ? &refused : &broken;
}

enum e2b_fault
e2b_describe(const struct e2b_refusal *about, const struct e2b_reply *r,
             const struct e2b_words *w, struct error *err)
{
    const struct e2b_settings *s = about->settings;
    const char *op = e2b_op_name(about->op);
    const struct meaning *m;
    const char *end = "";
    const char *more = "";

    if (r->status == 0 && r->failure == NULL) {
        AUTO_SBUF struct sbuf limit = {0};

        sbuf_init(&limit, STR_DURATION_BYTES);
        str_add_duration(&limit, about->limit_ms);
        error_fill(err, ERR_TIMEOUT, "%s: %s: no answer within %s", s->host, op,
                   limit.data);
        return E2B_FAULT_OTHER;
    }
    if (r->status == 0) {
        *err = *r->failure;
        error_prepend(err, "%s: %s", s->host, op);
        return E2B_FAULT_OTHER;
    }
    m = find_meaning(about->op, r, w);
    if (m->fault == E2B_FAULT_AUTH) {
        end = s->key_setting;
        more = about->has_headers ? " and headers" : "";
    } else if (m->fault == E2B_FAULT_GONE || m == &template_unknown) {
        end = about->subject;
    }
    /* What is no API answers like that, too. */
    if (m == &template_unknown) {
        more = "; see template and api_url";
    }
    error_fill(err, m->code, "%s: %s: %s%s%s (%d%s%s)", s->host, op,
               m->sentence, end, more, r->status,
               w->text[0] != '\0' ? ": " : "", w->text);
    err->http_status = r->status;
    return m->fault;
}

/* --- descriptions --- */

void
e2b_sandbox_fini(struct e2b_sandbox *s)
{
    secret_free(s->envd_token);
    secret_free(s->traffic_token);
    for (size_t i = 0; i < s->n_labels; i++) {
        free_const(s->labels[i].name);
        free_const(s->labels[i].value);
    }
    free(s->labels);
    e2b_egress_fini(s);
    *s = (struct e2b_sandbox){0};
}

/* A text that may be missing or null; "" then. Errors: ERR_PROTOCOL. */
static int
get_text(const struct cJSON *tree, const char *key, const char **out,
         struct error *err)
{
    const struct cJSON *value = json_get(tree, key);
    AUTO_FREE char *printed = NULL;

    *out = json_value_string(value);
    if (*out != NULL) {
        return 0;
    }
    *out = "";
    printed = value != NULL ? json_print(value) : NULL;
    return printed == NULL || str_eq(printed, "null")
               ? 0
               : err_set(err, ERR_PROTOCOL, "%s is no text", key);
}

static int
get_token(const struct cJSON *tree, const char *key, struct secret **out,
          struct error *err)
{
    const char *text;
    size_t len;

    if (get_text(tree, key, &text, err) < 0) {
        return -1;
    }
    len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return err_set(err, ERR_PROTOCOL, "%s holds what no token may hold",
                           key);
        }
    }
    if (len > E2B_MAX_TOKEN_BYTES) {
        return err_set(err, ERR_PROTOCOL, "%s is %zu bytes long", key, len);
    }
    *out = len > 0 ? secret_new(text, len) : NULL;
    return 0;
}

static int
get_id(const struct cJSON *tree, struct e2b_sandbox *out, struct error *err)
{
    const char *text;

    if (get_text(tree, "sandboxID", &text, err) < 0) {
        return -1;
    }
    if (!e2b_is_id(text)) {
        return err_set(err, ERR_PROTOCOL,
                       text[0] == '\0' ? "sandboxID is missing"
                                       : "sandboxID is not of a-z and 0-9");
    }
    memcpy(out->id, text, strlen(text) + 1);
    return 0;
}

static int
get_domain(const struct cJSON *tree, struct e2b_sandbox *out, struct error *err)
{
    const char *text;

    if (get_text(tree, "domain", &text, err) < 0) {
        return -1;
    }
    if (text[0] != '\0' && !e2b_is_domain(text)) {
        return err_set(err, ERR_PROTOCOL, "domain is not the name of a host");
    }
    memcpy(out->domain, text, strlen(text) + 1);
    return 0;
}

/* "1.2.3", also with a "v" before it and more behind it; whatever is none is
   taken for unknown, which means the oldest. */
static int
get_version(const struct cJSON *tree, int version[3], struct error *err)
{
    const char *at;
    int read[3] = {0};

    if (get_text(tree, "envdVersion", &at, err) < 0) {
        return -1;
    }
    at += at[0] == 'v' ? 1 : 0;
    for (size_t i = 0; i < 3; i++) {
        if (!isdigit((unsigned char)*at)) {
            return 0;
        }
        while (isdigit((unsigned char)*at)) {
            read[i] = read[i] * 10 + (*at++ - '0');
            if (read[i] > MAX_VERSION) {
                return 0;
            }
        }
        if (i < 2 && *at++ != '.') {
            return 0;
        }
    }
    if (*at == '\0' || *at == '-' || *at == '+') {
        memcpy(version, read, sizeof(read));
    }
    return 0;
}

/* Whether text begins as form does, in which 0 stands for any digit. */
static bool
has_form(const char *text, const char *form)
{
    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == '0' ? !isdigit((unsigned char)text[i])
                           : text[i] != form[i]) {
            return false;
        }
    }
    return true;
}

bool
e2b_read_time(const char *text, struct timespec *out)
{
    struct tm tm = {0};
    const char *rest = NULL;
    long ns = 0;
    int64_t minutes = 0;

    if (text != NULL && has_form(text, "0000-00-00T00:00:00")) {
        rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    }
    if (rest == NULL) {
        return false;
    }
    if (*rest == '.') {
        long unit = 100000000;

        for (rest++; isdigit((unsigned char)*rest); rest++) {
            ns += unit * (*rest - '0');
            unit /= 10;
        }
    }
    if (has_form(rest, "+00:00") || has_form(rest, "-00:00")) {
        minutes = ((rest[1] - '0') * 10 + rest[2] - '0') * 60 +
                  (rest[4] - '0') * 10 + rest[5] - '0';
        minutes = rest[0] == '-' ? -minutes : minutes;
        rest += strlen("+00:00");
    } else if (*rest == 'Z' || *rest == 'z') {
        rest++;
    } else {
        return false;
    }
    if (*rest != '\0') {
        return false;
    }
    out->tv_sec = timegm(&tm) - minutes * 60;
    out->tv_nsec = ns;
    return true;
}

/* Milliseconds; 0 when it is no time, or one before 1970. */
static int64_t
read_time_ms(const char *text)
{
    struct timespec t = {0};

    return e2b_read_time(text, &t) && t.tv_sec >= 0
               ? (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000
               : 0;
}

static int
get_number(const struct cJSON *tree, const char *key, int max)
{
    int64_t n = json_int(tree, key, 0);

    return n > 0 && n <= max ? (int)n : 0;
}

/* Labels of ours are plain and few; others are left out. */
static void
get_labels(const struct cJSON *tree, struct e2b_sandbox *out)
{
    const struct cJSON *labels = json_get(tree, "metadata");

    if (!json_is_object(labels)) {
        return;
    }
    for (const struct cJSON *at = json_first(labels); at != NULL;
         at = json_next(at)) {
        const char *name = json_key(at);
        const char *value = json_value_string(at);

        if (value == NULL || !e2b_is_plain(name) || !e2b_is_plain(value)) {
            continue;
        }
        if (out->n_labels == E2B_MAX_LABELS) {
            break;
        }
        out->labels = xgrow(out->labels, out->n_labels, sizeof(*out->labels));
        out->labels[out->n_labels++] =
            (struct e2b_pair){xstrdup(name), xstrdup(value)};
    }
}

/* Texts on which nothing depends. */
static void
get_rest(const struct cJSON *tree, struct e2b_sandbox *out)
{
    const char *template_id = json_string(tree, "templateID");
    const char *state = json_string(tree, "state");

    if (template_id != NULL && strlen(template_id) <= E2B_MAX_TEMPLATE_BYTES) {
        AUTO_FREE char *clean = clean_line(template_id);

        if (str_eq(clean, template_id)) {
            memcpy(out->template_id, clean, strlen(clean) + 1);
        }
    }
    out->state = str_eq(state, "running")  ? E2B_STATE_RUNNING
                 : str_eq(state, "paused") ? E2B_STATE_PAUSED
                                           : E2B_STATE_UNKNOWN;
    out->started_ms = read_time_ms(json_string(tree, "startedAt"));
    out->end_ms = read_time_ms(json_string(tree, "endAt"));
    out->cpu_count = get_number(tree, "cpuCount", MAX_CPUS);
    out->memory_mib = get_number(tree, "memoryMB", MAX_MEMORY_MIB);
    out->needs_cold = json_bool(tree, "envdUnresponsiveAtPause", false);
    get_labels(tree, out);
    e2b_read_egress(tree, out);
}

static int
read_tree(const struct cJSON *tree, struct e2b_sandbox *out, struct error *err)
{
    if (!json_is_object(tree)) {
        return err_set(err, ERR_PROTOCOL, "no description of a sandbox");
    }
    if (get_id(tree, out, err) < 0 || get_domain(tree, out, err) < 0 ||
        get_version(tree, out->envd, err) < 0 ||
        get_token(tree, "envdAccessToken", &out->envd_token, err) < 0 ||
        get_token(tree, "trafficAccessToken", &out->traffic_token, err) < 0) {
        return -1;
    }
    get_rest(tree, out);
    return 0;
}

static struct cJSON *
parse(const struct e2b_reply *r, struct error *err)
{
    struct cJSON *tree;

    if (r->too_large) {
        error_fill(err, ERR_TOO_LARGE, "the answer is too long");
        return NULL;
    }
    tree = json_parse(r->body != NULL ? r->body : "", r->body_len, MAX_DEPTH,
                      NULL);
    if (tree == NULL) {
        error_fill(err, ERR_PROTOCOL, "the answer is %s",
                   r->body_len == 0 ? "empty" : "no JSON");
    }
    return tree;
}

int
e2b_read_sandbox(const struct e2b_reply *r, struct e2b_sandbox *out,
                 struct error *err)
{
    AUTO_JSON struct cJSON *tree = parse(r, err);

    if (tree == NULL || read_tree(tree, out, err) < 0) {
        return -1;
    }
    /* 0.0.1 to 0.0.x; 0.0.0 is not known. */
    if (out->envd[0] == 0 && out->envd[1] == 0 && out->envd[2] > 0) {
        return err_set(err, ERR_UNSUPPORTED,
                       "the template is too old (envd 0.0.%d, and 0.1.0 is "
                       "needed); build it anew",
                       out->envd[2]);
    }
    return 0;
}

static bool
has_labels(const struct e2b_sandbox *s, const struct e2b_pair *labels,
           size_t n_labels)
{
    for (size_t i = 0; i < n_labels; i++) {
        bool found = false;

        for (size_t k = 0; k < s->n_labels && !found; k++) {
            found = str_eq(s->labels[k].name, labels[i].name) &&
                    str_eq(s->labels[k].value, labels[i].value);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

int
e2b_read_page(const struct e2b_reply *r, const struct e2b_pair *labels,
              size_t n_labels, size_t max, struct e2b_sandbox **list, size_t *n,
              struct error *err)
{
    AUTO_JSON struct cJSON *tree = parse(r, err);

    if (tree == NULL) {
        return -1;
    }
    if (!json_is_array(tree)) {
        return err_set(err, ERR_PROTOCOL, "the answer is no list");
    }
    for (const struct cJSON *at = json_first(tree); at != NULL;
         at = json_next(at)) {
        struct e2b_sandbox one = {0};

        /* What is odd is none of ours: those would have been ended. */
        if (read_tree(at, &one, NULL) < 0 ||
            !has_labels(&one, labels, n_labels)) {
            e2b_sandbox_fini(&one);
            continue;
        }
        if (*n == max) {
            e2b_sandbox_fini(&one);
            return err_set(err, ERR_TOO_LARGE, "more than %zu sandboxes", max);
        }
        *list = xgrow(*list, *n, sizeof(**list));
        (*list)[(*n)++] = one;
    }
    return 0;
}
