#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing outside is reached by a socket of any kind."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from attack_program import all_are, host, inside, main  # noqa: E402
from sandbox_session import attack, level  # noqa: E402


@attack(20)
def test_listeners_of_the_host_are_not_reached():
    """That nobody came to them is seen by the check of the host."""
    found = inside("""
import asyncio, socket, urllib.request
for address in (("127.0.0.1", %d), ("::1", %d), ("localhost", %d)):
    report(repr(address), outcome(socket.create_connection, address, 5))
    for family in (socket.AF_INET, socket.AF_INET6):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            report("%%s %%d %%d" %% (address, family, kind),
                   outcome(socket.socket, family, kind))
report("url", outcome(urllib.request.urlopen, "http://127.0.0.1:%d/"))
report("asyncio", outcome(lambda: asyncio.run(
    asyncio.wait_for(asyncio.open_connection("127.0.0.1", %d), 5))))
import subprocess
r = subprocess.run(["/bin/bash", "-c", "echo x > /dev/tcp/127.0.0.1/%d"],
                   capture_output=True)
report("shell", "EAFNOSUPPORT" if b"not supported" in r.stderr
       else r.stderr.decode())
""" % ((host().port, host().port6 or host().port) + (host().port,) * 4))
    # urllib and the look-up of a name wrap the error.
    for name in ("url", repr(("localhost", host().port))):
        assert found.pop(name) in ("URLError", "gaierror", "EAFNOSUPPORT")
    assert len(found) >= 15, found
    all_are(found, "EAFNOSUPPORT")


@attack(21)
def test_names_interfaces_and_routes():
    found = inside("""
import socket, time
start = time.monotonic()
for name in ("example.com", "localhost.localdomain",
             "metadata.google.internal"):
    report(name, outcome(socket.getaddrinfo, name, 80))
try:
    report("back", socket.gethostbyaddr("192.0.2.1"))
except OSError as exc:
    report("back", type(exc).__name__)
report("seconds", time.monotonic() - start)
def words(path):
    try:
        return [line.split()[0].rstrip(":") for line in open(path)
                if line.split()]
    except OSError as exc:
        return []
report("interfaces", [w for w in words("/proc/net/dev")
                      if w not in ("Inter-|", "face")])
report("routes", words("/proc/net/route")[1:])
# Those of lo alone: the last word names the interface.
try:
    report("routes 6", [line.split()[-1] for line
                        in open("/proc/net/ipv6_route")])
    report("addresses 6", [line.split()[-1] for line
                           in open("/proc/net/if_inet6")])
    report("arp", words("/proc/net/arp")[1:])
except OSError:
    report("routes 6", [])
    report("addresses 6", [])
    report("arp", [])
report("sys", outcome(os.listdir, "/sys/class/net"))
report("names", outcome(socket.if_nameindex))
""")
    # At once, which a resolver that answers nothing would not be.
    assert found.pop("seconds") < 15 * tap.FACTOR, found
    for name in ("example.com", "localhost.localdomain", "back",
                 "metadata.google.internal"):
        assert found.pop(name) in ("gaierror", "herror", "EAFNOSUPPORT"), name
    assert found.pop("sys") in ("ENOENT", "EACCES"), found
    assert found.pop("names") == "EAFNOSUPPORT", found
    if level() == "reduced":
        return
    assert found.pop("interfaces") == ["lo"], found
    assert set(found.pop("routes 6") + found.pop("addresses 6")) <= {"lo"}
    all_are(found, [])


