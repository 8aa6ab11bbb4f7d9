#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells that attack the terminal and the transcript: no control of theirs
arrives, whatever it is in; what is sent on is valid text; and markup is not
followed."""

import json
import os
import re
import select
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from program import (STEP_S, Place, check_clean, messages,  # noqa: E402
                     results, run)

import tap  # noqa: E402
from claude_server import ClaudeServer, reply  # noqa: E402
from sandbox_session import FORGE, attack  # noqa: E402

# The numbers are such as the program does not use itself.
SEQUENCES = {
    "title": "\x1b]0;pwned\x07", "title of 8 bits": "\x9d2;pwned\x9c",
    "clipboard": "\x1b]52;c;cHduZWQ=\x1b\\",
    "hyperlink": "\x1b]8;;http://127.0.0.1/\x1b\\link\x1b]8;;\x1b\\",
    "colours": "\x1b]4;1;rgb:ff/00/00\x07\x1b]11;#ff0000\x07",
    "working directory": "\x1b]7;file:///etc\x07",
    "notification": "\x1b]777;notify;a;b\x07", "shell": "\x1b]133;A\x07",
    "paste": "\x1b[200~:quit\r\x1b[201~", "paste mode": "\x1b[?2004$p",
    "status": "\x1bP$q\"p\x1b\\", "sixel": "\x1bPq#1~~\x1b\\",
    "macro": "\x1bP1;1;0!z414243\x1b\\", "terminfo": "\x1bP+q544e\x1b\\",
    "graphics": "\x1b_Ga=T,f=24,s=1,v=1;AAAA\x1b\\", "PM": "\x1b^x\x1b\\",
    "SOS": "\x1bXx\x1b\\", "reset": "\x1bc", "alternate": "\x1b[?1049h",
    "mouse": "\x1b[?1003h", "position": "\x1b[77;7H", "up": "\x1b[77A",
    "style": "\x1b[38;5;77m", "of 8 bits": "\x9b77m", "report": "\x1b[6n",
    "identity": "\x1b[>77c", "window": "\x1b[21t", "repeat": "\x1b[77b",
    "printer": "\x1b[5i", "scroll": "\x1b[77S\x1b[7;7r", "keys": "\x1b[>4;2m",
    "charset": "\x1b(0\x0e\x0f", "unfinished": "\x1b[77", "alone": "\x1b",
    "return": "shown\rhidden", "back": "shown\x08\x08\x7f", "bell": "\x07",
    "tabs": "\x0b\x0c", "index": "\x84\x85\x8d", "NUL": "a\0b",
    "bidi": "\u202egnp\u2066x\u2069\u200f\u061c", "ENQ": "\x05",
    "lines": "\u2028\u2029"}
BAD = "".join(SEQUENCES.values())

SAY = """
import os, sys, pandas as pd
bad = %(bad)r
print(bad)
print(bad, file=sys.stderr)
sys.stdout.flush()
raw = bad.encode("latin-1", "replace") + bad.encode("utf-8", "replace")
os.write(1, raw + b"\\n")
os.write(2, raw + b"\\n")
for i in range(len(raw)):
    os.write(1, raw[i:i + 1])
print()
os.system("printf '\\\\033]0;child\\\\007\\\\033[77;7H\\\\n'")
"""

SHOW = """
import os, pandas as pd
bad = %(bad)r
class R:
    def __repr__(self):
        return bad
class S(str):
    pass
