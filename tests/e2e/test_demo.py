#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demonstration: words from a file, everything else real."""

import csv
import json
import os
import re
import sys
from decimal import Decimal

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from pty_session import PtySession, run_piped  # noqa: E402
from replay import program, source_dir  # noqa: E402

EXAMPLES = os.path.join(source_dir(), "share", "examples")
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")

_run = {}


def demo():
    if "done" not in _run:
        _run["done"] = run_piped([program(), "--demo"], timeout=100)
    return _run["done"]


def words():
    """The model's texts, of the file that the demonstration plays."""
    with open(os.path.join(EXAMPLES, "demo.replay")) as f:
        exchanges = json.load(f)["exchanges"]
    return [b["text"] for e in exchanges for b in e.get("reply", [])
            if b["type"] == "text"]


def numbers(text):
    return {Decimal(m.rstrip(",").replace(",", "")).normalize()
            for m in NUMBER.findall(text)}


def shown():
    """All that was shown but for the model's words and code."""
    out = demo().stdout.decode()
    for text in words():
        assert text in out, "not in the output: %r" % text
        out = out.replace(text, "")
    err = demo().stderr.decode()
    # Code stands between two rules; a number in it was not computed.
    return out + re.sub(r"(?ms)^── \d+ python$.*?^──$", "", err)


def sales():
    with open(os.path.join(EXAMPLES, "sales.csv"), newline="") as f:
        return list(csv.DictReader(f))


def revenue_by_region():
    totals = {}
    for row in sales():
        if row["revenue"]:
            totals[row["region"]] = totals.get(row["region"], 0) + \
                Decimal(row["revenue"])
    return totals


def test_example_has_1000_rows():
    rows = sales()
    assert len(rows) == 1000, len(rows)
    assert all(len(row) == 5 and None not in row for row in rows)


@tap.timeout(120)
def test_ends_well_in_a_pipe():
    done = demo()
    assert done.status == 0, done
    for text in words():
        assert text in done.stdout.decode(), text


def test_says_that_the_words_were_written_in_advance():
    err = demo().stderr.decode()
    first_question = err.index("\n> ")
    assert "written in advance" in err[:first_question], err[:800]
    assert "really runs" in err or "code runs" in err


def test_asks_three_questions():
    assert len(re.findall(r"(?m)^> ", demo().stderr.decode())) == 3


def test_ends_with_how_to_use_a_key():
    tail = demo().stderr.decode().strip().split("\n")[-4:]
    assert any("ANTHROPIC_API_KEY" in line for line in tail), tail
    assert any("config.yaml" in line for line in tail), tail


def test_every_number_was_computed_in_this_run():
    have = numbers(shown())
    for text in words():
        missing = numbers(text) - have
        assert not missing, "%s not shown by the code: %r" % (
            sorted(map(str, missing)), text)


def test_a_false_number_would_be_noticed():
    have = numbers(shown())
    for text in ("58,751.53", "13 rows", "18.4%", "12.1"):
        assert not numbers(text) <= have, text


def test_numbers_are_those_of_the_file():
    """Computed again without pandas: the cells really ran, on this file."""
    out = shown()
    for region, total in revenue_by_region().items():
        assert re.search(r"%s\s*│\s*%s" % (region, "{:,.2f}".format(total)),
                         out), (region, total)
    empty = [row for row in sales() if not row["revenue"]]
    assert "rows without revenue: %d" % len(empty) in out
    scopes = [row for row in empty if row["region"] == "South" and
              row["product"] == "Spotting scope"]
    # "two of them South's spotting scopes" is said in words.
    assert len(scopes) == 2, scopes
    rows = [tuple(row.values()) for row in sales()]
    assert "exactly: %d" % (len(rows) - len(set(rows))) in out


def test_a_chart_was_saved():
    # The directory is gone with the run; its caption stays.
    assert re.search(rb"\.png", demo().stderr), demo().stderr


@tap.timeout(120)
def test_ends_well_on_a_terminal():
    with PtySession([program(), "--demo"], cols=100, rows=40,
                    profile="vt340") as s:
        assert s.wait_exit(100) == 0
        text = s.screen.all_text()
        assert "written in advance" in text
        assert "ANTHROPIC_API_KEY" in text[-1500:], text[-1500:]
        flat = " ".join(text.split())
        for said in words():
            for sentence in said.replace("- ", "").split("\n"):
                start = " ".join(sentence.split()[:6])
                assert start in flat, start
        assert s.screen.unexpected == [], s.screen.unexpected
        assert len(s.screen.images) == 1, s.screen.images
        assert s.descendants() == [], "left behind"


@tap.timeout(120)
def test_interrupt_ends_it():
    with PtySession([program(), "--demo"], cols=100, rows=40,
                    profile="vt340") as s:
        s.expect("python", 30)
        s.send(b"\x03")
        status = s.wait_exit(20)
        assert status == 130, status
        assert s.descendants() == []


def test_takes_no_question_and_no_file():
    for more in (["-c", "what?"], ["x.csv"]):
        done = run_piped([program(), "--demo"] + more)
        assert done.status == 2 and b"--demo" in done.stderr, done


if __name__ == "__main__":
    tap.main(globals())
