"""Where a compaction cuts the history; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vikingpi.agent.context import message_tokens
from vikingpi.config.model import Compaction
from vikingpi.decode import Json, as_dict, as_str
from vikingpi.messages import (
    OVERVIEW_MARKER,
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from vikingpi.session.entries import Entry
from vikingpi.session.tree import build_context
from vikingpi.values import NamedTuple

# A window that is hardly larger than the reserve would otherwise be full from the start.
_LEAST_SHARE = 4
Reason = Literal["manual", "threshold", "overflow"]

_MESSAGES = ("message", "custom_message", "branch_summary", "compaction", "context_edit")


class Plan(NamedTuple):
    """`history` and `turn_prefix` are to be summarised, the latter when the cut goes through a user turn.
    `previous` is the summary that the new one continues, `previous_details` what was stored with it."""

    history: tuple[Message, ...]
    turn_prefix: tuple[Message, ...]
    previous: str
    previous_details: Json
    first_kept_entry_id: str


def token_limit(window: int, settings: Compaction) -> int:
    """Return how many tokens a request may have before it is time to compact."""
    return max(window - settings.reserve_tokens, window // _LEAST_SHARE)


def plan_cut(branch: Sequence[Entry], projected: Sequence[Message], keep: int, why: Reason) -> Plan | None:
    """Plan a compaction that keeps about the newest `keep` tokens; None when nothing lies before the cut.

    After an overflow it keeps less than half of what there is, since estimates have proved too low.

    `projected` says what the model sees: a summary in front of it is continued, the range begins after it. What
    is summarised are the messages as stored, without what hooks put into them.
    """
    stored = {message.entry_id: message for message in build_context(branch)}
    previous, details, items = "", Json(), list[Message]()
    for message in projected:
        if isinstance(message, UserMessage) and message.kind in ("overview", "compaction"):
            previous, details = _previous(message, branch)
            items.clear()
        elif message.entry_id in stored and not _failed(message):
            items.append(stored[message.entry_id])
    if why == "overflow":
        keep = min(keep, sum(map(message_tokens, items)) // 2)
    cut = _find_cut(items, keep, why)
    if cut == 0:
        return None
    start = cut
    if isinstance(items[cut], AssistantMessage):
        start = next((i for i in range(cut - 1, -1, -1) if isinstance(items[i], UserMessage)), cut)
    return Plan(
        tuple(items[:start]), tuple(items[start:cut]), previous, details, _slide_back(branch, items[cut].entry_id)
    )


def _find_cut(items: Sequence[Message], keep: int, why: Reason) -> int:
    """Return the index of the first item to keep; 0 when there is nothing to cut off.

    The item with which `keep` tokens are reached is kept too, but not after an overflow, and not as the very first one
    where room must be made.
    """
    cuts = _valid_cuts(items)
    tokens = 0
    for place in range(len(items) - 1, -1, -1):
        tokens += message_tokens(items[place])
        if tokens >= keep:
            first = {"overflow": place + 1, "threshold": max(place, 1), "manual": place}[why]
            later = next((cut for cut in cuts if cut >= first), None)
            return later if later is not None else max((cut for cut in cuts if cut < first), default=0)
    return 0


def _valid_cuts(items: Sequence[Message]) -> list[int]:
    """Return the places, in order, that no tool call and its result lie on different sides of."""
    called: dict[str, int] = {}
    split: set[int] = set()
    for place, item in enumerate(items):
        if isinstance(item, AssistantMessage):
            called.update((call.id, place) for call in item.calls)
        elif isinstance(item, ToolResultMessage):
            split.update(range(called.get(item.tool_call_id, place - 1) + 1, place + 1))
    return [place for place in range(len(items)) if place not in split]


def _slide_back(branch: Sequence[Entry], entry_id: str | None) -> str:
    """Keep labels, states and the like that lie right before the first kept entry together with it."""
    place = next(i for i, entry in enumerate(branch) if entry.id == entry_id)
    while place and branch[place - 1].type not in _MESSAGES:
        place -= 1
    return branch[place].id


def _failed(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted")


def _previous(summary: UserMessage, branch: Sequence[Entry]) -> tuple[str, Json]:
    if summary.kind == "overview":
        text = text_of(summary)
        return (text.partition("\n\n")[2] or text if text.startswith(OVERVIEW_MARKER) else text), {}
    entry = next(entry for entry in reversed(branch) if entry.type == "compaction")
    details = {} if entry.raw.get("fromHook") is True else as_dict(entry.raw.get("details"))
    return as_str(entry.raw.get("summary")), details
