"""models.json and auth.json.

models.json, in pi's shape; every key but `id` may be left out:

    {"providers": {"<name>": {"baseUrl": "http://...", "api": "openai-completions", "apiKey": "$NAME",
      "authHeader": false, "headers": {}, "compat": {}, "models": [{"id": "m", "name": "M", "api": "", "baseUrl": "",
        "contextWindow": 128000, "maxTokens": 16384, "reasoning": false, "thinkingLevelMap": {"high": "high"},
        "input": ["text", "image"], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "headers": {},
        "compat": {}}], "modelOverrides": {"<id>": {the keys of a model but api and baseUrl}}}}}

`modelOverrides` changes models that are known without being listed. Costs are US dollars per million tokens. A key or
header value is `$NAME` (or `${NAME}`) of an environment variable, or plain. auth.json: `{"<provider>": {"apiKey":
"..."}}`. Both raise ConfigError with file, and line or key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from vikingpi.decode import Json, as_dict, as_float, as_int, as_list, as_str
from vikingpi.errors import ConfigError
from vikingpi.llm.base import Price
from vikingpi.llm.catalog import DEFAULT_OUTPUT, DEFAULT_WINDOW
from vikingpi.values import NamedTuple

_COSTS = ("input", "output", "cacheRead", "cacheWrite")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class Key(NamedTuple):
    """A key and where it came from; `missing` names a variable that is not set."""

    value: str
    source: str
    missing: str = ""


class FileModel(NamedTuple):
    """`api`, `base_url` and `headers` add to what the provider has; `compat` holds the thinking level map too."""

    id: str
    context_window: int
    max_tokens: int
    reasoning: bool
    images: bool
    price: Price
    compat: Json
    api: str = ""
    base_url: str = ""
    headers: Mapping[str, str] = MappingProxyType({})


class FileProvider(NamedTuple):
    """What models.json says about a provider; empty where it says nothing."""

    base_url: str
    api: str
    key: Key | None
    headers: dict[str, str]
    compat: Json
    models: tuple[FileModel, ...]
    overrides: Json


def read_models(path: Path, env: Mapping[str, str]) -> dict[str, FileProvider]:
    """Read models.json; a file that is not there is empty."""
    data = read_json(path)
    providers = _object(path, data, "providers")
    return {name: _provider(path, name, providers, env) for name in providers}


def read_auth(path: Path, env: Mapping[str, str]) -> dict[str, Key]:
    """Read auth.json; `key` is taken as well as `apiKey`, as pi writes it."""
    data = read_json(path)
    keys: dict[str, Key] = {}
    for name in data:
        entry = _object(path, data, name)
        value = as_str(entry.get("apiKey")) or as_str(entry.get("key"))
        if value:
            keys[name] = read_key(value, str(path), env)
    return keys


def read_json(path: Path) -> Json:
    """Read a JSON object; `{}` for a missing file."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}:{error.lineno}: {error.msg} (column {error.colno})", hint="correct the file"
        ) from error
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply") from None
    found = as_dict(value)
    if value != found:
        raise ConfigError(f"{path} must hold a JSON object")
    return found


def read_key(value: str, source: str, env: Mapping[str, str]) -> Key:
    """Resolve `$NAME`; anything else is the key itself."""
    match = _VARIABLE.fullmatch(value.strip())
    if match is not None:
        name = match[1] or match[2]
        found = plain_key(env.get(name, ""), f"${name}")
        return Key(found, f"${name}", "" if found else name)
    if value.startswith("!"):
        raise ConfigError(f"{source}: a key cannot be a command", hint="use $NAME of an environment variable")
    return Key(plain_key(value, source), source)


def plain_key(value: str, source: str) -> str:
    """Strip a key; blanks or line breaks inside would only give a confusing refusal later."""
    key = value.strip()
    if re.search(r"[\s\x00-\x1f\x7f]", key):
        raise ConfigError(f"the key from {source} has a blank or a line break inside")
    return key


