"""The store-side copy of the current branch: which generation mirrors it and how far it was captured.

Everything here happens in the foreground of a turn's end and touches only the session file and the ledger.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from vikingpi.agent.hooks import HookContext
from vikingpi.decode import Json, as_dict
from vikingpi.session.entries import Entry
from vikingpi.session.tree import grew, records
from vikingpi.takeover.boundary import Boundary, boundary_of
from vikingpi.takeover.capture import UNANSWERED, CaptureOptions, row_of, seed_row, units
from vikingpi.takeover.delivery import Link
from vikingpi.takeover.plan import Stored, ends, first_uncaptured, place
from vikingpi.takeover.state import (
    STATE,
    TakeoverState,
    View,
    counted_turns,
    fingerprint,
    is_message,
    is_off,
    is_user,
    off_entries,
    turns_before,
    view,
)
from vikingpi.values import NamedTuple
from vikingpi.viking.base import PROFILE_ENTRY, archive_name
from vikingpi.viking.ledger import CommitRow, Generation, NewRow


class SessionRef(NamedTuple):
    """The session being mirrored. `fresh`: this process made the file. `extras` gives what a state keeps for resume,
    told whether the state covers something.

    After a resume the branch may begin with what the newest state covers last: `skipped` counts the entries before
    it, `load` brings them back. `moved`: the leaf was moved and no message was added there.
    `suffix` is for a generation of its own, beside those of takeover.
    """

    id: str
    file: str
    fresh: bool
    extras: Callable[[bool], Json]
    suffix: str = ""
    skipped: Callable[[], int] = lambda: 0
    load: Callable[[], None] = lambda: None
    moved: Callable[[], bool] = lambda: False


class _Reached(NamedTuple):
    """What the last capture left: the generation's id, the branch as it was then, the index where the rest begins."""

    generation: int
    branch: Sequence[Entry]
    at: int


