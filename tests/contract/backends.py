# SPDX-License-Identifier: GPL-3.0-or-later
"""The back ends that the contract test drives. Another one is one more entry
of BACKENDS: how sandbox_driver is told to open it, when it cannot be tried
here, and which scenes it cannot play, each with the reason."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

from sandbox_session import Sandbox, landlock_abi  # noqa: E402


class Backend:
    """name: before the colon of each line. kind: what the driver's info calls
    it. start(*options): opens it and returns a session, as Sandbox is one.
    why_not(): a reason for which it cannot be tried here, or None. cannot:
    {scene: why it cannot be played}."""

    def __init__(self, name, kind, start, why_not=lambda: None, cannot=None):
        self.name = name
        self.kind = kind
        self.start = start
        self.why_not = why_not
        self.cannot = cannot or {}


def start_local(level):
    return lambda *options: Sandbox(*options, level=level)


def why_not_reduced():
    abi = landlock_abi()
    return "Landlock ABI %d is below 6" % abi if abi < 6 else None


BACKENDS = [
    Backend("local", "local", start_local("full")),
    Backend("local-reduced", "local", start_local("reduced"),
            why_not=why_not_reduced),
]