def _provider(path: Path, name: str, providers: Json, env: Mapping[str, str]) -> FileProvider:
    where = f"providers.{name}"
    raw = _object(path, providers, name, "providers.")
    value = _text(path, raw, "apiKey", where)
    if not isinstance(raw.get("models", []), list):
        raise ConfigError(f"{path}: {where}.models must be a list")
    return FileProvider(
        base_url=_url(path, raw, where),
        api=_text(path, raw, "api", where),
        key=read_key(value, str(path), env) if value else None,
        headers=_headers(path, raw, where, env),
        compat={**({"authHeader": True} if raw.get("authHeader") is True else {}), **_compat(path, raw, where)},
        models=tuple(
            _model(path, as_dict(item), f"{where}.models[{number}]", env)
            for number, item in enumerate(as_list(raw.get("models")))
        ),
        overrides=_object(path, raw, "modelOverrides", f"{where}."),
    )


def read_header(value: str, env: Mapping[str, str]) -> str:
    """Resolve a header value that is `$NAME` as a whole."""
    match = _VARIABLE.fullmatch(value.strip())
    return env.get(match[1] or match[2], "") if match is not None else value


def overridden(path: Path, provider: str, changes: Json, known: FileModel, env: Mapping[str, str]) -> FileModel:
    """Return a known model with what `modelOverrides` says about it; ConfigError for what is wrong there."""
    where = f"providers.{provider}.modelOverrides.{known.id}"
    made = _model(path, {**as_dict(changes.get(known.id)), "id": known.id, "api": "", "baseUrl": ""}, where, env, known)
    return made._replace(compat={**known.compat, **made.compat})


def _model(path: Path, raw: Json, where: str, env: Mapping[str, str], known: FileModel | None = None) -> FileModel:
    """Read a model; what it leaves out is that of the `known` one, if there is one."""
    id = _text(path, raw, "id", where)
    if not id:
        raise ConfigError(f"{path}: {where} has no id")
    base = known or FileModel(id, DEFAULT_WINDOW, DEFAULT_OUTPUT, False, False, Price(), {})
    cost = _object(path, raw, "cost", f"{where}.")
    window = as_int(raw.get("contextWindow"), base.context_window)
    limit = as_int(raw.get("maxTokens"), base.max_tokens)
    if window <= 0 or limit <= 0:
        raise ConfigError(f"{path}: {where}: contextWindow and maxTokens must be above 0")
    return FileModel(
        id=id,
        context_window=window,
        max_tokens=limit,
        reasoning=raw.get("reasoning", base.reasoning) is True,
        images="image" in as_list(raw["input"]) if "input" in raw else base.images,
        price=Price(*(as_float(cost.get(key), was) for key, was in zip(_COSTS, base.price, strict=True))),
        compat=_compat(path, raw, where),
        api=_text(path, raw, "api", where),
        base_url=_url(path, raw, where),
        headers=_headers(path, raw, where, env),
    )


def _url(path: Path, raw: Json, where: str) -> str:
    url = _text(path, raw, "baseUrl", where)
    if url and not re.match(r"https?://[^/\s]", url):
        raise ConfigError(f"{path}: {where}.baseUrl must begin with http:// or https://")
    return url.rstrip("/")


def _headers(path: Path, raw: Json, where: str, env: Mapping[str, str]) -> dict[str, str]:
    return {name: read_header(as_str(text), env) for name, text in _object(path, raw, "headers", f"{where}.").items()}


def _compat(path: Path, raw: Json, where: str) -> Json:
    levels = _object(path, raw, "thinkingLevelMap", f"{where}.")
    return {**({"reasoningEffortMap": levels} if levels else {}), **_object(path, raw, "compat", f"{where}.")}


def _object(path: Path, holder: Json, key: str, prefix: str = "") -> Json:
    if not isinstance(holder.get(key, {}), dict):
        raise ConfigError(f"{path}: {prefix}{key} must be an object")
    return as_dict(holder.get(key))


def _text(path: Path, holder: Json, key: str, where: str) -> str:
    value = holder.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"{path}: {where}.{key} must be a text")
    return value
