#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cell prints reaches the model bounded, as text, and said to be cut;
and what reaches the screen is bounded too."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import STEP_S, Place, check_clean, results  # noqa: E402

import tap  # noqa: E402
from claude_server import ClaudeServer, reply, tool_use  # noqa: E402

LIMIT_BYTES = 12000
CUT = re.compile(r"\[(\w+), ([\d,]+) of ([\d,]+) bytes shown, beginning and "
                 r"end; to see more, print less at a time\]\n")


def counts(told):
    """(shown, total) of the only part that is cut."""
    (_, shown, total), = CUT.findall(told)
    return int(shown.replace(",", "")), int(total.replace(",", ""))


def told_of(code, config=None, timeout=STEP_S * 2):
    """Runs code as a cell of a script; (what the model was told, is_error,
    what came out)."""
    with Place() as place, ClaudeServer([
            reply([tool_use("run_python", {"code": code})]),
            reply(["Done."])]) as server:
        if config:
            place.config(config)
        done = place.script(server, "-c", "run", timeout=timeout)
        assert done.status == 0, done
        (told, is_error), = results(server.requests[1])
        assert "\0" not in told
        assert len(told.encode()) <= LIMIT_BYTES, len(told.encode())
        return told, is_error, done


def test_short_output_is_whole():
    told, _, _ = told_of("for i in range(300): print('line', i)")
    assert "line 0\n" in told and "line 150\n" in told and "line 299" in told
    assert "shown" not in told, told


def test_long_output_has_head_tail_and_counts():
    told, _, done = told_of(
        "for i in range(100000): print('number %06d' % i)")
    assert "number 000000" in told, told[:300]
    assert "number 099999" in told, told[-300:]
    assert "number 050000" not in told
    shown, total = counts(told)
    assert total == 100000 * 14, total
    assert 4000 < shown <= LIMIT_BYTES, shown
    assert len(told) > 6000, len(told)
    # The person sees a head and a tail as well.
    err = done.stderr.decode()
    assert "number 000000" in err and "number 099999" in err, done
    assert "left out" in err and len(err) < 100000, len(err)


def test_just_above_the_limit():
    """The bound and its count are exact where all but fits."""
    for size in (11000, 11600, 12000, 12288, 13000):
        told, _, _ = told_of("print('a' * %d)" % size)
        if not CUT.search(told):
            assert "a" * size in told, (size, len(told))
        else:
            shown, total = counts(told)
            assert total == size + 1, (size, total)
            assert shown < size + 1, (size, shown)


def test_one_long_line():
    told, _, _ = told_of("print('x' * 5000000)",
                         "limits:\n  output_kb: 16384\n")
    assert counts(told)[1] == 5000001, told[:300]


def test_wide_characters_are_not_cut():
    told, _, _ = told_of("print('\u4e2d\u00e9\U0001f600' * 20000)")
    assert "\ufffd" not in told.replace("\n", ""), told[-200:]
    assert "\u4e2d\u00e9\U0001f600" in told


def test_bytes_that_are_no_text():
    code = ("import os, sys\n"
            "n = os.write(1, b'begin \\x00\\x00 \\xff\\xfe \\xc3( \\xed\\xa0\\x80 "
            "\\xf0\\x9f\\x98 end\\n')\n")
    told, _, done = told_of(code)
    assert "begin" in told and "end" in told, told
    assert "\ufffd" in told, told
    check_clean(done.stderr)
    assert b"begin" in done.stderr and b"end" in done.stderr, done


def test_a_megabyte_of_noise():
    told, _, done = told_of(
        "import os\nn = os.write(1, os.urandom(1 << 20))\n")
    assert "[stdout, binary output, 1,048,576 bytes, not shown]\n" in told, told
    assert len(told) < 200, told
    check_clean(done.stderr)


def test_escape_sequences_in_output():
    told, _, done = told_of(
        "print('\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07 \\x1b[2J done')")
    assert "red" in told and "done" in told
    assert b"\x1b" not in done.stderr + done.stdout, done


