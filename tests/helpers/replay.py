# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies of the model for --replay-model, and where the program is.

    path = write_replay(folder, ["print(1)", "print(2)"], "All done.")

One question: each cell in a reply of its own, then the words. Several
questions: write_replay(folder, (cells, words), (cells, words), ...).
"""

import json
import os


def program():
    return os.path.abspath(os.environ.get("SANDPIPER", "./sandpiper"))


def source_dir():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.environ.get("abs_top_srcdir",
                          os.path.join(here, "..", ".."))


def write_replay(folder, *turns, name="replay.json"):
    if turns and not isinstance(turns[0], tuple):
        turns = [turns]
    exchanges = []
    for cells, words in turns:
        for code in cells:
            exchanges.append({"reply": [{
                "type": "tool_use", "id": "toolu_%d" % len(exchanges),
                "name": "run_python", "input": {"code": code}}]})
        exchanges.append({"reply": [{"type": "text", "text": words}]})
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        json.dump({"sandpiper-replay": 1, "exchanges": exchanges}, f)
    os.chmod(path, 0o644)
    return path
