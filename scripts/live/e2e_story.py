"""The six turns of the live acceptance: what is said, and which words show later where it went."""

from __future__ import annotations

from typing import NamedTuple


class Turn(NamedTuple):
    """`fact` is the value that this turn states, `answer` what must be in the answer; "" where there is none."""

    prompt: str
    fact: str = ""
    answer: str = ""


def filler(marker: str, length: int = 4000) -> str:
    """Give text of that length that holds no fact and can be recognised line by line."""
    lines = [f"{marker} log line {number}: calm water, light wind, nothing to report." for number in range(1, 100)]
    return "\n".join(lines)[:length]


HARBOUR, DRAGON, LANTERN = "KESTREL-7731", "青龙八八", "4417-BRASS"
FIRST_FILLER, SECOND_FILLER = "HERONWORD", "PELICANWORD"
COMMANDS = ("printf 'tide-%s' 2041", "printf 'tide-%s' 3052")
OUTPUTS = ("tide-2041", "tide-3052")

TURNS = (
    Turn(f"Remember: harbour-code is {HARBOUR}.\nHere is a log, no answer needed:\n{filler(FIRST_FILLER)}", HARBOUR),
    Turn(
        f"请记住:港口暗号是{DRAGON}。\nThen run these two commands with the bash tool, one call for each, and say when "
        f"you are done.\nRUN: {COMMANDS[0]}\nRUN: {COMMANDS[1]}",
        DRAGON,
    ),
    Turn("Answer from what I told you earlier, without any tool, with the value only: harbour-code?", answer=HARBOUR),
    Turn(
        f"Remember: lantern-count is {LANTERN}.\nHere is another log, no answer needed:\n{filler(SECOND_FILLER)}",
        LANTERN,
    ),
    Turn("Answer from what I told you earlier, without any tool, with the value only: 港口暗号?", answer=DRAGON),
    Turn("Answer from what I told you earlier, without any tool, with the value only: lantern-count?", answer=LANTERN),
)
