from __future__ import annotations

import io
from pathlib import Path

import pytest

from vikingpi.app.arguments import subcommand
from vikingpi.app.memory_cmd import read_words, run_memory
from vikingpi.cli import run
from vikingpi.errors import ConfigError, StoreRejected


def vpi_memory(home: Path, *words: str) -> str:
    out = io.StringIO()
    folder = home / "project"
    folder.mkdir(exist_ok=True)
    assert run_memory(words, {"VPI_HOME": str(home), "HOME": str(home)}, folder, out) == 0
    return out.getvalue()


def test_a_memory_is_added_listed_found_shown_and_forgotten(tmp_path: Path) -> None:
    added = vpi_memory(tmp_path, "add", "--category", "preferences", "I", "prefer", "tabs.")
    uri = added.strip().partition(": ")[2]
    assert uri.startswith("viking://user/default/memories/preferences/")
    assert vpi_memory(tmp_path, "list") == f"{uri} (14 characters) I prefer tabs.\n"
    assert uri in vpi_memory(tmp_path, "search", "tabs", "preference")
    assert vpi_memory(tmp_path, "show", uri) == "I prefer tabs.\n"
    assert vpi_memory(tmp_path, "forget", uri) == f"deleted {uri}\n"
    assert vpi_memory(tmp_path, "list") == "nothing is remembered yet\n"
    assert vpi_memory(tmp_path, "search", "tabs") == "nothing was found\n"


def test_a_path_is_taken_in_as_a_resource_and_a_text_that_names_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nThe gateway port is 8443.\n")
    uri = vpi_memory(tmp_path, "add", str(tmp_path / "notes.md")).strip().partition(": ")[2]
    assert "viking://resources/notes-" in uri
    assert "memories/entities" in vpi_memory(tmp_path, "add", f"The notes are in {tmp_path}/notes.md")
    assert vpi_memory(tmp_path, "show", "--level", "abstract", uri) == "Notes\n"
    assert vpi_memory(tmp_path, "show", uri) == "# Notes\n\nThe gateway port is 8443.\n"
    assert vpi_memory(tmp_path, "list", "viking://resources").startswith(uri)


