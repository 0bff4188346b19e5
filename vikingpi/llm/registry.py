"""Which models there are, which one is meant, and who speaks to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from vikingpi.decode import Json
from vikingpi.errors import ConfigError
from vikingpi.llm.anthropic_body import MESSAGES
from vikingpi.llm.anthropic_wire import AnthropicWire
from vikingpi.llm.base import Model, Price, Provider, ProviderFor
from vikingpi.llm.catalog import (
    DEFAULT_OUTPUT,
    DEFAULT_WINDOW,
    LITELLM,
    LOCAL_SERVERS,
    PROVIDERS,
    KnownModel,
    KnownProvider,
)
from vikingpi.llm.litellm_bridge import LiteLLMBridge
from vikingpi.llm.models_file import (
    FileModel,
    FileProvider,
    Key,
    environment_key,
    is_address,
    overridden,
    plain_key,
    read_auth,
    read_models,
)
from vikingpi.llm.openai_body import DIRECT
from vikingpi.llm.openai_wire import OpenAIWire
from vikingpi.net import Transport
from vikingpi.values import NamedTuple

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
NO_MODEL_HINT = """\
choose one of these:
  - set a key:        export ANTHROPIC_API_KEY=...   (or OPENAI_API_KEY, OPENROUTER_API_KEY, GEMINI_API_KEY, ...)
  - keep a key:       {auth}   {{"anthropic": {{"apiKey": "..."}}}}
  - own endpoint:     {models}   {{"providers": {{"my": {{"baseUrl": "http://...",
                      "api": "openai-completions", "models": [{{"id": "..."}}]}}}}}}
  - on this machine:  start Ollama, LM Studio or llama.cpp; it is found by itself
  - just look:        vpi demo   (plays a script, needs no key)"""

_LISTED = 8
# How a search fits a name, the best first; where it is squeezed only letters and digits count.
EXACT, BEGINS, WORD, INSIDE, SQUEEZED, SCATTERED, UNFIT = range(7)
# Fewer letters and digits are inside of nearly every name.
_TELLING = 3
_NO_KEY = Key("", "")


class ProviderSetup(NamedTuple):
    """How a provider is reached. `ready` when it has a key or was configured to need none."""

    name: str
    api: str
    base_url: str
    key: Key
    headers: dict[str, str]
    compat: Json
    key_variables: tuple[str, ...]
    ready: bool


class Catalog(NamedTuple):
    """Every known model, those of models.json first; `setups` by provider name."""

    setups: dict[str, ProviderSetup]
    models: tuple[Model, ...]
    models_file: Path
    auth_file: Path
    notices: tuple[str, ...] = ()

    def ready(self, model: Model) -> bool:
        return self.setups[model.provider].ready

    @property
    def usable(self) -> tuple[Model, ...]:
        """The models that can be asked right now."""
        return tuple(model for model in self.models if self.ready(model))


class Choice(NamedTuple):
    """A model; `thinking_level` where the pattern named one; `note` is a line for the user or empty."""

    model: Model
    thinking_level: str | None = None
    note: str = ""


def load_catalog(models_file: Path, auth_file: Path, env: Mapping[str, str]) -> Catalog:
    """Join models.json, auth.json, the environment and the built-in table.

    A key of models.json wins over one of auth.json, that over the environment. Raise ConfigError for a broken file.
    """
    configured, notices = read_models(models_file, env)
    auth = read_auth(auth_file, env)
    known = {provider.name: provider for provider in PROVIDERS}
    setups: dict[str, ProviderSetup] = {}
    models: list[Model] = []
    for name in (*configured, *(name for name in known if name not in configured)):
        entry, builtin = configured.get(name), known.get(name)
        setup = _setup(name, entry, builtin, auth.get(name), env)
        placed = bool(setup.base_url) or (entry and entry.models and all(item.base_url for item in entry.models))
        if entry is not None and setup.api in (DIRECT, MESSAGES) and not placed:
            raise ConfigError(f"{models_file}: providers.{name}.baseUrl is missing")
        setups[name] = setup
        listed = entry.models if entry is not None else ()
        models += [_from_file(setup, item) for item in listed]
        own = {item.id for item in listed}
        table = [_from_table(item) for item in (builtin.models if builtin else ()) if item.id not in own]
        if entry is not None and entry.overrides:
            table = [overridden(models_file, name, entry.overrides, item, env) for item in table]
        models += [_from_file(setup, item) for item in table]
    return Catalog(setups, tuple(models), models_file, auth_file, notices)


def resolve(catalog: Catalog, pattern: str, *, provider: str = "", api_key: str = "") -> Choice:
    """Find the model for `--model`: provider/id, id, or a part of either that fits one only; `:level` may follow.

    An id that is not known is taken as it is when it is written with a known provider. Raise ConfigError where
    nothing or more than one fits, or the provider has no key.
    """
    _known(catalog, provider)
    found = _find(catalog, pattern, provider)
    level: str | None = None
    note = ""
    head, _, tail = pattern.rpartition(":")
    if found is None and head and tail in THINKING_LEVELS:
        found, level, pattern = _find(catalog, head, provider), tail, head
    if found is None:
        found, note = _fuzzy(catalog, pattern, provider)
        if found is not None and not api_key and not catalog.ready(found):
            error = _no_key(catalog.setups[found.provider])
            raise ConfigError(f"{pattern!r} fits {found.provider}/{found.id}: {error}", hint=error.hint)
        found = found or _new(catalog, pattern, provider)
    if found is None:
        _running(catalog, pattern.partition("/")[0])
        raise ConfigError(f"no model fits {pattern!r}", hint="`vpi --list-models` shows the known ones")
    return Choice(_with_key(catalog, found, api_key), level, note)


def first_of(catalog: Catalog, provider: str, *, api_key: str = "") -> Model:
    """Return a provider's default model; ConfigError where the provider is unknown, has no key or no model."""
    _known(catalog, provider)
    first = next((model for model in catalog.models if model.provider == provider), None)
    if first is None:
        raise ConfigError(f"no model of {provider} is known", hint="name one with --model")
    return _with_key(catalog, first, api_key)


