# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives a sandbox of a service that speaks the E2B protocol: a Session of
driver_session.py with a server of its own.

    with E2bSession("auto_pause=1") as sb:           # against the fake
        sb.cell("print(1)")
        sb.server.advance(600); sb.server.fail("/execute", cut=100)

    E2bSession(fake={"interpreters": ()})            # options of the fake
    E2bSession(server=RealService)                   # see e2b_real.py

At its end the driver is asked to quit, and it fails if the service has a
sandbox left, was sent something that does not belong there, or if a thread or
a process of it still runs.
"""

import os
import select
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "fakes")]
import tap  # noqa: E402
from driver_session import Session  # noqa: E402
from e2b_server import E2bServer  # noqa: E402

END_S = 60


def check_service(server):
    """Nothing is there that costs money, and nothing was sent where it does
    not belong."""
    with server.lock:
        server.expire()
        left = {s.id: s.state for s in server.sandboxes.values()}
    assert not left, "sandboxes are left: %s" % left
    server.check()


class E2bSession(Session):
    """server: what makes the service, called with the options of fake. in_path:
    sandbox and port are told by the path and not by headers. may_leave: a
    sandbox may be left, as when the service could not be asked to end it."""

    n_runs = 0

    def __init__(self, *options, fake=None, server=E2bServer, in_path=False,
                 env=None, may_leave=False, **more):
        self.may_leave = may_leave
        self.server = server(**(fake or {}))
        url = self.server.url
        # As the program has: by it what was being made is found again.
        E2bSession.n_runs += 1
        run = "t%d-%d" % (os.getpid(), E2bSession.n_runs)
        options = ("backend=e2b", "owner=tests", "run=" + run, "api_url=" + url + self.server.prefix,
                   "sandbox_url=" + url + (
                       "/sandbox-proxy/{id}/ports/{port}" if in_path else "")
                   ) + options
        env = dict({"E2B_API_KEY": self.server.key}, **(env or {}))
        try:
            super().__init__(options, env, **more)
        except OSError:
            self.server.close()
            raise

    def __exit__(self, kind, value, trace):
        self.close(failed=kind is not None)

    def close(self, failed=False):
        """failed: the test is over already, so that nothing is looked at."""
        if self not in Session.open_ones:
            return
        try:
            if not failed:
                self.end_driver()
        except BaseException:
            failed = True
            raise
        finally:
            self.release()
            shutil.rmtree(self.dir, ignore_errors=True)
            if failed:
                self.server.close()
        if not failed:
            self.check_end()

    def end_driver(self):
        """Killed, it could not end its sandbox."""
        if self.process.poll() is None:
            try:
                self.request(op="quit")
            except BrokenPipeError:
                pass
        out = self.process.stdout
        deadline = time.monotonic() + END_S * tap.FACTOR
        while True:
            left = deadline - time.monotonic()
            assert left > 0, "the driver does not end: %s" % self.events[-5:]
            if select.select([out], [], [], left)[0] and not os.read(
                    out.fileno(), 1 << 20):
                break
        status = self.process.wait(END_S * tap.FACTOR)
        assert status in (0, 1), "the driver ended with %d" % status

    def check_end(self):
        try:
            if self.may_leave:
                self.server.check()
            else:
                check_service(self.server)
        finally:
            # Fails if a thread is left.
            self.server.close()

    def quit(self):
        super().quit()
        check_service(self.server)

    def end_outside(self):
        self.server.lose()
