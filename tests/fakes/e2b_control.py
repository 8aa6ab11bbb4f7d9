# SPDX-License-Identifier: GPL-3.0-or-later
"""The control API of the fake: what is asked of sandboxes as a whole."""

import base64
import datetime
import ipaddress
import json
import math
import re
import secrets
import time
from urllib.parse import unquote

STRINGS = {"type": dict, "each": str}
SCHEMA = {"templateID": str, "timeout": int, "secure": bool,
          "envVars": STRINGS, "metadata": STRINGS,
          "allow_internet_access": bool, "autoPause": bool,
          "autoPauseMemory": bool, "autoResume": dict, "network": dict,
          "mcp": dict, "iam": dict, "volumeMounts": list}
NETWORK = {"allowPublicTraffic": bool, "allowOut": {"type": list,
                                                    "each": str},
           "denyOut": {"type": list, "each": str}, "maskRequestHost": str,
           "httpsPorts": {"type": list, "each": int},
           "dnsServers": {"type": list, "each": str}, "rules": dict,
           "egressProxy": dict, "allow_internet_access": bool}
DOMAIN = r"(\*\.)?([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?\.)+[a-zA-Z]{2,}"
EVERYTHING = "0.0.0.0/0"
MAX_INT = 2 ** 31 - 1
WAKING_S = 300


class ApiError(Exception):
    def __init__(self, status, message, error_code=None, headers=()):
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.headers = headers


def is_a(value, kind):
    if isinstance(kind, dict):
        items = value.values() if isinstance(value, dict) else value
        return isinstance(value, kind["type"]) and all(
            is_a(item, kind["each"]) for item in items)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind)


def check(body, schema, where=""):
    for name, kind in schema.items():
        value = body.get(name)
        if value is not None and not is_a(value, kind):
            raise ApiError(400, "validation error: property %r has the wrong "
                           "type: %r" % (where + name, value))


def is_address(text):
    try:
        return ipaddress.ip_network(text, strict=False).version == 4
    except ValueError:
        return False


def check_network(network, secure=True):
    check(network, NETWORK, "network/")
    allowed = network.get("allowOut") or []
    denied = network.get("denyOut") or []
    for text in denied:
        if not is_address(text):
            raise ApiError(400, "invalid denied CIDR %s" % text)
    for text in allowed:
        if is_address(text):
            continue
        if not re.fullmatch(DOMAIN, text):
            raise ApiError(400, "invalid allowed address %s" % text)
        if EVERYTHING not in denied:
            raise ApiError(400, "when specifying allowed domains in allow "
                           "out, you must include 'ALL_TRAFFIC' in deny out "
                           "to block all other traffic.")
    if network.get("allowPublicTraffic") is False and not secure:
        raise ApiError(400, "you cannot set allowPublicTraffic to false "
                       "without secure")


