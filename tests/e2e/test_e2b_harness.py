#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of services stand on: that what is left is found, and that the
way to real programs leads there and is cleaned up behind."""

import hashlib
import os
import socket
import sys
import threading
from http.client import HTTPException

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import e2b_real  # noqa: E402
import tap  # noqa: E402
from e2b_requests import Box, api, ask, kinds  # noqa: E402
from e2b_server import E2bServer, unavailable  # noqa: E402
from e2b_session import check_service  # noqa: E402
from e2b_steps import MARKS, WAYS, CountingServer, Step  # noqa: E402


def fails(function, *args):
    try:
        function(*args)
    except AssertionError as exc:
        return str(exc)
    raise AssertionError("it is content")


def test_what_is_left_is_found():
    with E2bServer() as server:
        check_service(server)
        one = Box(server)
        assert one.id in fails(check_service, server)
        assert api(server, "POST", "/sandboxes/%s/pause" % one.id,
                   {}).status == 204
        # What is paused is kept, and so paid for.
        assert "paused" in fails(check_service, server)
        assert api(server, "DELETE", "/sandboxes/" + one.id).status == 204
        check_service(server)
        one.envd("GET", "/files?path=x", x_api_key=server.key)
        assert "a key of the API" in fails(check_service, server)
        server.take_violations()


def test_the_way_to_real_programs():
    """Their part is played by those of the fake, which ask for no token where a
    sandbox was made without one."""
    with E2bServer() as inner:
        made = api(inner, "POST", "/sandboxes",
                   {"templateID": "code-interpreter-v1"}).json
        assert "envdAccessToken" not in made
        before = dict(os.environ)
        try:
            for port, name in e2b_real.URLS.items():
                os.environ.pop(name, None)
                assert name in e2b_real.why_not()
                os.environ[name] = "http://127.0.0.1:%d" % inner.listen(
                    made["sandboxID"], port)
            assert e2b_real.why_not() is None
            use_real(inner)
        finally:
            os.environ.clear()
            os.environ.update(before)


def use_real(inner):
    place = e2b_real.PLACES[1]
    kept = os.path.join(inner.sandbox().home, "kept")
    with open(kept, "w"):
        pass
    with e2b_real.RealService() as server:
        one = Box(server)
        assert one.token is None
        found = one.envd("POST", "/files?path=%s/new/f" % place, b"text",
                         content_type="application/octet-stream")
        assert found.status == 200, found.body
        assert one.envd("GET", "/files?path=%s/new/f" % place).body == b"text"
        context = ask(server, "POST", "/contexts", {"cwd": place},
                      one.headers(49999)).json["id"]
        for code in ("x = 7", "print(open('new/f').read(), x)"):
            events = one.execute(code, context_id=context)
        assert "text 7" in str(events), events
        assert kinds(one.execute("1 / 0", context_id=context)).count(
            "error") == 1
        # There is but one machine.
        again = api(server, "POST", "/v2/sandboxes",
                    {"templateID": "code-interpreter-v1"})
        assert again.status == 429, again.body
        assert api(server, "POST", "/sandboxes/%s/pause" % one.id,
                   {}).status == 404
        assert one.id in fails(check_service, server)
        assert context in e2b_real.contexts()
        assert api(server, "DELETE", "/sandboxes/" + one.id).status == 204
        check_service(server)
        assert context not in e2b_real.contexts()
        assert e2b_real.entries(place) == {place + "/kept"}
        assert one.envd("GET", "/health").status == 502


def play(server):
    """Three requests of a client that gives up at the first trouble; what came
    of each."""
    found = []
    try:
        one = Box(server)
        found.append(one.id)
        found.append(kinds(one.execute("open('/tmp/ran', 'a').write('x')")))
        answer = one.envd("GET", "/files?path=/tmp/ran")
        assert answer.status == 200
        found.append(answer.body)
    except (AssertionError, OSError, HTTPException):
        found.append("trouble")
    return found


def test_each_step_goes_wrong():
    for way in WAYS:
        for number in range(3):
            with E2bServer() as server:
                step = Step(server, number, way)
                found = play(server)
                assert step.reached.is_set(), (way, number)
                step.join()
                if way == "die":
                    assert server.closing and found[-1] == "trouble", found
                    try:
                        ask(server, "GET", "/v2/sandboxes")
                        raise AssertionError("it lives")
                    except OSError:
                        pass
                    continue
                if (way, number) == ("vanish", 0):
                    # There was none yet.
                    assert found[2] == b"x", found
                    continue
                if (way, number) != ("cut", 2):
                    assert found[-1] == "trouble", (way, number, found)
                assert len(found) == number + 1, (way, number, found)
                assert len(server.requests) == number + 1
                n_made = 0 if (way, number) == ("unread", 0) else 1
                assert len(server.created) == n_made, (way, number)
                n_left = 0 if way == "vanish" else n_made
                assert len(server.sandboxes) == n_left, (way, number)
                assert step.request is server.requests[number]


def test_what_has_run():
    """Also what nobody has heard of, and in sandboxes that are gone."""
    with CountingServer() as server:
        one = Box(server)
        one.execute("open(%r, 'a').write('one ')" % MARKS)
        Step(server, len(server.requests), "unread")
        Step(server, len(server.requests) + 1, "cut")
        for text in ("one", "two"):
            try:
                one.execute("import time\nopen(%r, 'a').write(%r)\nprint('x')"
                            % (MARKS, text))
                raise AssertionError("it is answered")
            except (OSError, HTTPException):
                pass
        # Behind what nobody has heard of, which may still be at it.
        one.execute("pass")
        server.lose()
        two = Box(server)
        two.execute("open(%r, 'a').write('one ')" % MARKS)
        api(server, "DELETE", "/sandboxes/" + two.id)
        assert server.ran("one") == 2, server.counted
        assert server.ran("two") == 1, server.counted


def test_an_upload_that_is_not_read():
    """The client's end is seen although what it has sent is still there."""
    data = bytes(1 << 20)
    with E2bServer(drop=True) as server:
        one = Box(server)
        fault = server.fail("POST /files", stall=1 << 18)
        thread = threading.Thread(target=one.envd, args=(
            "POST", "/files?path=a", data), kwargs={
                "content_type": "application/octet-stream"})
        thread.start()
        assert fault.reached.wait(30)
        fault.release()
        thread.join()
        request = server.wait_request("POST /files")
        assert request.status == 200
        assert request.sha256 == hashlib.sha256(data).hexdigest()
        fault = server.fail("POST /files", stall=1 << 18)
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            lines = ["POST /files?path=a HTTP/1.1", "content-length: 10000000",
                     "content-type: application/octet-stream"]
            lines += ["%s: %s" % pair for pair in one.headers(49983).items()]
            sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            # What is not read has room beside the end that follows it.
            sock.sendall(bytes((1 << 18) + (1 << 14)))
            assert fault.reached.wait(30)
        request = server.wait_request("POST /files", 2)
        assert request.status == -1 and request.size < 1 << 20


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has no part in it")
    why = unavailable()
    if why:
        tap.skip_all(why)
    tap.main(globals())
