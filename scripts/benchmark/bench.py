"""The command `scripts/bench`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from figures import Failed, Figure, Skipped, as_json, table
from lab import PROJECT, Lab, describe, find_pi, start_model
from paired import BenchError, Unavailable

from vikingpi.errors import VpiError

ROWS = PROJECT / "scripts" / "bench.d"


def names() -> list[str]:
    """List the rows in their order."""
    return [path.stem for path in sorted(ROWS.glob("[0-9]*.py"))]


def chosen(wanted: Sequence[str]) -> list[str]:
    """Give the rows that are meant, by name with or without the number in front."""
    known = names()
    if not wanted:
        return known
    picked = [name for name in known if name in wanted or name.partition("-")[2] in wanted]
    short = {name.partition("-")[2] for name in known}
    unknown = [name for name in wanted if name not in known and name not in short]
    if unknown:
        raise BenchError(f"no row is called {', '.join(unknown)}; there are {', '.join(sorted(short))}")
    return picked


def load(name: str) -> Callable[[Lab], Iterable[Figure]]:
    """Load one row file; it has a function `measure`."""
    spec = importlib.util.spec_from_file_location(f"row_{name}", ROWS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Callable[[Lab], Iterable[Figure]]", module.measure)


def measure(rows: Iterable[str], lab: Lab) -> list[Figure]:
    """Measure row by row; one that cannot be measured, or breaks off, is named and does not stop the rest."""
    figures: list[Figure] = []
    for name in rows:
        start, before = time.monotonic(), len(figures)
        try:
            figures.extend(load(name)(lab))
        except Unavailable as error:
            figures.append(Skipped(name, str(error)))
        except (BenchError, VpiError, OSError, RuntimeError, subprocess.SubprocessError, ExceptionGroup) as error:
            figures.append(Failed(name, f"{type(error).__name__}: {error}"))
        took = f"bench: {name} took {time.monotonic() - start:.0f} s"
        print(f"{table(figures[before:])}{took}\n", file=sys.stderr, flush=True)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure vpi against the real pi, by turns.")
    parser.add_argument("row", nargs="*", help="rows to measure (all)")
    parser.add_argument("--pairs", type=int, default=15, help="pairs of runs for each comparison, 2 or more (15)")
    parser.add_argument("--json", type=Path, default=None, help="where the figures are written")
    parser.add_argument("--list", action="store_true", help="list the rows")
    options = parser.parse_args()
    if options.list:
        print("\n".join(names()))
        return 0
    cache = Path(os.environ.get("VPI_BENCH_CACHE") or Path.home() / ".cache" / "vikingpi-bench")
    cache.mkdir(parents=True, exist_ok=True)
    try:
        rows = chosen(options.row)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _end)
    pi = _pi(cache)
    with tempfile.TemporaryDirectory(prefix="vpi-bench-") as name:
        folder = Path(name)
        for each in ("home", "work"):
            (folder / each).mkdir()
        model, url = start_model(folder / "model.log")
        try:
            machine = describe(pi)
            figures = measure(rows, Lab(folder, cache, pi, url, max(2, options.pairs)))
        finally:
            model.terminate()
            model.wait()
    machine["load at the end"] = " ".join(f"{figure:.2f}" for figure in os.getloadavg())
    return report(figures, machine, options.json or cache / "last.json")


def _end(number: int, frame: object) -> None:
    """Leave as after Ctrl+C, so that servers and folders go away."""
    raise SystemExit(128 + number)


def _pi(cache: Path) -> Path | None:
    try:
        return find_pi(cache)
    except Unavailable as error:
        print(f"bench: {error}; rows that need pi are skipped", file=sys.stderr)
        return None


def report(figures: Sequence[Figure], machine: dict[str, str], target: Path) -> int:
    """Print the table, write the JSON and give the exit code."""
    for key, value in machine.items():
        print(f"{key}: {value}")
    print(f"\n{table(figures)}")
    content: dict[str, Any] = {"machine": machine, "figures": [as_json(figure) for figure in figures]}
    target.write_text(json.dumps(content, indent=1) + "\n")
    print(f"bench: the figures are in {target}", file=sys.stderr)
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
