/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/marks_internal.h"

#include <stdbool.h>
#include <string.h>

#define RECORD_SEPARATOR '\x1e'
#define DIGITS_AT (2 + MARKS_NONCE_LEN + 1)

void
marks_init(struct marks *m, const char nonce[MARKS_NONCE_LEN])
{
    memset(m, 0, sizeof(*m));
    memcpy(m->nonce, nonce, MARKS_NONCE_LEN);
}

/* Whether c can follow what is held; *complete when it ends a mark. */
static bool
fits(const struct marks *m, char c, bool *complete)
{
    size_t at = m->n_held;
    size_t n_digits;

    *complete = false;
    if (at == 0)
        return c == '\0';
    if (at == 1)
        return c == RECORD_SEPARATOR;
    if (at < 2 + MARKS_NONCE_LEN)
        return c == m->nonce[at - 2];
    if (at == 2 + MARKS_NONCE_LEN)
        return c == ':';
    if (m->held[at - 1] == RECORD_SEPARATOR) {
        *complete = c == '\0';
        return *complete;
    }
    n_digits = at - DIGITS_AT;
    if (c >= '0' && c <= '9')
        return n_digits < MARKS_MAX_DIGITS &&
               !(n_digits == 1 && m->held[DIGITS_AT] == '0');
    return c == RECORD_SEPARATOR && n_digits > 0;
}

static uint64_t
held_number(const struct marks *m)
{
    uint64_t number = 0;

    for (size_t i = DIGITS_AT; m->held[i] != RECORD_SEPARATOR; i++)
        number = number * 10 + (uint64_t)(m->held[i] - '0');
    return number;
}

void
marks_flush(struct marks *m, struct marks_token *token)
{
    memset(token, 0, sizeof(*token));
    if (m->n_held == 0)
        return;
    memcpy(m->text, m->held, m->n_held);
    token->kind = MARKS_TEXT;
    token->text = m->text;
    token->len = m->n_held;
    m->n_held = 0;
}

/* Whether data begins with a mark, or with all that has come of one. */
static bool
may_begin(const struct marks *m, const char *data, size_t len)
{
    struct marks probe = *m;
    bool complete = false;

    if (len > 1 && data[1] != RECORD_SEPARATOR)
        return false;
    for (size_t i = 0; i < len && !complete; i++) {
        if (!fits(&probe, data[i], &complete))
            return false;
        probe.held[probe.n_held++] = data[i];
    }
    return true;
}

/* How many bytes are text for certain. NULs alone, as /dev/zero gives them,
   must not come out one by one. */
static size_t
text_len(const struct marks *m, const char *data, size_t len)
{
    const char *p = memchr(data, '\0', len);

    while (p != NULL && !may_begin(m, p, len - (size_t)(p - data)))
        p = memchr(p + 1, '\0', len - (size_t)(p + 1 - data));
    return p != NULL ? (size_t)(p - data) : len;
}

size_t
marks_next(struct marks *m, const char *data, size_t len,
           struct marks_token *token)
{
    size_t used = 0;
    bool complete;

    memset(token, 0, sizeof(*token));
    if (m->n_held == 0) {
        token->len = text_len(m, data, len);
        if (token->len > 0) {
            token->kind = MARKS_TEXT;
            token->text = data;
            return token->len;
        }
    }
    while (used < len) {
        if (!fits(m, data[used], &complete)) {
            /* Only the first byte of a mark is NUL until its last, so what is
               held begins no other mark; data[used] may. */
            marks_flush(m, token);
            return used;
        }
        m->held[m->n_held++] = data[used++];
        if (complete) {
            token->kind = MARKS_MARK;
            token->number = held_number(m);
            m->n_held = 0;
            return used;
        }
    }
    return used;
}
