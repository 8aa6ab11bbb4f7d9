#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, proxies and certificates on the way to the service; headers of the
user's own."""

import os
import select
import shutil
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import KEY, Place  # noqa: E402

import tap  # noqa: E402
from certs import make_certs  # noqa: E402
from claude_server import ClaudeServer, reply  # noqa: E402

ANSWER = b"It is safe.\n"


class Proxy:
    """Answers CONNECT with a status, or forwards when it is 200. `heads`:
    what it was told."""

    def __init__(self, status=200, answer=None):
        self.heads = []
        self._status = status
        self._answer = answer
        self._socks = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self._listener.getsockname()[1]
        self._wake_in, self._wake_out = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._wake_out.send(b"x")
        self._thread.join(10)
        for sock in self._socks + [self._listener, self._wake_in,
                                   self._wake_out]:
            sock.close()

    def _head(self, sock):
        data = b""
        # The first byte of TLS is 22; that has no lines.
        while b"\r\n\r\n" not in data and data[:1] != b"\x16":
            more = sock.recv(65536)
            if not more:
                return data
            data += more
        return data

    @staticmethod
    def _hang_up(sock):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _accept(self, peers):
        client, _ = self._listener.accept()
        self._socks.append(client)
        head = self._head(client)
        self.heads.append(head)
        if self._answer is not None:
            client.sendall(self._answer)
            self._hang_up(client)
        elif self._status != 200:
            client.sendall(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n"
                           % self._status)
            self._hang_up(client)
        else:
            host, port = head.split()[1].decode().rsplit(":", 1)
            server = socket.create_connection((host, int(port)))
            self._socks.append(server)
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            peers[client], peers[server] = server, client

    def _run(self):
        peers = {}
        while True:
            ready, _, _ = select.select(
                [self._listener, self._wake_in] + list(peers), [], [])
            if self._wake_in in ready:
                return
            if self._listener in ready:
                self._accept(peers)
            for sock in ready:
                if sock not in peers:
                    continue
                try:
                    data = sock.recv(65536)
                    if data:
                        peers[sock].sendall(data)
                        continue
                except OSError:
                    pass
                other = peers.pop(sock)
                peers.pop(other, None)
                self._hang_up(sock)
                self._hang_up(other)


def ask(place, url, ca=None, env=None, attempts=1):
    lines = ["model:", "  max_attempts: %d" % attempts]
    if ca:
        lines.append("  ca_file: %s" % ca)
    place.config("\n".join(lines) + "\n")
    done = place.script(url, "-c", "is it safe?", env=env)
    assert KEY.encode() not in done.stdout + done.stderr, done
    return done


def is_refused(done, *words, status=5):
    assert done.status == status and done.stdout == b"", done
    assert done.stderr.count(b"error: ") == 1, done
    for word in words:
        assert word in done.stderr, (word, done)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


# ---- names and connections --------------------------------------------------

def test_a_name_that_is_none():
    """A label beyond 63 bytes is refused before anybody is asked."""
    name = "x" * 64 + ".example"
    with Place() as place:
        is_refused(ask(place, "https://%s" % name), b"no address is known",
                   name.encode())


def test_nobody_listens():
    with Place() as place:
        port = free_port()
        is_refused(ask(place, "https://127.0.0.1:%d" % port),
                   b"no connection to 127.0.0.1 port %d" % port,
                   b"Connection refused")


def test_no_tls_where_it_was_asked_for():
    with Place() as place, Proxy(400) as plain:
        is_refused(ask(place, plain.url.replace("http:", "https:")),
                   b"no secure connection to 127.0.0.1")
        assert KEY.encode() not in b"".join(plain.heads)


# ---- certificates -----------------------------------------------------------

