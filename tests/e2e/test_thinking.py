#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of the model's thinking, in each form of display.thinking."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import STEP_S, Place, messages  # noqa: E402

import tap  # noqa: E402
from claude_server import (ClaudeServer, gate, redacted_thinking,  # noqa: E402
                           reply, text, thinking, tool_use)

LONG = ("The table has four regions and a year of days. " * 12 +
        "\n\nI total the units first.")


def turn():
    return [
        reply([thinking(LONG, gate("thought")),
               tool_use("run_python", {"code": "print(20 + 4)"})]),
        reply([thinking("That is all of it."), text("It is 24.")]),
    ]


def configure(place, mode):
    if mode:
        place.config("display:\n  thinking: %s\n" % mode)


def see(mode, **terminal):
    """A turn on a terminal; its screen, and that of :thinking behind it."""
    with Place() as place, ClaudeServer(turn()) as server:
        configure(place, mode)
        with place.repl(server, **terminal) as s:
            s.at_prompt()
            s.type_line("how many units?")
            if mode in ("brief", "hide"):
                # A second of it makes the line of the short form.
                s.shows("thinking · 1 s")
                assert "four regions" not in s.text()
                server.release("thought")
            else:
                s.shows("I total the units first.")
                server.release("thought")
            s.at_prompt()
            shown = s.text()
            s.ask(":thinking")
            asked = s.text()[len(shown):]
            # Whatever is shown, the model gets its own words back.
            assert LONG in str(messages(server.requests[1])).replace(
                "\\n", "\n")
            return shown, asked


@tap.timeout(60)
def test_shown_as_it_comes():
    for mode in (None, "show"):
        shown, asked = see(mode)
        assert " ".join(shown.split()).count("four regions") == 12, shown
        assert shown.index("I total the units first.") < shown.index(
            "── 1 python"), shown
        assert "That is all of it." in shown, shown
        assert "thought for" not in shown, shown
        assert "I total the units first." in asked, asked


@tap.timeout(60)
def test_in_short():
    """That it thought, and what it said it would run."""
    shown, asked = see("brief")
    assert "four regions" not in shown, shown
    lines = shown.splitlines()
    note = [i for i, line in enumerate(lines)
            if line.startswith("· thought for ")]
    assert len(note) == 1 and lines[note[0]].rstrip().endswith(
        " s · :thinking"), shown
    after = [line.rstrip() for line in lines[note[0] + 1:]]
    assert after[:4] == ["", "I total the units first.", "",
                         "── 1 python"], shown
    assert "That is all of it." not in shown, shown
    assert "It is 24." in shown, shown
    for words in ("four regions", "I total the units first.",
                  "That is all of it."):
        assert words in asked, asked


@tap.timeout(60)
def test_hidden():
    shown, asked = see("hide")
    for words in ("four regions", "I total", "That is all", "thought for"):
        assert words not in shown, shown
    assert "It is 24." in shown, shown
    assert "I total the units first." in asked, asked


@tap.timeout(60)
def test_in_a_script():
    """Standard output has the answer and nothing else."""
    for mode, wanted, unwanted in (
            (None, ("four regions", "I total", "That is all"), ()),
            ("brief", ("I total",), ("four regions", "That is all",
                                     ":thinking")),
            ("hide", (), ("four regions", "I total", "That is all"))):
        with Place() as place, ClaudeServer(turn()) as server:
            configure(place, mode)
            server.release("thought")
            done = place.script(server, "-c", "how many units?")
        assert done.status == 0 and done.stdout == b"It is 24.\n", done
        said = done.stderr.decode()
        for words in wanted:
            assert words in said, (mode, said)
        for words in unwanted:
            assert words not in said, (mode, said)


@tap.timeout(60)
def test_without_any():
    with Place() as place, ClaudeServer([
            reply([redacted_thinking("c2VjcmV0"), text("It is 24.")])
            ]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask(":thinking")
        s.has("· the model has not said what it thought")
        s.ask("how many?")
        s.has("It is 24.")
        s.has_not("thought for")


@tap.timeout(60)
def test_of_the_last_question_only():
    with Place() as place, ClaudeServer([
            reply([thinking("First thoughts."), text("One.")]),
            reply([thinking("Second thoughts."), text("Two.")])
            ]) as server:
        place.config("display:\n  thinking: hide\n")
        done = place.script(server, stdin="one?\n:thinking\ntwo?\n"
                            ":thinking\n", timeout=STEP_S)
    assert done.status == 0, done
    assert done.stdout.count(b"First thoughts.") == 1, done
    assert done.stdout.count(b"Second thoughts.") == 1, done


if __name__ == "__main__":
    tap.main(globals())
