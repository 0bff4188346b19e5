"""What is in memory of a session file: all of it, or the end of one branch until somebody asks for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vikingpi.messages import Usage
from vikingpi.session.entries import Entry
from vikingpi.session.leaf import choose_leaf, path_to
from vikingpi.session.tail import Tail
from vikingpi.session.tree import add_usage, name_of, totals_of, usage_of

Rest = Callable[[], Iterable[Entry]]


class Known:
    """`name` is that of the whole file, None while it is not known.

    `skipped` is how many entries of the branch lie before what is in memory, None where nobody has counted them or
    where they have to be there before a context store is used; `start` is the byte at which it begins, `covered`
    says that only a takeover state makes up for what lies before. `notices` is about the way to the root.
    """

    def __init__(self, entries: Iterable[Entry], tail: Tail | None = None, rest: Rest | None = None) -> None:
        self.notices: tuple[str, ...] = ()
        self._entries = list(entries)
        self._by_id = {entry.id: entry for entry in self._entries}
        self._rest = rest if tail is not None else None
        self._whole = tail is None
        self._all: tuple[Entry, ...] | None = None
        self._shown: tuple[Entry, ...] | None = None
        self._branch: list[Entry] = []
        self.skipped: int | None = 0
        self.start = tail.start if tail is not None else 0
        self.covered = tail is not None and tail.covered
        if tail is not None:
            self.skipped, self.name, self._totals = tail.skipped, tail.name, tail.totals
            self._usage = tail.usage
            self._branch = list(self._entries)
            return
        self.name: str | None = name_of(self._entries)
        self._totals: Usage | None = None
        self._usage = Usage()
        leaf, notice = choose_leaf(self._entries, self._by_id)
        self.notices = (notice,) if notice else ()
        self.go(leaf)

    @property
    def leaf_id(self) -> str | None:
        return self._branch[-1].id if self._branch else None

    @property
    def totals(self) -> Usage | None:
        """The usage of the whole file, added up when first asked for; None while it is not known."""
        if self._totals is None and self._whole:
            self._totals = totals_of(self._entries)
        return self._totals

    def add(self, entry: Entry) -> None:
        """Put an entry that was just written below the leaf."""
        self._entries.append(entry)
        self._by_id[entry.id] = entry
        self._branch.append(entry)
        self._all = self._shown = None
        if entry.type == "session_info":
            self.name = name_of((entry,))
        self._usage = add_usage(self._usage, usage_of(entry))
        if self._totals is not None:
            self._totals = add_usage(self._totals, usage_of(entry))

    def all(self) -> tuple[Entry, ...]:
        """Return every entry in file order; SessionError if the rest cannot be read."""
        self.load()
        if self._all is None:
            self._all = tuple(self._entries)
        return self._all

    def branch(self) -> tuple[Entry, ...]:
        """Return what is in memory of the way from the root to the leaf."""
        if self._shown is None:
            self._shown = tuple(self._branch)
        return self._shown

    def get(self, entry_id: str) -> Entry | None:
        """Return an entry of any branch; SessionError if the rest cannot be read."""
        if entry_id not in self._by_id:
            self.load()
        return self._by_id.get(entry_id)

    def path(self, entry_id: str) -> tuple[Entry, ...]:
        """Return root to `entry_id`; SessionError if the rest cannot be read."""
        self.load()
        return tuple(path_to(self._by_id, entry_id)[0])

    def go(self, entry_id: str | None) -> None:
        """Make an entry the leaf."""
        self.load()
        self._branch, notice = path_to(self._by_id, entry_id)
        self._shown = None
        if notice and notice not in self.notices:
            self.notices += (notice,)

    def before(self) -> tuple[Entry, ...]:
        """Read the way from the root to what is in memory, without keeping it; SessionError if it cannot be read.

        Changes nothing and may run beside everything else, in a thread of its own.
        """
        rest, branch = self._rest, self._branch
        if rest is None or not branch:
            return ()
        return tuple(path_to({entry.id: entry for entry in rest()}, branch[0].parent_id)[0])

    def learn(self, name: str | None, usage: Usage) -> None:
        """Take what a scan of everything before the tail has found."""
        if self.totals is None:
            self._totals = add_usage(usage, self._usage)
        if self.name is None:
            self.name = name or ""

    def load(self) -> None:
        """Have everything in memory; SessionError if it cannot be read."""
        if self._rest is None:
            return
        read = list(self._rest())
        self._rest = None
        leaf = self.leaf_id
        there = {entry.id for entry in read}
        self._entries = read + [entry for entry in self._entries if entry.id not in there]
        self._by_id = {entry.id: entry for entry in self._entries}
        self._all = None
        self.skipped, self.covered = 0, False
        self.name = name_of(self._entries)
        self._whole, self._totals = True, None
        self.go(leaf)
