"""/export: the open session as a file for others to read."""

from __future__ import annotations

from vikingpi.command import Command
from vikingpi.commands.chooser import Option
from vikingpi.commands.controls import ExportControl
from vikingpi.commands.host import Host
from vikingpi.errors import SessionError

_ANSWERS = (Option("no", "no"), Option("yes", "yes, overwrite it"))


def export_commands(app: Host, control: ExportControl) -> tuple[Command, ...]:
    """Return /export."""

    async def export(argument: str) -> str:
        path = control.place(argument)
        replace = path.exists()
        if replace and not path.is_file():
            raise SessionError(f"{path} is not a file", hint="give another name")
        if replace and app.chooser is None:
            raise SessionError(f"{path} exists already", hint="give another name, or remove it first")
        if replace and app.chooser is not None:
            answer = await app.chooser.confirm(f"{path.name} exists already. Overwrite it?", str(path), _ANSWERS)
            if answer != "yes":
                return "Nothing was written."
        return await control.write(path, replace=replace)

    return (Command("export", "[file] - write the session as an HTML page, or its branch as .jsonl", export),)
