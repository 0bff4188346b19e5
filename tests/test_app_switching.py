import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from vikingpi.app.app import App
from vikingpi.app.options import RunOptions
from vikingpi.app.switching import clone, fork, go_to, other_sessions, resume
from vikingpi.app.wiring import Seams, build_app, prepare
from vikingpi.errors import ProviderError, SessionError
from vikingpi.llm.base import Request
from vikingpi.llm.scripted import ScriptedProvider, Step, scripted_model
from vikingpi.messages import ToolCall, text_of, user_text
from vikingpi.net import HttpTransport
from vikingpi.session.catalog import default_directory
from vikingpi.session.file import create_session
from vikingpi.session.navigate import user_entries
from vikingpi.session.tree import build_context


def script(request: Request) -> Step:
    last = text_of(request.messages[-1])
    if "line of work that the user leaves" in last:
        return Step(error=ProviderError("no model")) if "fail" in last else Step(text="## Done\ntried the first way")
    return Step(text=f"answer to {last}")


def play(folder: Path, work: Callable[[App], Awaitable[None]], store: str = "embedded") -> None:
    env = {"VPI_HOME": str(folder / "home"), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    project = folder / "project"
    project.mkdir(exist_ok=True)
    options = RunOptions(store="off" if store == "off" else "embedded" if store == "embedded" else None)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            seams = Seams(HttpTransport(), ScriptedProvider(script), scripted_model("scripted"))
            app = build_app(prepare(options, env, project), "repl", group.create_task, seams)
            await app.start()
            try:
                await work(app)
            finally:
                await app.close("quit")

    asyncio.run(run())


def said(app: App) -> list[str]:
    return [text_of(message) for message in build_context(app.parts.session.branch())]


@pytest.mark.parametrize("store", ["off", "embedded"])
def test_a_fork_goes_on_before_the_chosen_message_in_a_file_of_its_own(tmp_path: Path, store: str) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        await app.submit("two")
        before = app.parts.session
        assert await fork(app, user_entries(before)[1].id) == "two"
        assert said(app) == ["one", "answer to one"]
        assert app.parts.session.id != before.id
        await app.submit("other two")
        assert said(app)[-1] == "answer to other two"
        assert before.path is not None
        assert b"other two" not in before.path.read_bytes()
        assert len(other_sessions(app)) == 2
        assert len(other_sessions(app, everywhere=True)) == 2

    play(tmp_path, work, store)


def test_a_fork_before_the_first_message_is_empty(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        assert await fork(app, user_entries(app.parts.session)[0].id) == "one"
        assert said(app) == []

    play(tmp_path, work)


def test_a_clone_has_everything_and_an_empty_session_has_none(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        with pytest.raises(SessionError, match="nothing to copy"):
            await clone(app)
        await app.submit("one")
        first = app.parts.session.id
        await clone(app)
        assert said(app) == ["one", "answer to one"]
        assert app.parts.session.id != first

    play(tmp_path, work)


def test_another_session_is_resumed_and_what_cannot_be_leaves_this_one_open(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        first = app.parts.session
        await app.new_session()
        await app.submit("two")
        second = app.parts.session
        await resume(app, first.id)
        assert said(app) == ["one", "answer to one"]
        assert app.parts.session.id == first.id
        for name, why in ((first.id, "already open"), ("nowhere", "no session")):
            with pytest.raises(SessionError, match=why):
                await resume(app, name)
        assert second.path is not None
        await resume(app, second.path)
        await app.submit("three")
        assert said(app)[-1] == "answer to three"

    play(tmp_path, work)


@pytest.mark.parametrize("chosen", [True, False])
def test_the_model_of_the_start_holds_for_resumed_sessions_until_another_is_chosen(
    tmp_path: Path, chosen: bool
) -> None:
    home, models = (
        tmp_path / "home",
        [{"id": name, "contextWindow": 9000, "maxTokens": 900} for name in ("slow", "quick")],
    )
    home.mkdir(mode=0o700)
    local = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "k", "models": models}
    (home / "models.json").write_text(json.dumps({"providers": {"lab": local}}))
    env = {"VPI_HOME": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            seams = Seams(HttpTransport(), ScriptedProvider(script))
            prepared = prepare(RunOptions(store="off", model="lab/slow"), env, tmp_path)
            app = build_app(prepared, "repl", group.create_task, seams)
            await app.start()
            try:
                slow, quick = (
                    next(one for one in prepared.catalog.models if one.id == name) for name in ("slow", "quick")
                )
                await app.submit("one")
                first = app.parts.session.id
                app.parts.agent.use_model(quick, "off")
                await app.new_session()
                await app.submit("two")
                second = app.parts.session.id
                if not chosen:
                    app.parts.agent.use_model(slow, "off")
                await resume(app, first)
                assert app.parts.agent.deps.model.id == ("quick" if chosen else "slow")
                await resume(app, second)
                assert app.parts.agent.deps.model.id == ("quick" if chosen else "slow")
                assert not chosen or not any("the session used" in notice for notice in app.parts.notices)
            finally:
                await app.close("quit")

    asyncio.run(run())


def test_a_move_in_the_tree_writes_nothing_by_itself(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        await app.submit("two")
        session = app.parts.session
        assert session.path is not None
        before = session.path.read_bytes()
        assert await go_to(app, user_entries(session)[1].id) == "two"
        assert said(app) == ["one", "answer to one"]
        await asyncio.sleep(0.05)
        assert session.path.read_bytes() == before
        written.append((session.path, before))

    written: list[tuple[Path, bytes]] = []
    play(tmp_path, work)
    path, before = written[0]
    assert path.read_bytes() == before, "not at exit either"


def test_what_is_left_is_summed_up_when_that_is_asked_for(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        await app.submit("two")
        session = app.parts.session
        leaf = session.leaf_id
        second = user_entries(session)[1].id
        with pytest.raises(ProviderError, match="no model"):
            await go_to(app, second, "fail")
        assert session.leaf_id == leaf
        await go_to(app, second, "")
        assert "tried the first way" in said(app)[-1]
        summary = session.branch()[-1]
        assert (summary.type, summary.raw["fromId"]) == ("branch_summary", leaf)
        assert summary.raw["usage"]["totalTokens"] > 0

    play(tmp_path, work)


def elsewhere(folder: Path, name: str, *, gone: bool = False) -> str:
    """Keep a session of another folder and return its id."""
    place = folder / name
    place.mkdir()
    home = folder / "home"
    log = create_session(default_directory(home / "sessions", str(place)), str(place), home / "locks")
    log.append_message(user_text("of another folder", 1))
    log.close()
    if gone:
        place.rmdir()
    return log.id


def test_a_session_of_another_folder_goes_on_in_that_folder(tmp_path: Path) -> None:
    other = tmp_path / "other"
    wanted = elsewhere(tmp_path, "other")

    async def work(app: App) -> None:
        await app.submit("one")
        first = app.parts.session.id
        assert (app.parts.cwd, app.status().cwd) == (tmp_path / "project", str(tmp_path / "project"))
        await resume(app, wanted)
        assert (app.parts.cwd, app.status().cwd) == (other, str(other))
        assert (await app.shell.run("pwd", lambda text: None)).output == f"{other}\n"
        assert str(other) in app.parts.agent.deps.system()
        app.approval.choose("edits")
        edit = ToolCall("c1", "write", {"path": "new.txt", "content": "x"})
        assert await app.parts.hooks.tool_call(edit) is None
        assert [info.id for info in other_sessions(app)] == [wanted]
        await app.new_session()
        assert (app.parts.cwd, app.parts.session.cwd) == (other, str(other))
        await resume(app, first)
        assert app.parts.cwd == tmp_path / "project"

    play(tmp_path, work)


def test_a_session_whose_folder_is_gone_goes_on_where_one_is(tmp_path: Path) -> None:
    wanted = elsewhere(tmp_path, "gone", gone=True)

    async def work(app: App) -> None:
        await resume(app, wanted)
        assert app.parts.cwd == tmp_path / "project"
        assert any(f"{tmp_path / 'gone'} is gone; working in" in notice for notice in app.parts.notices)

    play(tmp_path, work)


def test_a_session_of_an_excluded_folder_is_not_captured_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.json").write_text(f'{{"bypassPatterns": ["{tmp_path}/secret"]}}')
    wanted = elsewhere(tmp_path, "secret")

    async def work(app: App) -> None:
        assert app.parts.takeover is not None
        await resume(app, wanted)
        assert app.parts.takeover is None
        assert "the context store is off: this folder is excluded by bypassPatterns" in app.parts.notices

    play(tmp_path, work, store="auto")
