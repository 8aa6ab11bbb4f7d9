#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel: what people and models are used to from notebooks. Prints TAP."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernel_session import (  # noqa: E402
    HAS, Kernel, Shared, main, needs)


class Habits(Shared):

    def test_magics(self):
        self.assertEqual(self.plain("%matplotlib inline\n1 + 1"), "2")
        self.assertEqual(self.k.of("note")[0]["kind"], "magic")
        self.assertEqual(self.plain(
            "s = '''\n%not a magic\n!nor this\n'''\n!echo out\nlen(s)"), "24")
        self.assertEqual(self.k.text(), "out\n")
        self.assertEqual(self.plain("f = !echo a; echo b\nf"), "['a', 'b']")
        self.assertEqual(self.plain("a = (7\n % 4\n)\n%config X\na"), "3")
        self.assertEqual(self.plain("w = 'it''s'\n!echo it\\'s {w}\n5"), "5")
        self.assertEqual(self.k.text(), "it's its\n")
        self.k.run("if True:\n    %time y = 3\nfor i in range(2):\n"
                   "    !echo $((1 + {i}))")
        self.assertEqual(self.plain("y"), "3")
        self.k.run("%%time\nz = 4")
        self.assertIn("Wall time", self.k.text())
        self.assertEqual(self.plain("z"), "4")
        self.k.run("%timeit -n 10 1 + 1")
        self.assertIn("per loop", self.k.text())
        self.assertIn("%frobnicate", self.error("%frobnicate")["value"])
        self.assertIn("%%html", self.error("%%html\n<b>")["value"])
        self.k.run("!exit 3")
        self.assertIn("status 3", self.k.of("note")[0]["text"])

    def test_magic_keeps_line_numbers(self):
        self.assertIn("line 3", self.error("%matplotlib inline\n!true\n1/0")
                      ["traceback"])

    def test_pip_is_answered(self):
        for code in ("!pip install x", "%pip install x", "%conda install x",
                     "!python3 -m pip install x", "!pip3 install -q x"):
            self.assertEqual(self.k.run(code)["status"], "ok")
            self.assertEqual([n["kind"] for n in self.k.of("note")], ["pip"])
            self.assertIn("no network", self.k.of("note")[0]["text"])

    def test_pip_is_run_where_there_is_network(self):
        kernel = Kernel(online=True)
        self.addCleanup(kernel.close)
        for code in ("!pip install --help", "%pip install --help"):
            kernel.run(code)
            self.assertNotIn("pip", [n["kind"] for n in kernel.of("note")])

    def test_await(self):
        self.assertEqual(self.plain("import asyncio\n"
                                    "async def f(): return 8\nawait f()"),
                         "8")
        self.k.run("v = await f()\nasync def g():\n  raise ValueError('g')")
        error = self.error("await g()")
        self.assertEqual(error["name"], "ValueError")
        self.assertNotIn("asyncio", error["traceback"])

    def test_ipython_display(self):
        self.k.run("from IPython.display import display, HTML, Image, "
                   "Markdown\ndisplay(HTML('<b>a</b> &amp; b'), "
                   "Markdown('# m'))\nfrom IPython import get_ipython")
        texts = [e["data"]["text/plain"] for e in self.k.of("display")]
        self.assertEqual(len(texts), 2)
        if not HAS["IPython"]:
            self.assertEqual(texts, ["a & b", "# m"])

    def test_time(self):
        self.k.run("# a comment first\n\n%%time\nz = 4\nq = 5")
        self.assertIn("Wall time: ", self.k.text())
        self.assertEqual(self.plain("z + q"), "9")
        self.assertEqual(self.plain("%time 6 * 7"), "42")
        self.assertIn("Wall time: ", self.k.text())
        self.assertIn("line 5", self.error("# c\n\n%%time\nx = 1\n1/0")
                      ["traceback"])
        self.assertIn("Wall time", self.k.text())

    def test_timeit(self):
        self.k.run("%timeit -n 7 -r 2 sum(range(10))")
        self.assertIn("per loop (best of 2, 7 loops)", self.k.text())
        self.k.run("%%timeit -n 3 -r 1 s = [3]\ns.append(1)\nlen(s)")
        self.assertIn("per loop (best of 1, 3 loops)", self.k.text())
        self.k.run("%timeit pass")
        self.assertIn(" ns per loop", self.k.text())

    def test_capture(self):
        self.k.run("%%capture out\nprint('hidden')\ndisplay(1)\n"
                   "x = 8\nx")
        self.assertEqual([e["ev"] for e in self.k.events], ["done"])
        self.assertEqual(self.k.text(), "")
        self.assertEqual(self.plain("print('seen')\nout.stdout, x"),
                         "('hidden\\n', 8)")
        self.assertEqual(self.k.text(), "seen\n")
        # An error ends it too.
        self.assertIn("line 2", self.error("%%capture\n1/0")["traceback"])
        self.assertEqual(self.plain("print('on')\n5"), "5")
        self.assertEqual(self.k.text(), "on\n")

    def test_scripts_and_files(self):
        self.k.run("%%bash\nfor i in 1 2; do echo n$i; done\n"
                   "[[ a == a ]] && echo bash")
        self.assertEqual(self.k.text(), "n1\nn2\nbash\n")
        self.k.run("%%writefile made.py\nimport sys\nmade = sys.argv[1:]\n"
                   "print(__name__)")
        self.k.run("%run made.py a b")
        self.assertEqual(self.k.text(), "__main__\n")
        self.assertEqual(self.plain("made"), "['a', 'b']")
        self.k.run("%%writefile -a made.py\n1/0")
        error = self.error("%run made")
        self.assertIn('made.py", line 4', error["traceback"])
        self.assertIn("made.py", self.plain("f = !ls *.py\nf"))
        self.assertEqual(self.plain("%pwd").strip("'"),
                         self.plain("import os\nos.getcwd()").strip("'"))
        self.k.run("%cat made.py")
        self.assertIn("import sys", self.k.text())

    def test_environment(self):
        self.k.run("v = 'x y'\n%env SP_TEST={v}\n!echo $SP_TEST")
        self.assertEqual(self.k.text(), "env: SP_TEST=x y\nx y\n")
        self.assertEqual(self.plain("%env SP_TEST"), "'x y'")
        self.k.run("n = 3\n!echo $n {n} $HOME $((n + 1)) '{print $1}'")
        self.assertRegex(self.k.text(),
                         r"^3 3 /\S+ 1 \{print \$1\}\n$")

    def test_names(self):
        self.k.run("%reset -f")
        self.k.run("%who")
        self.assertIn("no variables", self.k.text())
        self.k.run("alpha = 5\nimport os\n%who")
        self.assertEqual(self.k.text(), "alpha\n")
        self.k.run("%whos")
        self.assertRegex(self.k.text(), r"^alpha +int +5\n$")
        self.assertEqual(self.plain("%who_ls"), "['alpha']")

    def test_ignored(self):
        for line in ("%matplotlib inline", "%config X.y = 'retina'",
                     "%load_ext autoreload", "%autoreload 2",
                     "%precision 3", "%reload_ext sql"):
            self.assertEqual(self.plain(line + "\n7"), "7")
            self.assertEqual([n["kind"] for n in self.k.of("note")],
                             ["magic"], line)

    def test_errors_name_the_magic(self):
        for code, name in (("%prun f()", "%prun"), ("x = %sql select 1",
                                                    "%sql"),
                           ("%%html\n<b>", "%%html"),
                           ("%%sql\nselect 1", "%%sql"),
                           ("%debug", "%debug")):
            self.assertIn("the %s magic %s isn't available here" % (
                "cell" if name[1] == "%" else "line", name),
                self.error(code)["value"])

    def test_help(self):
        self.k.run("def helped(a, b=1):\n    'Says so.'\nhelped?")
        self.assertEqual(self.k.text(), "helped(a, b=1)\nSays so.\n")
        self.k.run("?helped")
        self.assertIn("Says so.", self.k.text())

    def test_installs(self):
        for code in ("import sys\n!{sys.executable} -m pip install -q x",
                     "%pip install x", "%%bash\npip install x",
                     "!uv pip install x"):
            self.assertEqual(self.k.run(code)["status"], "ok")
            self.assertEqual([n["kind"] for n in self.k.of("note")], ["pip"],
                             code)

    # ---- await

    def test_async_statements(self):
        self.k.run("import asyncio\n"
                   "class M:\n"
                   "    async def __aenter__(self): return 5\n"
                   "    async def __aexit__(self, *_): pass\n"
                   "async def numbers():\n"
                   "    for i in range(3):\n"
                   "        await asyncio.sleep(0); yield i\n"
                   "got = []\nasync with M() as m: got.append(m)\n"
                   "async for i in numbers(): got.append(i)\n"
                   "more = [i async for i in numbers()]")
        self.assertEqual(self.plain("got, more"), "([5, 0, 1, 2], [0, 1, 2])")

    def test_asyncio_run(self):
        """Works in a cell that awaits, too, where a loop is running."""
        self.k.run("import asyncio\nasync def f(x):\n"
                   "    await asyncio.sleep(0)\n    return x * 2")
        self.assertEqual(self.plain("asyncio.run(f(3))"), "6")
        self.assertEqual(self.plain("a = await f(1)\nb = asyncio.run(f(2))\n"
                                    "a, b, await f(3)"), "(2, 4, 6)")
        self.assertEqual(self.plain(
            "await f(0)\n"
            "asyncio.get_running_loop().run_until_complete(f(4))"), "8")
        self.k.run("async def bad(): raise ValueError('in it')")
        for code in ("asyncio.run(bad())", "await f(1)\nasyncio.run(bad())"):
            error = self.error(code)
            self.assertEqual((error["name"], error["value"]),
                             ("ValueError", "in it"))
            self.assertNotIn("asyncio/", error["traceback"])
        self.assertEqual(self.plain("import nest_asyncio\n"
                                    "nest_asyncio.apply()\n"
                                    "asyncio.run(f(5))"), "10")

    def test_tasks_left_over(self):
        self.k.run("import asyncio\nseen = []\nasync def later():\n"
                   "    await asyncio.sleep(0)\n    seen.append(1)\n"
                   "event = asyncio.Event()\n"
                   "async def stuck(): await event.wait()\n"
                   "await asyncio.sleep(0)\n"
                   "t = asyncio.create_task(later())\n"
                   "u = asyncio.create_task(stuck())")
        self.assertEqual([n["kind"] for n in self.k.of("note")], ["async"])
        self.assertIn("2 tasks", self.k.of("note")[0]["text"])
        self.assertEqual(self.plain("await t\nseen"), "[1]")
        self.assertEqual(self.k.of("note"), [])
        self.assertEqual(self.plain("event.set()\nawait u\nu.done()"),
                         "True")

    # ---- IPython

    def hide_ipython(self):
        """The stand-in is asked before an IPython that is installed."""
        self.k.run("import sys\nfor n in list(sys.modules):\n"
                   "    if n.partition('.')[0] == 'IPython':\n"
                   "        del sys.modules[n]\n"
                   "finder = [f for f in sys.meta_path"
                   " if getattr(f, '__name__', '') == 'StandIn'][0]\n"
                   "sys.meta_path.remove(finder)\n"
                   "sys.meta_path.insert(0, finder)")

    def shown(self, code):
        done = self.k.run(code)
        self.assertEqual(done["status"], "ok", done)
        return [e["data"]["text/plain"] for e in self.k.events
                if e["ev"] in ("display", "result")]

    def check_ipython(self):
        self.assertEqual(self.shown(
            "from IPython.display import *\n"
            "from IPython.core.display import HTML as HTML2\n"
            "display(HTML('<style>x</style><table><tr><td>a</td><td>1</td>"
            "</tr><tr><td>b</td></tr></table><p>c &amp; d</p>'))\n"
            "display(Markdown('# m'), Latex('$x$'), Math('y'), "
            "Pretty('p'), Code('c = 1'), JSON({'k': [1]}))\n"
            "HTML2('<b>r</b>')"),
            ["a\t1\nb\n\nc & d", "# m", "$x$", "y", "p", "c = 1",
             '{\n  "k": [\n    1\n  ]\n}', "r"])
        self.assertEqual(self.shown(
            "h = display(1, display_id='one')\nh.update(2)\n"
            "update_display(3, display_id='one')\n"
            "clear_output(wait=True)\ndisplay_markdown('*x*', raw=True)\n"
            "display({'text/plain': 'raw'}, raw=True)\n"
            "publish_display_data({'text/html': '<i>q</i>'})\n"
            "display(5, display_id=True)"),
            ["1", "2", "3", "*x*", "raw", "q", "5"])
        self.k.run("import IPython\nfrom IPython import get_ipython as g\n"
                   "get_ipython().run_line_magic('matplotlib', 'inline')")
        self.assertEqual([n["kind"] for n in self.k.of("note")], ["magic"])
        self.assertEqual(self.plain(
            "g() is get_ipython() is IPython.get_ipython(), "
            "'IPKernelApp' in g().config"), "(True, False)")
        self.k.run("get_ipython().system('echo sys')\n"
                   "get_ipython().run_cell_magic('bash', '', 'echo cell')")
        self.assertEqual(self.k.text(), "sys\ncell\n")
        self.assertEqual(self.plain("get_ipython().getoutput('echo a')"),
                         "['a']")
        self.assertEqual(self.k.run(
            "from IPython.core.interactiveshell import InteractiveShell\n"
            "InteractiveShell.ast_node_interactivity = 'all'")["status"],
            "ok")

    def test_real_ipython(self):
        if not HAS["IPython"]:
            self.skipTest("IPython is not installed")
        self.check_ipython()

    def test_stand_in_for_ipython(self):
        self.hide_ipython()
        self.check_ipython()
        for name in ("Audio('x.mp3')", "Video('x.mp4')", "SVG('<svg/>')",
                     "IFrame('http://x', 1, 1)", "YouTubeVideo('x')",
                     "Javascript('1')"):
            done = self.k.run("display(%s)" % name)
            self.assertEqual(done["status"], "ok", done)
            self.assertEqual([n["kind"] for n in self.k.of("note")],
                             ["display"], name)

    @needs("matplotlib")
    def test_charts_after_the_stand_in(self):
        self.hide_ipython()
        self.k.run("import IPython.display\nimport matplotlib.pyplot as plt\n"
                   "plt.plot([1, 2])")
        self.assertIn("image/png", self.k.of("display")[0]["data"])

    # ---- files

    def files(self, code):
        done = self.k.run(code)
        self.assertEqual(done["status"], "ok", done)
        return [n["text"] for n in self.k.of("note") if n["kind"] == "file"]

    def test_paths_offer_files(self):
        self.k.run("import os, pathlib\nos.makedirs('out', exist_ok=True)\n"
                   "for n in ('a.csv', 'b c.txt'):\n"
                   "    open('out/' + n, 'w').close()\n"
                   "open('plain', 'w').close()\n"
                   "os.symlink('out/a.csv', 'link.csv')\n"
                   "os.symlink('/etc/passwd', 'evil.csv')\n"
                   "os.symlink('/etc', 'evil')\nos.mkfifo('f.csv')\n"
                   "open(b'bad\\xff.csv', 'w').close()")
        for shown, names in (
                ("'out/a.csv'", ["out/a.csv"]),
                ("os.path.abspath('out/b c.txt')", ["out/b c.txt"]),
                ("pathlib.Path('out') / 'a.csv'", ["out/a.csv"]),
                ("pathlib.Path('plain')", ["plain"]),
                ("'link.csv'", ["out/a.csv"]),
                # No file, none of the workspace, or no single path.
                ("'plain'", []), ("'no.csv'", []), ("'out/'", []),
                ("'/etc/passwd'", []), ("'../../../etc/passwd'", []),
                ("'evil.csv'", []), ("'evil/passwd'", []), ("'f.csv'", []),
                ("os.fsdecode(b'bad\\xff.csv')", []),
                ("'a\\0.csv'", []), ("'x' * 5000 + '.csv'", []),
                ("'out/a.csv', 'out/a.csv'", []),
                ("['out/a.csv']", [])):
            self.assertEqual(self.files("display(%s)" % shown), names, shown)
            # Something is shown in each case.
            self.assertTrue(names or self.k.of("display"), shown)
            if names:
                self.assertEqual(self.k.of("display"), [])
        self.assertEqual(self.files("'out/a.csv'"), [])

    def test_file_links(self):
        self.k.run("import os\nos.makedirs('links', exist_ok=True)\n"
                   "for i in range(30):\n"
                   "    open('links/%02d' % i, 'w').close()")
        self.hide_ipython()
        self.assertEqual(self.files("from IPython.display import FileLink, "
                                    "FileLinks\nFileLink('links/03')"),
                         ["links/03"])
        self.assertEqual(self.k.of("result"), [])
        self.assertEqual(self.files("display(FileLinks('links'))"),
                         ["links/%02d" % i for i in range(20)])
        self.assertEqual(self.files("FileLink('none')"), [])
        self.assertEqual(self.k.of("note")[0]["kind"], "display")
        # One that is refused does not make the others missing.
        self.k.run("os.makedirs('mixed')\nopen('mixed/b', 'w').close()\n"
                   "os.symlink('/etc/passwd', 'mixed/a')")
        self.assertEqual(self.files("FileLinks('mixed')"), ["mixed/b"])
        self.assertEqual([n["kind"] for n in self.k.of("note")], ["file"])

    def test_display_from_a_thread(self):
        self.k.run("import threading\n"
                   "ts = [threading.Thread(target=lambda: [display('q' * 9000"
                   ") for _ in range(50)]) for _ in range(4)]\n"
                   "for t in ts: t.start()\nfor t in ts: t.join()")
        self.assertEqual(len(self.k.of("display")), 200)
        self.assertEqual(sorted(e["i"] for e in self.k.of("display")),
                         list(range(200)))


if __name__ == "__main__":
    main()
