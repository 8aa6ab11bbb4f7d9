#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the snippet that loads a file on many files, without a sandbox.

Prints TAP. SNIPPET names another snippet, KERNEL_PYTHON the interpreter that
is used when this one has no pandas. What the report calls `setup` is
run in a fresh namespace and must make an equal frame: it is what brings a
loaded file back after the interpreter was lost. Holds for pandas 1.5 and 3;
without pandas the tests are skipped."""
import contextlib
import io
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402

PYTHON = os.environ.get("KERNEL_PYTHON") or "/usr/bin/python3"

try:
    import pandas as pd
except ImportError as exc:
    # The interpreter of the cells may be another than that of the tests.
    if "KERNEL_TRIED" in os.environ or not os.access(PYTHON, os.X_OK):
        tap.skip_all("no pandas: %s" % exc)
    os.environ["KERNEL_TRIED"] = "1"
    os.execv(PYTHON, [PYTHON] + sys.argv)

SNIPPET = os.environ.get("SNIPPET") or os.path.join(
    HERE, "..", "..", "src", "load", "load_snippet.py")
MARKER = "sandpiper-load-0123:"
with open(SNIPPET, encoding="utf-8") as stream:
    CODE = compile(stream.read(), "load_snippet.py", "exec")


@contextlib.contextmanager
def workspace(name, data):
    """A directory with data/NAME, as the current one."""
    old = os.getcwd()
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "data"))
        path = os.path.join(os.fsencode(root), b"data", name)
        with open(path, "wb") as f:
            f.write(data)
        os.chdir(root)
        try:
            yield
        finally:
            os.chdir(old)


def load(data, name=b"x.csv", variable="x"):
    """(report, frame) of a file with these bytes."""
    if isinstance(data, str):
        data = data.encode()
    space = {"__name__": "__main__"}
    printed = io.StringIO()
    noise = io.StringIO()
    with workspace(name, data):
        exec(CODE, space)
        with contextlib.redirect_stdout(printed), \
                contextlib.redirect_stderr(noise):
            space["_sandpiper_load"]({"name": name.hex(),
                                      "variable": variable,
                                      "marker": MARKER})
        assert noise.getvalue() == ""
        text = printed.getvalue()
        assert text.count(MARKER) == 1, text
        line = text[text.index(MARKER) + len(MARKER):]
        assert line.endswith("\n") and line.count("\n") == 1, line
        assert line.isascii()
        report = json.loads(line)
        if "error" in report:
            assert variable not in space
            assert report["error"] and "\n" not in report["error"]
            return report, None
        frame = space[variable]
        assert report["rows"] == len(frame)
        assert report["cols"] == frame.shape[1]
        assert len(report["columns"]) == min(frame.shape[1], 400)
        fresh = {}
        exec(compile(report["setup"], "setup", "exec"), fresh)
        pd.testing.assert_frame_equal(fresh[variable], frame)
        report["setup"].encode()
    return report, frame


def column(report, i=0):
    c = report["columns"][i]
    return c["name"], c["kind"], c["missing"], c["range"]


def refused(data, *words, **more):
    report, _ = load(data, **more)
    assert "error" in report, report
    for word in words:
        assert word in report["error"], report["error"]


def test_delimiters():
    for sep, word in ((",", "comma"), (";", "semicolon"), ("\t", "tab"),
                      ("|", "pipe")):
        report, frame = load("a%sb\n1%sx\n2%sy\n" % (sep, sep, sep))
        assert report["how"] == "UTF-8, %s, header" % word, report["how"]
        assert list(frame.columns) == ["a", "b"]
        assert column(report, 0) == ("a", "integer", 0, "1 \u2026 2")
        assert column(report, 1) == ("b", "text", 0, "x 1 \u00b7 y 1")


def test_delimiter_inside_quotes_and_text():
    report, frame = load('a;b\n"x;y";"1,2,3"\n"z";"4,5,6"\n')
    assert frame.shape == (2, 2) and frame["a"][0] == "x;y"
    report, frame = load('name,note\nx,"a;b;c"\ny,"d;e;f"\n')
    assert frame.shape == (2, 2)
    report, frame = load('a,b\n"one\ntwo",1\n"three\nfour",2\n')
    assert frame.shape == (2, 2) and frame["a"][0] == "one\ntwo"


def test_one_column():
    report, frame = load("only\n1\n2\n3\n")
    assert frame.shape == (3, 1) and list(frame.columns) == ["only"]
    assert report["how"] == "UTF-8, comma, header"


def test_encodings():
    text = "name,city\nJos\u00e9,K\u00f6ln\nAda,\u00c5re\n"
    for codec, how in (("utf-8", "UTF-8"), ("utf-8-sig", "UTF-8"),
                       ("utf-16", "UTF-16"),
                       ("cp1252", "windows-1252 (guessed)")):
        report, frame = load(text.encode(codec))
        assert list(frame.columns) == ["name", "city"], (codec, frame.columns)
        assert list(frame["city"]) == ["K\u00f6ln", "\u00c5re"], codec
        assert report["how"].startswith(how + ", "), report["how"]
    be = b"\xfe\xff" + text.encode("utf-16-be")
    report, frame = load(be)
    assert list(frame["name"]) == ["Jos\u00e9", "Ada"]


def test_encoding_behind_the_head():
    rows = "".join("%d,plain\n" % i for i in range(20000))
    report, frame = load(b"n,t\n" + rows.encode() + b"20000,caf\xe9\n")
    assert frame["t"].iloc[-1] == "caf\u00e9"
    assert report["how"].startswith("windows-1252 (guessed)")
    # A character across the end of the head is still UTF-8.
    for shift in range(4):
        data = b"t\n" + b"x" * (65536 - 4 - shift) + "\u20ac\u20ac\n".encode()
        report, frame = load(data)
        assert report["how"].startswith("UTF-8"), (shift, report["how"])


def test_bytes_that_no_code_page_has():
    report, frame = load(b"a,b\n1,x\x81y\n2,\x8d\n")
    assert frame.shape == (2, 2)


def test_header_only():
    report, frame = load("a,b,c\n")
    assert (report["rows"], report["cols"]) == (0, 3)
    assert [c["range"] for c in report["columns"]] == ["", "", ""]


def test_wide():
    head = ",".join("c%d" % i for i in range(500))
    row = ",".join(str(i) for i in range(500))
    report, frame = load(head + "\n" + row + "\n" + row + "\n")
    assert report["cols"] == 500 and len(report["columns"]) == 400
    assert column(report, 399) == ("c399", "integer", 0, "399 \u2026 399")


def test_duplicate_names():
    for head in ("a,a,a", "a,a,a.1", "a.1,a,a", ",,", "a,a,"):
        report, frame = load(head + "\n1,2,2025-01-02\n3,4,2025-01-03\n")
        assert frame.shape == (2, 3), head
        assert len({str(c) for c in frame.columns}) == 3, head
    report, frame = load("d,d\n2025-01-02,2025-01-03\n")
    assert [c["kind"] for c in report["columns"]] == ["date", "date"]


def test_iso_dates_are_parsed():
    report, frame = load("d,n\n2025-01-31,1\n2025-12-01,2\n")
    assert column(report) == ("d", "date", 0, "2025-01-31 \u2026 2025-12-01")
    report, frame = load("d,n\n2025-01-31,1\n,2\n2024-02-29,3\n")
    assert column(report) == ("d", "date", 1, "2024-02-29 \u2026 2025-01-31")


def test_timestamps_are_parsed():
    for text in ("2025-01-31 10:00", "2025-01-31T10:00:05",
                 "2025-01-31 10:00:05.250"):
        report, frame = load("t,n\n%s,1\n%s,2\n" % (text, text))
        name, kind, missing, span = column(report)
        assert (kind, missing) == ("timestamp", 0), (text, kind)
        assert span.startswith("2025-01-31 10:00:0"), span


def test_ambiguous_dates_stay_text():
    for text in ("03/04/2025", "3.4.2025", "2025-1-2", "20250102",
                 "2025-01-02Z", "Jan 2 2025"):
        report, frame = load("d,n\n%s,1\n%s,2\n" % (text, text))
        kind = column(report)[1]
        assert kind == ("integer" if text.isdigit() else "text"), (text, kind)


def test_dates_that_are_none_stay_text():
    for rows in ("2025-01-02\n2025-02-30", "2025-13-01\n2025-01-01",
                 "2025-01-02\nunknown", "0000-00-00\n2025-01-01"):
        report, frame = load("d\n%s\n" % rows)
        assert column(report)[1] == "text", rows
    report, frame = load("d,n\n9999-12-31,1\n2025-01-01,2\n")
    assert column(report)[1] in ("text", "date")


def test_leading_zeros_are_as_pandas_sees_them():
    report, frame = load("zip,x\n00501,1\n99950,2\n")
    assert column(report) == ("zip", "integer", 0, "501 \u2026 99,950")


def test_booleans():
    report, frame = load("b,c\nTrue,true\nFalse,\nTrue,false\n")
    assert column(report, 0) == ("b", "boolean", 0,
                                 "true 2 \u00b7 false 1")
    assert column(report, 1) == ("c", "boolean", 1,
                                 "true 1 \u00b7 false 1")


def test_missing_values():
    report, frame = load("a,b,c\n1,,x\n,,\n3,,y\n")
    assert column(report, 0)[2] == 1
    assert column(report, 1) == ("b", "decimal", 3, "")
    assert column(report, 2)[2] == 1


def test_numbers():
    report, frame = load("i,f,s,e\n-1200,3.2,0.0005,1e300\n"
                         "45000,1204,-0.5,-inf\n")
    assert column(report, 0) == ("i", "integer", 0, "-1,200 \u2026 45,000")
    assert column(report, 1) == ("f", "decimal", 0, "3.20 \u2026 1,204.00")
    assert column(report, 2) == ("s", "decimal", 0, "-0.50 \u2026 0.0005")
    assert column(report, 3)[1:3] == ("decimal", 0)


def test_huge_integers():
    report, frame = load("u,t\n1,1\n18446744073709551615,"
                         "99999999999999999999999\n")
    assert column(report, 0) == ("u", "integer", 0,
                                 "1 \u2026 18,446,744,073,709,551,615")
    assert report["columns"][1]["kind"] in ("text", "decimal")


def test_mixed_types_over_many_rows():
    rows = "".join("%d\n" % i for i in range(300000)) + "last\n"
    report, frame = load("a\n" + rows)
    assert report["rows"] == 300001
    assert column(report)[1] == "text"


def test_many_and_few_values():
    report, frame = load("a,b,n\n" + "".join(
        "%s,v%d,%d\n" % ("NESW"[i % 4], i, i) for i in range(1000)))
    assert column(report, 0)[3].count(" 250") == 4
    assert column(report, 1)[3] == "1,000 values"


def test_long_values_and_names_are_cut():
    report, frame = load("%s\n%s\n" % ("n" * 5000, "v" * 5000))
    name, kind, missing, span = column(report)
    assert len(name) == 200 and len(span) < 60


def test_binary_is_refused():
    refused(bytes(range(256)) * 40, "binary")
    refused(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 100, "binary")
    refused(b"a,b\n1,\0\n", "binary")


def test_a_nul_behind_the_head_is_no_crash():
    report, _ = load(b"a,b\n" + b"1,2\n" * 20000 + b"3,\0\n")
    assert report


def test_nothing_to_read_is_refused():
    refused("\n\n\n", "no columns")
    refused("   \n \n", "no columns")
    refused("\ufeff", "no columns")


def test_rows_that_do_not_fit_are_refused():
    refused("a,b\n1,2\n3,4,5\n6,7\n", "line 3")
    # One more field in every row: pandas would take the first for the index.
    refused("a,b\nx,1,2\ny,3,4\n", "line 2: 3 fields, but the header has 2")


def test_empty_fields_behind_the_last_column():
    for data, shape in (("a,b\n1,2,\n3,4,\n", (2, 2)),
                        ("a,b\n1,2,,,\n3,4\n5,6,,\n", (3, 2)),
                        ("a;b\n1;2;\n3;4;\n", (2, 2)),
                        ("\n\na,b\n \n1,2,\n3,4,\n", (2, 2)),
                        ('"a\nx",b\n"1\n2",2,\n', (1, 2)),
                        ("a,b\n1,2,\n" + "3,4,\n" * 30000, (30001, 2))):
        report, frame = load(data)
        assert frame is not None, (data[:40], report)
        assert frame.shape == shape, (data[:40], frame.shape)
        assert frame.iloc[0, 1] == 2, frame.iloc[0]
        assert "index_col=False" in report["setup"], report["setup"]
    for data, line in (("a,b\n1,2,\n3,4,5\n", 3),
                       ("a,b\n1,2, \n3,4,\n", 2),
                       ("a,b\n1,2,,\n3,4,,5\n", 3),
                       ("a,b\n\n1,2,\n\n3,4,x\n", 5),
                       ('a,b\n"1\n",2,\n3,4,x\n', 4),
                       ("a,b\n1,2,\n" + "3,4,\n" * 30000 + "5,6,7\n",
                        30003)):
        refused(data, "line %d: " % line)
    report, _ = load("a,b\n1,2\n3,4\n")
    assert "index_col" not in report["setup"]


def test_an_open_quote_is_refused():
    refused('a,b\n"x,1\ny,2\n')


def test_names_of_columns():
    for name in ("it's", 'say ""x""', "a\nb", "a b", "\u00e9", "\\", "{}",
                 "%s", "x' + __import__('os').name + '", "\u202e",
                 "\U0001f600"):
        report, frame = load('"%s",d\n1,2025-01-01\n' % name)
        want = name.replace('""', '"')
        assert frame.columns[0] == want, frame.columns
        assert column(report)[0] == want
        report, frame = load('"%s",n\n2025-01-01,1\n' % name)
        assert column(report)[1] == "date", name


def test_names_of_files():
    for name in (b"a b.csv", b"it's.csv", b'say "x".csv', b"a\nb.csv",
                 b"\\n.csv", "\u00e9.csv".encode(), b"\xff\xfe.csv",
                 b"a\xe9.csv", b"-rf.csv", b"{0}%s.csv", b"x\x1b[31m.csv",
                 b"http:.csv", b"~.csv", b"*.csv", b"noending"):
        report, frame = load("a,d\n1,2025-01-01\n", name=name)
        assert frame is not None, (name, report)
        assert frame.shape == (1, 2), name


def zipped(*names):
    import zipfile
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, "a;b\n1;2\n")
    return out.getvalue()


def test_packed_files():
    import bz2
    import gzip
    import lzma
    text = b"a;b\n1;2\n"
    for ending, label, data in (
            (b"gz", "gzip", gzip.compress(text)),
            (b"bz2", "bzip2", bz2.compress(text)),
            (b"xz", "xz", lzma.compress(text)),
            (b"GZ", "gzip", gzip.compress(text)),
            (b"zip", "zip", zipped("x.csv"))):
        report, frame = load(data, name=b"x.csv." + ending)
        assert frame is not None, report
        assert frame.shape == (1, 2), frame
        assert report["how"] == label + ", UTF-8, semicolon, header", report
        refused(text, name=b"x.csv." + ending)
    surplus = gzip.compress(b"a,b\n1,2,\n")
    assert load(surplus, name=b"x.csv.gz")[1].shape == (1, 2)
    refused(gzip.compress(b"a,b\n1,2,3\n"), "line 2", name=b"x.csv.gz")
    report, frame = load(gzip.compress(b'{"a":1}\n'), name=b"x.jsonl.gz")
    assert report["how"] == "gzip, JSON lines" and frame.shape == (1, 1)
    refused(zipped("x", "y"), "2 files", name=b"x.csv.zip")
    refused(gzip.compress(text * 9), "must end in .gz", name=b"x.csv")
    refused(gzip.compress(text), "unpack", name=b"x.tar.gz")
    refused(gzip.compress(text), "unpack", name=b"x.xlsx.gz")
    refused("a,b\n1,2\n", name=b"x.parquet")


def test_zstd():
    try:
        import zstandard
    except ImportError:
        refused("(\u00b5/", "zstandard", name=b"x.csv.zst")
        return
    data = zstandard.compress(b"a,b\n1,2\n")
    report, frame = load(data, name=b"x.csv.zst")
    assert frame is not None and report["how"].startswith("zstd, "), report


def test_names_that_cells_have_taken():
    """The snippet holds whatever cells have called their variables."""
    import builtins
    space = {name: None for name in dir(builtins)
             if not name.startswith("__")}
    space.update(__name__="__main__", __import__=None, json=3)
    printed = io.StringIO()
    spec = json.dumps({"name": b"x.csv".hex(), "variable": "v",
                       "marker": MARKER, "link": ""})
    data = b"a,d,f,b,t\n1,2025-01-01,0.5,True,x\n2,2025-01-02,,False,y\n"
    for text, shape in ((data, (2, 5)), (data.replace(b".5,", b".5,x"), None),
                        (b"a,d\n1,2,\n", (1, 2)), (b"\xff\0", None)):
        space["v"] = None
        printed.seek(0)
        printed.truncate()
        with workspace(b"x.csv", text), contextlib.redirect_stdout(printed):
            exec(CODE, space)
            space["_sandpiper_load"](spec.encode().hex())
        report = printed.getvalue()
        assert "NoneType" not in report, report
        if shape:
            assert space["v"].shape == shape, report


def reload(link, before):
    """Loads data/x-2.csv as x.csv was; what the plain name leads to."""
    space = {"__name__": "__main__"}
    printed = io.StringIO()
    with workspace(b"x-2.csv", b"a\n1\n"):
        before()
        with contextlib.redirect_stdout(printed):
            exec(CODE, space)
            space["_sandpiper_load"]({
                "name": b"x-2.csv".hex(), "variable": "x", "link": link.hex(),
                "marker": MARKER})
        text = printed.getvalue()
        report = json.loads(text[text.index(MARKER) + len(MARKER):])
        assert "rows" in report, report
        first = os.readlink(link) if os.path.islink(link) else None
        if first:
            # What brings it back does the same, and leaves nothing behind.
            os.unlink(link)
            again = {"__name__": "__main__"}
            exec(report["restore"], again)
            assert os.readlink(link) == first
            assert {k for k in again if not k.startswith("__")} == {
                "x", "pd"}, list(again)
        assert report["setup"].count("\n") == 1, report["setup"]
        assert ".sandpiper-link" not in os.listdir(".")
        return first


def test_the_plain_name_leads_to_the_file_that_was_loaded_again():
    def old_link(name):
        return lambda: os.symlink("data/x.csv", name)

    def taken():
        with open("x.csv", "w") as f:
            f.write("mine")

    def half_done():
        os.symlink("nowhere", ".sandpiper-link")

    for name in (b"x.csv", b"it's %s\n.csv", b"a\xe9.csv"):
        assert reload(name, old_link(name)) == b"data/x-2.csv"
    assert reload(b"x.csv", lambda: None) == b"data/x-2.csv"
    assert reload(b"x.csv", half_done) == b"data/x-2.csv"
    assert reload(b"x.csv", taken) is None


def test_json():
    report, frame = load('[{"a":1,"b":"x"},{"a":2,"b":"y"}]', name=b"x.json")
    assert report["how"] == "JSON" and frame.shape == (2, 2)
    report, frame = load('{"a":1}\n{"a":2}\n', name=b"x.jsonl")
    assert report["how"] == "JSON lines" and frame.shape == (2, 1)
    refused("{", name=b"x.json")
    for rows, kind in (('[{"a":[1,2]},{"a":[]}]', "list"),
                       ('[{"a":[1,2]},{"a":{"b":1}}]', "other"),
                       ('[{"a":"x"},{"a":{"b":1}}]', "other")):
        report, frame = load(rows, name=b"x.json")
        assert column(report)[1] == kind, rows


def test_the_variable_pandas_and_nothing_else_is_left():
    space = {"__name__": "__main__"}
    with workspace(b"x.csv", b"a\n1\n"), contextlib.redirect_stdout(
            io.StringIO()):
        exec(CODE, space)
        space["_sandpiper_load"]({"name": b"x.csv".hex(), "variable": "v",
                                  "marker": MARKER})
    left = {k for k in space if not k.startswith("__")}
    assert left == {"_sandpiper_load", "v", "pd"}, left


def test_a_file_that_is_gone():
    space = {"__name__": "__main__"}
    printed = io.StringIO()
    with workspace(b"x.csv", b"a\n1\n"), contextlib.redirect_stdout(printed):
        exec(CODE, space)
        space["_sandpiper_load"]({"name": b"y.csv".hex(), "variable": "v",
                                  "marker": MARKER})
    assert '"error"' in printed.getvalue()


if __name__ == "__main__":
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip():
        tap.skip_all("the program has no part in it")
    tap.main(globals())
