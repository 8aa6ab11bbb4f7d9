/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_events_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "sandbox/e2b_envelope_internal.h"
#include "sandbox/mime_bundle_internal.h"

#define SIGNAL_PREFIX "signal: "
#define MAX_PID INT64_C(4194304)
#define MAX_SIGNAL 64

/* In the words of the daemon's language, and of the C library. */
static const struct {
    const char *name;
    int signal;
} signals[] = {
    {"killed", SIGKILL},
    {"terminated", SIGTERM},
    {"interrupt", SIGINT},
    {"hangup", SIGHUP},
    {"quit", SIGQUIT},
    {"illegal instruction", SIGILL},
    {"trace/breakpoint trap", SIGTRAP},
    {"aborted", SIGABRT},
    {"bus error", SIGBUS},
    {"floating point exception", SIGFPE},
    {"user defined signal 1", SIGUSR1},
    {"segmentation fault", SIGSEGV},
    {"user defined signal 2", SIGUSR2},
    {"broken pipe", SIGPIPE},
    {"alarm clock", SIGALRM},
    {"cpu time limit exceeded", SIGXCPU},
    {"file size limit exceeded", SIGXFSZ},
    {"virtual timer expired", SIGVTALRM},
    {"profiling timer expired", SIGPROF},
    {"bad system call", SIGSYS},
    {"i/o possible", SIGIO},
    {"power failure", SIGPWR},
};

void
e2b_event_fini(struct e2b_event *e)
{
    free(e->data);
    memset(e, 0, sizeof(*e));
}

/* A number, or one in quotes as large ones are. */
static int64_t
number(const struct cJSON *json, const char *key, int64_t def)
{
    const char *text = json_string(json, key);
    int64_t n;

    if (text == NULL)
        return json_int(json, key, def);
    return str_to_int(text, INT64_MIN, INT64_MAX, &n, NULL) == 0 ? n : def;
}

static int
read_start(const struct cJSON *json, struct e2b_event *out, struct error *err)
{
    int64_t pid = number(json, "pid", 0);

    if (pid <= 0 || pid > MAX_PID)
        return err_set(err, ERR_PROTOCOL,
                       "an event: start: pid: is no number of a process");
    out->kind = E2B_EVENT_START;
    out->pid = pid;
    return 0;
}

/* Without white space, and padded. */
static char *
clean_base64(const char *text, size_t *len)
{
    char *clean = xmalloc(strlen(text) + 4);
    size_t n = 0;

    for (const char *p = text; *p != '\0'; p++)
        if (strchr(" \t\r\n", *p) == NULL)
            clean[n++] = *p;
    while (n % 4 != 0 && n % 4 != 1)
        clean[n++] = '=';
    clean[n] = '\0';
    *len = n;
    return clean;
}

static int
read_bytes(const char *text, struct e2b_event *out, struct error *err)
{
    size_t len = 0;
    AUTO_FREE char *clean = clean_base64(text, &len);

    if (len > 0) {
        out->data = (char *)mime_bundle_base64(
            clean, len, E2B_ENVELOPE_MAX_BYTES, &out->len);
        if (out->data == NULL)
            return err_set(err, ERR_PROTOCOL,
                           "an event: data: %zu bytes that are no base64", len);
    }
    return 0;
}

static int
read_data(const struct cJSON *json, struct e2b_event *out, struct error *err)
{
    const char *text = json_string(json, "stdout");

    if (text == NULL)
        text = json_string(json, "pty");
    out->kind = E2B_EVENT_DATA;
    out->stream = EVENT_STDOUT;
    if (text == NULL) {
        text = json_string(json, "stderr");
        out->stream = EVENT_STDERR;
    }
    return text != NULL ? read_bytes(text, out, err) : 0;
}

static int
find_signal(const char *name)
{
    int64_t n = 0;

    for (size_t i = 0; i < LEN(signals); i++)
        if (strncasecmp(name, signals[i].name, strlen(signals[i].name)) == 0)
            return signals[i].signal;
    if (str_starts(name, "signal ") &&
        str_to_int(name + strlen("signal "), 1, MAX_SIGNAL, &n, NULL) == 0)
        return (int)n;
    return SIGKILL;
}

static void
read_end(const struct cJSON *json, struct e2b_event *out)
{
    const char *status = json_string(json, "status");
    int64_t code = number(json, "exitCode", 0);

    out->kind = E2B_EVENT_END;
    if (status == NULL)
        status = json_string(json, "error");
    if (status == NULL)
        status = "";
    if (str_starts(status, SIGNAL_PREFIX)) {
        out->exit_status = -1;
        out->signal = find_signal(status + strlen(SIGNAL_PREFIX));
        return;
    }
    out->exit_status = code < 0 ? -1 : code > 255 ? 255 : (int)code;
    out->signal = code < 0 ? SIGKILL : 0;
}

int
e2b_event_read(const char *text, size_t len, struct e2b_event *out,
               struct error *err)
{
    AUTO_JSON struct cJSON *message = json_parse(text, len, 0, err);
    const struct cJSON *event = json_get(message, "event");
    const struct cJSON *json;

    memset(out, 0, sizeof(*out));
    if (message == NULL)
        return err_wrap(err, "an event");
    if (!json_is_object(message))
        return err_set(err, ERR_PROTOCOL, "an event is no object");
    json = json_get(event, "start");
    if (json != NULL)
        return read_start(json, out, err);
    json = json_get(event, "data");
    if (json != NULL)
        return read_data(json, out, err);
    json = json_get(event, "end");
    if (json != NULL)
        read_end(json, out);
    return 0;
}
