"""Memories and resources on an OpenViking server, from 0.4.16 on.

- Recall asks `/search/search` in context mode, without query expansion: that is a model call. A server that has no
  such mode is asked `/search/recall`, one that has neither `/search/find`; which it was is remembered for some hours,
  also that it was none of them.
- A folder that nobody has summarised answers with a placeholder, which counts as nothing.
- Memories of one project lie below `viking://user/<user>/peers/<peer>/memories`.
- What was said in sessions is not searched here.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from vikingpi.decode import Json, as_dict, as_float, as_int, as_list, as_str
from vikingpi.errors import RouteMissing, StoreError, StoreRejected
from vikingpi.tokens import estimate
from vikingpi.viking import levels
from vikingpi.viking.base import CATEGORIES, SEED_TITLE, Hit, Level, Node, RecallQuery, Written
from vikingpi.viking.gather import gather_path, slug, without_secrets
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_space import Space
from vikingpi.viking.outgoing import whole
from vikingpi.viking.profile_text import elided, section
from vikingpi.viking.remembered import Remembered
from vikingpi.viking.uri import check_deletable

MOST_EXCLUDED = 200
MOST_FILES = 100

_ROUTES = ("search", "recall", "find")
_NO_ROUTE = "none"
_NOT_FETCHED = "this server fetches what its own rules allow, mostly public addresses; save the page and add the file"
_NOT_READY = "is not ready]"
_PSEUDO = ("/.overview.md", "/.abstract.md")


class HttpMemory:
    """The MemoryStore over HTTP; the transport belongs to its owner. `mask` hides secrets in local files."""

    def __init__(self, api: HttpApi, remembered: Remembered, mask: Callable[[str], str] = str) -> None:
        self._api = api
        self._space = Space(api)
        self._remembered = remembered
        self._mask = mask

    async def search_context(self, query: RecallQuery) -> tuple[Hit, ...]:
        start = self._remembered.get(self._api.endpoint)
        if start == _NO_ROUTE:
            return ()
        for route in _ROUTES[_ROUTES.index(start) if start in _ROUTES else 0 :]:
            try:
                found = await _recall(self._api, route, query)
            except StoreError as error:
                if not _route_unknown(error):
                    raise
                continue
            if route not in (start, _ROUTES[0]):
                self._remembered.put(self._api.endpoint, route)
            return _fitting(found, query)
        self._remembered.put(self._api.endpoint, _NO_ROUTE)
        return ()

    async def find(self, text: str, *, scope: str = "", limit: int = 10, peer: str = "") -> tuple[Hit, ...]:
        if not text.strip() or scope == "sessions":
            return ()
        body: Json = {"query": whole(text), "limit": min(100, 2 * max(1, limit))}
        if below := await self._space.below(scope, peer):
            body["target_uri"] = below
        return tuple(_found(await self._api.post("/api/v1/search/find", body))[: max(1, limit)])

    async def read(self, uri: str, level: Level = "full", *, peer: str = "") -> str:
        target = await self._own(uri, peer)
        if level == "full" or not (await self.stat(target)).folder:
            text = as_str(await self._api.get("/api/v1/content/read", {"uri": target}))
            return text if level == "full" else levels.abstract(text) if level == "abstract" else levels.overview(text)
        text = as_str(await self._api.get(f"/api/v1/content/{level}", {"uri": target}))
        if text.strip() and _NOT_READY not in text:
            return text
        nodes = await self.list(target)
        listed = "\n".join(f"- {node.uri} {node.abstract}".rstrip() for node in nodes) or "(empty)"
        return listed if level == "overview" else f"{len(nodes)} entries"

    async def list(self, uri: str, *, peer: str = "") -> tuple[Node, ...]:
        answer = await self._api.get("/api/v1/fs/ls", {"uri": await self._own(uri, peer)})
        return tuple(sorted((_node(as_dict(one)) for one in as_list(answer)), key=lambda node: node.uri))

    async def stat(self, uri: str, *, peer: str = "") -> Node:
        target = await self._own(uri, peer)
        return _node({**as_dict(await self._api.get("/api/v1/fs/stat", {"uri": target})), "uri": target})

    async def write(self, content: str, category: str, *, peer: str = "") -> Written:
        text = whole(content).strip()
        if not text or category not in CATEGORIES:
            raise StoreRejected(
                "there is nothing to remember" if not text else f"there is no category {category[:60]!r}",
                hint=f"categories are {', '.join(CATEGORIES)}",
                status=400,
                code="INVALID_ARGUMENT",
            )
        home = await self._space.home()
        if category == "profile":
            return await self._extend(f"{home}/memories/profile.md", text)
        base = f"{home}/peers/{peer}" if peer else home
        name = f"{slug(' '.join(text.split()[:6]))[:48]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.md"
        uri = f"{base}/memories/{category}/{name}"
        if (await self._space.text(uri)).strip() == text:
            return Written(uri, "known already")
        await self._space.put(uri, text)
        return Written(uri, "stored")

    async def delete(self, uri: str) -> int:
        target = check_deletable(await self._space.canonical(uri))
        query = {"uri": target, "recursive": "true"} if (await self.stat(target)).folder else {"uri": target}
        answer = as_dict(await self._api.delete("/api/v1/fs", query))
        return max(1, as_int(answer.get("estimated_deleted_count")))

    async def add_resource(self, place: str, reason: str = "") -> Written:
        if "://" in place:
            body: Json = {"path": place.strip()} | ({"reason": whole(reason)} if reason else {})
            try:
                answer = as_dict(await self._api.post("/api/v1/resources", body))
            except StoreRejected as error:
                if error.status != 403:
                    raise
                raise StoreRejected(str(error), hint=_NOT_FETCHED, status=403, code=error.code) from error
            said = as_str(answer.get("message")) or as_str(answer.get("status")) or "accepted"
            return Written(as_str(answer.get("root_uri")) or as_str(answer.get("uri")), said)
        gathered = without_secrets(await asyncio.to_thread(gather_path, Path(place)), self._mask)
        if len(gathered.documents) > MOST_FILES:
            raise StoreRejected(
                f"{place} holds {len(gathered.documents)} files, at most {MOST_FILES} can be sent at once",
                hint="add its folders one by one",
                status=413,
                code="TOO_LARGE",
            )
        for document in gathered.documents:
            await self._space.put(f"viking://resources/{document.name}", whole(document.text))
        top = f"viking://resources/{gathered.top}"
        if gathered.folder:
            await self._space.delete_below(top, {f"viking://resources/{one.name}" for one in gathered.documents})
        return Written(top, gathered.note)

    async def profile(self, budget: int, *, peer: str = "") -> str:
        home = await self._space.home()
        base = f"{home}/peers/{peer}" if peer else home
        text, preferences, entities = await asyncio.gather(
            self._space.text(f"{home}/memories/profile.md"),
            self._space.names(f"{base}/memories/preferences"),
            self._space.names(f"{base}/memories/entities"),
        )
        parts = [f"## Profile\n{elided(text.strip(), budget // 2)}"] if text.strip() else []
        for title, names in (("Preferences", preferences), ("Entities", entities)):
            made = section(title, names, budget - sum(map(estimate, parts)) - len(parts))
            parts += [made] if made else []
        return "\n\n".join(parts)

    async def _own(self, uri: str, peer: str) -> str:
        """Write an address out in full; 404 for the folder that holds another project's memories."""
        target = await self._space.canonical(uri)
        if peer and _peer_of(target) not in ("", peer):
            raise StoreRejected(f"nothing is stored at {uri[:200]}", status=404, code="NOT_FOUND")
        return target

    async def _extend(self, uri: str, text: str) -> Written:
        known = await self._space.text(uri)
        if text in known:
            return Written(uri, "known already")
        await self._space.put(uri, f"\n{text}" if known else text, "append" if known else "create")
        return Written(uri, "added to the profile")


