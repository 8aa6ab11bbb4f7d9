/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_level_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "sandbox/local_bwrap_internal.h"
#include "sandbox/local_probe_internal.h"
#include "sandbox/local_warden_internal.h"

static void
test_names(void **state)
{
    static const struct {
        const char *word;
        enum local_isolation expect;
    } cases[] = {
        {"full", LOCAL_FULL},
        {"full-without-proc", LOCAL_FULL_WITHOUT_PROC},
        {"reduced", LOCAL_REDUCED},
    };
    static const char *const refused[] = {"none", "", "Full", "reduced ", NULL};

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        enum local_isolation level = LOCAL_FULL;

        assert_true(local_isolation_find(cases[i].word, &level));
        assert_int_equal(level, cases[i].expect);
        assert_string_equal(local_isolation_name(level), cases[i].word);
    }
    for (size_t i = 0; i < LEN(refused); i++) {
        enum local_isolation level = LOCAL_REDUCED;

        assert_false(local_isolation_find(refused[i], &level));
        assert_int_equal(level, LOCAL_REDUCED);
    }
}

static void
test_landlock_versions(void **state)
{
    static const struct {
        int abi;
        const char *expect; /* NULL: enough */
    } cases[] = {
        {-1, "this system has none"},
        {0, "this system has none"},
        {1, "has ABI 1,"},
        {5, "has ABI 5,"},
        {6, NULL},
        {7, NULL},
        {100, NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct error err = {0};
        int rc = local_level_check_landlock(cases[i].abi, &err);

        assert_int_equal(rc, cases[i].expect == NULL ? 0 : -1);
        if (cases[i].expect == NULL)
            continue;
        assert_int_equal(err.code, ERR_SANDBOX);
        if (strstr(err.msg, cases[i].expect) == NULL ||
            strstr(err.msg, "needs Landlock ABI 6") == NULL ||
            strstr(err.msg, "\nfix: use Linux 6.12") == NULL)
            fail_msg("%s", err.msg);
    }
    assert_in_range(local_level_landlock(), 0, 1000);
}

static struct local_env
example_env(void)
{
    struct local_env env;

    local_env_init(&env);
    env.python = xstrdup("/opt/python/bin/python3");
    env.workspace = xstrdup("/w/workspace");
    env.data = xstrdup("/w/data");
    env.tmp = xstrdup("/w/tmp");
    env.binds[0] = xstrdup("/opt/python");
    env.n_binds = 1;
    env.fonts[0] = xstrdup("/c/fontlist-v330.json");
    env.n_fonts = 1;
    return env;
}

/* The orders as one line; the caller frees it. */
static char *
make_orders(const struct local_bwrap_spec *spec, const char *tz)
{
    AUTO_SBUF struct sbuf orders = {0};
    char *text;

    sbuf_init(&orders, 65536);
    local_warden_add_orders(&orders, spec, 2, tz);
    assert_true(sbuf_ok(&orders));
    assert_int_equal(orders.data[orders.len - 1], '\0');
    text = xmalloc(orders.len + 2);
    text[0] = ' ';
    for (size_t i = 0; i < orders.len; i++)
        text[i + 1] = orders.data[i] != '\0' ? orders.data[i] : ' ';
    text[orders.len + 1] = '\0';
    return text;
}

static void
test_orders_give_what_is_needed(void **state)
{
    static const char *const expect[] = {
        " read /usr ",
        " read /lib64 ",
        " read /etc/fonts ",
        " read /opt/python ",
        " read /c/fontlist-v330.json ",
        " read /w/data ",
        " write /w/workspace ",
        " write /w/tmp ",
        " device /dev/null ",
        " directory /w/workspace ",
        " processes 128 ",
        " environment PATH=/usr/bin:/bin ",
        " environment HOME=/w/tmp ",
        " environment TMPDIR=/w/tmp ",
        " environment MPLCONFIGDIR=/w/tmp/mpl ",
        " environment TZ=Europe/Berlin ",
        " environment SANDPIPER_WORKSPACE=/w/workspace ",
        " run /opt/python/bin/python3 run -I run /proc/self/fd/12 ",
    };
    static const char *const never[] = {
        " write /w ",  " write /w/data ", " write / ",   " read / ",
        " read /etc ", " read /home",     " read /proc", " read /dev",
        " read /sys",  " read /run",      " read /tmp ", " device /dev/tty ",
        " read /var ",
    };
    struct local_env env = example_env();
    struct local_bwrap_spec spec = {.env = &env, .processes = 128};
    AUTO_FREE char *text = make_orders(&spec, "Europe/Berlin");
    size_t n_writes = 0;

    (void)state;
    for (size_t i = 0; i < LEN(expect); i++)
        if (strstr(text, expect[i]) == NULL)
            fail_msg("%s is not there", expect[i]);
    for (size_t i = 0; i < LEN(never); i++)
        if (strstr(text, never[i]) != NULL)
            fail_msg("%s is there", never[i]);
    for (const char *p = strstr(text, " write "); p != NULL;
         p = strstr(p + 1, " write "))
        n_writes++;
    assert_int_equal(n_writes, 2);
    local_env_fini(&env);
}

static void
test_orders_of_a_probe(void **state)
{
    struct local_env env = example_env();
    struct local_bwrap_spec spec = {.env = &env, .command = "/usr/bin/true"};
    AUTO_FREE char *text = make_orders(&spec, "/etc/shadow");

    (void)state;
    assert_non_null(strstr(text, " run /usr/bin/true "));
    assert_null(strstr(text, "python3"));
    assert_null(strstr(text, "TZ="));
    assert_null(strstr(text, " processes "));
    local_env_fini(&env);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_landlock_versions),
        cmocka_unit_test(test_orders_give_what_is_needed),
        cmocka_unit_test(test_orders_of_a_probe),
    };

    return cmocka_run_group_tests_name("local_level", tests, NULL, NULL);
}
