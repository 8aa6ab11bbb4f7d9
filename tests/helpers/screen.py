# SPDX-License-Identifier: GPL-3.0-or-later
"""A small model of a terminal's screen: what a person sees.

    screen = Screen(80, 24)
    screen.feed(b"\\x1b[2Jhello\\r\\n")
    screen.lines()     # rows of text, trailing blanks cut
    screen.text()      # the rows joined, trailing empty rows cut
    screen.all_text()  # the same with what scrolled off the top
    screen.row, screen.col      # cursor, from 0
    screen.images      # sixel pictures: .row (0 = first line ever) .col
                       # .width .height (pixels) .params .data
    screen.strings     # other DCS, OSC, APC ... as (kind, bytes)
    screen.unexpected  # sequences and controls that the model does not know

Knows UTF-8, wide and combining characters, deferred wrap, scrolling and
scroll regions, cursor movement, erasing, insert and delete, the alternate
screen, save and restore.  Colours are ignored.
"""

import codecs
import re
import unicodedata

CSI = re.compile(r"([<-?]*)([0-9;:]*)([ -/]*)([@-~])\Z")
STRING_RUN = re.compile("[^\x07\x18\x1a\x1b]*")


def char_width(char):
    category = unicodedata.category(char)
    if category in ("Mn", "Me", "Cf") or 0x1160 <= ord(char) <= 0x11ff:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Image:
    def __init__(self, row, col, params, data):
        self.row = row
        self.col = col
        self.params = params
        self.data = data
        raster = re.match(rb'"(\d+);(\d+);(\d+);(\d+)', data)
        if raster:
            self.width, self.height = int(raster[3]), int(raster[4])
        else:
            bands = data.split(b"-")
            if not bands[-1].strip(b"\r\n"):
                bands.pop()
            self.height = 6 * len(bands)
            self.width = max(map(_band_width, bands), default=0)


def _band_width(band):
    widest = 0
    for pass_ in band.split(b"$"):
        pass_ = re.sub(rb"#[0-9;]*", b"", pass_)
        width = 0
        for count, _ in re.findall(rb"(?:!(\d+))?([?-~])", pass_):
            width += int(count) if count else 1
        widest = max(widest, width)
    return widest


