from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_commands_choices import FakeChooser, call, play
from vpi_lab import Tty, lab

from vikingpi.app.app import App
from vikingpi.commands.settings import SETTINGS, setting_choices
from vikingpi.config.change import change, kind_of, read_value, value_in, written
from vikingpi.config.load import load
from vikingpi.config.model import Settings
from vikingpi.config.paths import Paths
from vikingpi.decode import Json
from vikingpi.errors import ConfigError


def own(folder: Path) -> Json:
    return json.loads((folder / "home" / "config.json").read_text())


def write(path: Path, values: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize("key", [setting.key for setting in SETTINGS])
def test_every_setting_is_a_key_whose_default_can_be_typed(key: str) -> None:
    default = value_in(Settings(), key)
    assert read_value(key, written(default)) == default


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("showThoughts", "yes", True),
        ("takeover.enabled", "off", False),
        ("approval", "read-only", "read-only"),
        ("recallLimit", " 7 ", 7),
        ("tools.bashTimeout", "2.5", 2.5),
        ("defaultModel", "lab/m", "lab/m"),
    ],
)
def test_a_typed_value_is_read(key: str, text: str, value: object) -> None:
    assert read_value(key, text) == value


@pytest.mark.parametrize(
    ("key", "text", "what"),
    [
        ("showThoughts", "perhaps", "one of on, off"),
        ("theme", "pink", "one of auto, dark, light"),
        ("recallLimit", "51", "whole number from 1 to 50"),
        ("recallLimit", "2.5", "whole number from 1 to 50"),
        ("tools.bashTimeout", "nan", "number from 1 to 86400"),
    ],
)
def test_a_wrong_value_is_refused_with_what_it_may_be(key: str, text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        read_value(key, text)


def test_a_change_keeps_everything_else_and_its_order(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write(path, {"zeta": "ä", "takeover": {"wait": "none", "enabled": True}, "approval": "ask"})
    path.chmod(0o640)
    change(path, "takeover.enabled", False)
    change(path, "tools.bashTimeout", 5.0)
    text = path.read_text(encoding="utf-8")
    assert "ä" in text
    assert list(json.loads(text).items()) == [
        ("zeta", "ä"),
        ("takeover", {"wait": "none", "enabled": False}),
        ("approval", "ask"),
        ("tools", {"bashTimeout": 5.0}),
    ]
    assert path.stat().st_mode & 0o777 == 0o640
    change(path, "tools.bashTimeout", None)
    assert "tools" not in json.loads(path.read_text())


def test_taking_a_value_out_takes_its_other_names_out_too(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write(path, {"takeoverEnabled": False, "recallBudget": 300})
    change(path, "takeover.enabled", None)
    change(path, "recallTokenBudget", None)
    assert json.loads(path.read_text()) == {}


def test_a_link_stays_a_link_and_a_new_file_is_private(tmp_path: Path) -> None:
    target, link = tmp_path / "dotfiles" / "config.json", tmp_path / "config.json"
    target.parent.mkdir()
    link.symlink_to(target)
    change(link, "theme", "dark")
    assert link.is_symlink() and json.loads(target.read_text()) == {"theme": "dark"}
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["config.json"]


def test_a_broken_file_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json:1:2"):
        change(path, "theme", "dark")
    assert path.read_text() == "{"


def test_loading_says_where_each_value_stands(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "config", tmp_path, tmp_path)
    write(paths.config_file, {"theme": "dark", "recallLimit": 3, "approval": "nonsense"})
    write(tmp_path / ".vpi" / "config.json", {"recallLimit": 4})
    env = {"OPENVIKING_RECALL_PEER_SCOPE": "actor"}
    sources = load(paths, tmp_path, env, trusted=True).sources
    assert sources == {
        "theme": str(paths.config_file),
        "recallLimit": str(tmp_path / ".vpi" / "config.json"),
        "recallPeerScope": "OPENVIKING_RECALL_PEER_SCOPE",
    }


def test_a_change_is_stored_and_counts_where_it_says_so(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        app.chooser = chooser = FakeChooser()
        assert await call(app, "settings", "approval edits") == "approval: edits, at once"
        assert app.approval.mode == "edits"
        assert await call(app, "settings", "theme light") == "theme: light, at once"
        assert await call(app, "settings", "showThoughts on") == "showThoughts: on, at once"
        assert chooser.said == ["look light False", "look light True"]
        assert (
            await call(app, "settings", "compaction.enabled off") == "compaction.enabled: off, from the next prompt on"
        )
        assert not app.parts.agent.deps.settings.compaction.enabled
        await call(app, "settings", "tools.bashTimeout 7")
        assert app.parts.agent.deps.tool_context(lambda text: None).bash_timeout == 7
        await app.new_session()
        assert app.approval.mode == "edits" and not app.parts.agent.deps.settings.compaction.enabled

    play(tmp_path, work)
    assert own(tmp_path) == {
        "approval": "edits",
        "theme": "light",
        "showThoughts": True,
        "compaction": {"enabled": False},
        "tools": {"bashTimeout": 7.0},
    }


def test_a_default_model_must_be_one_that_can_be_asked(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        with pytest.raises(ConfigError):
            await call(app, "settings", "defaultModel no-such-model")
        assert "from the next start on" in await call(app, "settings", "defaultModel gpt-5")

    play(tmp_path, work)
    assert own(tmp_path) == {"defaultModel": "gpt-5"}


def test_without_a_list_settings_are_written_and_named(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        text = await call(app, "settings")
        assert "- **theme**: auto" in text and "config.json" in text
        assert "one of all, actor; the default is all" in await call(app, "settings", "recallPeerScope")
        assert "There is no setting them" in await call(app, "settings", "them")

    play(tmp_path, work)


def test_a_value_of_the_environment_is_shown_as_the_one_that_wins(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        assert "(this session: ask)" not in await call(app, "settings")
        app.approval.choose("ask")
        assert "- **approval**: off (this session: ask)" in await call(app, "settings")
        assert "- **recallPeerScope**: actor (set by OPENVIKING_RECALL_PEER_SCOPE)" in await call(app, "settings")
        assert "stays actor here: OPENVIKING_RECALL_PEER_SCOPE wins" in await call(
            app, "settings", "recallPeerScope all"
        )
        assert "which says all" in await call(app, "settings", "recallPeerScope")

    play(tmp_path, work, OPENVIKING_RECALL_PEER_SCOPE="actor")


def test_words_go_round_and_the_default_comes_back(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        assert app.controls is not None
        choices = setting_choices(app, app.controls)
        assert choices.enter is not None
        for expected in ("dark", "light", "auto", "dark"):
            turned = choices.enter("theme")
            assert turned is not None
            turned.run("theme", "")
            assert own(tmp_path)["theme"] == expected
        (back,) = choices.acts
        assert back.run("theme", "") == "theme: auto, the default, at once"
        assert own(tmp_path) == {}
        asked = choices.enter("recallLimit")
        assert asked is not None
        assert (asked.asks, asked.preset("recallLimit")) == ("recallLimit", "10")

    play(tmp_path, work)


def test_every_word_of_a_list_is_a_value() -> None:
    for setting in SETTINGS:
        for word in kind_of(setting.key).words:
            assert written(read_value(setting.key, word)) == word


def test_the_list_changes_values_in_a_terminal(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.config()
        (runs.work / ".vpi").mkdir()
        write(runs.work / ".vpi" / "config.json", {"recallLimit": 5})
        tty = Tty(runs, "--trust")
        try:
            tty.wait("mem ")
            tty.read(0.3)
            tty.send("/settings")
            tty.read(0.2)
            tty.send("\r")
            shown = tty.wait("Ctrl+R back to the default")
            assert "set by the project" in shown
            tty.send("approval\r")
            tty.wait("approval: ask, at once")
            tty.send("\x15bashT\r")
            tty.wait("tools.bashTimeout: 600")
            tty.send("\x150\r")
            tty.wait("must be a number from 1 to 86400")
            tty.send("\r")
            tty.wait("tools.bashTimeout: 600")
            tty.send("\x1530\r")
            tty.wait("tools.bashTimeout: 30, at once")
            tty.send("\x15recallLimit\r")
            tty.read(0.2)
            tty.send("\x157\r")
            tty.wait("recallLimit stays 5 here")
            tty.send("\x1b")
            tty.read(0.3)
            tty.send("\x1b")
            tty.wait("· ask ·")
            tty.send("\x04")
            assert tty.end() == 0
        finally:
            tty.close()
        kept = json.loads((runs.home / "config.json").read_text())
    assert (kept["approval"], kept["tools"], kept["recallLimit"]) == ("ask", {"bashTimeout": 30.0}, 7)
    assert kept["takeover"]["tokenThreshold"] == 1


def test_thoughts_are_shown_from_the_start_where_the_setting_says_so(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.config(showThoughts=True)
        tty = Tty(runs)
        try:
            tty.wait("mem ")
            tty.read(0.3)
            tty.send("\x14")
            tty.wait("thoughts are folded")
        finally:
            tty.close()
