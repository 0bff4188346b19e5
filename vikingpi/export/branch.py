"""The current branch of a session as a session file of its own, in pi's format, with secrets masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.redact import Redactor, count_masks
from vikingpi.session.entries import Entry, encode_line
from vikingpi.session.ids import new_entry_id
from vikingpi.session.reader import VERSION
from vikingpi.session.tree import name_of
from vikingpi.takeover.state import STATE, fingerprint
from vikingpi.values import NamedTuple


class Copied(NamedTuple):
    """`masked` counts the different secrets that are hidden."""

    data: bytes
    masked: int


class Names(NamedTuple):
    """What a session is called and which of its entries have a label, wherever in the file that was said."""

    session: str
    labels: Mapping[str, str]


def copy_branch(header: Json, branch: Sequence[Entry], names: Names, redactor: Redactor | None, time: str) -> Copied:
    """Write the branch, each entry below the one before; name and labels that the branch lacks come at the end.

    `header` has the fields of the first line, `time` is that of the copy (ISO).
    """
    copy = _Copy(redactor, time)
    copy.line({"type": "session", "version": VERSION, "id": header["id"], "timestamp": time, **header})
    for entry in branch:
        if entry.type != "label":
            copy.entry(entry)
    if names.session != name_of(branch):
        copy.append({"type": "session_info", "name": names.session})
    there = {entry.id for entry in branch}
    for target, label in names.labels.items():
        if target in there:
            copy.append({"type": "label", "targetId": target, "label": label})
    data = b"".join(copy.lines)
    return Copied(data, count_masks(data.decode()))


class _Copy:
    """The lines so far. `_prints` has the new fingerprint of each entry that the mask gave another one."""

    def __init__(self, redactor: Redactor | None, time: str) -> None:
        self.lines: list[bytes] = []
        self._redactor = redactor
        self._time = time
        self._parent: str | None = None
        self._prints: dict[str, str] = {}

    def line(self, raw: Json, **fixed: str | None) -> Json:
        """Write a line; `fixed` fields stay as they are."""
        hidden = raw
        if self._redactor is not None:
            hidden = self._redactor.mask_json(raw)[0]
        written = {**hidden, **fixed}
        self.lines.append(encode_line(written))
        return written

    def append(self, raw: Json) -> None:
        """Write a new entry."""
        made = new_entry_id()
        self.line({"timestamp": self._time, **raw}, id=made, parentId=self._parent)
        self._parent = made

    def entry(self, entry: Entry) -> None:
        """Copy an entry. The fingerprint in a takeover state becomes that of its last covered entry as copied."""
        raw, data = entry.raw, as_dict(entry.raw.get("data"))
        if entry.type == "custom" and raw.get("customType") == STATE and data.get("fingerprint") in self._prints:
            raw = {**raw, "data": {**data, "fingerprint": self._prints[as_str(data["fingerprint"])]}}
        copied = entry._replace(raw=self.line(raw, id=entry.id, parentId=self._parent))
        before, after = fingerprint(entry), fingerprint(copied)
        if before != after:
            self._prints[before] = after
        self._parent = entry.id
