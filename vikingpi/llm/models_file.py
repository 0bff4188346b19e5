"""models.json and auth.json.

models.json, in pi's shape; every key but `id` may be left out:

    {"providers": {"<name>": {"baseUrl": "http://...", "api": "openai-completions", "apiKey": "$NAME",
      "authHeader": false, "headers": {}, "compat": {}, "models": [{"id": "m", "name": "M", "api": "", "baseUrl": "",
        "contextWindow": 128000, "maxTokens": 16384, "reasoning": false, "thinkingLevelMap": {"high": "high"},
        "input": ["text", "image"], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "headers": {},
        "compat": {}}], "modelOverrides": {"<id>": {the keys of a model but api and baseUrl}}}}}

`modelOverrides` changes models that are known without being listed. Costs are US dollars per million tokens. A key or
header value is `$NAME` (or `${NAME}`) of an environment variable, or plain. auth.json: `{"<provider>": {"apiKey":
"..."}}`. Both raise ConfigError with file, and line or key, for what has the wrong type. Keys that vpi does not know
are told and left alone: pi may have them; in `compat` they are not even told, for pi has many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast
from urllib.parse import urlsplit

from vikingpi.decode import Json, as_dict
from vikingpi.errors import ConfigError
from vikingpi.llm.base import Price
from vikingpi.llm.catalog import DEFAULT_OUTPUT, DEFAULT_WINDOW
from vikingpi.values import NamedTuple

_PROVIDER = (
    "api",
    "apiKey",
    "authHeader",
    "baseUrl",
    "compat",
    "headers",
    "modelOverrides",
    "models",
    "name",
    "oauth",
)
_MODEL = (
    "api",
    "baseUrl",
    "compat",
    "contextWindow",
    "cost",
    "headers",
    "id",
    "input",
    "maxTokens",
    "name",
    "reasoning",
    "thinkingLevelMap",
)
_COSTS = ("input", "output", "cacheRead", "cacheWrite")
_COMPAT_FLAGS = (
    "allowEmptySignature",
    "authHeader",
    "forceAdaptiveThinking",
    "promptCacheKey",
    "supportsPromptCache",
    "supportsReasoningEffort",
    "supportsUsage",
    "supportsUsageInStreaming",
)
_COMPAT_TEXTS = ("litellmProvider", "maxTokensField", "reasoningField", "thinkingFormat")
_MOST_TOKENS, _MOST_DOLLARS = 1e12, 1e6
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_URL = "an address such as http://127.0.0.1:8080/v1"


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


class ModelsFile(NamedTuple):
    """What models.json says; `notices` names the keys that mean nothing here."""

    providers: dict[str, FileProvider]
    notices: tuple[str, ...] = ()


class _Place(NamedTuple):
    """An object in a file, and where it is there, as in `providers.x.models[2]`; empty for the outermost."""

    path: Path
    values: Json
    notices: list[str]
    where: str = ""

    def name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def wrong(self, key: str, wanted: str, *, secret: bool = False) -> ConfigError:
        there = _shown(self.values[key], secret=secret)
        return ConfigError(f"{self.path}: {self.name(key)} must be {wanted}, not {there}", hint="correct the file")

    def text(self, key: str, *, secret: bool = False) -> str:
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise self.wrong(key, "a text", secret=secret)
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def tokens(self, key: str, default: int) -> int:
        value = self.values.get(key, default)
        if not _is_number(value, _MOST_TOKENS) or value < 1 or value % 1:
            raise self.wrong(key, "a whole number above 0")
        return int(value)

    def dollars(self, key: str, default: float) -> float:
        value = self.values.get(key, default)
        if not _is_number(value, _MOST_DOLLARS):
            raise self.wrong(key, "a number of dollars, 0 or more")
        return float(value)

    def items(self, key: str) -> list[object]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, "a list")
        return cast("list[object]", value)

    def inside(self, key: str, *, secret: bool = False) -> _Place:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "an object", secret=secret)
        return self._replace(values=as_dict(cast(object, value)), where=self.name(key))

    def tell_unknown(self, known: tuple[str, ...]) -> None:
        for key in self.values:
            if key not in known and not key.startswith("$"):
                self.notices.append(f"{self.path}: unknown key {self.name(key)}{_suggestion(key, known)}")


def read_models(path: Path, env: Mapping[str, str]) -> ModelsFile:
    """Read models.json; a file that is not there is empty."""
    whole = _Place(path, read_json(path), [])
    whole.tell_unknown(("providers",))
    providers = whole.inside("providers")
    found = {name: _provider(providers.inside(name), env) for name in providers.values}
    return ModelsFile(found, tuple(whole.notices))


def read_auth(path: Path, env: Mapping[str, str]) -> dict[str, Key]:
    """Read auth.json; `key` is taken as well as `apiKey`, as pi writes it."""
    whole = _Place(path, read_json(path), [])
    keys: dict[str, Key] = {}
    for name in whole.values:
        entry = whole.inside(name, secret=True)
        value = entry.text("apiKey", secret=True) or entry.text("key", secret=True)
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
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"{path}: {error}", hint="correct the file") from error
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
    if re.search(r"[\s\x00-\x1f\x7f\ud800-\udfff]", key):
        raise ConfigError(f"the key from {source} has a blank or a line break inside")
    return key


def environment_key(variables: tuple[str, ...], env: Mapping[str, str]) -> Key | None:
    """Return the key of the first variable that is set."""
    found = next((name for name in variables if env.get(name, "").strip()), None)
    return read_key(f"${found}", found, env) if found is not None else None


def is_address(url: str) -> bool:
    """Whether requests can be sent to what begins with the URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _provider(place: _Place, env: Mapping[str, str]) -> FileProvider:
    place.tell_unknown(_PROVIDER)
    place.text("name")
    value = place.text("apiKey", secret=True)
    overrides = place.inside("modelOverrides")
    for id in overrides.values:
        _model(_override(overrides.inside(id), id), env)
    return FileProvider(
        base_url=_url(place),
        api=place.text("api"),
        key=read_key(value, str(place.path), env) if value else None,
        headers=_headers(place.inside("headers"), env),
        compat={**({"authHeader": True} if place.flag("authHeader") else {}), **_compat(place)},
        models=tuple(_model(model, env) for model in _models(place)),
        overrides=overrides.values,
    )


