"""Recognise images by content and read their size from the header, so that no provider gets one it must refuse."""

from __future__ import annotations

import struct

from vikingpi.errors import ToolError
from vikingpi.values import NamedTuple

MAX_ENCODED = 4_718_592
MAX_SIDE = 8000
_END_WINDOW = 65536


class Image(NamedTuple):
    """`width` and `height` in pixels."""

    mime_type: str
    width: int
    height: int


def kind_of(start: bytes) -> str:
    """Return the MIME type that the first bytes tell, or "" when this is none of the four kinds."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return ""


def inspect(data: bytes) -> Image:
    """Read type and size; raise ToolError for an image that is damaged or over the limits of model providers."""
    mime_type = kind_of(data)
    try:
        width, height = _SIZES[mime_type](data)
    except (struct.error, IndexError, ValueError):
        width = height = 0
    if not width or not height:
        raise ToolError(f"The image cannot be shown: its {mime_type} header is damaged")
    if not _complete(mime_type, data):
        raise ToolError(f"The image cannot be shown: the {mime_type} file is cut off")
    if max(width, height) > MAX_SIDE:
        raise ToolError(
            f"The image cannot be shown: {width}x{height} pixels, at most {MAX_SIDE} per side are allowed. "
            "Make a smaller copy and read that."
        )
    return Image(mime_type, width, height)


def fits(size: int) -> bool:
    """Say whether `size` bytes stay under the limit after base64, which is what providers count."""
    return (size + 2) // 3 * 4 <= MAX_ENCODED


def _complete(mime_type: str, data: bytes) -> bool:
    end = data[-_END_WINDOW:]
    if mime_type == "image/png":
        return b"IEND" in end
    if mime_type == "image/jpeg":
        return b"\xff\xd9" in end
    if mime_type == "image/gif":
        return b"\x3b" in end[-16:]
    return len(data) >= 8 + int.from_bytes(data[4:8], "little")


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", data[16:24])
    return (width, height) if data[12:16] == b"IHDR" else (0, 0)


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack("<HH", data[6:10])
    return width, height


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:
            at += 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    chunk = data[12:16]
    if chunk == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if chunk == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


_SIZES = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
