from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from vikingpi.messages import TextPart
from vikingpi.tools.base import Tool, ToolContext, ToolOutcome


def context_in(folder: Path, updates: list[str] | None = None, **env: str) -> ToolContext:
    seen = updates if updates is not None else []
    return ToolContext(folder, {**os.environ, **env}, seen.append, 20.0, folder / "kept")


def run(tool: Tool, context: ToolContext, /, **arguments: Any) -> ToolOutcome:
    return asyncio.run(tool.run(arguments, context))


def text_of(outcome: ToolOutcome) -> str:
    return "".join(part.text for part in outcome.content if isinstance(part, TextPart))
