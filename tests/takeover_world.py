"""Two sessions, one server, one ledger; processes that die; other programs and other machines in between."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, get_args

from tests.takeover_kit import Clock, Fault, Outcome, Process, SimServer, SimStore, process
from tests.takeover_kit import settings as small_settings
from vikingpi.agent.hooks import CompactionPrep
from vikingpi.config.model import Settings
from vikingpi.messages import AssistantMessage, TextPart, ToolCall, Usage, user_text
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog, create_session, memory_session, open_session
from vikingpi.session.reader import read_session
from vikingpi.takeover.capture import units
from vikingpi.takeover.state import (
    OFF,
    STATE,
    TakeoverState,
    View,
    entry_text,
    is_message,
    is_off,
    is_user,
    off_entries,
    view,
)
from vikingpi.viking.base import StoreMessage

FAULTS: tuple[Fault, ...] = get_args(Fault)
OUTCOMES: tuple[Outcome, ...] = ("good", "good", "good", "failed", "blank", "placeholder")
WAITS = (1, 5, 10, 30, 36, 41, 61, 130)


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

        def call(*args: object, **options: object) -> object:
            self._tick()
            return found(*args, **options)

        return call


class MortalStore(SimStore):
    """A write may be cut off before it was made, or after it with the answer lost."""

    def __init__(self, server: SimServer, clock: Clock, mortal: Mortal) -> None:
        super().__init__(server, clock)
        self._mortal = mortal

    def _reach(self, call: str) -> None:
        self._mortal.tick()
        super()._reach(call)

    def _write(self, effect: Callable[[], None]) -> None:
        self._mortal.tick()
        super()._write(effect)
        self._mortal.tick()


class Seat:
    """One session and the process that has it open, if any."""

    def __init__(self, world: World) -> None:
        self.world = world
        folder = world.folder
        self.session = create_session(folder, "/work", folder) if world.files else memory_session("/work")
        self.vpi: Process | None = None
        self.seen: tuple[int, str, list[str]] | None = None
        self.off_words: set[str] = set()
        self.pi_word: set[str] = set()

    def process(self) -> Process:
        if self.vpi is None:
            world = self.world
            self.vpi = process(
                world.ledger_at,
                world.store,
                session=self.session,
                clock=world.clock,
                config=world.config,
                portion=world.portion,
            )
            book, wrap = self.vpi.ledger, world.mortal.wrap
            mortal = book._replace(
                stores=wrap(book.stores),
                generations=wrap(book.generations),
                messages=wrap(book.messages),
                commits=wrap(book.commits),
            )
            self.vpi.engine.link.ledger = mortal
            self.seen = None
        return self.vpi

    def kill(self) -> None:
        self.world.mortal.left = -1
        if self.vpi is not None:
            self.vpi.ledger.database.close()
            self.vpi = None
        self.session.fresh = self.session.fresh and self.session.leaf_id is None
        if self.session.path is not None and self.session.path.exists():
            self.session.close()
            self.session = open_session(self.session.path, self.world.folder, whole_below=0)

    def branch(self) -> tuple[Entry, ...]:
        """The whole branch, whatever the process has read of it."""
        path, leaf = self.session.path, self.session.leaf_id
        if path is None or not path.exists() or leaf is None:
            return self.session.branch()
        return SessionLog("", "", read_session(path).entries).branch_to(leaf)

    async def run(self, work: Coroutine[Any, Any, object], kill_at: int = -1) -> None:
        self.world.mortal.left = kill_at
        try:
            await work
        except Killed:
            self.kill()
        self.world.mortal.left = -1

    def word(self) -> str:
        text = f"W{next(self.world.words)}w"
        if is_off(self.session.branch()):
            self.off_words.add(text)
        return text

    async def turn(self, shape: int = 0, kill_at: int = -1) -> None:
        """A user turn. Shape 1 runs a tool, 2 ends with an empty answer; `kill_at` 0 dies while the tool runs."""
        vpi = self.process()
        vpi.user(f"{self.word()} {'x' * 40}")
        if shape == 1:
            call = ToolCall(f"c{next(self.world.words)}", "bash", {"command": "ls"})
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

    async def work(self, kill_at: int = -1) -> None:
        await self.run(self.process().work(), kill_at)

    async def compact(self, kill_at: int = -1, *, takeover: bool = True) -> None:
        vpi = self.process()
        branch = self.session.branch()
        users = [i for i, entry in enumerate(branch) if is_user(entry)]
        if len(users) < 2 or users[-1] <= vpi.engine.mirror.view().first:
            return

        async def work() -> None:
            kept = branch[users[-1]].id
            prep = CompactionPrep(kept, 1, "manual")
            got = await vpi.hooks.session_before_compact(vpi.ctx, prep) if takeover else None
            path, shown = self.session.branch(), vpi.engine.mirror.view()
            place = next(i for i, entry in enumerate(path) if entry.id == kept)
            if place < shown.first:
                return
            said = [entry_text(entry) for entry in path[shown.first : place] if is_message(entry)]
            summary = got.summary if got is not None else "\n".join([shown.summary, *said])
            fields = {"summary": summary, "firstKeptEntryId": kept, "tokensBefore": 1, "fromHook": got is not None}
            self.session.append("compaction", fields)
            self.world.mortal.tick()
            await vpi.hooks.session_compact(vpi.ctx, self.session.branch()[-1].id)

        await self.run(work(), kill_at)

    async def tree(self, back: int) -> None:
        """Move the leaf to an earlier message and go on from there."""
        path = self.session.path
        entries = read_session(path).entries if path is not None and path.exists() else self.session.entries
        messages = [entry for entry in entries if is_message(entry)]
        if messages and not is_off(self.session.branch()):
            self.session.move_leaf(messages[-1 - back % len(messages)].id)
            self.seen = None
            await self.turn()

    async def switch(self, on: bool) -> None:
        if self.session.leaf_id is not None:
            self.process()  # loads what a resumed session has to know of its past
        branch = self.session.branch()
        if branch and is_off(branch) == on:
            vpi = self.process()
            vpi.engine.mirror.capture()
            vpi.ctx.append_custom(OFF, {"on": on})

    async def leave(self) -> None:
        vpi = self.process()
        await self.run(vpi.hooks.session_shutdown(vpi.ctx, "signal"))
        self.kill()

    async def pi(self, k: int) -> None:
        """The real pi with the published extension goes on with the session."""
        self.kill()
        session, server, name = self.session, self.world.server, f"pi-{self.session.id}"
        session.known.load()
        before = view(session.branch())
        synced = before.state.synced_entry_count if before.state is not None else 0
        for _ in range(1 + k % 2):
            text = f"{self.word()} {'z' * 30}"
            session.append_message(user_text(text, 1))
            answer = (TextPart(self.word()),)
            session.append_message(AssistantMessage(answer, "x", "p", "m", Usage(), "stop", 1))
        branch = session.branch()
        fresh = branch[synced if synced <= len(branch) else 0 :]
        if self.world.store.up:
            said = [entry for entry in fresh if is_message(entry) and entry_text(entry)]
            live = server.session(name)
            live.live += [StoreMessage("user", ({"type": "text", "text": entry_text(e)},), "", "", ()) for e in said]
            live.total += len(said)
            self.off_words -= {word for entry in said for word in entry_text(entry).split()}
            synced = len(branch)
        turns = sum(is_user(entry) for entry in branch)
        covered = before.state.covered_user_turns if before.state is not None and before.covered >= 0 else 0
        state = TakeoverState(covered, before.summary if covered else "", None, 5, turns, synced)
        if k & 4:
            state = state._replace(covered_user_turns=turns - 1, overview="# Working Memory\n\n## Current State\npi")
            users = [i for i, entry in enumerate(branch) if is_user(entry)]
            self.pi_word |= {word for entry in branch[: users[-1]] for word in entry_text(entry).split()}
        data = state.to_data()
        for key in ("lastCoveredEntryId", "generation", "archiveId", "coveredTurns"):
            del data[key]
        if not k & 8:
            session.append_custom(STATE, data)
        session.fresh = False

    def view(self, vpi: Process) -> View:
        """What vpi sees, with the index of the first kept entry counted from the root."""
        shown = vpi.engine.mirror.view()
        return shown._replace(first=shown.first + len(self.branch()) - len(self.session.branch()))

    def messages(self) -> list[StoreMessage]:
        return [
            message
            for name, stored in self.world.server.sessions.items()
            if name.startswith(f"pi-{self.session.id}")
            for message in [m for archive in stored.archives for m in archive.messages] + stored.live
        ]

    def check(self) -> None:
        said = " ".join(str(message.parts) for message in self.messages())
        assert not [word for word in self.off_words if word in said], "said while off, and stored"
        vpi = self.process()
        branch, shown = self.branch(), self.view(vpi)
        words = [w for entry in branch[: shown.first] if is_message(entry) for w in entry_text(entry).split()]
        missing = [w for w in words if w.startswith("W") and w not in shown.summary and w not in self.pi_word]
        assert not missing, f"neither kept nor in the overview: {missing}"
        now = [repr(m._replace(entry_id=None, timestamp=0)) for m in vpi.request()]
        if self.seen is not None and self.seen[:2] == (shown.first, shown.summary):
            assert now[: len(self.seen[2])] == self.seen[2], "the request changed without a move of the boundary"
        self.seen = (shown.first, shown.summary, now)

    async def finish(self) -> None:
        """Everything works and time passes: nothing is missing, nothing is twice, the boundary advances."""
        world, first = self.world, -1
        world.store.up, world.store.faults = True, []
        self.kill()
        await self.switch(True)
        world.clock.ms += 200_000
        for _ in range(12):
            await self.turn()
            for _ in range(2):
                await self.work()
                world.finish_all()
                world.clock.ms += 81_000
            await self.work()
            world.check()
            first = self.view(self.process()).first if first < 0 else first
        vpi, branch = self.process(), self.branch()
        self.check_stored(vpi)
        stopped = [i for i in off_entries(branch) if is_message(branch[i])] or vpi.engine.courier.state().dead
        if not stopped:
            assert self.view(vpi).first > first, "the boundary does not advance"

    def check_stored(self, vpi: Process) -> None:
        generation = vpi.engine.mirror.generation()
        assert generation is not None
        marks = [mark for mark in self.world.server.marks(generation.name) if not mark.startswith("seed:")]
        assert len(marks) == len(set(marks)), "stored twice"
        branch = self.branch()
        places = {entry.id: index for index, entry in enumerate(branch)}
        assert all(mark in places for mark in marks), "entries of another branch"
        order = [places[mark] for mark in marks]
        assert order == sorted(order), "stored out of order"
        shown = self.view(vpi)
        missing = [unit.key for unit in units(branch, shown.first, off_entries(branch)) if unit.key not in marks]
        assert not missing, f"never stored: {missing}"


class World:
    """The operations of a schedule; `seat` 0 and 1 are two sessions on one machine.

    With `files` every new process reads no more of a session's file than a resume does. `portion` is how many
    messages a turn end captures.
    """

    def __init__(self, folder: Path, keep: int, *, files: bool = False, portion: int = 200) -> None:
        self.folder = folder
        self.files = files
        self.portion = portion
        self.server = SimServer()
        self.server.instant = None
        self.mortal = Mortal()
        self.clock = Clock()
        self.store = MortalStore(self.server, self.clock, self.mortal)
        self.config: Settings = small_settings(threshold=24, keep=keep)
        self.words = itertools.count(1)
        self.ledgers = itertools.count(2)
        self.ledger_at = folder / "0"
        self.other_ledger = folder / "1"
        self.seats = [Seat(self), Seat(self)]

    async def op(self, name: str, seat_number: int, k: int) -> None:
        seat = self.seats[seat_number % 2]
        match name:
            case "turn":
                await seat.turn(k % 3)
            case "turn_kill":
                await seat.turn(1, k % 9)
            case "work":
                await seat.work()
            case "work_kill":
                await seat.work(k)
            case "compact":
                await seat.compact()
            case "compact_default":
                await seat.compact(takeover=False)
            case "compact_kill":
                await seat.compact(k)
            case "kill":
                seat.kill()
            case "exit":
                await seat.leave()
            case "tree":
                await seat.tree(k)
            case "off":
                await seat.switch(bool(k % 2))
            case "pi":
                await seat.pi(k)
            case _:
                self._elsewhere(name, k)

    def _elsewhere(self, name: str, k: int) -> None:
        names = sorted(self.server.sessions)
        match name:
            case "phase" if names:
                self.server.finish(names[k % len(names)], OUTCOMES[k % len(OUTCOMES)])
            case "tick":
                self.clock.ms += WAITS[k % len(WAITS)] * 1000
                self.store.settle_late()
            case "fault":
                self.store.faults = [FAULTS[k % len(FAULTS)]]
            case "down":
                self.store.up = not self.store.up
            case "foreign_commit" if names:
                archive = self.server.commit(names[k % len(names)], k % 3, "foreign")
                if archive is not None and k & 4:
                    self.server.finish(names[k % len(names)], "placeholder")
            case "foreign_post" if names:
                session = self.server.sessions[names[k % len(names)]]
                session.live.append(StoreMessage("user", ({"type": "text", "text": "foreign"},), "", "", ()))
                session.total += 1
            case "delete" if names:
                del self.server.sessions[names[k % len(names)]]
            case "lose_ledger" | "other_machine":
                for seat in self.seats:
                    seat.kill()
                self.clock.ms += 100_000
                self.store.settle_late()
                if name == "lose_ledger":
                    self.ledger_at = self.folder / str(next(self.ledgers))
                else:
                    self.ledger_at, self.other_ledger = self.other_ledger, self.ledger_at
            case _:
                return

    def finish_all(self) -> None:
        self.store.settle_late()
        for name in sorted(self.server.sessions):
            while self.server.finish(name, "good"):
                pass

    def check(self) -> None:
        for name, session in self.server.sessions.items():
            pending = [archive for archive in session.archives if archive.by == "vpi" and archive.state == "pending"]
            assert len(pending) <= 1, f"{len(pending)} open commits in {name}"
        for seat in self.seats:
            if seat.session.leaf_id is not None:
                seat.check()

    async def finish(self) -> None:
        for seat in self.seats:
            if seat.session.leaf_id is not None:
                await seat.finish()

    def close(self) -> None:
        for seat in self.seats:
            seat.kill()
            seat.session.close()


def session_of(world: World) -> SessionLog:
    return world.seats[0].session
