# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fake service says to the SDKs; a list per test.

Run by claude_server.py as a program (for JavaScript) and imported (for
Python), so that both SDKs meet the same service.
"""

import os

from claude_server import (block, cut, error, error_event, event, hang, ping,
                           redacted_thinking, reply, response, text, thinking,
                           tool_results, tool_use)

CODE = "n = 2**53 + 1\nprint('é', n)  # 😀"
SPENT = {"error_code": "enforced_spend_limit_reached"}
PAGE = b"<html><body>413 Request Entity Too Large</body></html>"


def answer(request):
    """The results of the tools, in the order in which they were asked for."""
    return reply(["Printed: " + " ".join(tool_results(request).values())])


def recorded(name):
    """One of the recorded streams, as it is."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "corpus", "fuzz_claude_stream",
                           name + ".sse"), "rb") as stream:
        return response(200, [stream.read()], {
            "content-type": "text/event-stream; charset=utf-8"}, chunk=7)


STREAM = [reply([text("Lisbon is ", "the capital of ", "Portugal 🇵🇹.")],
                usage={"input_tokens": 14, "cache_read_input_tokens": 1830,
                       "output_tokens": 16})]
BYTES = [reply([text("é and 😀 in single bytes")], chunk=1, crlf=True,
               leading=[ping()])]
WHOLE = [reply([text("All at once."), tool_use("run_python", {"code": "1"})])]
TOOL_USE = [
    reply([thinking("The file has two ", "columns."), ping(),
           text("I will ", "look."),
           tool_use("run_python", {"code": CODE, "n": 9007199254740991},
                    split=5)], leading=[ping()], chunk=7, crlf=True),
    answer,
]
PARALLEL = [
    reply([text("Both at once."),
           tool_use("run_python", {"code": "print(2**64)"}, split=3),
           tool_use("run_python", {"code": "print('two')"}),
           tool_use("run_python", fragments=[]),
           tool_use("run_python", fragments=[""])]),
    answer,
]
# Thinking that is shown, thinking of display "omitted" (a signature only),
# and thinking that is hidden: each is sent back twice.
THINKING = [
    reply([thinking("A first ", "thought."), text("One.")]),
    reply([thinking(), text("Two.")]),
    reply([redacted_thinking("c2VjcmV0"), thinking("A second."),
           text("Three.")]),
    reply(["Four."]),
]
ODD = [reply([ping(), text("Kept."),
              event("nobody_knows", {"type": "nobody_knows", "n": 1}),
              block({"type": "of_tomorrow", "what": [1, {"a": None}]},
                    [{"type": "of_tomorrow_delta", "x": 1}])],
             stop_reason="of_tomorrow",
             deltas=[{"delta": {}, "usage": {"output_tokens": 3}}])]
LEAN = [reply([text("Without nulls.")], lean=True)]
RECORDED = [recorded(name) for name in (
    "text", "tool", "two-tools", "thinking", "error", "max-tokens")]

RATE_LIMIT = [error(429, headers={"retry-after": "2"}), reply(["after 429"])]
RATE_LIMIT_MS = [error(429, headers={"retry-after-ms": "300",
                                     "retry-after": "5"}),
                 reply(["after 300 ms"])]
SPENT_ALWAYS = [error(429, details=SPENT)] * 3
OVERLOADED = [error(529), reply(["after 529"])]
OVERLOADED_ALWAYS = [error(529)] * 3
TRIED_AGAIN = [error(408), error(409), reply(["after two"])]
TOLD_TO_STOP = [error(529, headers={"x-should-retry": "false"})]
TOLD_TO_RETRY = [error(400, headers={"x-should-retry": "true"}),
                 reply(["after 400"])]
REFUSED = [error(400), error(401), error(402), error(403), error(404),
           error(413, body=PAGE, content_type="text/html")]
RESET_FIRST = [reply(["never"], before=[cut("reset")]),
               reply(["after a reset"])]
RESET_LATER = [reply([text("Half of ", cut("reset"), "it.")])]
STREAM_ERROR = [reply([text("The first step"), error_event()])]
EARLY_END = [reply([text("Half of it.")], finish=False)]
HANG_FIRST = [reply(["never"], before=[hang()]), reply(["after a hang"])]
HANG_LATER = [reply([text("Half of ", hang(), "it.")])]

COUNT = []
MALFORMED = []
EDITED = [reply([thinking("A thought."), text("An answer.")])]