@attack(22)
def test_abstract_sockets_of_the_host():
    found = inside("""
import socket
def name_of(text, kind):
    s = socket.socket(socket.AF_UNIX, kind)
    try:
        s.connect(text)
    finally:
        s.close()
for text, kind in ((%r, socket.SOCK_STREAM), (%r, socket.SOCK_DGRAM),
                   ("/tmp/.X11-unix/X0", socket.SOCK_STREAM),
                   ("/tmp/dbus-0", socket.SOCK_STREAM)):
    report(text, outcome(name_of, "\\0" + text, kind))
report("send", outcome(lambda: socket.socket(
    socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0" + %r)))
try:
    report("listed", "sandpiper-test" in open("/proc/net/unix").read())
except OSError:
    report("listed", False)
# The control: one of its own is reached.
if LEVEL != "reduced":
    mine = socket.socket(socket.AF_UNIX)
    mine.bind("\\0own")
    mine.listen(1)
    report("own", outcome(name_of, "\\0own", socket.SOCK_STREAM))
    mine.close()
""" % (host().abstract, host().abstract + "-d", host().abstract + "-d"))
    assert level() == "reduced" or found.pop("own") == "ok: None", found
    assert found.pop("listed") is False
    all_are(found, "EPERM" if level() == "reduced" else "ECONNREFUSED")


FAMILIES = """
STREAM, DGRAM, RAW, RDM, SEQPACKET, PACKET = 1, 2, 3, 4, 5, 10
families = dict(INET=2, INET6=10, NETLINK=16, PACKET=17, VSOCK=40, ALG=38,
                BLUETOOTH=31, TIPC=30, RDS=21, CAN=29, XDP=44, KEY=15, SMC=43,
                AX25=3, IPX=4, X25=9, NETROM=6, LLC=26, IUCV=32, KCM=41,
                PPPOX=24, PHONET=35, NFC=39, QIPCRTR=42, IEEE802154=36,
                IB=27, MCTP=45, UNSPEC=0)
for name, number in families.items():
    for kind in (STREAM, DGRAM, RAW, RDM, SEQPACKET, PACKET):
        report("%s %d" % (name, kind), call(nr("socket"), number, kind, 0))
    report(name + " pair", call(nr("socketpair"), number, STREAM, 0, bytes(8)))
# Where the protocol makes the difference.
for name, args in dict(
        sctp=(2, STREAM, 132), sctp6=(10, SEQPACKET, 132), icmp=(2, RAW, 1),
        raw=(2, RAW, 255), raw6=(10, RAW, 58), ping=(2, DGRAM, 1),
        mptcp=(2, STREAM, 262), dccp=(2, 6, 33), udplite=(2, DGRAM, 136),
        frames=(17, RAW, 0x0300), route=(16, RAW, 0), audit=(16, RAW, 9),
        netfilter=(16, RAW, 12), uevent=(16, DGRAM, 15), crypto=(16, RAW, 21),
        l2cap=(31, SEQPACKET, 0), hci=(31, RAW, 1), rfcomm=(31, STREAM, 3),
        bcm=(29, DGRAM, 2), can=(29, RAW, 1), key=(15, RAW, 2),
        smc6=(43, STREAM, 1), vsock=(40, DGRAM, 0)).items():
    report(name, call(nr("socket"), *args))
for number in list(range(2, 256)) + [-1, 1 << 31, (1 << 31) + 1]:
    report("family %d" % number, call(nr("socket"), number, DGRAM, 0))
# Only the low half counts for the kernel.
for high in (1 << 32, 1 << 40, -1 << 32):
    report("high %d" % high, call(nr("socket"), high | 2, STREAM, 0))
    report("high pair %d" % high, call(nr("socketpair"), high | 2, STREAM, 0,
                                       bytes(8)))
for flags in (0, 0o4000, 0o2000000):
    report("flags %o" % flags, call(nr("socket"), 2, STREAM | flags, 0))
report("unix", call(nr("socket"), 1, STREAM, 0))
report("high unix", call(nr("socket"), 1 << 32 | 1, STREAM, 0))
report("unix pair", call(nr("socketpair"), 1, STREAM, 0,
                         ctypes.create_string_buffer(8)))
"""


@attack(24)
def test_no_socket_of_another_family():
    found = inside(FAMILIES)
    for name in ("unix", "high unix", "unix pair"):
        # At that level those by path would be the host's.
        want = "EPERM" if level() == "reduced" and "pair" not in name else "ok"
        assert found.pop(name) == want, name
    assert len(found) > 400, len(found)
    all_are(found, "EAFNOSUPPORT")


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has hardly a part in it")
    main(globals())
