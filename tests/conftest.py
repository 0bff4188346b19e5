"""What several files of tests are given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from ui_terminal import Open, Terminal

# An example may take as long as the machine likes. The examples are the same ones in every run, so that a change is
# judged by what it changes; VPI_TEST_RANDOM looks for new ones.
settings.register_profile(
    "vpi",
    derandomize="VPI_TEST_RANDOM" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("vpi")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    """Open terminals; each is ready for input and closed at the end."""
    opened: list[Terminal] = []

    def start(*options: str, ready: str = "OV ✓", columns: int = 80, rows: int = 24, **env: str) -> Terminal:
        opened.append(Terminal(tmp_path, *options, columns=columns, rows=rows, **env))
        opened[-1].wait(ready)
        return opened[-1]

    yield start
    for each in opened:
        each.close()
