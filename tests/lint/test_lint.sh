#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The lint finds what it is for: each check passes on a small clean tree and
# fails when a fault of its kind is planted there. Prints TAP.
set -eu

if [ -n "${SANDPIPER_SANITIZERS-}" ]; then
    echo "1..0 # SKIP the program has no part in it"
    exit 0
fi
top=${abs_top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d "${TMPDIR:-/tmp}/lint.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
number=0

result() {
    number=$((number + 1))
    echo "$1 $number - $2"
}

# plant CHECK WHAT FILE: the text on standard input is added to FILE of a copy
# of the clean tree, where CHECK must fail now.
plant() {
    rm -rf "$work/faulty"
    cp -R "$work/clean" "$work/faulty"
    mkdir -p "$(dirname "$work/faulty/$3")"
    cat >>"$work/faulty/$3"
    expect_fault "$1" "$2"
}

expect_fault() {
    status=0
    (cd "$work/faulty" && sh "tests/lint/$1.sh") >"$work/out" 2>&1 ||
        status=$?
    case $status in
    77) result ok "$1: $2 # SKIP $(tail -n 1 "$work/out")" ;;
    0) result 'not ok' "$1: $2" ;;
    1 | 123) result ok "$1: $2" ;;
    *)
        sed 's/^/# /' "$work/out"
        # mandoc and others have statuses of their own above 1; the shell's
        # for what cannot be run are none of them.
        if [ "$status" -lt 100 ]; then
            result ok "$1: $2"
        else
            result 'not ok' "$1: $2 (status $status)"
        fi
        ;;
    esac
}

id='SPDX-License-Identifier: GPL-3.0-or-later'

# ---- the clean tree --------------------------------------------------------

mkdir -p "$work/clean" && cd "$work/clean"
mkdir -p src/base src/ui src/net src/config src/picture include/base \
    include/net include/claude tests man build-aux
cp -R "$top/tests/lint" tests/
cp "$top/.clang-format" .
cp "$top/build-aux/embed.sh" "$top/build-aux/lists.sh" build-aux/
mkdir -p tests/unit

for name in base/one net/two claude/three; do
    guard=$(printf '%s_H' "$name" | tr 'a-z/' 'A-Z_')
    cat >"include/$name.h" <<EOF
/* $id */
#ifndef $guard
#define $guard

