"""Make text from models, tools, files and servers harmless for a terminal, and nothing in it invisible.

The one rule for answers, tools, lists, the status bar, errors and pages: what programs print to colour their words is
left out, and everything else that would not be seen as it is becomes visible. Left out are sequences that set colours
and styles (`ESC [ ... m`), an erasing to the end of the line directly behind one (grep and gcc print that) and the
choice of ASCII (`ESC ( B`, with which tput resets). Sequences that move, clear, ask or set anything else stay as text,
with what they carry, such as a title, a link or the clipboard: ESC as its symbol U+241B like other control characters,
C1 controls, text direction marks and invisible characters as `<U+202E>`. What will be run or opened keeps its colours
as text too: `literal`. A carriage return ends a line.
"""

from __future__ import annotations

import functools
import re
import unicodedata

_ESC = "\x1b"
_MOST_HELD = 128

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f]"
_SUSPECT = f"[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\ud800-\udfff{_INVISIBLE}{_JOINERS}{_SELECTORS}]"
_COLOUR = r"(?:\x1b\[|\x9b)[0-9:;]{0,48}m"
_SEQUENCE = rf"{_COLOUR}(?:\x1b\[K)?|\x1b\(B"
_UNFINISHED = rf"(?:{_COLOUR})?(?:\x1b(?:\[[0-9:;]{{0,48}}|\()?|\x9b[0-9:;]{{0,48}})?\Z"
_LINE_END = r"\r\n?"
_HIDDEN = (
    f"[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\ud800-\udfff{_INVISIBLE}]"
    f"|(?<![^\\x00-\\x7f])[{_JOINERS}]"
    f"|(?<=[{_JOINERS}])[{_JOINERS}]"
    f"|(?:(?<=[{_SELECTORS}\\s])|(?<![\\s\\S]))[{_SELECTORS}]"
)
_SPACE = r"\s+"
_BYTE = "[\udc80-\udcff]"


@functools.cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_harmless(text: str) -> bool:
    """Tell whether there is nothing to do: a tenth of the time where few kinds of characters are to be looked for."""
    return _regex(_CONTROLS if text.isascii() else _SUSPECT).search(text) is None


class Cleaner:
    """Cleans a text that comes in pieces; a sequence that is cut over two pieces is still one."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""
        self._after_return = False

    def feed(self, piece: str) -> str:
        """Return what can be shown by now."""
        if not self._held and not self._after_return and _is_harmless(piece):
            self._last = piece[-1:] or self._last
            return piece
        text = self._held + piece
        if self._after_return and text:
            text = text.removeprefix("\n")
            self._after_return = False
        self._after_return = piece.endswith("\r") or (self._after_return and not text)
        unfinished = _regex(_UNFINISHED).search(text, max(0, len(text) - _MOST_HELD))
        self._held = unfinished.group() if unfinished else ""
        return self._clean(text[: len(text) - len(self._held)])

    def close(self) -> str:
        """Return what was held back, made visible."""
        rest = self._clean(self._held)
        self._held = self._last = ""
        self._after_return = False
        return rest

    def _clean(self, text: str) -> str:
        text = _regex(_LINE_END).sub("\n", _regex(_SEQUENCE).sub("", text))
        shown = _all_visible(text, self._last)
        self._last = text[-1:] or self._last
        return shown


def plain(text: str) -> str:
    """Clean a whole text. Lines end with a newline, tabs stay."""
    if _is_harmless(text):
        return text
    cleaner = Cleaner()
    return cleaner.feed(text) + cleaner.close()


def literal(text: str, before: str = "") -> str:
    """Make everything visible and leave nothing out: for what will be run or opened, such as commands.

    `before` is the character that stands before the text.
    """
    return text if _is_harmless(text) else _all_visible(text, before)


def seen(name: str) -> str:
    """Write a name on one line so that all of it is seen: `literal`, with blanks other than a space visible as well."""
    shown = literal(with_bytes(name))
    return shown if not any(map(_is_odd_blank, shown)) else "".join(map(_blank_seen, shown))


def is_seen(text: str) -> bool:
    """Tell whether a text on one line is seen as it is."""
    return seen(text) == text


def with_bytes(name: str) -> str:
    """Write the bytes of a file name that are no UTF-8 as `<0xFF>`."""
    return name if name.isascii() else _regex(_BYTE).sub(lambda byte: f"<0x{ord(byte.group()) - 0xDC00:02X}>", name)


def ascii_json(text: str) -> str:
    """Write what a terminal would obey or not show in a JSON text as its escape: the same JSON, only visible."""
    return text if _is_harmless(text) else _regex(_HIDDEN).sub(_escaped, text)


def one_line(text: str, limit: int) -> str:
    """Clean, put on one line and cut to `limit` terminal cells, with `...` where it was cut."""
    return cut_cells(_regex(_SPACE).sub(" ", plain(text[: 8 * limit + 1024])).strip(), limit)


def cells(text: str) -> int:
    """Return how many terminal cells a cleaned text takes, at most: emoji sequences count all their parts."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def cut_cells(text: str, limit: int) -> str:
    """Return `text`, or as much of it as fits with `...` into `limit` cells."""
    if _end(text, 0, limit) == len(text):
        return text
    dots = "..."[: max(0, limit)]
    return head_of(text, limit - len(dots)) + dots