async def _recall(api: HttpApi, route: str, query: RecallQuery) -> list[Hit]:
    body: Json = {"query": whole(query.text)}
    if route == "find":
        hits = _found(await api.post("/api/v1/search/find", body | {"limit": min(100, 2 * query.limit)}))
        return [hit for hit in hits if not query.peer or _peer_of(hit.uri) in ("", query.peer)]
    scope = "actor" if query.peer else "all"
    if route == "recall":
        body |= {"max_chars": 4 * query.budget, "min_score": query.threshold, "render": True, "peer_scope": scope}
    else:
        body |= {
            "mode": "context",
            "purpose": "coding",
            "max_tokens": min(32_000, max(64, query.budget)),
            "score_threshold": query.threshold,
            "query_expansion": "off",
            "peer_scope": scope,
            "exclude_uris": sorted(query.uris)[:MOST_EXCLUDED],
        }
    answer = as_dict(await api.post(f"/api/v1/search/{route}", body))
    hits = [_hit(as_dict(one), "text") for one in as_list(answer.get("entries"))]
    whole_text = as_str(answer.get("digest")) or ("" if hits else as_str(answer.get("rendered")))
    return [Hit("", "digest", 1.0, whole_text)] if whole_text.strip() else hits


def _route_unknown(error: StoreError) -> bool:
    """Whether an older server refuses the way it is asked, not what it is asked."""
    if isinstance(error, RouteMissing):
        return True
    said = str(error).lower()
    return isinstance(error, StoreRejected) and error.status in (400, 422) and ("mode" in said or "extra" in said)


