"""Create a file or replace its whole content."""

from __future__ import annotations

import asyncio
from pathlib import Path

from vikingpi.decode import Json, as_str
from vikingpi.errors import ToolError
from vikingpi.messages import ToolSpec
from vikingpi.tools import atomic
from vikingpi.tools.base import ToolContext, ToolOutcome, text_outcome
from vikingpi.tools.paths import explain, lock_key_of, resolve, scrub, writable

_SPEC = ToolSpec(
    "write",
    "Write a file: create it, with its parent folders, or replace all that it holds. "
    "To change a part of a file use edit.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File to write, absolute or relative to the working directory"},
            "content": {"type": "string", "description": "The whole new content"},
        },
        "required": ["path", "content"],
    },
)


class WriteTool:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    def lock_key(self, arguments: Json, context: ToolContext) -> str | None:
        return lock_key_of(arguments.get("path"), context, new=True)

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Write; raise ToolError for what cannot be written."""
        name = as_str(arguments.get("path"))
        path = writable(name, resolve(name, context, new=True), context)
        data = scrub(as_str(arguments.get("content"))).encode()
        await asyncio.to_thread(_write, path, data)
        return text_outcome(f"Successfully wrote to {scrub(name)}")


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.replace(path, data)
    except FileExistsError as error:
        raise ToolError(f"ENOTDIR: not a directory: {scrub(str(path.parent))}") from error
    except OSError as error:
        raise ToolError(explain(error, path)) from error
