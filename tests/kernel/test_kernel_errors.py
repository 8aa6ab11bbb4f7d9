#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel: what is said of cells that fail. Prints TAP."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kernel_session import (  # noqa: E402
    Shared, main, needs)


class Errors(Shared):

    def test_traceback_has_only_frames_of_cells(self):
        self.k.run("def f(x):\n    return 1 / x", cell=5)
        done = self.k.run("import json\nf(0)", cell=6)
        text = done["error"]["traceback"]
        self.assertEqual(done["error"]["name"], "ZeroDivisionError")
        self.assertEqual(done["error"]["value"], "division by zero")
        self.assertIn('"<cell 5>", line 2', text)
        self.assertIn("return 1 / x", text)
        self.assertIn('"<cell 6>", line 2', text)
        self.assertNotIn("kernel", text)
        text = self.error("import json\njson.loads('{')")["traceback"]
        self.assertNotIn("decoder.py", text)
        self.assertIn("json.loads('{')", text)

    def test_syntax_error(self):
        error = self.error("x = 1\ny = = 2")
        self.assertEqual(error["name"], "SyntaxError")
        self.assertIn("line 2", error["traceback"])
        self.assertNotIn("kernel", error["traceback"])

    def test_sizes_are_bounded(self):
        error = self.error("class %s(Exception): pass\n"
                           "raise %s('m' * 50_000_000)" % (("N" * 999,) * 2))
        self.assertLessEqual(len(error["name"]), 256)
        self.assertLessEqual(len(error["value"]), 4096)
        self.assertLessEqual(len(error["traceback"]), 16384)

    def test_exit_ends_the_cell_only(self):
        for code in ("import sys; sys.exit()", "exit()", "quit(3)",
                     "raise SystemExit"):
            done = self.k.run(code + "\nprint('no')")
            self.assertEqual(done["status"], "ok")
            self.assertEqual([n["kind"] for n in self.k.of("note")], ["exit"])
            self.assertNotIn("no", self.k.text())
        self.k.run("import sys; sys.exit('why')")
        self.assertEqual(self.k.text("err"), "why\n")

    def test_no_input(self):
        for code in ("input('?')", "import getpass; getpass.getpass()",
                     "breakpoint()", "import pdb; pdb.set_trace()",
                     "import pdb; pdb.run('1')"):
            name = code.rpartition("; ")[2].partition("(")[0]
            self.assertIn(name + "() isn't available here: nobody is at the "
                          "keyboard", self.error(code)["value"])
        self.assertEqual(self.plain("import sys; sys.stdin.read()"), "''")

    def test_hostile_objects(self):
        for what in ("raise SystemExit", "raise KeyboardInterrupt",
                     "raise ValueError('v')", "return 5", "1/0",
                     "return type('T', (str,), {'__len__': None})('t')",
                     "return H()", "return repr(self)"):
            for method in ("__repr__", "__str__"):
                define = "class H(Exception):\n  def %s(self): %s\n" % (
                    method, what)
                done = self.k.run(define + "display(H())\nH()")
                self.assertEqual(done["status"], "ok", (what, method, done))
                self.assertEqual(len(self.k.of("display")), 1)
                done = self.k.run(define + "raise H()")
                self.assertEqual(done["status"], "error")
                self.assertEqual(done["error"]["name"], "H")
        for extra in ("__class__ = property(lambda s: 1/0)",
                      "def __getattr__(self, n): raise SystemExit(n)",
                      "def __getattribute__(self, n): 1/0"):
            self.assertEqual(self.k.run(
                "class G:\n  %s\ndisplay(G())\nG()" % extra)["status"], "ok",
                extra)
        self.assertEqual(self.plain("1"), "1")

    def test_recursion_and_large_reprs(self):
        self.assertEqual(self.error("def r(): r()\nr()")["name"],
                         "RecursionError")
        self.assertLessEqual(len(self.plain("'x' * 200_000_000")), 65536)

    def test_surrogates(self):
        self.k.run("print('a\\udc80b\\ud800')")
        self.assertEqual(self.k.text(), "a\\udc80b\\ud800\n")
        self.error("x = '\ud800'")

    def test_group_of_exceptions_and_causes(self):
        text = self.error("try:\n  1/0\nexcept Exception as e:\n"
                          "  raise KeyError('k') from e")["traceback"]
        self.assertIn("ZeroDivisionError", text)
        self.assertIn("KeyError", text)
        self.assertNotIn("kernel", text)

        version = tuple(map(int, self.k.ready["python"].split(".")[:2]))
        if version >= (3, 11):
            text = self.error(
                "def f(): return 1 / 0\nerrors = []\n"
                "for c in (f, lambda: int('x')):\n"
                "    try: c()\n    except Exception as e: errors.append(e)\n"
                "raise ExceptionGroup('both', errors)")["traceback"]
            for part in ("ExceptionGroup: both (2 sub-exceptions)",
                         "ZeroDivisionError: division by zero", "in f",
                         "ValueError: invalid literal"):
                self.assertIn(part, text)
            self.assertNotIn("kernel", text)

    def test_code_that_cells_make(self):
        """exec, eval, files of the workspace; not those of libraries."""
        text = self.error("exec('def made():\\n    1/0')\nmade()"
                          )["traceback"]
        self.assertIn('"<string>", line 2, in made', text)
        text = self.error("exec(compile('\\n1/0', 'my.py', 'exec'))"
                          )["traceback"]
        self.assertIn('"my.py", line 2', text)
        text = self.error("open('own.py', 'w').write('def g(h):\\n  h()')\n"
                          "import own\nimport json\n"
                          "own.g(lambda: json.loads('{'))")["traceback"]
        self.assertIn('own.py", line 2, in g', text)
        self.assertIn("<lambda>", text)
        self.assertNotIn("json/", text)

    def test_caret_of_a_syntax_error(self):
        text = self.error("x = 1\nif x = 2:\n    pass")["traceback"]
        lines = text.splitlines()
        self.assertEqual(lines[0].strip(), 'File "<cell %d>", line 2'
                         % self.k.events[-1]["n"])
        self.assertEqual(lines[1].strip(), "if x = 2:")
        self.assertIn("^", lines[2])
        self.assertIn("SyntaxError", lines[3])

    @needs("pandas")
    def test_lambda_in_apply(self):
        text = self.error(
            "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\n"
            "df.apply(lambda row: row['b'] + 1, axis=1)")["traceback"]
        self.assertEqual(text.count("<cell"), 2)
        self.assertIn("in <lambda>", text)
        self.assertNotIn("pandas/", text)
        self.assertTrue(text.endswith("KeyError: 'b'\n"), text)

    def test_cause_without_context(self):
        text = self.error("try:\n  {}['x']\nexcept KeyError:\n"
                          "  raise ValueError('y') from None")["traceback"]
        self.assertNotIn("KeyError", text)
        text = self.error("try:\n  {}['x']\nexcept KeyError:\n  undefined")[
            "traceback"]
        self.assertIn("During handling of the above exception", text)

    @needs("pandas")
    def test_column_hint(self):
        self.k.run("import pandas as pd\n"
                   "df = pd.DataFrame({'region': [1], 'Revenue': [2]})")
        for code, hint in (("df['regoin']", "region"),
                           ("df['revenue']", "Revenue"),
                           ("df[['region', 'revenu']]", "Revenue"),
                           ("df.groupby('regin').sum()", "region"),
                           ("df.drop(columns=['regin'])", "region"),
                           ("df.regoin", "region"),
                           ("df['zzzzz']", None), ("{}['region1']", "region"),
                           ("{}[5]", None)):
            error = self.error(code)
            self.assertEqual(error.get("hint"), hint and
                             "nearest column: " + hint, code)
            self.assertNotIn("pandas/", error["traceback"])

    def test_hints_at_what_a_sandbox_lacks(self):
        fail = "raise socket.gaierror(-3, 'Temporary failure')"
        network = "no network in the sandbox, by design"
        package = "packages cannot be installed from a cell"
        self.k.run("import socket, urllib.error")
        for code, hint in (
                (fail, network), ("raise OSError(97, 'no')", network),
                ("raise OSError(2, 'no')", None),
                ("raise urllib.error.URLError(socket.gaierror(-3, 'x'))",
                 network),
                ("raise urllib.error.URLError('x')", None),
                ("try:\n    %s\nexcept OSError:\n    raise ValueError" % fail,
                 network),
                ("try:\n    %s\nexcept OSError as e:\n"
                 "    raise ValueError from e" % fail, network),
                ("import no_such_package", package),
                ("import os.no_such_module", None),
                ("from os import no_such_name", None), ("1/0", None),
                ("class E(Exception):\n    @property\n"
                 "    def reason(self): raise SystemExit\nraise E", None)):
            self.assertEqual(self.error(code).get("hint"), hint, code)


if __name__ == "__main__":
    main()