def _fitting(hits: Sequence[Hit], query: RecallQuery) -> tuple[Hit, ...]:
    """Keep what is above the threshold and new, within limit and budget."""
    kept: list[Hit] = []
    used = 0
    for hit in hits:
        cost = estimate(hit.text)
        known = hit.uri in query.uris or _is_listing(hit) or _is_overview(hit)
        if known or hit.score < query.threshold or used + cost > query.budget or len(kept) == query.limit:
            continue
        used += cost
        kept.append(hit)
    return tuple(kept)


def _is_overview(hit: Hit) -> bool:
    """Whether a hit is what a session began with as an overview of what was said before it, not said in it."""
    return hit.text.lstrip().removeprefix("user:").lstrip().startswith(SEED_TITLE)


def _is_listing(hit: Hit) -> bool:
    """Whether a hit only says what a folder of memories, or a root, is there for."""
    if "." in hit.uri.rpartition("/")[2]:
        return False
    match hit.uri.removeprefix("viking://").split("/"):
        case (
            ["resources"] | ["user" | "agent", *_, "resources" | "skills"] | ["user" | "agent"] | ["user" | "agent", _]
        ):
            return True
        case _:
            return "/memories/" in f"{hit.uri}/"


def _peer_of(uri: str) -> str:
    """Give the project that an address belongs to, "" for the user's own."""
    return uri.partition("/peers/")[2].partition("/")[0]


def _found(answer: object) -> list[Hit]:
    """Read the hits of a plain search, best first, without the files that describe folders of memories."""
    groups = as_dict(answer)
    hits: list[Hit] = []
    for group in ("memories", "resources", "skills"):
        hits += [_hit(as_dict(one), "abstract") for one in as_list(groups.get(group))]
    kept = [hit for hit in hits if not _describes(hit.uri)]
    named = {hit.uri: hit for hit in reversed(kept)}
    return sorted(named.values(), key=lambda hit: -hit.score)


def _describes(uri: str) -> bool:
    """Whether a file says what a folder holds; of a folder of resources that is worth finding."""
    return uri.endswith(_PSEUDO) and (not uri.startswith("viking://resources/") or uri.count("/") == 3)


def _hit(one: Json, field: str) -> Hit:
    uri = as_str(one.get("uri"))
    category = as_str(one.get("category")) or _category(uri)
    return Hit(uri, category, min(1.0, max(0.0, as_float(one.get("score")))), as_str(one.get(field)))


def _category(uri: str) -> str:
    if uri.startswith("viking://resources"):
        return "resource"
    return uri.partition("/memories/")[2].partition("/")[0].removesuffix(".md") or "memory"


def _node(one: Json) -> Node:
    said = as_str(one.get("abstract"))
    abstract = "" if _NOT_READY in said else " ".join(said.split())
    uri = as_str(one.get("uri"))
    uri = uri if uri == "viking://" else uri.rstrip("/")
    return Node(uri, one.get("isDir") is True, abstract, as_int(one.get("size")), as_str(one.get("modTime")))