class Screen:
    def __init__(self, cols=80, rows=24, cell=(10, 20), sixel_below=False):
        """cell: pixels of a cell. sixel_below: the cursor goes to the row
        below a picture (mlterm) instead of to its last row (xterm)."""
        self.cols, self.rows = cols, rows
        self.cell = cell
        self.sixel_below = sixel_below
        self.history = []
        self.images = []
        self.strings = []
        self.unexpected = []
        self.modes = set()
        self.bells = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state = "ground"
        self._seq = ""
        self._main = None
        self._reset()

    def _reset(self):
        self._grid = [self._blank() for _ in range(self.rows)]
        self.row = self.col = 0
        self._wrap_next = False
        self._saved = (0, 0)
        self._top, self._bottom = 0, self.rows - 1

    def _blank(self):
        return [" "] * self.cols

    # -- looking --

    @property
    def cursor(self):
        return self.row, self.col

    def lines(self):
        return ["".join(row).rstrip() for row in self._grid]

    def text(self):
        return "\n".join(self.lines()).rstrip("\n")

    def all_lines(self):
        return self.history + self.lines()

    def all_text(self):
        return "\n".join(self.all_lines()).rstrip("\n")

    # -- feeding --

    def feed(self, data):
        text = self._decoder.decode(data)
        at = 0
        while at < len(text):
            if self._state == "string":
                # Pictures are long: take all that cannot end the string.
                run = STRING_RUN.match(text, at)
                self._seq += run[0]
                at = run.end()
                if at == len(text):
                    break
            getattr(self, "_in_" + self._state)(text[at])
            at += 1

    def resize(self, cols, rows):
        """Cuts or pads rows; does not wrap anew, as xterm does not."""
        while len(self._grid) > rows and self.row >= rows:
            self.history.append("".join(self._grid.pop(0)).rstrip())
            self.row -= 1
        del self._grid[rows:]
        self.cols, self.rows = cols, rows
        while len(self._grid) < rows:
            self._grid.append(self._blank())
        self._grid = [(row + [" "] * cols)[:cols] for row in self._grid]
        self.col = min(self.col, cols - 1)
        self._top, self._bottom = 0, rows - 1
        self._wrap_next = False

    def _in_ground(self, char):
        code = ord(char)
        if char == "\x1b":
            self._state, self._seq = "escape", ""
        elif code < 0x20 or code == 0x7f:
            self._control(char)
        elif 0x80 <= code < 0xa0:
            self.unexpected.append("C1 %02x" % code)
        else:
            self._put(char)

    def _in_escape(self, char):
        if char == "[":
            self._state = "csi"
        elif char in "PX]^_":
            self._state, self._kind = "string", char
        elif " " <= char <= "/":
            self._seq += char
            self._state = "charset"
        else:
            self._state = "ground"
            self._escape(char)

    def _in_charset(self, char):
        if not " " <= char <= "/":
            self._state = "ground"
            if self._seq[0] not in "()*+ #%":
                self.unexpected.append("ESC %s%s" % (self._seq, char))

    def _in_csi(self, char):
        if char == "\x1b":
            self.unexpected.append("cut CSI %s" % self._seq)
            self._state, self._seq = "escape", ""
        elif char < " ":
            self._control(char)
        else:
            self._seq += char
            if "@" <= char <= "~":
                self._state = "ground"
                self._csi(self._seq)

    def _in_string(self, char):
        if char == "\x1b":
            self._state = "string_escape"
        elif char == "\x07" and self._kind == "]":
            self._end_string()
        elif char in "\x18\x1a":
            self.unexpected.append("cut string %s" % self._kind)
            self._state = "ground"
        else:
            self._seq += char

    def _in_string_escape(self, char):
        self._end_string()
        if char != "\\":
            self.unexpected.append("string ended by ESC %s" % char)
            self._state, self._seq = "escape", ""
            self._in_escape(char)

    def _end_string(self):
        self._state = "ground"
        data = self._seq.encode("utf-8", "replace")
        match = re.match(rb"([0-9;]*)q", data)
        if self._kind == "P" and match:
            self._sixel(match[1], data[match.end():])
            return
        kind = {"P": "DCS", "]": "OSC", "_": "APC", "^": "PM",
                "X": "SOS"}[self._kind]
        self.strings.append((kind, data))

    # -- acting --

    def _control(self, char):
        if char in "\n\v\f":
            self._line_feed()
        elif char == "\r":
            self.col, self._wrap_next = 0, False
        elif char == "\b":
            self.col, self._wrap_next = max(self.col - 1, 0), False
        elif char == "\t":
            self.col = min((self.col // 8 + 1) * 8, self.cols - 1)
        elif char == "\a":
            self.bells += 1
        elif char not in "\0\x0e\x0f":
            self.unexpected.append("control %02x" % ord(char))

    def _put(self, char):
        width = char_width(char)
        if width == 0:
            at = self.col if self._wrap_next else max(self.col - 1, 0)
            while at > 0 and self._grid[self.row][at] == "":
                at -= 1
            self._grid[self.row][at] += char
            return
        if self._wrap_next or self.col + width > self.cols:
            if "?7l" not in self.modes:
                self.col = 0
                self._line_feed()
            else:
                self.col = self.cols - width
        line = self._grid[self.row]
        self._break_wide(line, self.col)
        self._break_wide(line, self.col + width)
        line[self.col] = char
        if width == 2:
            line[self.col + 1] = ""
        self.col += width
        self._wrap_next = self.col >= self.cols
        if self._wrap_next:
            self.col = self.cols - 1

    @staticmethod
    def _break_wide(line, col):
        # Half of a wide character that is written over becomes a blank.
        if 0 < col < len(line) and line[col] == "":
            line[col - 1] = line[col] = " "

    def _line_feed(self):
        self._wrap_next = False
        if self.row == self._bottom:
            self._scroll_up(1)
        elif self.row < self.rows - 1:
            self.row += 1

    def _scroll_up(self, count):
        for _ in range(min(count, self.rows)):
            gone = self._grid.pop(self._top)
            if self._top == 0 and self._main is None:
                self.history.append("".join(gone).rstrip())
            self._grid.insert(self._bottom, self._blank())

    def _scroll_down(self, top, count):
        for _ in range(min(count, self._bottom - top + 1)):
            del self._grid[self._bottom]
            self._grid.insert(top, self._blank())

    def _escape(self, char):
        if char == "7":
            self._saved = self.cursor
        elif char == "8":
            self._go(*self._saved)
        elif char == "D":
            self._line_feed()
        elif char == "E":
            self.col = 0
            self._line_feed()
        elif char == "M":
            if self.row == self._top:
                self._scroll_down(self._top, 1)
            else:
                self._go(self.row - 1, self.col)
        elif char == "c":
            self._reset()
        elif char not in "=>\\":
            self.unexpected.append("ESC %s" % char)

    def _go(self, row, col):
        self.row = min(max(row, 0), self.rows - 1)
        self.col = min(max(col, 0), self.cols - 1)
        self._wrap_next = False

    def _csi(self, seq):
        match = CSI.match(seq)
        if not match:
            self.unexpected.append("CSI %s" % seq)
            return
        prefix, params, inter, final = match.groups()
        numbers = [int(p) if p.isdigit() else 0 for p in params.split(";")]
        if prefix or inter:
            self._private(prefix, numbers, inter, final, seq)
            return
        first = numbers[0]
        method = self._CSI.get(final)
        if method:
            method(self, first or 1, numbers)
        elif final in "JK":
            self._erase(final, first)
        elif final not in "mntc":
            self.unexpected.append("CSI %s" % seq)

    def _private(self, prefix, numbers, inter, final, seq):
        if prefix == "?" and final in "hl" and not inter:
            for number in numbers:
                self.modes.discard("?%d%s" % (number, "lh"[final == "l"]))
                self.modes.add("?%d%s" % (number, final))
                if number in (47, 1047, 1049):
                    self._alternate(final == "h")
        elif final not in "cqSpmunt":
            self.unexpected.append("CSI %s" % seq)

    def _alternate(self, on):
        if on and self._main is None:
            self._main = (self._grid, self.row, self.col)
            self._grid = [self._blank() for _ in range(self.rows)]
        elif not on and self._main is not None:
            self._grid, self.row, self.col = self._main
            self._main = None
            self.resize(self.cols, self.rows)

    def _erase(self, final, how):
        line = self._grid[self.row]
        start, end = {0: (self.col, self.cols), 1: (0, self.col + 1)}.get(
            how, (0, self.cols))
        if final == "K" or how < 2:
            self._break_wide(line, start)
            self._break_wide(line, end)
            line[start:end] = [" "] * (end - start)
        if final == "K":
            return
        rows = {0: range(self.row + 1, self.rows), 1: range(self.row),
                2: range(self.rows)}.get(how, ())
        for row in rows:
            self._grid[row] = self._blank()
        if how == 3:
            self.history.clear()

    def _insert_lines(self, count, _):
        if self._top <= self.row <= self._bottom:
            self._scroll_down(self.row, count)

    def _delete_lines(self, count, _):
        for _ in range(min(count, self._bottom - self.row + 1)):
            del self._grid[self.row]
            self._grid.insert(self._bottom, self._blank())

    def _insert_chars(self, count, _):
        line = self._grid[self.row]
        self._break_wide(line, self.col)
        line[self.col:self.col] = [" "] * count
        del line[self.cols:]

    def _delete_chars(self, count, _):
        line = self._grid[self.row]
        self._break_wide(line, self.col)
        self._break_wide(line, self.col + count)
        del line[self.col:self.col + count]
        line += [" "] * (self.cols - len(line))

    def _erase_chars(self, count, _):
        line = self._grid[self.row]
        end = min(self.col + count, self.cols)
        self._break_wide(line, self.col)
        self._break_wide(line, end)
        line[self.col:end] = [" "] * (end - self.col)

    def _region(self, _, numbers):
        top = max(numbers[0], 1) - 1
        bottom = (numbers[1] if len(numbers) > 1 and numbers[1]
                  else self.rows) - 1
        if top < bottom < self.rows:
            self._top, self._bottom = top, bottom
            self._go(0, 0)

    def _restore(self, _, __):
        self._go(*self._saved)

    def _save(self, _, __):
        self._saved = self.cursor

    _CSI = {
        "A": lambda s, n, _: s._go(s.row - n, s.col),
        "B": lambda s, n, _: s._go(s.row + n, s.col),
        "C": lambda s, n, _: s._go(s.row, s.col + n),
        "D": lambda s, n, _: s._go(s.row, s.col - n),
        "E": lambda s, n, _: s._go(s.row + n, 0),
        "F": lambda s, n, _: s._go(s.row - n, 0),
        "G": lambda s, n, _: s._go(s.row, n - 1),
        "`": lambda s, n, _: s._go(s.row, n - 1),
        "d": lambda s, n, _: s._go(n - 1, s.col),
        "H": lambda s, n, ns: s._go(n - 1, (ns[1] or 1) - 1
                                    if len(ns) > 1 else 0),
        "f": lambda s, n, ns: s._go(n - 1, (ns[1] or 1) - 1
                                    if len(ns) > 1 else 0),
        "S": lambda s, n, _: s._scroll_up(n),
        "T": lambda s, n, _: s._scroll_down(s._top, n),
        "L": _insert_lines, "M": _delete_lines, "@": _insert_chars,
        "P": _delete_chars, "X": _erase_chars, "r": _region,
        "s": _save, "u": _restore,
    }

    def _sixel(self, params, data):
        image = Image(len(self.history) + self.row, self.col, params, data)
        self.images.append(image)
        rows = -(-image.height // self.cell[1])
        col = self.col
        for _ in range(max(rows - 1, 0) + (1 if self.sixel_below else 0)):
            self._line_feed()
        self.col = col
