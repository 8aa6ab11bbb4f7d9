# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of the control plane against the fake of a service: a sandbox
from its creation to its end, on hosts of all kinds, with what goes wrong on
the way, and what is left when a run dies."""

import contextlib
import datetime
import json
import os
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]
import tap  # noqa: E402
from e2b_requests import api  # noqa: E402
from e2b_server import KEY, E2bServer, unavailable  # noqa: E402

DRIVER = os.environ.get("E2B_API_DRIVER") or os.path.join(
    os.environ.get("abs_top_builddir", os.path.join(HERE, "..", "..")),
    "tests", "helpers", "e2b_api_driver")
FAULTS = ("none", "gone", "limit", "auth", "capacity", "changing", "paused",
          "cold", "other")
AUTO, V1, V2 = 0, 1, 2
HOSTS = ["data.example.org", "*.example.net", "10.0.0.0/8"]
AGAIN = {"Retry-After": "0"}
LABELS = {"app": "sandpiper", "owner": "owner1", "run": "run1"}
# Longer than any wait of these tests.
CREATE_MS = 60000
tap.DEFAULT_TIMEOUT_S = 120


class Driver:
    def __init__(self, server, *options, labels=LABELS):
        argv = [DRIVER, "url=%s%s/" % (server.url, server.prefix),
                "key=" + server.key, "create_ms=%d" % CREATE_MS]
        argv += ["label=%s:%s" % pair for pair in labels.items()]
        self.process = subprocess.Popen(
            argv + list(options), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)

    def send(self, op, **request):
        line = json.dumps(dict(request, op=op)) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def do(self, op, **request):
        self.send(op, **request)
        return self.answer()

    def ok(self, op, **request):
        found = self.do(op, **request)
        assert found["error"] is None, found
        assert found.get("fault", 0) == 0, found
        return found

    def fails(self, op, error, fault="other", maybe_made=False, **request):
        found = self.do(op, **request)
        assert (found["error"], FAULTS[found["fault"]],
                found["maybe_made"]) == (error, fault, maybe_made), found
        assert found["sandboxes"] == [], found
        return found

    def create(self):
        return self.ok("create")["sandboxes"][0]

    def close(self):
        self.process.stdin.close()
        status = self.process.wait(60)
        self.process.stdout.close()
        assert status == 0, status


@contextlib.contextmanager
def started(*options, labels=LABELS, **how):
    with E2bServer(**how) as server:
        driver = Driver(server, *options, labels=labels)
        try:
            yield server, driver
        except BaseException:
            driver.process.kill()
            driver.process.wait()
            raise
        driver.close()


def asked(server):
    return ["%s %s" % (r.method, r.path) for r in server.api_requests]


def wall_ms(text):
    return int(datetime.datetime.fromisoformat(
        text.replace("Z", "+00:00")).timestamp() * 1000 + 0.5)


# -- from the beginning to the end --

def life(server, driver, generation):
    made = driver.ok("create")
    assert made["generation"] == generation
    one = made["sandboxes"][0]
    box = server.sandbox()
    assert one["id"] == box.id and one["has_token"]
    assert box.metadata == LABELS
    assert box.internet is False, box.internet
    end = box.end
    info = driver.ok("info", id=one["id"])["sandboxes"][0]
    there = api(server, "GET", server.prefix + "/sandboxes/" + one["id"],
                authorization="Bearer sk-1").json
    assert info["state"] == "running" and info["egress"] == "confirmed"
    assert info["started_ms"] == wall_ms(there["startedAt"])
    assert info["end_ms"] == wall_ms(there["endAt"])
    assert (info["cpus"], info["mib"]) == (2, 2048)
    assert info["labels"] == LABELS
    driver.ok("timeout", id=one["id"], seconds=2000)
    assert box.end > end + 1000
    end = box.end
    # A connect never shortens.
    again = driver.ok("connect", id=one["id"], seconds=400)
    assert not again["changed"] and again["sandboxes"][0]["has_token"]
    assert box.end == end
    assert driver.ok("pause", id=one["id"])["changed"]
    assert box.state == "paused"
    assert not driver.ok("pause", id=one["id"])["changed"]
    found = driver.ok("list")["sandboxes"]
    assert [(s["id"], s["state"], s["has_token"]) for s in found] == [
        (one["id"], "paused", False)]
    assert driver.ok("connect", id=one["id"], seconds=400)["changed"]
    assert box.state == "running"
    driver.ok("network", id=one["id"])
    assert box.network["denyOut"] == ["0.0.0.0/0"]
    assert driver.ok("kill", id=one["id"])["changed"]
    assert not driver.ok("kill", id=one["id"])["changed"]
    driver.fails("info", "sandbox", "gone", id=one["id"])
    driver.fails("timeout", "sandbox", "gone", id=one["id"], seconds=400)
    driver.fails("network", "sandbox", "gone", id=one["id"])
    driver.fails("pause", "sandbox", "gone", id=one["id"])
    driver.fails("connect", "sandbox", "gone", id=one["id"], seconds=400)
    assert server.sandboxes == {}


def test_life_on_hosts_of_all_kinds():
    rows = [
        (("timeout=600",), {}, V2, "POST /v2/sandboxes"),
        (("timeout=600",), {"create": ("v1",)}, V1, "POST /v2/sandboxes"),
        (("timeout=600", "generation=v1"), {"create": ("v1",)}, V1,
         "POST /sandboxes"),
        (("timeout=600", "generation=v1"), {}, V1, "POST /sandboxes"),
        (("timeout=600", "header=Authorization:Bearer sk-1"),
         {"create": ("v1",), "bearer": "sk-1", "min_timeout": 300,
          "prefix": "/api/v1/x", "version": "0.5.2"}, V1,
         "POST /api/v1/x/v2/sandboxes"),
    ]
    for options, how, generation, first in rows:
        with started(*options, **how) as (server, driver):
            life(server, driver, generation)
            assert asked(server)[0] == first, asked(server)
            creates = [a for a in asked(server) if a.startswith("POST ")
                       and a.endswith("/sandboxes")]
            tries = 2 if generation == V1 and "v2" in first else 1
            assert len(creates) == tries, creates
            assert all(r.header("x-api-key") == KEY
                       for r in server.api_requests)


def test_host_that_has_neither():
    """404 on the newer path, and the older one, too."""
    with started() as (server, driver):
        fault = server.fail("POST /v2/sandboxes", status=404,
                            body=b"404 page not found")
        driver.create()
        assert fault.times == 0
        assert asked(server) == ["POST /v2/sandboxes", "POST /sandboxes"]
    with started("template=none") as (server, driver):
        found = driver.fails("create", "config")
        assert "none" in found["message"], found
        assert found["generation"] == AUTO


def test_keys_and_settings():
    with started() as (server, driver):
        server.keys = ("e2b_other",)
        found = driver.fails("create", "auth", "auth")
        assert "api_key" in found["message"], found
        driver.fails("list", "auth", "auth")
        assert asked(server) == ["POST /v2/sandboxes", "GET /v2/sandboxes"]
    with started("timeout=100000") as (server, driver):
        found = driver.fails("create", "remote")
        assert "hours" in found["message"] and found["status"] == 400, found


def test_list_by_labels():
    other = dict(LABELS, owner="owner2")
    with started(max_sandboxes=120) as (server, driver):
        # The fake has no need of real ones to list them by pages.
        one = driver.create()["id"]
        body = {"templateID": "base", "metadata": other}
        api(server, "POST", "/sandboxes", body)
        api(server, "POST", "/sandboxes", {"templateID": "base"})
        found = driver.ok("list")["sandboxes"]
        assert [s["id"] for s in found] == [one]
        # A service that does not know labels gives all of them.
        server.fail("GET /v2/sandboxes", rewrite=lambda data: json.dumps([
            dict(json.loads(data)[0], sandboxID="x%d" % i, metadata=m)
            for i, m in enumerate((other, LABELS, {}, None))]).encode())
        found = driver.ok("list")["sandboxes"]
        assert [s["id"] for s in found] == ["x1"]
        server.fail("GET /v2/sandboxes", headers={"X-Next-Token": "Mg=="})
        found = driver.ok("list")["sandboxes"]
        assert [s["id"] for s in found] == [one]
        assert server.api_requests[-1].query["nextToken"] == "Mg=="


# -- what a sandbox reaches --

def test_egress_is_confirmed():
    for options, expect in (
            ((), ({}, False)),
            (tuple("internet=" + h for h in HOSTS),
             ({"allowOut": HOSTS, "denyOut": ["0.0.0.0/0"]}, None)),
            (("internet=on",), ({}, True))):
        with started(*options) as (server, driver):
            one = driver.create()["id"]
            box = server.sandbox()
            assert box.network == expect[0], box.network
            if expect[1] is not None:
                assert box.internet is expect[1]
            info = driver.ok("info", id=one)["sandboxes"][0]
            assert info["egress"] == "confirmed", (options, info)


def test_egress_of_hosts_that_ignore_it():
    """A create in which what is asked is not looked at; setting it helps."""
    def ignore(server):
        box = server.sandbox()
        box.internet, box.network = True, {}

    def hide(data):
        found = json.loads(data)
        del found["allowInternetAccess"], found["network"]
        return json.dumps(found).encode()

    for options in ((), tuple("internet=" + h for h in HOSTS)):
        with started(*options) as (server, driver):
            one = driver.create()["id"]
            ignore(server)

            def egress():
                info = driver.ok("info", id=one)
                return info["sandboxes"][0]["egress"]
            assert egress() == "contradicted"
            server.fail("GET /sandboxes/", rewrite=hide)
            assert egress() == "not said"
            driver.ok("network", id=one)
            assert egress() == "confirmed"
            server.sandbox().network["allowOut"] = ["198.51.100.1"]
            assert egress() == "contradicted"
    with started(lacks=("network",)) as (server, driver):
        one = driver.create()["id"]
        found = driver.fails("network", "unsupported", id=one)
        assert "does not offer this" in found["message"], found
    with started() as (server, driver):
        one = driver.create()["id"]
        driver.ok("pause", id=one)
        # Of a paused one the fake says that there is none; it is looked at.
        driver.fails("network", "unsupported", id=one)


def test_hosts_without_operations():
    with started(lacks=("timeout", "pause")) as (server, driver):
        one = driver.create()["id"]
        driver.fails("timeout", "unsupported", id=one, seconds=400)
        driver.fails("pause", "unsupported", id=one)
        driver.ok("kill", id=one)


# -- faults --

def test_faults_that_pass():
    rows = [
        (dict(status=429, headers=AGAIN), "with Retry-After"),
        (dict(status=429), "without it"),
        (dict(status=503), "once"),
        (dict(status=504, body={"code": 504, "message": "m", "error_code":
                                "sandbox_placement_timeout"}), "once"),
        (dict(status=500, headers={"Should-Retry": "true"}), "it says so"),
        (dict(status=500), "once"),
        (dict(status=502, headers={"Content-Type": "text/html"},
              body=b"<html><body>Bad Gateway</body></html>"), "a page"),
        (dict(status=409, headers=AGAIN,
              body={"code": 409, "message": "m",
                    "error_code": "idempotency_in_progress"}), "in progress"),
    ]
    with started() as (server, driver):
        for how, name in rows:
            before = len(server.api_requests)
            server.fail("POST /v2/sandboxes", **how)
            one = driver.create()["id"]
            tries = server.api_requests[before:]
            keys = {r.header("idempotency-key") for r in tries}
            assert len(tries) == 2 and len(keys) == 1, (name, tries)
            assert list(server.sandboxes) == [one], name
            for op, words in (("info", "GET /sandboxes/"),
                              ("timeout", "/timeout"),
                              ("pause", "/pause"),
                              ("connect", "/connect"),
                              ("network", "/network"),
                              ("list", "GET /v2/sandboxes"),
                              ("kill", "DELETE /sandboxes/")):
                if how["status"] == 409:
                    continue
                before = len(server.api_requests)
                server.fail(words, **how)
                driver.ok(op, id=one, seconds=400)
                after = server.api_requests[before:]
                assert len(after) == 2, (name, op, after)
                assert server.faults == [], (name, op)
            if one in server.sandboxes:
                driver.ok("kill", id=one)


def test_faults_that_stay():
    body = {"code": 400, "message": "a reason of its own"}
    rows = [
        (dict(status=429, headers={"Should-Retry": "false"}), "rate_limit",
         "limit", False),
        (dict(status=429, body={"code": 429, "message": "you have reached the "
                                "maximum number of concurrent E2B sandboxes"}),
         "limit", "limit", False),
        (dict(status=503, headers={"Should-Retry": "false"}), "overloaded",
         "capacity", False),
        (dict(status=504, headers={"Should-Retry": "false"}), "overloaded",
         "capacity", True),
        (dict(status=500, headers={"Should-Retry": "false"}), "remote",
         "other", True),
        (dict(status=500, body={"code": 500, "message": "m", "error_code":
                                "sandbox_create_refused"}), "remote", "other",
         True),
        (dict(status=400, body=body), "remote", "other", False),
        (dict(status=403, body=body), "remote", "other", False),
        (dict(status=409, body=dict(body, error_code="idempotency_request_"
                                    "mismatch")), "remote", "other", False),
    ]
    with started() as (server, driver):
        for how, error, fault, maybe_made in rows:
            before = len(server.api_requests)
            server.fail("POST /v2/sandboxes", **how)
            found = driver.fails("create", error, fault, maybe_made)
            assert len(server.api_requests) == before + 1, (how, found)
            assert found["status"] == how["status"], found
            if how.get("body") is body:
                assert "a reason of its own" in found["message"], found
        assert server.sandboxes == {}


def test_waits_that_are_asked_for():
    with started() as (server, driver):
        server.fail("POST /v2/sandboxes", status=429,
                    headers={"Retry-After": "1"})
        driver.create()
    # Longer than the time that is left: told at once.
    with started() as (server, driver):
        server.fail("POST /v2/sandboxes", status=429,
                    headers={"Retry-After": "3600"})
        found = driver.fails("create", "rate_limit", "limit")
        assert found["retry_after_ms"] == 3600000, found
        assert len(server.api_requests) == 1


def test_lost_answers():
    """One sandbox only, whatever became of the answer."""
    for how in (dict(lost=True), dict(lost=True, reset=True),
                dict(cut=0), dict(cut=40), dict(cut=40, reset=True),
                dict(lost=True, times=2)):
        with started() as (server, driver):
            server.fail("POST /v2/sandboxes", **how)
            one = driver.create()["id"]
            assert server.created == [one], (how, server.created)
            assert list(server.sandboxes) == [one]
            server.fail("DELETE /sandboxes/", lost=True)
            assert not driver.ok("kill", id=one)["changed"]
            assert server.sandboxes == {}


def test_lost_answers_of_the_older_generation():
    """It knows no key that would make two of them one: nothing is tried again,
    and what may have been made is ended when it is looked for."""
    with started(create=("v1",)) as (server, driver):
        kept = driver.create()["id"]
        server.fail("POST /sandboxes", lost=True)
        found = driver.fails("create", "net", maybe_made=True)
        assert "without an answer" in found["message"], found
        assert len(server.sandboxes) == 2
        found = driver.ok("sweep", keep=kept)
        assert found["n"] == 1, found
        assert list(server.sandboxes) == [kept]
        # What somebody else has made there is left alone.
        body = {"templateID": "base", "metadata": dict(LABELS, run="run2")}
        other = api(server, "POST", "/sandboxes", body).json["sandboxID"]
        assert driver.ok("sweep")["n"] == 1
        assert list(server.sandboxes) == [other]


def test_cancelled_create():
    with started() as (server, driver):
        fault = server.fail("POST /v2/sandboxes", hold=True)
        driver.send("create")
        assert fault.reached.wait(60)
        # The service has made it, and holds its answer back.
        driver.send("cancel")
        found = driver.answer()
        assert found["error"] == "cancelled" and found["maybe_made"], found
        fault.release()
        assert len(server.sandboxes) == 1
        assert driver.ok("sweep")["n"] == 1
        assert server.sandboxes == {}


def test_create_that_cannot_be_believed():
    def spoil(data):
        return json.dumps(dict(json.loads(data),
                               domain="evil.example/@")).encode()
    with started() as (server, driver):
        server.fail("POST /v2/sandboxes", rewrite=spoil)
        found = driver.fails("create", "protocol")
        assert "ended again" in found["message"], found
        assert len(server.created) == 1 and server.sandboxes == {}


def test_state_that_changes():
    changing = {"code": 409, "message": "is changing"}
    with started() as (server, driver):
        one = driver.create()["id"]
        for op, words in (("timeout", "/timeout"), ("connect", "/connect"),
                          ("pause", "/pause"), ("kill", "DELETE")):
            server.fail(words, status=409, body=changing, headers=AGAIN)
            driver.ok(op, id=one, seconds=400)
            assert server.faults == [], op
    with started() as (server, driver):
        one = driver.create()["id"]
        driver.ok("pause", id=one)
        server.fail("/connect", status=409, body=dict(
            changing, error_code="sandbox_snapshot_guest_agent_unresponsive"))
        driver.fails("connect", "sandbox", "cold", id=one, seconds=400)
        assert driver.ok("connect", id=one, seconds=400, cold=True)["changed"]
        assert server.sandbox().state == "running"


def test_time_is_over():
    with started("timeout=60") as (server, driver):
        one = driver.create()["id"]
        server.advance(61)
        driver.fails("info", "sandbox", "gone", id=one)
        assert driver.ok("list")["sandboxes"] == []
    with started("timeout=60", "pause=1") as (server, driver):
        one = driver.create()["id"]
        server.advance(61)
        info = driver.ok("info", id=one)["sandboxes"][0]
        assert info["state"] == "paused"
        assert driver.ok("connect", id=one, seconds=400)["changed"]


def test_silence_ends():
    with started("other_ms=300") as (server, driver):
        one = driver.create()["id"]
        fault = server.fail("GET /sandboxes/", hold=True)
        found = driver.fails("info", "timeout", id=one)
        assert "no answer within" in found["message"], found
        fault.release()


# -- what dead runs have left --

def test_leftovers():
    with E2bServer() as server:
        first = Driver(server, "owner=owner1", "run=dead1",
                       labels=dict(LABELS, run="dead1"))
        old = first.create()["id"]
        idle = first.create()["id"]
        first.ok("pause", id=idle)
        # As by a crash: nothing is ended.
        first.process.kill()
        first.process.wait()
        first.process.stdin.close()
        first.process.stdout.close()
        second = Driver(server, "owner=owner1", "run=run1", "alive=live1")
        mine = second.create()["id"]
        others = [api(server, "POST", "/sandboxes", {
            "templateID": "base", "metadata": m}).json["sandboxID"]
            for m in (dict(LABELS, run="live1"),
                      dict(LABELS, owner="owner2", run="dead1"), {})]
        found = second.ok("find")["sandboxes"]
        assert [(s["id"], s["paused"]) for s in found] == [
            (old, False), (idle, True)], found
        info = second.ok("info", id=old)["sandboxes"][0]
        for name in ("template", "started_ms", "end_ms", "cpus", "mib"):
            assert found[0][name] == info[name], name
        assert len(server.sandboxes) == 6
        # No other is ended, whoever asks for it.
        asked_for = [mine, *others, "zzz"]
        ended = second.do("end", ids=asked_for)["ended"]
        assert ended == dict.fromkeys(asked_for, "usage"), ended
        assert len(server.sandboxes) == 6
        server.fail("DELETE /sandboxes/" + old, status=403)
        ended = second.do("end", ids=[old, idle])["ended"]
        assert ended == {old: "remote", idle: "ended"}, ended
        assert second.do("end", ids=[old])["ended"] == {old: "ended"}
        assert sorted(server.sandboxes) == sorted([mine, *others])
        assert second.ok("find")["sandboxes"] == []
        server.fail("GET /v2/sandboxes", status=403)
        assert second.do("find")["error"] == "remote"
        second.ok("kill", id=mine)
        second.close()


def test_many_at_once():
    """Several programs, one installation: each finds none of the others."""
    with E2bServer() as server:
        runs = ["live%d" % i for i in range(4)]
        alive = ["alive=" + run for run in runs]
        errors = []

        def work(run):
            try:
                driver = Driver(server, "owner=owner1", "run=" + run, *alive,
                                labels=dict(LABELS, run=run))
                one = driver.create()["id"]
                assert driver.ok("find")["sandboxes"] == []
                assert [s["id"] for s in driver.ok("list")["sandboxes"]] == [
                    one]
                driver.ok("kill", id=one)
                driver.close()
            except BaseException as exc:  # noqa: B902
                errors.append((run, exc))
        threads = [threading.Thread(target=work, args=(r,)) for r in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == [], errors
        assert server.sandboxes == {}


if __name__ == "__main__":
    why = unavailable()
    if why:
        tap.skip_all("no sandbox: " + why)
    tap.main(globals())
