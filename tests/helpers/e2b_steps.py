# SPDX-License-Identifier: GPL-3.0-or-later
"""One thing that goes wrong with one request to the fake of a service, chosen
by its number: for tests that try each step of a session in turn.

    with E2bServer() as server:
        step = Step(server, 7, "cut")
        ...
        step.reached                 # an Event: it has come to that

CountingServer counts what has really run, in all sandboxes that there were.
"""

import os
import threading

from e2b_sandbox import Sandbox
from e2b_server import E2bServer, Fault

# In a sandbox.
MARKS = "/tmp/ran"

# In the middle of an answer: behind its head, within its first line.
CUT_BYTES = 12


class Step(Fault):
    """From the request with that number (the first is 0) on it goes wrong in
    one of WAYS; times: for how many requests. request: the first of them."""

    def __init__(self, server, number, way, times=1):
        super().__init__("", times=times, **FAULTS[way])
        self.server = server
        self.number = number
        self.way = way
        self.request = None
        self.thread = None
        with server.lock:
            server.faults.append(self)

    def matches(self, request):
        # Called before the request is counted, and for one at a time.
        if len(self.server.requests) < self.number:
            return False
        if self.request is None:
            self.request = request
            self.reached.set()
            if self.way == "vanish":
                self.vanish()
            elif self.way == "die":
                self.die()
        return self.way != "vanish"

    def vanish(self):
        """All sandboxes are gone, as if their hosts had failed."""
        for sandbox in list(self.server.sandboxes.values()):
            self.server.lose(sandbox)

    def die(self):
        """The service is gone, with all that it had. Its threads are waited
        for, and this is one of them."""
        self.thread = threading.Thread(target=self.server.close)
        self.thread.start()

    def join(self):
        if self.thread is not None:
            self.thread.join()


# reset: carried out, and the connection is reset before a byte of the answer.
# unread: reset before that. cut: in the middle of the answer.
FAULTS = {
    "reset": {"lost": True, "reset": True},
    "unread": {"unread": True, "reset": True},
    "cut": {"cut": CUT_BYTES, "reset": True},
    "vanish": {},
    "die": {"unread": True, "reset": True},
}
WAYS = tuple(FAULTS)


class CountedSandbox(Sandbox):
    """Keeps what cells have written to MARKS when it ends."""

    def kill(self):
        path = os.path.join(self.tmp, os.path.basename(MARKS))
        if os.path.exists(path):
            with open(path) as file:
                self.counted.append(file.read())
        super().kill()


class CountingServer(E2bServer):
    """Knows what has run: code writes to MARKS what it is to be counted by. All
    sandboxes must have ended."""

    def __init__(self, **options):
        self.counted = []
        super().__init__(**options)

    def make_sandbox(self, fields, config):
        return CountedSandbox(self.spawner, dict(
            fields, counted=self.counted), config)

    def ran(self, text):
        return "".join(self.counted).count(text)
