"""What an advance would archive. Pure: branch and ledger rows in, a plan or a reason out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vikingpi.session.entries import Entry
from vikingpi.takeover.capture import Target, Unit, captured_end, choose_target, units
from vikingpi.takeover.state import View, is_message, is_user, off_entries, turns_before
from vikingpi.values import NamedTuple
from vikingpi.viking.ledger import Row


class Plan(NamedTuple):
    """What a commit is to archive. `mark` is the first mark of the last captured entry of the target, `keep` the
    number of stored messages after the target."""

    target_entry_id: str
    user_turns: int
    keep: int
    pressure: int
    mark: str


class Stored(NamedTuple):
    """A branch and what the ledger knows of it; `pressure` in tokens."""

    branch: Sequence[Entry]
    shown: View
    rows: Sequence[Row]
    pressure: int


def plan_advance(stored: Stored, keep_turns: int, *, running: bool) -> Plan | str:
    """Plan to archive all user turns but the last `keep_turns`, or say why there is nothing to archive."""
    found = _units(stored)
    target = choose_target(
        stored.branch,
        first=stored.shown.first,
        covered=stored.shown.covered,
        keep_turns=keep_turns,
        running=running,
        captured=_captured(stored, found),
        dead=_dead(stored),
    )
    if target is None:
        return stopped(stored) or "there is no further user turn to archive"
    return _plan(
        stored, found, target._replace(user_turns=target.user_turns + turns_before(stored.branch, stored.shown))
    )


def plan_before(stored: Stored, first_kept: str) -> Plan | str:
    """Plan to archive everything before the entry `first_kept`, or say why not."""
    branch, found = stored.branch, _units(stored)
    end = next((i for i in range(place(branch, first_kept) - 1, -1, -1) if is_message(branch[i])), -1)
    if end < stored.shown.first or end > _captured(stored, found) or end >= _dead(stored) or _off(branch):
        return "not everything before the kept part is stored"
    turns = sum(1 for entry in branch[: end + 1] if is_user(entry)) + turns_before(branch, stored.shown)
    return _plan(stored, found, Target(branch[end].id, end, turns))


def stopped(stored: Stored) -> str:
    """Say what the boundary can never move over, or nothing."""
    if _off(stored.branch):
        return "the boundary stops before what was said while capturing was off"
    return "the boundary stops before a message that the store refused" if _dead(stored) < len(stored.branch) else ""


def _off(branch: Sequence[Entry]) -> bool:
    return any(is_message(branch[index]) for index in off_entries(branch))


def mark_of(stored: Stored, target_entry_id: str) -> str | None:
    """Give the first mark of the last captured entry of a target, None when it is not on this branch."""
    at = place(stored.branch, target_entry_id)
    if at < 0:
        return None
    inside = [row.entry_id for row, end in ends(stored.branch, stored.rows) if 0 <= end <= at]
    return inside[-1] if inside else target_entry_id


def ends(branch: Sequence[Entry], rows: Sequence[Row]) -> list[tuple[Row, int]]:
    """Pair each row with the branch index of its last entry; a seed stands before everything, at -1."""
    keys = {row.entry_id for row in rows}
    first = next((i for i, entry in enumerate(branch) if entry.id in keys), len(branch))
    at = {unit.key: unit.end for unit in _upto_last(units(branch, first), rows)}
    seeds = {row.entry_id: -1 for row in rows if row.entry_id.startswith("seed:")}
    known = {**at, **seeds}
    return [(row, known[row.entry_id]) for row in rows if row.entry_id in known]


def place(branch: Sequence[Entry], entry_id: str) -> int:
    """Give the index of an entry on a branch, -1 when it is not there."""
    return next((i for i in range(len(branch) - 1, -1, -1) if branch[i].id == entry_id), -1)


def first_uncaptured(stored: Stored) -> int:
    """Give the index of the first entry that still waits for its capture, the branch's length when there is none."""
    keys = {row.entry_id for row in stored.rows}
    found = units(stored.branch, stored.shown.first, off_entries(stored.branch))
    return next((unit.start for unit in found if unit.key not in keys), len(stored.branch))


def uncaptured(stored: Stored) -> int:
    """Give how many messages of the branch are complete and not in the ledger yet."""
    keys = {row.entry_id for row in stored.rows}
    found = units(stored.branch, stored.shown.first, off_entries(stored.branch))
    return sum(1 for unit in found if unit.complete and unit.key not in keys)


def _units(stored: Stored) -> tuple[Unit, ...]:
    found = units(stored.branch, stored.shown.first, off_entries(stored.branch))
    return tuple(_upto_last(found, stored.rows))


def _upto_last(found: Iterable[Unit], rows: Sequence[Row]) -> Iterator[Unit]:
    """Go on to the last unit that has a row: a backlog that is still to be captured costs nothing here."""
    last = rows[-1].entry_id if rows else ""
    for unit in found:
        yield unit
        if unit.key == last:
            return


def _captured(stored: Stored, found: Sequence[Unit]) -> int:
    return captured_end(found, frozenset(row.entry_id for row in stored.rows), stored.shown.first - 1)


def _dead(stored: Stored) -> int:
    """Give the index of the first refused message; 0 when it lies before the part of the branch that was read."""
    refused = {row.entry_id for row in stored.rows if row.state == "dead"}
    here = [i for i, entry in enumerate(stored.branch) if entry.id in refused]
    return 0 if len(here) < len(refused) else min(here, default=len(stored.branch))


def _plan(stored: Stored, found: Sequence[Unit], target: Target) -> Plan | str:
    keys = {row.entry_id for row in stored.rows}
    inside = [unit.key for unit in found if unit.end <= target.at and unit.key in keys]
    if not inside:
        return "nothing of it was captured"
    after = {unit.key for unit in found if unit.end > target.at}
    keep = sum(1 for row in stored.rows if row.entry_id in after and row.state in ("done", "dead"))
    return Plan(target.entry_id, target.user_turns, keep, stored.pressure, inside[-1])
