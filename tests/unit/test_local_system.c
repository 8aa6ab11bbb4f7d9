/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "sandbox/local_system_internal.h"

static struct local_system
parse(const char *text, size_t len)
{
    struct local_system system;

    memset(&system, 0, sizeof(system));
    local_system_parse_release(text, len, &system);
    return system;
}

static void
test_parse_release(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        enum local_distro expect;
        int expect_version;
        const char *expect_name;
    } cases[] = {
        {"Debian",
         "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian "
         "GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n",
         LOCAL_DISTRO_DEBIAN, 1200, "Debian GNU/Linux 12 (bookworm)"},
        {"Debian testing has no number", "ID=debian\nNAME=Debian\n",
         LOCAL_DISTRO_DEBIAN, 0, "Debian"},
        {"Ubuntu", "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n",
         LOCAL_DISTRO_UBUNTU, 2404, ""},
        {"Mint counts in its own way",
         "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"22\"\n"
         "UBUNTU_CODENAME=noble\n",
         LOCAL_DISTRO_UBUNTU, 2404, ""},
        {"a relative of Debian",
         "ID=raspbian\nID_LIKE=debian\nVERSION_ID=\"99\"\n",
         LOCAL_DISTRO_DEBIAN, 0, ""},
        {"Fedora", "ID=fedora\nVERSION_ID=42\n", LOCAL_DISTRO_FEDORA, 4200, ""},
        {"RHEL", "ID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n",
         LOCAL_DISTRO_RHEL, 904, ""},
        {"Rocky",
         "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"8.10\"\n",
         LOCAL_DISTRO_RHEL, 810, ""},
        {"a rebuild nobody knows",
         "ID=circle\nID_LIKE=\"rhel fedora\"\nVERSION_ID=9.1\n",
         LOCAL_DISTRO_RHEL, 901, ""},
        {"Leap",
         "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n"
         "VERSION_ID=\"15.6\"\n",
         LOCAL_DISTRO_SUSE, 1506, ""},
        {"Tumbleweed", "ID=\"opensuse-tumbleweed\"\nVERSION_ID=\"20260101\"\n",
         LOCAL_DISTRO_SUSE, 0, ""},
        {"Arch", "NAME=\"Arch Linux\"\nID=arch\nBUILD_ID=rolling\n",
         LOCAL_DISTRO_ARCH, 0, "Arch Linux"},
        {"Alpine", "ID=alpine\nVERSION_ID=3.20.1\n", LOCAL_DISTRO_ALPINE, 320,
         ""},
        {"another", "ID=void\nNAME=Void\n", LOCAL_DISTRO_OTHER, 0, "Void"},
        {"nothing", "", LOCAL_DISTRO_OTHER, 0, ""},
        {"no line end", "ID=debian", LOCAL_DISTRO_DEBIAN, 0, ""},
        {"ends of lines from elsewhere", "ID=debian\r\nVERSION_ID=12\r\n",
         LOCAL_DISTRO_DEBIAN, 1200, ""},
        {"comments and other keys", "#ID=arch\nXID=arch\nIDX=arch\nID=debian\n",
         LOCAL_DISTRO_DEBIAN, 0, ""},
        {"the last counts", "ID=arch\nID=debian\n", LOCAL_DISTRO_DEBIAN, 0, ""},
        {"quotes and escapes", "ID='debian'\nNAME=\"a \\\"b\\\" \\$c\"\n",
         LOCAL_DISTRO_DEBIAN, 0, "a \"b\" $c"},
        {"a quote that is not closed", "ID=\"debian\nVERSION_ID=12\n",
         LOCAL_DISTRO_DEBIAN, 1200, ""},
        {"a backslash at the end", "NAME=\"x\\", LOCAL_DISTRO_OTHER, 0, "x\\"},
        {"only signs", "=\n==\n=\"\nID\nID=\n", LOCAL_DISTRO_OTHER, 0, ""},
        {"numbers that are none",
         "ID=debian\nVERSION_ID=99999999999999999999\n", LOCAL_DISTRO_DEBIAN, 0,
         ""},
        {"a negative number", "ID=debian\nVERSION_ID=-12\n",
         LOCAL_DISTRO_DEBIAN, 0, ""},
        {"a minor that is too large", "ID=ubuntu\nVERSION_ID=24.999999\n",
         LOCAL_DISTRO_UBUNTU, 2400, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct local_system s = parse(cases[i].text, strlen(cases[i].text));

        if (s.distro != cases[i].expect ||
            s.version != cases[i].expect_version ||
            strcmp(s.name, cases[i].expect_name) != 0)
            fail_msg("%s: distribution %d, version %d, name \"%s\"",
                     cases[i].name, (int)s.distro, s.version, s.name);
    }
}

