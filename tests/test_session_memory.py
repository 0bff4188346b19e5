"""What is derived from a long branch again and again: found once, and not looked through for garbage."""

import gc
import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vikingpi.session.entries import Entry
from vikingpi.session.lines import uncollected
from vikingpi.session.tree import records

TYPES = ("message", "custom", "compaction", "context_edit", "label")


def entries(kinds: Sequence[str], name: str) -> tuple[Entry, ...]:
    return tuple(Entry(f"{name}{at}", None, kind, "", {"type": kind}) for at, kind in enumerate(kinds))


@given(st.lists(st.tuples(st.integers(0, 12), st.lists(st.sampled_from(TYPES), max_size=6)), max_size=8))
def test_the_records_of_a_branch_are_the_same_whatever_was_asked_before(steps: list[tuple[int, list[str]]]) -> None:
    branch: tuple[Entry, ...] = ()
    for step, (kept, added) in enumerate(steps):
        branch = branch[:kept] + entries(added, f"{step}-")
        expected = tuple((at, entry) for at, entry in enumerate(branch) if entry.type != "message")
        assert records(branch) == expected
        assert records(list(branch)) == expected


def test_the_collector_is_left_as_it_was_also_after_a_failure() -> None:
    assert gc.isenabled()
    seen: list[bool] = []
    uncollected(lambda: seen.append(gc.isenabled()))
    with pytest.raises(ZeroDivisionError):
        uncollected(lambda: 1 / 0)
    assert gc.isenabled()
    gc.disable()
    try:
        uncollected(lambda: seen.append(gc.isenabled()))
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False, False]


def test_much_that_is_made_at_once_is_never_looked_through_and_little_is_collected_as_ever() -> None:
    program = """
import gc, json
from vikingpi.session.lines import uncollected
frozen = [gc.get_freeze_count()]
looks = []
gc.callbacks.append(lambda phase, info: looks.append(phase))
kept = []
for many in (1_000, 150_000):
    kept.append(uncollected(lambda: [[] for _ in range(many)]))
    frozen.append(gc.get_freeze_count())
print(json.dumps([frozen, len(looks)]))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    frozen, looks = json.loads(told.stdout)
    little, much = [after - before for before, after in pairwise(frozen)]
    assert little == 0
    assert much >= 150_000
    assert looks <= 2  # the small list was young when the collector was on again
