"""What slash commands and extensions both speak."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vikingpi.values import NamedTuple


class Command(NamedTuple):
    """A slash command. `run` takes the text after its name and returns what to show (plain text or Markdown)."""

    name: str
    description: str
    run: Callable[[str], Awaitable[str]]
    complete: Callable[[], tuple[str, ...]] | None = None
