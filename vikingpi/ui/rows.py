"""Tool calls as rows: what runs, the last lines of its output, and what came of it, folded to a few lines."""

from __future__ import annotations

from collections.abc import Sequence

from vikingpi import safetext
from vikingpi.commands.host import ShellResult
from vikingpi.decode import as_dict, as_list, as_str
from vikingpi.messages import ImagePart, TextPart, ToolCall, ToolResultMessage
from vikingpi.safetext import cells, cut_cells, head_of
from vikingpi.ui.lines import seconds
from vikingpi.values import NamedTuple

SLOW_MS = 1000
TAIL_CHARACTERS = 20_000
NAME_CELLS = 100
HEAD_CELLS = 500
HEAD_ROWS = 5
_EDITED = {"write", "edit"}
_USERS = {"!", "!!"}
_SHOWN_LONGER = {"tool", "shell"}


class Row(NamedTuple):
    """One line of a row; `style` is a name of the theme."""

    text: str
    style: str


class Limits(NamedTuple):
    """How many lines are shown; `key` says how to see the others, where that is possible."""

    lines: int
    diff: int
    command: int
    full: bool = False
    key: str = ""

    def first(self, rows: list[Row], most: int) -> list[Row]:
        missing = len(rows) - most
        return [*rows[:most], Row(left_out(missing, "more", self.key), "dim")] if missing > 0 else rows

    def last(self, lines: Sequence[str], style: str) -> list[Row]:
        return fold(lines, self.lines, style, self.key)

    def longer(self) -> Limits:
        """Return the limits for what the user asked to see."""
        return self._replace(lines=4 * self.lines)


FOLDED = Limits(5, 16, 4)
FULL = Limits(100_000, 100_000, 100_000, full=True)


def heads(call: ToolCall, limits: Limits = FOLDED) -> list[Row]:
    """Say what a call does: `$ command`, `read path`, or its name and arguments."""
    arguments = call.arguments
    name = safetext.one_line(call.name, NAME_CELLS)
    if call.broken:
        return [Row(f"{name} {safetext.one_line(call.broken, HEAD_CELLS)}", "tool")]
    if call.name in _USERS:
        return [Row(f"{name} {line}", "shell") for line in _split(safetext.literal(as_str(arguments.get("command"))))]
    if call.name == "bash":
        return _command(safetext.literal(as_str(arguments.get("command"))), limits)
    path = safetext.literal(as_str(arguments.get("path"))).replace("\n", "\u240a")
    if call.name == "read":
        return [Row(f"read {path}{_lines_read(call)}", "tool")]
    if call.name in _EDITED:
        return [Row(f"{name} {path}", "tool")]
    shown = " ".join(f"{key}={value}" for key, value in arguments.items())
    return [Row(f"{name} {safetext.one_line(shown, HEAD_CELLS)}".rstrip(), "tool")]


def results(call: ToolCall, result: ToolResultMessage, limits: Limits = FOLDED) -> list[Row]:
    """Show a finished call: head, a few lines of what came of it, and the time where it took some."""
    rows = heads(call, limits)
    text = safetext.plain("".join(part.text for part in result.content if isinstance(part, TextPart)))
    images = sum(isinstance(part, ImagePart) for part in result.content)
    if result.is_error:
        rows += limits.last(_split(text), "error")
    elif call.name == "edit":
        rows += _diff(as_str(as_dict(result.details).get("diff")) or _edits(call), limits)
    elif call.name == "write":
        written = _split(safetext.plain(as_str(call.arguments.get("content"))))
        rows += limits.first([Row(line, "dim") for line in written], limits.lines)
    elif call.name == "read":
        rows[0] = rows[0]._replace(text=f"{rows[0].text}{_read_size(text)}")
        rows += [Row(line, "dim") for line in _split(text)] if limits.full else []
    else:
        rows += limits.last(_split(text), "dim")
    if images:
        rows.append(Row(f"({images} image{'s' if images > 1 else ''})", "dim"))
    if result.duration_ms is not None and result.duration_ms >= SLOW_MS:
        rows.append(Row(f"took {seconds(result.duration_ms)}", "dim"))
    return rows


def command_rows(run: ShellResult, limits: Limits = FOLDED) -> list[Row]:
    """Show what the user ran with `!` and what came of it."""
    rows = heads(ToolCall("", "!!" if run.excluded else "!", {"command": run.command}))
    rows += limits.last(_split(safetext.plain(run.output)), "dim")
    if run.problem:
        rows.append(Row(safetext.one_line(run.problem, HEAD_CELLS), "error"))
    elif run.cancelled:
        rows.append(Row("(cancelled)", "dim"))
    elif run.exit_code:
        rows.append(Row(f"(exit {run.exit_code})", "error"))
    if run.full_output_path:
        rows.append(Row(f"(cut; all of it is in {safetext.one_line(run.full_output_path, HEAD_CELLS)})", "dim"))
    if run.left:
        rows.append(Row(f"({safetext.one_line(run.left, HEAD_CELLS)})", "dim"))
    return rows


def running(call: ToolCall, tail: str, elapsed_ms: float, limits: Limits = FOLDED) -> list[Row]:
    """Show a call that runs."""
    rows = heads(call) + limits.last(_split(safetext.plain(tail[-TAIL_CHARACTERS:])), "dim")
    if elapsed_ms >= SLOW_MS:
        rows.append(Row(f"elapsed {seconds(elapsed_ms // 1000 * 1000)}", "dim"))
    return rows


def fold(lines: Sequence[str], keep: int, style: str, key: str = "") -> list[Row]:
    """Keep the last lines and say how many are missing."""
    rows = [Row(line, style) for line in lines[-keep:]]
    missing = len(lines) - keep
    return [Row(left_out(missing, "earlier", key), "dim"), *rows] if missing > 0 else rows


def fitted(row: Row, columns: int) -> list[Row]:
    """Cut a row to one line of the terminal, and what will be run or opened only after several."""
    text = row.text[: 4 * columns * HEAD_ROWS].expandtabs(4)
    if row.style not in _SHOWN_LONGER:
        return [row._replace(text=cut_cells(text[: 4 * columns], columns))]
    parts: list[Row] = []
    while len(parts) < HEAD_ROWS - 1 and cells(text) > columns > 2:
        part = head_of(text, columns)
        parts.append(row._replace(text=part))
        text = f"  {text[len(part) :]}"
    return [*parts, row._replace(text=cut_cells(text, columns))]


def left_out(count: int, word: str, key: str = "") -> str:
    """Say how many lines are not shown."""
    return f"... ({count} {word} line{'' if count == 1 else 's'}{f', {key}' if key else ''})"


def _split(text: str) -> list[str]:
    return text.rstrip("\n").split("\n") if text.strip("\n") else []


def _command(command: str, limits: Limits) -> list[Row]:
    lines = _split(command) or [""]
    rows = [Row(f"$ {lines[0]}", "tool"), *(Row(f"  {line}", "tool") for line in lines[1 : limits.command])]
    missing = len(lines) - limits.command
    return [*rows, Row(f"  {left_out(missing, 'more', limits.key)}", "dim")] if missing > 0 else rows


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


def _diff(diff: str, limits: Limits) -> list[Row]:
    styles = {"+": "added", "-": "removed"}
    lines = _split(safetext.plain(diff))
    return limits.first([Row(line, styles.get(line[:1], "dim")) for line in lines], limits.diff)
