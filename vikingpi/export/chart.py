"""The takeover of a branch as a drawing: tokens of each request as sent and as it would have been without takeover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vikingpi.export.figures import Advance, Figures, Point
from vikingpi.export.markup import Html, counted, join, tag
from vikingpi.values import NamedTuple

_MOST_COLUMNS = 300
_TICKS = 4
# What was sent has a chart of its own where it would be flatter than one in so many.
_SMALL = 6


class OpenCommit(NamedTuple):
    """A commit whose overview is not there yet: the numbers of the requests that it archives, and how many had been
    made when it was asked for."""

    requests: tuple[int, int]
    at: int
    turns: int


class _Plot(NamedTuple):
    """Measures in units of the drawing; `most` is the highest figure in tokens, `requests` how many there are."""

    width: int
    height: int
    left: int
    bottom: int
    top: int
    most: int
    requests: int

    def x(self, number: float) -> float:
        """Where a request stands; halves lie between two of them."""
        return round(self.left + (number - 0.5) * (self.width - self.left - 8) / max(1, self.requests), 1)

    def y(self, tokens: float) -> float:
        return round(self.base - tokens * (self.base - self.top) / max(1, self.most), 1)

    @property
    def base(self) -> int:
        return self.height - self.bottom


def draw(figures: Figures, commits: Sequence[OpenCommit]) -> Html:
    """Draw the chart, and where what was sent is small beside what was left out, a second one of it alone."""
    sent, whole = (max(getter(point) for point in figures.points) for getter in (_sent, _whole))
    charts = [_both(figures, commits, _label(figures), whole, 360)]
    if 0 < sent * _SMALL < whole:
        charts += [
            tag("p", "As sent, on a scale of its own:", cls="note"),
            _both(figures, (), "Tokens as sent, on a scale of their own.", sent, 220),
        ]
    return join(charts)


def _both(figures: Figures, commits: Sequence[OpenCommit], label: str, most: int, height: int) -> Html:
    """Draw a chart for wide and for narrow windows; the page shows the one that fits."""
    return join(
        tag(
            "svg",
            *_drawing(figures, commits, _Plot(width, height, 46, 52, 22, _round_up(most), len(figures.answers))),
            viewBox=f"0 0 {width} {height}",
            role="img",
            aria_label=label,
            cls=f"chart {name}",
        )
        for name, width in (("broad", 960), ("slim", 380))
    )


def _sent(point: Point) -> int:
    return point.sent


def _whole(point: Point) -> int:
    return point.whole


def short(tokens: int) -> str:
    """Write a number of tokens in few characters: 950, 12.3k, 1.2M."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}".removesuffix(".0") + unit
    return str(tokens)


def _label(figures: Figures) -> str:
    last = figures.points[-1]
    return (
        f"Tokens of {counted(len(figures.points), 'request')}. The last one had {last.sent:,} as sent, {last.whole:,}"
        f" without takeover. The boundary moved {counted(len(figures.advances), 'time')}. The table has all figures."
    )