def head_of(text: str, limit: int) -> str:
    """Return as much of the beginning of `text` as fits into `limit` cells."""
    return text[: _end(text, 0, limit)]


def broken(text: str, limit: int) -> list[str]:
    """Break a line of cleaned text anywhere into lines of at most `limit` cells; nothing of it is left out."""
    lines, at = list[str](), 0
    while not lines or at < len(text):
        start, at = at, _end(text, at, max(2, limit))
        lines.append(text[start:at])
    return lines


def wrapped(text: str, limit: int, *, break_words: bool = True) -> list[str]:
    """Break a line of cleaned text at its blanks into lines of at most `limit` cells.

    A word that is longer than that is broken anywhere, or stays whole without `break_words`.
    """
    lines: list[str] = []
    start, limit, word = 0, max(2, limit), _past_blanks(text, 0)
    while (end := _end(text, start, limit)) < len(text):
        at = end if text[end] == " " else text.rfind(" ", start, end)
        if at <= word:
            at = end
            if not break_words:
                at = text.find(" ", max(word, end))
                at = at if at >= 0 else len(text)
        lines.append(text[start:at].rstrip(" "))
        start = word = _past_blanks(text, at)
    return [*lines, text[start:]] if start < len(text) or not lines else lines


def _past_blanks(text: str, at: int) -> int:
    while text[at : at + 1] == " ":
        at += 1
    return at


def _end(text: str, start: int, limit: int) -> int:
    """Return where that part of `text` ends which fits from `start` on into `limit` cells."""
    if text[start : start + limit + 1].isascii():
        return min(len(text), start + max(0, limit))
    used = 0
    for at in range(start, len(text)):
        used += _cell(text[at])
        if used > limit:
            return at
    return len(text)


def _cell(char: str) -> int:
    if char == "\ufe0f":
        return 1
    if char < "\u0300":
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _all_visible(text: str, before: str) -> str:
    # What stands before decides about joiners; it is looked at as it came, not as it was shown.
    known = f"\u00e9{before}" if before else ""
    whole, at = known + text, len(known)
    shown: list[str] = []
    for found in _regex(_HIDDEN).finditer(whole, at):
        shown += (whole[at : found.start()], _visible(found))
        at = found.end()
    return "".join((*shown, whole[at:]))


def _is_odd_blank(char: str) -> bool:
    return char != " " and char.isspace()


def _blank_seen(char: str) -> str:
    if not _is_odd_blank(char):
        return char
    return chr(0x2400 + ord(char)) if char < " " else f"<U+{ord(char):04X}>"


def _escaped(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"
