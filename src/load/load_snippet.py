# SPDX-License-Identifier: GPL-3.0-or-later
# Runs inside the sandbox, silently: reads one file into a variable and prints
# one line of JSON that says what pandas sees. The client puts a call of
# _sandpiper_load behind this text.


def _sandpiper_load(spec):
    import csv
    import io
    import json
    import os
    import re
    import sys
    import warnings

    import pandas as pd

    name = os.fsdecode(bytes.fromhex(spec["name"]))
    path = "data/" + name
    variable = spec["variable"]
    marker = spec["marker"]
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
        with open(path, "rb") as f:
            head = f.read(1 << 16)
            whole = not f.read(1)
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

        def attempt():
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
        ending = os.path.splitext(name)[1].lower()
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

    report = {}
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
        globals()[variable] = frame
        report = {"rows": int(len(frame)), "cols": int(frame.shape[1]),
                  "how": how, "columns": columns,
                  "setup": "import pandas as pd\n%s = %s" % (
                      variable, expression)}
    except Exception as e:
        text = str(e).strip().split("\n")[0]
        if isinstance(e, pd.errors.EmptyDataError):
            text = "the file has no columns"
        report = {"error": short(text or type(e).__name__, 400),
                  "type": type(e).__name__}
    line = io.StringIO()
    json.dump(report, line)
    sys.stdout.write("\n" + marker + line.getvalue() + "\n")
    sys.stdout.flush()
