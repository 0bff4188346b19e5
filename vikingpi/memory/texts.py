"""How results of memory read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vikingpi.errors import ToolError
from vikingpi.memory.history import Said
from vikingpi.tools import truncate
from vikingpi.tools.base import figure
from vikingpi.viking.base import Hit, Node
from vikingpi.viking.uri import session_of

_SHOWN = 1000


def hit_lines(hits: Iterable[Hit]) -> Iterator[str]:
    """Write what a store found, each with its address."""
    for hit in hits:
        date = f", {moment(hit.date)}" if hit.date else ""
        yield f"- {hit.uri or '(digest)'} ({hit.category}, {hit.score:.2f}{date})"
        yield from _indented(hit.text)


def said_lines(found: Iterable[Said]) -> Iterator[str]:
    """Write what was said in this session, each with its user turn."""
    for said in found:
        yield f"- user turn {said.number} of this session ({said.score:.2f})"
        yield from _indented(said.text)


def node_line(node: Node) -> str:
    """Write one entry of a folder."""
    size = f" ({node.size} characters)" if node.size and not node.folder else ""
    return f"{node.uri}{'/' if node.folder and not node.uri.endswith('/') else ''}{size} {node.abstract}".rstrip()


def moment(date: str) -> str:
    """Write an ISO date to the second: two values of one day can be told apart."""
    return date[:19].replace("T", " ")


def deleted_line(uri: str, count: int, kind: str) -> str:
    """Say what was deleted; of a session also what going on with it will do in a store of that kind."""
    said = f"Deleted {uri}" + (f" ({count} entries)" if count > 1 else "")
    if not session_of(uri):
        return said
    if kind == "embedded":
        return f"{said}. What was said in it so far is not found again; going on with the session stores what is new."
    return f"{said}. Going on with the session would store its conversation again."


def paged(text: str, offset: int, limit: int | None) -> str:
    """Give lines from `offset` on, within the limits of a tool result, with a note that says how to go on."""
    lines = text.split("\n")
    if offset > len(lines):
        raise ToolError(f"Offset {figure(offset)} is beyond the end ({len(lines)} lines)")
    rest = "\n".join(lines[offset - 1 :])
    cut = truncate.head(rest, min(limit or truncate.MAX_LINES, truncate.MAX_LINES))
    if cut.first_line_too_long:
        shown = truncate.cut_end(rest, truncate.MAX_BYTES)
        return f"{shown}\n\n[Line {offset} is over the limit of {truncate.size_text(truncate.MAX_BYTES)} and was cut.]"
    last = offset + cut.output_lines - 1
    if last >= len(lines):
        return cut.text
    return f"{cut.text}\n\n[Showing lines {offset}-{last} of {len(lines)}. Use offset={last + 1} to continue.]"


def _indented(text: str) -> Iterator[str]:
    shown = text.strip()
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN].rstrip()} …"
    for line in shown.splitlines():
        yield f"  {line}"
