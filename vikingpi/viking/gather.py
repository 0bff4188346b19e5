"""Fetch what a user wants to keep: the text of a web address, a file or a folder."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from vikingpi.errors import NetError, StoreRejected, StoreUnreachable
from vikingpi.net import Reply, Transport
from vikingpi.values import NamedTuple
from vikingpi.viking.webtext import readable

PAGE_BYTES = 5 * 1024 * 1024
FILE_BYTES = 1024 * 1024
FOLDER_FILES = 500
FOLDER_BYTES = 10 * 1024 * 1024
FETCH_SECONDS = 30.0

_REDIRECTS = 5
_PAGE_PARTS = 12
_NAMED = 8
_TOO_LARGE = f"over {FILE_BYTES // 1024 // 1024} MB"
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})
_ODD = r"[^\w.-]+"
_regex = cache(re.compile)


class Document(NamedTuple):
    """`name` is its address below `viking://resources/`."""

    name: str
    text: str


class Gathered(NamedTuple):
    """`folder` tells that all of it stands below one folder, which holds nothing else."""

    documents: tuple[Document, ...]
    note: str
    folder: bool = False

    @property
    def top(self) -> str:
        """The name of all of it."""
        first = self.documents[0].name
        return first.partition("/")[0] if self.folder else first


async def gather_page(transport: Transport, url: str) -> Gathered:
    """Fetch a page, following redirects; StoreUnreachable when there is no answer, StoreRejected for what it is."""
    place, reply = url, await _fetch(transport, url)
    for _ in range(_REDIRECTS):
        if reply.status not in (301, 302, 303, 307, 308):
            break
        place = urljoin(place, reply.headers.get("location", ""))
        reply = await _fetch(transport, place)
    if not 200 <= reply.status < 300:
        raise StoreRejected(f"{url[:200]} answered {reply.status}", status=reply.status, code="FETCH_FAILED")
    text = await asyncio.to_thread(readable, reply.body, reply.headers.get("content-type", ""))
    if not text:
        raise _refused(f"{url[:200]} has no text", "pages that are made by scripts cannot be read")
    return Gathered((Document(_page_name(url), text),), f"fetched {len(reply.body)} bytes")


def gather_path(path: Path) -> Gathered:
    """Read a file or the text files of a folder; StoreRejected for what cannot be read."""
    full = Path(os.path.realpath(path.expanduser()))
    # Two of the same name in different places are two resources.
    root = _marked(full.name, str(full))
    if full.is_file():
        text, why = _file_text(full)
        if why:
            hint = "add its parts as files of their own" if why == _TOO_LARGE else "text files can be added"
            raise _refused(f"{path} is {why}", hint)
        return Gathered((Document(root, text),), "read 1 file")
    if not full.is_dir():
        raise StoreRejected(f"{path} does not exist", status=404, code="NOT_FOUND")
    documents: list[Document] = []
    files, left_out = _files(full)
    size = 0
    for file in files:
        many = len(documents) >= FOLDER_FILES or size >= FOLDER_BYTES
        text, why = ("", "too many") if many else _file_text(file)
        parts = file.relative_to(full).parts
        if why:
            left_out.append(f"{'/'.join(parts)} ({why})")
            continue
        size += len(text)
        documents.append(Document("/".join((root, *map(_name, parts))), text))
    note = f"read {len(documents)} file{'' if len(documents) == 1 else 's'}"
    if left_out:
        more = len(left_out) - _NAMED
        note += f", left out {len(left_out)}: {', '.join(left_out[:_NAMED])}" + (
            f" and {more} more" if more > 0 else ""
        )
    if not documents:
        raise _refused(f"{path} holds no text files", note)
    return Gathered(tuple(documents), note, folder=True)


def without_secrets(gathered: Gathered, mask: Callable[[str], str]) -> Gathered:
    """Mask names, texts and what is said of them."""

    def name(part: str) -> str:
        masked = mask(part)
        return part if masked == part else _name(masked)

    documents = (Document("/".join(map(name, one.name.split("/"))), mask(one.text)) for one in gathered.documents)
    return gathered._replace(documents=tuple(documents), note=mask(gathered.note))


def slug(text: str) -> str:
    """Make a name that can stand in an address."""
    return _regex(_ODD).sub("-", text).strip("-.")[:100] or "untitled"


def _name(text: str) -> str:
    """Make a name that no other text has: one that had to change gets a mark."""
    return text if slug(text) == text else _marked(text, text)


def _marked(text: str, whole: str) -> str:
    """Make a name that tells, by a mark in front of its ending, which `whole` it comes from."""
    mark = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    stem, dot, ending = slug(text).rpartition(".")
    return f"{stem}-{mark}.{ending}" if dot and stem else f"{ending}-{mark}"


async def _fetch(transport: Transport, url: str) -> Reply:
    try:
        split = urlsplit(url)
        known = split.scheme in ("http", "https") and bool(split.hostname)
    except ValueError:
        known = False
    if not known:
        raise _refused(f"{url[:200]} is no web address", "only http and https can be fetched")
    headers = {"user-agent": "vpi", "accept": "text/html, text/*, application/json;q=0.9, */*;q=0.1"}
    try:
        return await transport.send("GET", url, headers=headers, timeout=FETCH_SECONDS, limit=PAGE_BYTES)
    except NetError as error:
        raise StoreUnreachable(
            f"{url[:200]} cannot be fetched: {error}", hint=error.hint, may_have_stored=False
        ) from error


def _page_name(url: str) -> str:
    """Name a page by host, path and query, and by the port where it is not that of https."""
    split = urlsplit(url)
    port = split.port or (443 if split.scheme == "https" else 80)
    host = slug(split.hostname or "") + ("" if port == 443 else f"_{port}")
    parts = [part for part in split.path.split("/") if part.strip("./")]
    names = [host, *map(_name, parts[:_PAGE_PARTS])]
    rest = "/".join(parts[_PAGE_PARTS:]) + (f"?{split.query}" if split.query else "")
    return "/".join([*names, _marked(rest, rest)] if rest else names)


def _files(folder: Path) -> tuple[list[Path], list[str]]:
    """Give the files of a folder and, with the reason, what is not looked into."""
    found: list[Path] = []
    left_out: list[str] = []
    for place, folders, names in os.walk(folder):
        for name in sorted([*folders, *names]):
            file = Path(place, name)
            shown = file.relative_to(folder).as_posix()
            if name.startswith("."):
                left_out.append(f"{shown} (hidden)")
            elif file.is_symlink():
                left_out.append(f"{shown} (a link)")
            elif name in names and file.is_file():
                found.append(file)
            elif name in _SKIPPED or name in names:
                left_out.append(f"{shown} ({'no file' if name in names else 'generated'})")
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
    return found, left_out


def _file_text(file: Path) -> tuple[str, str]:
    """Return the text of a file and "", or "" and why there is none."""
    try:
        with file.open("rb") as handle:
            data = handle.read(FILE_BYTES + 1)
    except OSError as error:
        return "", f"unreadable: {error.strerror}"
    if b"\0" in data[:8192]:
        return "", "binary"
    if len(data) > FILE_BYTES:
        return "", _TOO_LARGE
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    return (text, "") if text else ("", "empty")


def _refused(text: str, hint: str) -> StoreRejected:
    return StoreRejected(text, hint=hint, status=415, code="UNSUPPORTED")
