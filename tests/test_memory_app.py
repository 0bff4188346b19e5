from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from test_memory_tools import NAMES

from vikingpi.app.app import App
from vikingpi.app.options import RunOptions
from vikingpi.app.sessions import Folder
from vikingpi.app.stores import StoreChoice
from vikingpi.app.wiring import Prepared, Seams, build_app
from vikingpi.config.model import Settings
from vikingpi.config.paths import Paths
from vikingpi.errors import ToolError
from vikingpi.llm.base import Request
from vikingpi.llm.registry import Catalog
from vikingpi.llm.scripted import ScriptedProvider, Step, scripted_model
from vikingpi.messages import text_of
from vikingpi.net import HttpTransport

BUILT_IN = ["read", "bash", "edit", "write"]


class Seen:
    """The requests of all runs over one data folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.requests: list[Request] = []

    def run(self, *prompts: str, options: RunOptions | None = None, settings: Settings | None = None) -> list[str]:
        """Ask in a new session; return the texts of the last request."""

        async def ask(app: App) -> None:
            for prompt in prompts:
                await app.submit(prompt)

        self.play(ask, options or RunOptions(), settings or Settings(store="embedded"))
        return [text_of(message) for message in self.requests[-1].messages]

    def play(self, act: Callable[[App], Awaitable[None]], options: RunOptions, settings: Settings) -> None:
        project = self.home / "project"
        project.mkdir(parents=True, exist_ok=True)
        paths = Paths(self.home, self.home, self.home)
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}
        sessions = Folder(self.home / "sessions", True, paths, project)
        choice = StoreChoice("off" if settings.store == "off" else "embedded", None)
        catalog = Catalog({}, (), paths.models_file, paths.auth_file)
        plain = options._replace(no_context_files=True)
        prepared = Prepared(plain, env, project, paths, settings, sessions, choice, catalog, ())

        def answer(request: Request) -> Step:
            self.requests.append(request)
            return Step("noted")

        async def live() -> None:
            seams = Seams(HttpTransport(), ScriptedProvider(answer), scripted_model("m"))
            app = build_app(prepared, "print", asyncio.ensure_future, seams)
            await app.start()
            try:
                await act(app)
            finally:
                await app.close("quit")

        asyncio.run(live())

    def tools(self) -> list[str]:
        return [tool.name for tool in self.requests[-1].tools]


def test_what_one_session_said_another_one_is_reminded_of(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    seen.run("The staging gateway listens on port 8443.")
    last = seen.run("Which port does the staging gateway use?")
    assert "listens on port 8443" in last[0]
    assert last[0].endswith("</openviking-context>\n\nWhich port does the staging gateway use?")
    alone = seen.run(
        "Which port does the staging gateway use?", settings=Settings(store="embedded", recall_enabled=False)
    )
    assert alone == ["Which port does the staging gateway use?"]


def test_what_was_recalled_is_not_stored_again(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    seen.run("The staging gateway listens on port 8443.")
    for _ in range(3):
        seen.run("Which port does the staging gateway use?", "And which host has that staging gateway?")
    assert b"openviking-context" not in (tmp_path / "store.db").read_bytes()
    assert b"openviking-context" not in (tmp_path / "outbox.db").read_bytes()


def test_a_request_only_grows_between_two_prompts(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    seen.run("The staging gateway listens on port 8443.")
    seen.requests.clear()
    seen.run("Which port does the staging gateway use?", "Which port was that of the gateway?", "Thank you very much.")
    for before, after in zip(seen.requests, seen.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
        assert (after.system, after.tools) == (before.system, before.tools)


def test_a_profile_stands_in_the_system_prompt_of_new_sessions(tmp_path: Path) -> None:
    seen = Seen(tmp_path)

    async def remember(app: App) -> None:
        tool = next(one for one in app.parts.agent.deps.tools if one.spec.name == "viking_remember")
        context = app.parts.agent.deps.tool_context(lambda text: None)
        await tool.run({"content": "The user is called Ada.", "category": "profile"}, context)
        await app.submit("hello")

    seen.play(remember, RunOptions(), Settings(store="embedded"))
    seen.run("hello")
    assert "The user is called Ada." in seen.requests[-1].system


def test_tools_of_memory_come_last_and_only_with_a_store(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    seen.run("hello")
    assert seen.tools() == BUILT_IN + NAMES
    seen.run("hello", options=RunOptions(tools="viking_search,read"))
    assert seen.tools() == ["read", "viking_search"]
    seen.run("hello", options=RunOptions(no_tools=True))
    assert seen.tools() == []
    seen.run("hello", options=RunOptions(no_session=True))
    assert seen.tools() == BUILT_IN
    seen.run("hello", settings=Settings(store="off"))
    assert seen.tools() == BUILT_IN


def test_a_user_can_search_and_expand_what_was_said(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    shown: list[str] = []

    async def look(app: App) -> None:
        await app.submit("The staging gateway listens on port 8443.")
        memory = app.parts.memory
        assert memory is not None
        shown.extend([await memory.search("gateway port"), await memory.expand("1"), await memory.expand("")])
        for asked in (memory.expand("9"), memory.expand("archive_004"), memory.search(" ")):
            with pytest.raises(ToolError):
                await asked

    seen.play(look, RunOptions(), Settings(store="embedded"))
    assert "user turn 1 of this session" in shown[0]
    assert shown[1] == "=== user turn 1 ===\nuser: The staging gateway listens on port 8443.\nassistant: noted"
    assert shown[2].startswith("This session has 1 user turn")
