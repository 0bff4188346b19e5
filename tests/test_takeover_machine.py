"""Random schedules over one session: faults, kills between any two effects, branch moves, other programs."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from hypothesis import HealthCheck, given, settings, strategies

from tests.takeover_kit import Clock, Fault, Outcome, Process, SimServer, SimStore, process
from tests.takeover_kit import settings as small_settings
from vikingpi.agent.hooks import CompactionPrep
from vikingpi.messages import Message, ToolCall
from vikingpi.session.file import memory_session
from vikingpi.takeover.capture import units
from vikingpi.takeover.state import entry_text, is_message, is_off, is_user, off_entries
from vikingpi.viking.ledger import Ledger

FAULTS: tuple[Fault, ...] = ("lost", "refused", "gateway", "gateway-lost")
OUTCOMES: tuple[Outcome, ...] = ("good", "good", "good", "failed", "blank", "placeholder")
WAITS = (1, 5, 30, 36, 41, 61, 130)


class Killed(BaseException):
    """The process is gone between two effects."""


class Mortal:
    """Counts effects and kills at the chosen one."""

    def __init__(self) -> None:
        self.left = -1

    def tick(self) -> None:
        if self.left == 0:
            self.left = -1
            raise Killed
        self.left -= 1 if self.left > 0 else 0

    def wrap(self, target: object) -> Any:
        return _Proxy(target, self.tick)


class _Proxy:
    def __init__(self, target: object, tick: Callable[[], None]) -> None:
        self._target = target
        self._tick = tick

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found) or name == "transaction":
            return found

        def call(*args: object, **options: object) -> object:
            self._tick()
            return found(*args, **options)

        return call


class MortalStore(SimStore):
    """A write may be cut off before it was made, or after it with the answer lost."""

    def __init__(self, server: SimServer, mortal: Mortal) -> None:
        super().__init__(server)
        self._mortal = mortal

    def _reach(self, call: str) -> None:
        self._mortal.tick()
        super()._reach(call)

    def _write(self, effect: Callable[[], None]) -> None:
        self._mortal.tick()
        super()._write(effect)
        self._mortal.tick()


class World:
    """One session file, one server, one ledger; a process that dies and is started again."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.server = SimServer()
        self.server.instant = None
        self.mortal = Mortal()
        self.store = MortalStore(self.server, self.mortal)
        self.clock = Clock()
        self.session = memory_session("/work")
        self.config = small_settings(threshold=24, keep=keep)
        self.words = itertools.count(1)
        self.ledgers = itertools.count(1)
        self.ledger_at = folder / "0"
        self.vpi: Process | None = None
        self.seen: tuple[int, str, list[str]] | None = None
        self.off_texts: set[str] = set()

    def process(self) -> Process:
        if self.vpi is None:
            self.vpi = process(self.ledger_at, self.store, session=self.session, clock=self.clock, config=self.config)
            book, wrap = self.vpi.ledger, self.mortal.wrap
            mortal = book._replace(
                stores=wrap(book.stores),
                generations=wrap(book.generations),
                messages=wrap(book.messages),
                commits=wrap(book.commits),
            )
            self.vpi.engine.link.ledger = cast(Ledger, mortal)
            self.seen = None
        return self.vpi

    def kill(self) -> None:
        self.mortal.left = -1
        if self.vpi is not None:
            self.vpi.ledger.database.close()
            self.vpi = None
        self.session.fresh = self.session.fresh and not self.session.entries

    async def run(self, work: Coroutine[Any, Any, object], kill_at: int = -1) -> None:
        self.mortal.left = kill_at
        try:
            await work
        except Killed:
            self.kill()
        self.mortal.left = -1

    def word(self) -> str:
        text = f"W{next(self.words)}w"
        if is_off(self.session.branch()):
            self.off_texts.add(text)
        return text

    async def turn(self, shape: int, kill_at: int = -1) -> None:
        vpi = self.process()
        vpi.user(f"{self.word()} {'x' * 40}")
        if shape == 1:
            call = ToolCall(f"c{next(self.words)}", "bash", {"command": "ls"})
            vpi.answer("", [call])
            if kill_at == 0:
                return self.kill()
            vpi.result(call, f"{self.word()} {'y' * 20}")
            await self.run(vpi.end_turn(last=False), kill_at)
            if self.vpi is None:
                return None
        vpi.answer(self.word() if shape != 2 else "")
        await self.run(vpi.end_turn(), kill_at)
        return None

    async def compact(self, kill_at: int = -1) -> None:
        vpi = self.process()
        branch = self.session.branch()
        users = [i for i, entry in enumerate(branch) if is_user(entry)]
        first = vpi.engine.mirror.view().first
        if len(users) < 2 or users[-1] <= first:
            return

        async def work() -> None:
            kept = branch[users[-1]].id
            got = await vpi.hooks.session_before_compact(vpi.ctx, CompactionPrep(kept, 1, "manual"))
            path = self.session.branch()
            shown = vpi.engine.mirror.view()
            place = next(i for i, entry in enumerate(path) if entry.id == kept)
            if place < shown.first:
                return
            said = [entry_text(e) for e in path[shown.first : place] if is_message(e)]
            summary = got.summary if got is not None else "\n".join([shown.summary, *said])
            self.session.append(
                "compaction",
                {"summary": summary, "firstKeptEntryId": kept, "tokensBefore": 1, "fromHook": got is not None},
            )
            self.mortal.tick()
            await vpi.hooks.session_compact(vpi.ctx, self.session.branch()[-1].id)

        await self.run(work(), kill_at)

    def tree(self, back: int) -> None:
        messages = [entry for entry in self.session.entries if is_message(entry)]
        if messages and not is_off(self.session.branch()):
            self.session.move_leaf(messages[-1 - back % len(messages)].id)
            self.seen = None

    def names(self) -> list[str]:
        return sorted(self.server.sessions)

    async def op(self, name: str, k: int) -> None:
        vpi_names = self.names()
        match name:
            case "turn":
                await self.turn(k % 3)
            case "turn_kill":
                await self.turn(1, k % 9)
            case "work":
                await self.run(self.process().work())
            case "work_kill":
                await self.run(self.process().work(), k)
            case "compact":
                await self.compact()
            case "compact_kill":
                await self.compact(k)
            case "phase" if vpi_names:
                self.server.finish(vpi_names[k % len(vpi_names)], OUTCOMES[k % len(OUTCOMES)])
            case "tick":
                self.clock.ms += WAITS[k % len(WAITS)] * 1000
            case "fault":
                self.store.faults = [FAULTS[k % len(FAULTS)]]
            case "down":
                self.store.up = not self.store.up
            case "kill":
                self.kill()
            case "exit":
                await self.run(self.leave())
                self.kill()
            case "tree":
                self.tree(k)
                await self.turn(0)
            case "off" if self.session.entries:
                vpi = self.process()
                if is_off(self.session.branch()) == bool(k % 2):
                    vpi.engine.mirror.capture()
                    vpi.ctx.append_custom("ov-off", {"on": bool(k % 2)})
            case "foreign_commit" if vpi_names:
                archive = self.server.commit(vpi_names[k % len(vpi_names)], k % 3, "foreign")
                if archive is not None and k & 4:
                    archive.by = "no-memory"
            case "delete" if vpi_names:
                del self.server.sessions[vpi_names[k % len(vpi_names)]]
            case "lose_ledger":
                self.kill()
                self.clock.ms += 100_000
                self.ledger_at = self.folder / str(next(self.ledgers))
            case _:
                return

    async def leave(self) -> None:
        vpi = self.process()
        await vpi.hooks.session_shutdown(vpi.ctx, "signal")

    def check(self) -> None:
        for name, session in self.server.sessions.items():
            pending = [a for a in session.archives if a.by == "vpi" and a.state == "pending"]
            assert len(pending) <= 1, f"{len(pending)} open commits in {name}"
            said = "\n".join(str(m.parts) for m in self._messages(name))
            assert not any(text in said for text in self.off_texts), "said while off, and stored"
        self._check_covered()
        self._check_prefix()

    def _messages(self, name: str) -> list[Any]:
        session = self.server.sessions[name]
        return [m for a in session.archives for m in a.messages] + session.live

    def _check_covered(self) -> None:
        vpi = self.process()
        branch, shown = self.session.branch(), vpi.engine.mirror.view()
        for entry in branch[: shown.first]:
            words = [word for word in entry_text(entry).split() if word.startswith("W")] if is_message(entry) else []
            for word in words:
                assert word in shown.summary, f"{word} is neither kept nor in the overview"

    def _check_prefix(self) -> None:
        vpi = self.process()
        shown = vpi.engine.mirror.view()
        now = [_line(message) for message in vpi.request()]
        if self.seen is not None and self.seen[:2] == (shown.first, shown.summary):
            before = self.seen[2]
            assert now[: len(before)] == before, "the request changed without a move of the boundary"
        self.seen = (shown.first, shown.summary, now)

    async def finish(self) -> None:
        """Everything works and time passes: nothing is missing, nothing is twice, the boundary advances."""
        self.store.up, self.store.faults = True, []
        if self.session.entries and is_off(self.session.branch()):
            self.process().ctx.append_custom("ov-off", {"on": True})
        first = -1
        for _ in range(14):
            await self.turn(0)
            for _ in range(2):
                await self.run(self.process().work())
                for name in self.names():
                    while self.server.finish(name, "good"):
                        pass
                self.clock.ms += 81_000
            await self.run(self.process().work())
            self.check()
            first = self.process().engine.mirror.view().first if first < 0 else first
        vpi = self.process()
        self._check_stored(vpi)
        if not [i for i in off_entries(self.session.branch()) if is_message(self.session.branch()[i])]:
            assert vpi.engine.mirror.view().first > first, "the boundary does not advance"

    def _check_stored(self, vpi: Process) -> None:
        generation = vpi.engine.mirror.generation()
        assert generation is not None
        marks = [mark for mark in self.server.marks(generation.name) if not mark.startswith("seed:")]
        assert len(marks) == len(set(marks)), "stored twice"
        branch = self.session.branch()
        places = {entry.id: index for index, entry in enumerate(branch)}
        assert all(mark in places for mark in marks), "entries of another branch"
        order = [places[mark] for mark in marks]
        assert order == sorted(order), "stored out of order"
        shown = vpi.engine.mirror.view()
        missing = [unit.key for unit in units(branch, shown.first, off_entries(branch)) if unit.key not in marks]
        assert not missing, f"never stored: {missing}"


def _line(message: Message) -> str:
    return repr(message._replace(entry_id=None, timestamp=0))


async def play(keep: int, schedule: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), keep)
        try:
            for name, k in schedule:
                await world.op(name, k)
                world.check()
            await world.finish()
        finally:
            world.kill()


OPERATIONS = (
    *("turn",) * 8,
    *("work",) * 6,
    *("phase",) * 4,
    *("tick",) * 3,
    "compact",
    "compact_kill",
    "delete",
    "down",
    "exit",
    "fault",
    "fault",
    "foreign_commit",
    "kill",
    "lose_ledger",
    "off",
    "tree",
    "turn_kill",
    "work_kill",
    "work_kill",
)
SCHEDULES = strategies.lists(
    strategies.tuples(strategies.sampled_from(OPERATIONS), strategies.integers(0, 29)), max_size=30
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(keep=strategies.integers(0, 2), schedule=SCHEDULES)
def test_nothing_is_lost_stored_twice_or_covered_without_its_overview(
    keep: int, schedule: list[tuple[str, int]]
) -> None:
    asyncio.run(play(keep, schedule))
