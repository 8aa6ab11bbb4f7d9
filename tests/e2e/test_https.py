#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key goes to the service that was named, over a connection whose other
end has proved who it is, and to nobody else."""

import os
import shutil
import socket
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import KEY, Place  # noqa: E402

import tap  # noqa: E402
from certs import make_certs  # noqa: E402
from claude_server import (ClaudeServer, KeyTrap, redirect,  # noqa: E402
                           reply)


def ask(place, url, ca=None, env=None):
    lines = ["model:", "  max_attempts: 1"]
    if ca:
        lines.append("  ca_file: %s" % ca)
    place.config("\n".join(lines) + "\n")
    return place.script(url, "-c", "is it safe?", env=env)


def is_refused(done, *words):
    assert done.status != 0, done
    assert done.stdout == b"", done
    assert b"error: " in done.stderr, done
    for word in words:
        assert word in done.stderr.lower(), (word, done)
    assert KEY.encode() not in done.stderr, done


def test_a_known_authority():
    with Place() as place:
        certs = make_certs(place.dir)
        with ClaudeServer([reply(["It is safe."])], tls=certs.right) as server:
            done = ask(place, server, certs.ca)
            assert done.status == 0, done
            assert done.stdout == b"It is safe.\n", done
            assert server.requests[0].credentials == [
                ("authorization", "Bearer " + KEY)]
            assert not server.tls_errors, server.tls_errors


def test_a_wrong_host_name():
    with Place() as place:
        certs = make_certs(place.dir)
        with ClaudeServer(tls=certs.wrong) as server:
            is_refused(ask(place, server, certs.ca), b"certificate")
            assert not server.requests


def test_the_name_counts_not_the_address():
    with Place() as place:
        certs = make_certs(place.dir)
        with ClaudeServer([reply(["It is safe."])], tls=certs.right) as server:
            url = server.url.replace("127.0.0.1", "localhost")
            done = ask(place, url, certs.ca)
            assert done.status == 0 and done.stdout == b"It is safe.\n", done


def test_an_unknown_authority():
    with Place() as place:
        certs = make_certs(place.dir)
        with ClaudeServer(tls=certs.untrusted) as server:
            is_refused(ask(place, server, certs.ca), b"certificate")
            assert not server.requests


def test_the_authority_must_be_named():
    with Place() as place:
        certs = make_certs(place.dir)
        with ClaudeServer(tls=certs.right) as server:
            is_refused(ask(place, server), b"certificate")
            assert not server.requests


def test_a_ca_file_that_is_none():
    with Place() as place:
        certs = make_certs(place.dir)
        missing = os.path.join(place.dir, "none.pem")
        junk = place.file("junk.pem", "this is no certificate\n")
        with ClaudeServer(tls=certs.right) as server:
            for path in (missing, junk):
                is_refused(ask(place, server, path), b".pem")
            assert not server.requests


def test_no_tls_where_it_was_asked_for():
    """The other end speaks HTTP without TLS; it learns nothing."""
    got = []

    def answer(listener):
        sock, _ = listener.accept()
        with sock:
            got.append(sock.recv(65536))
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with Place() as place, socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,),
                                  daemon=True)
        thread.start()
        is_refused(ask(place, "https://127.0.0.1:%d" %
                       listener.getsockname()[1]))
        thread.join(10)
        assert got and KEY.encode() not in got[0], got


def test_a_redirect_is_not_followed():
    for status in (301, 302, 303, 307, 308):
        with Place() as place, KeyTrap() as trap, ClaudeServer([
                redirect(trap.url + "/v1/messages", status)]) as server:
            done = ask(place, server)
            is_refused(done, b"redirect")
            assert len(server.requests) == 1
            assert not trap.requests and not trap.credentials, status


def test_a_redirect_to_itself_is_not_followed():
    with Place() as place:
        with ClaudeServer() as server:
            server.add(redirect(server.url + "/v1/messages"))
            is_refused(ask(place, server))
            assert len(server.requests) == 1


def test_a_redirect_from_https_is_not_followed():
    with Place() as place:
        certs = make_certs(place.dir)
        with KeyTrap() as trap, ClaudeServer(
                [redirect(trap.url + "/v1/messages")],
                tls=certs.right) as server:
            is_refused(ask(place, server, certs.ca))
            assert not trap.requests


def test_a_proxy_of_the_environment_is_not_told_the_key():
    """Over https a proxy sees a CONNECT only."""
    with Place() as place:
        certs = make_certs(place.dir)
        with KeyTrap() as trap, ClaudeServer(
                [reply(["It is safe."])], tls=certs.right,
                repeat=True) as server:
            ask(place, server, certs.ca, env={"https_proxy": trap.url})
            assert not trap.credentials, trap.credentials


def test_the_base_url_must_be_http():
    with Place() as place:
        for url in ("ftp://127.0.0.1:1", "file:///etc/passwd",
                    "127.0.0.1:80", "gopher://x"):
            done = ask(place, url)
            is_refused(done, b"http")


if __name__ == "__main__":
    if not shutil.which("openssl"):
        tap.skip_all("no openssl command")
    tap.main(globals())
