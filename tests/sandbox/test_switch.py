#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""One sandbox in the place of another: what comes along, and what of the old
one is left."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from sandbox_session import Sandbox, wait_until  # noqa: E402


def gone(pids):
    wait_until(lambda: not any(os.path.exists("/proc/%d" % p) for p in pids),
               20, "processes of the old one are left")


def load(sb, name, text):
    path = os.path.join(sb.dir, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o644)
    sb.request(op="put", path=path, name=name)
    assert sb.wait("op")["end"] == "done"
    sb.request(op="loaded", path=path, name=name, variable=name[:-4],
               setup="%s = open('data/%s').read()" % (name[:-4], name))
    return path


@tap.timeout(90)
def test_files_come_along_and_variables_do_not():
    with Sandbox() as sb:
        load(sb, "a.csv", "1")
        changed = load(sb, "b.csv", "2")
        sb.cell("x = 1\nopen('mine', 'w').close()")
        with open(changed, "a") as f:
            f.write("3")
        old = sb.workspace()
        pids = sb.descendants()
        assert sb.switch()["end"] == "done"
        gone(pids)
        wait_until(lambda: not os.path.exists(old), 20,
                   "the old workspace is left")
        cell = sb.cell("import os\nprint(a, b, 'x' in globals(), "
                       "os.path.exists('mine'))")
        assert cell.stdout == "1 23 False False\n", cell
        loss = sb.take_loss()
        assert "switched to another sandbox" in loss, loss
        assert loss.endswith("Loaded again: a, b. b.csv has changed since it "
                             "was loaded."), loss


@tap.timeout(90)
def test_it_is_like_any_other_afterwards():
    with Sandbox() as sb:
        load(sb, "a.csv", "1")
        assert sb.switch()["end"] == "done"
        sb.cell("x = 2")
        assert sb.restart()["end"] == "done"
        assert sb.cell("print(a, 'x' in globals())").stdout == "1 False\n"
        assert sb.switch()["end"] == "done"
        assert sb.cell("print(a)").stdout == "1\n"
        died = sb.cell("import os\nos._exit(3)")
        assert died.end == "restarted", died
        assert "Loaded again: a." in died.reason, died


if __name__ == "__main__":
    tap.main(globals())
