"""File names as models write them, and errors of the file system as models read them."""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from pathlib import Path

from vikingpi.errors import ToolError
from vikingpi.safetext import seen, with_bytes
from vikingpi.tools.base import ToolContext

_SURROGATE = "[\ud800-\udfff]"
_STAND_IN = r"[\u2400-\u2421\ufffd]|<U\+[0-9A-F]{4,6}>|<0x[0-9A-F]{2}>|\\[nr]"


def scrub(text: str) -> str:
    """Replace lone surrogates, which no encoding can carry, by U+FFFD."""
    return text if text.isascii() else re.sub(_SURROGATE, "\ufffd", text)


def resolve(path: str, context: ToolContext, *, new: bool = False) -> Path:
    """Return the absolute path meant by `path`, as `meant` says, in the folder of the tools."""
    return meant(path, context.cwd, context.env.get("HOME", ""), new=new)


def meant(path: str, cwd: Path, home: str = "", *, new: bool = False) -> Path:
    """Return the absolute path meant by `path`: relative to the cwd, with `~` and a leading `@` understood.

    A name as it is shown in place of characters that are not seen, line breaks or bytes that are no UTF-8 means the
    one existing entry that is shown so; so does, unless the file may be `new`, a name that differs from the one on disk
    only in its Unicode form. Raise ToolError for an empty or impossible path.
    """
    if "\0" in path:
        raise ToolError("Invalid path: it contains a NUL character")
    path = scrub(path)
    if path.startswith("@") and not os.path.lexists(cwd / path.split("/", 1)[0]):
        path = path[1:]
    if path == "~" or path.startswith("~/"):
        path = (home or str(Path.home())) + path[1:]
    if not path:
        raise ToolError("Invalid path: it is empty")
    full = Path(os.path.normpath(cwd / path))
    try:
        os.fsencode(full)
    except UnicodeEncodeError as error:
        raise ToolError(f"Invalid path: the file system cannot encode {path!a}") from error
    return full if new and re.search(_STAND_IN, path) is None else existing(full)


def existing(full: Path) -> Path:
    """Return the entry that an absolute path means, by its name or by how that is shown, or the path as it is."""
    if os.path.lexists(full):
        return full
    found = Path(full.anchor)
    for part in full.parts[1:]:
        exact = found / part
        found = exact if os.path.lexists(exact) else found / _entry(found, part)
    return found


def _entry(folder: Path, name: str) -> str:
    wanted = _look(name)
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return name
    alike = [entry for entry in names if wanted in (_look(scrub(entry)), _look(shown(entry)), _look(seen(entry)))]
    return alike[0] if len(alike) == 1 else name


def _look(name: str) -> str:
    return unicodedata.normalize("NFC", name).replace("\u202f", " ").replace("\u2019", "'")


def lock_key_of(path: object, context: ToolContext, *, new: bool = False) -> str | None:
    """Return the real path as the key under which changes of one file are serialised."""
    if not isinstance(path, str):
        return None
    try:
        return os.path.realpath(resolve(path, context, new=new))
    except (ToolError, OSError, ValueError):
        return None


def explain(error: OSError, path: Path) -> str:
    """Say in one line what the system refused: `ENOENT: no such file or directory: /a/b`."""
    code = errno.errorcode.get(error.errno or 0, "EIO")
    text = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"{code}: {text}: {scrub(str(path))}"


def mode_of(path: Path) -> int:
    """Return the mode of a file or folder; raise ToolError when it is not there or cannot be looked at."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ToolError(f"Path not found: {scrub(str(path))}") from error
    except OSError as error:
        raise ToolError(explain(error, path)) from error


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder or a link to one; a link that cannot be followed is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def open_regular(path: Path) -> tuple[int, os.stat_result]:
    """Open a regular file for reading without ever waiting for a writer; the caller closes it.

    Raise ToolError for a folder or a device, OSError for what the system refuses.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        return handle, status
    os.close(handle)
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"EISDIR: is a directory: {scrub(str(path))}")
    raise ToolError(f"Not a regular file: {scrub(str(path))}")


def shown(name: str) -> str:
    """Write a name on one line of a listing; bytes that are no UTF-8 as `<0xFF>`."""
    return scrub(with_bytes(name)).replace("\n", "\\n").replace("\r", "\\r")


def writable(name: str, path: Path, context: ToolContext) -> Path:
    """Return the path, or raise ToolError where a sandbox keeps it from being written."""
    if context.sandbox is not None and not context.sandbox.allows(path):
        raise ToolError(
            f"{scrub(name)} is outside of the sandbox: only the workspace can be written, without .git and .vpi"
        )
    return path
