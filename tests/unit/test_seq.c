/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/seq.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/sbuf.h"

/* A sequence that is not closed would swallow what follows it. */
static void
test_text_every_one_is_whole(void **state)
{
    (void)state;
    for (int id = 0; id <= SEQ_ST; id++) {
        const char *text = seq_text((enum seq)id);
        size_t len;

        assert_non_null(text);
        len = strlen(text);
        assert_true(len >= 2);
        text += text[0] == '\r' ? 1 : 0;
        assert_int_equal(text[0], '\033');
        if (text[1] == '[') {
            size_t n = strspn(text + 2, "0123456789;?>");

            assert_true(text[2 + n] >= 0x40 && text[2 + n] <= 0x7E);
            assert_int_equal(text[3 + n], '\0');
        } else if (strcmp(text, "\033\\") != 0) {
            assert_string_equal(text + len - 2, "\033\\");
        }
    }
}

static void
test_add_with_numbers(void **state)
{
    struct sbuf sb;

    (void)state;
    sbuf_init(&sb, 200);
    seq_add(&sb, SEQ_LINE_RESTART);
    seq_add_sgr(&sb, "0;1;31");
    seq_add_sgr(&sb, "");
    seq_add_cha(&sb, 1);
    seq_add_cha(&sb, 120);
    seq_add_up(&sb, 3);
    seq_add_up(&sb, 0);
    seq_add_up(&sb, -1);
    assert_string_equal(sb.data, "\r\033[K\033[0;1;31m\033[m\033[1G\033[120G"
                                 "\033[3A");
    sbuf_fini(&sb);
}

/* Runs in a child, since it must not return. */
static void
test_add_sgr_refuses_other_bytes(void **state)
{
    static const char *const refused[] = {"1m\033]0;x\a", "1:2", "?25", " 1"};

    (void)state;
    for (size_t i = 0; i < LEN(refused); i++) {
        int status = 0;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            const struct rlimit none = {0, 0};
            struct sbuf sb;

            setrlimit(RLIMIT_CORE, &none);
            signal(SIGABRT, SIG_DFL);
            close(STDERR_FILENO);
            sbuf_init(&sb, 200);
            seq_add_sgr(&sb, refused[i]);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_every_one_is_whole),
        cmocka_unit_test(test_add_with_numbers),
        cmocka_unit_test(test_add_sgr_refuses_other_bytes),
    };

    return cmocka_run_group_tests_name("seq", tests, NULL, NULL);
}
