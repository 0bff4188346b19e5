"""Which model a run uses: flag, then session, then setting, then what has a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vikingpi.app.options import RunOptions
from vikingpi.config.model import Settings
from vikingpi.errors import ConfigError
from vikingpi.llm.base import Model
from vikingpi.llm.local import with_local_servers
from vikingpi.llm.registry import Catalog, Choice, default_model, resolve
from vikingpi.net import Transport
from vikingpi.session.entries import Entry
from vikingpi.session.tree import model_of, thinking_of


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
    if options.model or options.provider:
        choice = _flagged(options, catalog)
    elif used is None and not settings.default_model and not catalog.usable:
        catalog = await with_local_servers(catalog, transport)
        choice = default_model(catalog, "", None)
    else:
        choice = default_model(catalog, "" if used is not None else settings.default_model, used)
    level = options.thinking or choice.thinking_level or thinking_of(branch) or settings.default_thinking_level
    model = choice.model._replace(api_key=options.api_key) if options.api_key else choice.model
    notices = (choice.note,) if choice.note else ()
    if used is not None and not notices and used != (model.provider, model.id):
        notices = (f"the session used {used[0]}/{used[1]}; now {model.provider}/{model.id}",)
    return ModelChoice(model, level, notices)


def _flagged(options: RunOptions, catalog: Catalog) -> Choice:
    if options.model:
        return resolve(catalog, options.model, provider=options.provider, api_key=options.api_key)
    first = next((model for model in catalog.usable if model.provider == options.provider), None)
    if first is None:
        raise ConfigError(f"no model of provider {options.provider!r} can be used", hint="give --model as well")
    return Choice(first)
