"""The editor: a text, the history of the project, what completes it, and where it came from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from prompt_toolkit.document import Document

from vikingpi.ui.drafts import DraftBuffer
from vikingpi.ui.history import PromptHistory
from vikingpi.ui.menu import Item, Menu
from vikingpi.ui.pastes import Pastes
from vikingpi.values import NamedTuple

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class UserCommand(NamedTuple):
    """A text that begins with `!`: a command for the shell, which the model reads unless it is `excluded`."""

    command: str
    excluded: bool


def typed(text: str) -> str:
    """Return input as a prompt: newlines and tabs stay, other control characters and half characters do not."""
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def user_command(text: str) -> UserCommand | None:
    """Return what `!command` and `!!command` run; None for what goes to the model."""
    excluded = text.startswith("!!")
    command = text[2 if excluded else 1 :].strip() if text.startswith("!") else ""
    return UserCommand(command, excluded) if command.strip("!") else None


class Editor:
    """A buffer with the project's history. What is shown has markers for long pastes; `take` has the whole text."""

    def __init__(self, history: Path, menu: Menu) -> None:
        self.menu = menu
        self._pastes = Pastes()
        self.buffer = DraftBuffer(PromptHistory(history), lambda text: typed(self._pastes.unfold(text)))

    @property
    def text(self) -> str:
        return self.buffer.text

    @property
    def before_cursor(self) -> str:
        """The text that the menu completes: empty within a word."""
        document = self.buffer.document
        return document.text_before_cursor if document.current_char in ("", " ", "\n") else ""

    def set(self, text: str) -> None:
        """Replace the text; undo brings the old one back."""
        self.buffer.draft = self._pastes.fold(text)

    def exchange(self, text: str) -> None:
        """Put another text in the place of what was typed; Up goes back to that."""
        if self.text.strip():
            self.buffer.begin_line()
        self.set(text)

    def whole(self) -> str:
        """Return the text with what long pastes stand for."""
        return typed(self._pastes.unfold(self.text))

    def paste(self, text: str) -> None:
        self.buffer.cut_selection()
        self.buffer.insert_text(self._pastes.fold(text))

    def complete(self, item: Item, after: str = "") -> None:
        """Put an item of the menu in place of what it completes."""
        start = self.menu.offer(self.before_cursor).start
        document = self.buffer.document
        text = document.text[:start] + item.insert + after
        self.buffer.save_to_undo_stack()
        self.buffer.document = Document(text + document.text_after_cursor, len(text))

    def marker(self, *, forward: bool = False) -> str:
        """Return the marker right before the cursor, or right after it, which is erased as a whole; or nothing."""
        document = self.buffer.document
        if forward:
            return self._pastes.marker_after(document.text_after_cursor)
        return self._pastes.marker_before(document.text_before_cursor)

    def take(self) -> str:
        """Return the text, remember it in the history and empty the editor; empty where there is only space."""
        text = self.remember()
        if text:
            self.buffer.reset()
        return text

    def remember(self) -> str:
        """Keep the text and other drafts in the history too, and return it; empty where there is only space."""
        text = self.whole()
        self.buffer.append_to_history()
        return text if text.strip() else ""

    def put_back(self, texts: Sequence[str]) -> None:
        """Put texts before the draft, each apart by a blank line."""
        if texts:
            draft = [self.buffer.draft] if self.buffer.draft.strip() else []
            self.buffer.draft = "\n\n".join([*map(self._pastes.fold, texts), *draft])


def offer_again(editor: Editor, text: str) -> None:
    """Put a text back that could not be done: what is typed next takes its place."""
    editor.put_back([text])
    editor.buffer.cursor_position = 0
    editor.buffer.start_selection()
    if editor.buffer.selection_state is not None:
        editor.buffer.selection_state.enter_shift_mode()
    editor.buffer.cursor_position = len(editor.text)
