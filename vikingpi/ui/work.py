"""What the user asked for while it runs: prompts, commands, and texts that must not get lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from vikingpi import safetext
from vikingpi.command import Command
from vikingpi.commands.host import Host
from vikingpi.errors import VpiError
from vikingpi.events import Event, MessageEnd
from vikingpi.messages import ImagePart, UserMessage
from vikingpi.ui.input import Editor
from vikingpi.ui.lines import LINE_CELLS, Line, failure_of
from vikingpi.ui.plain import Prompt, hint_of
from vikingpi.ui.printer import Printer
from vikingpi.ui.rows import Row
from vikingpi.ui.view import Activity

LEAVE_SECONDS = 5.0


class Work:
    """What the user asked for and still runs: one prompt at a time and any number of commands."""

    def __init__(
        self, app: Host, printer: Printer, editor: Editor, activity: Activity, ended: Callable[[Exception | None], None]
    ) -> None:
        """`ended(fault)` is called after each piece of work, with what no part of the program expected."""
        self._app = app
        self._printer = printer
        self._editor = editor
        self._activity = activity
        self._done = ended
        self._tasks: set[asyncio.Task[None]] = set()
        self._prompting = False
        self._stopped = False
        self._unstored: list[str] = []

    @property
    def busy(self) -> bool:
        return bool(self._tasks) or self._app.running

    def event(self, event: Event) -> None:
        """A prompt is safe once its message is stored; until then it goes back to the editor if need be."""
        if isinstance(event, MessageEnd) and isinstance(event.message, UserMessage):
            self._unstored.clear()

    def prompt(self, text: str, images: Sequence[ImagePart] = (), *, last: bool = False) -> None:
        """Send a text. While something runs it steers: it follows the present answer; or, `last`, everything else."""
        agent = self._app.parts.agent
        if not (self._prompting or self._app.running):
            self._prompting, self._stopped = True, False
            self._spawn(self._prompts(text, images))
        elif last:
            agent.follow_up(text, images)
        else:
            agent.steer(text, images)

    def command(self, command: Command, argument: str, then: Sequence[Prompt] = ()) -> None:
        """Run a command, and send the texts of `then` after it."""
        shown = f"> /{command.name} {argument}".rstrip()
        self._printer.text([Row(safetext.one_line(shown, LINE_CELLS), "user")])
        self._spawn(self._command(command, argument, then))

    def abort(self) -> None:
        """End what runs. Commands that wait for nothing of the agent are cancelled."""
        if self._app.running:
            self._app.abort()
        elif self._prompting:
            self._stopped = True
        else:
            for task in self._tasks:
                task.cancel()

    async def finish(self) -> None:
        """Abort and wait, not for ever, until everything has come to its end."""
        self.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LEAVE_SECONDS)
        for task in self._tasks:
            task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        self._done(fault if isinstance(fault, Exception) else None)

    async def _prompts(self, text: str, images: Sequence[ImagePart]) -> None:
        """Send a text and then what was typed too late for its run."""
        agent = self._app.parts.agent
        try:
            waiting: tuple[str, ...] = (text,)
            while waiting:
                for later in waiting[1:]:
                    agent.follow_up(later)
                good = await self._send(waiting[0], images)
                images, waiting = (), agent.inbox.drain()
                if not good:
                    break
            self._editor.put_back([*self._unstored, *waiting])
        finally:
            self._prompting = False

    async def _send(self, text: str, images: Sequence[ImagePart]) -> bool:
        self._unstored = [text]
        if self._stopped:
            return False
        self._activity.begin("working")
        try:
            answer = await self._app.submit(text, images)
        except VpiError as error:
            self._printer.line(Line(str(error), "error", error.hint))
            return False
        finally:
            self._activity.end()
        if answer is not None and answer.stop_reason == "error":
            failure = failure_of(answer, hint_of(self._app))
            if failure is not None:
                self._printer.line(failure)
        return answer is not None and answer.stop_reason not in ("error", "aborted")

    async def _command(self, command: Command, argument: str, then: Sequence[Prompt]) -> None:
        try:
            text = await command.run(argument)
        except VpiError as error:
            self._printer.line(Line(str(error), "error", error.hint))
            return
        if text.strip():
            self._printer.markdown(text)
        if self._app.quit_requested:
            return
        for text, images in then:
            self.prompt(text, images, last=True)
        if not self._prompting and not self._app.running and (late := self._app.parts.agent.inbox.drain()):
            self.prompt(late[0])
            for text in late[1:]:
                self.prompt(text, last=True)
