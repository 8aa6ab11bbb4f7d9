#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What analysts' programs do works inside: the filter and the limits forbid
nothing that is needed."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from sandbox_session import Sandbox  # noqa: E402

tap.DEFAULT_TIMEOUT_S = 90


def works(code, expected):
    """The cell prints what is expected, in a sandbox of its own."""
    with Sandbox() as sb:
        cell = sb.cell(code)
        assert cell.outcome == "ok", cell
        assert cell.stdout.strip() == expected, cell
        assert cell.stderr == "", cell


def needs(*names):
    with Sandbox() as sb:
        cell = sb.cell("import importlib.util as u\nprint([n for n in %r "
                       "if u.find_spec(n) is None])" % (names,))
        if cell.stdout.strip() != "[]":
            tap.skip("the interpreter has no %s" % cell.stdout.strip())


def test_linear_algebra():
    needs("numpy")
    works("""
import numpy as np
a = np.random.default_rng(1).normal(size=(300, 300))
print(np.allclose(a @ np.linalg.inv(a), np.eye(300)),
      np.allclose(np.linalg.solve(a, a @ np.ones(300)), np.ones(300)),
      len(np.linalg.svd(a)[1]), np.linalg.eigvalsh(a + a.T).shape)
""", "True True 300 (300,)")


def test_csv():
    needs("pandas")
    works("""
import csv, pandas as pd
pd.DataFrame({"a": range(5000), "b": "x,y"}).to_csv("t.csv", index=False)
print(pd.read_csv("t.csv").a.sum(), len(list(csv.reader(open("t.csv")))))
""", "12497500 5001")


def test_sqlite():
    works("""
import sqlite3
with sqlite3.connect("t.db") as db:
    db.execute("pragma journal_mode = wal")
    db.execute("create table t (a, b)")
    db.executemany("insert into t values (?, ?)",
                   [(i, str(i)) for i in range(1000)])
print(sqlite3.connect("t.db").execute("select sum(a), count(*) from t")
      .fetchone())
""", "(499500, 1000)")


def test_charts_as_files():
    needs("matplotlib")
    works("""
import os, matplotlib.pyplot as plt
plt.plot([1, 2, 3])
os.makedirs("output", exist_ok=True)
for kind in ("png", "pdf", "svg"):
    plt.savefig("output/chart." + kind)
plt.close()
print(open("output/chart.png", "rb").read(4) == b"\\x89PNG",
      open("output/chart.pdf", "rb").read(4),
      "<svg" in open("output/chart.svg").read())
""", "True b'%PDF' True")


def test_charts_saved_and_shown_appear_once():
    needs("matplotlib")
    with Sandbox() as sb:
        cell = sb.cell("""
import matplotlib.pyplot as plt
from IPython.display import Image
plt.plot([1, 2])
plt.savefig("chart.png")
plt.show()
Image("chart.png")
""")
        assert cell.outcome == "ok", cell
        assert len(cell.outputs) == 1, cell
        assert "chart.png" in sb.list(), cell


def test_paths_offer_files():
    with Sandbox() as sb:
        cell = sb.cell("""
import os, pathlib
os.makedirs("output", exist_ok=True)
open("output/x.csv", "w").close()
display("output/x.csv")
display(pathlib.Path("/workspace/output/x.csv"))
display("/etc/passwd")
""")
        assert cell.outcome == "ok", cell
        assert str(cell.notes).count("output/x.csv") == 2, cell
        assert len(cell.outputs) == 1, cell


def test_pool():
    works("""
import multiprocessing as mp
def square(x): return x * x
with mp.Pool(3) as pool:
    print(sum(pool.map(square, range(100))))
""", "328350")


def test_ways_to_start_processes():
    works("""
import multiprocessing as mp
open("squares.py", "w").write("def square(x): return x * x")
import squares
for way in ("fork", "spawn", "forkserver"):
    with mp.get_context(way).Pool(2) as pool:
        print(sum(pool.map(squares.square, range(10))), end=" ")
""", "285 285 285")


def test_manager():
    works("""
import multiprocessing as mp
def add(d, k): d[k] = k * k
with mp.Manager() as manager:
    shared = manager.dict()
    ps = [mp.Process(target=add, args=(shared, k)) for k in range(4)]
    for p in ps: p.start()
    for p in ps: p.join()
    print(sorted(shared.items()))
""", "[(0, 0), (1, 1), (2, 4), (3, 9)]")


