"""What takeover itself costs per request, however long the covered history is."""

import time
from collections.abc import Callable, Iterator

from figures import Figure, Single
from lab import Lab

from vikingpi.messages import AssistantMessage, Message, TextPart, Usage, UserMessage
from vikingpi.takeover.boundary import Boundary, project

COVERED = 100_000
KEPT = 30
TIMES = 50


def measure(lab: Lab) -> Iterator[Figure]:
    boundary = Boundary(frozenset(f"{number:016x}" for number in range(COVERED, COVERED + KEPT)), "an overview")
    for covered in (100, COVERED):
        messages = history(COVERED - covered, COVERED + KEPT)
        assert len(project(messages, boundary)) == KEPT + 1
        value = best_ms(lambda messages=messages: project(messages, boundary))
        yield Single(f"project() with {covered:,} covered messages", value, "ms", 1.0)


def history(first: int, last: int) -> tuple[Message, ...]:
    return tuple(message(number) for number in range(first, last))


def message(number: int) -> Message:
    parts = (TextPart(f"message {number}"),)
    if number % 2:
        usage = Usage(input=10, output=2)
        return AssistantMessage(
            parts, "scripted", "bench", "m", usage, "stop", 1000 + number, entry_id=f"{number:016x}"
        )
    return UserMessage(parts, 1000 + number, entry_id=f"{number:016x}")


def best_ms(work: Callable[[], object]) -> float:
    """Give the ms of the quickest of many calls: what the work costs when nothing else runs."""
    best = float("inf")
    for _ in range(TIMES):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1000
