from __future__ import annotations

import pytest

from vikingpi.errors import (
    AuthFailed,
    BadResponse,
    ContextTooLong,
    ProviderError,
    RateLimited,
    Unreachable,
)
from vikingpi.llm.failures import span
from vikingpi.llm.retry import decide


def test_three_retries_wait_two_four_and_eight_seconds() -> None:
    error = BadResponse("x", status=503, retryable=True)
    assert [decide(error, attempt, 0) for attempt in (1, 2, 3, 4)] == [2.0, 4.0, 8.0, None]


@pytest.mark.parametrize(
    "error",
    [
        AuthFailed("x", status=401),
        BadResponse("x", status=400),
        ContextTooLong("x", status=400, retryable=True),
        RateLimited("quota", retryable=False),
        Unreachable("no server there"),
    ],
)
def test_what_cannot_succeed_later_is_not_retried(error: ProviderError) -> None:
    assert decide(error, 1, 0) is None


@pytest.mark.parametrize(("asked", "least"), [(None, 2.0), (0.5, 2.0), (3.0, 3.0), (30.0, 30.0), (60.0, 60.0)])
@pytest.mark.parametrize("now_ms", [0, 249, 1_796_000_000_123])
def test_waits_are_at_least_what_the_provider_asked(asked: float | None, least: float, now_ms: int) -> None:
    delay = decide(RateLimited("x", retry_after=asked), 1, now_ms)
    assert delay is not None
    assert least <= delay < least + 0.25


def test_a_reset_in_hours_is_not_waited_for() -> None:
    assert decide(RateLimited("x", retry_after=13872), 1, 0) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (45, "45 s"), (120, "2 min"), (3600, "1 h"), (13872, "3 h 52 min")]
)
def test_times_are_said_for_people(seconds: float, text: str) -> None:
    assert span(seconds) == text