display(R())
display(bad)
display({bad: [bad]})
df = pd.DataFrame({bad: [bad, "x"], "n": [1, 2]}, index=[bad, "i"])
df.index.name = bad
df.columns.name = bad
display(df)
display(pd.DataFrame({"c": pd.Categorical([bad])}))
display(pd.Series([1], name=bad))
big = pd.DataFrame({bad: range(100)}, index=[bad] * 100)
display(big)
R()
"""

DRAW = """
import matplotlib.pyplot as plt
bad = %(bad)r.replace("$", "")
plt.figure()
plt.title(bad)
plt.xlabel(bad)
plt.suptitle(bad)
plt.plot([1, 2])
plt.show()
"""

FILES = """
import os
bad = %(bad)r.replace("/", "")
os.makedirs("/workspace/output", exist_ok=True)
pieces = [bad[i:i + 40] for i in range(0, len(bad), 40)]
for i, piece in enumerate(pieces):
    name = "%%d%%s.txt" %% (i, piece.replace("\\0", ""))
    open("/workspace/output/" + name, "w").write("x")
    open(b"/workspace/r" + name.encode("latin-1", "replace"), "w").write("x")
os.symlink("/etc/passwd", "/workspace/link\\x1b[77m")
"""

FAIL = """
bad = %(bad)r
E = type(bad.replace("\\0", ""), (Exception,), {})
try:
    raise KeyError(bad)
except KeyError as exc:
    exc.__notes__ = [bad]
    raise E(bad) from exc
"""

# Past the interpreter, as a cell can do it.
FORGED = FORGE + """
bad = %(bad)r
kinds = ("integer", bad)
forge(ev="note", id=me, kind=bad, text=bad)
forge(ev="note", id=me, kind="limit", text="\\n> fake\\nerror: fake\\n" + bad)
forge(ev="display", id=me, data={"text/plain": bad},
      meta={"title": bad, "what": bad})
forge(ev="display", id=me, data={"application/x-table.v1+json": dict(
    rows=1, cols=1, cols_left_out=0, truncated_cells=False,
    columns=[dict(name=bad, type=bad, kind=bad)],
    index=[dict(name=bad, type=bad, kind="integer")],
    head=[[bad, bad]], tail=[])})
forge(ev="done", id=me, status="error", n=1, error=dict(
    name=bad, value=bad, traceback=bad + "\\n" + bad, hint=bad))
os.kill(os.getpid(), 19)
"""

# The code itself is shown, before and after.
CODE = "x = '%s'\n1 / 0  # %s" % (
    BAD.replace("\r", "").replace("\0", "").replace("\u2028", "").replace(
        "\u2029", "").replace("\x85", ""), "\x1b[77;7H\u202e")

CELLS = [(template % {"bad": BAD}) for template in (
    SAY, SHOW, DRAW, FILES, FAIL)] + [CODE]


# The program's own charts.
SIXEL = re.compile(rb'\x1bPq"1;1;[0-9]+;[0-9]+[!-~]*\x1b\\')


def check_terminal(s):
    data = SIXEL.sub(b"", bytes(s.transcript))
    check_clean(data)
    for name, sequence in SEQUENCES.items():
        for encoding in ("utf-8", "latin-1"):
            raw = sequence.encode(encoding, "ignore")
            if raw not in (b"", b"\x07", b"\x1b") and not raw.isalnum():
                assert raw not in data, (name, encoding)
    assert b"\x1b[77" not in data and b"\x9b77" not in data


@attack(58)
@tap.timeout(240)
def test_no_control_of_a_cell_reaches_the_terminal():
    """On terminals of two kinds, in output, results, tables, errors, charts,
    names of files and code, and when they are shown again."""
    for profile in ("xterm", "vt340"):
        with Place() as place, ClaudeServer(
                [reply([run(code)]) for code in CELLS] +
                [reply(["That was all."])]) as server, \
                place.repl(server, profile=profile) as s:
            s.at_prompt()
            s.ask("attack", STEP_S * 4)
            s.has("That was all.")
            for line in (":files", ":code 1", ":code 6", ":trace 5",
                         ":trace 6", ":cells", ":full 2", ":save 2 copy"):
                s.ask(line)
            check_terminal(s)
            shown = s.text()
            for word in ("pwned", "ZeroDivisionError", "hidden"):
                assert word in shown, word


@attack(58)
@tap.timeout(120)
def test_no_control_of_a_forged_event_reaches_the_terminal():
    with Place() as place, ClaudeServer([
            reply([run(FORGED % {"bad": BAD})]),
            reply(["That was all."])]) as server, place.repl(server) as s:
        s.at_prompt()
        s.ask("attack", STEP_S * 2)
        s.has("That was all.")
        s.ask(":trace 1")
        check_terminal(s)
        for line in s.text().splitlines():
            assert not line.startswith(("> fake", "error: fake")), line


BROKEN = """
import os, pandas as pd
bad = "lone \\ud800 low \\udfff nul " + chr(0) + " end"
print(bad, flush=True)
os.write(1, b"\\xff\\xfe raw \\xc0\\x80 \\xed\\xa0\\x80 \\xf5\\n")
display(bad)
display(pd.DataFrame({bad: [bad]}))
open(b"/workspace/name\\xff\\xfe.txt", "w").close()
raise type("E\\ud800", (Exception,), {})(bad)
"""


@attack(59)
@tap.timeout(90)
def test_what_is_sent_on_is_valid_text():
    """Surrogates, bytes that are no UTF-8 and U+0000 are replaced for the
    model and for the person."""
    with Place() as place, ClaudeServer([
            reply([run(BROKEN)]), reply(["I see."])]) as server, \
            place.repl(server) as s:
        s.at_prompt()
        s.ask("go", STEP_S * 2)
        s.has("I see.")
        (told, _), = results(server.requests[1])
        for word in ("lone", "low", "nul", "end", "raw", "name"):
            assert word in told, (word, told)
        assert "\ufffd" in told, told
        text = json.dumps(messages(server.requests[1]), ensure_ascii=False)
        text.encode("utf-8")
        assert "\\u0000" not in text and "\0" not in text, text
        check_clean(s.transcript)
        s.has("raw")


FETCH = """
import importlib
url = "http://127.0.0.1:%(port)d/"
html = ("<img src='%%s1'><script src='%%s2'></script><iframe src='%%s3'>"
        "</iframe><link rel=stylesheet href='%%s4'>" %% ((url,) * 4))
