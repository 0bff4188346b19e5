from __future__ import annotations

import base64
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tool_kit import context_in, run, text_of

from vikingpi.errors import ToolError
from vikingpi.messages import ImagePart
from vikingpi.safetext import seen
from vikingpi.tools.edit import EditTool
from vikingpi.tools.paths import shown
from vikingpi.tools.read import ReadTool
from vikingpi.tools.write import WriteTool

TOOL = ReadTool()


def png(width: int, height: int, padding: int = 0) -> bytes:
    size = struct.pack(">II", width, height)
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + b"\x08\x02" + b"x" * padding + b"\0\0\0\0IEND\xaeB`\x82"


def jpeg(width: int, height: int) -> bytes:
    app = b"\xff\xe0\x00\x10" + b"J" * 14
    return b"\xff\xd8" + app + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"x" * 20 + b"\xff\xd9"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0\x3b"


def webp(width: int, height: int) -> bytes:
    body = b"WEBPVP8X\x0a\0\0\0\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def read(folder: Path, path: str, **arguments: Any) -> str:
    return text_of(run(TOOL, context_in(folder), path=path, **arguments))


def test_text_is_given_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\n\ttwo\nno end")
    assert read(tmp_path, "a.txt") == "one\r\n\ttwo\nno end"
    assert read(tmp_path, str(tmp_path / "a.txt")) == "one\r\n\ttwo\nno end"
    assert read(tmp_path, "@a.txt") == "one\r\n\ttwo\nno end"


