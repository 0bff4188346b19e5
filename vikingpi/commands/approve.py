"""/approve: which tool calls wait for the user's yes."""

from __future__ import annotations

from typing import Protocol

from vikingpi.command import Command
from vikingpi.config.model import APPROVAL_MODES as MODES
from vikingpi.config.model import ApprovalMode as Mode

MEANING: dict[Mode, str] = {
    "off": "everything runs",
    "ask": "commands and changes of files wait for a yes",
    "edits": "files in this folder are changed without asking, commands wait for a yes",
    "read-only": "nothing that changes anything runs",
}


class ApprovalControl(Protocol):
    @property
    def mode(self) -> Mode: ...

    def choose(self, mode: Mode) -> None:
        """Use a mode from the next call on; SessionError when it cannot be written."""
        ...


def next_mode(mode: Mode) -> Mode:
    """Return the mode that one press of the key leads to."""
    return MODES[(MODES.index(mode) + 1) % len(MODES)]


def approve_commands(approval: ApprovalControl) -> tuple[Command, ...]:
    """Return /approve."""

    async def approve(argument: str) -> str:
        for mode in MODES:
            if argument == mode:
                approval.choose(mode)
        if argument and argument not in MODES:
            return f"There is no mode {argument}; there are {', '.join(MODES)}."
        if argument:
            return f"approval {approval.mode}: {MEANING[approval.mode]}"
        return "\n".join(
            f"- {'**' + mode + '**' if mode == approval.mode else mode}: {MEANING[mode]}" for mode in MODES
        )

    return (Command("approve", "[mode] - which calls wait for your yes", approve, lambda: MODES),)