def _round_up(value: int) -> int:
    """Return the next number that divides well into ticks."""
    step = 10 ** max(0, len(str(value)) - 2)
    return -(-value // (step * _TICKS)) * step * _TICKS or _TICKS


def _drawing(figures: Figures, commits: Sequence[OpenCommit], plot: _Plot) -> Iterator[Html]:
    yield from _axes(plot)
    columns = list(_columns(figures.points))
    if max(map(_whole, figures.points)) <= plot.most:
        yield tag("path", d=_area(columns, plot, _whole), cls="whole")
    yield tag("path", d=_area(columns, plot, _sent), cls="sent")
    for number in figures.compactions:
        x = plot.x(number + 0.5)
        yield tag("line", x1=x, x2=x, y1=plot.top, y2=plot.base, cls="compaction")
    crowded = len(figures.advances) > plot.width // 24
    for index, advance in enumerate(figures.advances, 1):
        yield from _advance(index, advance, plot, crowded=crowded)
    for commit in commits:
        yield from _archive(commit.requests, plot, "archive open")
        yield _thread(commit.requests, commit.at, plot)
    yield from _hovers(columns, plot)


def _axes(plot: _Plot) -> Iterator[Html]:
    for tick in range(_TICKS + 1):
        tokens = plot.most * tick // _TICKS
        y = plot.y(tokens)
        yield tag("line", x1=plot.left, x2=plot.width - 8, y1=y, y2=y, cls="grid")
        yield tag("text", short(tokens), x=plot.left - 6, y=y + 4, text_anchor="end")
    yield tag("text", "tokens", x=plot.left - 6, y=12, text_anchor="end")
    for number in sorted({1, *(round(plot.requests * part / 4) or 1 for part in range(1, 5))}):
        x = plot.x(number)
        anchor = "start" if x < plot.left + 10 else "end" if x > plot.width - 24 else "middle"
        x = plot.left + 2 if anchor == "start" else plot.width - 8 if anchor == "end" else x
        yield tag("text", f"{number:,}", x=x, y=plot.base + 16, text_anchor=anchor)
    yield tag("text", "request", x=0, y=plot.base + 16)


def _columns(points: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Put requests that are too many to be drawn together: the first of some, with the highest figures of them all."""
    size = -(-len(points) // _MOST_COLUMNS)
    for start in range(0, len(points), size):
        some = points[start : start + size]
        sent, whole = max(point.sent for point in some), max(point.whole for point in some)
        yield some[0]._replace(sent=sent, whole=whole), some[-1]


def _area(columns: Sequence[tuple[Point, Point]], plot: _Plot, figure: Callable[[Point], int]) -> str:
    pieces: list[str] = []
    for first, last in columns:
        y = plot.y(figure(first))
        pieces.append(f"L{plot.x(first.number - 0.5)} {y}L{plot.x(last.number + 0.5)} {y}")
    start, end = plot.x(columns[0][0].number - 0.5), plot.x(columns[-1][1].number + 0.5)
    return f"M{start} {plot.base}{''.join(pieces)}L{end} {plot.base}Z"


def _advance(index: int, advance: Advance, plot: _Plot, *, crowded: bool) -> Iterator[Html]:
    """Draw a move of the boundary, a short mark where there are too many, and what its commit archived."""
    x = plot.x(advance.at + 0.5)
    yield tag("line", x1=x, x2=x, y1=plot.top, y2=plot.top + 12 if crowded else plot.base, cls="advance")
    yield from _archive(advance.requests, plot, f"archive{' even' if index % 2 == 0 else ''}")
    if not crowded:
        yield tag("text", str(index), x=x, y=plot.top - 6, text_anchor="middle", cls="number")
        if advance.requests[0]:
            yield _thread(advance.requests, advance.at, plot)


def _archive(requests: tuple[int, int], plot: _Plot, kind: str) -> Iterator[Html]:
    """Draw what a commit archived as a bar below the axis."""
    if requests[0]:
        x, end = plot.x(requests[0] - 0.4), plot.x(requests[1] + 0.4)
        yield tag("rect", x=x, y=plot.base + 26, width=max(1.0, round(end - x, 1)), height=9, cls=kind)


def _thread(requests: tuple[int, int], at: int, plot: _Plot) -> Html:
    """Draw a line from what a commit archived to where its overview came in, or is waited for."""
    return tag("path", d=f"M{plot.x(requests[1] + 0.4)} {plot.base + 31}H{plot.x(at + 0.5)}V{plot.base}", cls="thread")


def _hovers(columns: Sequence[tuple[Point, Point]], plot: _Plot) -> Iterator[Html]:
    for first, last in columns:
        x = plot.x(first.number - 0.5)
        numbers = f"request {first.number}" if first.number == last.number else f"requests {first.number}-{last.number}"
        title = f"{numbers}, user turn {first.user_turn}: {first.sent:,} sent, {first.whole:,} without takeover"
        width = max(0.5, round(plot.x(last.number + 0.5) - x, 1))
        height = plot.base - plot.top
        yield tag("rect", tag("title", title), x=x, y=plot.top, width=width, height=height, cls="hover")
