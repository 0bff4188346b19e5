from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from tests.takeover_kit import LoopClock, Process, SimServer, SimStore, process, settings
from tests.virtual_time import run_virtual
from vikingpi.agent.hooks import TurnEnd
from vikingpi.config.model import Settings
from vikingpi.messages import AssistantMessage, ToolCall, Usage, text_of
from vikingpi.session.tree import build_context
from vikingpi.takeover.capture import CaptureOptions
from vikingpi.takeover.courier import Courier
from vikingpi.takeover.mirror import Mirror, SessionRef
from vikingpi.takeover.ordinary import SUFFIX, OrdinaryHooks, worth_keeping
from vikingpi.viking.base import SessionStatus


def no_extras(covers: bool) -> dict[str, object]:
    return {}


def ordinary(vpi: Process, mode: Literal["repl", "print"] = "print") -> OrdinaryHooks:
    options = CaptureOptions(24_000, 1_000_000, "", str)
    ref = SessionRef(vpi.session.id, "", True, no_extras, SUFFIX)
    courier = Courier(vpi.engine.link, vpi.ctx, Mirror(vpi.engine.link, vpi.ctx, ref, options), 1)
    return OrdinaryHooks(courier, options, (vpi.session.id, ""), mode, asyncio.ensure_future)


def config(*, tools: bool = False, threshold: int = 1000) -> Settings:
    return settings()._replace(capture_tool_results=tools, commit_token_threshold=threshold, commit_keep_recent_count=1)


async def end(vpi: Process, hooks: OrdinaryHooks) -> None:
    message = AssistantMessage((), "scripted", "p", "m", Usage(), "stop", 1)
    await hooks.turn_end(vpi.ctx, TurnEnd(message, (), True))


@pytest.mark.parametrize("text", ["ok", "OK!", "thanks", "!!!", "...", "好的", "继续。", "k", "/compact", "  yes  "])
def test_small_talk_is_not_worth_keeping(text: str) -> None:
    assert not worth_keeping(text)


@pytest.mark.parametrize(
    "text", ["ok then use port 7071", "/etc/hosts is wrong", "use tabs", "端口是7071", "yes, the blue one"]
)
def test_what_says_something_is_worth_keeping(text: str) -> None:
    assert worth_keeping(text)


@pytest.mark.parametrize("tools", [False, True])
def test_tool_output_comes_along_only_on_request(tmp_path: Path, tools: bool) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=config(tools=tools))
        hooks = ordinary(vpi)
        call = ToolCall("c1", "bash", {"command": "ls"})
        vpi.user("list the files")
        vpi.answer("I look", [call])
        vpi.result(call, "a.txt")
        vpi.answer("there is a.txt")
        await end(vpi, hooks)
        await hooks.session_shutdown(vpi.ctx, "signal")
        await vpi.engine.courier.deliver_others()
        (session,) = server.sessions.values()
        assert ("tool_output" in str([m.parts for m in session.live])) == tools
        assert len(session.live) == 3

    asyncio.run(run())


def test_acknowledgements_stay_out_and_the_request_keeps_its_history(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=config())
        hooks = ordinary(vpi)
        for text in ("use port 7071", "ok", "!!!"):
            vpi.user(text)
            vpi.answer("noted: " + text)
            await end(vpi, hooks)
        await vpi.engine.courier.deliver_others()
        (session,) = server.sessions.values()
        assert [m.parts[0]["text"] for m in session.live if m.role == "user"] == ["use port 7071"]
        messages = hooks.context(vpi.ctx, build_context(vpi.session.branch()))
        assert [text_of(m) for m in messages][::2] == ["use port 7071", "ok", "!!!"]

    asyncio.run(run())


