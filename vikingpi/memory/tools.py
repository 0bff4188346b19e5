"""The seven tools over the context store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from vikingpi.decode import Json, as_str
from vikingpi.errors import StoreError, ToolError, VpiError
from vikingpi.memory.history import Said, archive_spans, render, search_branch, user_turns
from vikingpi.memory.scope import Memory
from vikingpi.memory.texts import deleted_line, hit_lines, node_line, paged, said_lines
from vikingpi.messages import ToolSpec
from vikingpi.session.entries import Entry
from vikingpi.tools.base import Tool, ToolContext, ToolOutcome, figure, text_outcome, whole_number
from vikingpi.values import NamedTuple
from vikingpi.viking.base import CATEGORIES, Hit, Level, SessionStore, archive_name, archive_number
from vikingpi.viking.embedded_index import rendered
from vikingpi.viking.uri import session_of

MOST_HITS = 50


class Sources(NamedTuple):
    """What the tools work on. `branch` gives the open session's entries, `generation` its name in the store."""

    memory: Memory
    sessions: SessionStore
    branch: Callable[[], Awaitable[Sequence[Entry]]]
    generation: Callable[[], str]


class MemoryTool:
    """One tool: what the model is told about it, and what it does."""

    def __init__(self, spec: ToolSpec, act: Callable[[Json], Awaitable[str]]) -> None:
        self._spec = spec
        self._act = act

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Do it; a store that refuses or does not answer is a ToolError that says so."""
        try:
            return text_outcome(await self._act(arguments))
        except ToolError:
            raise
        except VpiError as error:
            raise ToolError(f"{error}. {error.hint}" if error.hint else str(error)) from error


def memory_tools(sources: Sources) -> tuple[Tool, ...]:
    """Make the tools, in the order in which models see them."""
    acts: dict[str, Callable[[Json], Awaitable[str]]] = {
        "viking_search": lambda given: search(sources, given),
        "viking_read": lambda given: _read(sources.memory, given),
        "viking_browse": lambda given: _browse(sources.memory, given),
        "viking_remember": lambda given: _remember(sources.memory, given),
        "viking_forget": lambda given: _forget(sources, given),
        "viking_add_resource": lambda given: _add_resource(sources.memory, given),
        "viking_archive_expand": lambda given: expand(sources, given),
    }
    return tuple(MemoryTool(spec, acts[spec.name]) for spec in SPECS)


async def search(sources: Sources, given: Json, *, running: bool = True) -> str:
    """Search the open session's file and the store; the file answers even when the store does not.

    `running` leaves out the last user turn: it is the one that asks.
    """
    query, scope = as_str(given.get("query")).strip(), as_str(given.get("scope"))
    limit = min(MOST_HITS, whole_number(given, "limit", 10, least=1))
    if not query:
        raise ToolError("The query is empty")
    said: tuple[Said, ...] = ()
    if scope in ("", "sessions", "all"):
        said = await asyncio.to_thread(search_branch, await sources.branch(), query, limit, running=running)
    trouble = ""
    hits: tuple[Hit, ...] = ()
    try:
        wanted = "" if scope == "all" else scope
        memory = sources.memory
        hits = await memory.store.find(query, scope=wanted, limit=limit, peer=memory.peer)
    except StoreError as error:
        if not said:
            raise
        trouble = f"\n\n[The context store was not searched: {error}]"
    here = f"/sessions/{sources.generation()}/"
    others = [hit for hit in hits if not said or here not in hit.uri]
    lines = [*said_lines(said), *hit_lines(others)]
    if not lines:
        return f"Nothing was found for {query!r}.{trouble}"
    return paged("\n".join(lines), 1, None) + trouble


async def expand(sources: Sources, given: Json) -> str:
    """Give earlier conversation in full: a user turn or an archive, from the session file where it is there."""
    branch = await sources.branch()
    said = await asyncio.to_thread(_said, branch, given)
    if said is None:
        wanted = _archive_of(given)
        stored = await sources.sessions.archive(sources.generation(), wanted) if wanted else None
        if stored is None:
            spans = await asyncio.to_thread(archive_spans, branch)
            known = ", ".join(one.archive_id for one in spans) or "none"
            asked = as_str(given.get("archive_id"))[:80]
            raise ToolError(f"There is no archive {asked!r} of this session; archives: {known}")
        said = "\n\n".join(map(rendered, stored.messages))
    return await asyncio.to_thread(paged, said, *_lines_wanted(given))


def _said(branch: Sequence[Entry], given: Json) -> str | None:
    """Read what is asked for from a branch; None where it is an archive that the branch does not know."""
    turns = user_turns(branch)
    if number := whole_number(given, "user_turn", 0):
        if not 1 <= number <= len(turns):
            raise ToolError(f"There is no user turn {figure(number)}; this session has {len(turns)}")
        return render(branch, turns[number - 1 : number])
    spans = archive_spans(branch)
    if not as_str(given.get("archive_id")):
        listed = "\n".join(f"- {span.archive_id}: user turns {span.first} to {span.last}" for span in spans)
        return f"This session has {len(turns)} user turns.\n{listed or 'None of them is archived.'}"
    span = next((one for one in spans if one.archive_id == archive_name(_archive_of(given))), None)
    return render(branch, turns[span.first - 1 : span.last]) if span is not None else None


def _archive_of(given: Json) -> int:
    archive = as_str(given.get("archive_id"))
    return archive_number(archive) or (int(archive) if archive.isdecimal() else 0)


async def _read(memory: Memory, given: Json) -> str:
    level: Level = "full"
    if (asked := given.get("level")) in ("abstract", "overview"):
        level = asked
    text = await memory.store.read(as_str(given.get("uri")), level, peer=memory.peer)
    return paged(text, *_lines_wanted(given))


def _lines_wanted(given: Json) -> tuple[int, int | None]:
    """Read the first line and how many, None for all."""
    return max(1, whole_number(given, "offset", 1)), whole_number(given, "limit", 0, least=1) or None


async def _browse(memory: Memory, given: Json) -> str:
    uri = as_str(given.get("uri")).strip() or "viking://~"
    if given.get("action") == "stat":
        return node_line(await memory.store.stat(uri, peer=memory.peer))
    nodes = await memory.store.list(uri, peer=memory.peer)
    return paged("\n".join(map(node_line, nodes)) or f"{uri} is empty.", 1, None)


async def _remember(memory: Memory, given: Json) -> str:
    category = as_str(given.get("category")) or "entities"
    written = await memory.store.write(as_str(given.get("content")), category, peer=memory.writer)
    return f"{written.note}: {written.uri}"


async def _forget(sources: Sources, given: Json) -> str:
    memory = sources.memory
    uri, query = as_str(given.get("uri")).strip(), as_str(given.get("query")).strip()
    if uri:
        if (name := session_of(uri)) and name == sources.generation():
            raise ToolError(
                "That is the open session: its conversation is here and would be stored again. The user can delete it"
                " with `vpi memory forget` once it is closed; nothing was deleted."
            )
        return deleted_line(uri, await memory.store.delete(uri), sources.sessions.kind)
    if not query:
        raise ToolError("Give `uri`, or `query` to find what could be meant")
    hits = await memory.store.find(query, scope="memories", limit=10, peer=memory.peer)
    if not hits:
        return f"No memory was found for {query!r}; nothing was deleted."
    return "Nothing was deleted yet. Call again with the `uri` of the one that is meant:\n" + "\n".join(hit_lines(hits))


async def _add_resource(memory: Memory, given: Json) -> str:
    place = as_str(given.get("url")).strip()
    if not place:
        raise ToolError("The url is empty")
    written = await memory.store.add_resource(place, as_str(given.get("reason")))
    return f"{written.note}: {written.uri}" if written.uri else written.note


def _spec(name: str, description: str, required: Sequence[str] = (), **properties: Json) -> ToolSpec:
    schema: Json = {"type": "object", "properties": properties}
    return ToolSpec(name, description, {**schema, "required": list(required)} if required else schema)


def _text(description: str, *choices: str) -> Json:
    return {"type": "string", "description": description} | ({"enum": list(choices)} if choices else {})


def _number(description: str) -> Json:
    return {"type": "number", "description": description}


_URI = "Address such as viking://~/memories/profile.md; viking://~ is the user's own space"
_OFFSET, _LIMIT = _number("First line to show, counted from 1"), _number("Number of lines to show")

SPECS = (
    _spec(
        "viking_search",
        "Search this session's earlier turns, past sessions, memories and resources. Use it when something was said or"
        " decided before and is not in view.",
        ["query"],
        query=_text("Words to look for: names, values, paths, a question"),
        scope=_text("memories, resources, sessions, or a viking:// address to search below; default everything"),
        limit=_number("Most results to give, default 10"),
    ),
    _spec(
        "viking_read",
        "Read a viking:// address of the context store.",
        ["uri"],
        uri=_text(_URI),
        level=_text("How much of it: one line, an overview, or all (default)", "abstract", "overview", "full"),
        offset=_OFFSET,
        limit=_LIMIT,
    ),
    _spec(
        "viking_browse",
        "List a folder of the context store, or describe one entry.",
        ["action"],
        action=_text("What to do", "list", "stat"),
        uri=_text(f"{_URI}; default viking://~"),
    ),
    _spec(
        "viking_remember",
        "Keep something for future sessions. Use it when the user asks for it or states a lasting preference or fact.",
        ["content"],
        content=_text("What to remember, one thing, understandable on its own"),
        category=_text("Kind of memory; default entities", *CATEGORIES),
    ),
    _spec(
        "viking_forget",
        "Delete one memory, resource or past session by its address. With a query it only lists what could be meant.",
        uri=_text("Address to delete"),
        query=_text("Words to find the address by"),
    ),
    _spec(
        "viking_add_resource",
        "Take a web page, or a local file or folder, into the context store, to be searched later.",
        ["url"],
        url=_text("Web address or local path"),
        reason=_text("Why it is worth having"),
    ),
    _spec(
        "viking_archive_expand",
        "Show earlier conversation of this session in full, by user turn or by archive. Without either it lists them.",
        archive_id=_text("Archive such as archive_002"),
        user_turn=_number("User turn, counted from 1"),
        offset=_OFFSET,
        limit=_LIMIT,
    ),
)
