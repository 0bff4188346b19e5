"""Schedules that broke earlier versions of the protocol, each for the want of one rule."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.takeover_kit import Fault
from tests.takeover_world import FAULTS, World

Step = tuple[str, int, int]


def fault(name: Fault) -> Step:
    return ("fault", 0, FAULTS.index(name))


TURN: Step = ("turn", 0, 0)
WORK: Step = ("work", 0, 0)
GOOD: Step = ("phase", 0, 0)
SCHEDULES: dict[str, tuple[int, list[Step]]] = {
    "a call that a later message has overtaken without a result is complete": (0, [("turn_kill", 0, 0)]),
    "the mark an archive must show is that of the last captured entry of the target": (2, [("turn", 0, 2)]),
    "a gateway error leaves it open whether the batch was stored": (0, [fault("lost"), TURN, WORK, TURN, WORK]),
    "a request that arrives late counts from when its sender gave it up": (
        2,
        [TURN, fault("late-30"), WORK, ("kill", 0, 0), ("tick", 0, 2), TURN, WORK, ("tick", 0, 3), WORK],
    ),
    "a lost ledger opens a generation of its own": (
        0,
        [TURN, ("turn_kill", 0, 0), ("lose_ledger", 0, 0), ("compact", 0, 0)],
    ),
    "two machines with one session file do not write to one generation": (
        0,
        [TURN, WORK, ("other_machine", 0, 0), TURN, WORK, ("other_machine", 0, 0)],
    ),
    "a new generation is in the session file before its first row": (
        1,
        [TURN, ("work_kill", 0, 7), ("delete", 0, 0), ("turn", 1, 0), ("work", 1, 0), ("work", 1, 0)],
    ),
    "the row of the last covered entry stays": (0, [TURN, TURN, WORK, GOOD, WORK, ("tree", 0, 0)]),
    "a call that was answered on another branch is not the one of this branch": (
        0,
        [("turn_kill", 0, 6), WORK, ("tree", 0, 1)],
    ),
    "somebody else's archive without an overview breaks the chain": (
        0,
        [TURN, TURN, WORK, WORK, ("foreign_commit", 0, 4), TURN, WORK, GOOD, WORK],
    ),
    "an archive that came in between the look at the chain and our commit breaks it too": (
        0,
        [TURN, TURN, fault("foreign"), WORK, GOOD, WORK, TURN, WORK],
    ),
    "a session that was deleted and made anew is not the one that was confirmed": (
        0,
        [("turn", 0, 2), ("work_kill", 0, 5), ("delete", 0, 0), TURN, ("work_kill", 0, 3), ("foreign_post", 0, 0)],
    ),
    "the target ends before a refused message": (2, [TURN, fault("poison"), WORK]),
    "capturing is off from the moment it is said, also after a kill": (
        1,
        [("turn", 0, 2), ("off", 0, 0), ("turn", 0, 2), ("exit", 0, 0), ("turn", 0, 2), WORK],
    ),
    "a summary that has read an off stretch is never a seed": (
        2,
        [TURN, ("off", 0, 0), TURN, TURN, ("off", 0, 1), ("lose_ledger", 0, 0), ("compact_default", 0, 0)],
    ),
    "pi's state on top of ours opens a generation from our boundary": (
        1,
        [("turn_kill", 0, 4), TURN, WORK, GOOD, ("exit", 0, 0), ("pi", 0, 4)],
    ),
    "the compaction entry comes before the state that says nothing is covered": (
        1,
        [TURN, ("work_kill", 0, 3), TURN, WORK, GOOD, TURN, WORK, ("compact_kill", 0, 9)],
    ),
}


@pytest.mark.parametrize("rule", SCHEDULES)
def test_it_holds(rule: str, tmp_path: Path) -> None:
    keep, schedule = SCHEDULES[rule]

    async def play() -> None:
        world = World(tmp_path, keep)
        try:
            for step in schedule:
                await world.op(*step)
                world.check()
            await world.finish()
        finally:
            world.close()

    asyncio.run(play())
