import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from test_commands_choices import FakeChooser
from ui_fake import FakeApp, FakeMemory, FakeStore, Figures, replay, session_in, text_answer

from vikingpi.commands.misc import all_commands
from vikingpi.errors import VpiError
from vikingpi.events import Event


def run(app: FakeApp, name: str, argument: str = "") -> str:
    app.commands = all_commands(app)
    command = next(command for command in app.commands if command.name == name)

    async def call() -> str:
        return await command.run(argument)

    return asyncio.run(call())


def app() -> FakeApp:
    return FakeApp(replay(text_answer("ok")))


def test_every_command_is_listed_once_with_a_description() -> None:
    commands = all_commands(app())
    names = [command.name for command in commands]
    assert names == sorted(set(names))
    assert {"help", "new", "compact", "quit", "name", "session", "model", "viking"} <= set(names)
    assert all(command.description for command in commands)


def test_help_lists_the_table_as_it_is_now() -> None:
    fake = app()
    fake.chooser = FakeChooser()
    text = run(fake, "help")
    assert "`/viking`" in text
    assert "Alt+Enter" in text


def test_help_without_lists_to_choose_from_is_lines_with_the_keys_that_work_there() -> None:
    text = run(app(), "help")
    assert "\n/viking - " in text
    assert "Ctrl+C - abort" in text
    assert not any(sign in text for sign in ("\n|", "`/", "Alt+Enter", "Ctrl+R"))


@pytest.mark.parametrize("name", ["copy", "exit", "help", "new", "quit", "session"])
def test_a_command_without_arguments_refuses_one_and_does_nothing(name: str) -> None:
    fake = app()
    with pytest.raises(VpiError, match=f"/{name} takes no argument, so nothing was done") as caught:
        run(fake, name, "99")
    assert caught.value.hint.startswith(f"/{name}: ")
    assert (fake.quit_requested, fake.sessions) == (False, 1)


@pytest.mark.parametrize("name", ["exit", "quit"])
def test_quit_asks_to_leave(name: str) -> None:
    fake = app()
    assert run(fake, name) == ""
    assert fake.quit_requested


def test_new_opens_another_session() -> None:
    fake = app()
    before = fake.parts.session.id
    assert "new session" in run(fake, "new")
    assert fake.sessions == 2
    assert fake.parts.session.id != before


def test_compact_hands_on_its_instructions_and_the_refusal() -> None:
    fake = app()
    assert run(fake, "compact", "keep names") == ""
    assert fake.compacted == ["keep names"]
    fake.refusal = "Nothing to compact (session too small)"
    assert run(fake, "compact") == fake.refusal


def test_new_and_compact_wait_for_nobody() -> None:
    async def play(fake: FakeApp, text: str) -> AsyncIterator[Event]:
        await fake.aborted.wait()
        for event in ():
            yield event

    async def both() -> list[str]:
        fake = FakeApp(play)
        prompt = asyncio.create_task(fake.submit("hang"))
        await asyncio.sleep(0)
        texts = [await command.run("") for command in all_commands(fake) if command.name in ("new", "compact")]
        fake.abort()
        await prompt
        assert (fake.sessions, fake.compacted) == (1, [])
        return texts

    assert all("still at work" in text for text in asyncio.run(both()))


def test_a_name_is_written_to_the_session_and_shown(tmp_path: Path) -> None:
    fake = FakeApp(replay(text_answer("ok")), session=session_in(tmp_path, "hello"))
    assert "No name" in run(fake, "name")
    assert "my work" in run(fake, "name", "my work")
    last = fake.parts.session.entries[-1]
    assert (last.type, last.raw["name"]) == ("session_info", "my work")
    fake.figures = Figures(session_name="my work")
    assert "my work" in run(fake, "name")


def test_session_shows_file_and_figures(tmp_path: Path) -> None:
    fake = FakeApp(replay(text_answer("ok")), session=session_in(tmp_path, "hello"))
    text = run(fake, "session")
    assert "session: s1" in text
    assert str(fake.parts.session.path) in text
    assert "messages: 1" in text
    assert "context: 12300 of 128000" in text
    fake.figures = Figures(context_tokens=-1)
    assert "context: ? of" in run(fake, "session")
    assert "(not kept)" in run(app(), "session")


def test_model_shows_the_model() -> None:
    assert "lab/fake" in run(app(), "model")


def test_thinking_is_shown_and_set() -> None:
    fake = app()
    assert "thinking: off" in run(fake, "thinking")
    assert "thinking: high" in run(fake, "thinking", "high")
    assert fake.parts.agent.deps.thinking_level == "high"
    assert "no level hihg" in run(fake, "thinking", "hihg")


def test_nothing_is_copied_where_there_is_no_answer() -> None:
    assert "no answer to copy" in run(app(), "copy")


def test_viking_hands_on_what_the_store_says() -> None:
    fake = app()
    fake.parts.takeover = store = FakeStore()
    assert "endpoint" in run(fake, "viking")
    assert run(fake, "viking", "commit") == "archived 2 turns"
    assert run(fake, "viking", "reconnect") == "connected"
    assert run(fake, "viking", "off") == "off"
    assert run(fake, "viking", "on") == "on"
    assert "Session Title" in run(fake, "viking", "overview")
    assert store.asked == ["commit", "reconnect", "switch False", "switch True"]


def test_viking_names_its_words_and_says_when_the_store_is_off() -> None:
    fake = app()
    assert run(fake, "viking") == "The context store is off."
    fake.parts.takeover = FakeStore()
    assert "commit, expand, off, on, overview, reconnect, search" in run(fake, "viking", "comit")
    words = next(command for command in all_commands(fake) if command.name == "viking").complete
    assert words is not None
    assert "overview" in words()


def test_viking_searches_and_expands_and_quotes_what_was_said() -> None:
    fake = app()
    assert run(fake, "viking", "search gateway") == "The context store is off."
    fake.parts.memory = FakeMemory()
    assert run(fake, "viking", "search gateway port") == "```\nfound gateway port\n```"
    assert "WORDS" in run(fake, "viking", "search")
    assert run(fake, "viking", "expand 3") == "````\n```\n3\n```\n````"
    assert "list" in run(fake, "viking", "expand")
