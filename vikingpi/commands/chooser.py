"""What commands ask of a terminal that can show lists: choices, questions, the editor, the clipboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from vikingpi.config.model import Settings
from vikingpi.values import NamedTuple


class Option(NamedTuple):
    """One line of a list; `more` is searched as well, `preview` gives what is shown of it while it is selected.

    Values stand in a column of their own.
    """

    key: str
    label: str
    about: str = ""
    more: str = ""
    preview: Callable[[], str] | None = None
    value: str = ""


class Act(NamedTuple):
    """What a key does to the selected line; `run` takes its key and the text that was typed, and returns a message.

    With `asks` a text is asked for first, which begins as `preset` gives it and is not shown if it is `secret`; with
    `confirms` a yes.
    """

    key: str
    name: str
    run: Callable[[str, str], str]
    asks: str = ""
    preset: Callable[[str], str] = lambda key: ""
    confirms: str = ""
    secret: bool = False


class Choices(NamedTuple):
    """A list to choose from; `options` is called anew after each act. `at` is selected first, or what matches `query`.

    A search puts the best match first, unless the list is `ordered`. With `enter`, Enter does
    to a line what that gives for its key, and the list stays; None chooses the line. `head` stands above the list.
    A preview that is too long shows its end where `shows_end`, else its beginning.
    """

    title: Callable[[], str]
    options: Callable[[], Sequence[Option]]
    acts: tuple[Act, ...] = ()
    at: str = ""
    empty: str = "nothing here"
    ordered: bool = False
    enter: Callable[[str], Act | None] = lambda key: None
    head: Callable[[], str] = lambda: ""
    shows_end: bool = False
    query: str = ""


class Asker(Protocol):
    """A terminal with somebody who can be asked."""

    async def text(self, question: str) -> str | None:
        """Ask for a line of text; None when they left."""
        ...

    async def confirm(self, question: str, body: str, answers: Sequence[Option]) -> str | None:
        """Show a text below the conversation and let the user choose an answer; None when they left."""
        ...


class Chooser(Asker, Protocol):
    """A terminal with room for a list."""

    async def choose(self, choices: Choices) -> str | None:
        """Let the user choose; None when they left."""
        ...

    async def copy(self, text: str) -> str:
        """Put a text into the clipboard and say how."""
        ...

    def edit(self, text: str) -> None:
        """Put a text into the editor."""
        ...

    def look(self, settings: Settings) -> None:
        """Look as the settings say from now on."""
        ...

    def show_past(self) -> None:
        """Show the end of the conversation that is open now."""
        ...
