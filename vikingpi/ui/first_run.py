"""The list that a first start shows, before there is a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from prompt_toolkit.input import Input
from prompt_toolkit.output import ColorDepth

from vikingpi.app.first_run import DEMO, FirstRun
from vikingpi.app.wiring import Prepared
from vikingpi.net import HttpTransport
from vikingpi.ui.desk import Terminal, open_terminal
from vikingpi.ui.interrupts import SIGNALS, Interrupts
from vikingpi.ui.picker import Asker
from vikingpi.ui.screen import HeldOutput

__all__ = ["DEMO", "first_model"]


class _Bare:
    """A terminal that nothing else uses."""

    future: asyncio.Future[int] | None = None

    def __init__(self, terminal: Terminal) -> None:
        self.input: Input = terminal.source
        self.held_output: HeldOutput = terminal.output
        self.color_depth: ColorDepth = terminal.output.get_default_color_depth()

    @asynccontextmanager
    async def away(self) -> AsyncGenerator[None, None]:
        yield


async def first_model(prepared: Prepared, why: str) -> str | int:
    """Let the user choose a model and keep it; return what FirstRun.choose does, or the exit code of a signal."""
    interrupts, transport = Interrupts(), HttpTransport()
    interrupts.watch()
    terminal = open_terminal(prepared.settings.theme, prepared.env)
    asker = Asker(_Bare(terminal), terminal.size, terminal.theme.glyphs)
    try:
        return await FirstRun(prepared, why, transport).choose(asker.choose)
    except asyncio.CancelledError:
        if interrupts.caught is None:
            raise
        return SIGNALS[interrupts.caught]
    finally:
        await transport.close()