/* Nothing that it may hold breaks anything: it is only looked at. */
static void
test_parse_release_hostile(void **state)
{
    static const char nul[] = "ID=de\0bian\nVERSION_ID=1\0002\nNAME=a\0b\n";
    struct local_system s = parse(nul, sizeof(nul) - 1);
    size_t len = 200000;
    char *much = xmalloc(len + 1);
    char bytes[512];

    (void)state;
    assert_string_equal(s.name, "ab");

    memset(much, 'x', len);
    memcpy(much, "NAME=", 5);
    s = parse(much, len);
    assert_true(strlen(s.name) < sizeof(s.name));
    /* A name is cut between characters. */
    for (size_t i = 0; i + 2 <= len; i += 2)
        memcpy(much + i, "\xC3\xA4", 2);
    memcpy(much, "NAME=\"", 6);
    s = parse(much, len);
    assert_true(strlen(s.name) < sizeof(s.name));
    assert_int_equal(utf8_pending(s.name, strlen(s.name)), 0);
    memset(much, '\n', len);
    s = parse(much, len);
    assert_int_equal(s.distro, LOCAL_DISTRO_OTHER);

    for (unsigned seed = 1; seed < 3000; seed++) {
        unsigned x = seed * 2654435761u;
        size_t n = seed % sizeof(bytes);

        memcpy(bytes, "ID=ubuntu\nPRETTY_NAME=\"", 23);
        for (size_t i = seed % 23; i < n; i++) {
            x = x * 1103515245u + 12345u;
            bytes[i] = (char)(x >> 16);
        }
        s = parse(bytes, n);
        assert_true(strlen(s.name) < sizeof(s.name));
        assert_true(s.version >= 0 && s.version <= 100099);
    }
    free(much);
}

static void
test_mounts(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        bool expect_chroot;
        const char *expect_mask; /* NULL: none */
    } cases[] = {
        {"ordinary",
         "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
         "22 27 0:21 / /proc rw - proc proc rw\n",
         false, NULL},
        {"unreadable", "", false, NULL},
        {"chroot", "22 27 0:21 / /proc rw - proc proc rw\n", true, NULL},
        {"masked",
         "1 0 0:1 / / rw - overlay overlay rw\n"
         "2 1 0:2 / /proc rw - proc proc rw\n"
         "3 2 0:3 / /proc/kcore rw - tmpfs tmpfs rw\n"
         "4 2 0:3 / /proc/acpi ro - tmpfs tmpfs ro\n",
         false, "/proc/kcore"},
        {"mounts that show nothing more",
         "1 0 0:1 / / rw - ext4 x rw\n"
         "3 2 0:3 / /proc/sys/fs/binfmt_misc rw - binfmt_misc x rw\n",
         false, NULL},
        {"not lines of it", "x\n\n1 2\n1 2 3 4\n", true, NULL},
        {"cut in the middle", "1 0 0:1 / /", false, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *mask = local_system_find_mask(cases[i].text);

        if (local_system_mounts_say_chroot(cases[i].text) !=
            cases[i].expect_chroot)
            fail_msg("%s: chroot", cases[i].name);
        if ((mask == NULL) != (cases[i].expect_mask == NULL) ||
            (mask != NULL && strcmp(mask, cases[i].expect_mask) != 0))
            fail_msg("%s: mask %s", cases[i].name, mask);
        free(mask);
    }
}

static void
test_read(void **state)
{
    struct local_system s;

    (void)state;
    local_system_read(&s);
    assert_true(s.max_userns >= -1);
    assert_true(s.userns_clone >= -1 && s.userns_clone <= 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_release),
        cmocka_unit_test(test_parse_release_hostile),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_read),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
