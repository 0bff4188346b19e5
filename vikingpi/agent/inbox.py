"""What the user types while the agent works."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from vikingpi.messages import TextPart, UserMessage, text_of

T = TypeVar("T")


class Inbox:
    """Two queues. A message leaves its queue only after it was stored, so that none is ever in between.

    `expand` turns a text as it was typed into what is sent; until then a queued text stays as it was typed.
    """

    def __init__(self, expand: Callable[[str], str] = str) -> None:
        self._expand = expand
        self._steering: deque[UserMessage] = deque()
        self._follow_ups: deque[UserMessage] = deque()

    def steer(self, message: UserMessage) -> None:
        """Queue a message for the next request of the running prompt."""
        self._steering.append(message)

    def follow_up(self, message: UserMessage) -> None:
        """Queue a message for when the running prompt would end."""
        self._follow_ups.append(message)

    def take_steering(self, store: Callable[[UserMessage], T]) -> T | None:
        """Store the oldest steering message and forget it; None where there is none."""
        return self._take(self._steering, store)

    def take_follow_up(self, store: Callable[[UserMessage], T]) -> T | None:
        """Store the oldest follow-up and forget it; None where there is none."""
        return self._take(self._follow_ups, store)

    def drain(self) -> tuple[str, ...]:
        """Empty both queues and return their texts, steering first, for the editor."""
        texts = self.steering + self.follow_ups
        self._steering.clear()
        self._follow_ups.clear()
        return texts

    @property
    def steering(self) -> tuple[str, ...]:
        return tuple(text_of(message) for message in self._steering)

    @property
    def follow_ups(self) -> tuple[str, ...]:
        return tuple(text_of(message) for message in self._follow_ups)

    def __bool__(self) -> bool:
        return bool(self._steering or self._follow_ups)

    def _take(self, queue: deque[UserMessage], store: Callable[[UserMessage], T]) -> T | None:
        if not queue:
            return None
        parts = (TextPart(self._expand(part.text)) if isinstance(part, TextPart) else part for part in queue[0].content)
        stored = store(queue[0]._replace(content=tuple(parts)))
        queue.popleft()
        return stored