int ${name#*/}_get(void);

#endif
EOF
done
cat >src/base/one.c <<EOF
/* $id */
#include "base/one.h"

#include <stdio.h>

/* printf("no") and // are in a comment here */
int
one_get(void)
{
    const char *url = "https://example.org/ printf(";

    return url[0] + '"' + snprintf(NULL, 0, "%s", "stdout");
}
EOF
cat >src/net/two.c <<EOF
/* $id */
#include "net/two.h"

#include <curl/curl.h>

#include "base/one.h"

int
two_get(void)
{
    return one_get();
}
EOF
cat >src/ui/cmd_load.c <<EOF
/* $id */
#include "base/one.h"

static const struct command load = {
    .name = "load",
};
EOF
cat >src/config/options.def <<EOF
/* $id */
KEY("model.name", TEXT, model, "x", 0, 0, "", "model that is asked")
OPT("demo", 'd', FLAG, demo, NULL, "the demo")
EOF
cat >man/sandpiper.1 <<EOF
.\\" $id
.Dd January 1, 2025
.Dt SANDPIPER 1
.Os
.Sh NAME
.Nm sandpiper
.Nd ask about tables
.Sh DESCRIPTION
The option is
.Fl d
or
.Fl Fl demo ,
the command
.Ic :load ,
the key
.Ic model.name .
EOF
cat >configure.ac <<EOF
# $id
AC_INIT
EOF
cat >Makefile.am <<EOF
# $id
EOF
mkdir -p tests/unit
cat >src/Makefile.inc <<EOF
# $id
# list: src/*/*.c but src/picture/*
LIB_FILES = \\
    src/base/one.c \\
    src/net/two.c \\
    src/ui/cmd_load.c
EOF
cat >tests/Makefile.inc <<EOF
# $id
# list: tests/unit/test_*.c strip
UNIT_TESTS =
EOF

# One test is marked with all attacks.
mkdir -p docs
all=1
for n in $(seq 2 70); do
    all="$all, $n"
done
cat >tests/attacks.py <<EOF
# $id
def attack(*_):
    return lambda function: function


@attack($all)
def test_all():
    pass
EOF
cat >docs/testing.md <<EOF
## Protections that were taken away
| $all | all | each | \`test_all\` |
EOF

for check in format layers headers banned spdx lists shell python spelling \
    mandoc man attacks; do
    status=0
    sh "tests/lint/$check.sh" >"$work/out" 2>&1 || status=$?
    case $status in
    0) result ok "$check: a clean tree" ;;
    77)
        result ok "$check: a clean tree # SKIP $(tail -n 1 "$work/out")"
        ;;
    *)
        sed 's/^/# /' "$work/out"
        result 'not ok' "$check: a clean tree"
        ;;
    esac
done

# ---- planted faults --------------------------------------------------------

plant format 'a badly set line' src/base/one.c <<'EOF'
int  f( void ){return 1;}
EOF
plant layers 'ui includes claude' src/ui/cmd_load.c <<'EOF'
#include "claude/three.h"
EOF
plant layers 'base includes net' include/base/one.h <<'EOF'
#include "net/two.h"
EOF
plant layers 'an indented include' src/base/one.c <<'EOF'
#  include "net/two.h"
EOF
plant layers 'an internal header of another layer' src/net/two.c <<'EOF'
#include "base/one_internal.h"
EOF
plant layers 'a header without its layer' src/net/two.c <<'EOF'
#include "two.h"
EOF
plant layers 'a header of no layer' src/net/two.c <<'EOF'
#include "other/two.h"
EOF
plant layers 'our header in angle brackets' src/net/two.c <<'EOF'
#include <base/one.h>
EOF
plant layers 'a folder that is no layer' src/misc/a.c <<EOF
#include "base/one.h"
EOF
plant layers 'main includes an internal header' src/main.c <<'EOF'
#include "base/one_internal.h"
EOF
plant layers 'another layer includes the header of main' src/ui/repl.c <<'EOF'
#include "main_internal.h"
EOF
for header in curl/curl.h yaml.h readline/readline.h png.h sixel.h cJSON.h \
    cjson/cJSON.h; do
    plant layers "$header in base" src/base/one.c <<EOF
#include <$header>
EOF
done
plant layers 'readline in another file of ui' src/ui/repl.c <<'EOF'
#include <readline/readline.h>
EOF
plant headers 'a header without a guard' include/base/bare.h <<EOF
/* $id */
int bare(void);
EOF
plant headers 'a guard of another name' include/base/bare.h <<EOF
/* $id */
#ifndef BARE_H
#define BARE_H
int bare(void);
#endif
EOF
plant headers 'a header that needs another' include/base/needy.h <<EOF
/* $id */
#ifndef BASE_NEEDY_H
#define BASE_NEEDY_H
size_t needy(void);
#endif
EOF
for name in strcpy strcat strncpy sprintf gets strtok atoi atol system popen \
    wordexp tmpnam mktemp alloca rand; do
    plant banned "$name" src/base/one.c <<EOF
int bad = $name (1);
EOF
done
for call in 'printf("x")' 'puts("x")' "putchar('x')" 'fputs("x", stdout)' \
    'write(STDOUT_FILENO, "x", 1)' 'write(1, "x", 1)'; do
    plant banned "$call in base" src/base/one.c <<EOF
int bad = $call;
EOF
done
plant banned 'an AUTO_ local without a first value' src/base/one.c <<'EOF'

void three(void)
{
    AUTO_SBUF struct sbuf text;
}
EOF
plant banned 'a // comment' src/base/one.c <<'EOF'
int x; // here
EOF
plant spdx 'a C file without licence' src/base/none.c <<'EOF'
int x;
EOF
plant spdx 'a script without licence' tests/none.sh <<'EOF'
#!/bin/sh
true
EOF
plant spdx 'Python without licence' tests/none.py <<'EOF'
print(1)
EOF
plant lists 'a file that is in no list' src/base/new.c <<EOF
/* $id */
EOF
plant lists 'a unit test that is in no list' tests/unit/test_new.c <<EOF
/* $id */
EOF
plant shell 'an unquoted variable' tests/bad.sh <<EOF
#!/bin/sh
# $id
rm -rf \$1/x
EOF
plant python 'an import that is not used' tests/bad.py <<EOF
# $id
import os
EOF
# In two halves, so that this file is spelt well itself.
plant spelling 'a misspelt word' src/base/one.c <<EOF
/* $(printf 'reci%s' eve) */
EOF
plant mandoc 'a macro that is none' man/sandpiper.1 <<'EOF'
.Zz nothing
EOF
plant man 'an option that is in no manual' src/config/options.def <<'EOF'
OPT("frobnicate", 0, FLAG, x, NULL, "x")
EOF
plant man 'a letter that is in no manual' src/config/options.def <<'EOF'
OPT("demo", 'z', FLAG, x, NULL, "x")
EOF
plant man 'a key that is in no manual' src/config/options.def <<'EOF'
KEY("model.other", TEXT, x, NULL, 0, 0, "", "x")
EOF
plant man 'a command that is in no manual' src/ui/cmd_quit.c <<EOF
/* $id */
static const struct command quit = {
    .name = "quit",
};
EOF
plant attacks 'a row that names no test' docs/testing.md <<'EOF'
| 7 | x | y | `test_nothing` |
EOF
plant attacks 'a number that is none' tests/attacks.py <<'EOF'
@attack(71)
def test_more():
    pass
EOF
rm -rf "$work/faulty"
cp -R "$work/clean" "$work/faulty"
sed 's/, 70)/)/' "$work/clean/tests/attacks.py" >"$work/faulty/tests/attacks.py"
expect_fault attacks 'an attack that no test tries'
cp "$work/clean/tests/attacks.py" "$work/faulty/tests/attacks.py"
sed 's/, 70 |/ |/' "$work/clean/docs/testing.md" \
    >"$work/faulty/docs/testing.md"
expect_fault attacks 'an attack that is not in the table'

# run.sh is what make lint calls: its status and its line must say so.
rm -rf "$work/faulty"
cp -R "$work/clean" "$work/faulty"
echo '#include "claude/three.h"' >>"$work/faulty/src/ui/cmd_load.c"
if (cd "$work/faulty" && sh tests/lint/run.sh layers banned) >"$work/out" 2>&1
then
    result 'not ok' 'run: ends with 1 after a fault'
else
    result ok 'run: ends with 1 after a fault'
fi
if grep -q '^not ok 1 - lint layers' "$work/out" &&
    grep -q '^ok 2 - lint banned' "$work/out"; then
    result ok 'run: says which check found it'
else
    sed 's/^/# /' "$work/out"
    result 'not ok' 'run: says which check found it'
fi
echo "1..$number"
