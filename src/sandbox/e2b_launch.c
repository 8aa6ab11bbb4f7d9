/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_launch_internal.h"

#include <string.h>

#include "base/json.h"
#include "base/sbuf.h"
#include "sandbox/e2b_process_internal.h"
#include "sandbox/e2b_watch_internal.h"

/*
 * $1: the watch, $2: the limit in ms, $3: whether it takes input, then the
 * program. Without Python the next best, which leaves behind what is in another
 * process group; a second later, so that it is told by the clock.
 */
static const char wrapper[] =
    "if command -v python3 >/dev/null 2>&1; then\n"
    "  w=$1; shift; exec python3 -I -S -c \"$w\" \"$@\"\n"
    "fi\n"
    "ms=$2; in=$3; shift 3\n"
    "if [ \"$in\" != 1 ]; then exec </dev/null; fi\n"
    "if [ \"$ms\" -gt 0 ]; then\n"
    "  exec setsid timeout -k 2 \"$((ms / 1000 + 2))\" \"$@\"\n"
    "fi\n"
    "exec setsid \"$@\"\n";

size_t
e2b_launch_headers(const struct e2b_site *site,
                   struct http_header headers[E2B_RPC_MAX_HEADERS])
{
    size_t n = 0;

    headers[n++] = (struct http_header){"Connect-Protocol-Version", "1"};
    if (e2b_site_names_user(site))
        headers[n++] = (struct http_header){"Authorization", "Basic dXNlcjo="};
    return n;
}

static void
add_words(struct sbuf *sb, const struct e2b_process_spec *spec)
{
    sbuf_add_str(sb, "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",");
    json_add_str(sb, wrapper);
    sbuf_add_str(sb, ",\"sh\",");
    json_add_string(sb, (const char *)e2b_watch_py, e2b_watch_py_len);
    sbuf_addf(sb, ",\"%lld\",\"%d\"", (long long)spec->limit_ms,
              spec->takes_input ? 1 : 0);
    for (const char *const *word = spec->argv; *word != NULL; word++) {
        sbuf_add_char(sb, ',');
        json_add_str(sb, *word);
    }
    sbuf_add_char(sb, ']');
}

static void
add_env(struct sbuf *sb, const char *const *env)
{
    sbuf_add_str(sb, ",\"envs\":{");
    for (const char *const *pair = env; *pair != NULL; pair++) {
        const char *equals = strchr(*pair, '=');

        if (equals == NULL)
            continue;
        if (sb->data[sb->len - 1] != '{')
            sbuf_add_char(sb, ',');
        json_add_string(sb, *pair, (size_t)(equals - *pair));
        sbuf_add_char(sb, ':');
        json_add_str(sb, equals + 1);
    }
    sbuf_add_char(sb, '}');
}

void
e2b_launch_add(struct sbuf *sb, const struct e2b_process_spec *spec,
               const char *tag)
{
    add_words(sb, spec);
    if (spec->env != NULL)
        add_env(sb, spec->env);
    if (spec->cwd != NULL)
        json_add_member_str(sb, "cwd", spec->cwd);
    sbuf_add_char(sb, '}');
    json_add_member_bool(sb, "stdin", spec->takes_input);
    json_add_member_str(sb, "tag", tag);
    sbuf_add_char(sb, '}');
}

enum error_code
e2b_launch_error(enum e2b_code code)
{
    switch (code) {
    case E2B_UNAUTHENTICATED:
    case E2B_PERMISSION_DENIED:
        return ERR_AUTH;
    case E2B_RESOURCE_EXHAUSTED:
        return ERR_LIMIT;
    case E2B_UNIMPLEMENTED:
        return ERR_UNSUPPORTED;
    case E2B_DEADLINE_EXCEEDED:
        return ERR_TIMEOUT;
    case E2B_OK:
    case E2B_CANCELED:
    case E2B_UNKNOWN:
    case E2B_INVALID_ARGUMENT:
    case E2B_NOT_FOUND:
    case E2B_ALREADY_EXISTS:
    case E2B_FAILED_PRECONDITION:
    case E2B_ABORTED:
    case E2B_OUT_OF_RANGE:
    case E2B_INTERNAL:
    case E2B_UNAVAILABLE:
    case E2B_DATA_LOSS:
        break;
    }
    return ERR_REMOTE;
}
