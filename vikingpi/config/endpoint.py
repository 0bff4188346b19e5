"""Which OpenViking server is meant, and with which key: environment, config.json, ovcli.conf, ov.conf.

The two last ones belong to OpenViking. `ovcli.conf` is its client's file: `url, api_key, account, user,
actor_peer_id`. `ov.conf` is a server's own file: `server.{url, host, port}`; its `root_api_key` administrates a
server and may not use sessions, so it is never taken for a user's key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from vikingpi.config.jsonfile import read_object
from vikingpi.config.model import OpenViking
from vikingpi.config.paths import home_of
from vikingpi.decode import Json, as_dict, as_int, as_str
from vikingpi.errors import ConfigError
from vikingpi.values import NamedTuple

DEFAULT_PORT = 1933


class Endpoint(NamedTuple):
    """A server and who one is there; `source` is where its address was found."""

    url: str
    api_key: str
    account: str
    user: str
    source: str


class Layer(NamedTuple):
    """What one place says; empty fields say nothing. `key_source` names the key's place where it is not `source`."""

    source: str
    url: str = ""
    api_key: str = ""
    account: str = ""
    user: str = ""
    peer_id: str = ""
    is_project: bool = False
    key_source: str = ""


def choose(layers: Iterable[Layer]) -> tuple[Endpoint | None, str]:
    """Return the first address and what goes with it, and the peer id found on the way.

    Keys and names of a layer are used only with its own address, or where the layer names none: a key is never
    sent to another host than the one it was written down for. To a host that a project names goes nothing that
    stands anywhere else.
    """
    all_layers = list(layers)
    first = next((layer for layer in all_layers if layer.url), None)
    if first is None:
        return None, ""
    fitting = [first] if first.is_project else [layer for layer in all_layers if layer.url in ("", first.url)]

    def pick(field: str) -> str:
        return next((value for layer in fitting if (value := getattr(layer, field))), "")

    return Endpoint(first.url, pick("api_key"), pick("account"), pick("user"), first.source), pick("peer_id")


def held_back(layers: Iterable[Layer], endpoint: Endpoint | None) -> tuple[str, ...]:
    """Say which keys are not sent because a project's file names the server."""
    all_layers = list(layers)
    if endpoint is None or not any(each.is_project and each.source == endpoint.source for each in all_layers):
        return ()
    held = [each for each in all_layers if each.api_key and each.source != endpoint.source and not each.url]
    sources = [each.key_source or each.source for each in held]
    return tuple(f"the OpenViking key of {name} is not sent to {endpoint.url}: a project names it" for name in sources)


def environment_layer(env: Mapping[str, str]) -> tuple[Layer, tuple[str, ...]]:
    """Read the OPENVIKING_* variables."""
    name = "OPENVIKING_URL" if env.get("OPENVIKING_URL", "").strip() else "OPENVIKING_BASE_URL"
    url, problems = _checked(env.get(name, ""), name)
    key_name = "OPENVIKING_API_KEY" if env.get("OPENVIKING_API_KEY", "").strip() else "OPENVIKING_BEARER_TOKEN"
    key = env.get(key_name, "").strip()
    account, user = env.get("OPENVIKING_ACCOUNT", "").strip(), env.get("OPENVIKING_USER", "").strip()
    return Layer(name, url, key, account, user, key_source=key_name), problems


def settings_layer(values: OpenViking, source: str, *, is_project: bool) -> tuple[Layer, tuple[str, ...]]:
    """Read the `openviking` group of one configuration file."""
    url, problems = _checked(values.url, f"{source}: openviking.url")
    layer = Layer(source, url, values.api_key, values.account, values.user, is_project=is_project)
    return layer, problems


def file_layers(env: Mapping[str, str]) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    """Read OpenViking's own files, or those that the environment names; a broken one is a problem, not an error."""
    layers: list[Layer] = []
    problems: list[str] = []
    for variable, name in (("OPENVIKING_CLI_CONFIG_FILE", "ovcli.conf"), ("OPENVIKING_CONFIG_FILE", "ov.conf")):
        named = env.get(variable, "").strip()
        path = _expand(named, env) if named else home_of(env) / ".openviking" / name
        try:
            values = read_object(path)
        except ConfigError as error:
            problems.append(f"{error}; the file is ignored")
            continue
        if values is None:
            if named:
                problems.append(f"{variable}: {path} does not exist")
            continue
        read = _server_layer if "server" in values or (name == "ov.conf" and "url" not in values) else _client_layer
        layer, more = read(values, str(path))
        layers.append(layer)
        problems += more
    return tuple(layers), tuple(problems)


def _client_layer(values: Json, source: str) -> tuple[Layer, tuple[str, ...]]:
    def text(*keys: str) -> str:
        return next((found for key in keys if (found := as_str(values.get(key)).strip())), "")

    url, problems = _checked(text("url"), source)
    layer = Layer(
        source,
        url,
        text("api_key"),
        text("account", "account_id"),
        text("user", "user_id"),
        text("actor_peer_id", "peer_id"),
    )
    return layer, problems


def _server_layer(values: Json, source: str) -> tuple[Layer, tuple[str, ...]]:
    if not isinstance(values.get("server"), dict):
        return Layer(source), ()
    fields = as_dict(values["server"])
    url = as_str(fields.get("url")).strip()
    if not url:
        host = as_str(fields.get("host")).strip() or "127.0.0.1"
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        written = fields.get("port")
        port = int(written) if isinstance(written, str) and written.isdecimal() else as_int(written, DEFAULT_PORT)
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    url, problems = _checked(url, source)
    return Layer(source, url), problems


def _checked(url: str, source: str) -> tuple[str, tuple[str, ...]]:
    """Return the address in one form, or empty with a problem if it is none."""
    url = url.strip()
    if not url:
        return "", ()
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme.lower() in ("http", "https") and parts.hostname and parts.port != 0:
            secret, at, host = parts.netloc.rpartition("@")
            return f"{parts.scheme.lower()}://{secret}{at}{host.lower()}{parts.path.rstrip('/')}", ()
    except ValueError:
        pass
    return "", (f"{source}: this is not an address of a server; it is ignored",)


def _expand(path: str, env: Mapping[str, str]) -> Path:
    if path == "~" or path.startswith("~/"):
        return home_of(env) / path[2:]
    return Path(path).absolute()
