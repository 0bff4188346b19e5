"""Memory that hears no secrets: what is asked, written or named is masked before it leaves the process."""

from __future__ import annotations

from collections.abc import Callable

from vikingpi.errors import StoreRejected
from vikingpi.viking.base import Hit, Level, MemoryStore, Node, RecallQuery, Written


class MaskedMemory:
    """The MemoryStore `store` behind `mask`; what comes back is given as it is.

    An address with a secret in it is used only where its folder lists it: what a store holds already can still be
    looked at and deleted. What a store takes in from a local path is masked by the store itself.
    """

    def __init__(self, store: MemoryStore, mask: Callable[[str], str]) -> None:
        self._store = store
        self._mask = mask

    async def search_context(self, query: RecallQuery) -> tuple[Hit, ...]:
        return await self._store.search_context(query._replace(text=self._mask(query.text)))

    async def find(self, text: str, *, scope: str = "", limit: int = 10, peer: str = "") -> tuple[Hit, ...]:
        return await self._store.find(self._mask(text), scope=self._mask(scope), limit=limit, peer=peer)

    async def read(self, uri: str, level: Level = "full", *, peer: str = "") -> str:
        return await self._store.read(await self._address(uri), level, peer=peer)

    async def list(self, uri: str, *, peer: str = "") -> tuple[Node, ...]:
        return await self._store.list(await self._address(uri), peer=peer)

    async def stat(self, uri: str, *, peer: str = "") -> Node:
        return await self._store.stat(await self._address(uri), peer=peer)

    async def write(self, content: str, category: str, *, peer: str = "") -> Written:
        return await self._store.write(self._mask(content), self._mask(category), peer=peer)

    async def delete(self, uri: str) -> int:
        return await self._store.delete(await self._address(uri))

    async def add_resource(self, place: str, reason: str = "") -> Written:
        if self._mask(place) != place:
            raise _refused("the address holds a secret, which would be stored", "give one without it")
        return await self._store.add_resource(place, self._mask(reason))

    async def profile(self, budget: int, *, peer: str = "") -> str:
        return await self._store.profile(budget, peer=peer)

    async def _address(self, uri: str) -> str:
        if self._mask(uri) == uri:
            return uri
        folder, _, name = uri.rstrip("/").rpartition("/")
        try:
            nodes = await self._store.list(folder) if name and self._mask(folder) == folder else ()
        except StoreRejected:
            nodes = ()
        if not any(node.uri.rpartition("/")[2] == name for node in nodes):
            raise _refused("the address holds a secret and is not known to the store", "look for it with a search")
        return uri


def _refused(text: str, hint: str) -> StoreRejected:
    return StoreRejected(text, hint=hint, status=400, code="INVALID_ARGUMENT")
