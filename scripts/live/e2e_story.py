"""The six turns of the live acceptance: what is said, and which words show later where it went."""

from __future__ import annotations

from typing import NamedTuple


class Turn(NamedTuple):
    """`fact` is the value that this turn states, `answer` what must be in the answer; "" where there is none."""

    prompt: str
    fact: str = ""
    answer: str = ""


class Filler(NamedTuple):
    """4,000 characters that state nothing: lines that can be counted, and in the middle one a word to look for."""

    place: str
    marker: str

    @property
    def lines(self) -> list[str]:
        winds, waters = ("light", "steady", "fresh", "idle"), ("calm", "grey", "slow", "glassy", "quiet")
        birds = ("gulls", "terns", "divers", "waders")
        lines = [
            f"{wind} wind over {water} water near the {self.place} buoy, {bird} passing by"
            for water in waters
            for bird in birds
            for wind in winds
        ][:66]
        lines[30] = f"some {self.marker} drifting along near the {self.place} buoy"
        return lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)[:4000]


HARBOUR, DRAGON, ORRERY, LANTERN = "KESTREL-7731", "青龙八八", "ORRERY-12", "4417-BRASS"
FIRST_FILLER, SECOND_FILLER = Filler("north", "heronword"), Filler("south", "pelicanword")
COMMANDS = ("printf 'tide-%s' 2041", "printf 'tide-%s' 3052")
OUTPUTS = ("tide-2041", "tide-3052")

TURNS = (
    Turn(f"Remember: harbour-code is {HARBOUR}.\nHere is a log, no answer needed:\n{FIRST_FILLER.text}", HARBOUR),
    Turn(
        f"请记住:港口暗号是{DRAGON}。\nRemember: tide-word is {ORRERY}.\n"
        "Then run these two commands with the bash tool, one call for each, and say when "
        f"you are done.\nRUN: {COMMANDS[0]}\nRUN: {COMMANDS[1]}",
        DRAGON,
    ),
    Turn("Answer from what I told you earlier, without any tool, with the value only: harbour-code?", answer=HARBOUR),
    Turn(
        f"Remember: lantern-count is {LANTERN}.\nHere is another log, no answer needed:\n{SECOND_FILLER.text}",
        LANTERN,
    ),
    Turn("Answer from what I told you earlier, without any tool, with the value only: tide-word?", answer=ORRERY),
    Turn("Answer from what I told you earlier, without any tool, with the value only: lantern-count?", answer=LANTERN),
)
