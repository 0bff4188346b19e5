"""The token bill: a session of 200 user turns sent in full, with the default compaction, and with takeover."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from figures import Figure, Single
from lab import Lab
from long_session import UserTurn, user_turns
from token_bill import Bill, Way, replay

from vikingpi.llm.base import Price

TURNS = 200
WAYS: tuple[Way, ...] = ("full history", "default compaction", "takeover")


class Shape(NamedTuple):
    """Prices in US dollars per million tokens; with `marks` the cache is Anthropic's, else a strict prefix cache."""

    name: str
    price: Price
    marks: bool = False


SHAPES = (
    Shape("marks, 10 % for reads, 125 % for writes", Price(3.0, 15.0, 0.3, 3.75), marks=True),
    Shape("automatic, 10 % for reads", Price(1.25, 10.0, 0.125, 1.25)),
    Shape("automatic, 25 % for reads", Price(2.0, 12.0, 0.5, 2.0)),
    Shape("cheap, 10 % for reads", Price(0.28, 0.42, 0.028, 0.28)),
    Shape("no discount", Price(0.6, 2.2, 0.6, 0.6)),
)


def measure(lab: Lab) -> Iterator[Figure]:
    turns = user_turns(TURNS)
    bills: dict[Way, Bill] = {way: _played(lab.folder / "bill", way, turns) for way in WAYS}
    print(tables(bills), file=sys.stderr)
    full, compacted, taken = (bills[way] for way in WAYS)
    note = "at least 91 % fewer than full history"
    yield Single("input tokens of the agent, takeover", taken.agent_input, "", 0.09 * full.input, note)
    yield Single("input tokens with overviews, takeover", taken.input, "", compacted.input, "less than with compaction")
    yield Single("prefix breaks, takeover", taken.breaks, "", taken.moves, f"{taken.moves} advances, one each")
    yield Single("cached between advances", taken.cached_between, "", 0.97, "strict prefix, 64 tokens", at_least=True)
    for shape in SHAPES:
        limit = compacted.cost(shape.price, marks=shape.marks)
        mine = taken.cost(shape.price, marks=shape.marks)
        yield Single(f"cost, {shape.name}", mine, "$", limit, "takeover, overviews included; compaction")


def tables(bills: dict[Way, Bill]) -> str:
    """Write the two tables of the README."""
    lines = [
        "| 200 user turns | requests | input tokens | of full history | cached | prefix breaks |",
        "|---|---|---|---|---|---|",
    ]
    whole = bills["full history"].input
    for way, bill in bills.items():
        share, cached = f"{100 * bill.input / whole:.1f} %", f"{100 * bill.cached:.1f} %"
        lines.append(f"| {way} | {len(bill.sent)} | {bill.input / 1e6:.1f} M | {share} | {cached} | {bill.breaks} |")
    lines += ["", f"| cost in $ | {' | '.join(bills)} |", "|---|" + "---|" * len(bills)]
    for shape in SHAPES:
        costs = [bill.cost(shape.price, marks=shape.marks) for bill in bills.values()]
        lines.append(f"| {shape.name} | {' | '.join(f'{cost:.2f}' for cost in costs)} |")
    return "\n".join(lines)


def _played(folder: Path, way: Way, turns: list[UserTurn]) -> Bill:
    return asyncio.run(replay(folder / way.replace(" ", "-"), way, turns))
