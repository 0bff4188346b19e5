"""What may go to a store: types are checked here because servers answer a wrong one as if they were broken."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from vikingpi.decode import Json
from vikingpi.errors import StoreRejected
from vikingpi.viking.base import StoreMessage

MAX_BATCH = 100

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TEXTS = {"text": ("text",), "tool": ("tool_id", "tool_name", "tool_output", "tool_status")}


def dump(value: object) -> str:
    """Write JSON that can be encoded: a lone surrogate becomes U+FFFD."""
    return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False))


def whole(text: str) -> str:
    """Replace what cannot be encoded and NUL, at which SQLite's text functions end."""
    return _SURROGATE.sub("\ufffd", text).replace("\0", "\ufffd")


def check_batch(messages: Sequence[StoreMessage]) -> None:
    """Raise StoreRejected for more than 100 messages or a part with a field of the wrong type."""
    if len(messages) > MAX_BATCH:
        raise _invalid(f"{len(messages)} messages in one batch, at most {MAX_BATCH} are allowed")
    for message in messages:
        for part in message.parts:
            if fault := _fault(part):
                name = message.marks[0][:80] if message.marks else "without a mark"
                raise _invalid(f"message {name}: {fault}")


def _fault(part: Json) -> str:
    for field in _TEXTS.get(str(part.get("type")), ()):
        if not isinstance(part.get(field, ""), str):
            return f"{field} is not a text"
    if part.get("type") == "text" and "text" not in part:
        return "a text part without text"
    if part.get("type") == "tool" and not isinstance(part.get("tool_input", {}), dict):
        return "tool_input is not an object"
    return ""


def _invalid(message: str) -> StoreRejected:
    return StoreRejected(message, status=400, code="INVALID_ARGUMENT")
