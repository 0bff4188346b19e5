"""The chat under the fingers: a key's echo while an answer streams, also in the middle of a long code block; idling."""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, Single, Skipped
from lab import MODEL, Lab, models_of
from typing_lab import Chat, Stream, echoes, streaming_model

PROSE = "The **gateway** answers in 41 ms at the 95th percentile; `retries` are below two an hour.\n\n- one\n- two\n\n"
MARK = "line_2960"
CODE = "    total = sum(weight * value for weight, value in zip(weights, values))  # line\n"
IDLE_SECONDS = 4.0
BEGIN = 1.5


def measure(lab: Lab) -> Iterator[Figure]:
    prose = _echoes(lab, "typing-prose", Stream("", PROSE * 20), "gateway")
    note = f"median {statistics.median(prose):.1f}, worst {max(prose):.1f}"
    yield Single("key to echo, answer at 200 tokens/s, p95", statistics.quantiles(prose, n=20)[-1], "ms", 10, note)
    code = _echoes(lab, "typing-code", Stream(f"```python\n{CODE * 2960}{MARK}\n{CODE * 40}", CODE), MARK)
    note = f"median {statistics.median(code):.1f}, p95 {statistics.quantiles(code, n=20)[-1]:.1f}"
    yield Single("key to echo, in a code block of 3,000 lines, worst", max(code), "ms", 100, note)
    if sys.platform == "linux":
        yield Single("CPU while idle", _idle(lab), "%", 0, f"over {IDLE_SECONDS:.0f} s")
    else:
        yield Skipped("CPU while idle", "only Linux says how much a process has used")


def _echoes(lab: Lab, home: str, stream: Stream, begun: str) -> list[float]:
    """Type once the answer has come to the word `begun`."""
    with streaming_model(stream) as url:
        lab.vpi(home=home)
        Path(lab.folder, home, "models.json").write_text(json.dumps(models_of(url)))
        chat = Chat(lab.vpi("--store", "off", home=home))
        try:
            chat.wait(MODEL, 20)
            chat.drain(BEGIN)
            chat.send("go on\r")
            chat.wait(begun, 60)
            chat.drain(BEGIN)
            return echoes(chat)
        finally:
            chat.end()


def _idle(lab: Lab) -> float:
    chat = Chat(lab.vpi(home="typing-idle"))
    try:
        chat.wait(MODEL, 20)
        chat.drain(BEGIN)
        used, begun = chat.cpu(), time.perf_counter()
        chat.drain(IDLE_SECONDS)
        return 100 * (chat.cpu() - used) / (time.perf_counter() - begun)
    finally:
        chat.end()
