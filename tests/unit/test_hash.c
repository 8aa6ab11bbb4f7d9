/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#include "base/hash.h"

struct vector {
    const char *name;
    const char *text;
    size_t times;
    const char *expect_hex;
};

/* NIST's examples, and lengths around the place of the length. */
static const struct vector vectors[] = {
    {"empty", "", 0,
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "abc", 1,
     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"two blocks", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     1, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"112 bytes",
     "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
     "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
     1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {"million", "a", 1000000,
     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    {"55 bytes", "x", 55,
     "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
    {"56 bytes", "x", 56,
     "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e"},
    {"63 bytes", "x", 63,
     "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2"},
    {"64 bytes", "x", 64,
     "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
    {"65 bytes", "x", 65,
     "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9"},
    {"119 bytes", "x", 119,
     "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
    {"120 bytes", "x", 120,
     "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98"},
    {"128 bytes", "x", 128,
     "24da1b81d0b16df6428eee73c69fcb2a93c76bc6df706f0c6670fe6bfe800464"},
};

static void
test_vectors_in_pieces(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < LEN(vectors); i++) {
        const struct vector *v = &vectors[i];
        char hex[HASH_HEX_BYTES];
        struct hash h;

        hash_init(&h);
        for (size_t k = 0; k < v->times; k++) {
            hash_add(&h, v->text, strlen(v->text));
        }
        hash_end_hex(&h, hex);
        assert_string_equal(hex, v->expect_hex);
    }
}

static void
test_vectors_whole(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < LEN(vectors); i++) {
        const struct vector *v = &vectors[i];
        size_t len = strlen(v->text);
        char *data = malloc(len * v->times + 1);
        char hex[HASH_HEX_BYTES];

        assert_non_null(data);
        for (size_t k = 0; k < v->times; k++) {
            memcpy(data + k * len, v->text, len);
        }
        hash_hex(data, len * v->times, hex);
        assert_string_equal(hex, v->expect_hex);
        free(data);
    }
}

static void
test_every_split_is_the_same(void **unused)
{
    char data[200];
    char expect[HASH_HEX_BYTES];

    (void)unused;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (char)i;
    }
    hash_hex(data, sizeof(data), expect);
    for (size_t cut = 0; cut <= sizeof(data); cut++) {
        char hex[HASH_HEX_BYTES];
        struct hash h;

        hash_init(&h);
        hash_add(&h, data, cut);
        hash_add(&h, data + cut, sizeof(data) - cut);
        hash_end_hex(&h, hex);
        assert_string_equal(hex, expect);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_in_pieces),
        cmocka_unit_test(test_vectors_whole),
        cmocka_unit_test(test_every_split_is_the_same),
    };

    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
