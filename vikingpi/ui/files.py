"""What `@` and Tab complete: files of the project that no gitignore file excludes, and any path by its beginning."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vikingpi.safetext import is_seen, seen
from vikingpi.tools.globs import walk
from vikingpi.tools.helper import program
from vikingpi.tools.paths import existing, is_folder
from vikingpi.ui.input import user_command
from vikingpi.ui.menu import NOTHING, Item, Offer, Source
from vikingpi.values import NamedTuple

MOST_FILES = 50_000
MOST_ITEMS = 50
LIST_SECONDS = 5.0
FRESH_SECONDS = 5.0
_AT = re.compile(r'(?:^|(?<=[\s("\'=]))@("[^"\n]*|[^\s"]*)\Z')
_WORD = re.compile(r'(?:^|(?<=[\s(=]))(@?"[^"\n]*|[^\s"]*)\Z')
_LOOK_BACK = 500
_ALIKE = "several names look like this: to name one, rename the others"
# What stands in a word for the shell as it is, what within double quotes, and what is written as its bytes.
_BARE = re.compile(r"[\w./~+,@%:=-]+")
_IN_QUOTES = re.compile(r"[\w./~+,@%:= ()\[\]{}<>|&;*?#'-]+")
_BYTES = re.compile(r"\$'((?:\\x[0-9a-f]{2})+)'")
_CUT_BYTES = re.compile(r"\$(?:'[^']*)?\Z")


class _Path(NamedTuple):
    """A path as it is seen; `alike` where that means no file, or not this one."""

    text: str
    lower: str
    name_at: int
    alike: bool = False


class FileIndex:
    """The paths below a folder, listed in a thread when they are first wanted and again when they may be stale.

    `changed` is called, in that thread, when there is a new list.
    """

    def __init__(self, folder: Callable[[], Path], changed: Callable[[], None]) -> None:
        self._folder = folder
        self._changed = changed
        self._paths: tuple[_Path, ...] = ()
        self._alike: frozenset[str] = frozenset()
        self._of: Path | None = None
        self._listed = 0.0
        self._busy = False

    def about(self, path: str) -> str:
        """Say what keeps a path from being named; empty for all others."""
        alike = any(path == one or (one.endswith("/") and path.startswith(one)) for one in self._alike)
        return _ALIKE if alike else ""

    @property
    def loading(self) -> bool:
        return self._busy and not self._paths

    def match(self, query: str, most: int = MOST_ITEMS) -> tuple[str, ...]:
        """Return the best paths for a query: in the name, in the path, with all letters in this order."""
        self._renew()
        wanted = query.lower()
        if not wanted:
            return tuple(path.text for path in self._paths if path.name_at == 0)[:most]
        named = [path for path in self._paths if path.lower.find(wanted, path.name_at) >= 0]
        named.sort(key=lambda path: (not path.lower.startswith(wanted, path.name_at), len(path.text)))
        found = named[:most]
        if len(found) < most:
            seen = set(found)
            inside = (path for path in self._paths if path not in seen and wanted in path.lower)
            found += sorted(inside, key=lambda path: len(path.text))[: most - len(found)]
        if len(found) < most:
            seen = set(found)
            letters = re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)
            loose = (path for path in self._paths if path not in seen and letters.search(path.lower))
            found += sorted(loose, key=lambda path: len(path.text))[: most - len(found)]
        return tuple(path.text for path in found)

    def _renew(self) -> None:
        folder = self._folder()
        if folder != self._of:
            self._of, self._paths, self._listed = folder, (), 0.0
        if self._busy or (self._listed and time.monotonic() - self._listed < FRESH_SECONDS):
            return
        self._busy = True
        threading.Thread(target=self._list, args=(folder,), name="files", daemon=True).start()

    def _list(self, folder: Path) -> None:
        paths = _list(folder)
        if folder == self._of:
            self._alike = frozenset(path.text for path in paths if path.alike)
            self._paths, self._listed = paths, time.monotonic()
        self._busy = False
        self._changed()


def at_source(index: FileIndex, folder: Callable[[], Path]) -> Source:
    """Offer files for a word that begins with `@`; a path that leaves the project is completed by its beginning."""

    def offer(text: str) -> Offer:
        match = _AT.search(text[-_LOOK_BACK:])
        if match is None:
            return NOTHING
        word = match[1].removeprefix('"')
        start = len(text) - len(match[0])
        if word.startswith(("/", "~", "../")):
            return Offer(start, _items(listed(word, folder()), lambda path: f"@{_quoted(seen(path))}"))
        paths = index.match(word.removeprefix("./"))
        if index.loading:
            return Offer(start, (Item("(listing files)", "", f"@{word}"),), after="")
        return Offer(start, tuple(Item(path, index.about(path), f"@{_quoted(_apart(path))}") for path in paths))

    return offer


def path_source(folder: Callable[[], Path], text: str) -> Source:
    """Offer the paths that begin with the last word of `text`, as long as only that word changes."""
    match = _WORD.search(text[-_LOOK_BACK:])
    word = match[1] if match is not None else ""
    begin, kept = len(text) - len(word), text[: len(text) - len(word)]
    sign = "@" if word.startswith("@") else ""
    for_shell = user_command(text) is not None

    def write(path: str) -> str:
        return _for_shell(path) if for_shell else sign + _quoted(seen(path))

    def offer(now: str) -> Offer:
        typed = now[begin:].removeprefix(sign).removeprefix('"')
        if not now.startswith(kept) or (" " in typed and '"' not in now[begin:]):
            return NOTHING
        items = _items(listed(_BYTES.sub(_from_bytes, typed), folder()), write)
        return Offer(begin, items) if items else NOTHING

    return offer


def listed(beginning: str, folder: Path, most: int = 500) -> tuple[str, ...]:
    """Return the paths that begin like this or are seen so, a folder with a slash at its end; hidden ones only where
    asked for."""
    head, _, name = beginning.rpartition("/")
    place = f"{head}/" if "/" in beginning else ""
    try:
        inside = existing(folder / os.path.expanduser(place))  # noqa: PTH111 - Path's raises for ~nobody
        with os.scandir(inside) as entries:
            found = [(entry.name, is_folder(entry)) for entry in entries if _begins(entry.name, name)]
    except (OSError, ValueError):
        return ()
    shown = sorted(entry for entry in found if name.startswith(".") or not entry[0].startswith("."))
    ended = (f"{entry}{'/' if slash else ''}" for entry, slash in shown[:most])
    return tuple(f"{place}{entry}" if place else _apart(entry) for entry in ended)


def _apart(path: str) -> str:
    """Tell a name that begins with `~` from a home folder."""
    return f"./{path}" if path.startswith("~") else path


def _begins(entry: str, name: str) -> bool:
    return entry.startswith(name) or seen(entry).startswith(name)


def _items(paths: Sequence[str], write: Callable[[str], str]) -> tuple[Item, ...]:
    """Make items of paths, one for those that would be written alike."""
    written: dict[str, Item] = {}
    for path in paths:
        insert = write(path)
        written[insert] = Item(seen(path), _ALIKE if insert in written else "", insert)
    return tuple(written.values())


def common_beginning(offer: Offer) -> str:
    """Return what all items would insert."""
    first, last = (choose(item.insert for item in offer.items) for choose in (min, max))
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return _CUT_BYTES.sub("", first[:length])


def _quoted(path: str) -> str:
    if " " not in path:
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'


def _for_shell(path: str) -> str:
    """Write a path for the shell, so that it is seen and nothing in it is obeyed."""
    if is_seen(path) and _BARE.fullmatch(path):
        return path
    if is_seen(path) and _IN_QUOTES.fullmatch(path):
        return f'"{path}' if path.endswith("/") else f'"{path}"'
    return "".join(char if _BARE.fullmatch(char) and is_seen(char) else _as_bytes(char) for char in path).replace(
        "'$'", ""
    )


def _as_bytes(char: str) -> str:
    return "$'" + "".join(f"\\x{byte:02x}" for byte in os.fsencode(char)) + "'"


def _from_bytes(written: re.Match[str]) -> str:
    return os.fsdecode(bytes.fromhex(written[1].replace("\\x", "")))


def _list(folder: Path) -> tuple[_Path, ...]:
    files = _from_git(folder)
    if files is None:
        until = time.monotonic() + LIST_SECONDS
        found = walk(folder, lambda: time.monotonic() > until)
        names = _first(f"{path}/" if is_folder else path for path, is_folder in found)
    else:
        names = _with_folders(_first(files))
    return _seen_paths(folder, names)


def _seen_paths(folder: Path, names: Sequence[str]) -> tuple[_Path, ...]:
    paths: dict[str, _Path] = {}
    for name in names:
        text = seen(name)
        twin = text in paths or (text != name and os.path.lexists(folder / text))
        paths[text] = _Path(text, text.lower(), text.rstrip("/").rfind("/") + 1, twin)
    return tuple(paths.values())


def _first(names: Iterable[str]) -> list[str]:
    taken: list[str] = []
    for name in names:
        taken.append(name)
        if len(taken) == MOST_FILES:
            break
    return taken


def _from_git(folder: Path) -> list[str] | None:
    """Ask git, which is fast in big repositories; None where there is no git or no repository.

    The settings of a repository are its author's: those that would run something are switched off.
    """
    git = program(os.environ, "git")
    if git is None:
        return None
    command = [
        git,
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.sshCommand=false",
        "-c",
        "protocol.allow=never",
        "-C",
        str(folder),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIST_SECONDS,
            check=False,
            env={**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout).split("\0")[:-1] if done.returncode == 0 else None


def _with_folders(files: list[str]) -> list[str]:
    names: dict[str, None] = {}
    for file in files:
        at = file.find("/")
        while at >= 0:
            names.setdefault(file[: at + 1])
            at = file.find("/", at + 1)
        names[file] = None
    return sorted(names)
