"""What a session has cost, and the figures behind the chart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from vikingpi.export.chart import OpenCommit, draw
from vikingpi.export.figures import Figures, Point
from vikingpi.export.ink import Ink
from vikingpi.export.markup import Html, counted, tag
from vikingpi.messages import Usage
from vikingpi.session.entries import Entry
from vikingpi.session.tree import add_usage, model_named_by, totals_of, usage_of

_MOST_ROWS = 2000
_UNFOLDED = 12
_USED = ("answers", "input", "cache read", "cache write", "output", "cost")


def usage_table(entries: Sequence[Entry], branch: Sequence[Entry], ink: Ink) -> Html:
    """Add up what the whole file has used, by models, and what of it the current branch has."""
    by_model: dict[str, tuple[int, Usage]] = {}
    for entry in entries:
        used = usage_of(entry)
        if used != Usage():
            provider, model = model_named_by(entry)
            name = f"{provider}/{model}" if model else "summaries, overviews and tools"
            count, before = by_model.get(name, (0, Usage()))
            by_model[name] = (count + 1, add_usage(before, used))
    rows = [_used(ink.line(name, 100), count, used) for name, (count, used) in by_model.items()]
    feet = [_used("whole file, all branches", _count(entries), totals_of(entries))]
    if len(branch) < len(entries):
        feet.append(_used("current branch", _count(branch), totals_of(branch)))
    return _table(("model", *_USED), rows, feet)


def takeover(figures: Figures, commits: Sequence[OpenCommit], anchors: Mapping[str, str]) -> Iterator[Html]:
    """Draw the takeover of the branch and write its figures down."""
    points = figures.points
    if not points:
        yield tag("p", "No request was made on this branch.")
        return
    yield draw(figures, commits)
    yield tag("ul", *_legend(figures, commits), cls="legend")
    yield tag("p", " ".join(_explained(figures)), cls="note")
    if figures.advances:
        rows = [
            [
                str(number),
                _to(anchors, advance.entry_id, "here"),
                _range(advance.turns),
                _range(advance.requests),
                f"{advance.tokens_before:,}" if advance.tokens_before else "?",
                f"{advance.tokens_after:,}" if advance.tokens_after else "?",
            ]
            for number, advance in enumerate(figures.advances, 1)
        ]
        head = ("advance", "in the transcript", "user turns archived", "requests archived", "tokens before", "after")
        table = _table(head, rows)
        folded = tag("details", tag("summary", f"All {len(rows):,} advances"), table)
        yield folded if len(rows) > _UNFOLDED else table
    for commit in commits:
        turns = f"the first {commit.turns} user turns" if commit.turns > 1 else "the first user turn"
        yield tag("p", f"A commit of {turns} is open: its overview is not there yet.", cls="note")
    step = -(-len(points) // _MOST_ROWS)
    shown = points[::step]
    title = f"All {len(points):,} figures" if step == 1 else f"{len(shown):,} of {len(points):,} figures"
    head = ("request", "user turn", "as sent", "without takeover", "from")
    yield tag("details", tag("summary", title), _table(head, [_point(point, anchors) for point in shown]))


def _legend(figures: Figures, commits: Sequence[OpenCommit]) -> Iterator[Html]:
    yield tag("li", "tokens as sent", cls="l-sent")
    yield tag("li", "what takeover left out", cls="l-whole")
    if figures.advances or commits:
        yield tag("li", "line: the boundary advanced; bar below: what its commit archived", cls="l-mark")
    if figures.compactions:
        yield tag("li", "compaction", cls="l-compaction")


def _explained(figures: Figures) -> Iterator[str]:
    points = figures.points
    sent, whole = sum(point.sent for point in points), sum(point.whole for point in points)
    if whole > sent:
        share = f"{1 - sent / whole:.0%}"
        yield f"Takeover left out {whole - sent:,} of {whole:,} tokens ({share}) in {counted(len(points), 'request')}."
    recorded = sum(point.recorded for point in points)
    if recorded:
        yield "What was sent is what the model's provider counted; what was left out is estimated."
    if estimated := len(points) - recorded:
        yield f"Where no usage was told ({counted(estimated, 'request')}), the messages alone are estimated."
    if figures.failed:
        yield f"Not shown: {figures.failed:,} that failed or were aborted before anything was counted."
    if missing := len(figures.answers) - len(points) - figures.failed:
        yield f"Not shown: {missing:,} more, since measuring all of them would take too long."
    if figures.compactions:
        yield "Compactions are taken as they were, also for the figures without takeover."


def _point(point: Point, anchors: Mapping[str, str]) -> list[Html | str]:
    return [
        _to(anchors, point.entry_id, str(point.number)),
        str(point.user_turn),
        f"{point.sent:,}",
        f"{point.whole:,}",
        "usage" if point.recorded else "estimate",
    ]


def _to(anchors: Mapping[str, str], entry_id: str, text: str) -> Html | str:
    return tag("a", text, href=f"#{anchors[entry_id]}") if entry_id in anchors else text


def _range(ends: tuple[int, int]) -> str:
    first, last = ends
    return "none" if not last else str(last) if first >= last else f"{first}-{last}"


def _count(entries: Iterable[Entry]) -> int:
    return sum(usage_of(entry) != Usage() for entry in entries)


def _used(name: str, count: int, used: Usage) -> list[Html | str]:
    figures = (count, used.input, used.cache_read, used.cache_write, used.output)
    return [name, *(f"{figure:,}" for figure in figures), f"${used.cost.total:,.4f}"]


def _table(
    head: Sequence[str], rows: Iterable[Sequence[Html | str]], feet: Iterable[Sequence[Html | str]] = ()
) -> Html:
    """Make a table whose columns, but the first, are figures."""
    columns = [tag("th", name, scope="col", cls="right" if at else False) for at, name in enumerate(head)]
    parts = [tag("thead", tag("tr", *columns)), tag("tbody", *map(_row, rows))]
    if lines := [_row(row) for row in feet]:
        parts.append(tag("tfoot", *lines))
    return tag("div", tag("table", *parts), cls="wide", tabindex=0)


def _row(cells: Sequence[Html | str]) -> Html:
    first, *others = cells
    return tag("tr", tag("th", first, scope="row"), *(tag("td", cell, cls="right") for cell in others))
