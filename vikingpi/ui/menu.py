"""The list of commands that shows below the editor while one is being typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vikingpi.command import Command


class Item(NamedTuple):
    """`insert` is the editor's text once the item is chosen."""

    label: str
    about: str
    insert: str


def items_for(commands: tuple[Command, ...], text: str) -> tuple[Item, ...]:
    """Return what completes `text`, the whole text before the cursor."""
    if not text.startswith("/") or "\n" in text:
        return ()
    name, space, argument = text[1:].partition(" ")
    if not space:
        return tuple(
            Item(f"/{command.name}", command.description, f"/{command.name}")
            for command in commands
            if command.name.startswith(name)
        )
    words = next((c.complete() for c in commands if c.name == name and c.complete is not None), ())
    return tuple(Item(word, "", f"/{name} {word}") for word in words if word.startswith(argument) and word != argument)


def command_in(commands: tuple[Command, ...], text: str) -> tuple[Command, str] | None:
    """Return the command that a text calls and its argument; None for what goes to the model."""
    if not text.startswith("/"):
        return None
    name, _, argument = text[1:].replace("\n", " ", 1).partition(" ")
    for command in commands:
        if command.name == name:
            return command, argument.strip()
    return None


class Menu:
    """Which items show for the editor's text and which one is selected; nothing shows once it was dismissed."""

    def __init__(self, commands: Callable[[], tuple[Command, ...]]) -> None:
        self._commands = commands
        self._text = ""
        self._at = 0
        self._dismissed = False

    def items(self, text: str) -> tuple[Item, ...]:
        if text != self._text:
            self._text, self._at, self._dismissed = text, 0, False
        return () if self._dismissed else items_for(self._commands(), text)

    def selected(self, text: str) -> Item | None:
        items = self.items(text)
        return items[self._at % len(items)] if items else None

    def window(self, text: str, rows: int) -> tuple[tuple[Item, bool], ...]:
        """Return at most `rows` items around the selected one, each with whether it is that one."""
        items = self.items(text)
        at = self._at % len(items) if items else 0
        first = max(0, min(at - rows // 2, len(items) - rows))
        return tuple((item, first + n == at) for n, item in enumerate(items[first : first + rows]))

    def move(self, step: int) -> None:
        self._at += step

    def dismiss(self) -> None:
        self._dismissed = True
