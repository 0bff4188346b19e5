"""The command that the user runs with `!`: one at a time, beside whatever the agent does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vikingpi.commands.host import Host
from vikingpi.errors import VpiError
from vikingpi.ui.input import UserCommand
from vikingpi.ui.lines import Line
from vikingpi.ui.printer import Printer
from vikingpi.ui.transcript import Transcript

LEAVE_SECONDS = 5.0


class Bang:
    """`changed()` is called when there is something new to draw."""

    def __init__(self, app: Host, transcript: Transcript, printer: Printer, changed: Callable[[], None]) -> None:
        self._app = app
        self._transcript = transcript
        self._printer = printer
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None

    def start(self, run: UserCommand) -> bool:
        """Run a command; False while another one runs."""
        if self.running:
            return False
        self._transcript.shell_runs(run)
        self._task = asyncio.get_running_loop().create_task(self._run(run))
        self._changed()
        return True

    def cancel(self) -> None:
        self._app.shell.cancel()

    async def finish(self) -> None:
        """End it and wait, not for ever, until it is recorded."""
        if self._task is not None:
            self.cancel()
            await asyncio.wait({self._task}, timeout=LEAVE_SECONDS)

    async def _run(self, run: UserCommand) -> None:
        def update(text: str) -> None:
            self._transcript.shell_runs(run, text)
            self._changed()

        result = None
        try:
            result = await self._app.shell.run(run.command, update, excluded=run.excluded)
        except VpiError as error:
            self._printer.line(Line(str(error), "error", error.hint))
        finally:
            self._task = None
            self._transcript.shell_ended(result)
            self._changed()
