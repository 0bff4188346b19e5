"""What a store adds to `vpi -p hello` beyond the store's own time, which is that of its requests in the debug log."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, Single
from lab import Lab
from paired import BenchError, run
from store_server import openviking

HELLO = ("-p", "SAY: hello to you")
SAID = "hello to you"
LIMIT = 40.0


def measure(lab: Lab) -> Iterator[Figure]:
    log = lab.folder / "added-by-store.log"
    without = lab.vpi(*HELLO, "--store", "off", home="added-without", says=SAID)
    with openviking(lab, "added-openviking") as url:
        variables = {"OPENVIKING_URL": url, "OPENVIKING_DEBUG_LOG": str(log)}
        taken = lab.vpi(*HELLO, home="added-with", says=SAID, **variables)
        run(without)
        run(taken)
        beyond: list[float] = []
        own: list[float] = []
        for _ in range(lab.pairs):
            log.unlink(missing_ok=True)
            added = run(taken).wall - run(without).wall
            own.append(waited(log))
            beyond.append(added - own[-1])
    low, _, high = statistics.quantiles(beyond, n=4)
    note = f"quartiles {low:.0f} and {high:.0f} ms; the store's own time was {statistics.median(own):.0f} ms"
    yield Single("-p hello, added beyond OpenViking's own time", statistics.median(beyond), "ms", LIMIT, note)


def waited(log: Path) -> float:
    """Give the ms during which at least one request of a run was under way."""
    spans: list[tuple[float, float]] = []
    for line in log.read_text().splitlines():
        record = json.loads(line)
        if "method" in record:
            end = float(record["t"]) * 1000
            spans.append((end - float(record["ms"]), end))
    if not spans:
        raise BenchError(f"no request stands in {log}")
    total, until = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
