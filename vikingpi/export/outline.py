"""The tree of a session: an outline that leads to every prompt, and the branches that were left, each in its place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from vikingpi.decode import as_dict
from vikingpi.export.ink import Ink
from vikingpi.export.markup import Html, tag
from vikingpi.messages import AssistantMessage
from vikingpi.session.entries import Entry, message_from_json
from vikingpi.session.leaf import CONVERSATION
from vikingpi.session.navigate import TreeRow, text_of_entry
from vikingpi.takeover.state import is_user
from vikingpi.values import NamedTuple

MOST_ROWS = 4000
_DEEPEST = 12
_PLACES = {"branch_summary": "(summary of another branch)", "compaction": "(compaction)"}


class Branch(NamedTuple):
    """A run of entries beside the current branch, up to where the tree parts again; `number` from 1, `turns` counts
    the user turns before it."""

    number: int
    entries: tuple[Entry, ...]
    turns: int

    @property
    def anchor(self) -> str:
        return f"b{self.number}"

    @property
    def parent(self) -> str | None:
        return self.entries[0].parent_id


def side_branches(rows: Sequence[TreeRow]) -> tuple[Branch, ...]:
    """Find the branches beside the current one, in the order of the tree."""
    runs: list[list[Entry]] = []
    turns: dict[str | None, int] = {}
    last = ""
    for row in rows:
        entry = row.entry
        turns[entry.id] = turns.get(entry.parent_id, 0) + is_user(entry)
        if not row.on_branch:
            if not runs or entry.parent_id != last:
                runs.append([])
            runs[-1].append(entry)
            last = entry.id
        else:
            last = ""
    return tuple(Branch(n, tuple(run), turns.get(run[0].parent_id, 0)) for n, run in enumerate(runs, 1))


def branch_links(branches: Sequence[Branch], ink: Ink, known: Collection[str]) -> dict[str, Html]:
    """Return for each entry that branches go off after what links to them; "" stands for the root."""
    found: dict[str, list[Html]] = {}
    for branch in branches:
        where = branch.parent if branch.parent in known else ""
        title = next((_title(entry, ink) for entry in branch.entries if is_user(entry)), "no prompt of its own")
        found.setdefault(where or "", []).append(
            tag(
                "p", "Another branch goes off here: ", tag("a", title, href=f"#{branch.anchor}"), id=f"f{branch.number}"
            )
        )
    return {parent: tag("div", *links, cls="fork") for parent, links in found.items()}


def outline(rows: Sequence[TreeRow], anchors: Mapping[str, str], ink: Ink) -> Html:
    """List prompts, summaries and what has a label, the current branch marked; leads to each."""
    shown = [row for row in rows if _is_shown(row) and row.entry.id in anchors]
    more = len(shown) - MOST_ROWS
    if more > 0:
        note = f"{more:,} more prompts of this session are not listed here."
        return tag("div", tag("ol", *_items(shown[:MOST_ROWS], anchors, ink), cls="tree"), tag("p", note, cls="note"))
    return tag("ol", *_items(shown, anchors, ink), cls="tree")


def _items(rows: Sequence[TreeRow], anchors: Mapping[str, str], ink: Ink) -> Iterator[Html]:
    for row in rows:
        marks = [tag("span", ink.line(row.label, 80), cls="label")] if row.label else []
        title = tag("a", _title(row.entry, ink), href=f"#{anchors[row.entry.id]}")
        side = [] if row.on_branch else [tag("span", "other branch", cls="quiet")]
        yield tag("li", title, *marks, *side, cls=f"d{min(row.depth, _DEEPEST)}{' here' if row.on_branch else ''}")


def _is_shown(row: TreeRow) -> bool:
    return is_user(row.entry) or row.entry.type in _PLACES or bool(row.label and row.entry.type in CONVERSATION)


def _title(entry: Entry, ink: Ink) -> str:
    if entry.type in _PLACES:
        return _PLACES[entry.type]
    text = ink.line(text_of_entry(entry), 120)
    if text:
        return text
    message = message_from_json(as_dict(entry.raw.get("message")), entry.id)
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return f"[{ink.line(calls[0].name, 80)}]" if calls else "(no text)"