class H:
    def _repr_html_(self): return html
    def _repr_svg_(self):
        return "<svg><image href='%%s5'/></svg>" %% url
    def _repr_javascript_(self): return "fetch('%%s6')" %% url
    def _repr_markdown_(self): return "![x](%%s7)" %% url
    def __repr__(self): return "plain of H"
display(H())
from IPython import display as d
for make in (lambda: d.HTML(html), lambda: d.Markdown("![x](%%s8)" %% url),
             lambda: d.Image(url=url + "9.png"),
             lambda: d.IFrame(url + "10", 100, 100),
             lambda: d.SVG("<svg><image href='%%s11'/></svg>" %% url),
             lambda: d.Javascript("fetch('%%s12')" %% url)):
    try:
        display(make())
    except Exception as exc:
        print(type(exc).__name__)
open("/workspace/page.html", "w").write(html)
open("/workspace/chart.svg", "w").write("<svg><image href='%%s13'/></svg>"
                                        %% url)
open("/workspace/chart.png.url", "w").write("[InternetShortcut]\\nURL=" + url)
print(html)
H()
"""


@attack(60)
@tap.timeout(90)
def test_markup_is_not_rendered_and_nothing_is_fetched():
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        port = listener.getsockname()[1]
        with Place() as place, ClaudeServer([
                reply([run(FETCH % {"port": port})]),
                reply(["Look: http://127.0.0.1:%d/ ![x](http://127.0.0.1:%d/)"
                       % (port, port)])]) as server, \
                place.repl(server, profile="vt340") as s:
            s.at_prompt()
            s.ask("go", STEP_S * 2)
            s.has("plain of H")
            s.has("Look:")
            s.ask(":files")
            assert not s.screen.images, s.screen.images
            told = str(results(server.requests[1]))
            assert "plain of H" in told, told
        assert not select.select([listener], [], [], 0)[0], "it was fetched"
    finally:
        listener.close()


if __name__ == "__main__":
    tap.main(globals())
