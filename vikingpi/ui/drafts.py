"""The editor's buffer: nothing that was typed and not sent gets lost, whatever took its place."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from vikingpi.values import NamedTuple


class _Lent(NamedTuple):
    """Where the draft is, counted from the last line, with its cursor and what undo brings back."""

    behind: int
    cursor: int
    undo: list[tuple[str, int]]


class DraftBuffer(Buffer):
    """Up and Down go through the history and the drafts; those become part of it with the text that is sent."""

    _lent: _Lent | None = None

    def __init__(self, history: History, whole: Callable[[str], str]) -> None:
        """`whole` returns a text as it is to be remembered."""
        self._whole = whole
        super().__init__(history=history, multiline=True)

    @property
    def lent(self) -> bool:
        """Whether the text is none to be sent, and the draft is behind it."""
        return self._lent is not None

    @property
    def draft(self) -> str:
        """The text, or the one that stands behind what the buffer is lent to. Undo brings the old one back."""
        return self.text if self._lent is None else self._working_lines[self._home(self._lent)]

    @draft.setter
    def draft(self, text: str) -> None:
        if self._lent is None:
            self.save_to_undo_stack()
            self.document = Document(text)
        else:
            self._working_lines[self._home(self._lent)] = text
            self._lent = self._lent._replace(cursor=len(text))

    def lend(self) -> None:
        """Begin with an empty text; `give_back` brings the draft back."""
        behind = len(self._working_lines) - self.working_index
        self._lent = _Lent(behind, self.cursor_position, list(self._undo_stack))
        self.begin_line()

    def give_back(self) -> None:
        """End what `lend` began."""
        if self._lent is None:
            return
        lent, home = self._lent, self._home(self._lent)
        self._lent = None
        self.working_index = home
        self._working_lines.pop()
        self._undo_stack, self.cursor_position = lent.undo, lent.cursor

    def begin_line(self) -> None:
        """Begin with an empty text; Up goes to the old one."""
        self._working_lines.append("")
        self.working_index = len(self._working_lines) - 1

    def keep(self, text: str) -> None:
        """Remember a text that was typed elsewhere; Up goes to it."""
        if not text.strip():
            return
        self.history.append_string(text)
        cursor = self.cursor_position
        self._working_lines.insert(self.working_index if self._lent is None else self._home(self._lent), text)
        self.working_index += 1
        self.cursor_position = cursor

    def append_to_history(self) -> None:
        """Remember the drafts that Up and Down left behind, and the text; not what is only space."""
        known = self.history.get_strings()
        seen, text = set(known), self._whole(self.text)
        for number, line in enumerate(self._working_lines):
            if number != self.working_index and line not in seen and (left := self._whole(line)).strip():
                if left not in seen and left != text:
                    self.history.append_string(left)
                seen |= {line, left}
        if text.strip() and not self.lent and known[-1:] != [text]:
            self.history.append_string(text)

    def reset(self, document: Document | None = None, append_to_history: bool = False) -> None:
        self._lent = None
        super().reset(document, append_to_history)

    def _history_matches(self, i: int) -> bool:
        return not self.lent and super()._history_matches(i)

    def _home(self, lent: _Lent) -> int:
        return len(self._working_lines) - 1 - lent.behind