def default_model(catalog: Catalog, setting: str, session: tuple[str, str] | None) -> Choice:
    """Choose the model of the setting, else the session's, else the first one that has a key.

    Raise ConfigError, with all ways to get one as its hint, where there is none.
    """
    if setting:
        return resolve(catalog, setting)
    usable = catalog.usable
    wanted = "/".join(session) if session is not None else ""
    if session is not None:
        found = _find(catalog, session[1], session[0]) or _new(catalog, session[1], session[0])
        if found is not None and catalog.ready(found):
            return Choice(found)
    if not usable:
        hint = NO_MODEL_HINT.format(auth=catalog.auth_file, models=catalog.models_file)
        lost = f"the session's model {wanted} is not available, and no other model is configured"
        unset = next((setup for setup in catalog.setups.values() if setup.key.missing), None)
        if unset is not None and not wanted:
            raise _no_key(unset)
        raise ConfigError(lost if wanted else "no model is configured", hint=hint)
    first = usable[0]
    note = f"the session's model {wanted} is not available, using {first.provider}/{first.id}" if wanted else ""
    return Choice(first, note=note)


def find_provider(transport: Transport, on_load: Callable[[str], None] | None = None) -> ProviderFor:
    """Return who speaks which `api`; `on_load` is told the provider's name before a slow import."""
    bridge = LiteLLMBridge(on_load)
    wires: dict[str, Provider] = {
        DIRECT: OpenAIWire(transport),
        MESSAGES: AnthropicWire(transport),
        "google-generative-ai": bridge,
        LITELLM: bridge,
    }

    def find(model: Model) -> Provider:
        wire = wires.get(model.api)
        if wire is None:
            raise ConfigError(
                f"{model.provider}/{model.id} has the unknown api {model.api!r}",
                hint=f"known: {', '.join(wires)}",
            )
        if model.base_url and not is_address(model.base_url):
            raise ConfigError(f"{model.base_url!r}, where {model.provider} is, is no address of a server")
        return wire

    return find


