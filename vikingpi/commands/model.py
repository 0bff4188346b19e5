"""/model, /thinking and /copy: which model answers, how much it thinks, and its last answer."""

from __future__ import annotations

from vikingpi.command import Command
from vikingpi.commands.chooser import Choices, Option
from vikingpi.commands.controls import ModelControl
from vikingpi.commands.host import Host
from vikingpi.errors import ConfigError
from vikingpi.llm.base import Model
from vikingpi.llm.registry import THINKING_LEVELS
from vikingpi.messages import AssistantMessage
from vikingpi.session.tree import build_context


def model_commands(app: Host) -> tuple[Command, ...]:
    """Return /copy, /model and /thinking."""

    async def model(argument: str) -> str:
        models = app.controls.models if app.controls is not None else None
        if models is None:
            return _shown(app)
        words = argument if len(argument.split()) != 1 else ""
        if argument and (app.chooser is None or not words):
            return _use(app, models, argument)
        if app.chooser is None:
            return "\n".join([_shown(app), "", *(f"- `/model {name_of(one)}`" for one in models.usable)])
        chosen = await app.chooser.choose(model_choices(app, models)._replace(query=words))
        return _use(app, models, chosen) if chosen is not None else ""

    def names() -> tuple[str, ...]:
        return tuple(map(name_of, app.controls.models.usable)) if app.controls is not None else ()

    async def thinking(argument: str) -> str:
        agent = app.parts.agent
        if not argument:
            return f"thinking: {agent.deps.thinking_level}; `/thinking LEVEL` with one of {', '.join(THINKING_LEVELS)}"
        if argument not in THINKING_LEVELS:
            return f"There is no level {argument}; there are {', '.join(THINKING_LEVELS)}."
        agent.use_model(agent.deps.model, argument)
        return f"thinking: {argument}{_thinks_not(agent.deps.model)}"

    async def copy(argument: str) -> str:
        text = last_answer(app)
        if not text:
            return "There is no answer to copy yet."
        return await app.chooser.copy(text) if app.chooser is not None else "This terminal has no clipboard."

    return (
        Command("copy", "copy the last answer", copy),
        Command("model", "[name] - choose the model", model, names),
        Command("thinking", "[level] - how much the model thinks", thinking, lambda: THINKING_LEVELS),
    )


def name_of(model: Model) -> str:
    """Return the name by which `/model` finds it."""
    return f"{model.provider}/{model.id}"


def last_answer(app: Host) -> str:
    """Return the text of the newest answer that has one."""
    for message in reversed(build_context(app.parts.session.branch())):
        if isinstance(message, AssistantMessage) and message.text.strip():
            return message.text.strip()
    return ""


def _use(app: Host, models: ModelControl, pattern: str) -> str:
    try:
        model, level = models.find(pattern)
    except ConfigError as error:
        return f"{error}" + (f"\n\n{error.hint}" if error.hint else "")
    agent = app.parts.agent
    agent.use_model(model, level or agent.deps.thinking_level)
    later = " It answers from the next request on." if app.running else ""
    return f"{_shown(app)}.{later}"


def model_choices(app: Host, models: ModelControl) -> Choices:
    """Return the models that can be asked, the one in use selected."""
    options = [Option(name_of(one), name_of(one), about_model(one)) for one in models.usable]
    here = name_of(app.parts.agent.deps.model)
    return Choices(lambda: "Model", lambda: options, at=here)


def about_model(model: Model) -> str:
    """Say how much a model holds, what it can do and what it costs."""
    can = [word for word, yes in (("thinks", model.reasoning), ("sees images", model.images)) if yes]
    price = f"${model.price.input:g}/${model.price.output:g} per million" if model.price.output else ""
    window = model.context_window
    size = f"{window / 1_000_000:.2g}M" if window >= 1_000_000 else f"{window // 1000}k"
    return " · ".join(part for part in (f"{size} context", *can, price) if part)


def _shown(app: Host) -> str:
    model, level = app.parts.agent.deps.model, app.parts.agent.deps.thinking_level
    return f"{name_of(model)} · {model.context_window} tokens of context · thinking {level}{_thinks_not(model)}"


def _thinks_not(model: Model) -> str:
    return "" if model.reasoning else f" ({model.id} does not think)"
