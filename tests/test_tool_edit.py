from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_kit import context_in, run, text_of

from vikingpi.decode import Json
from vikingpi.errors import ToolError
from vikingpi.tools.base import lock_key
from vikingpi.tools.builtin import builtin_tools
from vikingpi.tools.edit import EditTool
from vikingpi.tools.matching import Source

TOOL = EditTool()


def edit(folder: Path, data: bytes, *edits: tuple[str, str]) -> tuple[bytes, Json]:
    path = folder / "f.txt"
    path.write_bytes(data)
    items = [{"oldText": old, "newText": new} for old, new in edits]
    outcome = run(TOOL, context_in(folder), path="f.txt", edits=items)
    assert text_of(outcome) == f"Successfully replaced {len(edits)} block(s) in f.txt."
    return path.read_bytes(), outcome.details or {}


def refused(folder: Path, data: bytes, *edits: tuple[str, str]) -> str:
    with pytest.raises(ToolError) as caught:
        edit(folder, data, *edits)
    assert (folder / "f.txt").read_bytes() == data
    assert [path.name for path in folder.iterdir()] == ["f.txt"]
    return str(caught.value)


def test_exact_text_is_replaced(tmp_path: Path) -> None:
    data, details = edit(tmp_path, b"one\ntwo\nthree", ("two", "2"), ("one", "1"))
    assert data == b"1\n2\nthree"
    assert details["firstChangedLine"] == 1
    assert details["diff"] == "-1 one\n-2 two\n+1 1\n+2 2\n 3 three"


def test_all_edits_are_looked_up_in_the_original(tmp_path: Path) -> None:
    assert edit(tmp_path, b"a b", ("a", "b"), ("b", "a"))[0] == b"b a"


def test_only_the_matched_span_changes_when_the_match_is_not_exact(tmp_path: Path) -> None:
    before = "a = \u201cx\u201d  \nb = 1   \nc \u2014 d\u00a0e\n".encode()
    data, details = edit(tmp_path, before, ("b = 1\nc - d e", "b = 2\nc - d e"))
    assert data == "a = \u201cx\u201d  \nb = 2\nc \u2014 d\u00a0e\n".encode()
    assert "-2 b = 1   \n+2 b = 2\n" in details["diff"]
    assert " 1 a = \u201cx\u201d  \n" in details["diff"]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("say \u201chi\u201d now \u201cho\u201d", 'say "hi"', 'say "yo"', 'say "yo" now \u201cho\u201d'),
        ("x\u00a0=\u00a01; y\u00a0=\u00a02", "x = 1", "x = 3", "x = 3; y\u00a0=\u00a02"),
        ("caf\u00e9 A", "cafe\u0301 A", "tea", "tea"),
        ("cafe\u0301 A", "caf\u00e9 A", "tea", "tea"),
        ("\uff41\uff42\uff43 end", "abc", "x", "x end"),
        ("a \t \nb\t\nc  ", "a\nb\nc", "A\nb\nC", "A\nb\t\nC  "),
        ("if x:   \n    go\n", "if x:\n    go\n", "if y:\n    go\n", "if y:\n    go\n"),
        ("it\u2019s here", "it's ", "it is ", "it is here"),
        ("one\u2019s\ntwo", "one's  \ntwo", "1's  \ntwo", "1's  \ntwo"),
    ],
)
def test_look_alikes_are_found(tmp_path: Path, before: str, old: str, new: str, after: str) -> None:
    assert edit(tmp_path, before.encode(), (old, new))[0].decode() == after


def test_an_exact_match_is_unique_although_another_place_looks_like_it(tmp_path: Path) -> None:
    data, _ = edit(tmp_path, 'a "x"\na \u201cx\u201d\n'.encode(), ('a "x"', "b"))
    assert data == "b\na \u201cx\u201d\n".encode()


