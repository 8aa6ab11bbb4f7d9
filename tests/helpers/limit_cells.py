# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of limits share: is the sandbox still of use after a cell that
was stopped, and processes that wait until their cell is over.

    sb.cell(SLEEPERS % "fill_the_memory()")
    let_go(sb)
    must_work(sb)
"""

import os

# bwrap twice and the interpreter.
OWN_PROCESSES = 3

# %s: what each of eight does once let_go() was called.
SLEEPERS = """
import os, signal, time
for i in range(8):
    if os.fork() == 0:
        while not os.path.exists("/workspace/now"):
            time.sleep(0.05)
        %s
        signal.pause()
"""


def let_go(sb):
    open(os.path.join(sb.workspace(), "now"), "w").close()


def must_work(sb, expect_kept=None):
    """The next cell works; expect_kept: whether x is still 1."""
    cell = sb.cell("print('x' in globals() and x == 1)")
    assert cell.outcome == "ok", cell
    if expect_kept is not None:
        assert cell.stdout.strip() == str(expect_kept), cell
