# SPDX-License-Identifier: GPL-3.0-or-later
"""Throw-away certificates for tests, made with the openssl command.

    certs = make_certs(directory)
    ClaudeServer(..., tls=certs.right)     # 127.0.0.1 and localhost
    ClaudeServer(..., tls=certs.wrong)     # another host's name, same CA
    env["CURL_CA_BUNDLE"] = certs.ca       # PEM to trust
    certs.untrusted                        # right name, unknown CA
"""

import os
import subprocess


class Certs:
    def __init__(self, ca, right, wrong, untrusted):
        self.ca = ca
        self.right = right
        self.wrong = wrong
        self.untrusted = untrusted


def _openssl(*args):
    done = subprocess.run(("openssl",) + args, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise RuntimeError("openssl %s: %s" % (
            " ".join(args), done.stdout.decode(errors="replace")))


def _key(path):
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-out", path)


def _ca(directory, name):
    cert = os.path.join(directory, name + ".pem")
    key = os.path.join(directory, name + ".key")
    config = os.path.join(directory, name + ".cnf")
    with open(config, "w") as out:
        out.write("[req]\nprompt=no\ndistinguished_name=dn\n"
                  "x509_extensions=ext\n[dn]\nCN=%s\n[ext]\n"
                  "basicConstraints=critical,CA:TRUE\n"
                  "keyUsage=critical,keyCertSign,cRLSign\n"
                  "subjectKeyIdentifier=hash\n" % name)
    _key(key)
    _openssl("req", "-new", "-x509", "-days", "7", "-key", key, "-out", cert,
             "-config", config)
    return cert, key


def _server(directory, name, names, ca):
    cert = os.path.join(directory, name + ".pem")
    key = os.path.join(directory, name + ".key")
    request = os.path.join(directory, name + ".csr")
    config = os.path.join(directory, name + ".cnf")
    with open(config, "w") as out:
        out.write("[req]\nprompt=no\ndistinguished_name=dn\n[dn]\nCN=%s\n"
                  "[ext]\nbasicConstraints=CA:FALSE\n"
                  "extendedKeyUsage=serverAuth\n"
                  "authorityKeyIdentifier=keyid\n"
                  "subjectAltName=%s\n" % (name, names))
    _key(key)
    _openssl("req", "-new", "-key", key, "-out", request, "-config", config)
    _openssl("x509", "-req", "-days", "7", "-in", request, "-CA", ca[0],
             "-CAkey", ca[1], "-set_serial", str(2 + len(os.listdir(
                 directory))), "-out", cert, "-extfile", config,
             "-extensions", "ext")
    return cert, key


def make_certs(directory):
    here = "IP:127.0.0.1,DNS:localhost"
    ca = _ca(directory, "test-ca")
    other = _ca(directory, "other-ca")
    return Certs(ca[0], _server(directory, "right", here, ca),
                 _server(directory, "wrong", "DNS:elsewhere.example", ca),
                 _server(directory, "untrusted", here, other))
