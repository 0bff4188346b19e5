"""Tells the tool calls of one answer apart when servers mark their pieces in different ways."""

from __future__ import annotations

import json
import re

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.llm.base import CallDelta


class _Arguments:
    """Arguments that arrive in pieces. What it costs grows with their length, however often they are asked about."""

    __slots__ = ("_depth", "_escaped", "_pieces", "_quoted", "_whole")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._whole: bool | None = None

    def add(self, text: str) -> None:
        if self._whole is not None:
            # Nothing but blanks can follow a whole object, and nothing mends what has closed and is none.
            self._whole = self._whole and not text.strip()
        elif text.strip() or self._pieces:
            self._pieces.append(text)
            self._follow(text)

    def is_object(self) -> bool:
        """Whether they are a whole JSON object by now."""
        if self._whole is None and self._pieces and self._depth <= 0 and not self._quoted:
            self._whole = _is_object("".join(self._pieces))
        return self._whole is True

    def _follow(self, text: str) -> None:
        free = 1 if self._escaped else 0
        for mark in re.finditer(r'[\\"{}\[\]]', text):
            if mark.start() < free:
                continue
            match mark[0]:
                case '"':
                    self._quoted = not self._quoted
                case "\\":
                    free = mark.start() + 2
                case "{" | "[" if not self._quoted:
                    self._depth += 1
                case "}" | "]" if not self._quoted:
                    self._depth -= 1
                case _:
                    pass
        self._escaped = free > len(text)


class _Open:
    __slots__ = ("arguments", "id", "key", "name")

    def __init__(self, key: str) -> None:
        self.key = key
        self.id = ""
        self.name = ""
        self.arguments = _Arguments()


class CallPieces:
    """Turns the entries of `tool_calls` into deltas with a key for each call.

    Seen in the wild: no index, an index of 0 for every call, the id in the first piece only or a new one in every
    piece, the name in every piece, arguments as an object, a whole call in one piece.
    """

    def __init__(self) -> None:
        self._calls: list[_Open] = []
        self._by_index: dict[int, _Open] = {}

    def take(self, piece: Json) -> CallDelta:
        function = as_dict(piece.get("function"))
        name, id = as_str(function.get("name")), as_str(piece.get("id"))
        raw = function.get("arguments")
        text = raw if isinstance(raw, str) else "" if raw is None else json.dumps(raw, ensure_ascii=False)
        index = piece.get("index")
        call = self._find(index if isinstance(index, int) else None, id, name)
        call.id = call.id or id
        call.name = call.name or name
        call.arguments.add(text)
        return CallDelta(call.key, call.id, name, text)

    def _find(self, index: int | None, id: str, name: str) -> _Open:
        by_id = next((call for call in self._calls if id and call.id == id), None)
        last = self._calls[-1] if self._calls else None
        current = last if index is None else self._by_index.get(index)
        if by_id is not None and index is None:
            return by_id
        if current is None or self._begins(current, id, name):
            current = _Open(str(len(self._calls)))
            self._calls.append(current)
            if index is not None:
                self._by_index[index] = current
        return current

    def _begins(self, current: _Open, id: str, name: str) -> bool:
        """A name together with a new id begins a call; without an id, the arguments before must be whole."""
        if not name or not current.name:
            return False
        if id and current.id:
            return id != current.id
        return name != current.name or current.arguments.is_object()


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
