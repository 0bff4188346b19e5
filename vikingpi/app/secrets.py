"""Which secrets a run knows by value, and the one mask over all that it keeps."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import quote

from vikingpi.config.model import Settings
from vikingpi.config.paths import Paths
from vikingpi.llm.registry import Catalog
from vikingpi.private import kept_random
from vikingpi.redact import Redactor, is_secret_name, secrets_in

REDACT_OFF = "captureRedact is false: secrets reach the context store and the ledger as they are"
_ENCODED_FROM = 12


def make_redactor(
    settings: Settings, paths: Paths, catalog: Catalog, env: Mapping[str, str], given: Iterable[str], *, keep: bool
) -> Redactor:
    """Make the mask for a run. `given` are keys from flags and settings.

    With `keep` equal secrets get equal masks in every process over the same data folder, so that stored text stays
    comparable; without it nothing is written.
    """
    salt = kept_random(paths.data / "mask.salt") if keep else b""
    secrets = {*given, *_keys(catalog), *secrets_in(env)} - {""}
    return Redactor(settings.redact.rules, salt, {form for secret in secrets for form in _forms(secret)})


def mask_of(redactor: Redactor, settings: Settings) -> Callable[[str], str]:
    """Give what hides secrets from a store, which is nothing where the user has switched it off."""
    return (lambda text: redactor.mask(text)[0]) if settings.capture_redact else str


def _keys(catalog: Catalog) -> Iterator[str]:
    for setup in catalog.setups.values():
        yield setup.key.value
        for name, value in setup.headers.items():
            if name.lower().endswith("authorization"):
                yield value.rpartition(" ")[2]
            elif is_secret_name(name) or name.lower().endswith("key"):
                yield value


def _forms(secret: str) -> Iterator[str]:
    """The secret, and as it looks in a URL or anywhere inside of a base64 text."""
    yield secret
    yield quote(secret, safe="")
    raw = secret.encode("utf-8", "surrogatepass")
    if len(raw) < _ENCODED_FROM:
        return
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).rstrip(b"=").decode()
        # The first and last characters also hold bits of what stands beside the secret.
        yield text[(0, 2, 3)[before] : None if (before + len(raw)) % 3 == 0 else -1]
