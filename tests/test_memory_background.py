from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from patience import PATIENCE

from vikingpi.app.app import App
from vikingpi.app.options import RunOptions
from vikingpi.app.switching import fork, go_to
from vikingpi.app.wiring import Seams, build_app, prepare
from vikingpi.decode import Json
from vikingpi.llm.base import Delta, Finish, Model, Request, TextDelta, UsageDelta
from vikingpi.llm.scripted import scripted_model
from vikingpi.messages import Usage, text_of
from vikingpi.net import HttpTransport
from vikingpi.session.file import append_later, memory_session
from vikingpi.session.navigate import user_entries
from vikingpi.viking.overview import SECTIONS

OVERVIEW = "# Working Memory\n\n" + "\n\n".join(f"## {section}\n- x" for section in SECTIONS)


class SlowWriter:
    """Answers prompts at once, and asks for an overview only when it is let go."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    def __call__(self, model: Model) -> SlowWriter:
        return self

    async def stream(self, model: Model, request: Request) -> AsyncGenerator[Delta]:
        if request.tools:
            yield TextDelta(f"answer to {text_of(request.messages[-1])}")
        else:
            self.asked.set()
            await self.go.wait()
            yield TextDelta(OVERVIEW)
        yield UsageDelta(Usage(input=7, output=3))
        yield Finish("stop", "stop")


def play(folder: Path, act: Callable[[App], Awaitable[None]]) -> list[Json]:
    """Do something while an overview is being written; return what the session's file has then."""
    home = folder / "home"
    (home / "project").mkdir(parents=True)
    (home / "config.json").write_text(json.dumps({"takeover": {"tokenThreshold": 5, "keepRecentTurns": 1}}))
    files: list[Path | None] = []

    async def run() -> None:
        writer = SlowWriter()
        async with asyncio.TaskGroup() as group:
            env = {"VPI_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"}
            seams = Seams(HttpTransport(), writer, scripted_model("scripted"), model_overviews=True)
            app = build_app(
                prepare(RunOptions(store="embedded"), env, home / "project"), "repl", group.create_task, seams
            )
            await app.start()
            try:
                for prompt in ("one", "two", "three"):
                    await app.submit(f"{prompt}: the port is 8443")
                files.append(app.parts.session.path)
                await asyncio.wait_for(writer.asked.wait(), PATIENCE)
                await act(app)
                writer.go.set()
                await advanced(app)
            finally:
                writer.go.set()
                await app.close("quit")

    asyncio.run(run())
    assert files[0] is not None
    return [json.loads(line) for line in files[0].read_bytes().splitlines()]


async def advanced(app: App) -> None:
    """Wait until the overview that was held up has been taken or given up."""
    control = app.parts.takeover
    assert control is not None
    for _ in range(3000):
        if not control.state().open_commit:
            return
        await asyncio.sleep(0.01)


def kinds(entries: list[Json]) -> list[str]:
    return [str(entry.get("customType") or entry["type"]) for entry in entries]


def test_what_an_overview_cost_is_kept(tmp_path: Path) -> None:
    async def nothing(app: App) -> None:
        return None

    spent = [entry for entry in play(tmp_path, nothing) if entry["type"] == "usage"]
    assert [entry["usage"]["input"] for entry in spent] == [7]


def test_nothing_is_written_by_itself_where_the_leaf_was_moved_to(tmp_path: Path) -> None:
    sizes: list[int] = []

    async def move(app: App) -> None:
        session = app.parts.session
        await go_to(app, user_entries(session)[1].id)
        assert session.path is not None
        sizes.append(len(session.path.read_bytes().splitlines()))

    assert len(play(tmp_path, move)) == sizes[0]


@pytest.mark.parametrize("leave", ["fork", "new"])
def test_a_session_that_was_left_meanwhile_gets_nothing_and_the_other_goes_on(tmp_path: Path, leave: str) -> None:
    sizes: list[int] = []

    async def switch(app: App) -> None:
        before = app.parts.session
        assert before.path is not None
        await (fork(app, user_entries(before)[1].id) if leave == "fork" else app.new_session())
        sizes.append(len(before.path.read_bytes().splitlines()))
        await app.submit("and here?")
        assert app.parts.session.id != before.id

    assert len(play(tmp_path, switch)) == sizes[0]


def test_what_is_late_waits_for_a_message_where_the_leaf_was_moved_to() -> None:
    log = memory_session("/work")
    first = log.append("message", {"message": {"role": "user", "content": "one"}})
    log.append("message", {"message": {"role": "user", "content": "two"}})
    append_later(log, "usage", {"usage": {}})
    log.move_leaf(first.id)
    append_later(log, "usage", {"usage": {}})
    assert [entry.type for entry in log.branch()] == ["message"]
    log.append("label", {"targetId": first.id, "label": "here"})
    assert [entry.type for entry in log.branch()] == ["message", "label"]
    log.append("message", {"message": {"role": "user", "content": "other"}})
    assert [entry.type for entry in log.branch()] == ["message", "label", "message", "usage"]
    log.close()
    count = len(log.entries)
    append_later(log, "usage", {"usage": {}})
    assert len(log.entries) == count
