"""Server-sent events from bytes.

Source: the event stream format of the HTML standard. A line ends at LF, CR or CRLF and nowhere else; text is UTF-8,
what is none becomes U+FFFD; an event ends at an empty line, its `data` lines are joined by LF; lines that begin with
a colon are comments. An event that the end of the stream cuts off is given all the same: several servers leave out
the last empty line.
"""

from __future__ import annotations

import codecs
import re

from vikingpi.errors import BadResponse
from vikingpi.values import NamedTuple

EVENT_LIMIT = 16 * 1024 * 1024

_LINE_END = re.compile("\r\n|\n|\r")


class Event(NamedTuple):
    """`name` is empty where the server gave none."""

    data: str
    name: str = ""


class Decoder:
    """Feed bytes as they come, cut anywhere; raises BadResponse for an event over `limit` characters."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._text = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._limit = limit
        self._rest: list[str] = []
        self._after_cr = False
        self._data: list[str] = []
        self._name = ""
        self._size = 0

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that are now complete."""
        return self._take(self._text.decode(data))

    def close(self) -> list[Event]:
        """Return what the end of the stream completes."""
        return self._take(self._text.decode(b"", final=True) + "\n\n")

    def _take(self, text: str) -> list[Event]:
        # A CR at the end of a piece has ended its line already; an LF that follows belongs to it.
        if self._after_cr and text:
            text = text.removeprefix("\n")
            self._after_cr = False
        if not text:
            return []
        self._after_cr = text.endswith("\r")
        events: list[Event] = []
        start = 0
        for end in _LINE_END.finditer(text):
            line = "".join((*self._rest, text[start : end.start()]))
            self._rest = []
            start = end.end()
            if line:
                self._line(line)
            else:
                events += self._event()
        if start < len(text):
            self._grow(len(text) - start)
            self._rest.append(text[start:])
        return events

    def _line(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._grow(len(value))
            self._data.append(value)
        elif field == "event":
            self._name = value

    def _event(self) -> list[Event]:
        """An event without data is dropped, as the standard says."""
        event = Event("\n".join(self._data), self._name)
        found = [event] if self._data else []
        self._data, self._name, self._size = [], "", 0
        return found

    def _grow(self, by: int) -> None:
        self._size += by
        if self._size > 2 * self._limit:
            raise BadResponse("the provider sent an event that is too large", retryable=True)
