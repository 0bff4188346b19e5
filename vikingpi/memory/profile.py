"""The profile: what is known about the user, in the system prompt of a session from its first prompt to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vikingpi.decode import as_dict, as_str
from vikingpi.session.entries import Entry
from vikingpi.session.tree import records
from vikingpi.untrusted import harmless
from vikingpi.viking.base import PROFILE_ENTRY

_LEAD = "What is known about the user from earlier sessions. Newer statements of the user hold."


def profile_block(text: str) -> str:
    """Write the block, "" for a user of whom nothing is known."""
    if not text.strip():
        return ""
    return f'<openviking-context source="profile">\n{_LEAD}\n\n{harmless(text.strip())}\n</openviking-context>'


def pinned_profile(branch: Sequence[Entry], seal: Callable[[str], str]) -> str | None:
    """Find the block that this session began with; None where none was pinned yet, or only by a stranger."""
    for _, entry in reversed(records(branch)):
        if entry.type == "custom" and entry.raw.get("customType") == PROFILE_ENTRY:
            data = as_dict(entry.raw.get("data"))
            block = as_str(data.get("block"))
            return block if as_str(data.get("seal")) == seal(block) else None
    return None
