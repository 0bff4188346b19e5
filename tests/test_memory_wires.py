"""The overview writer over real HTTP, on both wires, against the scripted model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from patience import PATIENCE
from store_kit import assistant, user
from test_scripts_model import LIVE, Endpoint, start, stop

from vikingpi.llm.base import Model, Price
from vikingpi.llm.registry import find_provider
from vikingpi.memory.overview_writer import ModelInUse, ModelWriter
from vikingpi.messages import Usage
from vikingpi.net import HttpTransport
from vikingpi.tokens import estimate
from vikingpi.viking.embedded_sessions import EmbeddedSessions
from vikingpi.viking.overview import acceptable

BUDGET = 600
SAID = (user("Remember: the gateway port is 8443.", "e1"), assistant("noted, falke is F-77", "e2"))


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    process, endpoint = start(str(LIVE / "model_server.py"))
    yield endpoint
    stop(process)


@pytest.fixture(params=["openai-completions", "anthropic-messages"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Lab(NamedTuple):
    store: EmbeddedSessions
    spent: list[Usage]

    async def commit(self) -> str:
        """Store something more, archive it and give the overview."""
        await self.store.add_messages("s", SAID)
        receipt = await self.store.commit("s", 0)
        assert receipt is not None
        archive = await self.store.archive("s", receipt.archive)
        assert archive is not None
        return archive.overview


@asynccontextmanager
async def lab(folder: Path, server: Endpoint, api: str, seconds: float = 20) -> AsyncGenerator[Lab]:
    base = f"http://{server.host}:{server.port}" + ("/v1" if api.startswith("openai") else "")
    price, spent = Price(1.0, 2.0, 0.5, 4.0), list[Usage]()
    model = Model("lab", "scripted", api, base, "key-123456", {}, 100_000, 4096, False, False, price, {}, "$KEY")
    transport = HttpTransport()
    using = ModelInUse(model, find_provider(transport), spent.append)
    store = EmbeddedSessions(
        folder / "store.db",
        lambda: 0,
        overview_budget=BUDGET,
        writer=ModelWriter(lambda: using, BUDGET),
        writer_seconds=seconds,
    )
    await store.ensure_session("s")
    try:
        yield Lab(store, spent)
    finally:
        await store.close()
        await transport.close()


def by_model(overview: str) -> bool:
    return "Scripted session" in overview


def test_the_model_writes_one_overview_after_the_other(tmp_path: Path, server: Endpoint, api: str) -> None:
    async def scene() -> None:
        async with lab(tmp_path, server, api) as bench:
            server.json("POST", "/control", {"summaryMode": "ok"})
            first, second = await bench.commit(), await bench.commit()
            assert by_model(first)
            assert "the gateway port is 8443." in first
            assert second.count("the gateway port is 8443.") == 1
            assert len(bench.spent) == 2
            assert all(usage.total for usage in bench.spent)

    asyncio.run(scene())


@pytest.mark.parametrize("mode", ["blank", "garbage", "fail", "cut", "long"])
def test_what_is_no_overview_is_refused_and_one_is_extracted(
    tmp_path: Path, server: Endpoint, api: str, mode: str
) -> None:
    async def scene() -> None:
        async with lab(tmp_path, server, api) as bench:
            server.json("POST", "/control", {"summaryMode": mode, "failStatus": 529})
            overview = await bench.commit()
            assert acceptable(overview)
            assert not by_model(overview)
            assert estimate(overview) <= BUDGET
            assert "8443" in overview

    asyncio.run(scene())


def test_a_slow_model_is_waited_for_no_longer_than_is_allowed(tmp_path: Path, server: Endpoint, api: str) -> None:
    async def scene() -> None:
        async with lab(tmp_path, server, api, seconds=0.2) as bench:
            server.json("POST", "/control", {"summaryMode": "ok", "summaryDelay": 60})
            started = time.monotonic()
            overview = await bench.commit()
            assert time.monotonic() - started < PATIENCE
            assert not by_model(overview)
            assert "8443" in overview

    try:
        asyncio.run(scene())
    finally:
        server.json("POST", "/control", {"summaryDelay": 0})


def test_a_commit_that_is_given_up_archives_nothing_and_can_be_made_again(
    tmp_path: Path, server: Endpoint, api: str
) -> None:
    async def scene() -> None:
        async with lab(tmp_path, server, api) as bench:
            server.json("POST", "/control", {"summaryMode": "ok", "summaryDelay": 60})
            given_up = asyncio.create_task(bench.commit())
            await asyncio.sleep(0.2)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            status = await bench.store.session_status("s")
            assert status is not None
            assert (status.commit_count, status.live_messages) == (0, 2)
            server.json("POST", "/control", {"summaryDelay": 0})
            assert by_model(await bench.commit())

    try:
        asyncio.run(scene())
    finally:
        server.json("POST", "/control", {"summaryDelay": 0})
