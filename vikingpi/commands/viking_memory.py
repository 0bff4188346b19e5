"""/viking search and /viking expand: what memory holds, for the user to read."""

from __future__ import annotations

from vikingpi.commands.host import Host
from vikingpi.safetext import plain

MEMORY_OFF = "The context store is off."
MEMORY_WORDS = ("expand", "search")


async def ask_memory(app: Host, word: str, rest: str) -> str:
    """Answer `/viking search WORDS` and `/viking expand [USER_TURN|ARCHIVE]`."""
    memory = app.parts.memory
    if memory is None:
        return MEMORY_OFF
    if word == "search":
        return quoted(await memory.search(rest)) if rest else "Say what to look for: `/viking search WORDS`."
    return quoted(await memory.expand(rest))


def quoted(text: str, language: str = "") -> str:
    """Show a text as it is: what was said in a session is no Markdown of this answer."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{plain(text)}\n{fence}"
