from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from vpi_lab import Lab, Tty, lab

from vikingpi.app.first_run import AGAIN, DEMO, OWN, FirstRun
from vikingpi.app.options import RunOptions
from vikingpi.app.wiring import Prepared, prepare
from vikingpi.commands.chooser import Choices, Option
from vikingpi.errors import ConfigError, NotConnected
from vikingpi.net import Reply, StreamReply

Step = Callable[[Choices], str | None]


class Answers:
    """A transport that gives one status to everything and keeps who was asked with what."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
        timeout: float = 40,
        limit: int = 0,
    ) -> Reply:
        self.asked.append((url, headers))
        if not self.status:
            raise NotConnected("nobody there")
        return Reply(self.status, {}, b"{}")

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
        timeout: float = 40,
    ) -> AbstractAsyncContextManager[StreamReply]:
        raise AssertionError(url)

    async def close(self) -> None:
        return None


def prepared(folder: Path, **env: str) -> Prepared:
    (folder / "work").mkdir(exist_ok=True)
    return prepare(RunOptions(), {"VPI_HOME": str(folder / "home"), "HOME": str(folder), **env}, folder / "work")


def choose(ready: Prepared, *steps: Step, transport: Answers | None = None) -> str:
    """Go through the lists with one step each."""
    left = list(steps)

    async def show(choices: Choices) -> str | None:
        return left.pop(0)(choices)

    picked = asyncio.run(FirstRun(ready, "no model is configured", transport or Answers()).choose(show))
    assert not left
    return picked


def line(choices: Choices, text: str) -> Option:
    return next(option for option in choices.options() if text in option.label)


def give_key(choices: Choices, provider: str, key: str) -> str:
    option = line(choices, f"{provider}: ")
    act = choices.enter(option.key)
    assert act is not None and act.secret and act.asks == f"key of {provider}"
    return act.run(option.key, key)


def test_leaving_keeps_nothing(tmp_path: Path) -> None:
    assert choose(prepared(tmp_path), lambda choices: None) == ""
    assert not (tmp_path / "home").exists()


def test_it_says_what_was_found_and_what_each_provider_needs(tmp_path: Path) -> None:
    def look(choices: Choices) -> None:
        head = choices.head().split("\n")
        assert head[0] == "no model is configured"
        assert head[1] == f"Keys: none, neither in the environment nor in {tmp_path}/home/auth.json"
        assert head[2].startswith("On this machine: ")
        assert head[3] == f"Memory: {tmp_path}/home/store.db"
        anthropic = line(choices, "anthropic: ")
        assert anthropic.about.startswith("needs ANTHROPIC_API_KEY")
        assert anthropic.preview is not None and "export ANTHROPIC_API_KEY=..." in anthropic.preview()
        assert [option.key for option in choices.options()][-3:] == [OWN, AGAIN, DEMO]

    choose(prepared(tmp_path), look)


def test_a_key_is_kept_for_its_owner_only_and_its_models_can_be_chosen(tmp_path: Path) -> None:
    def step(choices: Choices) -> str:
        place = [option.key for option in choices.options()].index(line(choices, "anthropic: ").key)
        assert "choose a model of anthropic" in give_key(choices, "anthropic", " k-1 \n")
        first = choices.options()[0]
        assert first.key.startswith("anthropic/") and first.label == first.key and place == 0
        assert choices.enter(first.key) is None
        return first.key

    (tmp_path / "home").mkdir()
    auth = tmp_path / "home" / "auth.json"
    auth.write_text('{"other": {"apiKey": "o"}}')
    transport = Answers()
    picked = choose(prepared(tmp_path), step, transport=transport)
    assert json.loads(auth.read_text()) == {"other": {"apiKey": "o"}, "anthropic": {"apiKey": "k-1"}}
    assert auth.stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "home" / "config.json").read_text()) == {"defaultModel": picked}
    assert transport.asked[-1][1]["x-api-key"] == "k-1"


def test_a_key_that_cannot_be_one_is_not_kept(tmp_path: Path) -> None:
    def step(choices: Choices) -> None:
        assert give_key(choices, "openai", "  ") == "no key was given"
        with pytest.raises(ConfigError, match="blank or a line break"):
            give_key(choices, "openai", "a b")

    choose(prepared(tmp_path), step)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("status", "told"), [(401, "the key is refused (401)"), (0, "does not answer")])
def test_what_does_not_work_is_told_and_taken_when_it_is_chosen_again(tmp_path: Path, status: int, told: str) -> None:
    ready = prepared(tmp_path, OPENAI_API_KEY="bad")

    def first(choices: Choices) -> str:
        assert "Keys: openai: $OPENAI_API_KEY" in choices.head()
        return choices.options()[0].key

    def again(choices: Choices) -> str:
        assert told in choices.head()
        assert choices.at == choices.options()[0].key
        return choices.at

    picked = choose(ready, first, again, transport=Answers(status))
    assert json.loads((tmp_path / "home" / "config.json").read_text()) == {"defaultModel": picked}


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    models = {"my": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "$MY_KEY", "models": [{"id": "m"}]}}
    (tmp_path / "home" / "models.json").write_text(json.dumps({"providers": models}))

    def step(choices: Choices) -> str:
        option = line(choices, "my: m")
        assert option.about == "needs MY_KEY"
        act = choices.enter(option.key)
        assert act is not None and not act.asks and "export MY_KEY=..." in act.run(option.key, "")
        return DEMO

    assert choose(prepared(tmp_path), step) == DEMO


def start(runs: Lab, *words: str) -> Tty:
    return Tty(runs, *words, columns=100, rows=32)


def test_a_first_start_leads_to_the_chat(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        models = (runs.home / "models.json").read_text()
        (runs.home / "models.json").unlink()
        tty = start(runs, "SAY: hello there")
        try:
            tty.wait("vpi needs a model: no model is configured.")
            tty.send("endpoint of")
            tty.wait("Enter says how")
            tty.send("\r")
            tty.wait("shown above, then look again")
            (runs.home / "models.json").write_text(models)
            tty.send("\x15look again\r")
            tty.wait("Looked again.")
            tty.wait("> local/scripted")
            tty.send("\r")
            tty.wait("local/scripted is your default model now")
            tty.wait("\nhello there")
            tty.read(0.3)
            tty.send("\x04")
            assert tty.end() == 0
        finally:
            tty.close()
        assert json.loads((runs.home / "config.json").read_text()) == {"defaultModel": "local/scripted"}


def test_a_key_is_not_shown_while_it_is_typed(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        (runs.home / "models.json").unlink()
        tty = start(runs)
        try:
            tty.wait("Enter asks for the key")
            tty.send("\r")
            tty.wait("key of anthropic:")
            tty.send("sk-very-secret")
            tty.wait("key of anthropic: **************")
            assert "Enter takes it · Esc goes back" in tty.text()
            assert "asks for the key" not in tty.text()
            tty.send("\x1b")
            tty.read(0.3)
            tty.send("\x1b")
            assert tty.end() == 2
        finally:
            tty.close()
        assert b"very-secret" not in tty.raw
        assert "error: no model is configured\nhint: choose one of these" in tty.text()
        assert not (runs.home / "auth.json").exists()


def test_a_signal_ends_the_first_start_and_restores_the_screen(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        (runs.home / "models.json").unlink()
        tty = start(runs)
        try:
            tty.wait("Enter asks for the key")
            tty.process.terminate()
            assert tty.end() == 143
        finally:
            tty.close()
    assert tty.raw.rindex(b"\x1b[?1049l") > tty.raw.rindex(b"\x1b[?1049h")


def test_a_default_model_that_cannot_be_used_is_named_and_another_one_offered(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.config(defaultModel="anthropic/claude-sonnet-5")
        done = runs.run("-p", "hi")
        assert (
            done.returncode == 2 and b"error: the default model anthropic/claude-sonnet-5 cannot be used" in done.stderr
        )
        tty = start(runs)
        try:
            tty.wait("> local/scripted")
            assert "the default model anthropic/claude-sonnet-5 cannot be used" in tty.text().replace("\n", " ")
        finally:
            tty.close()


def test_the_first_chat_says_who_answers_and_later_ones_do_not(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        for first in (True, False):
            tty = start(runs)
            try:
                tty.wait("mem ")
                tty.read(0.3)
                assert ("local/scripted answers, with the key from" in tty.text()) is first
                tty.send("SAY: yes")
                tty.read(0.2)
                tty.send("\r")
                tty.wait("\nyes")
                tty.read(0.3)
                tty.send("\x04")
                assert tty.end() == 0
            finally:
                tty.close()


def test_a_terminal_that_can_only_print_gets_the_error(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        (runs.home / "models.json").unlink()
        tty = Tty(runs, env={"TERM": "dumb"})
        try:
            tty.wait("error: no model is configured")
            assert tty.end() == 2
        finally:
            tty.close()
    assert b"\x1b" not in tty.raw
