"""Which model a run uses: flag, then session, then setting, then what has a key."""

from __future__ import annotations

from collections.abc import Sequence

from vikingpi.app.options import RunOptions
from vikingpi.config.model import Settings
from vikingpi.errors import ConfigError, NoModel
from vikingpi.http_thread import origin_of, sent_openly
from vikingpi.llm.base import Model
from vikingpi.llm.local import with_local_servers
from vikingpi.llm.registry import Catalog, Choice, default_model, first_of, resolve
from vikingpi.net import Transport
from vikingpi.session.entries import Entry
from vikingpi.session.tree import model_of, thinking_of
from vikingpi.values import NamedTuple


class ModelChoice(NamedTuple):
    """`notices` say where the choice differs from what the session was made with."""

    model: Model
    thinking_level: str
    notices: tuple[str, ...] = ()


async def choose_model(
    options: RunOptions, catalog: Catalog, settings: Settings, branch: Sequence[Entry], transport: Transport
) -> ModelChoice:
    """Choose model and thinking level; ConfigError where there is none."""
    used = model_of(branch)
    if not options.api_key:
        wanted = options.model or ("/".join(used) if used is not None else settings.default_model)
        named = (options.provider, wanted.partition("/")[0])
        catalog = await with_local_servers(catalog, transport, named=named)
    if options.model or options.provider:
        choice = _flagged(options, catalog)
    else:
        choice = _default(catalog, "" if used is not None else settings.default_model, used)
    level = options.thinking or choice.thinking_level or thinking_of(branch) or settings.default_thinking_level
    model = choice.model._replace(api_key=options.api_key) if options.api_key else choice.model
    notices = (choice.note,) if choice.note else ()
    if used is not None and used != (model.provider, model.id) and (options.model or not notices):
        notices += (f"the session used {used[0]}/{used[1]}; now {model.provider}/{model.id}",)
    return ModelChoice(model, level, notices)


def _default(catalog: Catalog, setting: str, used: tuple[str, str] | None) -> Choice:
    try:
        return default_model(catalog, setting, used)
    except ConfigError as error:
        text = f"the default model {setting} cannot be used: {error}" if setting else str(error)
        raise NoModel(text, hint=error.hint) from error


def _flagged(options: RunOptions, catalog: Catalog) -> Choice:
    if options.model:
        return resolve(catalog, options.model, provider=options.provider, api_key=options.api_key)
    return Choice(first_of(catalog, options.provider, api_key=options.api_key))


def first_words(model: Model) -> str:
    """Say on a first start who answers, why, and where to go from there."""
    why = f"with the key from {model.key_source}" if model.key_source else "which needs no key"
    more = "/model shows others, /settings keeps another one, /help the rest"
    return f"{model.provider}/{model.id} answers, {why}; {more}"


def open_key(model: Model) -> tuple[str, ...]:
    """Warn of a key that goes over the network unencrypted."""
    if not model.api_key or not model.base_url or not sent_openly(model.base_url):
        return ()
    return (f"the key of {model.provider} is sent unencrypted to {origin_of(model.base_url)}; use https://",)
