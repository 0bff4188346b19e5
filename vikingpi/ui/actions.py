"""What the keys ask for, done."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from vikingpi.commands.approve import MEANING, next_mode
from vikingpi.commands.host import Host
from vikingpi.decode import as_dict
from vikingpi.errors import VpiError
from vikingpi.ui import outside
from vikingpi.ui.desk import Desk
from vikingpi.ui.files import path_source
from vikingpi.ui.input import offer_again, user_command
from vikingpi.ui.interrupts import Interrupts
from vikingpi.ui.keys import TWICE_SECONDS, Actions
from vikingpi.ui.lines import Line
from vikingpi.ui.menu import Source, command_in, names_of, slip_in
from vikingpi.values import NamedTuple

HINT_SECONDS = 3.0
LEVELS = ("off", "minimal", "low", "medium", "high")


class Places(NamedTuple):
    """Folders: the prompts of each project, and where images of the clipboard are saved."""

    history: Path
    images: Path


class Doer:
    """Carries out what needs more than one call."""

    def __init__(self, desk: Desk, images: Path, interrupts: Interrupts) -> None:
        self._desk = desk
        self._images = images
        self._interrupts = interrupts
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, text: str, *, last: bool = False) -> None:
        """Run a command of the program or of the shell, or send a text to the model."""
        desk = self._desk
        run = user_command(text)
        if run is not None:
            if not desk.bang.start(run):
                offer_again(desk.editor, text)
                self.hint("one command at a time: Esc ends the one that runs", HINT_SECONDS)
            return
        called = command_in(desk.app.commands, text)
        if called is not None:
            desk.work.command(*called)
        elif slip := slip_in(names_of(desk.app), text):
            offer_again(desk.editor, text)
            self.hint(f"{slip} (a blank in front sends it)", HINT_SECONDS)
        else:
            desk.work.prompt(text, last=last)

    def abort(self) -> None:
        """End the user's own command if one runs, else what the agent does."""
        if self._desk.bang.running:
            self._desk.bang.cancel()
        else:
            self._desk.work.abort()

    def take_back(self) -> tuple[str, ...]:
        return () if self._desk.bang.running else self._desk.app.parts.agent.inbox.drain()

    def hint(self, text: str, duration: float = TWICE_SECONDS) -> None:
        self._desk.view.activity.hint(text, duration)
        self._desk.screen.invalidate()
        asyncio.get_running_loop().call_later(duration + 0.05, self._desk.screen.invalidate)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes its time; what it fails with is shown."""

        async def guarded() -> None:
            try:
                await work
            except VpiError as error:
                self._desk.printer.line(Line(str(error), "error", error.hint))

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def edit_outside(self) -> None:
        """Have the editor's text edited by $EDITOR, with the terminal to itself."""
        screen, editor = self._desk.screen, self._desk.editor
        command, before = outside.editor_command(os.environ), editor.whole()
        async with screen.away():
            with self._interrupts.given_away():
                edited = await outside.edit(before, command)
        came = editor.whole().removesuffix(before).strip("\n")
        text = "\n\n".join(part for part in (came, edited) if part)
        if before.strip() in edited:
            editor.set(text)
        else:
            editor.exchange(text)

    async def paste_image(self) -> None:
        """Put the clipboard's image into the text as a file."""
        path = await outside.clipboard_image(self._images, os.environ)
        if path is None:
            self.hint("the clipboard has no image that can be read", HINT_SECONDS)
        else:
            self._desk.editor.buffer.insert_text(f"{self.pasted(str(path))} ")

    def pasted(self, text: str) -> str:
        """Turn the path of an image into a word that names the file; other texts stay as they are."""
        path = outside.image_path(text)
        if path is None:
            return text
        return f'@"{path}"' if " " in str(path) else f"@{path}"

    def next_approval(self) -> None:
        """Use the next approval mode; the status bar shows it."""
        controls = self._desk.app.controls
        if controls is None:
            return
        mode = next_mode(controls.approval.mode)
        try:
            controls.approval.choose(mode)
        except VpiError as error:
            self._desk.printer.line(Line(str(error), "error", error.hint))
            return
        self._desk.view.figures = self._desk.app.status()
        self.hint(f"approval {mode}: {MEANING[mode]}", HINT_SECONDS)

    def toggle_results(self) -> None:
        unfolded = self._desk.transcript.toggle_results()
        self.hint(f"results are {'shown in full' if unfolded else 'folded'} · ctrl+o", HINT_SECONDS)

    def toggle_thoughts(self) -> None:
        shown = self._desk.transcript.toggle_thoughts()
        self.hint(f"thoughts are {'shown' if shown else 'folded'} · ctrl+t", HINT_SECONDS)


def make_actions(desk: Desk, leave: Callable[[], None], images: Path, interrupts: Interrupts) -> Actions:
    """Bind what the keys ask for to the parts; `leave` ends the program."""
    doer = Doer(desk, images, interrupts)

    def paths(text: str) -> Source:
        return path_source(lambda: desk.app.parts.cwd, text)

    def open_tree() -> bool:
        called = command_in(desk.app.commands, "/tree")
        if called is not None:
            desk.work.command(*called)
        return called is not None

    def queue(text: str) -> None:
        doer.submit(text, last=True)

    async def suspend() -> None:
        await desk.screen.suspend()

    return Actions(
        submit=doer.submit,
        queue=queue,
        abort=doer.abort,
        take_back=doer.take_back,
        leave=leave,
        hint=doer.hint,
        busy=lambda: desk.work.busy or desk.bang.running,
        more_input=lambda: bool(select.select([desk.screen.input.fileno()], [], [], 0)[0]),
        pasted=doer.pasted,
        paths=paths,
        suspend=lambda: doer.spawn(suspend()),
        edit_outside=lambda: doer.spawn(doer.edit_outside()),
        paste_image=lambda: doer.spawn(doer.paste_image()),
        toggle_results=doer.toggle_results,
        toggle_thoughts=doer.toggle_thoughts,
        next_thinking=lambda: next_thinking(desk.app, doer.hint),
        next_approval=lambda: doer.next_approval(),
        open_tree=open_tree,
    )


def next_thinking(app: Host, hint: Callable[[str, float], None]) -> None:
    """Use the next thinking level from the next request on."""
    model, level = app.parts.agent.deps.model, app.parts.agent.deps.thinking_level
    if not model.reasoning:
        hint(f"{model.id} does not think", HINT_SECONDS)
        return
    levels = [*LEVELS, "xhigh"] if "xhigh" in as_dict(model.compat.get("reasoningEffortMap")) else LEVELS
    at = levels.index(level) + 1 if level in levels else 0
    chosen = levels[at % len(levels)]
    app.parts.agent.use_model(model, chosen)
    hint(f"thinking: {chosen}", HINT_SECONDS)