def test_secrets_are_hidden_before_they_are_remembered(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    vpi_memory(tmp_path, "add", f"The token is {secret}")
    assert "The token is" in vpi_memory(tmp_path, "list")
    assert secret not in vpi_memory(tmp_path, "list")
    assert secret.encode() not in (tmp_path / "store.db").read_bytes()


def test_a_project_sees_what_was_added_in_it(tmp_path: Path) -> None:
    vpi_memory(tmp_path, "add", "The gateway port is 8443.")
    other = tmp_path / "other"
    other.mkdir()
    assert "8443" in vpi_memory(tmp_path, "search", "--project", "gateway")
    out = io.StringIO()
    run_memory(["search", "--project", "gateway"], {"VPI_HOME": str(tmp_path), "HOME": str(tmp_path)}, other, out)
    assert out.getvalue() == "nothing was found\n"
    run_memory(["search", "gateway"], {"VPI_HOME": str(tmp_path), "HOME": str(tmp_path)}, other, out)
    assert "8443" in out.getvalue()
    assert "8443" in vpi_memory(tmp_path, "list", "--project")
    out = io.StringIO()
    run_memory(["list", "--project"], {"VPI_HOME": str(tmp_path), "HOME": str(tmp_path)}, other, out)
    assert out.getvalue() == "nothing is remembered yet\n"


def test_a_damaged_store_is_moved_aside_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store.db").write_bytes(b"rubbish" * 100)
    assert vpi_memory(tmp_path, "list") == "nothing is remembered yet\n"
    assert "was damaged" in capsys.readouterr().err
    assert vpi_memory(tmp_path, "list", "viking://~/sessions") == "nothing is in there\n"


def test_a_limit_bounds_a_search(tmp_path: Path) -> None:
    for number in range(4):
        vpi_memory(tmp_path, "add", f"gateway number {number}")
    assert vpi_memory(tmp_path, "search", "--limit=2", "gateway").count("viking://") == 2


def test_everything_at_once_is_not_forgotten(tmp_path: Path) -> None:
    with pytest.raises(StoreRejected):
        vpi_memory(tmp_path, "forget", "viking://~/memories")
    with pytest.raises(StoreRejected):
        vpi_memory(tmp_path, "forget", "viking://~/memories/events/none.md")


@pytest.mark.parametrize(
    "words",
    [
        ["--limit", "3"],
        ["search"],
        ["search", "--limit", "x", "a"],
        ["search", "--limit"],
        ["show"],
        ["show", "viking://a", "viking://b"],
        ["show", "--level", "half", "viking://a"],
        ["add"],
        ["forget"],
        ["list", "--frob", "x"],
        ["list", "--store", "off"],
        ["list", "viking://a", "viking://b"],
        ["list", ""],
        ["search", ""],
        ["show", " "],
        ["add", ""],
        ["forget", "viking://a", ""],
    ],
)
def test_what_cannot_be_done_is_said_with_a_way_to_find_out(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        vpi_memory(tmp_path, *words)
    assert "--help" in caught.value.hint


def test_a_path_that_is_not_there_is_no_memory(tmp_path: Path) -> None:
    for path in ("/nowhere/at/all", "./nothing.md", "~/nothing"):
        with pytest.raises(ConfigError, match="there is no"):
            vpi_memory(tmp_path, "add", path)
    assert "stored" in vpi_memory(tmp_path, "add", "/etc/hosts", "is written by hand")


def test_what_exists_is_taken_in_however_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("print(8443)")
    (tmp_path / "my notes.md").write_text("notes")
    for place in ("src", "src/app.py", "src/", ".", "my notes.md"):
        assert "viking://resources/" in vpi_memory(tmp_path, "add", place)
        assert "memories/entities" in vpi_memory(tmp_path, "add", "--text", place)
    for text in ("and/or", "word", "tabs: yes", "see http://a.test/x", "n" * 5000, "~nobody-here/x"):
        assert "memories/entities" in vpi_memory(tmp_path, "add", text)


def test_an_address_that_cannot_be_taken_in_is_no_memory(tmp_path: Path) -> None:
    for address in ("file:///etc/hosts", "ftp://a.test/x", "viking://resources/docs", "git+ssh://a.test/x"):
        with pytest.raises(ConfigError, match="cannot be taken in") as caught:
            vpi_memory(tmp_path, "add", address)
        assert "--text" in caught.value.hint


def test_an_unknown_category_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nonsense") as caught:
        vpi_memory(tmp_path, "add", "--category", "nonsense", "text")
    assert "preferences" in caught.value.hint
    with pytest.raises(ConfigError, match="there is no category ''"):
        vpi_memory(tmp_path, "add", "--category", "", "text")


def test_the_list_says_where_resources_are(tmp_path: Path) -> None:
    assert vpi_memory(tmp_path, "list") == "nothing is remembered yet\n"
    (tmp_path / "notes.md").write_text("notes")
    vpi_memory(tmp_path, "add", str(tmp_path / "notes.md"))
    assert vpi_memory(tmp_path, "list").endswith("and 1 resource: vpi memory list viking://resources\n")


def test_a_store_that_is_off_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"store": "off"}')
    with pytest.raises(ConfigError, match="off"):
        vpi_memory(tmp_path, "list")


def test_help_says_every_word(tmp_path: Path) -> None:
    text = vpi_memory(tmp_path)
    assert all(f"vpi memory {word}" in text for word in ("add", "forget", "list", "search", "show"))
    assert vpi_memory(tmp_path, "search", "--help") == text
    assert not (tmp_path / "store.db").exists()


def test_words_after_two_hyphens_are_words() -> None:
    assert read_words(["add", "--", "--limit", "is", "a", "flag"]).rest == ("--limit", "is", "a", "flag")


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["memory"], "memory"),
        (["memory", "list"], "memory"),
        (["memory", "search", "x"], "memory"),
        (["memory", "--project", "list"], "memory"),
        (["memory", "--store", "embedded", "list"], "memory"),
        (["memory", "--text", "add", "x"], "memory"),
        (["memory", "leaks in parser.py"], ""),
        (["--", "memory"], ""),
    ],
)
def test_only_its_own_words_make_it_a_subcommand(argv: list[str], name: str) -> None:
    assert subcommand(argv) == name


@pytest.mark.parametrize("rest", [["serch"], ["serch", "deploy", "window"], ["--project", "serch", "deploy"]])
def test_a_slip_in_its_word_is_told_with_the_nearest_one_and_is_no_prompt(
    rest: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["memory", *rest]) == 2
    told = capsys.readouterr().err
    assert "error: vpi memory does not know serch\n" in told
    assert "hint: did you mean vpi memory search? " in told
    assert "asks the model" in told


@pytest.mark.parametrize("argv", [["memory", "leaks", "in", "parser.py"], ["memory", "rm", "viking://~/x"]])
def test_a_word_of_its_own_must_follow_it(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv) == 2
    told = capsys.readouterr().err
    assert f'vpi "memory {argv[1]} ..." asks the model' in told
    assert "did you mean" not in told


def test_a_prompt_that_begins_like_a_subcommand_is_a_prompt() -> None:
    assert subcommand(["doctr"]) == subcommand(["memry", "search", "x"]) == subcommand(["doctor", "my", "code"]) == ""
