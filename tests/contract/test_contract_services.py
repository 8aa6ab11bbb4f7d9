#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenes of test_contract.py, with services in the place of the local
sandbox."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers")]

import tap  # noqa: E402
from backends import SERVICES  # noqa: E402
from test_contract import main  # noqa: E402

if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("test_e2b.py and test_e2b_kernel.py are for this build")
    main(SERVICES)
