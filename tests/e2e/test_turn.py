#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""One turn: ask, run the code, answer; and that all of it streams."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (SALES, STEP_S, Place, messages, question,  # noqa: E402
                     results, run)

import tap  # noqa: E402
from claude_server import (ClaudeServer, gate, ping,  # noqa: E402
                           redacted_thinking, reply, text, thinking,
                           tool_results, tool_use)


@tap.timeout(60)
def test_text_is_shown_as_it_streams():
    with Place() as place, ClaudeServer([
            reply([text("The first half", gate("half"),
                        " and the second half.")])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("what is there?")
        s.shows("The first half")
        server.wait_reached("half", STEP_S)
        s.has_not("second half")
        assert not s.is_at_prompt()
        server.release("half")
        s.at_prompt()
        s.has("The first half and the second half.")


@tap.timeout(60)
def test_thinking_is_shown_as_it_streams():
    with Place() as place, ClaudeServer([
            reply([thinking("Weighing the first", gate("half"),
                            " against the second."), text("Done.")])
            ]) as server, place.repl(server) as s:
        s.at_prompt()
        s.type_line("what is there?")
        s.shows("Weighing the first")
        s.has_not("against")
        server.release("half")
        s.at_prompt()
        s.has("against the second.")


@tap.timeout(60)
def test_print_is_visible_before_the_sleep_ends():
    code = "import time\nprint('early', 'bird')\ntime.sleep(3600)\n"
    with Place() as place, ClaudeServer([
            reply([run(code)]), reply(["It was stopped."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.type_line("wait")
        s.shows("early bird")
        assert not s.is_at_prompt()
        s.send(b"\x03")
        s.at_prompt()
        s.ask("what happened?")
        (told, is_error), = results(server.requests[1])
        assert "early bird" in told and is_error, told
        s.has("It was stopped.")


@tap.timeout(60)
def test_a_whole_turn():
    code = ("totals = sales.groupby('region')['units'].sum()\n"
            "print('rows used:', len(sales))\n"
            "totals.to_frame()\n")

    def answer(request):
        told, = tool_results(request).values()
        found = re.search(r"South\s+(\d+)", told)
        return reply(["South has %s units." % (found and found[1])])

    with Place() as place, ClaudeServer([
            reply([text("I will add them up."), run(code)]), answer
            ]) as server:
        place.file("sales.csv")
        with place.repl(server, "sales.csv") as s:
            s.shows("4 rows")
            s.at_prompt()
            s.ask("Which region has the most units?")
            shown = s.text()
            for wanted in ("I will add them up.", "── 1 python",
                           "print('rows used:', len(sales))",
                           "│ rows used: 4", "South has 10 units."):
                assert wanted in shown, (wanted, shown)
            assert re.search(r"^ ?South +│ +10$", shown, re.M), shown
            assert shown.index("I will add") < shown.index("── 1 python") < \
                shown.index("rows used: 4") < shown.index("South has"), shown
        first, second = server.message_requests
        assert "Which region has the most units?" in question(first)
        (told, is_error), = results(second)
        assert "rows used: 4" in told and not is_error, told
        assert "ok" in told.splitlines()[0], told
        # Nothing that was sent is changed by what follows.
        assert messages(second)[:1] == messages(first)


@tap.timeout(60)
def test_two_calls_in_one_reply():
    with Place() as place, ClaudeServer([
            reply([run("y = 20\nprint('one')"),
                   run("print('two', y + 1)")]),
            reply(["Both ran."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("run two")
        shown = s.text()
        assert "── 1 python" in shown and "── 2 python" in shown, shown
        request = server.requests[1]
        told = results(request)
        assert [("one" in told[0][0], "two 21" in told[1][0])] == \
            [(True, True)], told
        calls = [b["id"] for b in messages(request)[-2][1]
                 if b["type"] == "tool_use"]
        answered = [b["tool_use_id"] for b in messages(request)[-1][1]
                    if b["type"] == "tool_result"]
        assert calls == answered and len(calls) == 2, (calls, answered)


@tap.timeout(60)
def test_thinking_is_sent_back_unchanged():
    words = "Hm. \u00e9\u4e2d \"quoted\" \\ back\nand on"
    with Place() as place, ClaudeServer([
            reply([thinking(words, signature="c2lnbmVk" * 40, split=3),
                   redacted_thinking("b3BhcXVl" * 30),
                   text("First."), run("print(1)")]),
            reply([thinking("More.", signature="bW9yZQ==" * 40),
                   text("Second.")]),
            reply(["Third."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("think")
        s.ask("again")
        request = server.requests[1]
        content = messages(request)[1][1]
        assert content[0] == {"type": "thinking", "thinking": words,
                              "signature": "c2lnbmVk" * 40}, content[0]
        assert content[1] == {"type": "redacted_thinking",
                              "data": "b3BhcXVl" * 30}, content[1]
        assert [b["type"] for b in content] == [
            "thinking", "redacted_thinking", "text", "tool_use"], content
        # The whole of it is the beginning of every later request.
        assert messages(server.requests[2])[:3] == messages(request)


@tap.timeout(60)
def test_a_reply_byte_by_byte():
    words = "Gr\u00fc\u00dfe aus \u4e2d\u56fd, 10 \u20ac."
    with Place() as place, ClaudeServer([
            reply([ping(), thinking("Slowly."), text(words)], chunk=1,
                  crlf=True),
            reply([run("print('n\u00fc\u4e2d')")], chunk=1, lean=True),
            reply([text(words)], chunk=7, with_usage=False)]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("greet")
        s.has(words)
        s.ask("print")
        assert "n\u00fc\u4e2d" in results(server.requests[2])[0][0]
        assert messages(server.requests[1])[1][1][-1]["text"] == words


@tap.timeout(60)
def test_the_conversation_and_the_variables_go_on():
    with Place() as place, ClaudeServer([
            reply([run("kept = 41")]), reply(["Set."]),
            reply([run("print('kept is', kept + 1)")]), reply(["42."])
            ]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("set it")
        s.ask("show it")
        assert "kept is 42" in results(server.requests[3])[0][0]
        s.has("── 2 python")
        roles = [role for role, _ in messages(server.requests[3])]
        assert roles == ["user", "assistant"] * 3 + ["user"], roles


@tap.timeout(60)
def test_an_empty_end_is_asked_again_once():
    with Place() as place, ClaudeServer([
            reply([run("print(6 * 7)")]), reply([]), reply(["It is 42."])
            ]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("what is it?")
        s.has("It is 42.")
        assert len(server.message_requests) == 3


@tap.timeout(60)
def test_no_answer_is_said():
    with Place() as place, ClaudeServer([reply([])]) as server:
        done = place.script(server, "-c", "anything?")
        assert done.status == 1, done
        assert done.stdout.strip() == b"", done
        assert b"without an answer (end_turn); ask again, or in another way" \
            in done.stderr, done


@tap.timeout(60)
def test_a_cut_answer_is_said():
    with Place() as place, ClaudeServer([
            reply(["The beginning of"], stop_reason="max_tokens")
            ]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("tell me all")
        s.has("The beginning of")
        s.has("model.max_tokens")


@tap.timeout(60)
def test_a_refusal_is_said_and_forgotten():
    with Place() as place, ClaudeServer([
            reply([], stop_reason="refusal"),
            reply(["Of course."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("something bad")
        s.has("declined")
        s.ask("something good")
        s.has("Of course.")
        assert "something bad" not in question(server.requests[1])
        assert len(messages(server.requests[1])) == 1


@tap.timeout(60)
def test_a_refusal_behind_cells_does_not_stay():
    """A service that refuses whatever has the bad question in it, from the
    second reply on: the next question is answered all the same."""
    def answer(request):
        said = str(messages(request))
        if "something bad" not in said:
            assert "Cell 1 ran for a question that is no part" in said, said
            assert "ran-once" not in said, said
            return reply(["Of course."])
        return reply([text("Half of ")], stop_reason="refusal",
                     stop_details={"type": "refusal", "category": "cyber",
                                   "explanation": "one line\nand another"})

    with Place() as place, ClaudeServer([
            reply([text("I look."), run("print('ran-' + 'once')")]), answer,
            answer]) as server, place.repl(server, cols=200) as s:
        s.at_prompt()
        s.ask("something bad")
        s.has("error: the model declined to answer: one line and another\n"
              "  the question and what came of it are out of the "
              "conversation; ask in another way")
        s.ask("something good")
        s.has("Of course.")
        assert len(messages(server.requests[2])) == 1


@tap.timeout(60)
def test_the_model_can_be_wrong_about_tools():
    with Place() as place, ClaudeServer([
            reply([tool_use("run_shell", {"command": "ls"})]),
            reply([tool_use("run_python", {"source": "1"})]),
            reply([tool_use("run_python", fragments=['{"code": 1'])]),
            reply([tool_use("run_python", fragments=[])]),
            reply(["I give up."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("try")
        s.has("I give up.")
        s.has_not("── 1 python")
        for request in server.requests[1:]:
            (told, is_error), = results(request)
            assert is_error and "Not executed" in told, told
        assert "run_shell" in results(server.requests[1])[0][0]


@tap.timeout(60)
def test_charts_are_told_and_captioned():
    code = ("import matplotlib.pyplot as plt\n"
            "plt.plot([1, 2, 3])\nplt.title('Three points')\n")
    with Place() as place, ClaudeServer([
            reply([run(code)]), reply(["There it is."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("plot", 60)
        s.has("Three points")
        s.has(":save 1")
        assert "chart shown to the user" in results(server.requests[1])[0][0]
        assert "\x1bP" not in bytes(s.transcript).decode("latin-1")


@tap.timeout(60)
def test_a_question_while_the_sandbox_starts():
    """Neither the prompt nor a question waits for the sandbox."""
    with Place() as place, ClaudeServer([
            reply([run("print(len(sales))")]), reply(["Four."])]) as server:
        place.file("sales.csv", SALES)
        with place.repl(server, "sales.csv") as s:
            s.expect(b"> ")
            s.send("how many?")
            s.shows("how many?")
            s.send("\r")
            s.shows("Four.")
            s.at_prompt()
        assert "4" in results(server.requests[1])[0][0]
        assert "`sales`" in question(server.requests[0])


if __name__ == "__main__":
    tap.main(globals())
