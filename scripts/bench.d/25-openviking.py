"""`-p` with a real OpenViking server: against pi without any, and what the server adds.

The published extension for pi is not on npm, so pi runs without it: it does less, and the budget is the harder one.
"""

from collections.abc import Iterator

from figures import Figure, Single, Skipped
from lab import MODEL, Lab
from paired import compare
from store_server import openviking

HELLO = ("-p", "SAY: hello to you")
SAID = "hello to you"


def measure(lab: Lab) -> Iterator[Figure]:
    with openviking(lab, "openviking") as url:
        ours = lab.vpi(*HELLO, home="with-openviking", says=SAID, OPENVIKING_URL=url)
        theirs = lab.real_pi(*HELLO, "--model", MODEL, says=SAID)
        name = "-p hello with OpenViking; pi without"
        yield compare(name, ours, theirs, lab.pairs, budget=0.80, memory_budget=0.45)
        without = lab.vpi(*HELLO, "--store", "off", home="without", says=SAID)
        added = compare("-p hello", ours, without, lab.pairs, budget=None, sides=("OpenViking", "no store"))
        yield added
        spread = f"quartiles {added.added.low:.0f} and {added.added.high:.0f} ms"
        yield Single("-p hello, added by OpenViking", added.added.middle, "ms", None, spread)
    yield Skipped("-p with OpenViking against pi with the extension", "the extension is not on npm")
