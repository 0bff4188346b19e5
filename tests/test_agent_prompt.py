from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path

import pytest

from vikingpi.agent.attach import attach_files
from vikingpi.agent.prompt import ContextFile, find_context_files, system_prompt
from vikingpi.errors import ConfigError
from vikingpi.messages import ImagePart, ToolSpec

TOOLS = [ToolSpec("read", "Read a file. With details.", {}), ToolSpec("bash", "Run a command.", {})]


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_prompt_names_the_tools_and_ends_with_the_cwd() -> None:
    prompt = system_prompt("/srv/app", TOOLS)
    assert "<tools>\n- read: Read a file.\n- bash: Run a command.\n</tools>" in prompt
    assert prompt.endswith("<cwd>\n/srv/app\n</cwd>")
    assert "Use edit" not in prompt and "Use read" in prompt
    assert prompt == system_prompt("/srv/app", TOOLS)


def test_without_tools_the_prompt_has_no_tools_section() -> None:
    assert "<tools>" not in system_prompt("/srv/app", [])


def test_a_replacement_takes_the_place_of_role_tools_and_rules() -> None:
    prompt = system_prompt("/x", TOOLS, replacement="Be a poet.", append="In French.")
    assert prompt == "Be a poet.\n\n<addendum>\nIn French.\n</addendum>\n\n<cwd>\n/x\n</cwd>"


def test_context_files_stand_in_their_own_section() -> None:
    prompt = system_prompt("/x", [], replacement="P", context=[ContextFile("/x/AGENTS.md", "Use tabs.\n")])
    block = '<project_context>\n<file path="/x/AGENTS.md">\nUse tabs.\n</file>\n</project_context>'
    assert prompt == f"P\n\n{block}\n\n<cwd>\n/x\n</cwd>"


def test_context_files_come_from_the_configuration_and_then_from_the_root_down(tmp_path: Path) -> None:
    for name in ("config/AGENTS.md", "repo/CLAUDE.md", "repo/a/AGENTS.md", "repo/a/CLAUDE.md", "repo/a/b/AGENTS.md"):
        write(tmp_path / name, name)
    write(tmp_path / "repo/a/b/AGENTS.override.md", "override")
    write(tmp_path / "repo/a/b/c/AGENTS.md", "below")
    found = find_context_files(tmp_path / "config", tmp_path / "repo/a/b")
    assert [file.text for file in found] == ["config/AGENTS.md", "repo/CLAUDE.md", "repo/a/AGENTS.md", "override"]


def test_a_context_file_is_taken_once_and_an_empty_or_unreadable_one_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "top")
    write(tmp_path / "a/AGENTS.md", " \n")
    (tmp_path / "a/CLAUDE.md").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/AGENTS.md").symlink_to(tmp_path / "AGENTS.md")
    assert [file.text for file in find_context_files(tmp_path, tmp_path / "a")] == ["top"]
    assert [file.text for file in find_context_files(tmp_path, tmp_path / "b")] == ["top"]


def test_in_a_work_tree_inside_its_repository_the_outer_copy_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "repo/AGENTS.md", "outer")
    write(tmp_path / "repo/trees/x/AGENTS.md", "inner")
    (tmp_path / "repo/.git/worktrees/x").mkdir(parents=True)
    write(tmp_path / "repo/trees/x/.git", f"gitdir: {tmp_path}/repo/.git/worktrees/x\n")
    found = find_context_files(tmp_path / "config", tmp_path / "repo/trees/x")
    assert [file.text for file in found] == ["inner"]


def test_a_very_long_context_file_is_cut_and_says_so(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "x" * 150_000)
    (file,) = find_context_files(tmp_path, tmp_path)
    assert file.text.endswith("x\n[the rest of AGENTS.md is left out: it is too long]") and len(file.text) < 101_000


def test_attached_files_become_blocks_and_images(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "one\ntwo\n")
    write(tmp_path / "empty.txt", "")
    (tmp_path / "dot.png").write_bytes(png())
    attached = attach_files(["a.txt", "empty.txt", str(tmp_path / "dot.png")], tmp_path)
    assert attached.text == (
        f'<file name="{tmp_path}/a.txt">\none\ntwo\n</file>\n<file name="{tmp_path}/dot.png"></file>\n'
    )
    assert attached.images == (ImagePart(base64.b64encode(png()).decode(), "image/png"),)


@pytest.mark.parametrize(
    ("name", "text"),
    [("missing.txt", "File not found: "), ("folder", "Not a file: "), ("data.bin", "is neither text nor an image")],
)
def test_what_cannot_be_attached_is_an_error_that_names_it(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "data.bin").write_bytes(b"a\0b")
    with pytest.raises(ConfigError, match=text) as caught:
        attach_files([name], tmp_path)
    assert str(tmp_path / name) in str(caught.value)


def test_a_damaged_image_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(png()[:30])
    with pytest.raises(ConfigError, match="Cannot attach the image"):
        attach_files(["bad.png"], tmp_path)
