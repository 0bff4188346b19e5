"""A chat without a screen: a prompt per line of standard input, and for each the ms from the last token of the answer
until the next prompt is taken."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path

from vikingpi.app.options import RunOptions
from vikingpi.app.wiring import build_app, prepare
from vikingpi.events import Event, MessageUpdate
from vikingpi.ui.run import COLLECT_IN_CHAT


async def main() -> None:
    last = 0.0

    def heard(event: Event) -> None:
        nonlocal last
        if isinstance(event, MessageUpdate):
            last = time.perf_counter()

    store = os.environ["CHAT_STORE"]
    home = Path(os.environ["VPI_HOME"])
    options = RunOptions(session_dir=str(home / "sessions"), store="openviking" if store == "openviking" else "off")
    loop = asyncio.get_running_loop()
    gc.freeze()  # as the chat does before it begins
    gc.set_threshold(*COLLECT_IN_CHAT)
    async with asyncio.TaskGroup() as group:
        app = build_app(prepare(options, dict(os.environ), Path.cwd()), "repl", group.create_task)
        app.subscribe(heard)
        await app.start()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            last = 0.0
            await app.submit(line.strip())
            if not last:
                raise RuntimeError("the model did not answer")
            print(f"{(time.perf_counter() - last) * 1000:.3f}", flush=True)
        await app.close("quit")


if __name__ == "__main__":
    asyncio.run(main())
