# SPDX-License-Identifier: GPL-3.0-or-later
"""Every sentence that begins with `error: ` or `warning: ` in the soak, and
what a person can do about it. A sentence that is not here is a finding: either
it is no sentence that a person can act on, or this table lacks it."""

import re

# (pattern of the line, and what can be done)
KNOWN = [(re.compile(pattern), remedy) for pattern, remedy in [
    # The service.
    (r"the reply broke off and is asked for again; what was shown of it is "
     r"void", "wait: it is asked again"),
    (r"the service is overloaded", "ask again later"),
    (r"the service limits how often it is asked", "ask again later"),
    (r"the service has an internal problem", "ask again"),
    (r"the service took too long|the service is silent", "ask again"),
    (r"the service asks to wait 3,?600 s|wait (of )?3,?600 s",
     "ask again when the wait is over"),
    (r"the spend limit of the account is reached", "raise the limit"),
    (r"the key is not accepted|invalid x-api-key|the service does not accept "
     r"the key", "set another key"),
    (r"not this model", "choose another model"),
    (r"connection|broke off|closed by|reset|ended early|the reply ended",
     "ask again"),
    (r"the service refused the request: not at this moment", "ask again"),
    (r"no (secure )?connection to|the certificate of|the proxy",
     "look at the network"),
    (r"check model\.(base_url|api_key|name)", "look at the configuration"),
    (r"the service did not accept its own earlier thinking",
     "wait: it goes on without"),
    # The model.
    (r"the model declined to answer", "ask in other words"),
    (r"the model ended without an answer", "ask again"),
    (r"the answer was cut at (model\.max_tokens|[\d,]+ tokens)",
     "ask to continue"),
    (r"the reply was cut at [\d,]+ tokens, .*; what was shown of it is void, "
     r"and it is asked for again with up to [\d,]+", "wait: it is asked again"),
    (r"stopped: the reply was cut at [\d,]+ tokens, .*: model\.max_tokens",
     "ask for smaller steps"),
    (r"the reply ended with \w+, so its (call was|\d+ calls were) not run",
     "ask for it again"),
    (r"the conversation has filled the model's context",
     "begin a new session"),
    (r"a call of the model could not be run; it is told",
     "wait: the model tries again"),
    (r"limits\.rounds", "ask to go on"),
    (r"stopped before call \d+: \$|model\.budget_usd|limits\.turn_usd|"
     r"limits\.turn_seconds|:budget", "raise the limit"),
    (r"stopped: the model made the same call", "ask in another way"),
    # Cells.
    (r"cell \d+: The interpreter was ended", "load and compute again"),
    (r"(Loaded|Could not be loaded) again: \S", "load what is missing"),
    (r": The cell did not stop (when asked|at its time limit)",
     "load and compute again"),
    (r": The interpreter did not take the cell", "load and compute again"),
    (r"the cell left .*: a symbolic link; it is not copied",
     "have it write a file"),
    (r"the cell (left|shows) .*: larger than \d+ MB; it is not copied",
     "ask for it in parts"),
    (r"the interpreter has ended three times .* before the next question",
     "ask again"),
    # What was typed.
    (r"there is no command ':\w+'; (the nearest is ':\w+'|see :help)",
     "type another"),
    (r"usage: :\w+", "type it so"),
    (r"'\S+' is no number of a cell; the last is \d+", "name a cell"),
    (r"no cell has run yet", "ask first"),
    (r"there is nothing to try again", "ask"),
    (r"cell \d+ shows no chart and no table", "name another cell"),
    (r"there is no cell \d+", "name another cell"),
    (r"the table cannot be shown whole: ", "ask for the table again"),
    (r": there is no such file", "name another file"),
    (r": loading was stopped", "load it again"),
    (r": loading takes more than .*limits\.cell_seconds", "raise the limit"),
    (r"empty\.csv", "name a file that has rows"),
    (r"binary\.csv", "name a file of a kind that can be loaded"),
]]


def lines_of(shown):
    """The program's own errors and warnings, each as one line."""
    found = []
    inside = False
    for line in shown.split("\n"):
        if re.match(r"(?:stdin:\d+: )?(error|warning): ", line):
            found.append(line.rstrip())
            inside = True
        elif inside and line.startswith("  ") and line.strip():
            found[-1] += " " + line.strip()
        else:
            inside = False
    return found


def unknown(shown):
    return [line for line in lines_of(shown)
            if not any(pattern.search(line) for pattern, _ in KNOWN)]
