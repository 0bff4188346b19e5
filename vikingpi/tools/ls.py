"""List a folder."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from vikingpi.decode import Json, as_str
from vikingpi.errors import ToolError
from vikingpi.messages import ToolSpec
from vikingpi.tools import truncate
from vikingpi.tools.base import ToolContext, ToolOutcome, text_outcome, whole_number
from vikingpi.tools.paths import explain, is_folder, mode_of, resolve, scrub, shown

_LIMIT = 500

_SPEC = ToolSpec(
    "ls",
    "List a folder: names in alphabetical order, hidden ones too, folders with a slash at the end. "
    f"At most {_LIMIT} entries unless `limit` says otherwise.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Folder to list; the working directory if left out"},
            "limit": {"type": "number", "description": f"Most entries to give, {_LIMIT} if left out"},
        },
    },
)


class LsTool:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """List; raise ToolError for what is no readable folder."""
        path = resolve(as_str(arguments.get("path")) or ".", context)
        return await asyncio.to_thread(_list, path, whole_number(arguments, "limit", _LIMIT, least=1))


def _list(path: Path, limit: int) -> ToolOutcome:
    if not stat.S_ISDIR(mode_of(path)):
        raise ToolError(f"Not a directory: {scrub(str(path))}")
    try:
        with os.scandir(path) as entries:
            names = [shown(entry.name) + ("/" if is_folder(entry) else "") for entry in entries]
    except OSError as error:
        raise ToolError(explain(error, path)) from error
    if not names:
        return text_outcome("(empty directory)")
    names.sort(key=lambda name: (name.lower(), name))
    cut = truncate.head("\n".join(names[:limit]), max_lines=limit)
    details: Json = {}
    notices: list[str] = []
    if len(names) > limit:
        notices.append(f"{limit} of {len(names)} entries shown. Use limit={2 * limit} for more")
        details["entryLimitReached"] = limit
    if cut.by is not None:
        notices.append(f"{truncate.size_text(truncate.MAX_BYTES)} limit reached")
        details["truncation"] = cut.details()
    note = f"\n\n[{'. '.join(notices)}]" if notices else ""
    return text_outcome(cut.text + note, details=details or None)
