"""Memory over the store of a run: hooks, tools, and what a user may ask of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from vikingpi.agent.hooks import HookContext
from vikingpi.app.secrets import mask_of
from vikingpi.app.stores import OpenStore, Takeover, now_ms, peer_for
from vikingpi.config.load import Endpoint
from vikingpi.config.model import Settings
from vikingpi.config.paths import Paths
from vikingpi.debuglog import Log
from vikingpi.decode import Json
from vikingpi.memory.hooks import MemoryHooks
from vikingpi.memory.masked import MaskedMemory
from vikingpi.memory.scope import Memory
from vikingpi.memory.tools import Sources, expand, memory_tools, search
from vikingpi.messages import Message
from vikingpi.net import Transport
from vikingpi.session.entries import Entry
from vikingpi.session.tree import build_context
from vikingpi.tools.base import Tool
from vikingpi.values import NamedTuple
from vikingpi.viking.base import MemoryStore
from vikingpi.viking.embedded import StoreFile
from vikingpi.viking.embedded_memory import EmbeddedMemory
from vikingpi.viking.embedded_sessions import EmbeddedSessions
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_memory import HttpMemory
from vikingpi.viking.remembered import Remembered


class BuiltMemory(NamedTuple):
    hooks: MemoryHooks
    tools: tuple[Tool, ...]
    control: MemoryControl


class MemoryControl:
    """What `/viking search` and `/viking expand` ask; every text is ready to be shown.

    VpiError where there is nothing of that, or the store does not answer."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def search(self, query: str) -> str:
        """Search this session, past sessions, memories and resources."""
        return await search(self._sources, {"query": query}, running=False)

    async def expand(self, what: str) -> str:
        """Show a user turn by its number, or an archive by its name; without either list them."""
        word = what.strip()
        given: Json = {"user_turn": int(word)} if word.isdecimal() else {"archive_id": word}
        return await expand(self._sources, given)


def open_memory(
    endpoint: Endpoint | None,
    file: StoreFile,
    paths: Paths,
    transport: Transport,
    log: Log,
    mask: Callable[[str], str],
    *,
    peer: str,
    only_peer: bool,
) -> tuple[MemoryStore, str]:
    """Give the memory side of a store, `file` where it is not a server, and whose a new memory becomes there.

    The embedded store notes the project with every memory. A server keeps one project's memories apart from the
    user's own, so there only a run that is limited to its project writes to them.
    """
    if endpoint is None:
        return MaskedMemory(EmbeddedMemory(file, now_ms, transport, mask), mask), peer
    api = HttpApi(
        transport,
        endpoint.url,
        api_key=endpoint.api_key,
        account=endpoint.account,
        user=endpoint.user,
        peer=peer,
        log=log,
    )
    memory = HttpMemory(api, Remembered(paths.data / "routes.json", now_ms), mask)
    return MaskedMemory(memory, mask), peer if only_peer else ""


def memory_of(
    opened: OpenStore,
    settings: Settings,
    paths: Paths,
    transport: Transport,
    log: Log,
    cwd: Path,
    env: Mapping[str, str],
) -> Memory:
    """Put the memory of a run together."""
    peer = peer_for(opened.redactor, settings, cwd, env)
    only_peer = settings.recall_peer_scope == "actor" and bool(peer)
    file = opened.store.file if isinstance(opened.store, EmbeddedSessions) else StoreFile(paths.store_db)
    endpoint = opened.choice.endpoint
    mask = mask_of(opened.redactor, settings)
    store, writer = open_memory(endpoint, file, paths, transport, log, mask, peer=peer, only_peer=only_peer)

    def resting() -> bool:
        return opened.ledger.stores.get(opened.link.row.identity).rests(now_ms())

    return Memory(store, peer if only_peer else "", writer, mask, resting)


def build_memory(
    memory: Memory,
    opened: OpenStore,
    takeover: Takeover,
    ctx: HookContext,
    history: Callable[[], Awaitable[Sequence[Entry]]],
    seal: Callable[[str], str],
) -> BuiltMemory:
    """Put the memory of one session together; `history` gives the branch from its root on, `seal` marks the profile."""

    def shown() -> tuple[Message, ...]:
        return takeover.hooks.context(ctx, build_context(ctx.branch()))

    sources = Sources(memory, opened.store, history, takeover.generation)
    return BuiltMemory(MemoryHooks(memory, shown, seal=seal), memory_tools(sources), MemoryControl(sources))
