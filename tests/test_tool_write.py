from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tool_kit import context_in, run, text_of

from vikingpi.errors import ToolError
from vikingpi.tools.write import WriteTool

TOOL = WriteTool()


def test_a_new_file_comes_with_its_folders(tmp_path: Path) -> None:
    outcome = run(TOOL, context_in(tmp_path), path="a/b/c.txt", content="\u00e9\r\n")
    assert text_of(outcome) == "Successfully wrote to a/b/c.txt"
    assert outcome.details is None
    assert (tmp_path / "a/b/c.txt").read_bytes() == "\u00e9\r\n".encode()
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["c.txt"]


def test_a_new_file_has_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    run(TOOL, context_in(tmp_path), path="new", content="")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_an_old_file_keeps_mode_and_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old and longer")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    run(TOOL, context_in(tmp_path), path="link", content="new")
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


def test_a_link_to_nowhere_creates_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    run(TOOL, context_in(tmp_path), path="link", content="new")
    assert (tmp_path / "target").read_text() == "new"


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    run(TOOL, context_in(tmp_path), path="a\ud83d", content="x\ud83dy")
    assert (tmp_path / "a\ufffd").read_text() == "x\ufffdy"


def test_a_similar_name_is_another_file(tmp_path: Path) -> None:
    (tmp_path / "it\u2019s").write_text("old")
    run(TOOL, context_in(tmp_path), path="it's", content="new")
    assert (tmp_path / "it\u2019s").read_text() == "old"
    assert (tmp_path / "it's").read_text() == "new"


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "fifo")
    for name, message in [
        (".", "EISDIR"),
        ("fifo", "Not a regular file"),
        ("file/x", "ENOTDIR: not a directory: .*/file$"),
        ("file/x/y", "ENOTDIR: not a directory: .*/file"),
        ("x" * 300, "ENAMETOOLONG"),
    ]:
        with pytest.raises(ToolError, match=message):
            run(TOOL, context_in(tmp_path), path=name, content="x")
