"""Fetch what a user wants to keep: the text of a web address, a file or a folder."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from vikingpi.errors import NetError, StoreRejected, StoreUnreachable
from vikingpi.net import Reply, Transport
from vikingpi.viking.webtext import readable

PAGE_BYTES = 5 * 1024 * 1024
FILE_BYTES = 1024 * 1024
FOLDER_FILES = 500
FOLDER_BYTES = 10 * 1024 * 1024
FETCH_SECONDS = 30.0

_REDIRECTS = 5
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})
_ODD = r"[^\w.-]+"
_compiled = cache(re.compile)


class Document(NamedTuple):
    """`name` is its address below `viking://resources/`."""

    name: str
    text: str


class Gathered(NamedTuple):
    documents: tuple[Document, ...]
    note: str


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
    split = urlsplit(url)
    name = "/".join(filter(None, (slug(split.hostname or ""), _path_name(split.path, split.query))))
    return Gathered((Document(name, text),), f"fetched {len(reply.body)} bytes")


def gather_path(path: Path) -> Gathered:
    """Read a file or the text files of a folder; StoreRejected for what cannot be read."""
    full = Path(os.path.realpath(path.expanduser()))
    if full.is_file():
        text = _file_text(full)
        if text is None:
            raise _refused(f"{path} is no text file of at most {FILE_BYTES // 1024} KB", "add text files only")
        return Gathered((Document(slug(full.name), text),), "read 1 file")
    if not full.is_dir():
        raise StoreRejected(f"{path} does not exist", status=404, code="NOT_FOUND")
    documents: list[Document] = []
    skipped = size = 0
    for file in _files(full):
        text = _file_text(file) if len(documents) < FOLDER_FILES and size < FOLDER_BYTES else None
        if text is None:
            skipped += 1
            continue
        size += len(text)
        names = (full.name, *file.relative_to(full).parts)
        documents.append(Document("/".join(map(slug, names)), text))
    if not documents:
        raise _refused(f"{path} holds no text files", "hidden and generated folders are left out")
    note = f"read {len(documents)} files"
    return Gathered(
        tuple(documents), f"{note}, left out {skipped} (binary, empty, too large or too many)" if skipped else note
    )


def without_secrets(gathered: Gathered, mask: Callable[[str], str]) -> Gathered:
    """Mask names and texts."""
    return gathered._replace(
        documents=tuple(
            Document("/".join(slug(mask(part)) for part in one.name.split("/")), mask(one.text))
            for one in gathered.documents
        )
    )


def slug(text: str) -> str:
    """Make a name that can stand in an address."""
    return _compiled(_ODD).sub("-", text).strip("-.")[:100] or "untitled"


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


def _path_name(path: str, query: str) -> str:
    parts = [slug(part) for part in path.split("/") if part.strip("./")]
    if query:
        parts.append(slug(query))
    return "/".join(parts[:12])


def _files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        here = (Path(place, name) for name in sorted(names) if not name.startswith("."))
        found += [file for file in here if file.is_file() and not file.is_symlink()]
    return found


def _file_text(file: Path) -> str | None:
    """Return the text of a file; None for a binary, empty, too large or unreadable one."""
    try:
        with file.open("rb") as handle:
            data = handle.read(FILE_BYTES + 1)
    except OSError:
        return None
    if len(data) > FILE_BYTES or b"\0" in data[:8192]:
        return None
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    return text or None


def _refused(text: str, hint: str) -> StoreRejected:
    return StoreRejected(text, hint=hint, status=415, code="UNSUPPORTED")
