"""Stores what is said during one prompt and announces it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from vikingpi.agent.deps import AgentDeps
from vikingpi.agent.validate import cleaned
from vikingpi.events import MessageEnd, MessageStart, TurnEnd, TurnStart
from vikingpi.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

M = TypeVar("M", UserMessage, AssistantMessage, ToolResultMessage)


class Transcript:
    """`said` is everything of this prompt, in order. A turn that is open has begun and not ended."""

    def __init__(self, deps: AgentDeps) -> None:
        self.said: list[Message] = []
        self.turn_open = False
        self._session = deps.session
        self._emit = deps.emit
        self._turn_start = 0

    def begin_turn(self) -> None:
        """Announce the next request."""
        self._turn_start = len(self.said)
        self.turn_open = True
        self._emit(TurnStart())

    def end_turn(self, answer: AssistantMessage) -> tuple[ToolResultMessage, ...]:
        """Announce that `answer` has all its results, and return them."""
        results = tuple(one for one in self.said[self._turn_start :] if isinstance(one, ToolResultMessage))
        self.turn_open = False
        self._emit(TurnEnd(answer, results))
        return results

    def answer(self) -> AssistantMessage | None:
        """Return what the model answered in the open turn."""
        said = self.said[self._turn_start :] if self.turn_open else ()
        return next((one for one in reversed(said) if isinstance(one, AssistantMessage)), None)

    def say(self, message: M) -> M:
        """Announce and store a message; return it with its entry's id."""
        self._emit(MessageStart(message))
        return self.keep(message)

    def keep(self, message: M, stored: Callable[[M], None] | None = None) -> M:
        """Store a message that was announced before; return it with its entry's id.

        `stored` learns of it before everybody else.
        """
        message = cleaned(message)
        entry = self._session.append_message(message)
        message = message._replace(entry_id=entry.id)
        self.said.append(message)
        if stored is not None:
            stored(message)
        self._emit(MessageEnd(message))
        return message

    def leave_out(self, message: Message) -> None:
        """Take a stored message out of the context; it stays in the file."""
        self._session.append("context_edit", {"targetId": message.entry_id, "replacement": None})