def test_output_over_the_limit_of_a_cell():
    """The cell is stopped, and both are told so; its variables are kept."""
    with Place() as place, ClaudeServer([
            reply([tool_use("run_python", {
                "code": "kept = 5\nfor i in range(400000): "
                        "print('y' * 99)\nprint('the end')\n"})]),
            reply([tool_use("run_python", {"code": "print('kept', kept)"})]),
            reply(["Done."])]) as server:
        place.config("limits:\n  output_kb: 64\n")
        done = place.script(server, "-c", "run")
        assert done.status == 0, done
        (told, is_error), = results(server.requests[1])
        assert is_error and "Stopped" in told.split("yyy")[0], told[:300]
        assert "the end" not in told
        assert len(told.encode()) <= LIMIT_BYTES
        assert b"variables are kept" in done.stderr, done
        assert "kept 5" in results(server.requests[2])[0][0]


def test_a_big_table():
    told, _, done = told_of(
        "import pandas as pd\n"
        "pd.DataFrame({'c%d' % i: range(98214) for i in range(42)})\n")
    assert "98214 rows x 42 columns" in told, told[:200]
    assert re.search(r"\[\d+ of 98214 rows, \d+ of 42 columns shown", told), \
        told[-200:]
    assert len([line for line in told.splitlines() if "\t" in line]) <= 21
    # On stdout, cut as well, and said.
    out = done.stdout.decode() + done.stderr.decode()
    assert "98,214 rows" in out, done


def test_a_table_of_long_cells():
    told, _, _ = told_of(
        "import pandas as pd\n"
        "pd.DataFrame({'text': ['z' * 100000] * 50})\n")
    assert "50 rows" in told, told[:200]


def test_a_long_traceback():
    told, is_error, _ = told_of(
        "def f(n):\n    return f(n + 1)\nf(0)\n")
    assert is_error and "RecursionError" in told, told
    told, is_error, _ = told_of("raise ValueError('q' * 1000000)")
    assert is_error and "ValueError" in told, told[:300]


def test_output_and_an_error():
    told, is_error, _ = told_of(
        "for i in range(100000): print('number', i)\n1 / 0\n")
    assert is_error, told
    assert "ZeroDivisionError" in told and "number 0\n" in told
    assert "number 99999" in told, told[-600:]


def test_no_output():
    told, is_error, _ = told_of("x = 1")
    assert not is_error and "no output" in told, told


def test_stderr_is_told_too():
    told, is_error, done = told_of(
        "import sys\nprint('to stderr', file=sys.stderr)\n"
        "import warnings\nwarnings.warn('beware')\n")
    assert not is_error and "to stderr" in told and "beware" in told, told
    assert "[stderr, " in told and "[stdout" not in told, told
    assert b"to stderr" in done.stderr, done


def test_the_bound_is_a_setting():
    told, _, _ = told_of("print('v' * 100000)\nimport pandas as pd\n"
                         "pd.DataFrame({'n': range(50)})\n",
                         "limits:\n  result_kb: 5\n  result_rows: 6\n")
    assert 4000 < len(told) <= 5000, len(told)
    assert "[6 of 50 rows, " in told, told


def test_files_are_told():
    told, _, _ = told_of("open('notes.txt', 'w').write('abc')\n"
                         "import os; os.symlink('/etc/passwd', 'link')\n")
    shown = told.split("[charts and files]\n")[1]
    assert "file notes.txt, 3 B, given to the user\n" in shown, told
    assert "file link, " in shown and "not given to the user: " in shown, told


def test_many_calls_in_one_reply():
    with Place() as place, ClaudeServer([
            reply([tool_use("run_python", {"code": "print('w' * 50000)"})
                   for _ in range(4)]),
            reply(["Done."])]) as server:
        done = place.script(server, "-c", "run")
        assert done.status == 0, done
        for told, _ in results(server.requests[1]):
            assert len(told.encode()) <= LIMIT_BYTES, len(told)
            assert counts(told)[1] == 50001, told[:200]


if __name__ == "__main__":
    tap.main(globals())
