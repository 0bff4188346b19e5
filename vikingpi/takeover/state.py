"""The persisted state of takeover and what a branch says about it. Pure: no I/O, no clock.

A state is a `custom` entry `ov-takeover`. Six of its keys are those of the published pi extension, so that either
program reads the other's file; `fingerprint` and the two counts of user turns follow that extension's rules
(lengths in UTF-16 code units, texts that begin with the marker are not counted). Inside vpi everything goes by
entry ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from vikingpi.decode import Json, as_dict, as_int, as_list, as_str
from vikingpi.messages import OVERVIEW_MARKER
from vikingpi.session.entries import Entry
from vikingpi.session.tree import records
from vikingpi.values import NamedTuple

STATE = "ov-takeover"
OFF = "ov-off"
_ROLES = ("user", "assistant", "toolResult", "bashExecution")


class TakeoverState(NamedTuple):
    """`last_covered_entry_id` is empty where nothing is covered; `generation` is empty in a state of pi's.

    `covered_turns` counts every covered user turn, `covered_user_turns` those that pi would count. `extra` holds what
    resume needs from before the kept tail: name, model, thinkingLevel, totals.
    """

    covered_user_turns: int = 0
    overview: str = ""
    fingerprint: str | None = None
    pending_tokens: int = 0
    last_seen_user_turns: int = 0
    synced_entry_count: int = 0
    last_covered_entry_id: str = ""
    generation: str = ""
    archive_id: str = ""
    covered_turns: int = 0
    extra: Json | None = None

    def to_data(self) -> Json:
        """Give the entry's `data`."""
        return {
            "coveredUserTurns": self.covered_user_turns,
            "overview": self.overview,
            "fingerprint": self.fingerprint,
            "pendingTokens": self.pending_tokens,
            "lastSeenUserTurns": self.last_seen_user_turns,
            "syncedEntryCount": self.synced_entry_count,
            "lastCoveredEntryId": self.last_covered_entry_id or None,
            "generation": self.generation,
            "archiveId": self.archive_id or None,
            "coveredTurns": self.covered_turns,
            **(self.extra or {}),
        }

    @staticmethod
    def from_data(data: Json) -> TakeoverState:
        known = ("name", "model", "thinkingLevel", "totals")
        return TakeoverState(
            covered_user_turns=as_int(data.get("coveredUserTurns")),
            overview=as_str(data.get("overview")),
            fingerprint=as_str(data.get("fingerprint")) or None,
            pending_tokens=as_int(data.get("pendingTokens")),
            last_seen_user_turns=as_int(data.get("lastSeenUserTurns")),
            synced_entry_count=as_int(data.get("syncedEntryCount")),
            last_covered_entry_id=as_str(data.get("lastCoveredEntryId")),
            generation=as_str(data.get("generation")),
            archive_id=as_str(data.get("archiveId")),
            covered_turns=as_int(data.get("coveredTurns", data.get("coveredUserTurns"))),
            extra={key: data[key] for key in known if key in data},
        )


class View(NamedTuple):
    """What a branch says: `first` is the index of the first entry that is still shown as it is, `covered` that of
    the last one an accepted overview speaks for (-1: none), `summary` what the request shows for all before `first`.

    `generation` is the one the newest state of ours names (or empty); `adopt` is True when the newest state is one
    that pi wrote, so that a generation of ours has to be opened; `reset` says why a boundary does not hold.
    """

    first: int = 0
    covered: int = -1
    summary: str = ""
    state: TakeoverState | None = None
    generation: str = ""
    adopt: bool = False
    reset: str = ""
    compacted: bool = False


def is_user(entry: Entry) -> bool:
    """Whether the entry begins a user turn."""
    return entry.type == "message" and as_dict(entry.raw.get("message")).get("role") == "user"


def is_message(entry: Entry) -> bool:
    """Whether the entry can become a message of a request."""
    if entry.type == "message":
        return as_dict(entry.raw.get("message")).get("role") in _ROLES
    return entry.type in ("custom_message", "branch_summary")


def entry_text(entry: Entry) -> str:
    """Join the entry's text blocks."""
    source = as_dict(entry.raw.get("message")) if entry.type == "message" else entry.raw
    content = source.get("content")
    if isinstance(content, str):
        return content
    blocks = (as_dict(block) for block in as_list(content))
    return "".join(as_str(block.get("text")) for block in blocks if block.get("type") == "text")


def fingerprint(entry: Entry) -> str:
    """Give pi's `role:length:first 200` of an entry as written, counted in UTF-16 code units."""
    role = as_str(as_dict(entry.raw.get("message")).get("role")) if entry.type == "message" else "custom"
    units = entry_text(entry).encode("utf-16-le", "surrogatepass")
    return f"{role}:{len(units) // 2}:{units[:400].decode('utf-16-le', 'surrogatepass')}"


