/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Answers of a control plane. What is taken for an id is one, and so are
 * domains, tokens, labels and hosts, so that none leads elsewhere; a list holds
 * what was asked for and no more; what a person reads is one line of text, of
 * bounded length, without what is hidden in it.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/utf8.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_wire_internal.h"

#define KEY "e2b_5d0c7a91"
#define MAX_ON_PAGES ((size_t)5)

/* What is shown of what the service says, and "..." behind it. */
#define MAX_WORDS_BYTES ((size_t)203)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_e2b_reply: %s\n", what);
    abort();
}

/* One line of text that can be shown. */
static void
check_line(const char *text)
{
    size_t len = strlen(text);

    require(utf8_valid(text, len), "a text that is none");
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        bool ok = true;

        i += utf8_decode(text + i, len - i, &cp, &ok);
        require(cp >= 0x20 && (cp < 0x7F || cp > 0x9F), "a control in it");
        require(cp != 0x2028 && cp != 0x2029, "a line end in it");
        require((cp < 0x202A || cp > 0x202E) && (cp < 0x2066 || cp > 0x2069),
                "what changes the direction in it");
    }
    require(strstr(text, KEY) == NULL, "the key in it");
}

static void
check_error(int rc, const struct error *err)
{
    require((rc < 0) == (err->code != ERR_NONE), "a failure without an error");
    if (rc == 0)
        return;
    require(err->code == ERR_PROTOCOL || err->code == ERR_TOO_LARGE ||
                err->code == ERR_UNSUPPORTED,
            "another code");
    check_line(err->msg);
}

static void
check_token(const struct secret *token)
{
    const char *text;

    if (token == NULL)
        return;
    text = secret_expose(token);
    require(text[0] != '\0' && strlen(text) <= E2B_MAX_TOKEN_BYTES,
            "the length of a token");
    for (; *text != '\0'; text++)
        require(*text > ' ' && *text <= '~', "a token that ends a header");
}

static void
check_rules(const struct e2b_rules *r)
{
    require(r->n_hosts <= E2B_MAX_RULES, "too many hosts");
    require(r->said || (r->n_hosts == 0 && !r->cut), "hosts without a list");
    for (size_t i = 0; i < r->n_hosts; i++)
        require(e2b_is_rule(r->hosts[i]), "a host that is none");
}

/* The address of a port begins and ends as it should. */
static void
check_address(const struct e2b_sandbox *s)
{
    const char *domain = s->domain[0] != '\0' ? s->domain : "e2b.app";
    AUTO_FREE char *expect = xasprintf("https://49983-%s.%s", s->id, domain);
    AUTO_FREE char *url = e2b_sandbox_url(NULL, s->id, 49983, domain, NULL);

    require(url == NULL || str_eq(url, expect), "an address of another host");
    /* Only for its length, of the label before the domain or altogether. */
    require(url != NULL || strlen(s->id) > 57 || strlen(domain) > 180,
            "no address");
}

static void
check_sandbox(const struct e2b_sandbox *s)
{
    require(e2b_is_id(s->id), "an id that is none");
    require(strpbrk(s->id, "/.-%?#@: ") == NULL, "an id that leads elsewhere");
    require(s->domain[0] == '\0' || e2b_is_domain(s->domain),
            "a domain that is none");
    require(strpbrk(s->domain, "/%?#@ ") == NULL,
            "a domain that leads elsewhere");
    require(strlen(s->template_id) <= E2B_MAX_TEMPLATE_BYTES,
            "the length of a template");
    check_line(s->template_id);
    check_token(s->envd_token);
    check_token(s->traffic_token);
    for (size_t i = 0; i < LEN(s->envd); i++)
        require(s->envd[i] >= 0 && s->envd[i] <= 999999, "a version");
    require(s->started_ms >= 0 && s->end_ms >= 0, "a time before all");
    require(s->cpu_count >= 0 && s->cpu_count <= 4096, "processors");
    require(s->memory_mib >= 0, "memory");
    require(s->n_labels <= E2B_MAX_LABELS, "too many labels");
    for (size_t i = 0; i < s->n_labels; i++)
        require(e2b_is_plain(s->labels[i].name) &&
                    e2b_is_plain(s->labels[i].value),
                "a label that is none");
    check_rules(&s->allowed);
    check_rules(&s->denied);
    check_address(s);
}

/* Whatever is said, it is one of three; what allows something else is not what
   was asked for. */
