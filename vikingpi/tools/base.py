"""The seam between the agent loop and a tool."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from vikingpi.decode import Json
from vikingpi.errors import ToolError
from vikingpi.messages import ImagePart, TextPart, ToolSpec
from vikingpi.values import NamedTuple

if TYPE_CHECKING:
    from vikingpi.tools.sandbox import Sandbox


_HUGE = 10**308
_ALL_DIGITS = 10**21


class ToolContext(NamedTuple):
    """`update` takes the whole current tail of the output; `env` is what commands get; `temp_dir` is where full
    outputs are kept (made 0700 when first needed); `bash_timeout` in seconds; with a `sandbox` commands run in it; long
    lines are not cut inside of what `mask` hides."""

    cwd: Path
    env: Mapping[str, str]
    update: Callable[[str], None]
    bash_timeout: float
    temp_dir: Path
    sandbox: Sandbox | None = None
    mask: Callable[[str], str] = str


class ToolOutcome(NamedTuple):
    content: tuple[TextPart | ImagePart, ...]
    is_error: bool = False
    details: Json | None = None


class Tool(Protocol):
    """What a model can call; a tool may also be `Exclusive` and `Closing`."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Do it. Arguments are already validated against the schema.

        Raise ToolError for what the model should read as a failure. On cancellation end every child, then let
        CancelledError pass; `partial` output that belongs in the transcript was given to `context.update`.
        """
        ...


@runtime_checkable
class Exclusive(Protocol):
    """A tool whose calls with the same key must run one after the other, across all exclusive tools."""

    def lock_key(self, arguments: Json, context: ToolContext) -> str | None:
        """Return the key (for files the real path), or None when the call needs none; never raises."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A tool that holds something, such as processes that its commands left in the background."""

    def close(self) -> None:
        """Let go of it within a few seconds; may be called more than once; never raises."""
        ...


def lock_key(tool: Tool, arguments: Json, context: ToolContext) -> str | None:
    """Return the key under which a call must be serialised; None when it may run beside any other."""
    return tool.lock_key(arguments, context) if isinstance(tool, Exclusive) else None


def close_tools(tools: Iterable[Tool]) -> None:
    """Close every tool that holds something; for the end of the program."""
    for tool in tools:
        if isinstance(tool, Closing):
            tool.close()


def text_outcome(text: str, *, is_error: bool = False, details: Json | None = None) -> ToolOutcome:
    """Make an outcome of one text part."""
    return ToolOutcome((TextPart(text),), is_error, details)


def whole_number(arguments: Json, name: str, default: int, *, least: int | None = None) -> int:
    """Read a number without its fraction; raise ToolError for what is no finite number or below `least`."""
    given: object = arguments.get(name)
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not -math.inf < given < math.inf:
        raise ToolError(f"Invalid {name}: must be a finite number")
    number = max(-_HUGE, min(int(given), _HUGE))
    if least is not None and number < least:
        raise ToolError(f"Invalid {name}: {figure(number)}; it must be at least {least}")
    return number


def figure(number: int) -> str:
    """Write a number for a reader, one that nobody would write out as 1e+300."""
    return str(number) if abs(number) < _ALL_DIGITS else f"{float(number):g}"
