"""Store identity: whose space messages go to. Endpoint, account and user, as the server reports them for the key.

Without a key (a server in dev mode) the configured account and user say it. With a key only the server knows; its
answer is remembered by a hash of the key, so that the next process captures for the right owner at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.takeover.delivery import Link
from vikingpi.viking.http import normalise_endpoint


def endpoint_name(url: str) -> str:
    """Normalise an endpoint so that spelling makes no second identity; ConfigError when it is none."""
    return normalise_endpoint(url).replace("://localhost", "://127.0.0.1", 1)


def http_identity(url: str, api_key: str, account: str, user: str, cache: Path) -> tuple[str, bool]:
    """Give the identity of an OpenViking endpoint and whether it is provisional."""
    name = endpoint_name(url)
    if not api_key:
        return _identity(name, account or "default", user or "default"), False
    known = as_str(_read(cache).get(_hash(name, api_key)))
    return (known, False) if known else (f"openviking:{name}#{_hash(name, api_key)}", True)


async def identify(link: Link) -> None:
    """Ask the server who the key belongs to and move what was captured so far there; raise StoreError."""
    health = await link.store.health()
    identity = _identity(endpoint_name(health.endpoint), health.account, health.user)
    provisional = link.row.identity
    _remember(link.identities, provisional.rpartition("#")[2], identity)
    link.row = link.ledger.stores.rename(provisional, identity)
    link.provisional = False


def _identity(name: str, account: str, user: str) -> str:
    return f"openviking:{name}|{account}|{user}"


def _hash(name: str, api_key: str) -> str:
    return hashlib.sha256(f"{name}\n{api_key}".encode()).hexdigest()[:24]


def _read(cache: Path) -> Json:
    try:
        return as_dict(json.loads(cache.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _remember(cache: Path, key: str, identity: str) -> None:
    """Write the cache whole; losing it costs one question to the server."""
    known = {**_read(cache), key: identity}
    scratch = cache.with_suffix(f".{os.getpid()}")
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1, sort_keys=True)
        scratch.replace(cache)
    except OSError:
        scratch.unlink(missing_ok=True)