def make_expired(place):
    """A certificate of the trusted authority whose time is over."""
    base = os.path.join(place.dir, "expired")
    with open(base + ".cnf", "w") as out:
        out.write("[req]\nprompt=no\ndistinguished_name=dn\n[dn]\nCN=late\n"
                  "[ext]\nbasicConstraints=CA:FALSE\n"
                  "subjectAltName=IP:127.0.0.1\n"
                  "[ca]\ndefault_ca=here\n[here]\ndatabase=%s.db\n"
                  "new_certs_dir=%s\nserial=%s.srl\ndefault_md=sha256\n"
                  "policy=any\nunique_subject=no\n[any]\nCN=supplied\n"
                  % (base, place.dir, base))
    open(base + ".db", "w").close()
    with open(base + ".srl", "w") as out:
        out.write("77\n")
    for args in (
            ("req", "-new", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-keyout", base + ".key",
             "-out", base + ".csr", "-config", base + ".cnf"),
            ("ca", "-batch", "-config", base + ".cnf", "-cert",
             os.path.join(place.dir, "test-ca.pem"), "-keyfile",
             os.path.join(place.dir, "test-ca.key"), "-in", base + ".csr",
             "-out", base + ".pem", "-startdate", "20200101000000Z",
             "-enddate", "20200201000000Z", "-extensions", "ext",
             "-notext")):
        done = subprocess.run(("openssl",) + args, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
    return base + ".pem", base + ".key"


@tap.timeout(60)
def test_certificates_that_are_not_accepted():
    with Place() as place:
        certs = make_certs(place.dir)
        for tls, ca, words in (
                (certs.wrong, certs.ca, (b"127.0.0.1",)),
                (certs.untrusted, certs.ca, (b"model.ca_file",)),
                (certs.right, None, (b"model.ca_file",)),
                (make_expired(place), certs.ca, (b"expired",))):
            with ClaudeServer(tls=tls) as server:
                # It is no use to try again.
                is_refused(ask(place, server, ca, attempts=5),
                           b"the certificate of 127.0.0.1 is not accepted",
                           *words)
                assert not server.requests
                assert len(server.tls_errors) <= 1, server.tls_errors


@tap.timeout(60)
def test_nothing_switches_the_check_off():
    with Place() as place:
        certs = make_certs(place.dir)
        home = place.homes["HOME"]
        with open(os.path.join(home, ".curlrc"), "w") as out:
            out.write("insecure\nproxy-insecure\n")
        env = {"CURL_INSECURE": "1", "NODE_TLS_REJECT_UNAUTHORIZED": "0",
               "PYTHONHTTPSVERIFY": "0", "SSL_VERIFY": "0",
               "GIT_SSL_NO_VERIFY": "1", "CURL_HOME": home,
               "SANDPIPER_INSECURE": "1", "CURL_CA_BUNDLE": certs.ca,
               "SSL_NO_VERIFY": "1"}
        with ClaudeServer(tls=certs.right) as server:
            is_refused(ask(place, server, env=env), b"certificate")
            assert not server.requests
        with ClaudeServer(tls=certs.right) as server:
            for key in ("insecure", "verify", "tls_verify", "ca_path"):
                place.config("model:\n  %s: false\n" % key)
                done = place.script(server, "-c", "hello")
                is_refused(done, b"unknown key", status=3)
            for option in ("--insecure", "-k"):
                done = place.script(server, option, "-c", "hello")
                is_refused(done, b"unknown option", status=2)
            assert not server.requests


# ---- proxies ----------------------------------------------------------------

@tap.timeout(60)
def test_a_proxy_is_used():
    for name in ("https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        with Place() as place:
            certs = make_certs(place.dir)
            with Proxy() as proxy, ClaudeServer(
                    [reply(["It is safe."])], tls=certs.right) as server:
                done = ask(place, server, certs.ca, {name: proxy.url})
                assert done.status == 0 and done.stdout == ANSWER, done
                assert len(proxy.heads) == 1
                assert proxy.heads[0].startswith(
                    b"CONNECT 127.0.0.1:%d " % server.port), proxy.heads
                assert KEY.encode() not in proxy.heads[0]


@tap.timeout(60)
def test_no_proxy_is_used():
    for name in ("no_proxy", "NO_PROXY"):
        for value in ("127.0.0.1", "*", "other.example,127.0.0.1"):
            with Place() as place:
                certs = make_certs(place.dir)
                with Proxy() as proxy, ClaudeServer(
                        [reply(["It is safe."])], tls=certs.right) as server:
                    done = ask(place, server, certs.ca, {
                        "https_proxy": proxy.url, name: value})
                    assert done.status == 0 and done.stdout == ANSWER, done
                    assert not proxy.heads


@tap.timeout(60)
def test_a_proxy_that_refuses():
    for status, words, n in ((403, b"the proxy refuses to connect", 1),
                             (407, b"https_proxy", 1),
                             (503, b"the proxy refuses to connect", 2)):
        with Place() as place, Proxy(status) as proxy:
            done = ask(place, "https://service.example", env={
                "https_proxy": proxy.url}, attempts=2)
            is_refused(done, words, b"(%d)" % status)
            assert len(proxy.heads) == n, (status, len(proxy.heads))


@tap.timeout(60)
def test_proxies_that_are_none():
    with Place() as place:
        for answer in (b"", b"220 mail.example ESMTP\r\n"):
            with Proxy(answer=answer) as proxy:
                is_refused(ask(place, "https://service.example", env={
                    "https_proxy": proxy.url}), b"proxy")
        is_refused(ask(place, "https://service.example", env={
            "https_proxy": "http://127.0.0.1:%d" % free_port()}),
            b"no connection to the proxy for service.example", b"refused")
        is_refused(ask(place, "https://service.example", env={
            "https_proxy": "http://%s.example" % ("x" * 64)}),
            b"no address is known for the proxy")


def test_a_secret_of_the_proxy_is_not_told():
    with Place() as place, Proxy(407) as proxy:
        url = proxy.url.replace("http://", "http://me:proxy-secret@")
        done = ask(place, "https://service.example", env={"https_proxy": url})
        is_refused(done, b"(407)")
        assert b"proxy-secret" not in done.stderr, done
        # Of a kind that libcurl does not know, and then repeats.
        done = ask(place, "https://service.example", attempts=5, env={
            "https_proxy": "gopher://me:proxy-secret@x.example"})
        is_refused(done, b"https_proxy: a kind of proxy", status=3)
        assert b"proxy-secret" not in done.stderr, done
        assert b"waiting" not in done.stderr, done


# ---- headers of the user's own ----------------------------------------------

def with_headers(text, keys=None, log=False, sent=True):
    script = [reply(["It is safe."])] if sent else []
    with Place() as place, ClaudeServer(script, keys=keys) as fake:
        path = os.path.join(place.dir, "log")
        env = {"ANTHROPIC_CUSTOM_HEADERS": text}
        if log:
            env["SANDPIPER_LOG"] = path
        done = place.script(fake, "-c", "is it safe?", env=env)
        assert len(fake.requests) == len(script), done
        data = ""
        if log:
            with open(path) as lines:
                data = lines.read()
        return done, fake.requests[0] if sent else None, data


@tap.timeout(60)
def test_custom_headers_are_sent():
    done, request, log = with_headers(
        "X-Team: blue \n\r\n  x-trace:a:b=c\r\nX-Empty:\nx-team: green",
        log=True)
    assert done.stdout == ANSWER, done
    assert request.header("x-team") == "green", request.headers
    assert [v for k, v in request.headers if k == "x-team"] == ["green"]
    assert request.header("x-trace") == "a:b=c"
    assert request.header("x-empty") == ""
    assert log and "a:b=c" not in log and "green" not in log, log


@tap.timeout(60)
def test_custom_headers_win():
    _, request, _ = with_headers("anthropic-version: 2026-10-21\n"
                                 "user-agent: mine/1\naccept: text/x")
    for name, value in (("anthropic-version", "2026-10-21"),
                        ("user-agent", "mine/1"), ("accept", "text/x")):
        found = [v for k, v in request.headers if k == name]
        assert found == [value], (name, found)
    for line, name in (("Authorization: Bearer other-secret",
                        "authorization"), ("X-Api-Key: other-secret",
                                           "x-api-key")):
        done, request, log = with_headers(line, keys={"other-secret"},
                                          log=True)
        assert done.status == 0, done
        assert [k for k, _ in request.credentials] == [name]
        assert "other-secret" not in log, log


@tap.timeout(60)
def test_custom_headers_that_are_refused():
    for text, words in (
            ("X-Fine: 1\nno colon here secret-1", b"line 2 has no colon"),
            (": secret-1", b"line 1 begins with no header's name"),
            ("two words: secret-1", b"line 1 begins with no header's name"),
            ("X-A: secret-1\x07", b"line 1: a control character"),
            ("Content-Length: 7", b"content-length"),
            ("transfer-encoding: chunked", b"transfer-encoding"),
            ("Accept-Encoding: gzip", b"accept-encoding")):
        done, _, _ = with_headers(text, sent=False)
        assert done.status == 3, (text, done)
        assert b"ANTHROPIC_CUSTOM_HEADERS" in done.stderr, done
        assert words in done.stderr.lower(), done
        assert b"secret-1" not in done.stderr, done


if __name__ == "__main__":
    if not shutil.which("openssl"):
        tap.skip_all("no openssl command")
    tap.main(globals())
