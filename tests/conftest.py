"""What several files of tests are given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ui_terminal import Open, Terminal


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