def test_half_of_a_character_is_not_found(tmp_path: Path) -> None:
    assert "Could not find" in refused(tmp_path, "\ufb01x".encode(), ("ix", "y"))


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\n", "a\nb", "a\nX", b"a\r\nX\r\nc\n"),
        (b"a\r\nb\r\nc\n", "c", "d", b"a\r\nb\r\nd\n"),
        (b"a\r\nb\r\nc\n", "b", "b\nnew", b"a\r\nb\r\nnew\r\nc\n"),
        (b"a\r\nb\nc\r\nd", "a\nb\nc\n", "a\nB\nc\n", b"a\r\nB\nc\r\nd"),
        (b"a\r\nb\nc\r\nd", "b\nc", "x\ny\nz", b"a\r\nx\ny\nz\r\nd"),
        (b"a\r\nb\r\nlast", "last", "last\nmore", b"a\r\nb\r\nlast\r\nmore"),
        (b"a\r\nb\r\n", "a\r\nb", "a\r\nc", b"a\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\n", "", b"b\r\n"),
        (b"a\rb\rc", "a\nb", "a\nx\nb", b"a\rx\rb\rc"),
        (b"10%\r20%\nend\n", "end", "x\ny", b"10%\r20%\nx\ny\n"),
        (b"one line", "one", "1\n2", b"1\n2 line"),
        (b"a\n\r\nb", "\n\nb", "\nb", b"a\nb"),
    ],
)
def test_every_line_keeps_its_own_ending(tmp_path: Path, before: bytes, old: str, new: str, after: bytes) -> None:
    assert edit(tmp_path, before, (old, new))[0] == after


def test_bom_and_bytes_that_are_no_utf8_stay(tmp_path: Path) -> None:
    assert edit(tmp_path, b"\xef\xbb\xbfa\xff\xfe b", ("b", "c\ud83d"))[0] == b"\xef\xbb\xbfa\xff\xfe c\xef\xbf\xbd"


def test_refusals_say_why_and_change_nothing(tmp_path: Path) -> None:
    data = b"x = 1\nx = 1\ny = 2\n"
    assert refused(tmp_path, data, ("x = 1", "z")).startswith("Found 2 occurrences of oldText in f.txt.")
    assert refused(tmp_path, data, ("nope", "z")).startswith("Could not find oldText in f.txt.")
    assert refused(tmp_path, data, ("", "z")) == "oldText must not be empty in f.txt."
    assert refused(tmp_path, data, ("y", "y")).startswith("No changes made to f.txt")
    assert refused(tmp_path, data, ("y = 2", "a"), ("= 2", "b")).startswith("edits[0] and edits[1] overlap in f.txt.")
    assert refused(tmp_path, data, ("y", "z"), ("nope", "z")).startswith("Could not find edits[1].oldText in f.txt.")
    assert refused(tmp_path, b"aaa", ("aa", "b")).startswith("Found 2 occurrences")
    text = "\u2018a\u2019 \u201aa\u201b".encode()
    assert refused(tmp_path, text, ("'a'", "b")).startswith("Found 2 occurrences that look like it of oldText")
    assert refused(tmp_path, b"a\n\nb", ("   \n  ", "b")).startswith("Could not find")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^Could not edit file: nope\. Error code: ENOENT"):
        run(TOOL, context_in(tmp_path), path="nope", edits=[{"oldText": "a", "newText": "b"}])
    with pytest.raises(ToolError, match="EISDIR"):
        run(TOOL, context_in(tmp_path), path=".", edits=[{"oldText": "a", "newText": "b"}])


def test_mode_and_link_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.sh"
    real.write_text("a")
    real.chmod(0o751)
    (tmp_path / "link").symlink_to("real.sh")
    run(TOOL, context_in(tmp_path), path="link", edits=[{"oldText": "a", "newText": "b"}])
    assert (tmp_path / "link").is_symlink()
    assert real.read_text() == "b"
    assert stat.S_IMODE(real.stat().st_mode) == 0o751


