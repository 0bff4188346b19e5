from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from retention_kit import KEEP, TURNS, facts, play

from vikingpi.config.endpoint import Endpoint

LIVE_URL = os.environ.get("VPI_TEST_OPENVIKING_URL", "")
# What a server shows was written by the scripted model behind it: that figure proves that overviews arrive.
SERVER = Endpoint(LIVE_URL, "", "", "", "test")
LIVE = [pytest.param(SERVER, False, 54, id="openviking", marks=pytest.mark.live)] if LIVE_URL else []


@pytest.mark.parametrize(
    ("endpoint", "model_overviews", "least"),
    [
        pytest.param(None, False, 54, id="embedded-extractor"),
        pytest.param(None, True, TURNS, id="embedded-model"),
        *LIVE,
    ],
)
def test_sixty_facts_stay_in_reach(
    tmp_path: Path,
    endpoint: Endpoint | None,
    model_overviews: bool,
    least: int,
    record_property: Callable[[str, object], None],
) -> None:
    figures, _ = asyncio.run(play(tmp_path / "home", endpoint, model_overviews=model_overviews))
    record_property("figures", f"{figures.shown} shown, {figures.recalled} with recall, {figures.reachable} in reach")
    assert figures.covered >= TURNS - KEEP - 10
    assert figures.reachable == TURNS
    assert figures.recalled >= least, figures.missing


def test_the_facts_are_told_once_and_asked_for_without_their_value() -> None:
    told = facts()
    assert len({fact.value for fact in told}) == TURNS
    assert all(fact.value in fact.told and fact.value not in fact.question for fact in told)
    assert {fact.place for fact in told} == {"user", "output", "answer"}
    assert sum(not fact.told.isascii() for fact in told) >= 12
