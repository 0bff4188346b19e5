"""The list that shows below the editor: commands, files, paths or earlier prompts that complete what is typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vikingpi.command import Command
from vikingpi.commands.host import Host
from vikingpi.safetext import is_seen
from vikingpi.values import NamedTuple


class Item(NamedTuple):
    """`insert` replaces what the item completes."""

    label: str
    about: str
    insert: str


class Offer(NamedTuple):
    """`items` complete the text from `start` to the cursor. Enter also sends where `sends` is True, and Tab adds
    `after` behind an item that needs no more."""

    start: int = 0
    items: tuple[Item, ...] = ()
    sends: bool = False
    after: str = " "


Source = Callable[[str], Offer]
NOTHING = Offer()
_CALL = re.compile(r"/([a-z][a-z:_-]*)(?:\s+(.*))?\Z", re.DOTALL)


def items_for(commands: tuple[Command, ...], text: str, others: Sequence[tuple[str, str]] = ()) -> tuple[Item, ...]:
    """Return what completes `text`, the whole text before the cursor; `others` can be called beside commands."""
    if not text.startswith("/") or "\n" in text:
        return ()
    name, space, argument = text[1:].partition(" ")
    if not space:
        named = [*((command.name, command.description) for command in commands), *others]
        return tuple(Item(f"/{one}", about, f"/{one}") for one, about in named if one.startswith(name) and is_seen(one))
    offered = next((c.complete() for c in commands if c.name == name and c.complete is not None), ())
    words = [word for word in offered if is_seen(word)]
    wanted = argument.lower()
    if argument in words:
        return ()
    begun = [word for word in words if word.lower().startswith(wanted)]
    found = begun or [word for word in words if wanted in word.lower()]
    return tuple(Item(word, "", f"/{name} {word}") for word in found)


def command_source(
    commands: Callable[[], tuple[Command, ...]], others: Callable[[], Sequence[tuple[str, str]]] = tuple
) -> Source:
    """Offer commands and their arguments, and what else can be called."""
    return lambda text: Offer(0, items_for(commands(), text, others()), sends=True)


def command_in(commands: tuple[Command, ...], text: str) -> tuple[Command, str] | None:
    """Return the command that a text calls and its argument; None for what goes to the model."""
    if not text.startswith("/"):
        return None
    name, _, argument = text[1:].replace("\n", " ", 1).partition(" ")
    for command in commands:
        if command.name == name:
            return command, argument.strip()
    return None


def names_of(app: Host) -> list[str]:
    """Return all that `/name` can call."""
    return [*(command.name for command in app.commands), *(name for name, _ in app.library.names())]


def slip_in(names: Sequence[str], text: str) -> str:
    """Say what is wrong with a text that is meant as a command and calls none; empty for what goes to the model."""
    import difflib

    called = _CALL.match(text)
    if called is None or called[1] in names:
        return ""
    near = difflib.get_close_matches(called[1], names, n=1, cutoff=0.75)
    if near:
        return f"there is no /{called[1]}; did you mean /{near[0]}?"
    return "" if called[2] else f"there is no /{called[1]}; /help lists what there is"


class Menu:
    """Which items show for the text before the cursor and which one is selected.

    The first source that has something for the text is asked; nothing shows once it was dismissed. A source that was
    `held` is asked alone, until it has nothing to offer or the menu is dismissed.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._held: Source | None = None
        self._text: str | None = None
        self._offer = NOTHING
        self._at = 0

    def offer(self, text: str) -> Offer:
        if text != self._text:
            self._text, self._at = text, 0
            self._offer = self._ask(text)
        return self._offer

    def items(self, text: str) -> tuple[Item, ...]:
        return self.offer(text).items

    def selected(self, text: str) -> Item | None:
        items = self.items(text)
        return items[self._at % len(items)] if items else None

    def window(self, text: str, rows: int) -> tuple[tuple[Item, bool], ...]:
        """Return at most `rows` items around the selected one, each with whether it is that one."""
        items = self.items(text)
        at = self._at % len(items) if items else 0
        first = max(0, min(at - rows // 2, len(items) - rows))
        return tuple((item, first + n == at) for n, item in enumerate(items[first : first + rows]))

    def place(self, text: str, shown: int) -> str:
        """Write which of all items is selected; nothing where all of them are shown."""
        count = len(self.items(text))
        return f"({self._at % count + 1}/{count})" if count > shown else ""

    def move(self, step: int) -> None:
        self._at += step

    def hold(self, source: Source | None) -> None:
        """Ask this source alone."""
        self._held, self._text = source, None

    def dismiss(self) -> None:
        self._held, self._offer = None, NOTHING

    def refresh(self) -> None:
        """Ask again although the text is the same; what was dismissed stays so."""
        if self._text is not None and self._offer is not NOTHING:
            self._offer = self._ask(self._text)

    def _ask(self, text: str) -> Offer:
        if self._held is not None:
            offer = self._held(text)
            if offer is not NOTHING:
                return offer
            self._held = None
        for source in self._sources:
            offer = source(text)
            if offer.items:
                return offer
        return Offer()
