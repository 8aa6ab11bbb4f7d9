# SPDX-License-Identifier: GPL-3.0-or-later
"""What the fake service says to the SDKs; a list per test.

Run by claude_server.py as a program (for JavaScript) and imported (for
Python), so that both SDKs meet the same service.
"""

from claude_server import (error, error_event, ping, reply, text, thinking,
                           tool_results, tool_use)

CODE = "n = 2**53 + 1\nprint('é', n)  # 😀"

TOOL_USE = [
    reply([thinking("The file has two ", "columns."), ping(),
           text("I will ", "look."),
           tool_use("run_python", {"code": CODE, "n": 9007199254740991},
                    split=5)], leading=[ping()], chunk=7, crlf=True),
    lambda request: reply(["Printed: " + "".join(
        tool_results(request).values())]),
]
RATE_LIMIT = [error(429, headers={"retry-after": "1"}), reply(["after 429"])]
OVERLOADED = [error(529), reply(["after 529"])]
STREAM_ERROR = [reply([text("The first step"), error_event()])]
COUNT = []
MALFORMED = []
EDITED = [reply([thinking("A thought."), text("An answer.")])]
