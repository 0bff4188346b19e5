import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from vikingpi.app.app import App
from vikingpi.app.chat import equip
from vikingpi.app.options import RunOptions
from vikingpi.app.wiring import Seams, build_app, prepare
from vikingpi.commands.chooser import Choices, Option
from vikingpi.config.model import Settings
from vikingpi.errors import SessionError
from vikingpi.llm.scripted import ScriptedProvider, Step, scripted_model
from vikingpi.messages import text_of
from vikingpi.net import HttpTransport
from vikingpi.session.tree import build_context


class FakeChooser:
    """Gives the answers it was made with and keeps what was shown."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.lists: list[list[Option]] = []
        self.said: list[str] = []

    async def choose(self, choices: Choices) -> str | None:
        options = list(choices.options())
        self.lists.append(options)
        wanted = self.answers.pop(0)
        return next((option.key for option in options if wanted and wanted in option.label), None)

    async def text(self, question: str) -> str | None:
        return self.answers.pop(0)

    async def confirm(self, question: str, body: str, answers: Sequence[Option]) -> str | None:
        return self.answers.pop(0)

    async def copy(self, text: str) -> str:
        return f"copied {text}"

    def edit(self, text: str) -> None:
        self.said.append(f"edit {text}")

    def look(self, settings: Settings) -> None:
        self.said.append(f"look {settings.theme} {settings.show_thoughts}")

    def show_past(self) -> None:
        self.said.append("past")


def play(folder: Path, work: Callable[[App], Awaitable[None]], **more: str) -> None:
    env = {"VPI_HOME": str(folder / "home"), "HOME": str(folder), "PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "k"}
    env |= more
    project = folder / "project"
    project.mkdir(exist_ok=True)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            provider = ScriptedProvider(lambda request: Step(text=f"answer to {text_of(request.messages[-1])[-40:]}"))
            seams = Seams(HttpTransport(), provider, scripted_model("scripted"))
            prepared = prepare(RunOptions(store="off"), env, project)
            app = build_app(prepared, "repl", group.create_task, seams)
            equip(app, prepared)
            await app.start()
            try:
                await work(app)
            finally:
                await app.close("quit")

    asyncio.run(run())


async def call(app: App, name: str, argument: str = "") -> str:
    return await next(command for command in app.commands if command.name == name).run(argument)


def said(app: App) -> list[str]:
    return [text_of(message) for message in build_context(app.parts.session.branch())]


def test_without_lists_everything_goes_by_its_id(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        await app.submit("two")
        first = app.parts.session.id
        tree = await call(app, "tree")
        assert tree.count("- `/tree ") == 4
        entry = tree.split("`/tree ")[3].split("`")[0]
        assert "in place of: two" in await call(app, "tree", entry)
        assert said(app) == ["one", "answer to one"]
        fork = await call(app, "fork")
        assert "one" in fork
        assert "A fork: session" in await call(app, "fork", fork.split("`/fork ")[1].split("`")[0])
        assert said(app) == []
        await app.submit("other")
        assert f"`/resume {first}`" in await call(app, "resume")
        assert "Session " in await call(app, "resume", first)
        assert app.parts.session.id == first
        assert "A copy" in await call(app, "clone")
        with pytest.raises(SessionError):
            await call(app, "resume", "nowhere")

    play(tmp_path, work)


def test_the_tree_asks_about_what_is_left_behind(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        await app.submit("two")
        app.chooser = FakeChooser("> two", None)
        assert await call(app, "tree") == ""
        assert len(said(app)) == 4
        app.chooser = chooser = FakeChooser("> two", "asked", "keep the port")
        assert "in the editor" in await call(app, "tree")
        assert chooser.said == ["past", "edit two"]
        assert said(app)[:2] == ["one", "answer to one"]
        assert "another line of the conversation" in said(app)[2]
        app.chooser = FakeChooser("summary of a branch")
        assert "there already" in await call(app, "tree")

    play(tmp_path, work)


def test_moving_and_choosing_a_model_writes_nothing_before_the_next_prompt(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        await app.submit("two")
        session = app.parts.session
        assert session.path is not None
        app.chooser = FakeChooser("> two", "none")
        before = session.path.read_bytes()
        await call(app, "tree")
        assert "no model fits" in await call(app, "model", "nosuchmodel")
        await call(app, "thinking", "high")
        app.chooser = FakeChooser("openai/")
        assert "openai/" in await call(app, "model")
        assert session.path.read_bytes() == before
        await app.submit("two again")
        kinds = [entry.type for entry in session.branch()]
        assert kinds[-4:] == ["model_change", "thinking_level_change", "message", "message"]

    play(tmp_path, work)


def test_the_last_answer_is_copied(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        await app.submit("one")
        assert "no clipboard" in await call(app, "copy")
        app.chooser = FakeChooser()
        assert await call(app, "copy") == "copied answer to one"

    play(tmp_path, work)