def test_enough_text_is_committed_and_the_end_commits_the_rest(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        vpi = process(tmp_path, sim, config=config())
        hooks = ordinary(vpi)
        vpi.user("long " * 900)
        vpi.answer("noted")
        await end(vpi, hooks)
        await hooks.session_shutdown(vpi.ctx, "quit")
        (session,) = server.sessions.values()
        assert len(session.archives) == 1 and len(session.live) == 1

    asyncio.run(run())


def test_a_commit_that_fails_is_owed_and_made_later(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        vpi = process(tmp_path, sim, config=config())
        hooks = ordinary(vpi)
        vpi.user("something to remember")
        vpi.answer("noted")
        await end(vpi, hooks)
        await vpi.engine.courier.deliver_others()
        sim.faults = ["refused"]
        assert "owed" in await hooks.commit(vpi.ctx)
        assert await hooks.commit(vpi.ctx) == "committed what was captured"
        (session,) = server.sessions.values()
        assert len(session.archives) == 1

    asyncio.run(run())


def test_a_resumed_session_is_given_the_archive_overview(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=config())
        hooks = ordinary(vpi)
        for text in ("the codename is ALPHA", "the port is 7071"):
            vpi.user(text)
            vpi.answer("noted it")
            await end(vpi, hooks)
        await hooks.session_shutdown(vpi.ctx, "quit")
        again = ordinary(vpi)
        await again.session_start(vpi.ctx, "resume")
        messages = again.context(vpi.ctx, build_context(vpi.session.branch()))
        assert "the codename is ALPHA" in text_of(messages[0]) and len(messages) == 5

    asyncio.run(run())


def test_takeover_switched_on_later_opens_a_generation_of_its_own(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=config())
        hooks = ordinary(vpi)
        vpi.user("ok")
        vpi.answer("noted " + "filler " * 40)
        await end(vpi, hooks)
        vpi.session.fresh = False
        again = process(tmp_path, vpi.store, session=vpi.session, clock=vpi.clock)
        await again.say("the port is 7071 " + "filler " * 40)
        await again.work()
        generation = again.engine.mirror.generation()
        assert generation is not None and not generation.name.endswith(SUFFIX)
        assert "ok" in str([m.parts for a in server.sessions[generation.name].archives for m in a.messages])

    asyncio.run(run())


class Telling(SimStore):
    """Has a figure of its own for what a commit would archive, and answers after `delay` seconds."""

    pending = 0
    delay = 0.0

    async def session_status(self, name: str) -> SessionStatus | None:
        await asyncio.sleep(self.delay)
        status = await super().session_status(name)
        return status._replace(pending_tokens=self.pending) if status is not None else None


@pytest.mark.parametrize(("pending", "archives"), [(999, 0), (1000, 1)])
def test_the_figure_of_the_store_decides_whether_a_commit_is_due(tmp_path: Path, pending: int, archives: int) -> None:
    async def run() -> None:
        server = SimServer()
        store = Telling(server)
        store.pending = pending
        vpi = process(tmp_path, store, config=config(threshold=1000), clock=LoopClock())
        chat = ordinary(vpi, "repl")
        await chat.session_start(vpi.ctx, "new")
        vpi.user("something to remember")
        vpi.answer("noted it")
        await end(vpi, chat)
        await asyncio.sleep(1)
        (session,) = server.sessions.values()
        assert len(session.archives) == archives
        await chat.session_shutdown(vpi.ctx, "signal")

    run_virtual(run())


def test_a_chat_does_not_wait_for_the_archive_overview_and_has_it_when_it_came(tmp_path: Path) -> None:
    async def run() -> None:
        store, loop = Telling(SimServer()), asyncio.get_running_loop()
        vpi = process(tmp_path, store, config=config(), clock=LoopClock())
        first = ordinary(vpi)
        for text in ("the codename is ALPHA", "the port is 7071"):
            vpi.user(text)
            vpi.answer("noted it")
            await end(vpi, first)
        await first.session_shutdown(vpi.ctx, "quit")
        store.delay = 1.5
        chat, begun = ordinary(vpi, "repl"), loop.time()
        await chat.session_start(vpi.ctx, "resume")
        assert loop.time() == begun
        history = build_context(vpi.session.branch())
        assert chat.context(vpi.ctx, history) == history
        await asyncio.sleep(2)
        assert "the codename is ALPHA" in text_of(chat.context(vpi.ctx, history)[0])
        await chat.session_shutdown(vpi.ctx, "signal")

    run_virtual(run())


def test_a_commit_that_is_owed_is_made_without_a_further_turn(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        store = Telling(server)
        store.pending = 5000
        vpi = process(tmp_path, store, config=config(), clock=LoopClock())
        chat = ordinary(vpi, "repl")
        await chat.session_start(vpi.ctx, "new")
        vpi.user("something to remember")
        vpi.answer("noted it")
        store.faults = ["lost", "refused"]  # the answer about the message, then the commit
        await end(vpi, chat)
        await asyncio.sleep(120)
        (session,) = server.sessions.values()
        assert len(session.archives) == 1
        await chat.session_shutdown(vpi.ctx, "signal")

    run_virtual(run())


def test_one_shot_runs_wait_once_for_a_store_that_hangs(tmp_path: Path) -> None:
    class Hanging(SimStore):
        async def session_status(self, name: str) -> SessionStatus | None:
            await asyncio.Event().wait()
            return await super().session_status(name)

    async def run() -> None:
        loop, store = asyncio.get_running_loop(), SimStore(SimServer())
        vpi = process(tmp_path, store, config=config(), clock=LoopClock())
        hooks = ordinary(vpi)
        vpi.user("something to remember")
        vpi.answer("noted it")
        await end(vpi, hooks)
        await hooks.session_shutdown(vpi.ctx, "quit")
        waited = list[float]()
        hanging = Hanging(store.server)
        for _ in range(3):
            again = process(tmp_path, hanging, session=vpi.session, config=config(), clock=LoopClock())
            hooks, begun = ordinary(again), loop.time()
            await hooks.session_start(again.ctx, "resume")
            again.user("more to remember")
            again.answer("noted it")
            await end(again, hooks)
            await hooks.session_shutdown(again.ctx, "quit")
            waited.append(loop.time() - begun)
        assert waited == [2.0, 0.0, 0.0]

    run_virtual(run())
