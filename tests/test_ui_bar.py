from pathlib import Path

import pytest
from prompt_toolkit.utils import get_cwidth
from ui_fake import Figures

from vikingpi.command import Command
from vikingpi.events import StoreState
from vikingpi.ui.history import PromptHistory, history_name
from vikingpi.ui.input import typed
from vikingpi.ui.menu import Item, Menu, command_in, command_source, items_for
from vikingpi.ui.status import Part, fit, git_branch, parts_of, store_text


async def nothing(argument: str) -> str:
    return ""


COMMANDS = (
    Command("new", "begin a new session", nothing),
    Command("name", "name it", nothing),
    Command("viking", "the store", nothing, lambda: ("commit", "off", "on")),
)


def bar(figures: Figures, columns: int) -> str:
    return " · ".join(part.text for part in fit(parts_of(figures, "main", "/srv"), columns))


def test_the_bar_has_everything_where_there_is_room() -> None:
    figures = Figures(
        cwd="/srv/app",
        session_name="my work",
        thinking_level="high",
        cache_read=900,
        store=StoreState("openviking", True, 3, 1200, 30_000),
    )
    assert bar(figures, 200) == (
        "~/app (main) · my work · lab/fake high · ↑1.3k ↓40 · cached 41% · $0.001 · 12.3k/128k (10%)"
        " · OV ✓ · ctx 3 · ~1.2k/30k"
    )


@pytest.mark.parametrize("columns", range(1, 120, 7))
def test_the_bar_fits_any_width_by_cells(columns: int) -> None:
    figures = Figures(cwd="/srv/项目-🎉👨‍👩‍👧", session_name="名前" * 20, store=StoreState("embedded", False, 1, 2, 3))
    assert get_cwidth(bar(figures, columns)) <= columns


def test_the_store_is_the_last_to_go_and_the_folder_is_shortened_first() -> None:
    figures = Figures(cwd="/srv/deep/folder/app", cost=0.0, store=StoreState("openviking", True, 3, 0, 600))
    assert bar(figures, 60) == "app · 12.3k/128k (10%) · OV ✓ · ctx 3 · ~0/600"
    assert bar(figures, 25) == "OV ✓ · ctx 3 · ~0/600"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (StoreState("off", None), "OV -"),
        (StoreState("embedded", True, 0, 420, 600), "mem ✓ · ctx 0 · ~420/600"),
        (StoreState("openviking", False, 2, 0, 30_000), "OV ✗ · ctx 2 · ~0/30k"),
        (StoreState("openviking", None, 0, 0, 600), "OV … · ctx 0 · ~0/600"),
    ],
)
def test_the_store_has_a_mark(state: StoreState, text: str) -> None:
    assert store_text(state) == text


@pytest.mark.parametrize(("tokens", "style"), [(1000, ""), (90_000, ".warning"), (120_000, ".error")])
def test_a_full_context_is_coloured(tokens: int, style: str) -> None:
    parts = parts_of(Figures(context_tokens=tokens))
    assert [part.style for part in parts if "128k" in part.text] == [f"class:status{style}"]


def test_what_is_not_known_is_a_question_mark() -> None:
    assert "?/128k" in [part.text for part in parts_of(Figures(context_tokens=-1))]


def test_names_in_the_bar_are_harmless() -> None:
    parts = parts_of(Figures(session_name="a\x1b[2Jb\nc"))
    assert Part("ab c", 30) in parts


def test_the_branch_is_read_from_git(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/feat/x\n")
    (tmp_path / "sub").mkdir()
    assert git_branch(str(tmp_path / "sub")) == "feat/x"
    (tmp_path / ".git" / "HEAD").write_text("0123456789abcdef\n")
    assert git_branch(str(tmp_path)) == "0123456"
    (tmp_path / "sub" / ".git").write_text("gitdir: ../.git\n")
    assert git_branch(str(tmp_path / "sub")) == "0123456"


# input


def test_commands_and_arguments_complete() -> None:
    assert [item.label for item in items_for(COMMANDS, "/n")] == ["/new", "/name"]
    assert items_for(COMMANDS, "/viking o") == (Item("off", "", "/viking off"), Item("on", "", "/viking on"))
    assert items_for(COMMANDS, "/viking on") == ()
    for text in ("", "n", "/x", "/n\n", "/new x"):
        assert items_for(COMMANDS, text) == ()


def test_the_menu_scrolls_and_goes_round() -> None:
    menu = Menu([command_source(lambda: COMMANDS)])
    assert [selected for _, selected in menu.window("/", 2)] == [True, False]
    menu.move(-1)
    assert menu.selected("/") == Item("/viking", "the store", "/viking")
    assert [item.label for item, _ in menu.window("/", 2)] == ["/name", "/viking"]
    menu.dismiss()
    assert menu.items("/") == ()
    assert menu.items("/n")[0].label == "/new"


def test_only_known_words_are_commands() -> None:
    assert command_in(COMMANDS, "/name  my work ") == (COMMANDS[1], "my work")
    assert command_in(COMMANDS, "/viking\ncommit") == (COMMANDS[2], "commit")
    for text in ("/etc/hosts is what", "/naming", "name", " /name", "/"):
        assert command_in(COMMANDS, text) is None


def test_input_keeps_text_and_drops_control_characters() -> None:
    assert typed("a\tb\r\nc\rd\x1b[2J\x00\x9b") == "a\tb\nc\nd[2J"
    assert typed("\udcff\ud83d\ude00") == "\ufffd😀"


def test_the_history_survives_damage_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "history" / history_name("/srv/a b")
    history = PromptHistory(path)
    for text in ("one", "two\nlines", "half \ud83d"):
        history.store_string(text)
    with path.open("ab") as file:
        file.write(b'{"no": 1}\n"torn')
    assert list(PromptHistory(path).load_history_strings()) == ["half \ud83d", "two\nlines", "one"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_projects_have_histories_of_their_own() -> None:
    assert history_name("/a/b-c") != history_name("/a-b/c")
    assert "/" not in history_name("/srv/项目")


def test_a_history_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = PromptHistory(tmp_path / "file" / "x.jsonl")
    history.store_string("kept in memory only")
    assert list(history.load_history_strings()) == []