def _setup(
    name: str,
    entry: FileProvider | None,
    builtin: KnownProvider | None,
    auth: Key | None,
    env: Mapping[str, str],
) -> ProviderSetup:
    variables = builtin.key_variables if builtin else ()
    key = (entry.key if entry else None) or auth or environment_key(variables, env)
    base_url = builtin.base_url if builtin else ""
    replaced = entry.base_url if entry else ""
    if not replaced and builtin and builtin.base_variable:
        replaced = env.get(builtin.base_variable, "").strip().rstrip("/")
    compat: Json = dict(builtin.compat) if builtin else {}
    if replaced and replaced != base_url:
        # Other servers under a well-known name need not know this provider's own extensions.
        compat.pop("promptCacheKey", None)
    keyless = bool(replaced) or (entry is not None and entry.key is None and builtin is None)
    return ProviderSetup(
        name=name,
        api=(entry.api if entry else "") or (builtin.api if builtin else DIRECT),
        base_url=replaced or base_url,
        key=key or _NO_KEY,
        headers=entry.headers if entry else {},
        compat={**compat, **(entry.compat if entry else {})},
        key_variables=variables,
        ready=not (key and key.missing) and (bool(key and key.value) or keyless or name == LITELLM),
    )


def _from_table(known: KnownModel) -> FileModel:
    compat: Json = {}
    efforts: Json = {"xhigh": "xhigh", "max": "max" if "A" in known.flags else "xhigh"} if "X" in known.flags else {}
    if "T" in known.flags:
        efforts["off"] = None
    if "A" in known.flags:
        compat["forceAdaptiveThinking"] = True
    if efforts:
        compat["reasoningEffortMap"] = efforts
    return FileModel(
        known.id,
        known.context_window,
        known.max_tokens,
        "R" in known.flags,
        "V" in known.flags,
        known.price,
        compat,
    )


def _from_file(setup: ProviderSetup, item: FileModel) -> Model:
    model = _model(setup, item.id, {**setup.compat, **item.compat})
    return model._replace(
        api=item.api or model.api,
        base_url=item.base_url or model.base_url,
        headers={**model.headers, **item.headers},
        context_window=item.context_window,
        max_tokens=item.max_tokens,
        reasoning=item.reasoning,
        images=item.images,
        price=item.price,
    )


def _model(setup: ProviderSetup, id: str, compat: Json) -> Model:
    return Model(
        provider=setup.name,
        id=id,
        api=setup.api,
        base_url=setup.base_url,
        api_key=setup.key.value,
        headers=setup.headers,
        context_window=DEFAULT_WINDOW,
        max_tokens=DEFAULT_OUTPUT,
        reasoning=False,
        images=False,
        price=Price(),
        compat=compat,
        key_source=setup.key.source,
    )


def _running(catalog: Catalog, provider: str) -> None:
    """Raise ConfigError for a model server of this machine that was looked for and not found."""
    server = next((server for server in LOCAL_SERVERS if server.name == provider), None)
    if server is not None and provider not in catalog.setups:
        raise ConfigError(
            f"no model of {provider} was found at 127.0.0.1:{server.port}",
            hint="start it with a model, describe one that runs elsewhere in models.json, or choose another model",
        )


def _known(catalog: Catalog, provider: str) -> None:
    _running(catalog, provider)
    if provider and provider not in catalog.setups:
        raise ConfigError(f"unknown provider {provider!r}", hint=f"known: {', '.join(sorted(catalog.setups))}")


def _with_key(catalog: Catalog, model: Model, api_key: str) -> Model:
    if api_key:
        return model._replace(api_key=plain_key(api_key, "--api-key"), key_source="--api-key")
    if not catalog.ready(model):
        raise _no_key(catalog.setups[model.provider])
    return model