def test_queues_and_locks():
    works("""
import multiprocessing as mp
q, lock, n = mp.Queue(), mp.Lock(), mp.Value("i", 0)
def work():
    for _ in range(100):
        with lock: n.value += 1
    q.put("done")
ps = [mp.Process(target=work) for _ in range(3)]
for p in ps: p.start()
words = [q.get() for _ in ps]
for p in ps: p.join()
print(words, n.value)
""", "['done', 'done', 'done'] 300")


def test_shared_memory():
    works("""
from multiprocessing import Process, shared_memory
memory = shared_memory.SharedMemory(create=True, size=1 << 20)
def work(name):
    other = shared_memory.SharedMemory(name=name)
    other.buf[5] = 42
    other.close()
p = Process(target=work, args=(memory.name,))
p.start(); p.join()
print(memory.buf[5])
memory.close(); memory.unlink()
""", "42")


def test_executors():
    works("""
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
def square(x): return x * x
for kind in (ProcessPoolExecutor, ThreadPoolExecutor):
    with kind(3) as executor:
        print(sum(executor.map(square, range(50))), end=" ")
""", "40425 40425")


def test_asyncio_with_a_subprocess():
    works("""
import asyncio
async def ask(text):
    p = await asyncio.create_subprocess_exec(
        "tr", "a-z", "A-Z", stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE)
    return (await p.communicate(text.encode()))[0].decode()
print(await asyncio.gather(ask("one"), ask("two")))
print(asyncio.run(ask("three")))
""", "['ONE', 'TWO']\nTHREE")


def test_subprocess():
    works("""
import subprocess
print(subprocess.run("sort | uniq -c | wc -l", shell=True, text=True,
                     input="b\\na\\nb\\n", capture_output=True).stdout)
""", "2")


def test_ctypes_callbacks():
    works("""
import ctypes
libc = ctypes.CDLL(None)
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                        ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 5)(5, 3, 1, 4, 2)
libc.qsort(numbers, 5, ctypes.sizeof(ctypes.c_int),
           kind(lambda a, b: a[0] - b[0]))
print(list(numbers))
""", "[1, 2, 3, 4, 5]")


def test_memmap():
    needs("numpy")
    works("""
import mmap, numpy as np
m = np.memmap("m.bin", dtype="f8", mode="w+", shape=(1000, 10))
m[:] = 1
m.flush()
print(np.memmap("m.bin", dtype="f8", mode="r").sum())
with open("m.bin", "r+b") as f, mmap.mmap(f.fileno(), 0) as view:
    print(len(view))
""", "10000.0\n80000")


def test_archives():
    works("""
import gzip, os, tarfile, zipfile
with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("in.txt", "text" * 1000)
with tarfile.open("a.tar.xz", "w:xz") as t:
    t.add("a.zip")
with tarfile.open("a.tar.xz") as t:
    t.extractall("out")
with gzip.open("a.gz", "wt") as f:
    f.write("packed")
print(len(zipfile.ZipFile("out/a.zip").read("in.txt")),
      gzip.open("a.gz", "rt").read())
""", "4000 packed")


def test_threads():
    works("""
import queue, threading
q = queue.Queue()
threads = [threading.Thread(target=lambda n=n: q.put(n)) for n in range(20)]
for t in threads: t.start()
for t in threads: t.join()
print(sum(q.get() for _ in threads))
""", "190")


def test_time_zones():
    works("""
import datetime, time, zoneinfo
t = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone.utc)
print(t.astimezone(zoneinfo.ZoneInfo("America/New_York")).hour,
      t.astimezone(zoneinfo.ZoneInfo("Asia/Kolkata")).strftime("%H:%M"))
""", "8 17:30")


def test_time_zones_of_pandas():
    needs("pandas")
    works("""
import pandas as pd
print(pd.Timestamp("2024-01-01", tz="UTC").tz_convert("Asia/Tokyo").hour)
""", "9")


def test_who_one_is():
    works("""
import getpass, os, tempfile
with tempfile.NamedTemporaryFile() as f:
    f.write(b"x")
print(bool(getpass.getuser()), os.path.expanduser("~") != "~",
      bool(os.cpu_count()), bool(os.urandom(8)))
""", "True True True True")


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has hardly a part in it")
    tap.main(globals())
