"""`-p`: one answer of a model on loopback that answers at once, and one with a call of the tool bash."""

from collections.abc import Iterator

from figures import Figure
from lab import MODEL, Lab
from paired import compare


def measure(lab: Lab) -> Iterator[Figure]:
    hello = ("-p", "SAY: hello to you")
    pair = lab.vpi(*hello, says="hello to you"), lab.real_pi(*hello, "--model", MODEL, says="hello to you")
    yield compare("-p hello", *pair, lab.pairs, budget=0.60, memory_budget=0.45)
    tool = ("-p", "RUN: echo done\nSAY: called it")
    pair = lab.vpi(*tool, says="called it"), lab.real_pi(*tool, "--model", MODEL, says="called it")
    yield compare("-p with a tool call", *pair, lab.pairs, budget=0.65, memory_budget=0.45)