def moment(seconds):
    text = datetime.datetime.fromtimestamp(
        seconds, datetime.timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def filters_of(text):
    """{name: value} of a metadata filter, which is encoded more than once."""
    found = {}
    for pair in unquote(text).split("&") if text else []:
        name, _, value = pair.partition("=")
        found[unquote(name)] = unquote(value)
    return found


class Control:
    """The routes below the base of the API; server has the options."""

    def __init__(self, server):
        self.server = server
        self.created = {}
        one = r"/sandboxes/([a-z0-9]+)(?:-[a-z0-9]+)?"
        self.routes = [(re.compile(pattern + r"\Z"), methods)
                       for pattern, methods in (
            ("/sandboxes", {"POST": self.create_v1, "GET": self.list_v1}),
            ("/v2/sandboxes", {"POST": self.create_v2,
                               "GET": self.list_v2}),
            ("/sandboxes/metrics", {"GET": self.all_metrics}),
            (one, {"GET": self.info, "DELETE": self.kill}),
            (one + "/connect", {"POST": self.connect_v1}),
            ("/v2" + one + "/connect", {"POST": self.connect_v2}),
            (one + "/resume", {"POST": self.resume}),
            (one + "/timeout", {"POST": self.timeout}),
            (one + "/refreshes", {"POST": self.refreshes}),
            (one + "/pause", {"POST": self.pause}),
            (one + "/network", {"PUT": self.network}),
            (one + "/metrics", {"GET": self.metrics}),
            ("/v2" + one + "/logs", {"GET": self.logs}))]

    def serve(self, request, reply):
        request.read()
        try:
            handler, names = self.route(request)
            self.check_key(request)
            self.handle(handler, names, request, reply)
        except ApiError as exc:
            body = {"code": exc.status, "message": str(exc)}
            if exc.error_code:
                body["error_code"] = exc.error_code
            reply.send(exc.status, body, exc.headers)

    def handle(self, handler, names, request, reply):
        with self.server.lock:
            self.server.expire()
            status, body, *headers = handler(request, *names)
        if status == 204:
            reply.send(204)
        else:
            reply.send(status, body, *headers,
                       kind="application/json; charset=utf-8")

    def route(self, request):
        path = request.path
        prefix = self.server.prefix
        if not path.startswith(prefix + "/"):
            raise ApiError(404, "404 page not found")
        path = path[len(prefix):]
        for pattern, methods in self.routes:
            found = pattern.match(path)
            if not found or not self.offers(path):
                continue
            handler = methods.get(request.method)
            if handler is None or not self.accepts(path, request.method):
                raise ApiError(405, "method not allowed")
            return handler, found.groups()
        raise ApiError(404, "404 page not found")

    def offers(self, path):
        """Whether the host has this path at all."""
        if path.startswith("/v2") and path.endswith("/connect"):
            return "v2" in self.server.create
        return path.rpartition("/")[2] not in self.server.lacks

    def accepts(self, path, method):
        if method == "POST" and path in ("/sandboxes", "/v2/sandboxes"):
            return ("v2" if path.startswith("/v2") else "v1") \
                in self.server.create
        return True

    def check_key(self, request):
        key = request.header("x-api-key")
        if key is None or key not in self.server.keys:
            raise ApiError(401, "Unauthorized, please check your "
                           "credentials.")
        bearer = self.server.bearer
        if bearer and request.header("authorization") != "Bearer " + bearer:
            raise ApiError(401, "Unauthorized, please check your "
                           "credentials.")

    # -- bodies --

    @staticmethod
    def body(request, needed=True):
        data = request.read()
        if not data and not needed:
            return {}
        kind = (request.header("content-type") or "").split(";")[0]
        if kind.strip().lower() != "application/json":
            raise ApiError(400, "validation error: header Content-Type has "
                           "unexpected value %r" % kind)
        try:
            body = json.loads(data)
        except ValueError as exc:
            raise ApiError(400, "validation error: failed to decode request "
                           "body: %s" % exc) from None
        if not isinstance(body, dict):
            raise ApiError(400, "validation error: value must be an object")
        return body

    def seconds(self, body, default, name="timeout", least=1):
        value = body.get(name)
        if value is None:
            if default is None:
                raise ApiError(400, "validation error: property %r is "
                               "missing" % name)
            return default
        if not is_a(value, int) or not least <= value <= MAX_INT:
            raise ApiError(400, "validation error: %s: number must be at "
                           "least %d: %r" % (name, least, value))
        if value > self.server.max_timeout:
            raise ApiError(400, "Timeout cannot be greater than %d hours"
                           % (self.server.max_timeout // 3600))
        if name == "timeout" and value < self.server.min_timeout:
            raise ApiError(400, "timeout must be at least %d"
                           % self.server.min_timeout)
        return value

    def sandbox(self, name):
        found = self.server.sandboxes.get(name)
        if found is None:
            raise ApiError(404, "Sandbox \"%s\" doesn't exist or you don't "
                           "have access to it" % name)
        return found

    # -- create --

    def create_v1(self, request):
        body = self.body(request)
        return self.create(body, self.seconds(body, 15),
                           bool(body.get("secure")))

    def create_v2(self, request):
        body = self.body(request)
        key = request.header("idempotency-key")
        if key is None:
            return self.create(body, self.seconds(body, 300), True)
        if not re.fullmatch("[a-z0-9-]{1,255}", key):
            raise ApiError(400, "validation error: header Idempotency-Key "
                           "does not match")
        if key in self.created:
            before, answer = self.created[key]
            if before != body:
                raise ApiError(409, "the key was used with another request",
                               "idempotency_request_mismatch")
            return answer
        answer = self.create(body, self.seconds(body, 300), True)
        self.created[key] = (body, answer)
        return answer

    def create(self, body, timeout, secure):
        check(body, SCHEMA)
        fields = self.checked(body, secure)
        server = self.server
        running = [s for s in server.sandboxes.values()
                   if s.state == "running"]
        if len(running) >= server.max_sandboxes:
            raise ApiError(429, "you have reached the maximum number of "
                           "concurrent E2B sandboxes (%d)"
                           % server.max_sandboxes)
        fields.update(start=server.now(), end=server.now() + timeout,
                      version=server.version)
        try:
            made = server.make_sandbox(fields, {
                "token": fields["token"], "envs": fields["envs"],
                "version": server.version, "drop": server.drop,
                "keepalive": server.keepalive,
                "interrupts": server.interrupts,
                "languages": list(server.languages)})
        except RuntimeError as exc:
            raise ApiError(500, str(exc), "sandbox_create_failed") from None
        server.sandboxes[made.id] = made
        server.created.append(made.id)
        return 201, self.described(made)

    def checked(self, body, secure):
        template = body.get("templateID")
        if not template:
            raise ApiError(400, "validation error: property \"templateID\" "
                           "is missing")
        name = template.partition(":")[0].rpartition("/")[2]
        if name not in self.server.templates:
            raise ApiError(404, "template '%s' not found" % template)
        resume = body.get("autoResume") or {}
        check(resume, {"enabled": bool}, "autoResume/")
        pauses = bool(body.get("autoPause"))
        memory = body.get("autoPauseMemory", True) is not False
        if not memory and (not pauses or resume.get("enabled")):
            raise ApiError(400, "autoPauseMemory: false needs autoPause and "
                           "excludes autoResume")
        if secure and tuple(map(int, self.server.version.split("."))) \
                < (0, 2, 0):
            raise ApiError(400, "template is not compatible with secure "
                           "access")
        network = dict(body.get("network") or {})
        check_network(network, secure)
        closed = network.get("allowPublicTraffic") is False
        return {"template": "tpl" + name.replace("-", ""), "alias": name,
                "has_interpreter": name in self.server.interpreters,
                "token": "ea_" + secrets.token_hex(16) if secure else None,
                "traffic_token": secrets.token_hex(16) if closed else None,
                "envs": body.get("envVars") or {},
                "metadata": body.get("metadata") or {},
                "internet": body.get("allow_internet_access"),
                "network": network, "auto_pause": pauses,
                "auto_pause_memory": memory,
                "auto_resume": bool(resume.get("enabled"))}

    def described(self, sandbox):
        found = {"templateID": sandbox.template, "sandboxID": sandbox.id,
                 "clientID": "6532622b", "alias": sandbox.alias,
                 "envdVersion": sandbox.version,
                 "trafficAccessToken": sandbox.traffic_token,
                 "domain": self.server.domain}
        if sandbox.token:
            found["envdAccessToken"] = sandbox.token
        return found

    # -- states --

    def connect_v1(self, request, name):
        body = self.body(request)
        return self.reconnect(name, body, self.seconds(body, None))

    def connect_v2(self, request, name):
        body = self.body(request, needed=False)
        return self.reconnect(name, body, self.seconds(body, 300))

    def reconnect(self, name, body, timeout):
        check(body, {"memory": bool})
        sandbox = self.sandbox(name)
        status = 200
        if sandbox.state == "paused":
            if body.get("memory") is False and not sandbox.cold:
                sandbox.end_processes()
                sandbox.cold = True
            self.server.wake(sandbox, timeout)
            status = 201
        sandbox.end = max(sandbox.end, self.server.now() + timeout)
        return status, self.described(sandbox)

    def resume(self, request, name):
        body = self.body(request, needed=False)
        timeout = self.seconds(body, 15)
        sandbox = self.sandbox(name)
        if sandbox.state == "running":
            raise ApiError(409, "Sandbox %s is already running" % name)
        self.server.wake(sandbox, timeout)
        return 201, self.described(sandbox)

    def running(self, name):
        sandbox = self.sandbox(name)
        if sandbox.state != "running":
            raise ApiError(404, "Sandbox \"%s\" is not running" % name)
        return sandbox

    def timeout(self, request, name):
        body = self.body(request)
        seconds = self.seconds(body, None, least=0)
        self.running(name).end = self.server.now() + seconds
        return 204, None

    def refreshes(self, request, name):
        body = self.body(request, needed=False)
        seconds = self.seconds(body, 15, "duration", 0)
        if seconds > 3600:
            raise ApiError(400, "validation error: duration: number must be "
                           "at most 3600")
        sandbox = self.running(name)
        sandbox.end = max(sandbox.end, self.server.now() + max(15, seconds))
        return 204, None

    def pause(self, request, name):
        body = self.body(request, needed=False)
        check(body, {"memory": bool, "requireHealthyGuest": bool})
        sandbox = self.sandbox(name)
        if sandbox.state == "paused":
            raise ApiError(409, "Sandbox '%s' is already paused" % name)
        sandbox.pause(body.get("memory") is not False)
        return 204, None

    def kill(self, _request, name):
        sandbox = self.sandbox(name)
        del self.server.sandboxes[sandbox.id]
        sandbox.kill()
        return 204, None

    def network(self, request, name):
        body = self.body(request)
        check_network(body)
        sandbox = self.running(name)
        kept = {k: v for k, v in sandbox.network.items()
                if k in ("allowPublicTraffic", "maskRequestHost")}
        if body.get("allow_internet_access") is not None:
            sandbox.internet = body.pop("allow_internet_access")
        sandbox.network = dict(kept, **body)
        return 204, None

    # -- what there is --

    def listed(self, sandbox):
        return {"templateID": sandbox.template, "alias": sandbox.alias,
                "sandboxID": sandbox.id, "clientID": "6532622b",
                "startedAt": moment(sandbox.start),
                "endAt": moment(sandbox.end), "cpuCount": 2,
                "memoryMB": 2048, "diskSizeMB": 10240,
                "metadata": sandbox.metadata, "state": sandbox.state,
                "envdVersion": sandbox.version, "volumeMounts": []}

    def info(self, _request, name):
        sandbox = self.sandbox(name)
        found = dict(self.listed(sandbox), domain=self.server.domain,
                     allowInternetAccess=sandbox.internet,
                     network=dict({"allowPublicTraffic": True},
                                  **sandbox.network),
                     lifecycle={"onTimeout": "pause" if sandbox.auto_pause
                                else "kill",
                                "autoResume": sandbox.auto_resume})
        if sandbox.token:
            found["envdAccessToken"] = sandbox.token
        if sandbox.state == "paused":
            found["pauseMode"] = "filesystem" if sandbox.cold else "full"
        return 200, found

    def list_v1(self, request):
        return 200, [self.listed(s) for s in self.chosen(
            dict(request.query, state="running"))]

    def list_v2(self, request):
        query = request.query
        text = query.get("limit", "100")
        if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= 100:
            raise ApiError(400, "validation error: limit: number must be "
                           "between 1 and 100: %r" % text)
        found = self.chosen(query)
        headers = {"x-total-running": str(sum(
            s.state == "running" for s in found))}
        first = 0
        if query.get("nextToken"):
            try:
                first = int(base64.b64decode(query["nextToken"]))
            except ValueError:
                raise ApiError(400, "invalid next token") from None
        last = first + int(text)
        if last < len(found):
            headers["x-next-token"] = base64.b64encode(
                str(last).encode()).decode()
        return 200, [self.listed(s) for s in found[first:last]], headers

    def chosen(self, query):
        states = (query.get("state") or "running,paused").split(",")
        if not set(states) <= {"running", "paused"}:
            raise ApiError(400, "validation error: state: value is not one "
                           "of the allowed values")
        if query.get("order", "desc") not in ("asc", "desc"):
            raise ApiError(400, "validation error: order")
        wanted = filters_of(query.get("metadata"))
        found = [s for s in self.server.sandboxes.values()
                 if s.state in states and all(
                     s.metadata.get(k) == v for k, v in wanted.items())
                 and query.get("template") in (None, "", s.alias,
                                               s.template)]
        if query.get("startedAfter"):
            after = datetime.datetime.fromisoformat(
                query["startedAfter"].replace("Z", "+00:00")).timestamp()
            found = [s for s in found if s.start > after]
        found.sort(key=lambda s: s.start,
                   reverse=query.get("order", "desc") == "desc")
        return found

    @staticmethod
    def sample():
        now = math.floor(time.time())
        return {"timestamp": moment(now), "timestampUnix": now,
                "cpuCount": 2, "cpuUsedPct": 3.1, "memUsed": 312475648,
                "memTotal": 2079580160, "memCache": 120586240,
                "diskUsed": 1730150400, "diskTotal": 10464022528}

    def metrics(self, _request, name):
        self.sandbox(name)
        return 200, [self.sample()]

    def all_metrics(self, request):
        names = [n for n in request.query.get("sandbox_ids", "").split(",")
                 if n]
        if not 1 <= len(names) <= 100:
            raise ApiError(400, "validation error: sandbox_ids")
        return 200, {"sandboxes": {n: self.sample() for n in names
                                   if n in self.server.sandboxes}}

    def logs(self, _request, name):
        self.sandbox(name)
        return 200, {"logs": []}
