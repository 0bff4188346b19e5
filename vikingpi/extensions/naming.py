"""Finds the extension that code belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

MODULE_PREFIX = "vpi_extension_"


def is_extension(frame: FrameType) -> bool:
    """Tell whether this very frame runs code of an extension's file."""
    return str(frame.f_globals.get("__name__")).startswith(MODULE_PREFIX)


def extension_in(frame: FrameType | None) -> str:
    """Return the name of the extension whose code runs in a frame or called it, empty for none."""
    while frame is not None:
        if is_extension(frame):
            return Path(frame.f_code.co_filename).stem
        frame = frame.f_back
    return ""
