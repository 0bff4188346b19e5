"""The memory of one run: where it is kept and whose it is."""

from __future__ import annotations

from collections.abc import Callable

from vikingpi.values import NamedTuple
from vikingpi.viking.base import MemoryStore


class Memory(NamedTuple):
    """`peer` limits what is found to one project, "" takes all; `writer` is whose a new memory becomes.

    `mask` hides secrets. `resting` says that the store did not answer lately and is not to be asked for a prompt.
    """

    store: MemoryStore
    peer: str
    writer: str
    mask: Callable[[str], str]
    resting: Callable[[], bool]
