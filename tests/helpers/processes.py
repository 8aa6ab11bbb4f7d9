# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of this machine, as /proc shows them."""

import os


def process_table():
    """pid -> (parent, state, session) of every process."""
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as stat:
                # The name in parentheses may hold anything.
                fields = stat.read().rsplit(b")", 1)[1].split()
        except OSError:
            continue
        table[int(name)] = (int(fields[1]), fields[0].decode(),
                            int(fields[3]))
    return table


def with_descendants(pids, table):
    """pids and all that descend from them in the table, dead ones too."""
    found = set(pids)
    grew = True
    while grew:
        more = {p for p, (parent, *_) in table.items()
                if parent in found} - found
        found |= more
        grew = bool(more)
    return found


def start_of(pid):
    """In clock ticks since the machine began; 0 when it has gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stat:
            return int(stat.read().rsplit(b")", 1)[1].split()[19])
    except OSError:
        return 0


def descendants_of(pid):
    """Live processes below pid, without pid itself, a parent before its
    children. Numbers alone tell nothing: they begin again at 32768 or so."""
    table = process_table()

    def age(one):
        depth = 0
        at = one
        while at in table and at != pid:
            at = table[at][0]
            depth += 1
        return start_of(one), depth, one
    return sorted((p for p in with_descendants({pid}, table) - {pid}
                   if table[p][1] not in "ZX"), key=age)