def _find(catalog: Catalog, pattern: str, provider: str) -> Model | None:
    """Find an exact provider/id, or an exact id, of a provider with a key if there is one."""
    models = [model for model in catalog.models if provider in ("", model.provider)]
    whole = [model for model in models if f"{model.provider}/{model.id}" == pattern]
    named = sorted((model for model in models if model.id == pattern), key=lambda model: not catalog.ready(model))
    return next(iter((*whole, *named)), None)


def _fuzzy(catalog: Catalog, pattern: str, provider: str) -> tuple[Model | None, str]:
    """Find the model that the pattern fits best, and a note where others do too or it fits none of its words.

    One that ends with the pattern is the better match; of a provider's the first, its newest, is taken; without any
    key, one whose key is missing. Raise ConfigError where models of several providers fit: they differ in who is asked
    and who pays.
    """
    fits = [(fit(pattern, model), model) for model in catalog.models if provider in ("", model.provider)]
    best = min((found for found, _ in fits), default=UNFIT)
    if best == UNFIT or (best == INSIDE and len(_bare(pattern)) < _TELLING):
        return None, ""
    fitting = [model for found, model in fits if found == best or BEGINS <= best <= found <= WORD]
    usable = [model for model in fitting if catalog.ready(model)]
    exact = [model for model in usable if _bare(_name(model)).endswith(_bare(pattern))]
    found = exact or usable or fitting
    names = [f"{model.provider}/{model.id}" for model in found]
    if usable and len({model.provider for model in found}) > 1:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        raise ConfigError(f"{pattern!r} fits several models", hint=f"{', '.join(names[:_LISTED])}{more}")
    note = f"{pattern!r} fits {len(names)} models; using {names[0]}" if len(names) > 1 else ""
    if best in (INSIDE, SCATTERED):
        note = note or f"{pattern!r} is taken for {names[0]}"
    return found[0], note


def fit(query: str, model: Model) -> int:
    """Say how well a search fits a model: EXACT .. SCATTERED, or UNFIT.

    It may be a part of provider/id or of the id alone, or the beginning of a provider, a slash and a part of an id.
    """
    query, name, id = query.strip().lower(), _name(model), model.id.lower()
    if query in (name, id):
        return EXACT
    owner, slash, rest = query.partition("/")
    parts = [(query, name), (query, id)]
    if slash and owner and model.provider.lower().startswith(owner):
        parts.append((rest, id))
    return min(_place(part, text) for part, text in parts)


def _place(part: str, text: str) -> int:
    if text.startswith(part):
        return BEGINS
    if re.search(rf"(?<![^\W_]){re.escape(part)}", text):
        return WORD
    if part in text:
        return INSIDE
    bare, squeezed = _bare(text), _bare(part)
    if len(squeezed) < _TELLING:
        return UNFIT
    if squeezed in bare:
        return SQUEEZED
    return SCATTERED if all(word in bare for word in map(_bare, part.split())) else UNFIT


def _name(model: Model) -> str:
    return f"{model.provider}/{model.id}".lower()


def _bare(text: str) -> str:
    """Leave letters and digits, so that `sonnet 4.6` finds `sonnet-4-6`."""
    return re.sub(r"[\W_]+", "", text.lower())


def _new(catalog: Catalog, pattern: str, provider: str) -> Model | None:
    """Take an id as it is when its provider is known."""
    name, _, id = (provider, "", pattern.removeprefix(f"{provider}/")) if provider else pattern.partition("/")
    setup = catalog.setups.get(name)
    return _model(setup, id, dict(setup.compat)) if setup is not None and id else None


def _no_key(setup: ProviderSetup) -> ConfigError:
    if setup.key.missing:
        return ConfigError(
            f"the key of {setup.name} is ${setup.key.missing}, which is not set",
            hint=f"export {setup.key.missing}=...",
        )
    ways = [f"set {setup.key_variables[0]}"] if setup.key_variables else []
    return ConfigError(f"no key for {setup.name}", hint=", ".join([*ways, "add it to auth.json, or pass --api-key"]))
