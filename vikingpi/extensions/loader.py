"""Find and load extension files. One that is broken is named and left out; the others go on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vikingpi.command import Command
from vikingpi.errors import ConfigError, ExtensionError
from vikingpi.extensions.naming import MODULE_PREFIX
from vikingpi.tools.base import Tool
from vikingpi.values import NamedTuple

if TYPE_CHECKING:
    from types import ModuleType

    from vikingpi.extensions.api import Extension

SETUP_SECONDS = 60.0  # the limits of handlers are in calls.py


class Loaded(NamedTuple):
    """Everything that extensions have brought, in the order of the files; `notices` name what was left out."""

    extensions: tuple[Extension, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(tool for extension in self.extensions for tool in extension.tools)

    def commands(self, taken: Iterable[Command]) -> tuple[Command, ...]:
        """Return the commands whose names are still free."""
        names = {command.name for command in taken}
        found: dict[str, Command] = {}
        for extension in self.extensions:
            for command in extension.commands:
                if command.name not in names:
                    found.setdefault(command.name, command)
        return tuple(found.values())


def find_extensions(folders: Iterable[Path], files: Sequence[str], cwd: Path) -> tuple[Path, ...]:
    """List the `*.py` of the folders, then the given files; ConfigError for a file that does not exist."""
    found = [path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.py"))]
    for name in files:
        path = cwd / Path(name).expanduser()
        if not path.is_file():
            raise ConfigError(f"extension not found: {path}", hint="-e takes a Python file with a function setup(vpi)")
        found.append(path)
    return tuple({os.path.realpath(path): path for path in found}.values())


def load_extensions(paths: Iterable[Path], limit: float = SETUP_SECONDS) -> Loaded:
    """Run the files, each in a module of its own. Nearly every run has none: what they need is imported with them."""
    extensions: list[Extension] = []
    notices: list[str] = []
    for path in paths:
        from vikingpi.extensions.api import Extension

        extension = Extension(path.stem)
        try:
            _load(path, extension, limit)
        except Exception as error:  # noqa: BLE001 - whatever an extension raises is reported
            hint = f" ({error.hint})" if isinstance(error, ExtensionError) and error.hint else ""
            notices.append(f"the extension {path} is left out: {type(error).__name__}: {error}{hint}")
        else:
            extensions.append(extension)
    return Loaded(tuple(extensions), tuple(notices))


def _load(path: Path, extension: Extension, limit: float) -> None:
    """Run a file and its setup; raise an Exception for what they raise, KeyboardInterrupt only for a real Ctrl+C."""
    import signal
    import threading

    from vikingpi.extensions.calls import within

    pressed: list[int] = []

    def press(number: int, _frame: object) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    mine = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, press) if mine else None
    try:
        within(limit, lambda: _run(path, extension))
    except Exception:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        if mine:
            signal.signal(signal.SIGINT, before)
    extension.ready = True


def _run(path: Path, extension: Extension) -> None:
    import inspect

    setup = getattr(_module(path), "setup", None)
    if not callable(setup):
        raise TypeError("it has no function setup(vpi)")
    said = None if inspect.iscoroutinefunction(setup) else setup(extension)
    if inspect.iscoroutine(said):
        said.close()
    if inspect.iscoroutinefunction(setup) or inspect.isawaitable(said):
        raise TypeError("setup must be a plain function; what waits belongs into a handler of session_start")


def _module(path: Path) -> ModuleType:
    import importlib.util
    import sys

    name = f"{MODULE_PREFIX}{path.stem}_{abs(hash(os.path.realpath(path)))}"
    if not path.is_file():
        raise ImportError("it is no file")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
