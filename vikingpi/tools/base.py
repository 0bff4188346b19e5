"""The seam between the agent loop and a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from vikingpi.decode import Json
from vikingpi.messages import ImagePart, TextPart, ToolSpec


class ToolContext(NamedTuple):
    """`update` takes the whole current tail of the output; `env` is what commands get; `temp_dir` is where full
    outputs are kept (made 0700 when first needed); `bash_timeout` in seconds."""

    cwd: Path
    env: Mapping[str, str]
    update: Callable[[str], None]
    bash_timeout: float
    temp_dir: Path


class ToolOutcome(NamedTuple):
    content: tuple[TextPart | ImagePart, ...]
    is_error: bool = False
    details: Json | None = None


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Do it. Arguments are already validated against the schema.

        Raise ToolError for what the model should read as a failure. On cancellation end every child, then let
        CancelledError pass; `partial` output that belongs in the transcript was given to `context.update`.
        """
        ...


def text_outcome(text: str, *, is_error: bool = False, details: Json | None = None) -> ToolOutcome:
    """Make an outcome of one text part."""
    return ToolOutcome((TextPart(text),), is_error, details)
