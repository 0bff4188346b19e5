"""Read the end of a session file: the part of a branch that a resumed session shows, and nothing before it.

The walk goes backwards from the last entry along the parents. It ends at the last entry that the newest takeover
state covers, or at the first one that the newest compaction kept. It says None where only the whole file can tell:
there is neither, another program wrote the newest state, an id occurs twice, the way to the root is broken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.messages import Usage
from vikingpi.session.entries import Entry
from vikingpi.session.leaf import CONVERSATION, choose_leaf, path_to
from vikingpi.session.lines import entry_of, parse_line
from vikingpi.session.tree import (
    STATE_TYPE,
    add_usage,
    level_named_by,
    model_named_by,
    state_data,
    totals_from_json,
    usage_of,
)
from vikingpi.values import NamedTuple

BLOCK = 64 * 1024
SEARCH_LIMIT = 16 * 1024 * 1024
SEARCH_STEP = 1024 * 1024
_BOUNDARY = re.compile(rb'"ov-takeover"|"compaction"')
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]+")
_TELLING = re.compile(rb'"usage"|"ov-takeover"|"session_info"')


class Tail(NamedTuple):
    """The end of a branch. `skipped` is the number of its entries before that, None where nobody has counted them
    or where it has to be read whole before anything of it may be sent to a context store.

    `covered` says that what lies before is known by a takeover state's overview, not by a compaction's summary.
    `name` and `totals` are those of the whole file, None where its end does not tell; `usage` is the part of the
    totals that stands at or after byte `start`.
    """

    entries: tuple[Entry, ...]
    skipped: int | None
    covered: bool
    name: str | None
    totals: Usage | None
    usage: Usage
    start: int
    open_end: bool
    notices: tuple[str, ...]


def read_tail(path: Path, session_id: str, end: int) -> Tail | None:
    """Read the end of the first `end` bytes of a session file of this id; None: read it whole. OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _walk(_Reader(session_id), _lines_backwards(file, end), end, lambda limit: _has_boundary(file, limit))
    finally:
        os.close(file)


def _has_boundary(file: int, end: int) -> bool:
    """Whether something before byte `end` and within SEARCH_LIMIT may end the walk; far quicker than walking there."""
    before = b""
    for start in range(max(0, end - SEARCH_LIMIT), end, SEARCH_STEP):
        block = os.pread(file, min(SEARCH_STEP, end - start), start)
        if _BOUNDARY.search(before[-16:] + block):
            return True
        before = block
    return False


def _walk(reader: _Reader, lines: Iterator[bytes], end: int, may_end: Callable[[int], bool]) -> Tail | None:
    last = next(lines, b"")
    read, looked = len(last), False
    torn = bool(last.strip()) and not reader.take(last)
    for line in lines:
        read += len(line) + 1
        if read > SEARCH_STEP and not reader.goals and not looked:
            looked = True
            if not may_end(end - read):
                return None
        if read > SEARCH_LIMIT and not reader.goals:
            return None
        if line.strip() and not reader.take(line):
            reader.bad += 1
        if reader.lost:
            return None
        if reader.arrived:
            return reader.tail(end - read, open_end=bool(last), torn=torn)
    return None


