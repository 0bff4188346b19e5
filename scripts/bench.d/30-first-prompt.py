"""The first prompt on a terminal: from the start of the process until the model's name is in the status line."""

from collections.abc import Iterator

from figures import Figure
from lab import MODEL, Lab
from paired import compare


def measure(lab: Lab) -> Iterator[Figure]:
    ours = lab.vpi(says=MODEL)._replace(on_terminal=True)
    theirs = lab.real_pi("--model", MODEL, says=MODEL)._replace(on_terminal=True)
    yield compare("first prompt", ours, theirs, lab.pairs, budget=0.70, memory_budget=0.45)
