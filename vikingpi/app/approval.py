"""Approval: which tool calls wait for the user's yes, and which never run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from vikingpi.agent.hooks import AgentHooks, Block, HookContext, PromptPatch
from vikingpi.commands.chooser import Asker, Option
from vikingpi.config.model import APPROVAL_MODES as MODES
from vikingpi.config.model import ApprovalMode as Mode
from vikingpi.decode import Json, as_dict, as_list, as_str
from vikingpi.errors import ToolError
from vikingpi.events import Notice
from vikingpi.messages import ToolCall, UserMessage
from vikingpi.regular import read_regular
from vikingpi.safetext import literal
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog
from vikingpi.session.tree import records, state_data
from vikingpi.tools.diff import compare, lines_of, numbered
from vikingpi.tools.paths import meant
from vikingpi.values import NamedTuple

TYPE = "vpi-approval"
_STRICTNESS: tuple[Mode, ...] = ("off", "edits", "ask", "read-only")
READING = frozenset(
    ("read", "grep", "find", "ls", "viking_search", "viking_read", "viking_browse", "viking_archive_expand")
)
RUN_LATER = frozenset((".git", ".vpi", ".envrc"))
EDITING = frozenset(("edit", "write"))
NOBODY = (
    "This call needs the user's approval and there is no terminal to ask on, so it did not run."
    " Do what can be done without it, and say what is left."
)
READ_ONLY = "This session is read-only: nothing that changes anything may run. Say what you would do instead."
LARGEST = 400_000
_ANSWERS = (Option("yes", "yes"), Option("always", "yes, and do not ask again"), Option("no", "no"))
_WHY = Option("why", "no, and say why")


class Remembered(NamedTuple):
    """A mode as a branch remembers it; `seal` tells whether vpi wrote it here."""

    mode: Mode
    seal: str


def mode_on(branch: Sequence[Entry]) -> Remembered | None:
    """Return the mode that a branch remembers; None where none was ever chosen."""
    for _, entry in reversed(records(branch)):
        if entry.type != "custom":
            continue
        own = entry.raw.get("customType") == TYPE
        data = as_dict(entry.raw.get("data")) if own else state_data(entry)
        word = data.get("mode" if own else "approval")
        if word in MODES:
            return Remembered(MODES[MODES.index(word)], as_str(data.get("seal" if own else "approvalSeal")))
    return None


class Approval(AgentHooks):
    """Decides about each call. A fault in asking is a no: this hook never lets a call through by accident.

    `setting` is the mode of a session that remembers none. What a session remembers without the mark of `seal` can
    only make it stricter: the file may be a stranger's.
    """

    def __init__(
        self,
        given: Mode | None,
        setting: Mode,
        asker: Callable[[], Asker | None],
        seal: Callable[[str], str],
    ) -> None:
        self._given: Mode | None = given
        self.setting: Mode = setting
        self._cwd = Path()
        self._asker = asker
        self._seal = seal
        self._mode: Mode = given if given is not None else setting
        self._session: SessionLog | None = None
        self._allowed: set[str] = set()
        self._told = False

    @property
    def mode(self) -> Mode:
        return self._mode

    def attach(self, session: SessionLog, cwd: Path, *, keep: bool) -> None:
        """Take over a session that was opened; `keep` the mode in use instead of what it remembers."""
        self._session, self._cwd = session, cwd
        self._allowed.clear()
        if not keep:
            self._mode = self._given or self._on(session)

    def choose(self, mode: Mode) -> None:
        """Use a mode from the next call on; the session remembers it."""
        self._mode = mode
        self._given = None
        if self._session is not None and not self._session.moved:
            self._remember(self._session)

    async def before_agent_start(self, ctx: HookContext, prompt: UserMessage) -> PromptPatch | None:
        if self._session is not None:
            self._remember(self._session)
        return None

    async def tool_call(self, ctx: HookContext, call: ToolCall) -> Block | None:
        try:
            return await self._judge(ctx, call)
        except Exception as error:  # noqa: BLE001 - whatever breaks, the model is told that the user was not asked
            return Block(f"This call was not approved: asking the user failed ({type(error).__name__}: {error}).")

    async def _judge(self, ctx: HookContext, call: ToolCall) -> Block | None:
        if self._mode == "off" or call.name in READING:
            return None
        if self._mode == "read-only":
            return Block(READ_ONLY)
        if self._mode == "edits" and call.name in EDITING and self._within(call):
            return None
        if _key(call) in self._allowed:
            return None
        asker = self._asker()
        if asker is None:
            if not self._told:
                self._told = True
                hint = "--approve off lets everything run, --approve edits files in this folder"
                ctx.emit(Notice(f"nobody can be asked: {call.name} did not run", "warning", hint))
            return Block(NOBODY)
        return await self._ask(asker, call)

    async def _ask(self, asker: Asker, call: ToolCall) -> Block | None:
        question, body = question_of(call, self._cwd)
        answer = await asker.confirm(question, body, (*_ANSWERS, _WHY))
        if answer == "always":
            if call.name in EDITING and self._within(call):
                self.choose("edits")
            else:
                self._allowed.add(_key(call))
        if answer in ("yes", "always"):
            return None
        why = await asker.text("Why not? The model reads it.") if answer == "why" else None
        return Block(f"The user refused this call: {why}" if why else "The user refused this call.")

    def _within(self, call: ToolCall) -> bool:
        """Tell whether a file lies in the folder of the session, links followed, and is not what others will run."""
        place, here = Path(os.path.realpath(_target(call, self._cwd))), os.path.realpath(self._cwd)
        return place.is_relative_to(here) and not RUN_LATER.intersection(place.relative_to(here).parts)

    def _on(self, session: SessionLog) -> Mode:
        found = mode_on(session.branch())
        if found is None:
            return self.setting
        if found.seal == self._seal(f"approval {found.mode}"):
            return found.mode
        return _STRICTNESS[max(map(_STRICTNESS.index, (found.mode, self.setting)))]

    def _remember(self, session: SessionLog) -> None:
        if self._on(session) != self._mode:
            session.append_custom(TYPE, {"mode": self._mode, "seal": self._seal(f"approval {self._mode}")})


def question_of(call: ToolCall, cwd: Path) -> tuple[str, str]:
    """Return what is asked about a call and what is shown for it: the command, the changes, the arguments."""
    if call.name == "bash":
        return "Run this command?", literal(as_str(call.arguments.get("command")))
    if call.name in EDITING:
        name = as_str(call.arguments.get("path"))
        return f"{call.name} {literal(name)}?", changes_of(call, _target(call, cwd))
    lines = [f"{key}: {value if isinstance(value, str) else repr(value)}" for key, value in call.arguments.items()]
    return f"Run {call.name}?", literal("\n".join(lines))


def changes_of(call: ToolCall, path: Path) -> str:
    """Return what a call would change, as a diff with numbered lines where the file can be read."""
    pairs = _edits(call.arguments)
    before = _text(path)
    if call.name == "write":
        after = as_str(call.arguments.get("content"))
    else:
        after = before
        for old, new in pairs:
            if after.count(old) != 1:
                return "\n".join(_bare(pairs))
            after = after.replace(old, new)
    old_lines, new_lines = lines_of(before), lines_of(after)
    return numbered(old_lines, new_lines, compare(old_lines, new_lines)).rstrip("\n")


def _edits(arguments: Json) -> list[tuple[str, str]]:
    items = [as_dict(item) for item in as_list(arguments.get("edits"))] or [arguments]
    return [(as_str(item.get("oldText")), as_str(item.get("newText"))) for item in items]


def _bare(pairs: Sequence[tuple[str, str]]) -> list[str]:
    lines: list[str] = []
    for old, new in pairs:
        lines += [f"-{line}" for line in old.split("\n")]
        lines += [f"+{line}" for line in new.split("\n")]
    return lines


def _text(path: Path) -> str:
    try:
        data = read_regular(path, LARGEST + 1)
    except OSError:
        return ""
    return data.decode("utf-8", "replace") if len(data) <= LARGEST else ""


def _target(call: ToolCall, cwd: Path) -> Path:
    name = as_str(call.arguments.get("path"))
    try:
        return meant(name, cwd, new=call.name == "write")
    except ToolError:  # nor will the tool know a file by this name
        return cwd / name


def _key(call: ToolCall) -> str:
    return f"{call.name} {sorted(call.arguments.items(), key=lambda pair: pair[0])!r}"
