# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies of the model for --replay-model, and where the program is.

    path = write_replay(folder, ["print(1)", "print(2)"], "All done.")

One question: each cell in a reply of its own, then the words. Several
questions: write_replay(folder, (cells, words), (cells, words), ...).
"""

import json
import os
import shutil
import tempfile


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


class Place:
    """A directory for runs that replay one cell, readable by whoever they
    become, with options for the program."""

    def __init__(self, code, config=None):
        self.top = tempfile.mkdtemp(prefix="replay-")
        os.chmod(self.top, 0o755)
        self.options = ["--replay-model",
                        write_replay(self.top, [code], "All done.")]
        if config:
            path = os.path.join(self.top, "config.yaml")
            with open(path, "w") as f:
                f.write(config)
            os.chmod(path, 0o600)
            self.options += ["--config", path]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top, ignore_errors=True)
