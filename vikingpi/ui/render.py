"""Markdown and code as lines of text with colour codes.

Whatever the input says, also as an entity or percent-encoded, the codes of styles are the only control sequences.
"""

from __future__ import annotations

import io
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from vikingpi.safetext import literal
from vikingpi.ui.blocks import Block
from vikingpi.ui.theme import Depth, Theme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.color import ColorSystem
    from rich.console import Console, JustifyMethod, RenderableType
    from rich.markdown import Markdown
    from rich.segment import Segment
    from rich.style import Style

_RICH_DEPTH: dict[Depth, Literal["standard", "256", "truecolor"]] = {
    "none": "standard",
    "16": "standard",
    "256": "256",
    "true": "truecolor",
}
_SYSTEMS = {"none": "STANDARD", "16": "STANDARD", "256": "EIGHT_BIT", "true": "TRUECOLOR"}
MOST_COLUMNS = 2000
LEAST_CELL = 6
_ENDS = "\n*/-->"  # of a comment that is still open: without an end some languages do not see it


def preload() -> None:
    """Import what rendering needs, ahead of its first use."""
    _markdown("default")


class Painter:
    """Renders blocks for one terminal."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme

    def block(self, block: Block, columns: int) -> list[str]:
        """Return the lines of a block; a code block has its fences, so that it is one without colour too."""
        if block.kind == "text":
            return self.markdown(block.text, columns)
        lines: list[str] = []
        if block.begins:
            lines.append(self.theme.paint("```" + block.info, "fence"))
        if block.text or not block.ends:
            lines += self.code(block.text, block.info, columns, block.before)
        if block.ends:
            lines.append(self.theme.paint("```", "fence"))
        return lines

    def markdown(self, text: str, columns: int) -> list[str]:
        """Render Markdown at a width."""
        console = _console(self.theme.depth, columns)
        return _trim(_lines(console, self.theme.depth, _markdown(self.theme.code)(text)))

    def code(self, text: str, info: str, columns: int, before: str = "") -> list[str]:
        """Highlight code that has other code before it; blank lines are kept, long lines are wrapped."""
        from rich.syntax import Syntax

        language = info.split(maxsplit=1)[0].strip("{}.") if info.strip("{}. ") else "text"
        console, depth = _console(self.theme.depth, columns), self.theme.depth
        whole = f"{before}\n{text}{_ENDS}" if before else f"{text}{_ENDS}"
        highlighted = Syntax(whole, language, theme=self.theme.code, background_color="default").highlight(whole)
        first = before.count("\n") + 1 if before else 0
        lines: list[str] = []
        for line in highlighted.split("\n", allow_blank=True)[first : first + text.count("\n") + 1]:
            line.expand_tabs(4)
            if line.cell_len <= columns:
                lines.append(_line(depth, line.render(console)))
            else:
                lines += _lines(console, depth, line)
        return lines


@cache
def _console(depth: Depth, columns: int) -> Console:
    from rich.console import Console
    from rich.theme import Theme as Styles

    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system=_RICH_DEPTH[depth],
        no_color=depth == "none",
        width=max(1, min(columns, MOST_COLUMNS)),
        legacy_windows=False,
        theme=Styles({"markdown.code": "cyan", "markdown.code_block": "none"}),
        _environ={},
    )


def _lines(console: Console, depth: Depth, renderable: RenderableType) -> list[str]:
    """Render line by line; rich's own `render_lines` copies the rest of a paragraph for each of its lines."""
    from rich.segment import Segment

    lines: list[list[Segment]] = [[]]
    for segment in console.render(renderable):
        first, *others = segment.text.split("\n") if not segment.control else ("",)
        lines[-1].append(Segment(first, segment.style))
        lines += [[Segment(text, segment.style)] for text in others]
    if not any(segment.text for segment in lines[-1]):
        lines.pop()
    return [_line(depth, Segment.adjust_line_length(line, console.width, pad=False)) for line in lines]


def _line(depth: Depth, segments: Iterable[Segment]) -> str:
    """Write one line without trailing blanks: they would become rows of their own in a narrower window."""
    pieces = [(segment.text, segment.style) for segment in segments if not segment.control]
    while pieces and not pieces[-1][0].strip(" "):
        pieces.pop()
    if not pieces:
        return ""
    text, style = pieces[-1]
    pieces[-1] = (text.rstrip(" "), style)
    befores = ["", *(text[-1:] for text, _ in pieces)]
    return "".join(
        _painted(depth, literal(text, before), style) for (text, style), before in zip(pieces, befores, strict=False)
    )


def _painted(depth: Depth, text: str, style: Style | None) -> str:
    if style is None:
        return text
    return (style.without_color if depth == "none" else style).render(text, color_system=_system(depth))


@cache
def _system(depth: Depth) -> ColorSystem:
    from rich.color import ColorSystem

    return ColorSystem[_SYSTEMS[depth]]


def _trim(lines: list[str]) -> list[str]:
    first, last = 0, len(lines)
    while first < last and not lines[first]:
        first += 1
    while last > first and not lines[last - 1]:
        last -= 1
    return lines[first:last]


@cache
def _markdown(code_theme: str) -> Callable[[str], Markdown]:
    """Return what reads Markdown. Parsers take as long to be made as a paragraph to be read: there is one."""
    from markdown_it import MarkdownIt

    class AsWritten(MarkdownIt):
        def normalizeLinkText(self, link: str) -> str:
            return link

    parser = AsWritten().enable("strikethrough").enable("table").disable(["html_block", "html_inline"])
    bare = _answer_class()("", code_theme=code_theme, hyperlinks=False)

    def read(markup: str) -> Markdown:
        answer = copy(bare)
        answer.markup, answer.parsed = markup, parser.parse(markup)
        for token in answer.parsed:
            for child in token.children or ():
                child.content = literal(child.content)  # entities are decoded by now; lines are broken next
                if child.type == "softbreak":
                    child.type = "hardbreak"
        return answer

    return read


@cache
def _answer_class() -> type[Markdown]:
    from rich import markdown
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    class LeftHeading(markdown.Heading):
        LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = dict.fromkeys(markdown.Heading.LEVEL_ALIGN, "left")

    class PlainCode(markdown.CodeBlock):
        def __rich_console__(self, console: Any, options: Any) -> Any:
            code = str(self.text).rstrip("\n")
            yield Syntax(code, self.lexer_name, theme=self.theme, background_color="default", word_wrap=True)

    class WholeTable(markdown.TableElement):
        """Breaks long words in its cells; where there is hardly room for a cell, each row is a list."""

        def __rich_console__(self, console: Any, options: Any) -> Any:
            heads = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
            rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
            if options.max_width < LEAST_CELL * len(heads):
                for row in rows or [[Text() for _ in heads]]:
                    yield Text()
                    yield from (Text.assemble(head, ": ", cell) for head, cell in zip(heads, row, strict=False))
                return
            for table in super().__rich_console__(console, options):
                if isinstance(table, Table):
                    for column in table.columns:
                        column.overflow = "fold"
                yield table

    class Answer(markdown.Markdown):
        """Shows HTML as text, links with their address, and line breaks where the model made them."""

        elements: ClassVar[dict[str, type[markdown.MarkdownElement]]] = {
            **markdown.Markdown.elements,
            "heading_open": LeftHeading,
            "table_open": WholeTable,
            "fence": PlainCode,
            "code_block": PlainCode,
        }

    return Answer
