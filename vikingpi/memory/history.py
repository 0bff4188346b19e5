"""What a branch of a session file says, by user turns and by archives. Pure: no I/O."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from vikingpi.decode import as_dict, as_str
from vikingpi.messages import AssistantMessage, Message, TextPart, ToolCall, ToolResultMessage, UserMessage
from vikingpi.session.entries import Entry, content_from_json, message_from_json
from vikingpi.values import NamedTuple
from vikingpi.viking.words import folded, matches, passages, query_terms, terms

TAKEOVER_ENTRY = "ov-takeover"
CLOSELY = 100


class UserTurn(NamedTuple):
    """A user message and everything up to the next one; `number` from 1, `start` and `stop` are branch indexes."""

    number: int
    start: int
    stop: int


class ArchiveSpan(NamedTuple):
    """The user turns that an archive holds, both ends included."""

    archive_id: str
    first: int
    last: int


class Said(NamedTuple):
    """A passage of a user turn that speaks of a query; `score` is the share of the query's terms."""

    number: int
    score: float
    text: str


def user_turns(branch: Sequence[Entry]) -> tuple[UserTurn, ...]:
    """Find the user turns of a branch."""
    starts = [index for index, entry in enumerate(branch) if _role(entry) == "user"]
    stops = [*starts[1:], len(branch)][: len(starts)]
    return tuple(UserTurn(n, start, stop) for n, (start, stop) in enumerate(zip(starts, stops, strict=True), 1))


def archive_spans(branch: Sequence[Entry]) -> tuple[ArchiveSpan, ...]:
    """Find which user turns each archive took over, from the states of takeover on the branch."""
    places = {entry.id: index for index, entry in enumerate(branch)}
    starts = [turn.start for turn in user_turns(branch)]
    spans: list[ArchiveSpan] = []
    covered = 0
    for entry in branch:
        data = as_dict(entry.raw.get("data")) if entry.raw.get("customType") == TAKEOVER_ENTRY else {}
        archive, last = as_str(data.get("archiveId")), places.get(as_str(data.get("lastCoveredEntryId")), -1)
        ended = bisect_right(starts, last)
        if archive and ended > covered:
            spans.append(ArchiveSpan(archive, covered + 1, ended))
            covered = ended
    return tuple(spans)


def render(branch: Sequence[Entry], turns: Sequence[UserTurn]) -> str:
    """Write user turns out to be read, each under its number."""
    return "\n\n".join(f"=== user turn {turn.number} ===\n{_turn_text(branch, turn)}" for turn in turns)


def search_branch(branch: Sequence[Entry], query: str, limit: int, *, running: bool = False) -> tuple[Said, ...]:
    """Search the user turns of a branch, the best passage of each, best first and of equals the newest.

    `running` leaves out the last one: it is the one that asks.
    Only the turns that hold the most of the query's terms as pieces of text are looked at closely.
    """
    wanted = query_terms(query)
    # An ending may be written otherwise: policy, policies.
    stems = [term[:-1] if len(term) > 3 else term for term in wanted]
    likely: list[tuple[int, int, str]] = []
    turns = user_turns(branch) if wanted else ()
    for turn in turns[:-1] if running else turns:
        text = _turn_text(branch, turn, searched=True)
        plain = folded(text)
        if count := sum(stem in plain for stem in stems):
            likely.append((count, turn.number, text))
    found: list[Said] = []
    for _, number, text in sorted(likely, reverse=True)[:CLOSELY]:
        best = max((_said(number, text[start:stop], wanted) for start, stop in passages(text)), default=None)
        if best is not None and best.score > 0:
            found.append(best)
    found.sort(key=lambda one: (-round(one.score, 1), -one.number))
    return tuple(found[:limit])


def _said(number: int, text: str, wanted: Sequence[str]) -> Said:
    present = frozenset(terms(text))
    return Said(number, sum(matches(term, present) for term in wanted) / len(wanted), text.strip())


def _turn_text(branch: Sequence[Entry], turn: UserTurn, *, searched: bool = False) -> str:
    pieces = (_entry_text(entry, searched=searched) for entry in branch[turn.start : turn.stop])
    return "\n".join(piece for piece in pieces if piece)


def _entry_text(entry: Entry, *, searched: bool) -> str:
    if entry.type == "custom_message":
        return "\n".join(_lines(UserMessage(content_from_json(entry.raw.get("content")), 0), searched=searched))
    message = message_from_json(as_dict(entry.raw.get("message")), entry.id) if entry.type == "message" else None
    return "\n".join(_lines(message, searched=searched)) if message is not None else ""


def _lines(message: Message, *, searched: bool) -> Iterator[str]:
    text = "\n".join(part.text for part in message.content if isinstance(part, TextPart))
    match message:
        case UserMessage():
            yield f"user: {text}"
        case AssistantMessage():
            if text:
                yield f"assistant: {text}"
            for call in message.calls:
                yield f"[{call.name} {_arguments(call)}]"
        case ToolResultMessage():
            if not searched or not message.tool_name.startswith("viking_"):
                yield f"{'failed' if message.is_error else 'result'}: {text}"


def _arguments(call: ToolCall) -> str:
    return call.broken or json.dumps(call.arguments, ensure_ascii=False)


def _role(entry: Entry) -> str:
    return as_str(as_dict(entry.raw.get("message")).get("role")) if entry.type == "message" else ""
