"""Whether and when a failed request is made again. Pure."""

from __future__ import annotations

from vikingpi.errors import ContextTooLong, ProviderError, RateLimited
from vikingpi.llm.failures import LONGEST_WAIT

MAX_RETRIES = 3


def decide(error: ProviderError, attempt: int, now_ms: int) -> float | None:
    """Return the seconds to wait before the next attempt, None when there is to be none.

    `attempt` counts the attempts made so far, from 1. Waits are 2, 4 and 8 s, never less than the provider asked
    for; one that asks for more than a minute is not waited for, and its error says how long it would be.
    """
    if attempt > MAX_RETRIES or not error.retryable or isinstance(error, ContextTooLong):
        return None
    delay = 2.0**attempt
    asked = error.retry_after if isinstance(error, RateLimited) else None
    if asked is None:
        return delay
    # A fraction of a second on top, different in each process, keeps several agents from coming back together.
    asked += (now_ms % 250) / 1000
    return None if asked > LONGEST_WAIT + 1 else max(delay, asked)
