/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"
#include "sandbox/e2b_events_internal.h"

static void
test_event_read_data(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        enum event_stream stream;
        const char *data; /* NULL: an error */
    } rows[] = {
        {"output", "{\"event\":{\"data\":{\"stdout\":\"eyJvIn0K\"}}}",
         EVENT_STDOUT, "{\"o\"}\n"},
        {"errors", "{\"event\":{\"data\":{\"stderr\":\"eA==\"}}}", EVENT_STDERR,
         "x"},
        {"a terminal", "{\"event\":{\"data\":{\"pty\":\"eA==\"}}}",
         EVENT_STDOUT, "x"},
        {"no byte", "{\"event\":{\"data\":{\"stdout\":\"\"}}}", EVENT_STDOUT,
         ""},
        {"nothing", "{\"event\":{\"data\":{}}}", EVENT_STDERR, ""},
        {"line feeds", "{\"event\":{\"data\":{\"stdout\":\"e\\nA=\\r\\n=\"}}}",
         EVENT_STDOUT, "x"},
        {"no padding", "{\"event\":{\"data\":{\"stdout\":\"eHk\"}}}",
         EVENT_STDOUT, "xy"},
        {"one digit", "{\"event\":{\"data\":{\"stdout\":\"e\"}}}", EVENT_STDOUT,
         NULL},
        {"no base64", "{\"event\":{\"data\":{\"stdout\":\"e*==\"}}}",
         EVENT_STDOUT, NULL},
        {"no JSON", "{\"event\":", EVENT_STDOUT, NULL},
        {"no object", "[]", EVENT_STDOUT, NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct e2b_event e = {0};
        struct error err = {0};
        int rc = e2b_event_read(rows[i].text, strlen(rows[i].text), &e, &err);

        if ((rc == 0) != (rows[i].data != NULL))
            fail_msg("%s: %d: %s", rows[i].name, rc, err.msg);
        if (rows[i].data == NULL) {
            assert_int_equal(err.code, ERR_PROTOCOL);
        } else {
            assert_int_equal(e.kind, E2B_EVENT_DATA);
            assert_int_equal(e.stream, rows[i].stream);
            assert_int_equal(e.len, strlen(rows[i].data));
            if (e.len > 0)
                assert_memory_equal(e.data, rows[i].data, e.len);
        }
        e2b_event_fini(&e);
    }
}

static void
test_event_read_start(void **state)
{
    static const struct {
        const char *text;
        int64_t pid; /* 0: an error */
    } rows[] = {
        {"{\"event\":{\"start\":{\"pid\":812}}}", 812},
        {"{\"event\":{\"start\":{\"pid\":\"812\"}}}", 812},
        {"{\"event\":{\"start\":{}}}", 0},
        {"{\"event\":{\"start\":{\"pid\":-1}}}", 0},
        {"{\"event\":{\"start\":{\"pid\":9e15}}}", 0},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct e2b_event e = {0};
        struct error err = {0};
        int rc = e2b_event_read(rows[i].text, strlen(rows[i].text), &e, &err);

        if ((rc == 0) != (rows[i].pid > 0))
            fail_msg("%s: %d", rows[i].text, rc);
        if (rc == 0) {
            assert_int_equal(e.kind, E2B_EVENT_START);
            assert_int_equal(e.pid, rows[i].pid);
        }
        e2b_event_fini(&e);
    }
}

static void
test_event_read_end(void **state)
{
    static const struct {
        const char *end;
        int exit_status;
        int signal;
    } rows[] = {
        {"{\"exited\":true,\"status\":\"exit status 0\"}", 0, 0},
        {"{}", 0, 0},
        {"{\"exitCode\":2,\"exited\":true,\"status\":\"exit status 2\"}", 2, 0},
        {"{\"exitCode\":\"3\"}", 3, 0},
        {"{\"exitCode\":1000}", 255, 0},
        {"{\"exitCode\":-1,\"status\":\"signal: killed\"}", -1, SIGKILL},
        {"{\"exitCode\":-1,\"status\":\"signal: terminated\"}", -1, SIGTERM},
        {"{\"exitCode\":-1,\"error\":\"signal: interrupt\"}", -1, SIGINT},
        {"{\"exitCode\":-1,\"status\":\"signal: Broken pipe\"}", -1, SIGPIPE},
        {"{\"exitCode\":-1,"
         "\"status\":\"signal: segmentation fault (core dumped)\"}",
         -1, SIGSEGV},
        {"{\"exitCode\":-1,\"status\":\"signal: alarm clock\"}", -1, SIGALRM},
        {"{\"exitCode\":-1,\"status\":\"signal: signal 40\"}", -1, 40},
        {"{\"exitCode\":-1,\"status\":\"signal: signal x\"}", -1, SIGKILL},
        {"{\"exitCode\":-1}", -1, SIGKILL},
        {"{\"status\":\"signal: killed\"}", -1, SIGKILL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        char text[200];
        struct e2b_event e = {0};
        struct error err = {0};

        snprintf(text, sizeof(text), "{\"event\":{\"end\":%s}}", rows[i].end);
        assert_int_equal(e2b_event_read(text, strlen(text), &e, &err), 0);
        assert_int_equal(e.kind, E2B_EVENT_END);
        if (e.exit_status != rows[i].exit_status || e.signal != rows[i].signal)
            fail_msg("%s: %d, %d", text, e.exit_status, e.signal);
    }
}

static void
test_event_read_others_are_skipped(void **state)
{
    static const char *const rows[] = {"{\"event\":{\"keepalive\":{}}}",
                                       "{\"event\":{\"news\":{\"pid\":1}}}",
                                       "{\"event\":{}}", "{\"event\":7}", "{}"};

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct e2b_event e = {0};
        struct error err = {0};

        assert_int_equal(e2b_event_read(rows[i], strlen(rows[i]), &e, &err), 0);
        assert_int_equal(e.kind, E2B_EVENT_OTHER);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_read_data),
        cmocka_unit_test(test_event_read_start),
        cmocka_unit_test(test_event_read_end),
        cmocka_unit_test(test_event_read_others_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
