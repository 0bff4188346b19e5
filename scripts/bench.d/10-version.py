"""`--version` and `--help`: what the shell waits for."""

from collections.abc import Iterator

from figures import Figure
from lab import Lab
from paired import compare


def measure(lab: Lab) -> Iterator[Figure]:
    version = lab.vpi("--version", says="vpi "), lab.real_pi("--version")
    yield compare("--version", *version, lab.pairs, budget=0.35, memory_budget=0.45)
    help_text = lab.vpi("--help", says="--continue"), lab.real_pi("--help", says="--continue")
    yield compare("--help", *help_text, lab.pairs, budget=0.45, memory_budget=0.45)
