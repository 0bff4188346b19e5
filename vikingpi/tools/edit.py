"""Replace pieces of a file by exact text, all of them or none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from vikingpi.decode import Json, as_dict, as_list, as_str
from vikingpi.errors import ToolError
from vikingpi.messages import ToolSpec
from vikingpi.tools import atomic, diff, truncate
from vikingpi.tools.base import ToolContext, ToolOutcome, text_outcome
from vikingpi.tools.matching import Source, Span
from vikingpi.tools.paths import explain, lock_key_of, open_regular, resolve, scrub, writable
from vikingpi.values import NamedTuple

_BOM = "\ufeff"
# What is compared and shown takes about twenty times as much memory.
_LARGEST = 16_777_216

_SPEC = ToolSpec(
    "edit",
    "Change a file by replacing pieces of text. Each oldText must stand in the file exactly once, whitespace included; "
    "all of them are looked up in the file as it is before the call, must not overlap, and either all are replaced or "
    "none. Put several changes of one file in one call. Line endings and a byte order mark are kept.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File to edit, absolute or relative to the working directory"},
            "edits": {
                "type": "array",
                "minItems": 1,
                "description": "The replacements",
                "items": {
                    "type": "object",
                    "properties": {
                        "oldText": {"type": "string", "description": "Text to replace; unique in the file"},
                        "newText": {"type": "string", "description": "Text to put there"},
                    },
                    "required": ["oldText", "newText"],
                },
            },
        },
        "required": ["path", "edits"],
    },
)


class _Edit(NamedTuple):
    """`label` names the edit in errors: its index where there are several."""

    old: str
    new: str
    label: str


class _Replacement(NamedTuple):
    """Positions in the raw text."""

    start: int
    end: int
    text: str
    label: str


class EditTool:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    def lock_key(self, arguments: Json, context: ToolContext) -> str | None:
        return lock_key_of(arguments.get("path"), context)

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Edit; raise ToolError when nothing was changed, with the reason."""
        name = scrub(as_str(arguments.get("path")))
        items = [as_dict(item) for item in as_list(arguments.get("edits"))]
        edits = [
            _Edit(
                as_str(item.get("oldText")),
                scrub(as_str(item.get("newText"))),
                f"edits[{index}]" if len(items) > 1 else "",
            )
            for index, item in enumerate(items)
        ]
        if not edits:
            raise ToolError("edits must hold at least one replacement")
        return await asyncio.to_thread(_edit, name, writable(name, resolve(name, context), context), edits)


def _edit(name: str, path: Path, edits: Sequence[_Edit]) -> ToolOutcome:
    try:
        handle, _ = open_regular(path)
        with os.fdopen(handle, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ToolError(f"Could not edit file: {name}. Error code: {explain(error, path)}") from error
    if len(data) > _LARGEST:
        size = truncate.size_text(_LARGEST)
        raise ToolError(f"{name} is too large to edit, at most {size} are. Change it with bash, for example with sed.")
    text = data.decode("utf-8", "surrogateescape")
    bom = _BOM if text.startswith(_BOM) else ""
    old = text.removeprefix(_BOM)
    replacements = _plan(name, old, edits)
    new = _apply(old, replacements)
    if new == old:
        raise ToolError(f"No changes made to {name}: the replacement gives the same content.")
    try:
        atomic.replace(path, (bom + new).encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise ToolError(f"Could not edit file: {name}. Error code: {explain(error, path)}") from error
    return text_outcome(
        f"Successfully replaced {len(edits)} block(s) in {name}.", details=_details(name, old, new, replacements)
    )


def _plan(name: str, text: str, edits: Sequence[_Edit]) -> list[_Replacement]:
    source = Source(text)
    replacements: list[_Replacement] = []
    for edit in edits:
        span = _find(name, source, edit)
        start, end = source.to_raw(span.start), source.to_raw(span.end)
        replacements.append(_Replacement(start, end, source.rewrite(span, edit.old, edit.new), edit.label))
    replacements.sort()
    for first, second in pairwise(replacements):
        if second.start < first.end:
            raise ToolError(
                f"{first.label} and {second.label} overlap in {name}. "
                "Make them one edit, or choose pieces that do not touch the same text."
            )
    return replacements


def _find(name: str, source: Source, edit: _Edit) -> Span:
    which = f"{edit.label}.oldText" if edit.label else "oldText"
    if not edit.old:
        raise ToolError(f"{which} must not be empty in {name}.")
    found = source.find(edit.old)
    if len(found.spans) == 1:
        return found.spans[0]
    if found.spans:
        how = "" if found.exact else " that look like it"
        raise ToolError(
            f"Found {len(found.spans)} occurrences{how} of {which} in {name}. "
            "It must be unique: add lines around it until it is."
        )
    raise ToolError(
        f"Could not find {which} in {name}. It must match the file exactly, with all whitespace and newlines; "
        "read the file again before the next try."
    )


def _apply(text: str, replacements: Sequence[_Replacement]) -> str:
    pieces: list[str] = []
    at = 0
    for replacement in replacements:
        pieces += (text[at : replacement.start], replacement.text)
        at = replacement.end
    return "".join((*pieces, text[at:]))


def _details(name: str, old: str, new: str, replacements: Sequence[_Replacement]) -> Json:
    old_lines, new_lines = diff.lines_of(scrub(old)), diff.lines_of(scrub(new))
    changes = _changes(old, old_lines, new_lines, replacements)
    return {
        "diff": diff.numbered(old_lines, new_lines, changes),
        "patch": diff.patch(name, old_lines, new_lines, changes),
        "firstChangedLine": changes[0].new_from + 1 if changes else 1,
    }


def _changes(
    text: str, old: Sequence[str], new: Sequence[str], replacements: Sequence[_Replacement]
) -> list[diff.Change]:
    """Compare only the lines that the replacements touch: the rest of a large file is known to be equal."""
    regions: list[list[int]] = []
    line = at = shift = 0
    for replacement in replacements:
        line += text.count("\n", at, replacement.start)
        removed = text.count("\n", replacement.start, replacement.end)
        grown = replacement.text.count("\n") - removed
        last = line + removed + 1
        if regions and line < regions[-1][1]:
            regions[-1][1] = max(last, regions[-1][1])
            regions[-1][3] += grown
        else:
            regions.append([line, last, shift, grown])
        shift += grown
        line += removed
        at = replacement.end
    changes: list[diff.Change] = []
    for low, high, before, grown in regions:
        after = high + before + grown if high < len(old) else len(new)
        for change in diff.compare(old[low:high], new[low + before : after]):
            moved = diff.Change(*(n + low for n in change[:2]), *(n + low + before for n in change[2:]))
            if changes and (changes[-1].old_to, changes[-1].new_to) == (moved.old_from, moved.new_from):
                moved = diff.Change(changes[-1].old_from, moved.old_to, changes.pop().new_from, moved.new_to)
            changes.append(moved)
    return changes