def _models(place: _Place) -> list[_Place]:
    listed: list[_Place] = []
    for number, item in enumerate(place.items("models")):
        where = f"{place.name('models')}[{number}]"
        if not isinstance(item, dict):
            raise ConfigError(f"{place.path}: {where} must be an object, not {_shown(item)}", hint="correct the file")
        listed.append(place._replace(values=as_dict(cast(object, item)), where=where))
    return listed


def read_header(value: str, env: Mapping[str, str]) -> str:
    """Resolve a header value that is `$NAME` as a whole."""
    match = _VARIABLE.fullmatch(value.strip())
    return env.get(match[1] or match[2], "") if match is not None else value


def overridden(path: Path, provider: str, changes: Json, known: FileModel, env: Mapping[str, str]) -> FileModel:
    """Return a known model with what `modelOverrides` says about it."""
    place = _Place(path, as_dict(changes.get(known.id)), [], f"providers.{provider}.modelOverrides.{known.id}")
    made = _model(_override(place, known.id), env, known)
    return made._replace(compat={**known.compat, **made.compat})


def _override(place: _Place, id: str) -> _Place:
    return place._replace(values={**place.values, "id": id, "api": "", "baseUrl": ""})


def _model(place: _Place, env: Mapping[str, str], known: FileModel | None = None) -> FileModel:
    """Read a model; what it leaves out is that of the `known` one, if there is one."""
    place.tell_unknown(_MODEL)
    place.text("name")
    id = place.text("id")
    if not id:
        raise ConfigError(f"{place.path}: {place.where} has no id", hint="correct the file")
    base = known or FileModel(id, DEFAULT_WINDOW, DEFAULT_OUTPUT, False, False, Price(), {})
    cost = place.inside("cost")
    cost.tell_unknown(_COSTS)
    kinds = place.items("input")
    if not all(isinstance(kind, str) for kind in kinds):
        raise place.wrong("input", 'a list such as ["text", "image"]')
    return FileModel(
        id=id,
        context_window=place.tokens("contextWindow", base.context_window),
        max_tokens=place.tokens("maxTokens", base.max_tokens),
        reasoning=place.flag("reasoning", base.reasoning),
        images="image" in kinds if "input" in place.values else base.images,
        price=Price(*(cost.dollars(key, was) for key, was in zip(_COSTS, base.price, strict=True))),
        compat=_compat(place),
        api=place.text("api"),
        base_url=_url(place),
        headers=_headers(place.inside("headers"), env),
    )


def _url(place: _Place) -> str:
    url = place.text("baseUrl")
    if url and not re.match(r"https?://", url):
        raise ConfigError(f"{place.path}: {place.name('baseUrl')} must begin with http:// or https://")
    if url and not is_address(url):
        raise place.wrong("baseUrl", _URL)
    return url.rstrip("/")


def _headers(place: _Place, env: Mapping[str, str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name in place.values:
        value = headers[name] = read_header(place.text(name, secret=True), env)
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise ConfigError(f"{place.path}: {place.where} has a name that HTTP does not allow: {name[:40]!r}")
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]", value):
            raise ConfigError(f"{place.path}: the value of {place.name(name)} has a character that HTTP does not allow")
    return headers


def _compat(place: _Place) -> Json:
    compat = place.inside("compat")
    for key in _COMPAT_FLAGS:
        compat.flag(key)
    for key in _COMPAT_TEXTS:
        compat.text(key)
    if "callIdLength" in compat.values:
        compat.tokens("callIdLength", 1)
    levels = place.inside("thinkingLevelMap")
    for map in (levels, compat.inside("reasoningEffortMap")):
        for level, word in map.values.items():
            if word is not None:
                map.text(level)
    return {**({"reasoningEffortMap": levels.values} if levels.values else {}), **compat.values}


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most


def _shown(value: object, *, secret: bool = False) -> str:
    """Name a value for an error; of what may be a secret only what kind it is."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if secret:
        return "a text" if isinstance(value, str) else "a number, true, false or null"
    return json.dumps(value)[:40]


def _suggestion(key: str, known: tuple[str, ...]) -> str:
    import difflib

    close = difflib.get_close_matches(key, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
