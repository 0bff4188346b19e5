"""Paths in the tree of entries, and where a file that was just opened goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vikingpi.session.entries import Entry

CONVERSATION = frozenset({"message", "custom_message", "branch_summary", "compaction"})


def path_to(by_id: Mapping[str, Entry], entry_id: str | None) -> tuple[list[Entry], str]:
    """Return root to `entry_id`, and a notice if the way to the root is broken."""
    path: list[Entry] = []
    seen: set[str] = set()
    notice = ""
    while entry_id is not None:
        entry = by_id.get(entry_id)
        if entry is None or entry_id in seen:
            what = "is missing" if entry is None else "is its own ancestor"
            notice = f"entry {entry_id} {what}: the history before it cannot be reached"
            break
        seen.add(entry_id)
        path.append(entry)
        entry_id = entry.parent_id
    path.reverse()
    return path, notice


def choose_leaf(entries: Sequence[Entry], by_id: Mapping[str, Entry]) -> tuple[str | None, str]:
    """Return where the file goes on, and a notice if that is not its last entry.

    It is the last entry, unless that is metadata on another branch than the newest part of the conversation: then
    it is the last entry that has this part among its ancestors.
    """
    if not entries:
        return None, ""
    last = entries[-1]
    if last.type in CONVERSATION:
        return last.id, ""
    place = next((i for i in range(len(entries) - 1, -1, -1) if entries[i].type in CONVERSATION), -1)
    if place < 0:
        return last.id, ""
    newest = entries[place]
    if any(entry.id == newest.id for entry in path_to(by_id, last.id)[0]):
        return last.id, ""
    leaf = newest.id
    below = {newest.id}
    for entry in entries[place + 1 :]:
        if entry.parent_id in below:
            below.add(entry.id)
            leaf = entry.id
    return leaf, f"the last entry ({last.type}) is on an older branch; going on at the newest message"
