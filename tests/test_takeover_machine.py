"""Random schedules: faults, kills between any two effects, branch moves, other programs, machines and processes."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from hypothesis import given, settings, strategies

from tests.takeover_world import World

OPERATIONS = (
    *("turn",) * 9,
    *("work",) * 7,
    *("phase",) * 4,
    *("tick",) * 4,
    *("work_kill",) * 3,
    *("fault",) * 3,
    "compact",
    "compact_default",
    "compact_kill",
    "delete",
    "down",
    "exit",
    "foreign_commit",
    "foreign_post",
    "kill",
    "lose_ledger",
    "off",
    "other_machine",
    "pi",
    "tree",
    "turn_kill",
)
SCHEDULES = int(os.environ.get("VPI_TEST_SCHEDULES", "100"))
SEAT = strategies.sampled_from((0, 0, 0, 1))
PORTIONS = strategies.sampled_from((200, 1, 3))
STEP = strategies.tuples(strategies.sampled_from(OPERATIONS), SEAT, strategies.integers(0, 29))


async def play(keep: int, schedule: list[tuple[str, int, int]], portion: int, *, files: bool = False) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), keep, files=files, portion=portion)
        try:
            for name, seat, k in schedule:
                await world.op(name, seat, k)
                world.check()
            await world.finish()
        finally:
            world.close()


@settings(max_examples=SCHEDULES)
@given(keep=strategies.integers(0, 2), schedule=strategies.lists(STEP, max_size=40), portion=PORTIONS)
def test_nothing_is_lost_stored_twice_or_covered_without_its_overview(
    keep: int, schedule: list[tuple[str, int, int]], portion: int
) -> None:
    asyncio.run(play(keep, schedule, portion))


@settings(max_examples=SCHEDULES // 3)
@given(keep=strategies.integers(0, 2), schedule=strategies.lists(STEP, max_size=40), portion=PORTIONS)
def test_the_same_holds_where_every_process_reads_only_the_end_of_the_session_file(
    keep: int, schedule: list[tuple[str, int, int]], portion: int
) -> None:
    asyncio.run(play(keep, schedule, portion, files=True))
