# SPDX-License-Identifier: GPL-3.0-or-later
"""The program under test, with its cells at a service.

With SANDPIPER_E2E_SANDBOX=e2b each program that tests start by pty_session.py
or program.py gets a fake service of its own: an entry of its configuration, and
--sandbox. When the program has ended by itself, nothing may be left there that
costs money; and whatever happened, nothing may have been sent where it does not
belong. SANDPIPER_E2E_FAKE has options of the fake, as JSON.
"""

import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "fakes")]
from e2b_server import E2bServer  # noqa: E402
from e2b_session import check_service  # noqa: E402

KIND = os.environ.get("SANDPIPER_E2E_SANDBOX", "")
FAKE = json.loads(os.environ.get("SANDPIPER_E2E_FAKE") or "{}")
PROGRAM = os.path.abspath(os.environ.get("SANDPIPER", "./sandpiper"))
NAME = "fake"
ENTRY = """
# -- the service of this test --
sandboxes:
  %s:
    kind: e2b
    api_key: %s
    api_url: %s
    sandbox_url: %s
# -- end --
"""
OLD_ENTRY = re.compile(r"\n# -- the service of this test --\n.*# -- end --\n",
                       re.DOTALL)


def begin(argv, env, server=None):
    """A ServiceRun for a program that is about to start with that environment;
    None: it is to run as it is. server: one of the caller's own."""
    if not argv or os.path.abspath(os.fspath(argv[0])) != PROGRAM:
        return None
    assert KIND in ("", "e2b"), KIND
    return ServiceRun(argv, env, server) if KIND or server else None


def settings_of(env):
    """Its configuration file."""
    home = env.get("XDG_CONFIG_HOME") or os.path.join(env["HOME"], ".config")
    return os.path.join(home, "sandpiper", "config.yaml")


def write_entry(env, server):
    path = settings_of(env)
    text = ""
    if os.path.exists(path):
        with open(path) as file:
            text = OLD_ENTRY.sub("", file.read())
    else:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    with open(path, "w") as file:
        file.write(text + ENTRY % (NAME, server.key,
                                   server.url + server.prefix, server.url))


class ServiceRun:
    def __init__(self, argv, env, server=None):
        self.is_own = server is None
        self.server = server or E2bServer(**FAKE)
        self.argv = [argv[0], "--sandbox", NAME] + list(argv[1:])
        write_entry(env, self.server)

    def pids(self):
        """Processes of the fake, which did not come from the program."""
        with self.server.lock:
            children = [s.child for s in self.server.sandboxes.values()]
        return {child.pid for child in children if child is not None}

    def end(self, by_itself):
        """by_itself: the program was not killed, so that it could end all that
        it had."""
        if not self.is_own:
            return
        try:
            if by_itself:
                check_service(self.server)
            else:
                self.server.check()
        finally:
            self.server.close()
