"""/model: which model answers."""

from __future__ import annotations

from vikingpi.command import Command
from vikingpi.commands.host import Host


def model_commands(app: Host) -> tuple[Command, ...]:
    """Return /model."""

    async def show_model(argument: str) -> str:
        model, level = app.parts.model, app.parts.thinking_level
        shown = f"{model.provider}/{model.id} · {model.context_window} tokens of context · thinking {level}"
        if argument:
            return f"{shown}\n\nTo use another model, start with `vpi -c --model {argument}`."
        return shown

    return (Command("model", "show the model", show_model),)
