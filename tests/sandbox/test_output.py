#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cells show: results and errors of any size, pictures that are none,
text that is no text, and markup that nobody shall take for more."""

import base64
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

import tap  # noqa: E402
from attack_program import main  # noqa: E402
from png_chunks import one_row  # noqa: E402
from sandbox_session import FORGE, attack, open_session  # noqa: E402


def kept(sb):
    cell = sb.cell("print(x)")
    assert cell.outcome == "ok" and cell.stdout == "1\n", cell


# ---- size ------------------------------------------------------------------

@attack(47)
@tap.timeout(180)
def test_huge_results():
    """500 MB as a repr; 200 MB as an error, as a message and as a class."""
    with open_session() as sb:
        sb.cell("x = 1")
        cell = sb.cell("'r' * 500_000_000", timeout=120)
        assert cell.outcome == "ok", cell.outcome
        assert len(cell.outputs) == 1
        assert len(cell.outputs[0]["text"]) <= 70000
        assert cell.outputs[0]["text"].startswith("'rrr")
        assert cell.outputs[0]["text"].endswith("rrr'")
        assert "left out" in cell.outputs[0]["text"]
        cell = sb.cell("raise ValueError('v' * 200_000_000)", timeout=120)
        assert cell.outcome == "error" and cell.error == "ValueError"
        assert len(cell.value) <= 4200, len(cell.value)
        assert len(cell.traceback) <= 17000, len(cell.traceback)
        cell = sb.cell("raise type('E' * 1_000_000, (Exception,), {})(5)")
        assert cell.outcome == "error" and len(cell.error) <= 256, cell
        assert len(cell.traceback) <= 17000, len(cell.traceback)
        kept(sb)


@attack(47)
@tap.timeout(120)
def test_a_million_displays():
    """The interpreter stops sending; what does not go through it is stopped
    by the client, and the next cell shows all of its own."""
    with open_session() as sb:
        sb.cell("x = 1")
        cell = sb.cell("for i in range(10 ** 6):\n    display(i)\n",
                       timeout=90)
        assert 900 < len(cell.outputs) <= 1000, len(cell.outputs)
        assert cell.outcome in ("output_limit", "ok"), cell.outcome
        assert [n["kind"] for n in cell.notes] == ["limit"], cell.notes
        kept(sb)
        cell = sb.cell(FORGE + """
line = json.dumps(dict(ev="display", id=me, data={"text/plain": "d"}))
data = (line + "\\n").encode()
while True:
    os.write(4, data)
""", timeout=90)
        assert cell.outcome == "output_limit", cell.outcome
        assert len(cell.outputs) <= 1000, len(cell.outputs)
        kept(sb)
        cell = sb.cell("for i in range(30):\n    display(i)")
        assert len(cell.outputs) == 30, cell


@attack(47)
@tap.timeout(120)
def test_32_mib_of_events():
    with open_session() as sb:
        sb.cell("x = 1")
        cell = sb.cell(FORGE + """
text = "t" * (1 << 20)
while True:
    forge(ev="note", id=me, kind="k", text=text)
""", timeout=90)
        # A line that the interrupt breaks off is no event.
        assert cell.outcome in ("output_limit", "died"), cell.outcome
        assert 25 < len(cell.notes) <= 32, len(cell.notes)
        if not cell.lost:
            kept(sb)
        assert sb.cell("print(1)").outcome == "ok"


# ---- pictures --------------------------------------------------------------

@attack(48)
@tap.timeout(120)
def test_huge_figure():
    """40,000 x 40,000 pixels."""
    with open_session() as sb:
        sb.cell("x = 1")
        cell = sb.cell("import matplotlib.pyplot as plt\n"
                       "plt.figure(figsize=(400, 400), dpi=100)\n"
                       "plt.plot([1, 2])\nplt.show()", timeout=90)
        assert not any(o["png"] for o in cell.outputs), cell
        said = " ".join(n["text"] for n in cell.notes) + (cell.value or "")
        assert "40000 x 40000" in said or cell.error == "MemoryError", cell
        cell = sb.cell("plt.plot([1, 2])\nplt.show()", timeout=90)
        assert [o["png"] > 0 for o in cell.outputs] == [True], cell
        # Drawn by the cell itself, it is none of the client's memory either.
        cell = sb.cell("f = plt.figure(figsize=(400, 400), dpi=100)\n"
                       "try:\n    f.savefig('/workspace/big.png')\n"
                       "except MemoryError:\n    pass\nplt.close('all')",
                       timeout=100, timeout_ms=60000)
        assert not any(o["png"] for o in cell.outputs), cell.outputs
        cell = sb.cell("plt.plot([1, 2])\nplt.show()", timeout=90)
        assert [o["png"] > 0 for o in cell.outputs] == [True], cell
        kept(sb)


HEADS = {"65,000": (65000, 65000), "65,535": (65535, 65535),
         "wide": (2 ** 31 - 1, 1), "product": (2 ** 16, 2 ** 16),
         "negative": (2 ** 32 - 1, 1), "tall": (1, 2 ** 31 - 1),
         "just above": (4000, 2100), "nothing": (0, 5)}


@attack(48)
@tap.timeout(90)
def test_picture_that_says_it_is_huge():
    """By a method of an object, and past the interpreter."""
    with open_session() as sb:
        sb.cell("x = 1")
        for name, size in HEADS.items():
            data = base64.b64encode(one_row(*size, bytes(100))).decode()
            cell = sb.cell("""
import base64
class P:
    def _repr_png_(self):
        return base64.b64decode(%r)
    def __repr__(self):
        return "P"
