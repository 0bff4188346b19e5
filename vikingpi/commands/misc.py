"""The table of slash commands, and those that fit nowhere else."""

from __future__ import annotations

from vikingpi.command import Command
from vikingpi.commands.approve import approve_commands
from vikingpi.commands.export import export_commands
from vikingpi.commands.host import Host
from vikingpi.commands.model import model_commands
from vikingpi.commands.resume import resume_commands
from vikingpi.commands.session import session_commands
from vikingpi.commands.settings import settings_commands
from vikingpi.commands.tree import tree_commands
from vikingpi.commands.viking_status import viking_commands
from vikingpi.errors import VpiError

WITHOUT_ARGUMENT = ("clone", "copy", "exit", "help", "new", "quit", "session")
KEYS = """
| key | what it does |
|---|---|
| Enter | send; while the model works: give it the text after the present answer |
| Alt+Enter | send when everything else is done |
| Shift+Enter, Ctrl+J | new line |
| Esc | abort; queued texts come back into the editor |
| Esc Esc | with an empty editor: the tree of the session |
| Alt+Up | bring queued texts back into the editor |
| Ctrl+C | clear the editor; abort; twice: leave |
| Ctrl+D | leave |
| Ctrl+Z | suspend; `fg` comes back |
| Ctrl+O | show tool results in full, or fold them |
| Ctrl+T | show thoughts in full, or fold them |
| Shift+Tab | next thinking level |
| Alt+M | next approval mode |
| Ctrl+R | search earlier prompts |
| Ctrl+G | edit the text with $VISUAL or $EDITOR |
| Ctrl+V | paste the clipboard's image as a file |
| Tab | complete a path |
| `@` | name a file of the project |
| `!cmd`, `!!cmd` | run a command; the model sees it, or not |
"""
LINE_KEYS = """
Enter - send a line; while the model works: after the present answer
Ctrl+C - abort, and give back the lines that wait; otherwise clear the line; twice: leave
Ctrl+D - leave
Ctrl+Z - suspend; fg comes back
!cmd, !!cmd - run a command; the model sees it, or not
"""


def all_commands(app: Host) -> tuple[Command, ...]:
    """Return every slash command, sorted by name."""
    commands = (
        *model_commands(app),
        *session_commands(app),
        *viking_commands(app),
        *misc_commands(app),
    )
    if app.controls is not None:
        commands += approve_commands(app.controls.approval)
        commands += export_commands(app, app.controls.export)
        commands += (*resume_commands(app, app.controls), *tree_commands(app, app.controls))
        commands += settings_commands(app, app.controls)
    return tuple(sorted(map(_strict, commands), key=lambda command: command.name))


def _strict(command: Command) -> Command:
    """Let a command that takes no argument refuse one."""
    if command.name not in WITHOUT_ARGUMENT:
        return command

    async def run(argument: str) -> str:
        if argument.strip():
            hint = f"/{command.name}: {command.description}"
            raise VpiError(f"/{command.name} takes no argument, so nothing was done", hint=hint)
        return await command.run(argument)

    return command._replace(run=run)


def misc_commands(app: Host) -> tuple[Command, ...]:
    """Return /exit, /help and /quit."""

    async def show_help(argument: str) -> str:
        named = (*((command.name, command.description) for command in app.commands), *app.library.names())
        if app.chooser is None:  # a terminal that only prints
            return "\n".join([*(f"/{name} - {about}" for name, about in named), LINE_KEYS.rstrip()])
        lines = [f"- `/{name}` - {about}" for name, about in named]
        return "\n".join([*lines, "", KEYS.strip()])

    async def leave(argument: str) -> str:
        app.quit_requested = True
        return ""

    return (
        Command("exit", "leave", leave),
        Command("help", "show commands and keys", show_help),
        Command("quit", "leave", leave),
    )
