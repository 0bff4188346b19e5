"""What a row finds, as a table for people and JSON for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """Median, first and third quartile."""

    middle: float
    low: float
    high: float


class Compared(NamedTuple):
    """Two commands by turns. Ratios are first to second, pair by pair, and `added` is the first less the second in ms;
    a budget is the most that a median may be."""

    name: str
    sides: tuple[str, str]
    pairs: int
    wall_ms: tuple[float, float]
    wall: Spread
    budget: float | None
    cpu: Spread
    memory_mib: tuple[float, float]
    memory: Spread
    memory_budget: float | None
    added: Spread

    @property
    def kept(self) -> bool:
        return _within(self.wall.middle, self.budget) and _within(self.memory.middle, self.memory_budget)


class Single(NamedTuple):
    """One figure; `budget` is the most it may be, or with `at_least` the least."""

    name: str
    value: float
    unit: str
    budget: float | None = None
    note: str = ""
    at_least: bool = False

    @property
    def kept(self) -> bool:
        if self.at_least:
            return self.budget is None or self.value >= self.budget
        return _within(self.value, self.budget)


class Skipped(NamedTuple):
    """A row that cannot be measured here, and why."""

    name: str
    why: str

    @property
    def kept(self) -> bool:
        return True


class Failed(NamedTuple):
    """A row that broke off, and why."""

    name: str
    why: str

    @property
    def kept(self) -> bool:
        return False


Figure = Compared | Single | Skipped | Failed


def as_json(figure: Figure) -> dict[str, Any]:
    """Give the figure with its kind and whether its budget is kept."""
    fields: dict[str, Any] = figure._asdict()
    for name, value in fields.items():
        if isinstance(value, Spread):
            fields[name] = value._asdict()
    return {"kind": type(figure).__name__.lower(), **fields, "kept": figure.kept}


def table(figures: Sequence[Figure]) -> str:
    """Write the comparisons, then the single figures, then what was skipped or broke off, in Markdown."""
    lines: list[str] = []
    compared = [figure for figure in figures if isinstance(figure, Compared)]
    if compared:
        heads = ("row", "ms", "ratio (quartiles)", "budget", "CPU ratio", "MiB", "memory ratio", "budget", "")
        lines += _rows(heads, [_compared(each) for each in compared])
    single = [figure for figure in figures if isinstance(figure, Single)]
    if single:
        lines += ["", *_rows(("figure", "value", "budget", "", "note"), [_single(each) for each in single])]
    skipped = [figure for figure in figures if isinstance(figure, Skipped)]
    lines += [f"skipped: {each.name}: {each.why}" for each in skipped]
    lines += [f"FAILED: {each.name}: {each.why}" for each in figures if isinstance(each, Failed)]
    return "\n".join(lines).strip("\n") + "\n"


def _compared(each: Compared) -> tuple[str, ...]:
    spread = f"{each.wall.middle:.3f} ({each.wall.low:.3f} - {each.wall.high:.3f})"
    return (
        f"{each.name}: {each.sides[0]} / {each.sides[1]}",
        f"{each.wall_ms[0]:.0f} / {each.wall_ms[1]:.0f}",
        spread,
        _budget(each.budget),
        f"{each.cpu.middle:.3f}",
        f"{each.memory_mib[0]:.1f} / {each.memory_mib[1]:.1f}",
        f"{each.memory.middle:.3f}",
        _budget(each.memory_budget),
        "ok" if each.kept else "MISSED",
    )


def _single(each: Single) -> tuple[str, ...]:
    verdict = "" if each.budget is None else "ok" if each.kept else "MISSED"
    limit = "" if each.budget is None else f"{'>=' if each.at_least else '<='} {_number(each.budget)}"
    return each.name, f"{_number(each.value)} {each.unit}".strip(), limit, verdict, each.note


def _rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[at]) for line in (heads, *rows)) for at in range(len(heads))]
    lines = [heads, ["-" * width for width in widths], *rows]
    return [
        "| " + " | ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _budget(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _within(value: float, budget: float | None) -> bool:
    return budget is None or value <= budget
