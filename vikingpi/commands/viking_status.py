"""/viking: what the context store holds and does."""

from __future__ import annotations

from vikingpi.command import Command
from vikingpi.commands.host import Host
from vikingpi.commands.viking_memory import MEMORY_WORDS, ask_memory
from vikingpi.commands.viking_overview import overview_text

OFF = "The context store is off."
WORDS = tuple(sorted(("commit", "off", "on", "overview", "reconnect", *MEMORY_WORDS)))


def viking_commands(app: Host) -> tuple[Command, ...]:
    """Return /viking."""

    async def viking(argument: str) -> str:
        word, _, rest = argument.partition(" ")
        if word in MEMORY_WORDS:
            return await ask_memory(app, word, rest.strip())
        store = app.parts.takeover
        if store is None:
            return OFF
        match argument:
            case "":
                return await store.report()
            case "commit":
                return await store.commit()
            case "off" | "on":
                return await store.switch(argument == "on")
            case "overview":
                return overview_text(store.replaced())
            case "reconnect":
                return await store.reconnect()
            case _:
                return f"/viking has no `{argument}`; it knows: {', '.join(WORDS)}."

    return (
        Command(
            "viking", "[search|expand|commit|overview|reconnect|off|on] - the context store", viking, lambda: WORDS
        ),
    )
