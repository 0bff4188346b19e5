"""Waits that end when what they wait for is there: how busy the machine is decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 30.0  # seconds: only what never comes, or would go on for a minute, takes so long


def eventually(found: Callable[[], object]) -> bool:
    """Wait until something is found, and tell whether it was."""
    until = time.monotonic() + PATIENCE
    while not (there := bool(found())) and time.monotonic() < until:
        time.sleep(0.01)
    return there


def once_within(seconds: float, spent: Callable[[], float]) -> bool:
    """Tell whether one of five runs takes less than that: a busy machine makes single ones slow, a fault makes all."""
    return any(spent() < seconds for _ in range(5))
