/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "warden/warden_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "warden/orders.h"

#define MAX_PROCESSES 1000000

/* The whole text, which ends with NUL, and its length. */
static char *
read_text(size_t *len)
{
    struct stat st;
    char *text;
    ssize_t n;

    if (fstat(WARDEN_FD_ORDERS, &st) != 0)
        warden_fail("no orders: this program is run by sandpiper alone");
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > (off_t)WARDEN_MAX_ORDERS_BYTES)
        warden_refuse("no orders: this program is run by sandpiper alone");
    *len = (size_t)st.st_size;
    text = malloc(*len);
    if (text == NULL)
        warden_fail("orders");
    n = pread(WARDEN_FD_ORDERS, text, *len, 0);
    if (n < 0 || (size_t)n != *len || text[*len - 1] != '\0')
        warden_refuse("orders: cannot be read whole");
    return text;
}

static void
add_word(char *list[WARDEN_MAX_WORDS + 1], size_t *n, char *value)
{
    if (*n == WARDEN_MAX_WORDS)
        warden_refuse("orders: too many words");
    list[(*n)++] = value;
}

static void
add_rule(struct warden_orders *o, const char *kind, const char *path)
{
    if (o->n_rules == WARDEN_MAX_RULES)
        warden_refuse("orders: too many rules");
    if (path[0] != '/')
        warden_refuse("orders: a path is not absolute");
    o->rules[o->n_rules++] = (struct warden_rule){kind, path};
}

static void
take(struct warden_orders *o, const char *word, char *value)
{
    if (strcmp(word, WARDEN_READ) == 0 || strcmp(word, WARDEN_WRITE) == 0 ||
        strcmp(word, WARDEN_DEVICE) == 0) {
        add_rule(o, word, value);
    } else if (strcmp(word, WARDEN_ENVIRONMENT) == 0) {
        add_word(o->environment, &o->n_environment, value);
    } else if (strcmp(word, WARDEN_RUN) == 0) {
        add_word(o->command, &o->n_command, value);
    } else if (strcmp(word, WARDEN_DIRECTORY) == 0) {
        o->directory = value;
    } else if (strcmp(word, WARDEN_PROCESSES) == 0) {
        o->processes = strtol(value, NULL, 10);
        if (o->processes < 1 || o->processes > MAX_PROCESSES)
            warden_refuse("orders: number of processes");
    } else {
        /* One that is not understood may be a protection. */
        warden_refuse("orders: unknown word");
    }
}

void
warden_read_orders(struct warden_orders *orders)
{
    size_t len;
    char *p = read_text(&len);
    const char *end = p + len;

    memset(orders, 0, sizeof(*orders));
    orders->text = p;
    while (p < end) {
        char *value = p + strlen(p) + 1;

        if (value >= end)
            warden_refuse("orders: a word has no value");
        take(orders, p, value);
        p = value + strlen(value) + 1;
    }
    if (orders->directory == NULL || orders->n_command == 0 ||
        orders->command[0][0] != '/')
        warden_refuse("orders: no command or no directory");
}
