from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import pytest
from patience import PATIENCE, eventually

from vikingpi.tools.processes import MARK, Family, Watch, began
from vikingpi.tools.shell import Groups

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@contextmanager
def group_of(mark: str) -> Generator[subprocess.Popen[bytes]]:
    """A process in a group of its own, as a command leaves it."""
    with subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: mark}, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def noted(mark: str, process: subprocess.Popen[bytes], earlier: int = 0) -> Family:
    """What was noted of a group that had the number of the process, `earlier` ticks before that began."""
    return Family(process.pid, mark, began(process.pid) - earlier)


def ends(process: subprocess.Popen[bytes], within: float) -> bool:
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def by_the_tool(left: list[Family], running: list[Family]) -> None:
    groups = Groups()
    for family in left:
        groups.keep(family)
    for family in running:
        groups.add(family)
    groups.end_all()


def by_the_watch(left: list[Family], running: list[Family]) -> None:
    watch = Watch()
    watch.tell(running, left)
    watch.close()


End = Callable[[list[Family], list[Family]], None]
each_way = pytest.mark.parametrize("end", [by_the_tool, by_the_watch])


@needs_proc
@each_way
@pytest.mark.parametrize("over", [True, False], ids=["over", "running"])
def test_a_stranger_that_got_the_number_of_an_ended_group_is_left_alone(end: End, over: bool) -> None:
    with group_of("stranger") as stranger, group_of("own") as own:
        families = [noted("theirs", stranger, earlier=1), noted("own", own)]
        end(*((families, []) if over else ([], families)))
        assert ends(own, PATIENCE)
        assert own.returncode == -signal.SIGTERM
        assert not ends(stranger, 2.4 if end is by_the_watch else 0.1)


@needs_proc
@each_way
def test_a_process_without_the_mark_is_known_by_when_it_began(end: End) -> None:
    with group_of("none") as own:
        end([noted("own", own)], [])
        assert ends(own, PATIENCE)


@needs_proc
@each_way
def test_a_process_that_began_later_is_known_by_the_mark(end: End) -> None:
    with group_of("own") as own:
        end([noted("own", own, earlier=1)], [])
        assert ends(own, PATIENCE)


class Told(Watch):
    """Records the groups that have been left, each time it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[list[int]] = []

    def tell(self, running: Iterable[Family], left: Iterable[Family]) -> None:
        self.left.append([family.group for family in left])


def test_where_only_the_number_is_known_a_group_is_forgotten_when_it_ends() -> None:
    told = Told()
    groups = Groups(told)
    with group_of("own") as own:
        groups.keep(Family(own.pid, "own"))
        time.sleep(0.3)
        assert told.left == [[own.pid]]
    assert eventually(lambda: not told.left[-1])
    assert told.left == [[own.pid], []]
