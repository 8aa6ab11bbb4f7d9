# SPDX-License-Identifier: GPL-3.0-or-later
"""A TAP runner for test programs in Python.

    import tap

    def test_answer():
        assert 6 * 7 == 42

    @tap.timeout(60)
    def test_slow(): ...

    def test_root():
        if os.getuid() != 0:
            tap.skip("needs root")

    if __name__ == "__main__":
        tap.main(globals())

tap.skip_all("no openssl") before main() skips the whole program (status 77,
or that of TAP_SKIP_STATUS: Automake's TAP driver takes 0 or --ignore-exit).
Functions test_* run in the order they are written, each with a time limit
(default 30 s, times TAP_TIMEOUT_FACTOR for slow builds).  Arguments choose
tests: a whole name, or a part of names; --list prints them.
"""

import os
import re
import signal
import sys
import time
import traceback

# What whoever began the tests ignores (a shell does so for its background jobs)
# would be ignored by the programs under test too.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(_number, signal.SIG_DFL)

DEFAULT_TIMEOUT_S = 30

# How much slower than usual the machine or the build is.
FACTOR = float(os.environ.get("TAP_TIMEOUT_FACTOR", "1"))


class Skip(Exception):
    pass


class TimedOut(BaseException):
    """No Exception, so that `except Exception` in a test lets it pass."""


def skip(reason):
    raise Skip(reason)


def skip_all(reason):
    print("1..0 # SKIP %s" % _one_line(reason), flush=True)
    sys.exit(int(os.environ.get("TAP_SKIP_STATUS", "77")))


def timeout(seconds):
    def mark(function):
        function.tap_timeout = seconds
        return function
    return mark


def _one_line(text):
    return re.sub(r"\s+", " ", str(text))


def diag(text):
    """Prints diagnostics; control bytes are escaped."""
    for line in str(text).splitlines() or [""]:
        safe = "".join(c if c.isprintable() else
                       c.encode("unicode_escape").decode() for c in line)
        sys.stdout.write("# %s\n" % safe.encode(
            "utf-8", "backslashreplace").decode())
    sys.stdout.flush()


def _alarm(signum, frame):
    raise TimedOut()


def _run(function, limit):
    """(ok, directive, diagnostics)"""
    before = signal.signal(signal.SIGALRM, _alarm)
    # Repeats, so that a test that is also stuck in its cleanup ends.
    signal.setitimer(signal.ITIMER_REAL, limit, 5)
    try:
        function()
        return True, "", None
    except Skip as exc:
        return True, " # SKIP %s" % _one_line(exc), None
    except TimedOut:
        return False, "", "timed out after %g s\n%s" % (
            limit, traceback.format_exc())
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False, "", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _select(tests, wanted):
    chosen = []
    for name, function in tests:
        if not wanted or any(w == name or (w in name and w not in
                                           dict(tests)) for w in wanted):
            chosen.append((name, function))
    return chosen


def run(namespace, argv):
    """Runs the chosen tests; returns the exit status."""
    return run_tests([(name, value) for name, value in namespace.items()
                      if name.startswith("test_") and callable(value)], argv)


def run_tests(tests, argv):
    """The same for a list of names and functions."""
    if "--list" in argv:
        print("\n".join(name for name, _ in tests))
        return 0
    chosen = _select(tests, argv)
    if argv and not chosen:
        print("Bail out! no test is named %s" % " ".join(argv))
        return 1
    failed = 0
    print("1..%d" % len(chosen), flush=True)
    for number, (name, function) in enumerate(chosen, 1):
        start = time.monotonic()
        limit = getattr(function, "tap_timeout", DEFAULT_TIMEOUT_S) * FACTOR
        ok, directive, detail = _run(function, limit)
        print("%s %d - %s%s" % ("ok" if ok else "not ok", number, name,
                                directive), flush=True)
        if detail is not None:
            failed += 1
            diag(detail)
            diag("after %.2f s" % (time.monotonic() - start))
    return 1 if failed else 0


def main(namespace, argv=None):
    sys.exit(run(namespace, sys.argv[1:] if argv is None else argv))
