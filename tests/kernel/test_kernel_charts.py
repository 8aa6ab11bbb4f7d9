#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel: charts and pictures. Prints TAP."""
import base64
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernel_session import (  # noqa: E402
    Kernel, Shared, main, needs)


@needs("matplotlib")
class Charts(Shared):

    fields = {"figure": {"width_px": 600, "height_px": 400, "dpi": 100},
              "limits": {"figures": 5}}

    def setUp(self):
        super().setUp()
        self.k.run("import matplotlib.pyplot as plt")

    def test_what_is_not_shown_is_said_once(self):
        for n, text in ((11, "6 more charts were not shown: at most 5 a cell."),
                        (6, "1 more chart was not shown: at most 5 a cell."),
                        (5, None)):
            for code in ("for i in range(%d):\n  plt.figure(); plt.plot([i])",
                         "for i in range(%d):\n  plt.plot([i]); plt.show()"):
                self.k.run(code % n)
                self.assertEqual([e["text"] for e in self.k.of("note")],
                                 [text] if text else [])
                self.assertEqual(len(self.charts()), 5)
        self.k.run("for i in range(7):\n  plt.plot([i]); plt.show()\n1 / 0")
        self.assertEqual(len(self.k.of("note")), 1)

    def charts(self):
        found = []
        for event in self.k.events:
            data = event.get("data", {}).get("image/png")
            if data:
                png = base64.b64decode(data)
                self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
                size = (int.from_bytes(png[16:20], "big"),
                        int.from_bytes(png[20:24], "big"))
                self.assertEqual(size, (event["meta"]["width"],
                                        event["meta"]["height"]))
                self.assertEqual(list(event["data"])[-1], "text/plain")
                found.append(event["meta"])
        return found

    def test_what_is_described(self):
        for code, title, what in (
                ("for i in range(4): plt.plot([1, 2])\nplt.xlabel('month')\n"
                 "plt.ylabel('revenue')\nplt.title('T')", "T",
                 "4 lines, x: month, y: revenue"),
                ("plt.bar(range(12), range(12))", "", "bar chart, 12 bars"),
                ("plt.hist([1, 2, 3, 4], bins=4)", "", "histogram, 4 bins"),
                ("plt.scatter([1, 2], [3, 4])", "", "scatter, 2 points"),
                ("plt.pie([1, 2, 3])", "", "pie chart, 3 slices"),
                ("plt.imshow([[1, 2], [3, 4]])\nplt.colorbar()", "",
                 "heat map, 2 x 2"),
                ("fig, ax = plt.subplots(1, 2); ax[0].plot([1, 2])\n"
                 "fig.suptitle('S')", "S", "2 panels; first: 1 line")):
            self.assertEqual(self.k.run(code)["status"], "ok")
            metas = self.charts()
            self.assertEqual([(m["title"], m["what"]) for m in metas],
                             [(title, what)], code)
            # The return value of a plotting call is no result of interest.
            self.assertEqual(self.k.of("result"), [])
            self.assertTrue(300 <= metas[0]["width"] <= 800, metas)

    def test_each_chart_is_sent_once(self):
        self.k.run("plt.plot([1])\nplt.show()\nplt.plot([2])\nfig = plt.gcf()"
                   "\nfig")
        self.assertEqual([e["ev"] for e in self.k.events],
                         ["display", "result", "done"])
        self.k.run("fig, ax = plt.subplots(); ax.plot([1])\nfig.show()\n"
                   "display(plt.figure())\nplt.figure()")
        self.assertEqual(len(self.charts()), 3)
        self.k.run("1")
        self.assertEqual(self.charts(), [])

    def test_silent_sends_what_is_shown_only(self):
        self.k.run("plt.plot([1])", silent=True)
        self.assertEqual(self.charts(), [])
        self.k.run("pass")
        self.assertEqual(self.charts(), [])
        self.k.run("plt.plot([1]); plt.show()", silent=True)
        self.assertEqual(len(self.charts()), 1)

    def test_too_large_or_too_many(self):
        self.k.run("plt.figure(figsize=(400, 400))\nplt.plot([1])")
        self.assertEqual(self.charts(), [])
        self.assertIn("40000 x 40000", self.k.of("note")[0]["text"])
        self.k.run("for i in range(8):\n    plt.figure()\n    plt.plot([1])")
        self.assertEqual(len(self.charts()), 5)
        self.k.run("plt.plot([1]); plt.text(1, 1, 'far')")
        self.assertEqual(len(self.charts()), 1)

    def test_broken_chart_is_closed(self):
        error = self.error("plt.title('$\\\\frac{$')\nplt.plot([1])")
        self.assertEqual(error["name"], "ValueError")
        self.k.run("plt.plot([1])")
        self.assertEqual(len(self.charts()), 1)

    def test_one_that_is_saved_and_shown(self):
        """It appears once, whichever way comes first."""
        image = "from IPython.display import Image\n"
        for code, n in (
                ("plt.plot([1])\nplt.savefig('a.png')", 1),
                ("plt.plot([1])\nplt.savefig('a.png')\nplt.show()\n"
                 "display(Image('a.png'))", 1),
                ("plt.plot([1])\nplt.savefig('a.png')\nplt.show()\n"
                 "Image(filename='a.png')", 1),
                ("fig, ax = plt.subplots()\nax.plot([1])\n"
                 "fig.savefig('a')\ndisplay(Image('a.png'))\nplt.show()", 1),
                ("plt.plot([1])\nplt.savefig('a.png')\nplt.close()\n"
                 "Image('a.png')", 1),
                ("plt.plot([1])\nplt.savefig('a.png')\nplt.close()", 0),
                # Two charts, or one that has changed.
                ("for i in range(2):\n    plt.figure()\n"
                 "    plt.plot(range(i + 2)); plt.savefig('%d.png' % i)\n"
                 "display(Image('0.png'), Image('1.png'))", 2),
                ("fig, ax = plt.subplots()\nax.plot([1])\n"
                 "fig.savefig('a.png')\ndisplay(Image('a.png'))\n"
                 "ax.plot([2])", 2)):
            done = self.k.run(image + code)
            self.assertEqual(done["status"], "ok", done)
            self.assertEqual(len(self.charts()), n, code)
        # What an earlier cell has shown is shown again when asked for.
        self.k.run("Image('a.png')")
        self.assertEqual(len(self.charts()), 1)

    def test_backends_with_windows_are_ignored(self):
        for code in ("matplotlib.use('TkAgg')", "matplotlib.use('Qt5Agg')"):
            k = Kernel()
            self.addCleanup(k.close)
            k.run("import matplotlib\n" + code +
                  "\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])")
            self.assertEqual([e["ev"] for e in k.events],
                             ["note", "display", "done"], k.events)
        self.k.run("import matplotlib\nmatplotlib.use('Agg')\nplt.plot([1])")
        self.assertEqual(self.k.of("note"), [])
        self.assertEqual(len(self.charts()), 1)

    def test_limit_of_bytes(self):
        k = Kernel(limits={"png": 1000}, figure={"dpi": 100})
        self.addCleanup(k.close)
        k.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])")
        self.assertEqual(k.of("display"), [])
        self.assertIn("at most 1000 bytes", k.of("note")[0]["text"])

    @needs("pandas")
    def test_charts_of_pandas(self):
        self.k.run("import pandas as pd\n"
                   "df = pd.DataFrame({'a': [1, 2, 3], 'b': [2, 3, 9]})")
        for code in ("df.plot()", "df.hist()", "df.plot.scatter('a', 'b')",
                     "df.boxplot()", "df['a'].plot(kind='bar')",
                     "df.plot(subplots=True)"):
            self.k.run(code)
            self.assertEqual(len(self.charts()), 1, code)
            self.assertEqual(self.k.of("result"), [], code)

    @needs("seaborn")
    def test_charts_of_seaborn(self):
        self.k.run("import seaborn as sns, pandas as pd\n"
                   "import seaborn.objects as so\n"
                   "df = pd.DataFrame({'a': [1, 2, 3], 'b': [2, 3, 9]})")
        for code, name in (("sns.scatterplot(data=df, x='a', y='b')",
                            "display"),
                           ("sns.relplot(data=df, x='a', y='b')", "display"),
                           ("sns.pairplot(df)", "display"),
                           ("sns.heatmap(df)", "display"),
                           ("so.Plot(df, x='a', y='b').add(so.Line())",
                            "result")):
            self.k.run(code)
            self.assertEqual(len(self.charts()), 1, code)
            self.assertEqual([e["ev"] for e in self.k.events],
                             [name, "done"], code)

    @needs("plotly")
    def test_charts_of_plotly(self):
        self.k.run("import plotly.graph_objects as go, plotly.io as pio\n"
                   "fig = go.Figure(go.Bar(x=[1, 2], y=[3, 4]))\n"
                   "fig.update_layout(title='T');")
        # As where a browser and kaleido are there.
        self.k.run("import io\nold = go.Figure.to_image\n"
                   "def to_image(self, *_, **options):\n"
                   "    file = io.BytesIO()\n"
                   "    plt.figure().savefig(file, format=options['format'])\n"
                   "    plt.close()\n    return file.getvalue()\n"
                   "go.Figure.to_image = to_image")
        for code in ("fig", "display(fig)", "fig.show()", "pio.show(fig)"):
            self.k.run(code)
            self.assertEqual([(m["title"], m["what"]) for m in
                              self.charts()], [("T", "1 bar trace")], code)
        # And where they are not.
        self.k.run("def to_image(self, *_, **_o): raise ValueError('k')\n"
                   "go.Figure.to_image = to_image")
        self.k.run("fig")
        self.assertEqual([e["ev"] for e in self.k.events],
                         ["note", "result", "done"])
        self.assertIn("Use matplotlib", self.k.of("note")[0]["text"])
        self.assertEqual(self.k.of("result")[0]["data"]["text/plain"],
                         "[plotly chart; T; 1 bar trace]")
        self.k.run("go.Figure.to_image = old")

    @needs("PIL")
    def test_pictures_of_other_formats(self):
        self.k.run("from PIL import Image as P\n"
                   "from IPython.display import Image\n"
                   "P.new('CMYK', (30, 20)).save('p.jpg')\n"
                   "P.new('RGB', (10, 20)).save('p.png')")
        for code, size in (("Image('p.jpg')", (30, 20)),
                           ("Image(filename='p.png', width=5)", (10, 20)),
                           ("Image(open('p.png', 'rb').read())", (10, 20)),
                           ("P.open('p.jpg')", (30, 20)),
                           ("P.new('RGBA', (3, 4))", (3, 4))):
            self.k.run(code)
            self.assertEqual([(m["width"], m["height"]) for m in
                              self.charts()], [size], code)
        self.k.run("Image(url='http://example.com/x.png')")
        self.assertEqual(self.k.of("note")[0]["kind"], "display")

    @needs("PIL")
    def test_what_is_no_picture(self):
        self.k.run("from IPython.display import Image\n"
                   "open('a.csv', 'w').write('a,b')\n"
                   "from PIL import Image as P\n"
                   "P.new('L', (4000, 3000)).save('big.jpg')")
        for code, name in (("Image('a.csv')", "a.csv"),
                           ("Image(b'GIF89a')", "This picture"),
                           ("Image(b'\\x89PNG\\r\\n\\x1a\\n1234')",
                            "This picture"),
                           ("Image('big.jpg')", "big.jpg")):
            self.k.run(code)
            self.assertEqual([e["ev"] for e in self.k.events],
                             ["note", "done"], code)
            self.assertIn(name + " is not shown: it is no picture",
                          self.k.of("note")[0]["text"])
        self.k.run("P.new('L', (4000, 3000))")
        self.assertIn("Resize it", self.k.of("note")[0]["text"])

    def test_letters_that_no_font_has(self):
        """Their warnings come once, without a place in the kernel."""
        self.k.run("plt.plot([1, 2])\nplt.title(''.join(map(chr, "
                   "range(0xe100, 0xe10a))))")
        self.assertEqual(len(self.charts()), 1)
        lines = self.k.text("err").splitlines()
        self.assertEqual(len(lines), 6, lines)
        for line in lines[:5]:
            self.assertRegex(line, "^UserWarning: Glyph 57[0-9]+ ")
        self.assertEqual(lines[5], "and 5 more warnings")
        self.k.run("import warnings\nwith warnings.catch_warnings():\n"
                   "    warnings.simplefilter('ignore')\n    plt.plot([1])\n"
                   "    plt.title(chr(0xe200))\n    plt.show()")
        self.assertEqual(self.k.text("err"), "")

    def test_after_an_error(self):
        self.k.run("plt.subplots()\n1/0")
        self.assertEqual(self.charts(), [])
        self.k.run("plt.plot([1, 2])\n1/0")
        self.assertEqual(len(self.charts()), 1)

    @needs("PIL")
    def test_pictures(self):
        self.k.run("from PIL import Image\nImage.new('RGB', (30, 20))")
        self.assertEqual([(m["width"], m["height"]) for m in self.charts()],
                         [(30, 20)])
        self.k.run("Image.new('1', (5000, 5000))")
        self.assertEqual(self.charts(), [])
        self.assertIn("5000 x 5000", self.k.of("note")[0]["text"])
        self.k.run("class P:\n  def _repr_png_(self): return b'no'\nP()")
        self.assertEqual(self.charts(), [])


if __name__ == "__main__":
    main()
