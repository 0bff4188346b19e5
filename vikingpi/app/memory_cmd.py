"""`vpi memory`: look at and change what is remembered, from the shell."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from vikingpi.app.arguments import unknown_word
from vikingpi.app.memory import open_memory
from vikingpi.app.options import RunOptions, Store
from vikingpi.app.secrets import make_redactor, mask_of
from vikingpi.app.stores import peer_for
from vikingpi.app.wiring import prepare
from vikingpi.debuglog import open_log
from vikingpi.errors import ConfigError, StoreRejected
from vikingpi.memory.texts import deleted_line, hit_lines, node_line
from vikingpi.net import HttpTransport
from vikingpi.safetext import plain
from vikingpi.values import NamedTuple
from vikingpi.viking.base import CATEGORIES, Level, MemoryStore, Node
from vikingpi.viking.embedded import StoreFile

MEMORY_WORDS = ("add", "forget", "list", "search", "show")
USAGE = """\
vpi memory list [ADDRESS]                         list all memories, or what is in a folder
vpi memory search WORDS...                        search memories, resources and past sessions
vpi memory show ADDRESS                           print one entry
vpi memory add [--category NAME] TEXT...          remember a text, or take in a file, a folder or a web address
vpi memory forget ADDRESS...                      delete entries

--project      list, search, show and add for this folder only, as recallPeerScope "actor" does
--text         add what is given as a text, also where a file has that name
--limit N      most results of a search (10)
--level NAME   abstract, overview or full (full)
--store NAME   auto, openviking or embedded
"""
_AS_TEXT = "say --text to remember it as a text"
_RESOURCES = "viking://resources"
_MOST_LISTED = 500
_DEPTH = 4


class Asked(NamedTuple):
    """What the command line asks for."""

    word: str
    rest: tuple[str, ...]
    category: str = "entities"
    level: Level = "full"
    limit: int = 10
    project: bool = False
    text: bool = False
    store: Store | None = None


class Desk(NamedTuple):
    """What each word works on."""

    store: MemoryStore
    kind: str
    peer: str
    writer: str
    out: TextIO

    def write(self, text: str) -> None:
        self.out.write(f"{plain(text)}\n")


def run_memory(rest: Sequence[str], env: Mapping[str, str], cwd: Path, out: TextIO) -> int:
    """Do what is asked; ConfigError for what is wrong with the words, StoreError when the store refuses."""
    if not rest or "--help" in rest or "-h" in rest:
        out.write(USAGE)
        return 0
    asyncio.run(_run(read_words(rest), env, cwd, out))
    return 0


def read_words(rest: Sequence[str]) -> Asked:
    """Read the command line of `vpi memory`."""
    asked, words = Asked("", ()), list[str]()
    left = list(rest)
    while left:
        word = left.pop(0)
        if word == "--":
            words += left
            break
        if not word.startswith("--"):
            words.append(word)
            continue
        name, given, value = word.partition("=")
        if name == "--project":
            asked = asked._replace(project=True)
            continue
        if name == "--text":
            asked = asked._replace(text=True)
            continue
        if not given and not left:
            raise _wrong(f"{name} needs a value")
        asked = _with_flag(asked, name, value if given else left.pop(0))
    if not words:
        raise _wrong("vpi memory needs a word")
    if words[0] not in MEMORY_WORDS:
        raise unknown_word(("memory", *words), MEMORY_WORDS)
    if words[0] != "add" and not all(map(str.strip, words[1:])):
        raise _wrong(f"{words[0]} was given an empty word")
    return asked._replace(word=words[0], rest=tuple(words[1:]))


def _with_flag(asked: Asked, name: str, value: str) -> Asked:
    match name, value:
        case "--category", _ if value in CATEGORIES:
            return asked._replace(category=value)
        case "--level", "abstract" | "overview" | "full":
            return asked._replace(level=value)
        case "--limit", _ if value.isdecimal() and 0 < int(value) <= 1000:
            return asked._replace(limit=int(value))
        case "--store", "auto" | "openviking" | "embedded":
            return asked._replace(store=value)
        case ("--category", _):
            raise ConfigError(f"there is no category {value[:60]!r}", hint=f"categories are {', '.join(CATEGORIES)}")
        case (("--level" | "--limit" | "--store"), _):
            raise _wrong(f"{name} cannot be {value!r}")
        case _:
            raise _wrong(f"unknown option {name}")


async def _run(asked: Asked, env: Mapping[str, str], cwd: Path, out: TextIO) -> None:
    prepared = prepare(RunOptions(store=asked.store), env, cwd)
    settings, paths = prepared.settings, prepared.paths
    if prepared.store.kind == "off":
        raise ConfigError("the context store is off", hint="choose one with --store embedded or --store openviking")
    given = (settings.openviking.api_key,)
    redactor = make_redactor(settings, paths, prepared.catalog, env, given, keep=True)
    log, _ = open_log(env, lambda record: redactor.mask_json(record)[0])
    mask = mask_of(redactor, settings)
    peer = peer_for(redactor, settings, cwd, env)
    only_peer = bool(peer) and (asked.project or settings.recall_peer_scope == "actor")
    file, transport = StoreFile(paths.store_db), HttpTransport()
    try:
        store, writer = open_memory(
            prepared.store.endpoint, file, paths, transport, log, mask, peer=peer, only_peer=only_peer
        )
        await _ACTS[asked.word](Desk(store, prepared.store.kind, peer if only_peer else "", writer, out), asked)
    finally:
        for notice in file.notices:
            sys.stderr.write(f"{plain(notice)}\n")
        await file.close()
        await transport.close()


async def _list(desk: Desk, asked: Asked) -> None:
    if len(asked.rest) > 1:
        raise _wrong("list takes one address")
    if asked.rest:
        nodes = await desk.store.list(asked.rest[0], peer=desk.peer)
        for node in nodes:
            desk.write(node_line(node))
        if not nodes:
            desk.write("nothing is in there")
        return
    roots = ["viking://~/memories"]
    roots += [f"viking://~/peers/{desk.peer}/memories"] if desk.peer else []
    folders, shown = [(root, 0) for root in roots], 0
    while folders and shown < _MOST_LISTED:
        folder, depth = folders.pop(0)
        for node in await _entries(desk, folder):
            if node.folder and depth < _DEPTH:
                folders.append((node.uri, depth + 1))
            elif not node.folder:
                shown += 1
                desk.write(node_line(node))
    if not shown:
        desk.write("nothing is remembered yet")
    if resources := len(await _entries(desk, _RESOURCES)):
        desk.write(f"and {resources} resource{'' if resources == 1 else 's'}: vpi memory list {_RESOURCES}")


async def _entries(desk: Desk, folder: str) -> tuple[Node, ...]:
    """List a folder, nothing where it was never made."""
    try:
        return await desk.store.list(folder, peer=desk.peer)
    except StoreRejected as error:
        if error.status != 404:
            raise
        return ()


async def _search(desk: Desk, asked: Asked) -> None:
    if not asked.rest:
        raise _wrong("search needs words")
    hits = await desk.store.find(" ".join(asked.rest), limit=asked.limit, peer=desk.peer)
    for line in hit_lines(hits):
        desk.write(line)
    if not hits:
        desk.write("nothing was found")


async def _show(desk: Desk, asked: Asked) -> None:
    if len(asked.rest) != 1:
        raise _wrong("show needs one address")
    desk.write(await desk.store.read(asked.rest[0], asked.level, peer=desk.peer))


async def _add(desk: Desk, asked: Asked) -> None:
    text = " ".join(asked.rest).strip()
    if not text:
        raise _wrong("add needs a text")
    if len(asked.rest) == 1 and not asked.text and _is_place(text):
        written = await desk.store.add_resource(text)
    else:
        written = await desk.store.write(text, asked.category, peer=desk.writer)
    desk.write(f"{written.note}: {written.uri}" if written.uri else written.note)


async def _forget(desk: Desk, asked: Asked) -> None:
    if not asked.rest:
        raise _wrong("forget needs an address")
    for uri in asked.rest:
        said = deleted_line(uri, await desk.store.delete(uri), desk.kind)
        desk.write(said[:1].lower() + said[1:])


_ACTS: dict[str, Callable[[Desk, Asked], Awaitable[None]]] = {
    "add": _add,
    "forget": _forget,
    "list": _list,
    "search": _search,
    "show": _show,
}


def _is_place(text: str) -> bool:
    """Whether this is a web address or an existing path; ConfigError for an address or a path that is neither."""
    if text.startswith(("http://", "https://")):
        return True
    spaced = any(map(str.isspace, text))
    scheme, address, _ = text.partition("://")
    if address and not spaced and scheme.replace("+", "").isalnum():
        raise ConfigError(f"{text} cannot be taken in", hint=f"give a path, an http or https address, or {_AS_TEXT}")
    try:
        if Path(text).expanduser().exists():
            return True
    except (OSError, RuntimeError, ValueError):
        # Too long for a path, or of a user that is not there.
        return False
    if not spaced and text.startswith(("/", "./", "../", "~/")):
        raise ConfigError(f"there is no {text}", hint=_AS_TEXT)
    return False


def _wrong(text: str) -> ConfigError:
    return ConfigError(text, hint="vpi memory --help lists what can be given")
