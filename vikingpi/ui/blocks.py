"""Cut streamed Markdown into blocks that can be printed for good while the rest still arrives."""

from __future__ import annotations

import re
from typing import Literal

from vikingpi.values import NamedTuple

LONGEST_FENCE = 60
KEPT_OF_FENCE = 20

_BULLET = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")


class Block(NamedTuple):
    """A piece of an answer. A long code block comes in pieces: the first `begins` it, the last `ends` it."""

    kind: Literal["text", "code"]
    text: str
    info: str = ""
    begins: bool = True
    ends: bool = True


class _Fence(NamedTuple):
    mark: str
    indent: int
    info: str

    def closed_by(self, line: str) -> bool:
        stripped = line.strip()
        return len(stripped) >= len(self.mark) and set(stripped) == {self.mark[0]}


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


class Splitter:
    """Feed it pieces of text; it returns the blocks that are complete."""

    def __init__(self) -> None:
        self._partial = _Partial()
        self._lines: list[str] = []
        self._fence: _Fence | None = None
        self._inner: _Fence | None = None
        self._list = False
        self._begun = False
        self._done: list[Block] = []

    def feed(self, text: str) -> tuple[Block, ...]:
        """Take a piece and return what became complete."""
        first, *others = text.split("\n")
        self._partial.add(first)
        for other in others:
            self._line(self._partial.take())
            self._partial.add(other)
        return self._take()

    def close(self) -> tuple[Block, ...]:
        """Return what is left; the splitter is as new afterwards."""
        if partial := self._partial.take():
            self._line(partial)
        if self._fence is not None:
            self._code(self._lines, ends=True)
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
            text = "\n".join(line[self._strip(line) :] for line in lines)
            return Block("code", text, self._fence.info, not self._begun, False)
        text = "\n".join(lines)
        return Block("text", text) if text.strip() else None

    def _take(self) -> tuple[Block, ...]:
        done, self._done = self._done, []
        return tuple(done)

    def _line(self, line: str) -> None:
        if self._fence is not None:
            self._code_line(line)
        elif self._inner is not None:
            self._lines.append(line)
            if self._inner.closed_by(line):
                self._inner = None
        elif line.strip():
            self._text_line(line)
        elif self._list:
            self._lines.append("")
        else:
            self._text()

    def _text_line(self, line: str) -> None:
        bullet = _BULLET.match(line) is not None
        indented = line[0] in " \t"
        if self._list and self._lines and not self._lines[-1] and not (bullet or indented):
            self._text()
        fence = _fence_of(line)
        if fence is not None and not (self._list and indented):
            self._text()
            self._fence = fence
            return
        self._inner = fence
        self._list = self._list or bullet
        self._lines.append(line)

    def _code_line(self, line: str) -> None:
        if self._fence is not None and self._fence.closed_by(line):
            self._code(self._lines, ends=True)
            return
        self._lines.append(line)
        if len(self._lines) > LONGEST_FENCE:
            kept = self._lines[-KEPT_OF_FENCE:]
            self._code(self._lines[:-KEPT_OF_FENCE], ends=False)
            self._lines = kept

    def _code(self, lines: list[str], *, ends: bool) -> None:
        info = self._fence.info if self._fence is not None else ""
        text = "\n".join(line[self._strip(line) :] for line in lines)
        self._done.append(Block("code", text, info, not self._begun, ends))
        self._begun = not ends
        if ends:
            self._fence = None
            self._lines = []

    def _strip(self, line: str) -> int:
        indent = self._fence.indent if self._fence is not None else 0
        return min(indent, len(line) - len(line.lstrip(" ")))

    def _text(self) -> None:
        text = "\n".join(self._lines).strip("\n")
        if text.strip():
            self._done.append(Block("text", text))
        self._lines = []
        self._list = False
        self._inner = None


def blocks_of(text: str) -> tuple[Block, ...]:
    """Cut a whole text."""
    splitter = Splitter()
    return (*splitter.feed(text), *splitter.close())


def _fence_of(line: str) -> _Fence | None:
    match = _FENCE.match(line)
    if match is None or (match[2][0] == "`" and "`" in match[3]):
        return None
    return _Fence(match[2], len(match[1]), match[3].strip())
