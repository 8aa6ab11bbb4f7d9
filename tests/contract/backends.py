# SPDX-License-Identifier: GPL-3.0-or-later
"""The back ends that the contract test drives. Another one is one more entry
of a list: how sandbox_driver is told to open it, when it cannot be tried here,
and which scenes it cannot play, each with the reason."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]

import e2b_real  # noqa: E402
from e2b_server import unavailable  # noqa: E402
from e2b_session import E2bSession  # noqa: E402
from sandbox_session import Sandbox, landlock_abi  # noqa: E402


class Backend:
    """name: before the colon of each line. kind: what the driver's info calls
    it. start(*options): opens it and returns a Session. why_not(): a reason for
    which it cannot be tried here, or None. cannot: {scene: why it cannot be
    played}. suspends: the options without which it is never suspended. is_told:
    whether an interpreter that ends while nothing runs is noticed at once, and
    not only by the next cell."""

    def __init__(self, name, kind, start, why_not=lambda: None, cannot=None,
                 suspends=(), is_told=True):
        self.name = name
        self.kind = kind
        self.start = start
        self.why_not = why_not
        self.cannot = cannot or {}
        self.suspends = suspends
        self.is_told = is_told


def start_local(level):
    return lambda *options: Sandbox(*options, level=level)


def why_not_reduced():
    abi = landlock_abi()
    return "Landlock ABI %d is below 6" % abi if abi < 6 else None


def start_e2b(*given, **more):
    return lambda *options: E2bSession(*given, *options, **more)


def e2b(name, *given, cannot=None, why_not=unavailable, is_told=False, **more):
    """is_told: false where cells run in the service's interpreter, which says
    nothing unless it is asked to run something."""
    return Backend(name, "e2b", start_e2b(*given, **more), why_not, cannot,
                   suspends=("auto_pause=1",), is_told=is_told)


# A host as some are: the first version alone, files by forms, no interpreter
# but the one of its template, and the way to sandboxes by a path.
SAME = {} if os.environ.get("SANDPIPER_E2B_ALL") == "1" else {
    scene: "its interpreter is that of e2b; make check-e2b-all plays it"
    for scene in ("error", "table", "chart", "output order", "interrupt",
                  "timeout", "big output", "lost")}
OLD = {"create": ("v1",), "version": "0.5.2", "prefix": "/api/v1/sandbox",
       "min_timeout": 300}

LOCAL = [
    Backend("local", "local", start_local("full")),
    Backend("local-reduced", "local", start_local("reduced"),
            why_not=why_not_reduced),
]

# It makes no difference to them who runs the driver.
SERVICES = [
    e2b("e2b"),
    e2b("e2b-kernel", fake={"interpreters": ()}, is_told=True),
    e2b("e2b-v1", fake=OLD, in_path=True, cannot=SAME),
    e2b("e2b-real", server=e2b_real.RealService, why_not=e2b_real.why_not,
        cannot={"suspend and resume": "only a whole machine can be paused, and "
                "these are programs that somebody has started"}),
]
