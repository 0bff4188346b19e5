"""What providers' prompt caches would serve of a series of requests. Pure: no I/O, no clock, nothing expires.

Two models. A strict prefix cache knows every prefix it has seen, in blocks of 64 tokens, and counts here only whole
messages. Anthropic's cache knows the prefixes that ended at a mark, looks back from each mark over 20 blocks, and
bills what lies between what it found and the last mark as a write. Tokens are the program's own estimate.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from vikingpi.tokens import estimate

BLOCK = 64
LEAST = 1024
LOOK_BACK = 20

Json = dict[str, Any]


class Piece(NamedTuple):
    """A part of a prompt: all before it and itself as one number, tokens up to its end, whether a mark is on it."""

    chain: int
    end: int
    marked: bool


class Served(NamedTuple):
    """`prefix` is what a strict prefix cache serves of `tokens`; `read` and `written` are Anthropic's."""

    tokens: int
    prefix: int
    read: int
    written: int
    extends: bool


class Caches:
    """Both models over one series; `serve` takes the requests in their order."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._marked: set[int] = set()
        self._before: Piece | None = None

    def serve(self, chat: Iterable[Json], marked: Sequence[tuple[str, bool]], *, apart: bool = False) -> Served:
        """Take a request as chat messages (tools first) and as blocks with marks; `apart` is no turn of the series."""
        pieces = chain_of((_written(message), False) for message in chat)
        end = pieces[-1].end
        known = next((piece.end for piece in reversed(pieces) if piece.chain in self._seen), 0)
        extends = self._before is None or any(piece.chain == self._before.chain for piece in pieces)
        self._seen.update(piece.chain for piece in pieces)
        if not apart:
            self._before = pieces[-1]
        read, written = self._marks(chain_of(marked))
        return Served(end, known - known % BLOCK, read, written, extends)

    def _marks(self, pieces: Sequence[Piece]) -> tuple[int, int]:
        marks = [place for place, piece in enumerate(pieces) if piece.marked and piece.end >= LEAST]
        read = 0
        for place in marks:
            near = pieces[max(0, place - LOOK_BACK) : place + 1]
            read = max([read, *(piece.end for piece in near if piece.chain in self._marked)])
        self._marked.update(pieces[place].chain for place in marks)
        return read, max(0, pieces[marks[-1]].end - read) if marks else 0


def chain_of(texts: Iterable[tuple[str, bool]]) -> list[Piece]:
    """Number the prefixes of a prompt."""
    pieces: list[Piece] = []
    chain, end = 0, 0
    for text, marked in texts:
        chain, end = hash((chain, text)), end + estimate(text)
        pieces.append(Piece(chain, end, marked))
    return pieces


def blocks_of(body: Json) -> list[tuple[str, bool]]:
    """List the blocks of a messages body in the order of the prompt, without their marks but with where these are."""
    blocks: list[tuple[str, Json]] = [("", tool) for tool in body.get("tools", [])]
    blocks += [("", block) for block in body.get("system", [])]
    blocks += [(message["role"], block) for message in body["messages"] for block in message["content"]]
    found: list[tuple[str, bool]] = []
    for role, block in blocks:
        plain = {key: value for key, value in block.items() if key != "cache_control"}
        found.append((role + _written(plain), "cache_control" in block))
    return found


def _written(value: Json) -> str:
    """Write JSON. A long session sends the same texts in each request, so those are written once."""
    try:
        return _once(tuple(value.items()))
    except TypeError:  # what holds more than texts has no hash
        return json.dumps(value, ensure_ascii=False)


@functools.cache
def _once(items: tuple[tuple[str, Any], ...]) -> str:
    return json.dumps(dict(items), ensure_ascii=False)