class Mirror:
    """Captures the branch and moves its boundary. `behind`: the last capture left something to the next one."""

    def __init__(self, link: Link, ctx: HookContext, session: SessionRef, options: CaptureOptions) -> None:
        self._link = link
        self._ctx = ctx
        self.session = session
        self._options = options
        self.mask = options.mask
        self.behind = False
        self._rest = 0
        self._reached: _Reached | None = None
        self._opened = False
        self._seen: tuple[tuple[str, int], View, Boundary | None] | None = None

    def view(self) -> View:
        """What the current branch says."""
        return self._look()[1]

    def boundary(self) -> Boundary | None:
        """The boundary that stands on the current branch."""
        return self._look()[2]

    def generation(self) -> Generation | None:
        """The generation that mirrors this branch, None before its first capture."""
        own, named = f"pi-{self.session.id}", self.view().generation
        name = named if named.startswith(f"{own}__") and not self.session.suffix else own + self.session.suffix
        return self._link.ledger.generations.get(self._link.row.id, name)

    def stored(self, generation: Generation) -> Stored:
        """What the ledger knows of the current branch."""
        ledger = self._link.ledger
        rows, figures = ledger.messages.all(generation.id), ledger.generations.figures(generation.id)
        return Stored(self._ctx.branch(), self.view(), rows, figures.pressure)

    def capture(self, limit: int | None = None) -> int:
        """Bring every complete entry into the ledger; return how many messages were new.

        With `limit` at most about so many, oldest first, and `behind` says whether there are more; the next call goes
        on there without looking at what lies before again.
        """
        reached, self._reached = self._reached, None
        branch, shown, generation = self._ctx.branch(), self.view(), self.generation()
        ledger = self._link.ledger
        if is_off(branch) or self.session.moved():
            return 0
        virgin = self.session.fresh and not self._opened and shown.state is None
        if shown.adopt or (generation is None and not virgin):
            return self.begin(None, limit)
        if generation is None:
            with ledger.database.transaction():
                rows = self._rows(branch, 0, limit)
                self._opened = self._opened or bool(rows)
                made = _open(self._link, self.session, f"pi-{self.session.id}", failures=0) if rows else None
                return ledger.messages.insert(made.id, rows) if made is not None else 0
        if any(not row.body for row in ledger.messages.next(generation.id, "sending", 1_000_000)):
            return self.begin(None, limit)  # capturing was off and on again before anybody knew what had arrived
        if reached is not None and reached.generation == generation.id and grew(branch, reached.branch):
            tokens, first, again = {}, reached.at, 0
        else:
            tokens = {row.entry_id: row.tokens for row in ledger.messages.all(generation.id)}
            keys = [key for key in tokens if not key.startswith("seed:")]
            branch, keys = _overlap(self.session, self._ctx, keys)
            places = {entry.id: index for index, entry in enumerate(branch)}
            if any(key not in places for key in keys):
                return self.begin(None, limit)
            first, again = max((places[key] for key in keys), default=self.view().first), 1
        rows = self._rows(branch, first, None if limit is None else limit + again)
        if rows and UNANSWERED in rows[0].body and tokens.get(rows[0].entry_id, rows[0].tokens) != rows[0].tokens:
            return self.begin(None, limit)  # the call was answered on another branch, and its result is on the store
        inserted = ledger.messages.insert(generation.id, rows)
        self._reached = _Reached(generation.id, branch, self._rest) if self.behind else None
        return inserted

    def apply(self, generation: Generation, commit: CommitRow, overview: str, archive: int) -> bool:
        """Move the boundary to the commit's target: the state first, then the ledger. True when it moved."""
        branch, shown = self._ctx.branch(), self.view()
        at = place(branch, commit.target_entry_id)
        if at < 0 or self.session.moved():
            return False
        behind = [row.seq for row, end in ends(branch, self._link.ledger.messages.all(generation.id)) if end <= at]
        if at >= shown.first:
            self._write_state(generation.name, at, overview, archive)
            self._link.log({"event": "boundary", "entry": commit.target_entry_id, "archive": archive})
        self._link.ledger.commits.finish(generation.id, behind[-1] if behind else 0)
        return at >= shown.first

    def write_state(self) -> None:
        """Persist what stands now, unless the newest state on the branch is newer than every message."""
        shown, generation = self.view(), self.generation()
        if generation is None or shown.adopt or self.session.moved():
            return
        for entry in reversed(self._ctx.branch()):
            if entry.type == "custom" and entry.raw.get("customType") == STATE:
                return
            if is_message(entry) or entry.type == "compaction":
                break
        self._write_state(generation.name, shown.covered, shown.summary if shown.covered >= 0 else "", 0)

    def _look(self) -> tuple[tuple[str, int], View, Boundary | None]:
        branch = self._ctx.branch()
        place = (branch[-1].id if branch else "", len(branch))
        if self._seen is not None and self._seen[2] is None and _only_said(branch, self._seen[0]):
            self._seen = (place, *self._seen[1:])
        if self._seen is None or self._seen[0] != place:
            shown = view(branch)
            budget = self._ctx.settings.takeover.overview_budget
            self._seen = (place, shown, boundary_of(branch, shown, budget))
        return self._seen

    def begin(self, given_up: Generation | None, limit: int | None = None) -> int:
        """Open a new generation, seeded with what the request shows, in place of one that was given up.

        The state is written first, then one transaction; 0 means that there is nothing to capture yet. `limit` as in
        `capture`.
        """
        shown = self.view()
        if self.session.moved() or not self._rows(self._ctx.branch(), shown.first, 1):
            return 0
        name = f"pi-{self.session.id}__{secrets.token_hex(4)}"
        self._write_state(name, shown.covered, shown.summary if shown.covered >= 0 else "", 0)
        branch = self._ctx.branch()
        rows = self._rows(branch, shown.first, limit)
        heard_off = shown.covered < 0 and any(i < shown.first and is_message(branch[i]) for i in off_entries(branch))
        if shown.summary and not heard_off:
            stamp = datetime.fromtimestamp(self._link.now() / 1000, UTC).isoformat(timespec="milliseconds")
            rows.insert(0, seed_row(name, shown.summary, stamp.replace("+00:00", "Z"), self._options))
        ledger = self._link.ledger
        self._link.log({"event": "generation", "name": name, "messages": len(rows)})
        with ledger.database.transaction():
            if given_up is not None:
                ledger.generations.drop(given_up.id)
            self._opened = True
            generation = _open(self._link, self.session, name, failures=given_up.failures if given_up else 0)
            inserted = ledger.messages.insert(generation.id, rows)
        self._reached = _Reached(generation.id, branch, self._rest) if self.behind else None
        return inserted

    def _rows(self, branch: Sequence[Entry], first: int, limit: int | None) -> list[NewRow]:
        """Make the ledger rows of the complete units from `first` on, up to the first incomplete one."""
        made: list[NewRow] = []
        self.behind = False
        for unit in units(branch, first, off_entries(branch)):
            if not unit.complete:
                break
            if len(made) == limit:
                self.behind, self._rest = True, unit.start
                break
            made.append(row_of(branch, unit, self._options))
        return made

    def _write_state(self, generation: str, covered: int, overview: str, archive: int) -> None:
        hidden = max(covered, self.view().first - 1)
        if (profile := _hidden_profile(self._ctx.branch(), hidden)) is not None:
            self._ctx.append_custom(PROFILE_ENTRY, profile)
        branch, shown, known = self._ctx.branch(), self.view(), self.generation()
        turns, seen = counted_turns(branch, covered)
        users = sum(1 for entry in branch[: covered + 1] if is_user(entry))
        stored = self.stored(known) if known is not None else None
        archive_id = archive_name(archive) if archive else shown.state.archive_id if shown.state is not None else ""
        state = TakeoverState(
            covered_user_turns=turns if covered >= 0 else 0,
            overview=overview,
            fingerprint=fingerprint(branch[covered]) if covered >= 0 else None,
            pending_tokens=stored.pressure if stored is not None else 0,
            last_seen_user_turns=seen,
            synced_entry_count=self.session.skipped()
            + (first_uncaptured(stored) if stored is not None else len(branch)),
            last_covered_entry_id=branch[covered].id if covered >= 0 else "",
            generation=generation,
            archive_id=archive_id if covered >= 0 else "",
            covered_turns=turns_before(branch, shown) + users if covered >= 0 else 0,
            extra=self.session.extras(covered >= 0),
        )
        self._ctx.append_custom(STATE, state.to_data())


