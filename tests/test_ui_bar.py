import os
import subprocess
import threading
from pathlib import Path

import pytest
from prompt_toolkit.utils import get_cwidth
from ui_fake import Figures

from vikingpi.command import Command
from vikingpi.events import StoreState
from vikingpi.safetext import is_seen
from vikingpi.tools.paths import meant
from vikingpi.ui.files import FileIndex, at_source, common_beginning, listed, path_source
from vikingpi.ui.history import PromptHistory, history_name
from vikingpi.ui.input import typed
from vikingpi.ui.menu import Item, Menu, command_in, command_source, items_for, slip_in
from vikingpi.ui.status import Part, fit, git_branch, parts_of, store_text
from vikingpi.ui.theme import choose_theme


async def nothing(argument: str) -> str:
    return ""


COMMANDS = (
    Command("new", "begin a new session", nothing),
    Command("name", "name it", nothing),
    Command("viking", "the store", nothing, lambda: ("commit", "off", "on", "reconnect")),
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
    assert bar(figures, 60) == "app · fake · 12.3k/128k (10%) · OV ✓ · ctx 3 · ~0/600"
    assert bar(figures, 66).startswith("app · fake · ↑1.3k ↓40 · ")
    assert bar(figures, 77).startswith("app (main) · fake · ↑1.3k ↓40 · ")
    assert bar(figures, 50) == "app · fake · 10% · OV ✓ · ctx 3 · ~0/600"
    assert bar(figures, 25) == "OV ✓ · ctx 3 · ~0/600"
    assert bar(figures, 20) == "OV ✓ · ctx 3"


@pytest.mark.parametrize("mode", ["ask", "edits", "read-only"])
@pytest.mark.parametrize("columns", [20, 30, 40, 60, 80])
def test_the_approval_mode_stays_where_the_bar_is_short(mode: str, columns: int) -> None:
    figures = Figures(cwd="/srv/deep/folder/app", approval=mode, store=StoreState("openviking", True, 3, 0, 800))
    assert mode in bar(figures, columns).split(" · ")
    assert "OV ✓" in bar(figures, columns)


def test_a_bar_of_forty_columns_has_approval_context_and_store() -> None:
    figures = Figures(cwd="/srv/deep/folder/app", approval="ask", store=StoreState("openviking", True, 3, 0, 800))
    assert bar(figures, 40) == "app · ask · 10% · OV ✓ · ctx 3 · ~0/800"


def test_the_marks_are_words_where_there_are_no_signs() -> None:
    theme = choose_theme("auto", {"TERM": "linux"})
    assert store_text(StoreState("openviking", False, 2, 0, 30_000), theme.glyphs) == "OV down · ctx 2 · ~0/30k"
    assert parts_of(Figures(), glyphs=theme.glyphs)[2].text == "in 1.3k out 40"
    assert theme.glyphs.rule.isascii() and theme.glyphs.spinner.isascii()
    assert choose_theme("auto", {"TERM": "xterm"}, "latin-1").glyphs == theme.glyphs


@pytest.mark.parametrize(
    ("setting", "env", "light"),
    [
        ("light", {}, True),
        ("dark", {"COLORFGBG": "0;15"}, False),
        ("auto", {"COLORFGBG": "0;15"}, True),
        ("auto", {"COLORFGBG": "15;0"}, False),
        ("auto", {}, False),
    ],
)
def test_the_theme_suits_the_background(setting: str, env: dict[str, str], light: bool) -> None:
    theme = choose_theme(setting, {"TERM": "xterm-256color", **env})
    assert theme.light is light
    assert ("34" in theme.paint("me", "user")) is light
    assert choose_theme(setting, {**env, "NO_COLOR": "1"}).paint("x", "user") == "\x1b[1mx\x1b[0m"


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
    assert Part("a\u241b[2Jb c", 30) in parts


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
    assert [item.label for item in items_for(COMMANDS, "/viking con")] == ["reconnect"]
    for text in ("", "n", "/x", "/n\n", "/new x"):
        assert items_for(COMMANDS, text) == ()


def test_the_menu_scrolls_and_goes_round() -> None:
    menu = Menu([command_source(lambda: COMMANDS)])
    assert [selected for _, selected in menu.window("/", 2)] == [True, False]
    assert (menu.place("/", 2), menu.place("/", 3)) == ("(1/3)", "")
    menu.move(-1)
    assert menu.place("/", 2) == "(3/3)"
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


# files


def index_of(folder: Path) -> FileIndex:
    """An index that has listed its folder."""
    there = threading.Event()
    index = FileIndex(lambda: folder, there.set)
    index.match("")
    assert there.wait(10)
    return index


def files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


@pytest.mark.parametrize("repository", [True, False])
def test_files_are_found_by_name_then_path_then_letters(tmp_path: Path, repository: bool) -> None:
    files(
        tmp_path, "src/app/main.py", "src/main_test.py", "maintain/x.py", "docs/my area in.md", "out.log", ".gitignore"
    )
    (tmp_path / ".gitignore").write_text("*.log\n")
    if repository:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    index = index_of(tmp_path)
    assert index.match("main") == (
        "maintain/",
        "src/app/main.py",
        "src/main_test.py",
        "maintain/x.py",
        "docs/my area in.md",
    )
    assert index.match("app/ma") == ("src/app/main.py",)
    assert index.match("") == (".gitignore", "docs/", "maintain/", "src/")
    assert index.match("out") == ()


def test_a_word_with_an_at_sign_is_completed_where_it_stands(tmp_path: Path) -> None:
    files(tmp_path, "a b.py", "c.py", "sub/d.py")
    source = at_source(index_of(tmp_path), lambda: tmp_path)
    assert source("see @c") == (4, (Item("c.py", "", "@c.py"),), False, " ")
    assert [item.insert for item in source('x "@a').items][:1] == ['@"a b.py"']
    assert source(f"@{tmp_path}/su").items == (Item(f"{tmp_path}/sub/", "", f"@{tmp_path}/sub/"),)
    for text in ("mail me@c", "no sign", "@c done "):
        assert source(text).items == ()


def test_paths_are_listed_by_their_beginning(tmp_path: Path) -> None:
    files(tmp_path, "src/one.py", "src/.hidden", "setup.py")
    assert listed("s", tmp_path) == ("setup.py", "src/")
    (tmp_path / "sy-loop").symlink_to("sy-loop")
    (tmp_path / "sy-long").symlink_to("x" * 300)
    assert listed("sy", tmp_path) == ("sy-long", "sy-loop")
    assert listed("src/", tmp_path) == ("src/one.py",)
    assert listed("src/.", tmp_path) == ("src/.hidden",)
    assert listed("none/", tmp_path) == listed("\0", tmp_path) == listed("~nobody-at-all/", tmp_path) == ()
    source = path_source(lambda: tmp_path, "cat s")
    assert [item.insert for item in source("cat src").items] == ["src/"]
    assert source("dog s").items == source("cat s and").items == ()


ODD_NAMES = [
    "na\x1b]2;file\x07me",
    "na\u202egnp.exe",
    "na\nme\there",
    "na\xa0me",
    os.fsdecode(b"na\xff\xfeme"),
    "na\x7f \u200bme",
    "na\x9b2J",
]


def opened(written: str, folder: Path) -> str:
    """What the tools find by a word of a prompt."""
    return meant(written.replace('"', ""), folder).read_text()


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("repository", [True, False])
def test_a_name_that_is_not_seen_as_it_is_is_offered_as_text_that_names_the_file(
    tmp_path: Path, name: str, repository: bool
) -> None:
    files(tmp_path, name, f"y{name}/{name}")
    (tmp_path / name).write_text("this one")
    (tmp_path / f"y{name}" / name).write_text("the inner one")
    if repository:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    source = at_source(index_of(tmp_path), lambda: tmp_path)
    (item,) = source("see @na").items[:1]
    assert is_seen(item.label) and is_seen(item.insert) and typed(item.insert) == item.insert
    assert opened(item.insert, tmp_path) == "this one"
    (inner,) = [each for each in source("see @yna").items if not each.insert.endswith("/")]
    assert opened(inner.insert, tmp_path) == "the inner one"
    (absolute,) = source(f"see @{tmp_path}/na").items
    assert opened(absolute.insert, tmp_path) == "this one"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_tab_writes_such_a_name_as_the_tools_or_as_the_shell_find_it(tmp_path: Path, name: str) -> None:
    files(tmp_path, name, f"y{name}/{name}")
    (tmp_path / f"y{name}" / name).write_text("the inner one")
    for begun in ("see ./y", "!cat y", "!!cat ./y", "/export y"):
        text = begun
        for more in ("", "n"):
            offer = path_source(lambda: tmp_path, text + more)(text + more)
            (item,) = offer.items
            assert is_seen(item.label) and typed(item.insert) == item.insert
            text = (text + more)[: offer.start] + item.insert
        if begun.startswith("!"):
            done = subprocess.run(["bash", "-c", text.lstrip("!")], cwd=tmp_path, capture_output=True, check=True)
            assert done.stdout == b"the inner one"
        else:
            assert opened(text[offer.start :], tmp_path) == "the inner one"


@pytest.mark.parametrize(
    "name", ["a$(touch pwned)", "a`touch pwned`", "a;touch pwned", "a'b", 'a"b', "a\\b", "a&b|c", "a!b"]
)
def test_tab_writes_nothing_that_the_shell_obeys(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("it")
    (item,) = path_source(lambda: tmp_path, "!cat a")("!cat a").items
    done = subprocess.run(["bash", "-c", f"cat {item.insert}"], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout == b"it"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", ["~", "~root", "~+", "~x y"])
def test_a_name_that_begins_with_a_tilde_is_no_home_folder(tmp_path: Path, name: str) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    for folder, text in ((work / name, "it"), (home, "not it")):
        folder.mkdir(parents=True)
        (folder / "inside").write_text(text)
    (mentioned,) = at_source(index_of(work), lambda: work)("@ins").items
    told = mentioned.insert.removeprefix("@").strip('"')
    assert meant(told, work, str(home)).read_text() == "it"
    for typed_name in ("~", "./~"):
        (item,) = path_source(lambda: work, f"!cat {typed_name}")(f"!cat {typed_name}").items
        written = item.insert + ("inside" if not item.insert.startswith('"') else 'inside"')
        env = {**os.environ, "HOME": str(home)}
        done = subprocess.run(["bash", "-c", f"cat {written}"], cwd=work, env=env, capture_output=True, check=True)
        assert done.stdout == b"it"
    (plain,) = path_source(lambda: work, "see ~")("see ~").items
    assert meant(plain.insert.strip('"'), work, str(home)) == work / name


def test_a_beginning_that_several_names_share_is_never_half_of_a_byte(tmp_path: Path) -> None:
    files(tmp_path, "a\x1bone", "a\x1etwo")
    offer = path_source(lambda: tmp_path, "!cat a")("!cat a")
    assert [item.insert for item in offer.items] == ["a$'\\x1b'one", "a$'\\x1e'two"]
    assert common_beginning(offer) == "a"


def test_names_that_look_the_same_say_so(tmp_path: Path) -> None:
    files(tmp_path, "a\x1bb", "a\u241bb", "y\x1bb/one", "y\u241bb/two", "fine\x1b")
    source = at_source(index_of(tmp_path), lambda: tmp_path)
    told = "several names look like this: to name one, rename the others"
    for text, about in (("@a", told), ("@yb", told), ("@one", told), ("@fine", "")):
        assert {item.about for item in source(text).items} == {about}
    (twin,) = path_source(lambda: tmp_path, "see ./a")("see ./a").items
    assert twin.about == told


def test_templates_and_skills_are_offered_beside_commands() -> None:
    others = (("note", "take a note"), ("skill:new", "make it new"))
    assert [item.label for item in items_for(COMMANDS, "/n", others)] == ["/new", "/name", "/note"]
    assert items_for(COMMANDS, "/sk", others) == (Item("/skill:new", "make it new", "/skill:new"),)


@pytest.mark.parametrize(
    ("text", "slip"),
    [
        ("/reesume", "there is no /reesume; did you mean /resume?"),
        ("/reesume 12ab", "there is no /reesume; did you mean /resume?"),
        ("/skill:reviw the code", "there is no /skill:reviw; did you mean /skill:review?"),
        ("/clear", "there is no /clear; /help lists what there is"),
        ("/resume", ""),
        ("/skill:review x", ""),
        ("/etc/hosts", ""),
        ("/tmp is full", ""),
        ("/", ""),
        (" /reesume", ""),
        ("/Users", ""),
        ("resume", ""),
    ],
)
def test_a_slip_in_the_name_of_a_command_is_told_from_a_prompt(text: str, slip: str) -> None:
    assert slip_in(["new", "resume", "skill:review"], text) == slip
