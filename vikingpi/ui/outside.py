"""What other programs do for the editor: $EDITOR, the clipboard's image, a pasted path of an image."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from vikingpi.errors import VpiError
from vikingpi.private import private_dir, private_open
from vikingpi.tools.helper import program
from vikingpi.tools.images import kind_of

CLIPBOARD_SECONDS = 5.0
MOST_IMAGE_BYTES = 50_000_000
_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


def editor_command(env: Mapping[str, str]) -> list[str]:
    """Return the user's editor as the words of a command; VpiError where there is none."""
    chosen = env.get("VISUAL") or env.get("EDITOR") or ""
    try:
        words = shlex.split(chosen) or [name for name in (program(env, "nano", "vi"),) if name]
    except ValueError as error:
        raise VpiError(f"$EDITOR is not a command: {error}", hint="set VISUAL or EDITOR") from error
    if not words:
        raise VpiError("there is no editor", hint="set VISUAL or EDITOR")
    return words


async def edit(text: str, command: Sequence[str]) -> str:
    """Have a text edited in the terminal and return it as it is then; VpiError when the editor failed."""
    path = _file_with(text)
    try:
        try:
            process = await asyncio.create_subprocess_exec(*command, str(path))
        except OSError as error:
            failure = f"cannot start {command[0]}: {error.strerror or error}"
            raise VpiError(failure, hint="set VISUAL or EDITOR") from error
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.kill()
            raise
        if code:
            raise VpiError(f"{command[0]} ended with code {code}: the text is as before")
        return _content(path)
    finally:
        _remove(path)


def _file_with(text: str) -> Path:
    descriptor, name = tempfile.mkstemp(prefix="vpi-prompt-", suffix=".md")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return Path(name)


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    except OSError as error:
        raise VpiError(f"the edited text cannot be read: {error.strerror or error}") from error


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def clipboard_image(folder: Path, env: Mapping[str, str]) -> Path | None:
    """Save the clipboard's image in `folder` (0700) and return the file; None where there is no image to be had."""
    for command in _clipboard_commands(env):
        data = await _output(command)
        kind = kind_of(data[:32])
        if kind:
            private_dir(folder)
            path = folder / f"clipboard-{time.strftime('%Y%m%d-%H%M%S')}{_SUFFIXES[kind]}"
            with os.fdopen(private_open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(data)
            return path
    return None


def image_path(text: str) -> Path | None:
    """Return the file when a paste is the path of an image, as terminals paste a file that is dropped on them."""
    if len(text) > 4096 or "\n" in text.strip():
        return None
    text = text.strip().removeprefix("file://")
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    for name in (text, *words) if len(words) == 1 else (text,):
        path = Path(os.path.expanduser(name))  # noqa: PTH111 - Path's raises for ~nobody
        try:
            if path.is_absolute() and path.is_file():
                with path.open("rb") as file:
                    if kind_of(file.read(32)):
                        return path
        except (OSError, ValueError):
            continue
    return None


def _clipboard_commands(env: Mapping[str, str]) -> list[list[str]]:
    commands: list[list[str]] = []
    if env.get("WAYLAND_DISPLAY"):
        commands += [["wl-paste", "--no-newline", "--type", kind] for kind in ("image/png", "image/jpeg")]
    if env.get("DISPLAY"):
        target = ["xclip", "-selection", "clipboard", "-target"]
        commands += [[*target, kind, "-out"] for kind in ("image/png", "image/jpeg")]
    if sys.platform == "darwin":
        commands.append(["pngpaste", "-"])
    return [[found, *command[1:]] for command in commands if (found := program(env, command[0]))]


async def _output(command: Sequence[str]) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=MOST_IMAGE_BYTES,
        )
    except OSError:
        return b""
    try:
        return (await asyncio.wait_for(process.communicate(), CLIPBOARD_SECONDS))[0]
    except TimeoutError:
        process.kill()
        await process.wait()
        return b""
