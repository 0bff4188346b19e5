"""Moves in the tree of a session, and the entries by which a user changes it."""

from __future__ import annotations

from collections.abc import Sequence

from vikingpi.decode import Json, as_dict
from vikingpi.errors import SessionError
from vikingpi.messages import TextPart
from vikingpi.session.entries import Entry, content_from_json
from vikingpi.session.file import SessionLog
from vikingpi.session.tree import labels_of
from vikingpi.values import NamedTuple


class TreeRow(NamedTuple):
    """One entry as a tree view shows it: parents first, `depth` grows where the tree branches."""

    entry: Entry
    depth: int
    label: str
    on_branch: bool
    is_leaf: bool


class Pick(NamedTuple):
    """Where a choice in the tree leads: the new leaf (None: before everything) and a text for the editor."""

    leaf: str | None
    text: str


def tree_rows(log: SessionLog) -> tuple[TreeRow, ...]:
    """Return every entry in display order. SessionError if the rest of the file cannot be read."""
    entries = log.entries
    labels, branch = labels_of(entries), {entry.id for entry in log.branch()}
    known = {entry.id for entry in entries}
    children: dict[str | None, list[Entry]] = {}
    for entry in entries:
        children.setdefault(entry.parent_id if entry.parent_id in known else None, []).append(entry)
    rows: list[TreeRow] = []
    seen: set[str] = set()
    waiting = _below(children.get(None, []), 0)
    while waiting:
        entry, depth = waiting.pop()
        if entry.id not in seen:
            seen.add(entry.id)
            label = labels.get(entry.id, "")
            rows.append(TreeRow(entry, depth, label, entry.id in branch, entry.id == log.leaf_id))
            waiting += _below(children.get(entry.id, []), depth)
    return tuple(rows)


def user_entries(log: SessionLog) -> tuple[Entry, ...]:
    """Return the user messages of the whole branch, oldest first: where `/fork` may begin."""
    leaf = log.leaf_id
    return tuple(entry for entry in log.branch_to(leaf) if _is_user(entry)) if leaf is not None else ()


def pick(log: SessionLog, entry_id: str) -> Pick:
    """Tell where a choice leads: before a user message, whose text may be edited; else to the entry itself.

    SessionError: no such entry.
    """
    entry = log.get(entry_id)
    if entry is None:
        raise SessionError(f"session {log.id} has no entry {entry_id}")
    return Pick(entry.parent_id, text_of_entry(entry)) if _is_user(entry) else Pick(entry_id, "")


def left_behind(log: SessionLog, leaf: str | None) -> tuple[Entry, ...]:
    """Return the entries of the present branch that a move to `leaf` leaves."""
    there = {entry.id for entry in log.branch_to(leaf)} if leaf is not None else set[str]()
    log.known.load()
    return tuple(entry for entry in log.branch() if entry.id not in there)


def set_label(log: SessionLog, target_id: str, label: str) -> Entry:
    """Label an entry; an empty label takes it away. SessionError: no such entry, not writable."""
    if log.get(target_id) is None:
        raise SessionError(f"session {log.id} has no entry {target_id}")
    fields: Json = {"targetId": target_id}
    if label.strip():
        fields["label"] = label.strip()
    return log.append("label", fields)


def set_name(log: SessionLog, name: str) -> Entry:
    """Name the session; an empty name takes it away."""
    return log.append("session_info", {"name": name.strip()})


def edit_context(log: SessionLog, target_id: str, content: str | None) -> Entry:
    """Let the model see another text for an entry of the branch, or, with None, nothing of it.

    The entry itself stays in the file. SessionError: not on the branch.
    """
    if log.get(target_id) is None or target_id not in {entry.id for entry in log.branch()}:
        raise SessionError(f"entry {target_id} is not on the present branch")
    replacement = None if content is None else {"content": [{"type": "text", "text": content}]}
    return log.append("context_edit", {"targetId": target_id, "replacement": replacement})


def add_branch_summary(log: SessionLog, left: Sequence[Entry], summary: str, fields: Json) -> Entry:
    """Put the summary of the entries that were left below the present leaf; `fields` has details and usage."""
    from_id = left[-1].id if left else "root"
    return log.append("branch_summary", {**fields, "fromId": from_id, "summary": summary})


def text_of_entry(entry: Entry) -> str:
    """Return the text of a message entry, images left out."""
    parts = content_from_json(as_dict(entry.raw.get("message")).get("content"))
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def _below(children: Sequence[Entry], depth: int) -> list[tuple[Entry, int]]:
    """Return children with their depth, the first one last: they are taken from the end."""
    deeper = depth + 1 if len(children) > 1 else depth
    return [(child, deeper) for child in reversed(children)]


def _is_user(entry: Entry) -> bool:
    return entry.type == "message" and as_dict(entry.raw.get("message")).get("role") == "user"