static void
check_egress(const struct e2b_sandbox *s)
{
    char name[] = "data.example.org";
    char *hosts[] = {name};
    const struct e2b_settings off = {.internet = E2B_INTERNET_OFF};
    const struct e2b_settings some = {
        .internet = E2B_INTERNET_HOSTS, .hosts = hosts, .n_hosts = LEN(hosts)};

    if (e2b_check_egress(&off, s) == E2B_EGRESS_CONFIRMED)
        require(s->allowed.n_hosts == 0 &&
                    (s->internet == E2B_SAID_NO || s->denied.n_hosts > 0),
                "an open sandbox is taken for a closed one");
    if (e2b_check_egress(&some, s) == E2B_EGRESS_CONFIRMED)
        require(s->allowed.n_hosts > 0 &&
                    (s->internet == E2B_SAID_NO || s->denied.n_hosts > 0),
                "an open sandbox is taken for one with few hosts");
}

static void
try_sandbox(const struct e2b_reply *r)
{
    struct e2b_sandbox s = {0};
    struct error err = {0};
    int rc = e2b_read_sandbox(r, &s, &err);

    check_error(rc, &err);
    if (rc == 0) {
        check_sandbox(&s);
        check_egress(&s);
    }
    require(s.id[0] == '\0' || e2b_is_id(s.id), "an id of a failure");
    e2b_sandbox_fini(&s);
}

static void
try_page(const struct e2b_reply *r)
{
    static const struct e2b_pair labels[] = {{"app", "sandpiper"},
                                             {"owner", "o1"}};
    struct e2b_sandbox *list = NULL;
    size_t n = 0;
    struct error err = {0};
    int rc =
        e2b_read_page(r, labels, LEN(labels), MAX_ON_PAGES, &list, &n, &err);

    check_error(rc, &err);
    require(n <= MAX_ON_PAGES, "more than were asked for");
    for (size_t i = 0; i < n; i++) {
        size_t n_found = 0;

        check_sandbox(&list[i]);
        for (size_t k = 0; k < list[i].n_labels; k++)
            n_found += str_eq(list[i].labels[k].value, "sandpiper") ||
                       str_eq(list[i].labels[k].value, "o1");
        require(n_found >= LEN(labels), "one of somebody else's");
        e2b_sandbox_fini(&list[i]);
    }
    free(list);
}

static void
try_refusal(const struct e2b_reply *r, bool has_headers)
{
    char host[] = "api.example.org";
    char setting[] = "api_key";
    const struct e2b_settings settings = {.host = host, .key_setting = setting};
    struct e2b_words w = {0};

    e2b_words_read(&w, r);
    check_line(w.text);
    require(strlen(w.text) <= MAX_WORDS_BYTES, "the length of what is said");
    require(strcasestr(w.text, "<html") == NULL, "a page");
    require(strlen(w.error_code) <= 64 &&
                strspn(w.error_code, "abcdefghijklmnopqrstuvwxyz_0123456789") ==
                    strlen(w.error_code),
            "a code that is none");
    for (int op = E2B_CREATE; op <= E2B_NETWORK; op++) {
        const struct e2b_refusal about = {
            .settings = &settings,
            .op = (enum e2b_op)op,
            .subject = "i7kq2m4xw9c0z5r1t8b6",
            .has_headers = has_headers,
        };
        struct error err = {0};
        enum e2b_fault fault = e2b_describe(&about, r, &w, &err);

        require(fault != E2B_FAULT_NONE, "a refusal that is none");
        require(err.code != ERR_NONE && err.http_status == r->status,
                "an error that is none");
        check_line(err.msg);
        require(str_starts(err.msg, host), "a message without its host");
    }
    e2b_words_fini(&w);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int statuses[] = {301, 400, 401, 403, 404, 405, 409,
                                   418, 429, 500, 501, 502, 503, 504};
    struct secret *key = secret_new(KEY, strlen(KEY));
    AUTO_FREE char *body = xstrndup((const char *)data, size);
    struct e2b_reply r = {
        .status = 200,
        .content_type = "application/json",
        .body = body,
        .body_len = size,
    };

    try_sandbox(&r);
    try_page(&r);
    for (size_t i = 0; i < LEN(statuses); i++) {
        r.status = statuses[i];
        try_refusal(&r, i % 2 == 0);
    }
    r.content_type = NULL;
    r.too_large = true;
    try_sandbox(&r);
    try_page(&r);
    try_refusal(&r, false);
    secret_free(key);
    return 0;
}
