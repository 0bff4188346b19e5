"""How a profile is cut to its budget."""

from __future__ import annotations

from collections.abc import Iterable

from vikingpi.tokens import cut, estimate


def elided(text: str, budget: int) -> str:
    """Cut out the middle of a text that is over its budget in tokens."""
    if estimate(text) <= budget:
        return text
    head = cut(text, budget * 2 // 3)
    tail = cut(text[::-1], budget - budget * 2 // 3 - 4)[::-1]
    return f"{head.rstrip()}\n...\n{tail.lstrip()}"


def section(title: str, lines: Iterable[str], room: int) -> str:
    """Make a list under a heading of the first lines that fit into `room` tokens, "" where none does."""
    kept: list[str] = []
    room -= estimate(f"\n\n## {title}\n")
    for line in lines:
        room -= estimate(f"- {line}\n")
        if room < 0:
            break
        kept.append(f"- {line}")
    return "\n".join([f"## {title}", *kept]) if kept else ""