def off_entries(branch: Sequence[Entry]) -> frozenset[int]:
    """Indexes of the entries that were made while capturing was switched off."""
    off: set[int] = set()
    start = -1
    for index, entry in records(branch):
        if entry.type == "custom" and entry.raw.get("customType") == OFF:
            on = as_dict(entry.raw.get("data")).get("on") is True
            if on and start >= 0:
                off.update(range(start, index))
            start = -1 if on else (index if start < 0 else start)
    if start >= 0:
        off.update(range(start, len(branch)))
    return frozenset(off)


def is_off(branch: Sequence[Entry]) -> bool:
    """Whether the newest switch on the branch says off."""
    for _, entry in reversed(records(branch)):
        if entry.type == "custom" and entry.raw.get("customType") == OFF:
            return as_dict(entry.raw.get("data")).get("on") is not True
    return False


def view(branch: Sequence[Entry]) -> View:
    """Read boundary, summary and generation off a branch."""
    found = records(branch)
    states = [
        (index, as_dict(entry.raw.get("data")))
        for index, entry in found
        if entry.type == "custom" and entry.raw.get("customType") == STATE
    ]
    ours = next((state for state in reversed(states) if as_str(state[1].get("generation"))), None)
    adopt = bool(states) and not as_str(states[-1][1].get("generation"))
    at, data = ours or (states[-1] if states else (-1, None))
    state = TakeoverState.from_data(data) if data is not None else None
    generation = state.generation if state is not None else ""
    compaction = next((index for index, entry in reversed(found) if entry.type == "compaction"), -1)
    shown = _compacted(branch, compaction)._replace(state=state, generation=generation, adopt=adopt)
    if state is None or at < compaction:
        return shown
    covered = _covered(branch, at, state)
    if covered == -1 or 0 <= covered < shown.first:
        return shown
    if covered == -2:
        return shown._replace(reset="the last covered entry is not on this branch")
    if state.fingerprint is not None and not _alike(state.fingerprint, fingerprint(branch[covered])):
        return shown._replace(reset="the last covered entry is not the one that was archived")
    return shown._replace(first=covered + 1, covered=covered, summary=state.overview, compacted=False)


def counted_turns(branch: Sequence[Entry], until: int) -> tuple[int, int]:
    """Give pi's counts (covered, last seen) for a boundary after index `until`, counted on from the newest state."""
    now = view(branch)
    base = now.state.covered_user_turns if now.state is not None and now.covered >= 0 else 0
    start = now.first
    pis = [i for i in range(start, len(branch)) if is_user(branch[i]) and not _marked(branch[i])]
    return base + sum(1 for i in pis if i <= until), base + len(pis)


def covered_turns(shown: View) -> int:
    """Give how many user turns the overview that stands on a branch speaks for."""
    return shown.state.covered_turns if shown.state is not None and shown.covered >= 0 else 0


def turns_before(branch: Sequence[Entry], shown: View) -> int:
    """Give how many covered user turns lie before a branch of which only the end was read."""
    here = sum(1 for entry in branch[: shown.covered + 1] if is_user(entry))
    return max(0, covered_turns(shown) - here)


def _marked(entry: Entry) -> bool:
    blocks = as_list(as_dict(entry.raw.get("message")).get("content"))
    first = as_dict(blocks[0]) if blocks else {}
    if first.get("type") == "text" and as_str(first.get("text"), "-")[:1] not in OVERVIEW_MARKER[:1]:
        return False  # most texts can be told by their first character
    return entry_text(entry).startswith(OVERVIEW_MARKER)


def _compacted(branch: Sequence[Entry], compaction: int) -> View:
    if compaction < 0:
        return View()
    raw = branch[compaction].raw
    kept = as_str(raw.get("firstKeptEntryId"))
    first = next((i for i in range(compaction - 1, -1, -1) if branch[i].id == kept), compaction)
    return View(first=first, summary=as_str(raw.get("summary")), compacted=True)


def _covered(branch: Sequence[Entry], at: int, state: TakeoverState) -> int:
    """Index of the last covered entry, -1: nothing is covered, -2: it is missing."""
    if state.generation:
        if not state.last_covered_entry_id:
            return -1
        return next((i for i in range(at - 1, -1, -1) if branch[i].id == state.last_covered_entry_id), -2)
    if state.covered_user_turns <= 0 or not state.overview.strip():
        return -1
    kept = state.last_seen_user_turns - state.covered_user_turns
    users = [i for i in range(at) if is_user(branch[i]) and not _marked(branch[i])]
    if kept < 0 or kept > len(users):
        return -2
    end = users[-kept] if kept else at
    return next((i for i in range(end - 1, -1, -1) if is_message(branch[i])), -2)


def _alike(one: str, other: str) -> bool:
    """Compare fingerprints; half of a surrogate pair at the cut may have been replaced on its way through a file."""
    return _whole(one) == _whole(other)


def _whole(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