class _Reader:
    """Takes lines from the last one backwards. `lost` says that the whole file is needed, `arrived` that it is not.

    `goals` are the ids of entries that have to be on the branch before the walk may end.
    """

    def __init__(self, session_id: str) -> None:
        self.goals: set[str] = set()
        self.lost = False
        self.arrived = False
        self.bad = 0
        self._own = f"pi-{session_id}"
        self._recent: list[Entry] = []
        self._branch: list[Entry] = []
        self._want: str | None = None
        self._state: Json | None = None
        self._state_place = 0
        self._compacted = False
        self._covers = False
        self._name: str | None = None
        self._usage = Usage()
        self._totals: Usage | None = None
        self._names_model = self._names_level = False
        self._notice = ""

    def take(self, line: bytes) -> bool:
        """Look at one line; False when nobody can read it."""
        if self._branch and self._may_skip(line):
            return True
        raw = parse_line(line)
        if raw is None:
            return False
        entry = entry_of(raw)
        if entry is None:
            self.lost = True
            return True
        self._note(entry)
        if self._branch:
            if entry.id == self._want:
                self._step(entry)
        else:
            self._recent.append(entry)
            if entry.type in CONVERSATION:
                self._begin()
        return True

    def tail(self, start: int, *, open_end: bool, torn: bool) -> Tail:
        """Return what was found."""
        notices: list[str] = []
        if self.bad:
            lines = "1 unreadable line" if self.bad == 1 else f"{self.bad} unreadable lines"
            notices.append(f"skipped {lines} near the end of the session file")
        if torn:
            notices.append("the last line of the session file is torn; it is ignored")
        if self._notice:
            notices.append(self._notice)
        entries = tuple(reversed(self._branch))
        return Tail(
            entries,
            self._skipped(),
            self._covers,
            self._name,
            self._totals,
            self._usage,
            start,
            open_end,
            tuple(notices),
        )

    def _may_skip(self, line: bytes) -> bool:
        """A line that is neither the next one of the branch nor tells anything about the whole file."""
        if self._want is None or _PLAIN_ID.fullmatch(self._want) is None or self._want.encode() in line:
            return False
        known = self._totals is not None and self._name is not None
        return known or _TELLING.search(line) is None

    def _note(self, entry: Entry) -> None:
        """Add up what counts for the file and not for a branch.

        A state speaks for everything before it; the totals of a state that a fork has copied are another file's.
        """
        data = state_data(entry)
        if self._name is None and entry.type == "session_info":
            self._name = as_str(entry.raw.get("name")).strip()
        elif self._name is None and "name" in data:
            self._name = as_str(data["name"]).strip()
        self._usage = add_usage(self._usage, usage_of(entry))
        own = as_str(data.get("generation")).startswith(self._own)
        if self._totals is None and own and "totals" in data:
            self._totals = add_usage(self._usage, totals_from_json(data["totals"]))

    def _begin(self) -> None:
        """The newest part of the conversation is there: choose the leaf and walk what is known of its branch."""
        entries = self._recent[::-1]
        by_id = {entry.id: entry for entry in entries}
        if len(by_id) < len(entries):
            self.lost = True
            return
        leaf, self._notice = choose_leaf(entries, by_id)
        for entry in reversed(path_to(by_id, leaf)[0]):
            self._step(entry)

    def _step(self, entry: Entry) -> None:
        """Go on to the next older entry of the branch."""
        if self.arrived or self.lost:
            return
        self._branch.append(entry)
        self._want = entry.parent_id
        if entry.type == "custom" and entry.raw.get("customType") == STATE_TYPE and self._state is None:
            self._found_state(state_data(entry))
        elif entry.type == "compaction" and not self._compacted:
            self._compacted = True
            self.goals.add(as_str(entry.raw.get("firstKeptEntryId")) or entry.id)
        self._names_model = self._names_model or all(model_named_by(entry))
        self._names_level = self._names_level or bool(level_named_by(entry))
        self.goals.discard(entry.id)
        decided = self._covers or self._compacted
        self.arrived = decided and not self.goals and self._names_model and self._names_level and self._speaks(entry)
        # Without a parent this is the root: what could not be decided until here takes the whole file.
        self.lost = self.lost or (self._want is None and not self.arrived)

    def _found_state(self, data: Json) -> None:
        """Take the newest state of the branch; what it covers is the goal unless a compaction came after it."""
        if not as_str(data.get("generation")):
            self.lost = not self._compacted
            return
        self._state, self._state_place = data, len(self._branch)
        covered = as_str(data.get("lastCoveredEntryId"))
        if covered and not self._compacted:
            self._covers = True
            self.goals.add(covered)
            self.lost = not isinstance(data.get("entriesBefore"), int)

    def _speaks(self, entry: Entry) -> bool:
        """Whether the walk may end here: a covered tool result goes with the message that called for it."""
        role = as_dict(entry.raw.get("message")).get("role")
        return not self._covers or (entry.type == "message" and role != "toolResult")

    def _skipped(self) -> int | None:
        """Count from the state, which knows its place; a compaction may hide what must not reach a store."""
        if self._state is None:
            return None
        before = self._state.get("entriesBefore")
        if not isinstance(before, int) or (not self._covers and self._state.get("off") is not False):
            return None
        return before - (len(self._branch) - self._state_place)


def _lines_backwards(file: int, end: int) -> Iterator[bytes]:
    """Yield what follows the last newline, then the lines before it, the last one first. OSError if it got shorter."""
    pieces: list[bytes] = []
    while end > 0:
        start = max(0, end - BLOCK)
        block = os.pread(file, end - start, start)
        if len(block) < end - start:
            raise OSError("the file became shorter while it was read")
        end = start
        first, *others = block.split(b"\n")
        if others:
            pieces.append(others.pop())
            yield b"".join(reversed(pieces))
            yield from reversed(others)
            pieces.clear()
        pieces.append(first)
    yield b"".join(reversed(pieces))
