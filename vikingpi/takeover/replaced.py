"""What stands for older history on a branch, and what stood for it before. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vikingpi.decode import as_dict, as_str
from vikingpi.session.entries import Entry
from vikingpi.takeover.state import STATE, TakeoverState, View
from vikingpi.untrusted import harmless
from vikingpi.values import NamedTuple
from vikingpi.viking.overview import cut_sections


class Replacement(NamedTuple):
    """A text in the place of history, as the model is shown it; `turns` and `archive` are those of an overview.

    `timestamp` is that of the entry which first held it for these turns. A compaction has no turns.
    """

    text: str
    timestamp: str
    turns: int = 0
    archive: str = ""


class Replaced(NamedTuple):
    """`now` is None where all history stands as it was said; `reset` says why an overview was withdrawn."""

    now: Replacement | None = None
    before: Replacement | None = None
    reset: str = ""


def replaced(branch: Sequence[Entry], shown: View, budget: int) -> Replaced:
    """Find what replaces history now and the one before it, which says something else. `budget` in tokens."""
    found = list(_replacements(branch, budget))
    now = Replacement(shown.summary.strip(), "")
    if shown.covered >= 0:
        now = now._replace(text=_as_shown(shown.summary, budget))
    if not now.text:
        return Replaced(reset=shown.reset)
    at = next((n for n in range(len(found) - 1, -1, -1) if found[n].text == now.text), -1)
    if at < 0:
        return Replaced(now, reset=shown.reset)
    newest = found[at]
    while at > 0 and found[at - 1].text == newest.text:
        at -= 1
        if found[at][2:] == newest[2:]:
            newest = found[at]
    return Replaced(newest, found[at - 1] if at else None, shown.reset)


def _replacements(branch: Sequence[Entry], budget: int) -> Iterator[Replacement]:
    for entry in branch:
        if entry.type == "compaction":
            yield Replacement(as_str(entry.raw.get("summary")).strip(), entry.timestamp)
        elif entry.type == "custom" and entry.raw.get("customType") == STATE:
            state = TakeoverState.from_data(as_dict(entry.raw.get("data")))
            if state.overview.strip() and state.covered_user_turns > 0:
                text = _as_shown(state.overview, budget)
                yield Replacement(text, entry.timestamp, state.covered_user_turns, state.archive_id)


def _as_shown(overview: str, budget: int) -> str:
    return cut_sections(harmless(overview), budget).strip()