def test_home_is_the_home_of_the_commands(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("home")
    context = context_in(tmp_path / "..", HOME=str(tmp_path))
    assert text_of(run(TOOL, context, path="~/a.txt")) == "home"


def test_a_folder_that_begins_with_an_at_sign_is_found(tmp_path: Path) -> None:
    (tmp_path / "@types").mkdir()
    (tmp_path / "@types/a").write_text("scoped")
    assert read(tmp_path, "@types/a") == "scoped"


def test_long_text_is_cut_by_lines_and_can_be_continued(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    outcome = run(TOOL, context_in(tmp_path), path="a")
    text = text_of(outcome)
    assert text.endswith("line 2000\n\n[Showing lines 1-2000 of 5001. Use offset=2001 to continue.]")
    assert outcome.details is not None
    assert outcome.details["truncation"]["truncatedBy"] == "lines"
    assert outcome.details["truncation"]["totalLines"] == 5001
    text = read(tmp_path, "a", offset=2001)
    assert text.startswith("line 2001\n")
    assert text.endswith("[Showing lines 2001-4000 of 5001. Use offset=4001 to continue.]")
    assert read(tmp_path, "a", offset=4001).endswith("line 5000\n")


def test_offset_and_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    text = read(tmp_path, "a", offset=11, limit=2)
    assert text == "line 11\nline 12\n\n[4989 more lines in file. Use offset=13 to continue.]"
    with pytest.raises(ToolError, match=r"Offset 9999 is beyond end of file \(5001 lines total\)"):
        read(tmp_path, "a", offset=9999)
    with pytest.raises(ToolError, match="Invalid limit"):
        read(tmp_path, "a", limit=0)


@pytest.mark.parametrize("offset", [1, 0, -5, 1.9, -1e300, -(10**400)], ids=lambda value: str(value)[:9])
def test_an_offset_before_the_first_line_means_the_first(tmp_path: Path, offset: float) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    assert read(tmp_path, "a", offset=offset) == "one\ntwo\nthree\n"


def test_a_broken_offset_or_limit_counts_without_its_fraction(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    assert read(tmp_path, "a", offset=2.9) == "two\nthree\n"
    assert read(tmp_path, "a", offset=2.0, limit=1.9) == "two\n\n[2 more lines in file. Use offset=3 to continue.]"


@pytest.mark.parametrize(
    ("offset", "named"),
    [(5, "5"), (10**20, "1" + "0" * 20), (1e300, "1e\\+300"), (1e21, "1e\\+21"), (10**400, "1e\\+308")],
    ids=lambda value: str(value)[:9],
)
def test_an_offset_behind_the_end_is_named_as_it_was_given(tmp_path: Path, offset: float, named: str) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    with pytest.raises(ToolError, match=rf"^Offset {named} is beyond end of file \(4 lines total\)$"):
        read(tmp_path, "a", offset=offset)
    assert read(tmp_path, "a", offset=4) == ""


@pytest.mark.parametrize("limit", [4, 4.5, 1e300, 10**400], ids=lambda value: str(value)[:9])
def test_a_limit_over_the_length_of_the_file_gives_all_of_it(tmp_path: Path, limit: float) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    assert read(tmp_path, "a", limit=limit) == "one\ntwo\nthree\n"


@pytest.mark.parametrize(("limit", "named"), [(0, "0"), (-3, "-3"), (0.5, "0"), (-1e300, "-1e\\+300")])
def test_a_limit_below_one_is_refused(tmp_path: Path, limit: float, named: str) -> None:
    (tmp_path / "a").write_text("one\n")
    with pytest.raises(ToolError, match=rf"^Invalid limit: {named}; it must be at least 1$"):
        read(tmp_path, "a", limit=limit)


@pytest.mark.parametrize("name", ["offset", "limit"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, False, "2"])
def test_what_is_no_finite_number_is_refused(tmp_path: Path, name: str, value: object) -> None:
    (tmp_path / "a").write_text("one\n")
    with pytest.raises(ToolError, match=rf"^Invalid {name}: must be a finite number$"):
        read(tmp_path, "a", **{name: value})


def test_long_text_is_cut_by_bytes(tmp_path: Path) -> None:
    wide = "\u9879" * 100
    (tmp_path / "a").write_text("".join(f"{n:04} {wide}\n" for n in range(1, 501)))
    text = read(tmp_path, "a")
    assert text.endswith("[Showing lines 1-167 of 501 (50.0KB limit). Use offset=168 to continue.]")
    assert read(tmp_path, "a", offset=168).startswith("0168 \u9879")


def test_a_line_that_is_too_long_gets_a_hint(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("short\n" + "x" * 3_000_000 + "\nend\n")
    text = read(tmp_path, "a b", offset=2)
    assert text == ("[Line 2 is 2.9MB, over the limit of 50.0KB. Use bash: sed -n '2p' 'a b' | head -c 51200]")
    assert read(tmp_path, "a b", limit=1).startswith("short\n\n[3 more lines")


def test_a_large_file_is_read_without_holding_it(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        for _ in range(64):
            file.write(b"0123456789abcde\n" * 65536)
    text = read(tmp_path, "a", offset=4_194_304, limit=1)
    assert text.startswith("0123456789abcde\n\n[1 more lines")


def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9 ok\n")
    assert read(tmp_path, "a") == "caf\ufffd ok\n"
    (tmp_path / "b").write_bytes(b"\xef\xbb\xbfwith mark")
    assert read(tmp_path, "b") == "with mark"


def test_an_empty_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert read(tmp_path, "a") == "[The file is empty]"


ODD_NAMES = [
    os.fsdecode(b"bad\xff.txt"),
    os.fsdecode(b"\xe9\xfe"),
    "two\nlines",
    "back\rward",
    "na\x1b]2;file\x07me",
    "photo\u202egnp.exe",
    "wide\xa0blank\u3000",
    "tab\tbed",
    "zero\u200bwidth\ufeff",
    "del\x7f\x9b2J",
    "tag\U000e0041",
]


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("write", [seen, shown], ids=["as the chat writes it", "as lists write it"])
def test_a_name_that_is_not_seen_as_it_is_is_found_by_what_was_shown(
    tmp_path: Path, name: str, write: Callable[[str], str]
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / name).write_text("found")
    (tmp_path / name / "other").write_text("no")
    written = f"@{write(name)}/{write(name)}"
    assert read(tmp_path, written) == "found"
    context = context_in(tmp_path)
    edits = [{"oldText": "found", "newText": "changed"}]
    run(EditTool(), context, path=written, edits=edits)
    assert read(tmp_path, written) == "changed"
    run(WriteTool(), context, path=written, content="written")
    assert (tmp_path / name / name).read_text() == "written"
    assert {each.name for each in (tmp_path / name).iterdir()} == {name, "other"}


def test_a_name_that_is_there_means_no_other_that_is_shown_alike(tmp_path: Path) -> None:
    for name in ("a\u241bb", "a\x1bb", os.fsdecode(b"c\xff"), os.fsdecode(b"c\xfe")):
        (tmp_path / name).write_text(repr(name))
    assert read(tmp_path, "a\u241bb") == repr("a\u241bb")
    assert read(tmp_path, "c<0xFE>") == repr(os.fsdecode(b"c\xfe"))
    with pytest.raises(ToolError, match="ENOENT"):
        read(tmp_path, "c\ufffd")


def test_a_name_that_is_no_utf8_is_found_by_what_was_shown(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff.txt")).write_text("found")
    assert read(tmp_path, "bad\ufffd.txt") == "found"
    (tmp_path / "Bild 3.00\u202fPM e\u0301").write_text("also")
    assert read(tmp_path, "Bild 3.00 PM \u00e9") == "also"


def test_what_is_no_text_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "wide").write_bytes("text".encode("utf-16"))
    os.mkfifo(tmp_path / "fifo")
    for name, message in [
        ("missing", "ENOENT: no such file or directory: .*missing"),
        (".", "EISDIR: is a directory"),
        ("bin", r"bin is a binary file \(7B\)"),
        ("wide", "UTF-16"),
        ("fifo", "Not a regular file"),
        ("", "it is empty"),
        ("a\0b", "NUL"),
        ("lone\ud83d", "ENOENT.*lone\ufffd"),
    ]:
        with pytest.raises(ToolError, match=message):
            read(tmp_path, name)


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (png(3, 2), "image/png"),
        (jpeg(3, 2), "image/jpeg"),
        (gif(3, 2), "image/gif"),
        (webp(3, 2), "image/webp"),
    ],
)
def test_an_image_is_known_by_its_content(tmp_path: Path, data: bytes, mime_type: str) -> None:
    (tmp_path / "picture.txt").write_bytes(data)
    note, image = run(TOOL, context_in(tmp_path), path="picture.txt").content
    assert isinstance(image, ImagePart)
    assert image.mime_type == mime_type
    assert base64.b64decode(image.data) == data
    assert f"[{mime_type}], 3x2 pixels" in repr(note)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (png(9000, 100), "9000x100 pixels"),
        (jpeg(100, 9000), "100x9000 pixels"),
        (webp(9000, 1), "9000x1 pixels"),
        (png(10, 10, 6_000_000), "5.7MB are over the limit"),
        (png(10, 10, 4_000_000), "over the limit"),
        (png(10, 10)[:-12], "cut off"),
        (jpeg(10, 10)[:-2], "cut off"),
        (webp(10, 10)[:-1], "cut off"),
        (png(0, 10), "damaged"),
        (b"\xff\xd8\xff\xe0", "damaged"),
        (b"GIF89a", "damaged"),
    ],
)
def test_an_image_that_providers_refuse_is_an_error(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(ToolError, match=message):
        read(tmp_path, "a.png")
