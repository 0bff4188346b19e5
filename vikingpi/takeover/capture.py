"""Capture: turning entries of a branch into messages for the store. Pure: no I/O, no clock.

Capture is faithful: what was said is what is stored. Only empty texts and status lines of a memory extension stay
out, and what was said while capturing was off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from vikingpi.decode import Json, as_dict, as_int, as_list, as_str
from vikingpi.session.entries import Entry
from vikingpi.session.tree import records
from vikingpi.takeover.state import entry_text, is_message, is_user, off_entries
from vikingpi.tokens import estimate
from vikingpi.values import NamedTuple
from vikingpi.viking.base import SEED_TITLE, MessageKind, StoreMessage
from vikingpi.viking.ledger import NewRow

STATUS_LINE = "[openviking-memory]"
_UNSTORABLE = re.compile("[\\x00\ud800-\udfff]")
UNANSWERED = "The call was interrupted; there is no result."


class CaptureOptions(NamedTuple):
    """Lengths in characters; `mask` hides secrets and is applied to every text before it leaves this module,
    `mask_json` likewise to the arguments of tool calls."""

    max_text: int
    max_tool_output: int
    peer_id: str
    mask: Callable[[str], str]
    mask_json: Callable[[Json], Json] = as_dict


class Unit(NamedTuple):
    """Entries that become one message: `key` is the first one's id, `end` the index of the last one.

    An incomplete unit still waits for tool results; nothing after it is captured.
    """

    key: str
    end: int
    complete: bool
    start: int
    turn_id: str


def units(branch: Sequence[Entry], first: int = 0, off: frozenset[int] = frozenset()) -> Iterator[Unit]:
    """Group the entries from index `first` on, as far as they are asked for."""
    replaced = _withdrawn(branch, first)
    turn = next((branch[i].id for i in range(first - 1, -1, -1) if is_user(branch[i])), "")
    for index in range(first, len(branch)):
        entry = branch[index]
        if not is_message(entry):
            continue
        if is_user(entry):
            turn = entry.id
        if index in off or entry.id in replaced or not _speaks(entry):
            continue
        end, complete = _answered(branch, index, off)
        yield Unit(entry.id, end, complete, index, turn or entry.id)


def _answered(branch: Sequence[Entry], index: int, off: frozenset[int]) -> tuple[int, bool]:
    """Give the index of the last result of an entry's calls, and whether no result is waited for any more."""
    open_calls, end = set(_calls(branch[index])), index
    for following in range(index + 1, len(branch) if open_calls else 0):
        if not is_message(branch[following]):
            continue
        if _role(branch[following]) != "toolResult":
            return end, True
        open_calls.discard(as_str(as_dict(branch[following].raw["message"]).get("toolCallId")))
        if following not in off:
            end = following
    return end, not open_calls


def captured_end(found: Iterable[Unit], keys: frozenset[str], default: int) -> int:
    """Give the index of the last captured entry: the watermark."""
    return max((unit.end for unit in found if unit.key in keys), default=default)


def row_of(branch: Sequence[Entry], unit: Unit, options: CaptureOptions) -> NewRow:
    """Make the ledger row of a complete unit."""
    return row_from(message_of(branch, unit, options))


def seed_row(generation: str, summary: str, created_at: str, options: CaptureOptions) -> NewRow:
    """Make the first row of a generation that begins with what the request already shows as a summary."""
    mark = f"seed:{generation}"
    text = options.mask(_clean(f"{SEED_TITLE}\n{summary}"))
    return row_from(
        StoreMessage(
            "user", ({"type": "text", "text": text},), created_at, mark, (mark,), options.peer_id, "tool_transport"
        )
    )


def message_of(branch: Sequence[Entry], unit: Unit, options: CaptureOptions) -> StoreMessage:
    """Make the store's message of a complete unit."""
    entry = branch[unit.start]
    role = _role(entry)
    text = _safe(_text(entry), entry.id, options.max_text, options)
    parts: list[Json] = [{"type": "text", "text": text}] if text.strip() else []
    marks = [entry.id]
    if role == "assistant":
        results: dict[str, list[Entry]] = {}
        for other in branch[unit.start + 1 : unit.end + 1]:
            if _role(other) == "toolResult":
                results.setdefault(as_str(as_dict(other.raw["message"]).get("toolCallId")), []).append(other)
                marks.append(other.id)
        for call in _call_blocks(entry):
            answers = results.get(as_str(call.get("id")), [])
            parts.append(_tool_part(call, answers.pop(0) if answers else None, options))
    kind: MessageKind = "" if role in ("user", "assistant") else "tool_transport"
    return StoreMessage(
        "assistant" if role == "assistant" else "user",
        tuple(parts),
        entry.timestamp,
        unit.turn_id,
        tuple(dict.fromkeys(marks)),
        options.peer_id,
        kind,
    )


def refused_message(message: StoreMessage, *, placeholder: bool) -> StoreMessage:
    """Give what is tried instead of a refused message: plain text, or a placeholder that names the entry."""
    if placeholder:
        text = f"[a message could not be stored; its text is entry {message.marks[0]} of the session file]"
    else:
        text = "\n".join(_flat(part) for part in message.parts)[:20_000]
    marks = (refusal_mark(message.marks[0]), *message.marks) if placeholder else message.marks
    return message._replace(parts=({"type": "text", "text": text or "(empty)"},), marks=marks)


def refusal_mark(entry_id: str) -> str:
    """Give the mark by which a placeholder is told from the message it stands for."""
    return f"refused:{entry_id}"


class Target(NamedTuple):
    """What an advance would cover: up to and with this entry, which stands at branch index `at`."""

    entry_id: str
    at: int
    user_turns: int


