# SPDX-License-Identifier: GPL-3.0-or-later
# Runs inside the sandbox, silently: reads one file into a variable and prints
# one line of JSON that says what pandas sees. The client puts a call of
# _sandpiper_load behind this text.


def _sandpiper_load(spec):
    # A cell may have given any of these names another meaning.
    from builtins import (
        Exception, ImportError, OSError, OverflowError, TypeError,
        UnicodeDecodeError,
        ValueError, abs, all, any, bool, bytes, dict, enumerate, exec, float,
        format, getattr, globals, int, isinstance, len, list, map, max, next,
        open, set, str, sum, tuple, type)

    import csv
    import io
    import json
    import os
    import re
    import sys
    import warnings

    import pandas as pd

    if isinstance(spec, str):
        spec = json.loads(bytes.fromhex(spec))
    name = os.fsdecode(bytes.fromhex(spec["name"]))
    path = "data/" + name
    # The name below the workspace that is to lead to this file: the one that
    # it had when it was loaded first.
    link = os.fsdecode(bytes.fromhex(spec.get("link", "")))
    variable = spec["variable"]
    marker = spec["marker"]
    packed_as = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip",
                 ".zst": "zstd"}
    iso_date = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
    iso_time = re.compile(
        r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?\Z")
    delimiters = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}

    def sniff_encoding(head, whole):
        for bom, codec, label in ((b"\xef\xbb\xbf", "utf-8-sig", "UTF-8"),
                                  (b"\xff\xfe", "utf-16", "UTF-16"),
                                  (b"\xfe\xff", "utf-16", "UTF-16")):
            if head.startswith(bom):
                return codec, label
        try:
            head.decode("utf-8")
            return None, "UTF-8"
        except UnicodeDecodeError as e:
            if not whole and e.start > len(head) - 4:
                return None, "UTF-8"
        return "cp1252", "windows-1252 (guessed)"

    def unpacked():
        """The bytes of the file, whatever packs it."""
        if packing == "gzip":
            import gzip
            return gzip.open(path)
        if packing == "bzip2":
            import bz2
            return bz2.open(path)
        if packing == "xz":
            import lzma
            return lzma.open(path)
        if packing == "zip":
            import zipfile
            archive = zipfile.ZipFile(path)
            names = archive.namelist()
            if len(names) != 1:
                raise ValueError("the archive holds %d files, not one"
                                 % len(names))
            return archive.open(names[0])
        if packing == "zstd":
            try:
                import zstandard
            except ImportError:
                raise ValueError("to read .zst, Python needs the module "
                                 "zstandard, which is not installed")
            return zstandard.open(path)
        return open(path, "rb")

    def check_unpacked(head):
        for magic, label, ending in (
                (b"\x1f\x8b", "gzip", ".gz"), (b"BZh", "bzip2", ".bz2"),
                (b"\xfd7zXZ\0", "xz", ".xz"), (b"PK\x03\x04", "zip", ".zip"),
                (b"\x28\xb5\x2f\xfd", "zstd", ".zst")):
            if not packing and head.startswith(magic) and b"\0" in head:
                raise ValueError("the file is binary, not text; if it is "
                                 "%s, its name must end in %s"
                                 % (label, ending))

    def records(stream, sep):
        """Rows as pandas counts them, with the line that each ends in."""
        reader = csv.reader(stream, delimiter=sep)
        for row in reader:
            if len(row) > 1 or row and row[0].strip():
                yield reader.line_num, row

    def find_surplus(text, sep):
        """How many fields the first row has more than the header."""
        try:
            rows = records(io.StringIO(text, newline=""), sep)
            header = next(rows, (0, []))[1]
            first = next(rows, (0, header))[1]
        except csv.Error:
            return 0, 0
        return len(header), max(len(first) - len(header), 0)

    def check_surplus(width, sep, options):
        """Refuses fields that belong to no column, unless all are empty."""
        old = csv.field_size_limit(1 << 30)
        try:
            with io.TextIOWrapper(
                    unpacked(), encoding=options.get("encoding", "utf-8"),
                    errors="replace", newline="") as stream:
                for line, row in records(stream, sep):
                    if any(row[width:]):
                        raise ValueError(
                            "line %d: %d fields, but the header has %d"
                            % (line, len(row), width))
        except csv.Error as e:
            raise ValueError(str(e))
        finally:
            csv.field_size_limit(old)

    def sniff_delimiter(text):
        lines = [line for line in text.splitlines() if line.strip()][:50]
        best, best_score = ",", (0, 0)
        for d in delimiters:
            widths = [len(row) for row in csv.reader(lines, delimiter=d)]
            if not widths or widths[0] < 2:
                continue
            same = sum(1 for w in widths if w == widths[0])
            score = (same / len(widths), widths[0])
            if score > best_score:
                best, best_score = d, score
        return best

    def read_csv():
        with unpacked() as f:
            head = f.read(1 << 16)
            whole = not f.read(1)
        check_unpacked(head)
        codec, label = sniff_encoding(head, whole)
        text = head.decode(codec or "utf-8", errors="replace")
        if not whole:
            text = text[:text.rfind("\n") + 1] or text
        if "\0" in text:
            raise ValueError("the file is binary, not text")
        sep = sniff_delimiter(text)
        options = {}
        if sep != ",":
            options["sep"] = sep
        if codec is not None:
            options["encoding"] = codec

        width, surplus = find_surplus(text, sep)
        if surplus:
            # Else pandas makes an index of the first columns, and each name
            # stands over the values of its neighbour.
            options["index_col"] = False

        def attempt():
            if surplus:
                check_surplus(width, sep, options)
            with warnings.catch_warnings():
                # It says so when it leaves out what is not empty; of more
                # than one column it does not look.
                if surplus < 2:
                    warnings.filterwarnings(
                        "error", "Length of header or names",
                        pd.errors.ParserWarning)
                return pd.read_csv(path, **options)

        try:
            frame = attempt()
        except UnicodeDecodeError:
            # A byte behind the head is no UTF-8 after all.
            options["encoding"] = "cp1252"
            options["encoding_errors"] = "replace"
            label = "windows-1252 (guessed)"
            frame = attempt()
        dates = [c for c in frame.columns if is_iso(frame[c])]
        if dates:
            for c in dates:
                frame[c] = pd.to_datetime(frame[c])
            options["parse_dates"] = [str(c) for c in dates]
        how = "%s, %s, header" % (label, delimiters[sep])
        if packing:
            how = "%s, %s" % (packing, how)
        return frame, how, call("read_csv", options)

    def is_iso(column):
        if str(column.dtype) not in ("object", "str", "string"):
            return False
        values = column.dropna()
        if len(values) == 0:
            return False
        for pattern in (iso_date, iso_time):
            first = values.iloc[0]
            if isinstance(first, str) and pattern.match(first):
                if not all(isinstance(v, str) and pattern.match(v)
                           for v in values):
                    return False
                try:
                    pd.to_datetime(values)
                    return True
                except (ValueError, OverflowError):
                    return False
        return False

    def call(function, options):
        words = "".join(", %s=%r" % item for item in options.items())
        return "pd.%s(%r%s)" % (function, path, words)

    def read_any():
        if packing and ending in (".parquet", ".xlsx", ".tar"):
            raise ValueError("a packed %s file is not read: unpack it first"
                             % ending)
        other = {
            ".parquet": ("read_parquet", {}, "Parquet"),
            ".json": ("read_json", {}, "JSON"),
            ".jsonl": ("read_json", {"lines": True}, "JSON lines"),
            ".ndjson": ("read_json", {"lines": True}, "JSON lines"),
            ".xlsx": ("read_excel", {}, "Excel, first sheet"),
        }.get(ending)
        if other is None:
            return read_csv()
        function, options, label = other
        frame = getattr(pd, function)(path, **options)
        if packing:
            label = "%s, %s" % (packing, label)
        return frame, label, call(function, options)

    def short(value, limit=40):
        text = str(value)
        return text if len(text) <= limit else text[:limit - 1] + "\u2026"

    def number(value):
        if isinstance(value, int):
            return format(value, ",")
        text = format(float(value), ",.6g") if abs(value) >= 1e15 else (
            format(float(value), ",.2f"))
        if float(value) != 0 and abs(value) < 0.01:
            text = format(float(value), ".3g")
        return text

    def describe(column):
        values = column.dropna()
        kind = str(column.dtype)
        missing = int(len(column) - len(values))
        types = pd.api.types
        found = set(map(type, values)) if kind == "object" else set()
        if found and found <= {list, tuple}:
            return "list", missing, ""
        if found & {list, tuple, dict, set}:
            return "other", missing, ""
        # With missing values pandas keeps booleans as objects.
        if types.is_bool_dtype(column.dtype) or found == {bool}:
            n = int(values.sum()) if len(values) else 0
            return "boolean", missing, "true %s \u00b7 false %s" % (
                format(n, ","), format(len(values) - n, ","))
        if types.is_integer_dtype(column.dtype):
            if not len(values):
                return "integer", missing, ""
            return "integer", missing, "%s \u2026 %s" % (
                number(int(values.min())), number(int(values.max())))
        if types.is_numeric_dtype(column.dtype):
            if not len(values):
                return "decimal", missing, ""
            return "decimal", missing, "%s \u2026 %s" % (
                number(values.min()), number(values.max()))
        if types.is_datetime64_any_dtype(column.dtype):
            if not len(values):
                return "timestamp", missing, ""
            whole = bool((values == values.dt.normalize()).all())
            cut = 10 if whole else 19
            return ("date" if whole else "timestamp", missing, "%s \u2026 %s"
                    % (str(values.min())[:cut], str(values.max())[:cut]))
        if kind.startswith("timedelta"):
            return "duration", missing, ""
        label = "category" if kind == "category" else (
            "text" if kind in ("object", "str", "string") or
            kind.startswith("string") else "other")
        try:
            counts = values.value_counts()
        except TypeError:
            return "other", missing, ""
        if not len(counts):
            return label, missing, ""
        if len(counts) > 6:
            return label, missing, "%s values" % format(len(counts), ",")
        return label, missing, " \u00b7 ".join(
            "%s %s" % (short(k, 24), format(int(n), ","))
            for k, n in counts.head(4).items())

    def link_code():
        """Lets the plain name lead to this file, unless a cell took it."""
        return ("def _sandpiper_link(name, target, new):\n"
                "    import os\n"
                "    if os.path.islink(name) or not os.path.lexists(name):\n"
                "        if os.path.lexists(new):\n"
                "            os.unlink(new)\n"
                "        os.symlink(target, new)\n"
                "        os.replace(new, name)\n"
                "_sandpiper_link(%r, %r, '.sandpiper-link')\n"
                "del _sandpiper_link" % (link, path))

    stem, ending = os.path.splitext(name)
    packing = packed_as.get(ending.lower(), "")
    if packing:
        ending = os.path.splitext(stem)[1]
    ending = ending.lower()
    report = {}
    # A cell may have gone elsewhere; names below are those of the workspace.
    try:
        here = os.getcwd()
    except OSError:
        here = "/"
    home = os.environ.get("SANDPIPER_WORKSPACE") or "/workspace"
    if os.path.isdir(home + "/data"):
        os.chdir(home)
    try:
        # Warnings of pandas, on mixed types and the like, would be printed.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame, how, expression = read_any()
        if not isinstance(frame, pd.DataFrame):
            raise ValueError("the file holds no table")
        columns = []
        for i, c in enumerate(frame.columns[:400]):
            kind, missing, span = describe(frame.iloc[:, i])
            columns.append({"name": short(c, 200), "kind": kind,
                            "dtype": short(frame.dtypes.iloc[i]),
                            "missing": missing, "range": short(span, 200)})
        globals()["pd"] = pd
        setup = "import pandas as pd\n%s = %s" % (variable, expression)
        restore = setup
        if link and link != name:
            restore += "\n" + link_code()
            exec(link_code(), {})
        globals()[variable] = frame
        report = {"rows": int(len(frame)), "cols": int(frame.shape[1]),
                  "how": how, "columns": columns,
                  "setup": setup, "restore": restore}
    except Exception as e:
        text = str(e).strip().split("\n")[0]
        if isinstance(e, pd.errors.EmptyDataError):
            text = "the file has no columns"
        report = {"error": short(text or type(e).__name__, 400),
                  "type": type(e).__name__}
    os.chdir(here)
    line = io.StringIO()
    json.dump(report, line)
    sys.stdout.write("\n" + marker + line.getvalue() + "\n")
    sys.stdout.flush()