def test_a_hard_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("long text")
    os.link(tmp_path / "a", tmp_path / "b")
    run(TOOL, context_in(tmp_path), path="a", edits=[{"oldText": "long text", "newText": "x"}])
    assert (tmp_path / "b").read_text() == "x"


def test_changes_of_one_file_share_a_key_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "link").symlink_to("a")
    read, bash, edit_tool, write = builtin_tools()
    context = context_in(tmp_path)
    keys = {lock_key(edit_tool, {"path": "link"}, context), lock_key(write, {"path": "./x/../a"}, context)}
    assert keys == {str(tmp_path / "a")}
    assert lock_key(read, {"path": "a"}, context) is None
    assert lock_key(bash, {"command": "a"}, context) is None
    assert lock_key(write, {"path": "\0"}, context) is None
    assert lock_key(write, {}, context) is None


def test_the_diff_of_a_large_file_shows_only_what_changed(tmp_path: Path) -> None:
    before = "".join(f"line {n}\n" for n in range(1, 100_001)).encode()
    data, details = edit(tmp_path, before, ("line 500\n", "line 500\nadded\n"), ("line 90000\n", ""))
    assert data.count(b"\n") == 100_000
    assert details["firstChangedLine"] == 501
    lines = details["diff"].split("\n")
    assert len(lines) == 21
    assert lines[0].strip() == lines[10].strip() == lines[-1].strip() == "..."
    assert lines[5] == "+   501 added"
    assert lines[15] == "- 90000 line 90000"


def test_a_huge_file_is_left_to_other_programs(tmp_path: Path) -> None:
    with (tmp_path / "f.txt").open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(ToolError, match=r"f.txt is too large to edit, at most 16.0MB are\. Change it with bash"):
        run(TOOL, context_in(tmp_path), path="f.txt", edits=[{"oldText": "a", "newText": "b"}])


def test_look_alikes_are_not_looked_for_in_a_large_file(tmp_path: Path) -> None:
    large = "“x”\n".encode() + b"line of text\n" * 80_000
    assert "Could not find oldText" in refused(tmp_path, large, ('"x"', "y"))
    assert edit(tmp_path, large, ("“x”", "y"))[0].startswith(b"y\nline")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "d", "\n", "e\n"]), max_size=30).map("".join),
    st.data(),
)
def test_the_patch_turns_the_old_file_into_the_new(
    tmp_path_factory: pytest.TempPathFactory, before: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, max(0, len(before) - 1)))
    old = before[start : start + data.draw(st.integers(1, 12))]
    new = data.draw(st.sampled_from(["", "x", "x\n", "\n", "a\nx\n", old + "y", "y" + old]))
    folder = tmp_path_factory.mktemp("patch")
    try:
        after, details = edit(folder, before.encode(), (old, new))
    except ToolError:
        return
    if shutil.which("patch") is None:
        return
    (folder / "f.txt").write_bytes(before.encode())
    command = ["patch", "--binary", "-s", "-p0", "f.txt"]
    done = subprocess.run(command, input=details["patch"].encode(), cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    rest = (folder / "f.txt").read_bytes() if (folder / "f.txt").exists() else b""
    assert rest == after


@given(st.text(alphabet="ab \t\n\r\u00a0\u2014\u201c\ufb01e\u0301\uac00\u1100\u1161", max_size=30), st.data())
def test_a_span_of_a_look_alike_lies_within_the_text(raw: str, data: st.DataObject) -> None:
    wanted = data.draw(st.text(alphabet='ab \n-"fie', min_size=1, max_size=4))
    source = Source(raw)
    for span in source.find(wanted).spans:
        assert 0 <= span.start < span.end <= len(source.text)
        assert source.text[span.start : span.end].count("\n") == wanted.count("\n")
        whole = raw[: source.to_raw(span.start)] + source.rewrite(span, wanted, wanted)
        assert raw.startswith(whole)