def choose_target(
    branch: Sequence[Entry], *, first: int, covered: int, keep_turns: int, running: bool, captured: int, dead: int
) -> Target | None:
    """Choose the first user turns but the last `keep_turns`; None where that covers nothing new.

    The user turn that is running never belongs to it, nor anything after index `captured`, nor a refused message
    (at or after index `dead`), nor a stretch that was kept away from the store.
    """
    users = [i for i, entry in enumerate(branch) if is_user(entry)]
    off = [i for i in sorted(off_entries(branch)) if is_message(branch[i])]
    limit = min(captured, dead - 1, off[0] - 1 if off else len(branch))
    turns = min(len(users) - keep_turns, len(users) - 1 if running else len(users))
    while turns > 0:
        end = (users[turns] if turns < len(users) else len(branch)) - 1
        while end >= 0 and not is_message(branch[end]):
            end -= 1
        if end <= limit:
            return Target(branch[end].id, end, turns) if end > max(covered, first - 1) else None
        turns -= 1
    return None


def row_from(message: StoreMessage) -> NewRow:
    """Make the ledger row of a message."""
    body = json.dumps(message.to_json(), ensure_ascii=False)
    return NewRow(message.marks[0], sum(estimate(_flat(part)) for part in message.parts), body)


def _role(entry: Entry) -> str:
    return as_str(as_dict(entry.raw.get("message")).get("role")) if entry.type == "message" else entry.type


def _speaks(entry: Entry) -> bool:
    """Whether an entry becomes a message of its own."""
    role = _role(entry)
    if role == "toolResult" or (role == "bashExecution" and as_dict(entry.raw["message"]).get("excludeFromContext")):
        return False
    text = _text(entry)
    return bool(_calls(entry)) or (bool(text.strip()) and not (role == "user" and text.startswith(STATUS_LINE)))


def _text(entry: Entry) -> str:
    role = _role(entry)
    if role == "branch_summary":
        return as_str(entry.raw.get("summary"))
    if role == "bashExecution":
        message = as_dict(entry.raw["message"])
        code = message.get("exitCode")
        ended = "" if code in (0, None) else f"\n(exit {as_int(code)})"
        return f"Ran `{as_str(message.get('command'))}`\n{as_str(message.get('output'))}{ended}"
    return "\n".join(piece for piece in (entry_text(entry), *_images(entry)) if piece)


def _images(entry: Entry) -> list[str]:
    blocks = [as_dict(block) for block in as_list(as_dict(entry.raw.get("message")).get("content"))]
    return [
        f"[image {as_str(block.get('mimeType'))} {max(1, len(as_str(block.get('data'))) * 3 // 4 // 1024)} kB]"
        for block in blocks
        if block.get("type") == "image"
    ]


def _call_blocks(entry: Entry) -> list[Json]:
    if _role(entry) != "assistant":
        return []
    blocks = (as_dict(block) for block in as_list(as_dict(entry.raw["message"]).get("content")))
    return [block for block in blocks if block.get("type") == "toolCall"]


def _calls(entry: Entry) -> list[str]:
    return [as_str(block.get("id")) for block in _call_blocks(entry)]


def _withdrawn(branch: Sequence[Entry], first: int) -> frozenset[str]:
    """Failed attempts that a retry has replaced."""
    dropped = {
        as_str(entry.raw.get("targetId"))
        for index, entry in records(branch)
        if index >= first and entry.type == "context_edit" and entry.raw.get("replacement") is None
    }
    if not dropped:
        return frozenset()
    failed = (entry for entry in branch[first:] if entry.id in dropped and _role(entry) == "assistant")
    return frozenset(entry.id for entry in failed if as_dict(entry.raw["message"]).get("stopReason") == "error")


def _tool_part(call: Json, result: Entry | None, options: CaptureOptions) -> Json:
    output, status = UNANSWERED, "error"
    if result is not None:
        output = _safe(_text(result), result.id, options.max_tool_output, options)
        status = "error" if as_dict(result.raw["message"]).get("isError") is True else "completed"
    return {
        "type": "tool",
        "tool_id": as_str(call.get("id")),
        "tool_name": options.mask(_clean(as_str(call.get("name")))),
        "tool_input": options.mask_json(_storable(as_dict(call.get("arguments")))),
        "tool_output": output,
        "tool_status": status,
    }


def _storable(value: Json) -> Json:
    """Clean the strings of a tool's input where they stand, and bound its depth."""

    def walk(item: object, depth: int) -> object:
        if isinstance(item, str):
            return _clean(item)
        if depth > 24:
            return "(nested too deep)"
        if isinstance(item, dict):
            return {_clean(str(key)): walk(inner, depth + 1) for key, inner in as_dict(cast(object, item)).items()}
        if isinstance(item, list):
            return [walk(inner, depth + 1) for inner in as_list(cast(object, item))]
        return item

    return as_dict(walk(value, 0))


def _safe(text: str, entry_id: str, limit: int, options: CaptureOptions) -> str:
    """Mask, then cut: half a secret would not be recognised."""
    text = options.mask(_clean(text))
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n...(cut: {len(text) - limit} more characters in entry {entry_id} of the session file)"


def _clean(text: str) -> str:
    """Replace what no JSON store can hold: NUL and halves of surrogate pairs."""
    return _UNSTORABLE.sub("\ufffd", text)


def _flat(part: Json) -> str:
    if part.get("type") == "text":
        return as_str(part.get("text"))
    call = json.dumps(part.get("tool_input"), ensure_ascii=False)
    return f"{as_str(part.get('tool_name'))} {call}\n{as_str(part.get('tool_output'))}"
