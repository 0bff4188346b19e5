"""One session as one HTML page: no script, nothing that is fetched, everything in it masked and escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

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
from vikingpi.values import NamedTuple

_OPEN_OUTLINE = 40
# More of them make no page that a browser likes to show.
MOST_ENTRIES = 20_000


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


class Options(NamedTuple):
    """`budget` is that of the overview in tokens, `written` the time as it is to be shown, `pending` the open commits
    of the session."""

    budget: int
    written: str
    pending: Sequence[Pending] = ()
    most_entries: int = MOST_ENTRIES


class Rendered(NamedTuple):
    """`masked` counts the different secrets that are hidden, `cut` shortened texts."""

    html: str
    masked: int
    cut: int


def render(session: Snapshot, redactor: Redactor | None, options: Options) -> Rendered:
    """Make the page. Without a redactor secrets stay, and the page says so."""
    shown = session.branch[-options.most_entries :]
    branches = _fitting(side_branches(session.rows), options.most_entries - len(shown))
    paths = (shown, *(branch.entries for branch in branches))
    ink = Ink(redactor, fair_limit(length for path in paths for length in _lengths(path)))
    figures = replay(session.branch, options.budget)
    anchors = _anchors(session, paths, figures)
    links = branch_links(branches, ink, frozenset(entry.id for path in paths for entry in path))
    labels = labels_of(session.entries)
    moves = {advance.entry_id: advance for advance in figures.advances}
    scene = Scene(ink, Pictures(), anchors, labels, moves, links.get, _boundary(session, figures))
    title = ink.line(_title(session), 120)
    sections = {
        "takeover": ("Takeover", *takeover(figures, _open(session, figures, options.pending), anchors)),
        "usage": ("Usage and cost", usage_table(session.entries, session.branch, ink)),
        "tree": ("Prompts and branches", _outline(session, anchors, ink)),
        "transcript": ("Transcript", links.get("", ""), *_transcript(scene, session.branch, len(shown))),
        "branches": ("Other branches", *(_branch(scene, branch) for branch in branches)),
    }
    if not branches:
        del sections["branches"]
    body = [tag("section", tag("h2", name), *parts, id=anchor) for anchor, (name, *parts) in sections.items()]
    masked = count_masks("".join((title, *body)))
    facts = [
        *_facts(session, ink),
        ("exported", options.written),
        ("secrets", (f"{masked:,} masked as [masked:...]" if masked else "none found") if ink.masks else "not masked"),
    ]
    notes = _notes(session, ink, scene.pictures.left_out, len(session.rows) - sum(map(len, paths)))
    head = [tag("h1", title), _described(facts), *notes, _navigation(sections), _controls()]
    page = tag("html", _head(title), tag("body", tag("header", *head), tag("main", *body)), lang="en")
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


def _facts(session: Snapshot, ink: Ink) -> Iterator[tuple[str, str]]:
    yield "session", ink.line(session.id)
    yield "folder", ink.line(ink.literal(session.cwd))
    yield "file", ink.line(ink.literal(session.file)) or "(not kept)"
    prompts = counted(sum(map(is_user, session.branch)), "prompt")
    yield "current branch", f"{prompts}, {len(session.branch):,} of {len(session.entries):,} entries"


def _notes(session: Snapshot, ink: Ink, images: int, entries: int) -> Iterator[Html]:
    """Say what a reader would miss; `images` and `entries` are left out of the page."""
    if not ink.masks:
        yield tag("p", "captureRedact is false: secrets stand in this page as they were said.", cls="warning")
    if ink.cut:
        yield tag("p", f"{ink.cut:,} long texts are shortened; the session file has them whole.", cls="note")
    if images:
        yield tag("p", f"{images:,} images are left out; the session file has them.", cls="note")
    if entries:
        yield tag("p", f"{entries:,} older entries are left out; the session file has them.", cls="note")
    for notice in session.notices:
        yield tag("p", ink.line(notice, 400), cls="note")


def _navigation(names: Iterable[str]) -> Html:
    links = (tag("li", tag("a", name, href=f"#{name}")) for name in names)
    return tag("nav", tag("ul", *links), aria_label="Sections")


def _controls() -> Html:
    choices = (("unfold", "unfold everything"), ("no-tools", "hide tools"), ("no-thoughts", "hide thoughts"))
    boxes = (tag("label", tag("input", type_="checkbox", id=name), text, for_=name) for name, text in choices)
    return tag("div", *boxes, cls="controls", role="group", aria_label="What is shown")


def _described(facts: Iterable[tuple[str, str]]) -> Html:
    items = ((tag("dt", name), tag("dd", value)) for name, value in facts)
    return tag("dl", *(item for pair in items for item in pair), cls="facts")


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


def _transcript(scene: Scene, branch: Sequence[Entry], shown: int) -> Iterator[Html]:
    """Show the last entries of the current branch."""
    left_out = branch[: len(branch) - shown]
    yield from show_entries(scene, branch[len(left_out) :], sum(map(is_user, left_out)))


def _fitting(branches: Sequence[Branch], most: int) -> tuple[Branch, ...]:
    """Choose branches with so many entries together, the last ones first."""
    chosen: list[Branch] = []
    for branch in reversed(branches):
        most -= len(branch.entries)
        if most >= 0:
            chosen.insert(0, branch)
    return tuple(chosen)


def _anchors(session: Snapshot, paths: Sequence[Sequence[Entry]], figures: Figures) -> dict[str, str]:
    """Name the places of all entries that are shown; a result stands with its call."""
    numbers = {entry.id: number for number, entry in enumerate(session.entries, 1)}
    moves = {advance.entry_id for advance in figures.advances}
    anchors: dict[str, str] = {}
    for path in paths:
        for entry in path:
            if entry.type in CONVERSATION or entry.id in moves:
                anchors[entry.id] = f"e{numbers[entry.id]}"
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
