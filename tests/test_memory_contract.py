from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from vikingpi.errors import StoreRejected
from vikingpi.net import HttpTransport
from vikingpi.viking.base import Hit, MemoryStore, RecallQuery
from vikingpi.viking.embedded import StoreFile
from vikingpi.viking.embedded_memory import EmbeddedMemory
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_memory import HttpMemory
from vikingpi.viking.remembered import Remembered

LIVE_URL = os.environ.get("VPI_TEST_OPENVIKING_URL", "")
Opener = Callable[[Path], AbstractAsyncContextManager[MemoryStore]]


@asynccontextmanager
async def embedded(folder: Path) -> AsyncGenerator[MemoryStore]:
    transport = HttpTransport()
    file = StoreFile(folder / "store.db")
    try:
        yield EmbeddedMemory(file, lambda: time.time_ns() // 1_000_000, transport)
    finally:
        await file.close()
        await transport.close()


@asynccontextmanager
async def openviking(folder: Path) -> AsyncGenerator[MemoryStore]:
    transport = HttpTransport()
    key = os.environ.get("VPI_TEST_OPENVIKING_API_KEY", "")
    remembered = Remembered(folder / "routes.json", lambda: time.time_ns() // 1_000_000)
    try:
        yield HttpMemory(HttpApi(transport, LIVE_URL, api_key=key), remembered)
    finally:
        await transport.close()


LIVE = [pytest.param(openviking, id="openviking", marks=pytest.mark.live)] if LIVE_URL else []


class Bench:
    """A store, and a word that no other test uses."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.word = f"zq{secrets.token_hex(5)}"

    async def found(self, text: str, uri: str) -> tuple[Hit, ...]:
        """Search until `uri` is there: a server needs a moment."""
        hits: tuple[Hit, ...] = ()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            hits = await self.store.find(text, limit=50)
            if any(hit.uri == uri for hit in hits):
                return hits
            await asyncio.sleep(0.2)
        raise AssertionError(f"{uri} was not found: {hits}")


Run = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=[pytest.param(embedded, id="embedded"), *LIVE])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    opener: Opener = request.param

    def play(scene: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
        async def act() -> None:
            async with opener(tmp_path) as store:
                await scene(Bench(store))

        asyncio.run(act())

    return play


async def refusal(call: Coroutine[Any, Any, object]) -> StoreRejected:
    with pytest.raises(StoreRejected) as caught:
        await call
    return caught.value


def test_what_is_remembered_can_be_read_found_and_forgotten(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        text = f"The staging gateway {bench.word} listens on port 8443."
        written = await bench.store.write(text, "entities")
        assert written.uri.startswith("viking://user/")
        assert "/memories/entities/" in written.uri
        assert (await bench.store.read(written.uri)).strip() == text
        hits = await bench.found(f"{bench.word} gateway port", written.uri)
        assert all(0 <= hit.score <= 1 for hit in hits)
        assert await bench.store.delete(written.uri) >= 1
        gone = await refusal(bench.store.read(written.uri))
        assert gone.status == 404

    run(scene)


def test_remembering_the_same_twice_keeps_one(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        first = await bench.store.write(f"Prefer {bench.word} over tabs.", "preferences")
        second = await bench.store.write(f"Prefer {bench.word} over tabs.", "preferences")
        assert second.uri == first.uri
        listed = await bench.store.list(first.uri.rpartition("/")[0])
        assert [node.uri for node in listed].count(first.uri) == 1
        await bench.store.delete(first.uri)

    run(scene)


def test_the_tree_can_be_walked_from_the_root(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        written = await bench.store.write(f"{bench.word} happened on Monday.", "events")
        segments = written.uri.removeprefix("viking://").split("/")
        for depth in range(len(segments)):
            folder = "viking://" + "/".join(segments[:depth])
            child = "viking://" + "/".join(segments[: depth + 1])
            nodes = {node.uri.rstrip("/"): node for node in await bench.store.list(folder)}
            assert child in nodes
            assert nodes[child].folder == (child != written.uri)
        assert not (await bench.store.stat(written.uri)).folder
        assert (await bench.store.stat(written.uri.rpartition("/")[0])).folder
        await bench.store.delete(written.uri)

    run(scene)


def test_nothing_is_where_nothing_was_stored(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        for uri in (f"viking://user/default/memories/events/{bench.word}.md", f"viking://resources/{bench.word}"):
            assert (await refusal(bench.store.read(uri))).status == 404
            assert (await refusal(bench.store.stat(uri))).status == 404
            assert (await refusal(bench.store.list(uri))).status == 404
            assert (await refusal(bench.store.delete(uri))).status == 404

    run(scene)


@pytest.mark.parametrize(
    "uri", ["/etc/passwd", "viking://../x", "viking://user/%2e%2e/other", "http://example.org", ""]
)
def test_what_is_no_address_is_refused(run: Run, uri: str) -> None:
    async def scene(bench: Bench) -> None:
        for call in (bench.store.read(uri), bench.store.list(uri), bench.store.stat(uri), bench.store.delete(uri)):
            assert (await refusal(call)).status == 400

    run(scene)


@pytest.mark.parametrize(
    "uri",
    [
        "viking://",
        "viking://~",
        "viking://user",
        "viking://user/default",
        "viking://user/default/memories",
        "viking://user/default/memories/events",
        "viking://user/default/sessions",
        "viking://resources",
    ],
)
def test_roots_and_folders_of_everything_cannot_be_deleted(run: Run, uri: str) -> None:
    async def scene(bench: Bench) -> None:
        assert (await refusal(bench.store.delete(uri))).status == 403

    run(scene)


def test_a_folder_has_an_overview_and_no_text(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        written = await bench.store.write(f"{bench.word} is a colleague.", "entities")
        folder = written.uri.rpartition("/")[0]
        assert (await refusal(bench.store.read(folder, "full"))).status == 400
        assert await bench.store.read(folder, "overview")
        assert bench.word in await bench.store.read(written.uri, "overview")
        await bench.store.delete(written.uri)

    run(scene)


def test_a_memory_with_no_text_or_of_no_known_kind_is_refused(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        assert (await refusal(bench.store.write("  \n", "events"))).status == 400
        assert (await refusal(bench.store.write("something", "../../events"))).status == 400

    run(scene)


def test_the_profile_grows_and_shows_preferences(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.write(f"The user's name is {bench.word}.", "profile")
        await bench.store.write(f"The user works on {bench.word}-gateway.", "profile")
        preference = await bench.store.write(f"Prefers {bench.word}-tabs.", "preferences")
        block = await bench.store.profile(10_000)
        assert f"The user's name is {bench.word}." in block
        assert f"The user works on {bench.word}-gateway." in block
        assert preference.uri.rpartition("/")[2][:12] in block or f"Prefers {bench.word}-tabs." in block
        await bench.store.delete(preference.uri)

    run(scene)


def test_recall_leaves_out_what_the_request_holds(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        text = f"The deployment window of {bench.word} is Tuesday at two."
        written = await bench.store.write(text, "entities")
        await bench.found(bench.word, written.uri)
        query = RecallQuery(f"deployment window of {bench.word}?", 2000, 10, 0.0)
        assert written.uri in [hit.uri for hit in await bench.store.search_context(query)]
        known = query._replace(uris=frozenset({written.uri}))
        assert written.uri not in [hit.uri for hit in await bench.store.search_context(known)]
        await bench.store.delete(written.uri)

    run(scene)


def test_no_search_text_is_a_syntax_error(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        for text in ('"', "NEAR(", "a AND OR NOT", "*", "x:y", "-", "(((", "' OR 1=1 --", "\x00", "🙂", "{}^~"):
            await bench.store.find(text)
            await bench.store.search_context(RecallQuery(text, 2000, 10, 0.35))

    run(scene)
