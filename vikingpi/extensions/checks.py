"""Says what is wrong with what an extension registers and answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.errors import ExtensionError
from vikingpi.events import Event, Notice
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolSpec,
)
from vikingpi.tools.base import ToolOutcome, text_outcome

_ANSWERS = {
    "before_agent_start": '{"systemAppend": text} or a text',
    "context": '{"messages": [messages of vikingpi.messages]}',
    "tool_call": '{"block": True or False, "reason": text}',
    "session_before_compact": '{"compaction": {"summary": text, ...}}',
}
_LEVELS = ("info", "warning", "error")


def tool_spec(name: object, description: object, parameters: object) -> ToolSpec:
    """Make the spec of a tool; ExtensionError for what no provider takes."""
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_-]{1,64}", name):
        raise ExtensionError(
            f"a tool cannot be called {_short(name)}", hint="1 to 64 of the characters A-Z a-z 0-9 _ -"
        )
    about = f"the tool {name}: its"
    if not isinstance(description, str):
        raise ExtensionError(f"{about} description is no text: {_short(description)}")
    given = as_dict(parameters)
    if not _is_object(parameters) or given.get("type", "object") != "object":
        raise ExtensionError(f"{about} parameters are no JSON Schema of an object: {_short(parameters)}")
    schema: Json = {"type": "object", "properties": {}, **given}
    try:
        copied: Json = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ExtensionError(f"{about} parameters are no JSON: {error}") from error
    if not _is_object(copied["properties"]):
        raise ExtensionError(f'{about} "properties" are no object: {_short(copied["properties"])}')
    return ToolSpec(name, description, copied)


def command_name(name: object, description: object) -> str:
    """Return the name without its slash; ExtensionError for one that nobody can type, or a description of no text."""
    bare = name.removeprefix("/") if isinstance(name, str) else ""
    if not re.fullmatch(r"[^\W_][\w:.-]{0,63}", bare):
        raise ExtensionError(f"a command cannot be called {_short(name)}", hint="letters, digits and _ - : .")
    if not isinstance(description, str):
        raise ExtensionError(f"the command {bare}: its description is no text: {_short(description)}")
    return bare


def function(what: str, given: object) -> Callable[..., Any]:
    """Return what can be called; ExtensionError for anything else."""
    if not callable(given):
        raise ExtensionError(f"{what} needs a function: {_short(given)}")
    return given


def outcome_of(said: object) -> ToolOutcome:
    """Read what a tool returned; ExtensionError for an outcome that cannot be stored."""
    if not isinstance(said, ToolOutcome):
        return text_outcome("" if said is None else str(said))
    details = said.details
    if not (
        _parts(said.content, (TextPart, ImagePart)) and _json(details) and (details is None or _is_object(details))
    ):
        raise ExtensionError(f"it returned {_short(said)}, which is no ToolOutcome of parts and JSON details")
    return ToolOutcome(tuple(said.content), bool(said.is_error), said.details)


def answer_of(event: str, answer: Any) -> Any:
    """Return what a handler answered; TypeError where it is nothing that the event takes."""
    fields, wanted = as_dict(answer), _ANSWERS.get(event, "")
    match event:
        case "before_agent_start":
            fits = isinstance(answer, str) or isinstance(fields.get("systemAppend"), str)
        case "context":
            given = fields.get("messages")
            fits = isinstance(given, (list, tuple)) and all(map(_message, cast("list[object]", given)))
        case "tool_call":
            fits = "block" in fields
        case "session_before_compact":
            made = as_dict(fields.get("compaction"))
            fits = bool(as_str(made.get("summary")).strip()) and _json(made.get("details"))
        case _:
            return None
    if answer is None or answer == {}:
        return None
    if not fits:
        raise TypeError(f"it answered {_short(answer)}, which is neither None nor {wanted}")
    return answer


def shown(event: object) -> Event:
    """Return an event that may be emitted; ExtensionError for anything else."""
    if isinstance(event, Notice):
        level = event.level if event.level in _LEVELS else "info"
        return Notice(str(event.text), level, str(event.hint))
    if not isinstance(event, Event):
        raise ExtensionError(f"{_short(event)} is no event of vikingpi.events")
    return event


def _message(given: object) -> bool:
    if isinstance(given, AssistantMessage):
        return _parts(given.content, (TextPart, ThinkingPart, ToolCall))
    return isinstance(given, Message) and _parts(given.content, (TextPart, ImagePart))


def _parts(content: object, kinds: tuple[type, ...]) -> bool:
    """Tell whether these are parts whose fields hold what they are said to hold."""
    return isinstance(content, (list, tuple)) and all(
        isinstance(part, kinds) and isinstance(part[0], str) and (len(part) == 1 or _json(part[1:]))
        for part in cast("list[Any]", content)
    )


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _short(answer: object) -> str:
    try:
        text = repr(answer)
    except Exception:  # noqa: BLE001 - its author may have got that wrong as well
        text = f"an object of {type(answer).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
