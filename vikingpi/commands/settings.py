"""/settings: what a user changes while chatting, kept in the user's own config.json."""

from __future__ import annotations

from typing import Literal

from vikingpi.command import Command
from vikingpi.commands.chooser import Act, Choices, Option
from vikingpi.commands.controls import Controls
from vikingpi.commands.host import Host
from vikingpi.commands.model import name_of
from vikingpi.config.change import kind_of, meaning, read_value, value_in, written
from vikingpi.config.model import APPROVAL_MODES, ApprovalMode, Settings
from vikingpi.config.paths import PROJECT_FOLDER
from vikingpi.values import NamedTuple

When = Literal["at once", "from the next prompt on", "from the next session on", "from the next start on"]


class Setting(NamedTuple):
    """A key of config.json, what it means, and when a change counts."""

    key: str
    about: str
    when: When


SETTINGS = (
    Setting("theme", "colours for a dark or a light background; auto asks the terminal", "at once"),
    Setting("showThoughts", "show what the model thinks in full (Ctrl+T changes it for now)", "at once"),
    Setting("approval", "which tool calls wait for your yes (Alt+M and /approve change it for a session)", "at once"),
    Setting("defaultModel", "the model of a new start (/model changes it for a session)", "from the next start on"),
    Setting("defaultThinkingLevel", "how much the model thinks, likewise (/thinking)", "from the next start on"),
    Setting("takeover.enabled", "replace older user turns by an overview", "from the next session on"),
    Setting("takeover.tokenThreshold", "tokens said between two commits", "from the next session on"),
    Setting("takeover.keepRecentTurns", "user turns that always stay as they were said", "from the next session on"),
    Setting("recallEnabled", "put memories that fit in front of a prompt", "from the next prompt on"),
    Setting("recallLimit", "how many memories at most stand in front of a prompt", "from the next prompt on"),
    Setting("recallTokenBudget", "how many tokens those memories may have", "from the next prompt on"),
    Setting("recallPeerScope", "memories of all folders, or of the one you work in", "from the next session on"),
    Setting(
        "compaction.enabled", "replace older history by a summary when the window is full", "from the next prompt on"
    ),
    Setting("compaction.reserveTokens", "how much of the window stays free for the answer", "from the next prompt on"),
    Setting(
        "compaction.keepRecentTokens", "how much of it a compaction leaves as it was said", "from the next prompt on"
    ),
    Setting("tools.bashTimeout", "seconds that a command of the model may run", "at once"),
)
_PROJECT = f"/{PROJECT_FOLDER}/config.json"
_BY_KEY = {setting.key: setting for setting in SETTINGS}


def settings_commands(app: Host, controls: Controls) -> tuple[Command, ...]:
    """Return /settings."""

    async def settings(argument: str) -> str:
        key, _, text = argument.partition(" ")
        if key and key not in _BY_KEY:
            return f"There is no setting {key} here; there are {', '.join(_BY_KEY)}."
        if text:
            return _store(controls, key, text)
        now = controls.settings.read()
        if key:
            return f"{_line(controls, now, _BY_KEY[key])}\n\n{_preview(controls, now, _BY_KEY[key])}"
        if app.chooser is None:
            lines = [_line(controls, now, one) for one in SETTINGS]
            return "\n".join([*lines, "", f"`/settings KEY VALUE` changes one, in {controls.settings.file}."])
        await app.chooser.choose(setting_choices(app, controls))
        return ""

    return (
        Command("settings", "[key [value]] - what can be changed while chatting", settings, lambda: tuple(_BY_KEY)),
    )


def setting_choices(app: Host, controls: Controls) -> Choices:
    """Return the settings as a list in which Enter changes a line."""

    def options() -> list[Option]:
        now = controls.settings.read()
        return [_option(controls, now, setting) for setting in SETTINGS]

    def put(key: str, text: str) -> str:
        return _store(controls, key, text)

    def put_next(key: str, text: str) -> str:
        words = kind_of(key).words
        own = written(value_in(controls.settings.own, key))
        return put(key, words[(words.index(own) + 1) % len(words)])

    def preset(key: str) -> str:
        own = written(value_in(controls.settings.own, key))
        return own or (name_of(app.parts.agent.deps.model) if key == "defaultModel" else "")

    def enter(key: str) -> Act:
        if kind_of(key).words:
            return Act("enter", "changes", put_next)
        return Act("enter", "changes", put, asks=key, preset=preset)

    def reset(key: str, text: str) -> str:
        return _store(controls, key, None)

    return Choices(
        lambda: f"Settings, kept in {controls.settings.file}",
        options,
        (Act("c-r", "back to the default", reset),),
        ordered=True,
        enter=enter,
    )


def _store(controls: Controls, key: str, text: str | None) -> str:
    """Store a value, None for the default, and say what holds now."""
    if key == "defaultModel" and text:
        controls.models.find(text)
    value = read_value(key, text) if text is not None else None
    now = controls.settings.store(key, value)
    if key == "approval":
        modes: dict[object, ApprovalMode] = {mode: mode for mode in APPROVAL_MODES}
        controls.approval.choose(modes.get(value, now.approval))
    if winner := _winner(controls, key):
        return f"{key} stays {_text(now, key)} here: {winner} wins over your own file"
    return f"{key}: {_text(now, key)}{', the default' if value is None else ''}, {_BY_KEY[key].when}"


def _winner(controls: Controls, key: str) -> str:
    """Return the place that wins over the user's own file, or nothing."""
    source = controls.settings.source(key)
    return source if source not in ("", str(controls.settings.file)) else ""


def _option(controls: Controls, now: Settings, setting: Setting) -> Option:
    about, value = _elsewhere(controls, now, setting.key), _text(now, setting.key)
    more = f"{setting.about} {value}"
    return Option(setting.key, setting.key, about, more, lambda: _preview(controls, now, setting), value)


def _text(settings: Settings, key: str) -> str:
    return written(value_in(settings, key)) or "(none)"


def _elsewhere(controls: Controls, now: Settings, key: str) -> str:
    """Say what else than the user's own file has a say in a value."""
    if winner := _winner(controls, key):
        return f"set by {'the project' if winner.endswith(_PROJECT) else winner}"
    mode = controls.approval.mode
    return f"this session: {mode}" if key == "approval" and mode != now.approval else ""


def _preview(controls: Controls, now: Settings, setting: Setting) -> str:
    key, source = setting.key, controls.settings.source(setting.key)
    where = f"It stands in {source}." if source else "It is the default."
    if _winner(controls, key):
        own = _text(controls.settings.own, key)
        where = f"{source} says so and wins over {controls.settings.file}, which says {own}."
    about = setting.about[0].upper() + setting.about[1:]
    may_be = f"It may be {meaning(key)}; the default is {_text(Settings(), key)}."
    return f"{about}.\n{where}\n{may_be} A change counts {setting.when}."


def _line(controls: Controls, now: Settings, setting: Setting) -> str:
    more = _elsewhere(controls, now, setting.key)
    return f"- **{setting.key}**: {_text(now, setting.key)}{f' ({more})' if more else ''}"
