"""A list that is searched, walked through and acted on, without any terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vikingpi.commands.chooser import Act, Choices, Option
from vikingpi.errors import VpiError

Stage = Literal["list", "ask", "confirm"]


def matching(options: Sequence[Option], query: str, *, ordered: bool = False) -> list[Option]:
    """Return the options that hold every word of the query; where none does, those that hold its letters in order.

    Those whose label holds the query come first, then those whose label holds its words, unless they are `ordered`.
    """
    words = query.lower().split()
    if not words:
        return list(options)
    ranked: list[tuple[int, Option]] = []
    for option in options:
        label = option.label.lower()
        if " ".join(words) in label:
            ranked.append((0, option))
        elif all(word in label for word in words):
            ranked.append((1, option))
        elif all(word in f"{label} {option.more.lower()}" for word in words):
            ranked.append((2, option))
    if not ranked:
        letters = "".join(words)
        ranked = [(0, option) for option in options if _in_order(letters, f"{option.label} {option.more}".lower())]
    return [option for _, option in (ranked if ordered else sorted(ranked, key=lambda pair: pair[0]))]


class Listing:
    """What is typed, what matches and what is selected. `stage` says what the keys mean now."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.query = ""
        self.typed = ""
        self.message = ""
        self.stage: Stage = "list"
        self.act: Act | None = None
        self._key = choices.at
        self._all: Sequence[Option] = ()
        self.shown: list[Option] = []
        self.reload()
        if choices.query:
            self._search(choices.query)

    @property
    def selected(self) -> Option | None:
        return self.shown[self.at] if self.shown else None

    @property
    def at(self) -> int:
        """The place of the selected line among those that match."""
        return next((n for n, option in enumerate(self.shown) if option.key == self._key), 0)

    def reload(self) -> None:
        """Ask for the options anew; the selection stays, or near where it was."""
        before = self.at
        try:
            self._all = self.choices.options()
        except VpiError as error:
            self._all, self.message = (), str(error)
        self.shown = matching(self._all, self.query, ordered=self.choices.ordered)
        if self.shown and all(option.key != self._key for option in self.shown):
            self._key = self.shown[min(before, len(self.shown) - 1)].key

    def move(self, step: int) -> None:
        """Select another line; the ends hold."""
        if self.shown:
            self._key = self.shown[max(0, min(len(self.shown) - 1, self.at + step))].key

    @property
    def text(self) -> str:
        """What is searched for, or the answer that an act asked for."""
        return {"list": self.query, "ask": self.typed, "confirm": ""}[self.stage]

    def write(self, text: str) -> None:
        """Search for this, or let it be the answer that an act asked for."""
        if self.stage == "ask":
            self.typed = text
        elif self.stage == "list" and text != self.query:
            self._search(text)

    def begin(self, act: Act) -> None:
        """Do what a key stands for, or ask what it needs first."""
        option = self.selected
        self.message = ""
        if act.asks and option is not None:
            self.stage, self.act, self.typed = "ask", act, act.preset(option.key)
        elif act.confirms and option is not None:
            self.stage, self.act = "confirm", act
        elif not (act.asks or act.confirms):
            self._run(act, "")

    def finish(self) -> None:
        """Do what was asked about."""
        act, self.act, self.stage = self.act, None, "list"
        if act is not None:
            self._run(act, self.typed)

    def cancel(self) -> bool:
        """Leave a question, or empty the search; False where there is nothing of that."""
        if self.stage != "list":
            self.stage, self.act = "list", None
        elif self.query:
            self._search("")
        else:
            return False
        return True

    def _search(self, query: str) -> None:
        self.query = query
        self.message = ""
        self.shown = matching(self._all, query, ordered=self.choices.ordered)
        kept = any(option.key == self._key for option in self.shown) and (self.choices.ordered or not query)
        if self.shown and not kept:
            self._key = self.shown[0].key

    def _run(self, act: Act, text: str) -> None:
        option = self.selected
        try:
            message = act.run(option.key if option is not None else "", text)
        except VpiError as error:
            message = f"{error}"
        self.reload()
        self.message = message or self.message


def _in_order(letters: str, text: str) -> bool:
    place = 0
    for letter in letters:
        place = text.find(letter, place) + 1
        if not place:
            return False
    return True
