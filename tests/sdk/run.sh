#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Proves the fakes of services with the vendors' unmodified SDKs: those of the
# Claude API, and those of E2B sandboxes, in Python also an old pair.
#
#     run.sh [js] [python] [e2b-js] [e2b-python] [e2b-old]
#
# Installs the pinned versions below SDK_CACHE (default: sdk-cache in the
# directory where it is run, i.e. the build tree) and runs the test programs
# as one TAP stream; without arguments those of the Claude API.  An SDK that
# cannot be installed is a skipped test with the reason; when none can, the
# status is 77.
set -u

if [ -n "${SANDPIPER_SANITIZERS-}" ]; then
    echo "the program has no part in it, so sanitizers tell nothing"
    exit 77
fi
here=$(cd "$(dirname "$0")" && pwd) || exit 1
cache=${SDK_CACHE:-sdk-cache}
mkdir -p "$cache" || exit 1
cache=$(cd "$cache" && pwd) || exit 1
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM

PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

version()
{
    sed -n "s/^$1=//p" "$here/versions"
}

skip()
{
    printf 'skip %s: %s\n' "$sdk" "$1" >>"$out"
}

# Prints the first error line of a log, else its last one.
reason()
{
    line=$(grep -i -E '^(npm )?error' "$1" | head -n 1)
    [ -n "$line" ] || line=$(tail -n 1 "$1")
    printf '%s\n' "$line" | tr -d '#' | cut -c 1-200
}

# Anything that would redirect an SDK or add headers must not leak in.
clean()
{
    env -u ANTHROPIC_API_KEY -u ANTHROPIC_AUTH_TOKEN -u ANTHROPIC_BASE_URL \
        -u ANTHROPIC_CUSTOM_HEADERS -u ANTHROPIC_LOG -u ANTHROPIC_PROFILE \
        -u E2B_API_KEY -u E2B_DOMAIN -u E2B_API_URL -u E2B_SANDBOX_URL \
        -u E2B_DEBUG -u E2B_ACCESS_TOKEN -u E2B_HTTP_VERSION \
        -u HTTP_PROXY -u http_proxy -u ALL_PROXY -u all_proxy \
        NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost "$@"
}

# Installs packages of npm into $dir.
install_npm()
{
    if [ -e "$dir/installed" ]; then
        return 0
    fi
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        skip "no node or npm"
        return 1
    fi
    mkdir -p "$dir" || exit 1
    if ! timeout 300 npm install --prefix "$dir" --ignore-scripts --no-save \
        --no-audit --no-fund --no-update-notifier --fetch-retries 1 \
        "$@" >"$dir/log" 2>&1; then
        skip "npm: $(reason "$dir/log")"
        return 1
    fi
    : >"$dir/installed"
}

# Installs packages of PyPI into $dir.
install_pip()
{
    if [ -e "$dir/installed" ]; then
        return 0
    fi
    mkdir -p "$dir" || exit 1
    if ! python3 -m venv "$dir/venv" >"$dir/log" 2>&1; then
        skip "venv: $(reason "$dir/log")"
        return 1
    fi
    if ! timeout 300 "$dir/venv/bin/pip" install --quiet --retries 1 \
        --disable-pip-version-check --no-input \
        "$@" >"$dir/log" 2>&1; then
        skip "pip: $(reason "$dir/log")"
        return 1
    fi
    : >"$dir/installed"
}

# Whether sandboxes of the fake can be made here.
can_have_sandboxes()
{
    why=$(PYTHONPATH="$here/../fakes" python3 -c \
        'from e2b_sandbox import unavailable; print(unavailable() or "")')
    [ -z "$why" ] || skip "no sandbox: $why"
    [ -z "$why" ]
}

# What each SDK is made of, and the program that tests it.
install_sdk()
{
    dir=$cache/$sdk-$(version "$sdk")
    case $sdk in
    e2b-*) can_have_sandboxes || return 1 ;;
    esac
    case $sdk in
    js) install_npm "@anthropic-ai/sdk@$(version js)" ;;
    python) install_pip "anthropic==$(version python)" ;;
    e2b-js)
        install_npm "@e2b/code-interpreter@$(version e2b-js)" \
            "e2b@$(version e2b-js-base)"
        ;;
    *)
        install_pip "e2b-code-interpreter==$(version "$sdk")" \
            "e2b==$(version "$sdk-base")"
        ;;
    esac
}

run_js()
{
    clean SDK_DIR="$dir/node_modules/@anthropic-ai/sdk" \
        timeout 120 node "$here/test_sdk_js.mjs"
}

run_python()
{
    clean timeout 120 "$dir/venv/bin/python" "$here/test_sdk_python.py"
}

run_e2b_js()
{
    clean SDK_DIR="$dir/node_modules/@e2b/code-interpreter" \
        timeout 300 node "$here/test_e2b_js.mjs"
}

run_e2b_python()
{
    clean timeout 300 "$dir/venv/bin/python" "$here/test_e2b_python.py"
}

run_sdk()
{
    case $sdk in
    js) run_js ;;
    python) run_python ;;
    e2b-js) run_e2b_js ;;
    *) run_e2b_python ;;
    esac
}

[ $# -gt 0 ] || set -- js python
ran=0
for sdk; do
    case $sdk in
    js | python | e2b-js | e2b-python | e2b-old) ;;
    *)
        echo "usage: run.sh [js] [python] [e2b-js] [e2b-python] [e2b-old]" >&2
        exit 2
        ;;
    esac
    if install_sdk; then
        ran=$((ran + 1))
        run_sdk >>"$out" || echo "status $sdk: $?" >>"$out"
    fi
done

if [ $ran -eq 0 ]; then
    why=$(sed -n 's/^skip //p' "$out" | paste -s -d ';' -)
    echo "1..0 # SKIP $why"
    exit 77
fi

# One plan and one numbering for all programs. A program that ended badly
# without a failed test of its own (a crash) is a failed test.
awk '
/^1\.\.[0-9]/ { expected += substr($0, 4); next }
/^(not )?ok [0-9]+/ {
    n++
    if ($1 == "not") { bad++; sub(/^not ok [0-9]+/, "not ok " n) }
    else sub(/^ok [0-9]+/, "ok " n)
    print
    next
}
/^skip / { n++; expected++; sub(/^skip /, ""); s = $0
    w = s; sub(/:.*/, "", w); sub(/^[^:]*: /, "", s)
    print "ok " n " - SDK for " w " # SKIP " s; next }
/^status / { status = 1; print "# " $0; next }
{ print }
END {
    if (n != expected || (status && !bad)) {
        n++
        bad++
        print "not ok " n " - every program ran to its end"
    }
    print "1.." n + 0
    exit bad > 0
}' "$out"
