"""Model servers on this machine, looked for when no other model is configured or one of them is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from contextlib import suppress

from vikingpi.decode import Json, as_dict, as_int, as_list, as_str
from vikingpi.errors import NetError
from vikingpi.llm.base import Model, Price
from vikingpi.llm.catalog import DEFAULT_OUTPUT, LOCAL_SERVERS, LOCAL_WINDOW, LocalServer
from vikingpi.llm.models_file import Key
from vikingpi.llm.openai_body import DIRECT
from vikingpi.llm.registry import Catalog, ProviderSetup
from vikingpi.net import Transport

CONNECT_TIMEOUT = 0.15
ANSWER_TIMEOUT = 2.0

_MODEL_LIMIT = 50
_BODY_LIMIT = 1024 * 1024


async def with_local_servers(
    catalog: Catalog,
    transport: Transport,
    servers: Sequence[LocalServer] = LOCAL_SERVERS,
    named: Collection[str] = (),
) -> Catalog:
    """Add the models of the servers that run here: of those that are `named`, of all where no model is usable."""
    asked = [server for server in servers if server.name in named and server.name not in catalog.setups]
    if not catalog.usable:
        asked = [server for server in servers if server.name not in catalog.setups]
    if not asked:
        return catalog
    found = await asyncio.gather(*(_ask(server, transport) for server in asked))
    models = tuple(model for listed in found for model in listed)
    setups = {model.provider: _setup(model) for model in models}
    return catalog._replace(setups={**catalog.setups, **setups}, models=(*models, *catalog.models))


async def _ask(server: LocalServer, transport: Transport) -> tuple[Model, ...]:
    """A port that nobody listens on costs no request; what answers something else than a model list is passed over."""
    if not await _listens(server.port):
        return ()
    base_url = f"http://127.0.0.1:{server.port}/v1"
    try:
        reply = await transport.send("GET", f"{base_url}/models", timeout=ANSWER_TIMEOUT, limit=_BODY_LIMIT)
        listed = as_dict(json.loads(reply.body)) if reply.status == 200 else {}
    except (NetError, ValueError, RecursionError):
        return ()
    items = [as_dict(item) for item in as_list(listed.get("data"))]
    chats = [item for item in items if as_str(item.get("id")) and "embed" not in as_str(item.get("id"))]
    return tuple(_model(server, base_url, item) for item in chats[:_MODEL_LIMIT])


async def _listens(port: int) -> bool:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


def _model(server: LocalServer, base_url: str, item: Json) -> Model:
    """llama.cpp and LM Studio say how large the window is; otherwise a size that local servers are set to."""
    window = as_int(as_dict(item.get("meta")).get("n_ctx_train")) or as_int(item.get("max_context_length"))
    window = window if window > 0 else LOCAL_WINDOW
    return Model(
        provider=server.name,
        id=as_str(item.get("id")),
        api=DIRECT,
        base_url=base_url,
        api_key="",
        headers={},
        context_window=window,
        max_tokens=min(DEFAULT_OUTPUT, window // 2),
        reasoning=False,
        images=False,
        price=Price(),
        compat={},
    )


def _setup(model: Model) -> ProviderSetup:
    return ProviderSetup(
        name=model.provider,
        api=model.api,
        base_url=model.base_url,
        key=Key("", ""),
        headers={},
        compat={},
        key_variables=(),
        ready=True,
    )
