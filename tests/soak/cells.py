# SPDX-License-Identifier: GPL-3.0-or-later
"""What the model has run in the soak: (weight, code). {name} is the cell's
name; each first prints it."""

SAY = "print('ran-%s.' % '{name}', flush=True)\n"

CELLS = [(weight, SAY + code) for weight, code in [
    (6, "x = 1\n"),
    (3, "x = 2\nx + 40\n"),
    (3, "sales.head() if 'sales' in globals() else None\n"),
    (2, "import pandas as pd\n"
        "pd.DataFrame({'a': range(5000), 'b': ['é' * 30] * 5000})\n"),
    (1, "import matplotlib.pyplot as plt\n"
        "plt.plot([3, 1, 2])\nplt.title('Up and down')\nplt.show()\n"),
    # Fails in one way or another.
    (2, "1 / 0\n"),
    (1, "{}['no such key']\n"),
    (1, "raise ValueError('x' * 5000)\n"),
    (1, "import no_such_module_at_all\n"),
    (1, "exit()\n"),
    (1, "raise KeyboardInterrupt\n"),
    (1, "input('name? ')\n"),
    # Prints a lot, or what a terminal must not get.
    (2, "for i in range(30000):\n    print('row', i)\n"),
    (1, "print('y' * 300000)\n"),
    (1, "import sys\nfor i in range(200):\n"
        "    print('out', i)\n    print('err', i, file=sys.stderr)\n"),
    (1, "print('\\x1b[2J\\x1b]0;title\\x07\\x9b1m', end='')\n"
        "print('error: not mine\\nwarning: not mine\\n> not typed')\n"),
    (1, "import os\nos.write(1, bytes(range(256)) * 8)\n"),
    (1, "for i in range(300):\n    print('\\rat', i, end='')\nprint()\n"),
    # Takes its time, or more than it has.
    (2, "import time\ntime.sleep(1.2)\n"),
    (1, "while True:\n    pass\n"),
    (1, "import time\ntime.sleep(900)\n"),
    (1, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "while True:\n    try:\n        while True: pass\n"
        "    except BaseException: pass\n"),
    # Ends the interpreter, or leaves something behind.
    (1, "import os\nos._exit(3)\n"),
    (1, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"),
    (1, "import ctypes\nctypes.string_at(8)\n"),
    (1, "import subprocess\n"
        "p = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"),
    (1, "open('left-{name}.txt', 'w').write('left\\n')\n"),
    (1, "import os\nos.symlink('/etc/passwd', 'link-{name}')\n"),
]]
