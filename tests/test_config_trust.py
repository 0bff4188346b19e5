import json
import os
import stat
from pathlib import Path

import platformdirs
import pytest

from vikingpi.config.paths import Paths, locate, private_dir
from vikingpi.config.trust import foreign_names, is_trusted, needs_trust, remember, remembered, unread_names
from vikingpi.errors import ConfigError


def paths_in(folder: Path) -> Paths:
    return Paths(folder / "config", folder / "data", folder / "state")


def test_the_nearest_answer_counts(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    project = tmp_path / "work" / "project"
    assert remembered(paths, project) is None
    assert not is_trusted(paths, project, None)
    remember(paths, tmp_path / "work", True)
    assert is_trusted(paths, project, None)
    remember(paths, project, False)
    assert remembered(paths, project / "deep") is False
    assert is_trusted(paths, tmp_path / "work" / "other", None)
    assert not is_trusted(paths, tmp_path, None)


@pytest.mark.parametrize("override", [True, False])
def test_a_flag_decides_for_one_run(tmp_path: Path, override: bool) -> None:
    paths = paths_in(tmp_path)
    remember(paths, tmp_path, not override)
    assert is_trusted(paths, tmp_path, override) is override
    assert remembered(paths, tmp_path) is not override


def test_a_link_into_a_trusted_folder_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    (tmp_path / "trusted").mkdir()
    (tmp_path / "strange").mkdir()
    (tmp_path / "trusted" / "link").symlink_to(tmp_path / "strange")
    remember(paths, tmp_path / "trusted", True)
    assert not is_trusted(paths, tmp_path / "trusted" / "link", None)


def test_the_file_is_private_and_keeps_other_answers(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    old = os.umask(0)
    try:
        remember(paths, tmp_path / "a", True)
    finally:
        os.umask(old)
    remember(paths, tmp_path / "b", False)
    assert json.loads(paths.trust_file.read_text()) == {str(tmp_path / "a"): True, str(tmp_path / "b"): False}
    assert stat.S_IMODE(paths.trust_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.config.stat().st_mode) == 0o700
    assert [path.name for path in paths.config.iterdir()] == ["trust.json"]


def test_a_broken_file_or_one_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    paths.config.mkdir()
    paths.trust_file.write_text("{")
    with pytest.raises(ConfigError, match=r"trust.json:1:2"):
        is_trusted(paths, tmp_path, None)
    blocked = Paths(paths.trust_file / "x", tmp_path, tmp_path)
    with pytest.raises(ConfigError, match="cannot write"):
        remember(blocked, tmp_path, True)


@pytest.mark.parametrize("answer", ["yes", 1, [], {}])
def test_answers_that_are_no_answers_are_refused(tmp_path: Path, answer: object) -> None:
    paths = paths_in(tmp_path)
    paths.config.mkdir()
    paths.trust_file.write_text(json.dumps({"/": None, str(tmp_path): answer}))
    with pytest.raises(ConfigError) as caught:
        is_trusted(paths, tmp_path, None)
    wanted = f"{paths.trust_file}: the answer for {tmp_path} must be true or false, not {json.dumps(answer)}"
    assert str(caught.value) == wanted
    paths.trust_file.write_text(json.dumps({"/": None}))
    assert not is_trusted(paths, tmp_path, None)


def test_only_what_would_be_used_needs_trust(tmp_path: Path) -> None:
    paths = paths_in(tmp_path / "own")
    assert needs_trust(tmp_path, paths, tmp_path / "home") == ()
    folder = tmp_path / ".vpi"
    (folder / "extensions").mkdir(parents=True)
    (folder / "themes" / "x").mkdir(parents=True)
    (folder / "notes.txt").touch()
    (folder / "models.json").touch()
    assert needs_trust(tmp_path, paths, tmp_path / "home") == ()
    (folder / "extensions" / "a.py").touch()
    (folder / "config.json").touch()
    assert needs_trust(tmp_path, paths, tmp_path / "home") == (".vpi/config.json", ".vpi/extensions/")
    assert needs_trust(tmp_path, Paths(folder, folder, folder), tmp_path / "home") == ()


def test_skills_of_other_programs_that_would_be_used_need_trust(tmp_path: Path) -> None:
    paths, repository = paths_in(tmp_path / "own"), tmp_path / "repository"
    inner = repository / "inner"
    (repository / ".git").mkdir(parents=True)
    for folder in (tmp_path, repository, inner):
        (folder / ".agents" / "skills").mkdir(parents=True)
    assert needs_trust(inner, paths, tmp_path) == ()
    for folder in (tmp_path, repository, inner):
        (folder / ".agents" / "skills" / "one").mkdir()
    assert needs_trust(inner, paths, tmp_path) == (".agents/skills/", "../.agents/skills/")
    assert needs_trust(repository, paths, tmp_path) == (".agents/skills/",)
    assert needs_trust(tmp_path, paths, tmp_path) == ()


def test_what_counts_in_the_users_own_configuration_only_is_named_as_unread(tmp_path: Path) -> None:
    folder = tmp_path / ".vpi"
    folder.mkdir()
    assert unread_names(tmp_path, paths_in(tmp_path)) == ()
    (folder / "models.json").touch()
    (folder / "auth.json").touch()
    assert unread_names(tmp_path, paths_in(tmp_path)) == (".vpi/models.json", ".vpi/auth.json")
    assert unread_names(tmp_path, Paths(folder, folder, folder)) == ()


def test_one_variable_moves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = locate({"VPI_HOME": str(tmp_path)})
    named = (paths.config_file, paths.models_file, paths.auth_file, paths.trust_file, paths.sessions, paths.outbox)
    more = (paths.store_db, paths.locks, paths.history, paths.logs, paths.extensions)
    assert {path.parent for path in (*named, *more)} == {tmp_path}
    monkeypatch.chdir(tmp_path)
    assert locate({"VPI_HOME": "here"}).config == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate({"VPI_HOME": "~/x"}).config == tmp_path / "x"


@pytest.mark.parametrize("xdg", [False, True])
def test_without_it_the_folders_are_those_of_platformdirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xdg: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
        if xdg:
            monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    assert locate(os.environ) == (
        platformdirs.user_config_path("vpi"),
        platformdirs.user_data_path("vpi"),
        platformdirs.user_state_path("vpi"),
    )


def test_a_private_folder_is_private_with_all_it_needs(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        private_dir(tmp_path / "a" / "b")
    finally:
        os.umask(old)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"not a folder|Not a directory"):
        private_dir(tmp_path / "file")


def test_what_other_programs_would_read_is_named(tmp_path: Path) -> None:
    assert foreign_names(tmp_path) == ()
    (tmp_path / ".env").write_text("DEBUG=1\nDB_PASSWORD=x\n")
    (tmp_path / ".pi" / "agent").mkdir(parents=True)
    assert foreign_names(tmp_path) == ()
    (tmp_path / ".env").write_text("A=1\nexport OPENAI_BASE_URL=http://x\n https_proxy = http://y\n")
    (tmp_path / ".pi" / "extensions").mkdir()
    assert foreign_names(tmp_path) == (".pi/extensions", ".env (OPENAI_BASE_URL, https_proxy)")
    (tmp_path / ".env").unlink()
    os.mkfifo(tmp_path / ".env")
    assert foreign_names(tmp_path) == (".pi/extensions",)
