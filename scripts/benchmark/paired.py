"""Paired measurement: two commands by turns, so that whatever else the machine does meets both alike."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from figures import Compared, Spread

CERTAIN = 0.02
PATIENCE = 30.0
LAUNCH = Path(__file__).with_name("launch.py")


class BenchError(Exception):
    """A row cannot be measured; read by whoever runs the bench."""


class Unavailable(BenchError):
    """What a row is measured against cannot be had here."""


class Command(NamedTuple):
    """`says` must be in the output. With `on_terminal` the command gets a terminal, and the time ends when it is."""

    argv: Sequence[str]
    cwd: Path
    env: dict[str, str]
    says: str = ""
    on_terminal: bool = False
    before: Callable[[], None] | None = None


class Run(NamedTuple):
    """ms, ms and MiB of one process."""

    wall: float
    cpu: float
    memory: float


def run(command: Command, *, seconds: float = 60.0) -> Run:
    """Run once; BenchError when it fails or does not say what it should."""
    if command.before is not None:
        command.before()
    with tempfile.TemporaryDirectory(prefix="vpi-bench-") as folder:
        output = Path(folder) / "output"
        request = {
            "argv": list(command.argv),
            "cwd": str(command.cwd),
            "env": command.env,
            "output": str(output),
            "marker": command.says if command.on_terminal else "",
            "seconds": seconds,
        }
        launcher = [sys.executable, "-I", "-S", str(LAUNCH), json.dumps(request)]
        try:
            done = subprocess.run(launcher, capture_output=True, text=True, timeout=seconds + 10, check=False)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{command.argv[0]} did not end within {seconds:.0f} s") from None
        said = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
    if done.returncode:
        raise BenchError(f"{command.argv[0]} could not be run: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    if result["code"] or command.says not in said:
        raise BenchError(f"{' '.join(command.argv)} ended with {result['code']} and said {said[-500:]!r}")
    return Run(result["wall"], result["cpu"], result["memory"])


def compare(
    name: str,
    ours: Command,
    theirs: Command,
    pairs: int,
    *,
    budget: float | None,
    memory_budget: float | None = None,
    sides: tuple[str, str] = ("vpi", "pi"),
) -> Compared:
    """Run both by turns, each first in every other pair, after one run of each that does not count.

    A busy machine scatters the ratios; then up to three times as many pairs are run, until their median is certain
    to CERTAIN or PATIENCE is over.
    """
    until = time.monotonic() + PATIENCE
    run(ours)
    run(theirs)
    left: list[Run] = []
    right: list[Run] = []
    while len(left) < pairs or (len(left) < 3 * pairs and time.monotonic() < until and _doubt(left, right) > CERTAIN):
        for command, runs in ((theirs, right), (ours, left))[:: -1 if len(left) % 2 else 1]:
            runs.append(run(command))
    return Compared(
        name,
        sides,
        len(left),
        (statistics.median(one.wall for one in left), statistics.median(one.wall for one in right)),
        spread(one.wall / other.wall for one, other in zip(left, right, strict=True)),
        budget,
        spread(one.cpu / other.cpu for one, other in zip(left, right, strict=True)),
        (statistics.median(one.memory for one in left), statistics.median(one.memory for one in right)),
        spread(one.memory / other.memory for one, other in zip(left, right, strict=True)),
        memory_budget,
        spread(one.wall - other.wall for one, other in zip(left, right, strict=True)),
    )


def _doubt(left: Sequence[Run], right: Sequence[Run]) -> float:
    """Give the standard error of the median ratio, as a share of it, estimated from the quartiles."""
    ratios = spread(one.wall / other.wall for one, other in zip(left, right, strict=True))
    return 0.93 * (ratios.high - ratios.low) / ratios.middle / math.sqrt(len(left))


def spread(values: Iterable[float]) -> Spread:
    """Give median and quartiles."""
    numbers = list(values)
    if len(numbers) == 1:
        return Spread(numbers[0], numbers[0], numbers[0])
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return Spread(middle, low, high)
