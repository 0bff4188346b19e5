"""A long session with the shape of recorded ones: prompts, tool calls and answers, the same ones in every run.

Sizes are drawn with a fixed seed. A user turn has 1 to 12 answers of the model, all but the last of them with a tool
call whose output is 1 to 400 lines long (median 25): what sessions of coding agents look like.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from vikingpi.llm.scripted import ScriptedCall, Step
from vikingpi.viking.overview import SECTIONS, TITLE

LOG = "service.log"
LOG_LINES = 20_000
VOCABULARY = """
gateway retries billing port cache deploy window rollback index shard queue worker latency budget schema token
migration header client server test fixture module import timeout socket lock ledger archive commit branch merge
"""
WORDS = VOCABULARY.split()
CALLS_PER_TURN = (0, 1, 2, 2, 3, 3, 4, 5, 6, 8, 11)


class UserTurn(NamedTuple):
    prompt: str
    steps: tuple[Step, ...]


def user_turns(count: int) -> list[UserTurn]:
    """Make the first `count` user turns."""
    draw = random.Random(20261130)
    return [_turn(draw, number) for number in range(1, count + 1)]


def write_log(folder: Path) -> None:
    """Write the file that the tool calls read."""
    draw = random.Random(7)
    lines = [f"{number:05d} {_words(draw, 9)} {draw.random():.6f}" for number in range(LOG_LINES)]
    (folder / LOG).write_text("\n".join(lines) + "\n", encoding="utf-8")


def summary_text(number: int) -> str:
    """Give what a model writes as a summary: about 900 tokens."""
    draw = random.Random(number)
    heads = ("Goal", "Progress", "Key Decisions", "Next Steps", "Critical Context")
    return "\n\n".join(f"## {head}\n" + "\n".join(f"- {_words(draw, 18)}" for _ in range(6)) for head in heads)


def overview_text(number: int) -> str:
    """Give what a model writes when it is asked for the store's document: about 1,500 tokens in its sections."""
    draw = random.Random(number)
    title, *heads = SECTIONS
    bodies = [f"## {title}\n- {_words(draw, 6)}"]
    bodies += [f"## {head}\n" + "\n".join(f"- {_words(draw, 18)}" for _ in range(8)) for head in heads]
    return f"{TITLE}\n\n" + "\n\n".join(bodies)


def _turn(draw: random.Random, number: int) -> UserTurn:
    fact = f"the {draw.choice(WORDS)}-{number} port is {7000 + number}"
    prompt = f"Step {number}: {fact}. {_words(draw, draw.randint(8, 70))}."
    steps = [_call(draw) for _ in range(draw.choice(CALLS_PER_TURN))]
    return UserTurn(prompt, (*steps, Step(f"Done with step {number}. {_words(draw, draw.randint(40, 200))}.")))


def _call(draw: random.Random) -> Step:
    lines = max(1, min(400, int(draw.lognormvariate(3.2, 1.0))))
    arguments = {"path": LOG, "offset": draw.randint(1, LOG_LINES - lines), "limit": lines}
    return Step(_words(draw, draw.randint(5, 30)), calls=(ScriptedCall("read", arguments),))


def _words(draw: random.Random, count: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(count))
