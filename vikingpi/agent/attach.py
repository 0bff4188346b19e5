"""`@file` words of the command line become part of the prompt."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from pathlib import Path

from vikingpi.errors import ConfigError, ToolError
from vikingpi.messages import ImagePart
from vikingpi.session.entries import whole
from vikingpi.tools import images
from vikingpi.values import NamedTuple

TEXT_LIMIT = 10_000_000


class Attached(NamedTuple):
    """`text` holds a `<file>` block per file, in order; it is empty or ends with a newline."""

    text: str
    images: tuple[ImagePart, ...]


def attach_files(paths: Iterable[str], cwd: Path) -> Attached:
    """Read the files; empty ones are left out. ConfigError: not found, unreadable, not text and no usable image."""
    blocks: list[str] = []
    pictures: list[ImagePart] = []
    for name in paths:
        path = Path(os.path.normpath(cwd / os.path.expanduser(name)))  # noqa: PTH111 - Path's raises for ~nobody
        data = _read(path)
        shown = whole(str(path)).replace('"', "&quot;")
        kind = images.kind_of(data)
        if kind:
            pictures.append(_image(path, data))
            blocks.append(f'<file name="{shown}"></file>\n')
        elif data:
            blocks.append(f'<file name="{shown}">\n{_text(path, data)}\n</file>\n')
    return Attached("".join(blocks), tuple(pictures))


def _read(path: Path) -> bytes:
    if not path.exists():
        raise ConfigError(f"File not found: {path}")
    if not path.is_file():
        raise ConfigError(f"Not a file: {path}", hint="name files one by one; the agent can look into folders itself")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror or error}") from error


def _image(path: Path, data: bytes) -> ImagePart:
    try:
        if not images.fits(len(data)):
            raise ToolError("it is larger than model providers take")
        mime_type = images.inspect(data).mime_type
    except ToolError as error:
        raise ConfigError(f"Cannot attach the image {path}: {error}") from error
    return ImagePart(base64.b64encode(data).decode(), mime_type)


def _text(path: Path, data: bytes) -> str:
    if len(data) > TEXT_LIMIT:
        raise ConfigError(
            f"{path} is too large to attach ({len(data)} bytes)", hint="ask the agent to read it in parts"
        )
    if b"\0" in data[:8192]:
        raise ConfigError(f"{path} is neither text nor an image that models take")
    return data.decode("utf-8", "replace").removeprefix("\ufeff").removesuffix("\n")
