"""Ends a program that extensions ran in: what they leave running is named and holds up nothing."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import CoroutineType, ModuleType
from typing import Any

from vikingpi.extensions.naming import MODULE_PREFIX, extension_in

TASKS_END = 1.0
PROCESS_ENDS = 3.0


def run(main: Coroutine[Any, Any, int]) -> int:
    """Do what asyncio.run does, but wait neither for a task that refuses to end nor for threads of the loop."""
    runner = asyncio.Runner()
    try:
        return runner.run(main)
    finally:
        stuck = runner.run(_end_tasks())
        if stuck:
            _tell(stuck)
        else:
            runner.get_loop().set_default_executor(ThreadPoolExecutor(1))  # nobody waits for threads of the old one
            runner.close()


def leave_within(code: int, seconds: float = PROCESS_ENDS) -> None:
    """Have the process end with `code` by then, though threads or exit handlers of extensions hold it up."""

    def end() -> None:
        time.sleep(seconds)
        _tell(_holding() or {_file_name(module) for module in _modules()})
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)

    threading.Thread(target=end, name="vpi-leave", daemon=True).start()


async def _end_tasks() -> set[str]:
    """Cancel the tasks of extensions; name the extensions whose tasks go on all the same."""
    tasks = {task: name for task in asyncio.all_tasks() if (name := _extension_of(task))}
    for task in tasks:
        task.cancel()
    if not tasks:
        return set()
    _, stuck = await asyncio.wait(tasks, timeout=TASKS_END)
    return {tasks[task] for task in stuck}


def _extension_of(task: asyncio.Task[Any]) -> str:
    """Return the name of the extension whose coroutine this task waits in, empty for none."""
    waiting: object = task.get_coro()
    while isinstance(waiting, CoroutineType):
        name = extension_in(waiting.cr_frame)
        if name:
            return name
        waiting = waiting.cr_await
    return ""


def _holding() -> set[str]:
    """Name the extensions whose code runs in a thread that the interpreter waits for, or in an exit handler."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - there is no other way to them
    held = [frames.get(thread.ident or 0) for thread in threading.enumerate() if not thread.daemon]
    return {name for frame in held if (name := extension_in(frame))}


def _modules() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith(MODULE_PREFIX)]


def _file_name(module: ModuleType) -> str:
    return os.path.basename(module.__file__ or "").removesuffix(".py")  # noqa: PTH119 - no more than a name


def _tell(names: Iterable[str]) -> None:
    for name in sorted(names):
        sys.stderr.write(f"warning: the extension {name} goes on after the end and is left behind\n")
