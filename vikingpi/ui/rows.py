"""Tool calls as rows: what runs, the last lines of its output, and what came of it, folded to a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vikingpi import safetext
from vikingpi.decode import as_dict, as_list, as_str
from vikingpi.messages import ImagePart, TextPart, ToolCall, ToolResultMessage
from vikingpi.safetext import cut_cells
from vikingpi.ui.lines import seconds

FOLDED = 5
FOLDED_DIFF = 16
COMMAND_LINES = 4
SLOW_MS = 1000
NAME_CELLS = 100
HEAD_CELLS = 500
_EDITED = {"write", "edit"}


class Row(NamedTuple):
    """One line of a row; `style` is a name of the theme."""

    text: str
    style: str


def heads(call: ToolCall) -> list[Row]:
    """Say what a call does: `$ command`, `read path`, or its name and arguments."""
    arguments = call.arguments
    name = safetext.one_line(call.name, NAME_CELLS)
    if call.broken:
        return [Row(f"{name} {safetext.one_line(call.broken, HEAD_CELLS)}", "tool")]
    if call.name == "bash":
        return _command(safetext.literal(as_str(arguments.get("command"))))
    path = safetext.literal(as_str(arguments.get("path"))).replace("\n", "\u240a")
    if call.name == "read":
        return [Row(f"read {path}{_lines_read(call)}", "tool")]
    if call.name in _EDITED:
        return [Row(f"{name} {path}", "tool")]
    shown = " ".join(f"{key}={value}" for key, value in arguments.items())
    return [Row(f"{name} {safetext.one_line(shown, HEAD_CELLS)}".rstrip(), "tool")]


def results(call: ToolCall, result: ToolResultMessage) -> list[Row]:
    """Show a finished call: head, a few lines of what came of it, and the time where it took some."""
    rows = heads(call)
    text = safetext.plain("".join(part.text for part in result.content if isinstance(part, TextPart)))
    images = sum(isinstance(part, ImagePart) for part in result.content)
    if result.is_error:
        rows += fold(_split(text), FOLDED, "error")
    elif call.name == "edit":
        rows += _diff(as_str(as_dict(result.details).get("diff")) or _edits(call))
    elif call.name == "write":
        rows += _first(_split(safetext.plain(as_str(call.arguments.get("content")))), FOLDED)
    elif call.name == "read":
        rows[0] = rows[0]._replace(text=f"{rows[0].text}{_read_size(text)}")
    else:
        rows += fold(_split(text), FOLDED, "dim")
    if images:
        rows.append(Row(f"({images} image{'s' if images > 1 else ''})", "dim"))
    if result.duration_ms is not None and result.duration_ms >= SLOW_MS:
        rows.append(Row(f"took {seconds(result.duration_ms)}", "dim"))
    return rows


def running(call: ToolCall, tail: str, elapsed_ms: float) -> list[Row]:
    """Show a call that runs."""
    rows = heads(call) + fold(_split(safetext.plain(tail[-20_000:])), FOLDED, "dim")
    if elapsed_ms >= SLOW_MS:
        rows.append(Row(f"elapsed {seconds(elapsed_ms // 1000 * 1000)}", "dim"))
    return rows


def fold(lines: Sequence[str], keep: int, style: str) -> list[Row]:
    """Keep the last lines and say how many are missing."""
    rows = [Row(line, style) for line in lines[-keep:]]
    missing = len(lines) - keep
    return [Row(_missing(missing, "earlier"), "dim"), *rows] if missing > 0 else rows


def clipped(row: Row, columns: int) -> Row:
    """Cut a row to one line of the terminal."""
    return row._replace(text=cut_cells(row.text[: 4 * columns].expandtabs(4), columns))


def _first(lines: Sequence[str], keep: int) -> list[Row]:
    rows = [Row(line, "dim") for line in lines[:keep]]
    missing = len(lines) - keep
    return [*rows, Row(_missing(missing, "more"), "dim")] if missing > 0 else rows


def _missing(count: int, word: str) -> str:
    return f"... ({count} {word} line{'' if count == 1 else 's'})"


def _split(text: str) -> list[str]:
    return text.rstrip("\n").split("\n") if text.strip("\n") else []


def _command(command: str) -> list[Row]:
    lines = _split(command) or [""]
    rows = [Row(f"$ {lines[0]}", "tool"), *(Row(f"  {line}", "tool") for line in lines[1:COMMAND_LINES])]
    missing = len(lines) - COMMAND_LINES
    return [*rows, Row(f"  {_missing(missing, 'more')}", "dim")] if missing > 0 else rows


def _lines_read(call: ToolCall) -> str:
    offset, limit = call.arguments.get("offset"), call.arguments.get("limit")
    if not isinstance(offset, int) and not isinstance(limit, int):
        return ""
    first = offset if isinstance(offset, int) else 1
    return f":{first}-{first + limit - 1}" if isinstance(limit, int) else f":{first}-"


def _read_size(text: str) -> str:
    count = len(_split(text))
    return f" ({count} line{'' if count == 1 else 's'})" if count else ""


def _edits(call: ToolCall) -> str:
    """Write the edits themselves as a diff, for a result that brings none."""
    lines: list[str] = []
    for edit in map(as_dict, as_list(call.arguments.get("edits"))):
        lines += [f"-{line}" for line in as_str(edit.get("oldText")).split("\n")]
        lines += [f"+{line}" for line in as_str(edit.get("newText")).split("\n")]
    return "\n".join(lines)


def _diff(diff: str) -> list[Row]:
    styles = {"+": "added", "-": "removed"}
    lines = _split(safetext.plain(diff))
    rows = [Row(line, styles.get(line[:1], "dim")) for line in lines[:FOLDED_DIFF]]
    missing = len(lines) - FOLDED_DIFF
    return [*rows, Row(_missing(missing, "more"), "dim")] if missing > 0 else rows