def _open(link: Link, session: SessionRef, name: str, failures: int) -> Generation:
    return link.ledger.generations.open(link.row.id, name, session.id, session.file, failures)


def _only_said(branch: Sequence[Entry], before: tuple[str, int]) -> bool:
    """Whether a branch that ended with this id at this length has got nothing more that a view depends on."""
    last, length = before
    if not 0 < length <= len(branch) or branch[length - 1].id != last:
        return False
    return all(entry.type not in ("custom", "compaction") for entry in branch[length:])


def _hidden_profile(branch: Sequence[Entry], hidden: int) -> Json | None:
    """Give the pinned profile when it stands up to index `hidden`: covered or swallowed, a resume would not read it."""
    for index, entry in reversed(records(branch)):
        if entry.type == "custom" and entry.raw.get("customType") == PROFILE_ENTRY:
            return as_dict(entry.raw.get("data")) if index <= hidden else None
    return None


def _overlap(session: SessionRef, ctx: HookContext, keys: list[str]) -> tuple[Sequence[Entry], list[str]]:
    """Give the branch and those keys that must be on it.

    Where only the end of the branch was read, the keys of older entries say nothing; where none is left, all is read.
    """
    branch = ctx.branch()
    if not session.skipped() or not keys:
        return branch, keys
    there = {entry.id for entry in branch}
    later = next((keys[place:] for place, key in enumerate(keys) if key in there), None)
    if later is not None:
        return branch, later
    session.load()
    return ctx.branch(), keys