P()
""" % data)
            assert cell.outcome == "ok", (name, cell)
            assert not any(o["png"] for o in cell.outputs), (name, cell)
            cell = sb.cell(FORGE + "forge(ev='display', id=me, "
                           "data={'image/png': %r, 'text/plain': 'P'})" % data)
            assert cell.outcome == "ok", (name, cell)
            assert [o["png"] for o in cell.outputs] == [0], (name, cell)
            assert any("picture" in n["text"] for n in cell.notes), (name,
                                                                     cell)
        # The control: one that is not huge is taken, on both ways.
        data = base64.b64encode(one_row(40, 30, bytes(100))).decode()
        cell = sb.cell(FORGE + "forge(ev='display', id=me, "
                       "data={'image/png': %r})" % data)
        assert [(o["width"], o["height"]) for o in cell.outputs] == [
            (40, 30)], cell
        cell = sb.cell("import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
                       "plt.show()", timeout=60)
        assert [o["png"] > 0 for o in cell.outputs] == [True], cell
        kept(sb)


# ---- text that is no text --------------------------------------------------

def check_text(value, where):
    """Strings of the client are valid text, without NUL."""
    if isinstance(value, str):
        value.encode("utf-8")
        assert "\0" not in value or where.startswith("bytes"), (where, value)
    elif isinstance(value, dict):
        for k, v in value.items():
            check_text(k, where)
            check_text(v, where + "." + k)
    elif isinstance(value, list):
        for v in value:
            check_text(v, where)


@attack(59)
@tap.timeout(90)
def test_text_that_is_no_text():
    """Lone surrogates, bytes that are no UTF-8 and U+0000, in all that a cell
    can say."""
    with open_session() as sb:
        sb.cell("x = 1")
        cell = sb.cell("""
import os, sys, pandas as pd
bad = "\\ud800 lone \\udfff" + chr(0) + "end"
print(bad, flush=True)
print(bad, file=sys.stderr, flush=True)
os.write(1, b"\\xff\\xfe bad \\xc0\\x80 \\xed\\xa0\\x80 raw\\n")
os.write(2, b"\\xf8\\x88\\x80\\x80\\x80 err\\n")
display(bad)
display(pd.DataFrame({bad: [bad, b"\\xff"], "b\\udc80": [1, None]}))
class R:
    def __repr__(self):
        return bad
display(R())
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.title("t\\ud800t")
try:
    plt.show()
except Exception:
    plt.close("all")
open(b"/workspace/n\\xff\\xfe.txt", "w").close()
R()
""", timeout=60)
        assert cell.outcome == "ok", cell
        assert "lone" in cell.stdout and "raw" in cell.stdout, cell
        assert "lone" in cell.stderr and "err" in cell.stderr, cell
        assert len([o for o in cell.outputs
                    if "lone" in (o["text"] or "")]) >= 3, cell
        cell = sb.cell("raise type('E\\ud800', (Exception,), {})"
                       "('v\\udc00' + chr(0) + 'w')")
        assert cell.outcome == "error" and "w" in cell.value, cell
        cell = sb.cell(FORGE + r"""
os.write(4, b'{"ev":"note","id":%d,"kind":"\\ud800","text":"\\u0000n\\udfff"}\n'
         % me)
os.write(4, b'{"ev":"display","id":%d,"data":{"text/plain":"\\ud800\\u0000d"}}'
         b'\n' % me);
""")
        assert cell.outcome == "ok" and len(cell.outputs) == 1, cell
        assert "d" in cell.outputs[0]["text"], cell
        sb.list()
        for event in sb.events:
            check_text(event, event["event"])
        kept(sb)


# ---- markup ----------------------------------------------------------------

MARKUP = """
class H:
    def _repr_html_(self):
        return "<script>fetch('http://127.0.0.1/')</script>"
    def _repr_svg_(self):
        return "<svg onload='script'/>"
    def _repr_javascript_(self):
        return "alert('script')"
    def _repr_markdown_(self):
        return "[script](javascript:x)"
    def _repr_latex_(self):
        return "\\\\script"
    def _repr_jpeg_(self):
        return b"script"
    def _repr_pdf_(self):
        return b"script"
    def _repr_mimebundle_(self, *args, **options):
        return {"text/html": "<b>script</b>", "text/plain": "plain"}
    def _ipython_display_(self):
        raise RuntimeError("script")
    def __repr__(self):
        return "plain"
H()
"""


@attack(60)
def test_markup_is_not_taken_over():
    """Only data of known kinds; past the interpreter as well."""
    with open_session() as sb:
        sb.cell("x = 1")
        cell = sb.cell(MARKUP)
        assert cell.outcome == "ok", cell
        assert [o["text"] for o in cell.outputs] == ["plain"], cell
        cell = sb.cell(MARKUP.replace("H()", "display(H())"))
        assert [o["text"] for o in cell.outputs] == ["plain"], cell
        cell = sb.cell(FORGE + """
for kind in ("text/html", "image/svg+xml", "application/javascript",
             "text/markdown", "image/jpeg", "application/pdf",
             "application/vnd.plotly.v1+json", "text/uri-list"):
    forge(ev="display", id=me, data={kind: "script", "text/plain": "plain"})
    forge(ev="display", id=me, data={kind: "script"})
""")
        assert cell.outcome == "ok", cell
        assert [o["text"] for o in cell.outputs] == ["plain"] * 8, cell
        for out in cell.outputs:
            assert "script" not in str(out), out
            assert out["png"] == 0 and not out.get("table"), out
        kept(sb)


if __name__ == "__main__":
    main(globals())
