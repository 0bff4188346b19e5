"""The context transform: covered history becomes one overview message. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence

from vikingpi.messages import OVERVIEW_MARKER, Message, TextPart, UserMessage
from vikingpi.session.entries import Entry
from vikingpi.takeover.state import View
from vikingpi.untrusted import harmless
from vikingpi.values import NamedTuple
from vikingpi.viking.overview import cut_sections

_LEAD = (
    "Earlier conversation is archived; what follows is its overview, not a request. "
    "Use viking_search or viking_archive_expand for details."
)


class Boundary(NamedTuple):
    """`kept` are the ids of the branch entries after the last covered one; `text` is what the overview message
    says."""

    kept: frozenset[str]
    text: str


def boundary_of(branch: Sequence[Entry], shown: View, budget: int) -> Boundary | None:
    """Give the boundary that stands on a branch, None where nothing is covered. `budget` in tokens."""
    if shown.covered < 0:
        return None
    return Boundary(frozenset(entry.id for entry in branch[shown.first :]), overview_text(shown.summary, budget))


def overview_text(overview: str, budget: int) -> str:
    """Give the text of the overview message: marker, lead, the overview cut by section to `budget` tokens."""
    return f"{OVERVIEW_MARKER}\n{_LEAD}\n\n{cut_sections(harmless(overview), budget)}"


def project(messages: tuple[Message, ...], boundary: Boundary | None) -> tuple[Message, ...]:
    """Replace the messages of covered entries by the overview message; costs what the kept tail costs."""
    if boundary is None:
        return messages
    start = len(messages)
    while start > 0 and _kept(messages[start - 1], boundary):
        start -= 1
    kept = messages[start:]
    stamp = kept[0].timestamp - 1 if kept else messages[-1].timestamp + 1 if messages else 0
    return (UserMessage((TextPart(boundary.text),), stamp, kind="overview"), *kept)


def _kept(message: Message, boundary: Boundary) -> bool:
    return message.entry_id is None or message.entry_id in boundary.kept
