"""One session as one HTML page: no script, nothing that is fetched, everything in it masked and escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from vikingpi.decode import Json, as_dict
from vikingpi.export.calls import Pictures
from vikingpi.export.chart import OpenCommit
from vikingpi.export.figures import Figures, replay
from vikingpi.export.ink import Ink, fair_limit
from vikingpi.export.markup import Html, counted, tag
from vikingpi.export.outline import Branch, branch_links, outline, side_branches
from vikingpi.export.style import STYLE
from vikingpi.export.tables import takeover, usage_table
from vikingpi.export.transcript import Scene, results_in, show_entries
from vikingpi.redact import Redactor, count_masks
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog
from vikingpi.session.leaf import CONVERSATION
from vikingpi.session.navigate import TreeRow, text_of_entry, tree_rows
from vikingpi.session.tree import labels_of, name_of
from vikingpi.takeover.plan import place
from vikingpi.takeover.state import is_message, is_user

_OPEN_OUTLINE = 40


class Snapshot(NamedTuple):
    """A session as it is now: all entries, the current branch from its root on, and the tree."""

    id: str
    cwd: str
    file: str
    entries: tuple[Entry, ...]
    branch: tuple[Entry, ...]
    rows: tuple[TreeRow, ...]
    notices: tuple[str, ...] = ()


def snapshot(log: SessionLog) -> Snapshot:
    """Take an open session as it is now; SessionError if its file cannot be read."""
    log.known.load()
    return Snapshot(log.id, log.cwd, str(log.path or ""), log.entries, log.branch(), tree_rows(log), log.notices)


class Pending(NamedTuple):
    """A commit whose overview is not there yet, as the ledger keeps it; `started_at` in ms since the epoch."""

    target_entry_id: str
    user_turns: int
    started_at: int


class Rendered(NamedTuple):
    """`masked` counts the different secrets that are hidden, `cut` shortened texts."""

    html: str
    masked: int
    cut: int


def render(
    session: Snapshot, redactor: Redactor | None, budget: int, written: str, pending: Sequence[Pending] = ()
) -> Rendered:
    """Make the page. Without a redactor secrets stay, and the page says so; `budget` is that of the overview in
    tokens, `written` the time as it is to be shown."""
    ink = Ink(redactor, fair_limit(_lengths(session.entries)))
    figures = replay(session.branch, budget)
    branches = side_branches(session.rows)
    anchors = _anchors(session, branches, figures)
    links = branch_links(branches, ink, anchors)
    labels = labels_of(session.entries)
    moves = {advance.entry_id: advance for advance in figures.advances}
    scene = Scene(ink, Pictures(), anchors, labels, moves, links.get, _boundary(session, figures))
    title = ink.line(_title(session), 120)
    body = [
        _section("takeover", "Takeover", *takeover(figures, _open(session, figures, pending), anchors)),
        _section("usage", "Usage and cost", usage_table(session.entries, session.branch, ink)),
        _section("tree", "Prompts and branches", _outline(session, anchors, ink)),
        _section("transcript", "Transcript", links.get("", ""), *show_entries(scene, session.branch)),
    ]
    if branches:
        body.append(_section("branches", "Other branches", *(_branch(scene, branch) for branch in branches)))
    masked = count_masks("".join((title, *body)))
    secrets = f"{masked:,} masked as [masked:...]" if ink.masks else "not masked"
    head = _header(session, title, ink, (("exported", written), ("secrets", secrets)), scene.pictures.left_out)
    page = tag("html", _head(title), tag("body", head, tag("main", *body)), lang="en")
    return Rendered(f"<!DOCTYPE html>\n{page}\n", masked, ink.cut)


def _head(title: str) -> Html:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", http_equiv="x-dns-prefetch-control", content="off"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )


def _header(session: Snapshot, title: str, ink: Ink, more: Sequence[tuple[str, str]], images: int) -> Html:
    prompts = sum(map(is_user, session.branch))
    size = f"{len(session.branch):,} of {len(session.entries):,} entries"
    facts = (
        ("session", ink.line(session.id)),
        ("folder", ink.line(ink.literal(session.cwd))),
        ("file", ink.line(ink.literal(session.file)) or "(not kept)"),
        ("current branch", f"{counted(prompts, 'prompt')}, {size}"),
        *more,
    )
    names = ["takeover", "usage", "tree", "transcript"]
    if not all(row.on_branch for row in session.rows):
        names.append("branches")
    nav = tag("nav", tag("ul", *(tag("li", tag("a", name, href=f"#{name}")) for name in names)), aria_label="Sections")
    parts = [tag("h1", title), tag("dl", *_pairs(facts), cls="facts")]
    if not ink.masks:
        parts.append(tag("p", "captureRedact is false: secrets stand in this page as they were said.", cls="warning"))
    if ink.cut:
        parts.append(tag("p", f"{ink.cut:,} long texts are shortened; the session file has them whole.", cls="note"))
    if images:
        parts.append(tag("p", f"{images:,} images are left out; the session file has them.", cls="note"))
    parts += [tag("p", ink.line(notice, 400), cls="note") for notice in session.notices]
    return tag("header", *parts, nav, _controls())


def _controls() -> Html:
    choices = (("unfold", "unfold everything"), ("no-tools", "hide tools"), ("no-thoughts", "hide thoughts"))
    boxes = (tag("label", tag("input", type_="checkbox", id=name), text, for_=name) for name, text in choices)
    return tag("div", *boxes, cls="controls", role="group", aria_label="What is shown")


def _pairs(facts: Sequence[tuple[str, str]]) -> Iterator[Html]:
    for name, value in facts:
        yield tag("dt", name)
        yield tag("dd", value)


def _section(name: str, title: str, *body: Html | str) -> Html:
    return tag("section", tag("h2", title), *body, id=name)


def _outline(session: Snapshot, anchors: dict[str, str], ink: Ink) -> Html:
    listed = outline(session.rows, anchors, ink)
    prompts = sum(is_user(row.entry) for row in session.rows)
    return tag("details", tag("summary", counted(prompts, "prompt")), listed, open=prompts <= _OPEN_OUTLINE)


def _branch(scene: Scene, branch: Branch) -> Html:
    back = tag("a", "where it goes off", href=f"#f{branch.number}")
    prompts = sum(map(is_user, branch.entries))
    title = f"Branch {branch.number}: {counted(prompts, 'prompt')}, {len(branch.entries):,} entries"
    shown = show_entries(scene, branch.entries, branch.turns)
    return tag("details", tag("summary", title), tag("p", back), *shown, cls="branch", id=branch.anchor)


def _anchors(session: Snapshot, branches: Sequence[Branch], figures: Figures) -> dict[str, str]:
    """Name the places of all entries that are shown; a result stands with its call."""
    moves = {advance.entry_id for advance in figures.advances}
    anchors = {
        entry.id: f"e{number}"
        for number, entry in enumerate(session.entries, 1)
        if entry.type in CONVERSATION or entry.id in moves
    }
    for path in (session.branch, *(branch.entries for branch in branches)):
        for answer, result in results_in(path):
            anchors[result.entry_id or ""] = anchors[answer]
    return anchors


def _open(session: Snapshot, figures: Figures, pending: Sequence[Pending]) -> tuple[OpenCommit, ...]:
    """Place the open commits that belong to the current branch."""
    found: list[OpenCommit] = []
    for commit in pending:
        end = place(session.branch, commit.target_entry_id)
        inside = [n for n, at in enumerate(figures.answers, 1) if figures.shown.first <= at <= end]
        if end < 0 or not inside:
            continue
        times = (as_dict(session.branch[at].raw.get("message")).get("timestamp") for at in figures.answers)
        before = sum(1 for time in times if isinstance(time, int) and time <= commit.started_at)
        found.append(OpenCommit((inside[0], inside[-1]), before, commit.user_turns))
    return tuple(found)


def _boundary(session: Snapshot, figures: Figures) -> str:
    """Return the first entry that the next request shows as it was said, "" where nothing is covered."""
    kept = session.branch[figures.shown.first :] if figures.shown.covered >= 0 else ()
    return next((entry.id for entry in kept if is_message(entry)), "")


def _title(session: Snapshot) -> str:
    said = (text_of_entry(entry).strip() for entry in session.branch if is_user(entry))
    return name_of(session.entries) or next((text for text in said if text), "") or f"Session {session.id}"


def _lengths(entries: Sequence[Entry]) -> Iterator[int]:
    """Yield the lengths of the texts of all entries, without images and signatures."""
    waiting: list[Any] = [entry.raw for entry in entries]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield len(value)
        elif isinstance(value, dict):
            fields = cast(Json, value)
            image = fields.get("type") == "image"
            waiting += [part for key, part in fields.items() if key != ("data" if image else "thinkingSignature")]
        elif isinstance(value, list):
            waiting += cast("list[Any]", value)
