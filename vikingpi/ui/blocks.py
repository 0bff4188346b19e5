"""Cut streamed Markdown into blocks that can be printed for good while the rest still arrives."""

from __future__ import annotations

import re
from typing import Literal

from vikingpi.values import NamedTuple

LONGEST_FENCE = 60
CONTEXT = 20

_BULLET = re.compile(r"( {0,3})(?:[-*+]|(\d{1,9})[.)])(?:\s|$)")
_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")


class Block(NamedTuple):
    """A piece of an answer. A long one comes in pieces: the first `begins` it, the last `ends` it; `before` is the
    end of the code before a piece, which decides how the piece is coloured."""

    kind: Literal["text", "code"]
    text: str
    info: str = ""
    begins: bool = True
    ends: bool = True
    before: str = ""


class _Fence(NamedTuple):
    mark: str
    indent: int
    info: str

    def closed_by(self, line: str) -> bool:
        stripped = line.strip()
        return len(stripped) >= len(self.mark) and set(stripped) == {self.mark[0]}

    def inside(self, line: str) -> str:
        """Return a line without the indent of the fence."""
        return line[min(self.indent, len(line) - len(line.lstrip(" "))) :]


class _Partial:
    """A line that arrives in pieces, joined only when it is wanted."""

    def __init__(self) -> None:
        self.blank = True
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.blank = self.blank and not piece.strip()

    def text(self) -> str:
        return "".join(self._pieces)

    def take(self) -> str:
        text, self._pieces, self.blank = self.text(), [], True
        return text


class _List:
    """Where in its lines a list's last item begins; 0 where the list cannot be cut there."""

    def __init__(self, bullet: re.Match[str]) -> None:
        self.last = 0
        self._indent = len(bullet[1])
        self._number = _number(bullet)
        self._counts = True

    def item(self, bullet: re.Match[str], at: int) -> None:
        """Take note of a further item. Markdown counts on from the first number: what does not is one piece."""
        if len(bullet[1]) > self._indent:
            return
        number, before = _number(bullet), self._number
        self._counts = self._counts and number == (None if before is None else before + 1)
        self._indent, self._number = len(bullet[1]), number
        self.last = at if self._counts else 0


class Splitter:
    """Feed it pieces of text; it returns the blocks that are complete."""

    def __init__(self) -> None:
        self._partial = _Partial()
        self._lines: list[str] = []
        self._fence: _Fence | None = None
        self._inner: _Fence | None = None
        self._list: _List | None = None
        self._begun = False
        self._before: list[str] = []
        self._done: list[Block] = []

    def feed(self, text: str) -> tuple[Block, ...]:
        """Take a piece and return what became complete."""
        first, *others = text.split("\n")
        self._partial.add(first)
        for other in others:
            self._line(self._partial.take())
            self._partial.add(other)
        return self._take()

    def give(self, least: int = 1) -> tuple[Block, ...]:
        """Return what of the open block cannot change any more: lines of code, `least` of them, or items of a list."""
        if self._fence is not None and len(self._lines) >= least:
            self._code(self._fence, ends=False)
        elif self._list is not None and self._list.last:
            items, self._lines = self._lines[: self._list.last], self._lines[self._list.last :]
            self._done.append(Block("text", "\n".join(items).strip("\n"), begins=not self._begun, ends=False))
            self._begun, self._list.last = True, 0
        return self._take()

    def cut(self, at: int) -> None:
        """Forget the first characters of the open text: they are printed."""
        lines = "\n".join([*self._lines, self._partial.take()])[at:].lstrip(" \n").split("\n")
        self._partial.add(lines.pop())
        self._lines, self._begun = lines, True

    def close(self) -> tuple[Block, ...]:
        """Return what is left; the splitter is as new afterwards."""
        if partial := self._partial.take():
            self._line(partial)
        if self._fence is not None:
            self._code(self._fence, ends=True)
        else:
            self._text()
        return self._take()

    @property
    def idle(self) -> bool:
        """Whether nothing but blanks is still arriving."""
        return self._fence is None and not self._lines and self._partial.blank

    @property
    def open(self) -> Block | None:
        """The block that is still arriving."""
        partial = self._partial.text()
        lines = [*self._lines, partial] if partial else self._lines
        if self._fence is not None:
            return Block("code", "\n".join(map(self._fence.inside, lines)), self._fence.info, not self._begun, False)
        text = "\n".join(lines)
        return Block("text", text, begins=not self._begun) if text.strip() else None

    def _take(self) -> tuple[Block, ...]:
        done, self._done = self._done, []
        return tuple(done)

    def _line(self, line: str) -> None:
        if self._fence is not None:
            if self._fence.closed_by(line):
                self._code(self._fence, ends=True)
                return
            self._lines.append(line)
            if len(self._lines) > LONGEST_FENCE:
                self._code(self._fence, ends=False)
        elif self._inner is not None:
            self._lines.append(line)
            if self._inner.closed_by(line):
                self._inner = None
        elif line.strip():
            self._text_line(line)
        elif self._list is not None:
            self._lines.append("")
        else:
            self._text()

    def _text_line(self, line: str) -> None:
        bullet = _BULLET.match(line)
        indented = line[0] in " \t"
        if self._list is not None and self._lines and not self._lines[-1] and not (bullet or indented):
            self._text()
        fence = _fence_of(line)
        if fence is not None and not (self._list is not None and indented):
            self._text()
            self._fence = fence
            return
        self._inner = fence
        if bullet is not None and self._list is not None:
            self._list.item(bullet, len(self._lines))
        elif bullet is not None:
            self._list = _List(bullet)
        self._lines.append(line)

    def _code(self, fence: _Fence, *, ends: bool) -> None:
        if ends and self._begun and self._lines == [""]:
            self._code(fence, ends=False)
        lines = [*map(fence.inside, self._lines)]
        before = "\n".join(self._before)
        self._done.append(Block("code", "\n".join(lines), fence.info, not self._begun, ends, before))
        self._begun, self._lines = not ends, []
        self._before = [] if ends else _context([*self._before, *lines])
        self._fence = None if ends else fence

    def _text(self) -> None:
        text = "\n".join(self._lines).strip("\n")
        if text.strip():
            self._done.append(Block("text", text, begins=not self._begun))
        self._lines = []
        self._begun = False
        self._list = None
        self._inner = None


def blocks_of(text: str) -> tuple[Block, ...]:
    """Cut a whole text."""
    splitter = Splitter()
    return (*splitter.feed(text), *splitter.close())


def _context(lines: list[str]) -> list[str]:
    """Keep the end of the code, from a line on that is hardly within anything: it has no indent."""
    if len(lines) <= 2 * CONTEXT:
        return lines
    lines = lines[-CONTEXT:]
    return lines[next((at for at, line in enumerate(lines) if line[:1].strip(" \t)]}")), 0) :]


def _fence_of(line: str) -> _Fence | None:
    match = _FENCE.match(line)
    if match is None or (match[2][0] == "`" and "`" in match[3]):
        return None
    return _Fence(match[2], len(match[1]), match[3].strip())


def _number(bullet: re.Match[str]) -> int | None:
    return int(bullet[2]) if bullet[2] else None
