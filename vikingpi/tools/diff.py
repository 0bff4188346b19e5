"""Line differences, for display and as a unified patch. Lines keep their final newline, where they have one."""

from __future__ import annotations

from collections.abc import Sequence

from vikingpi.values import NamedTuple

_CONTEXT = 4
_MOST_CELLS = 250_000
_ENDS = "\r\n"


class Change(NamedTuple):
    """Lines `old_from..old_to` (counted from 0, end excluded) became the new text's lines `new_from..new_to`."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


def compare(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """Return what differs, in order; very large differing parts become a single change."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    rows, columns = len(old) - start - end, len(new) - start - end
    if not rows and not columns:
        return []
    if not rows or not columns or rows * columns > _MOST_CELLS:
        return [Change(start, start + rows, start, start + columns)]
    return _compare_middle(old[start : start + rows], new[start : start + columns], start)


def _compare_middle(old: Sequence[str], new: Sequence[str], shift: int) -> list[Change]:
    lengths = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        row, below = lengths[i], lengths[i + 1]
        for j in range(len(new) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if old[i] == new[j] else max(below[j], row[j + 1])
    changes: list[Change] = []
    i = j = from_i = from_j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            if from_i < i or from_j < j:
                changes.append(Change(from_i + shift, i + shift, from_j + shift, j + shift))
            i, j = i + 1, j + 1
            from_i, from_j = i, j
        elif j == len(new) or (i < len(old) and lengths[i + 1][j] >= lengths[i][j + 1]):
            i += 1
        else:
            j += 1
    if from_i < i or from_j < j:
        changes.append(Change(from_i + shift, i + shift, from_j + shift, j + shift))
    return changes


def lines_of(text: str) -> list[str]:
    """Split after each newline; only the last line may lack one."""
    pieces = text.split("\n")
    lines = [f"{piece}\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] else lines


def numbered(old: Sequence[str], new: Sequence[str], changes: Sequence[Change]) -> str:
    """Show the changes as `-12 text`, `+12 text` and ` 11 text`, with `...` where lines are left out."""
    width = len(str(max(len(old), len(new))))
    shown: list[str] = []

    def add(sign: str, lines: Sequence[str], low: int, high: int) -> None:
        shown.extend(f"{sign}{n + 1:>{width}} {lines[n].rstrip(_ENDS)}" for n in range(low, high))

    end = 0
    for group in _groups(changes):
        low = max(0, group[0].old_from - _CONTEXT)
        if low > end:
            shown.append(f" {'':{width}} ...")
        for change in group:
            add(" ", old, low, change.old_from)
            add("-", old, change.old_from, change.old_to)
            add("+", new, change.new_from, change.new_to)
            low = change.old_to
        end = min(len(old), low + _CONTEXT)
        add(" ", old, low, end)
    if end < len(old):
        shown.append(f" {'':{width}} ...")
    return "\n".join(shown)


def patch(name: str, old: Sequence[str], new: Sequence[str], changes: Sequence[Change]) -> str:
    """Write the changes as a unified diff."""
    written = [f"--- {name}\n+++ {name}\n"]
    for group in _groups(changes):
        first, last = group[0], group[-1]
        low, high = max(0, first.old_from - _CONTEXT), min(len(old), last.old_to + _CONTEXT)
        new_low = first.new_from - (first.old_from - low)
        new_high = last.new_to + (high - last.old_to)
        written.append(f"@@ -{_range(low, high)} +{_range(new_low, new_high)} @@\n")
        for change in group:
            written += [_signed(" ", line) for line in old[low : change.old_from]]
            written += [_signed("-", line) for line in old[change.old_from : change.old_to]]
            written += [_signed("+", line) for line in new[change.new_from : change.new_to]]
            low = change.old_to
        written += [_signed(" ", line) for line in old[low:high]]
    return "".join(written)


def _signed(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _range(low: int, high: int) -> str:
    count = high - low
    start = low + 1 if count else low
    return f"{start}" if count == 1 else f"{start},{count}"


def _groups(changes: Sequence[Change]) -> list[list[Change]]:
    groups: list[list[Change]] = []
    for change in changes:
        if groups and change.old_from - groups[-1][-1].old_to <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups
