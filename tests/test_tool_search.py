from __future__ import annotations

import asyncio
import json
import math
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE
from tool_kit import context_in, run, text_of

from vikingpi.app.options import RunOptions
from vikingpi.app.wiring import chosen_tools
from vikingpi.errors import ConfigError, ToolError
from vikingpi.tools.base import Tool, ToolContext, ToolOutcome
from vikingpi.tools.builtin import search_tools
from vikingpi.tools.find import FindTool
from vikingpi.tools.globs import to_regex
from vikingpi.tools.grep import GrepTool
from vikingpi.tools.ls import LsTool

RIPGREP = """#!/bin/sh
printf '%s\\n' "$@" > "$VPI_TEST_ARGUMENTS"
printf '%s\\n' '{"type":"begin","data":{}}'
printf '%s' '{"type":"match","data":{"path":{"bytes":"LS9iYWT/"},'
printf '%s\\n' '"lines":{"text":"hit\\n"},"line_number":7}}'
"""
FD = """#!/bin/sh
test -n "$VPI_TEST_FD_FAILS" && exit 2
printf './b.py\\0./A.py\\0./sub/\\0'
"""


def without_helpers(folder: Path) -> ToolContext:
    return context_in(folder, PATH=str(folder / "no-programs"))


def call(tool: Tool, folder: Path, **arguments: Any) -> ToolOutcome:
    return run(tool, without_helpers(folder), **arguments)


def tree(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_they_are_offered_apart_from_the_others() -> None:
    assert [tool.spec.name for tool in search_tools()] == ["grep", "find", "ls"]


def test_they_are_chosen_by_name() -> None:
    chosen = chosen_tools(RunOptions(tools="grep, read,ls"))
    assert [tool.spec.name for tool in chosen] == ["read", "grep", "ls"]
    with pytest.raises(ConfigError, match="no tool is called sed"):
        chosen_tools(RunOptions(tools="read,sed"))
    with pytest.raises(ConfigError, match="--tools names no tool"):
        chosen_tools(RunOptions(tools=" , "))


def test_ls_sorts_without_case_and_marks_folders(tmp_path: Path) -> None:
    for name in ("b.txt", "A.txt", ".hidden", os.fsdecode(b"bad\xff"), "two\nlines"):
        (tmp_path / name).write_text("")
    (tmp_path / "Dir").mkdir()
    text = text_of(call(LsTool(), tmp_path))
    assert text.split("\n") == [".hidden", "A.txt", "b.txt", "bad<0xFF>", "Dir/", "two\\nlines"]
    assert text_of(call(LsTool(), tmp_path, path="Dir")) == "(empty directory)"


def test_ls_stops_at_its_limit(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"f{number:03}").touch()
    outcome = call(LsTool(), tmp_path)
    assert text_of(outcome).endswith("f499\n\n[500 of 600 entries shown. Use limit=1000 for more]")
    assert outcome.details == {"entryLimitReached": 500}


def test_ls_names_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(ToolError, match=rf"^Not a directory: {tmp_path}/f$"):
        call(LsTool(), tmp_path, path="f")
    with pytest.raises(ToolError, match=rf"^Path not found: {tmp_path}/nope$"):
        call(LsTool(), tmp_path, path="nope")


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", "a.py a/b.py .x.py", "a.pyc a.py/c"),
        ("src/*.py", "src/a.py", "src/a/b.py x/src/a.py"),
        ("src/**/*.py", "src/a.py src/a/b/c.py", "a.py"),
        ("**/test", "test a/test a/b/test", "tests"),
        ("a/**", "a/b a/b/c", "a"),
        ("{a,b}?.txt", "a1.txt b2.txt", "c1.txt a.txt"),
        ("[!a]x", "bx", "ax"),
        ("[a-c]x", "bx", "dx"),
        ("/top", "top", "a/top"),
        ("\\*x", "*x", "ax"),
        ("a[", "a[", "a"),
        ("}", "}", "{"),
    ],
)
def test_globs(glob: str, yes: str, no: str) -> None:
    assert [path for path in yes.split() if not to_regex(glob).fullmatch(path)] == []
    assert [path for path in no.split() if to_regex(glob).fullmatch(path)] == []


def test_find_respects_gitignore_and_sees_hidden_files(tmp_path: Path) -> None:
    tree(
        tmp_path,
        _DOT_gitignore="build/\n*.log\n!keep.log\n/only_top.py\n# note\n",
        _DOT_git__x="",
        build__a_DOT_py="",
        src__a_DOT_py="",
        src__only_top_DOT_py="",
        only_top_DOT_py="",
        src__x_DOT_log="",
        src__keep_DOT_log="",
        _DOT_hidden__b_DOT_py="",
        src__sub___DOT_gitignore="/local.py\n",
        src__sub__local_DOT_py="",
    )
    found = text_of(call(FindTool(), tmp_path, pattern="*")).split("\n")
    assert found == [
        ".gitignore",
        ".hidden/",
        ".hidden/b.py",
        "src/",
        "src/a.py",
        "src/keep.log",
        "src/only_top.py",
        "src/sub/",
        "src/sub/.gitignore",
    ]
    assert text_of(call(FindTool(), tmp_path, pattern="*", path="src/sub")) == ".gitignore"
    assert text_of(call(FindTool(), tmp_path, pattern="SRC/*.py")) == "No files found matching pattern"
    assert text_of(call(FindTool(), tmp_path, pattern="src/**/A.PY".lower())) == "src/a.py"


def test_a_pattern_in_lower_case_finds_any_case(tmp_path: Path) -> None:
    tree(tmp_path, Readme_DOT_md="", src__READ_DOT_md="")
    assert text_of(call(FindTool(), tmp_path, pattern="read*.md")) == "Readme.md\nsrc/READ.md"
    assert text_of(call(FindTool(), tmp_path, pattern="Read*.md")) == "Readme.md"


def test_find_reads_gitignore_files_as_git_does(tmp_path: Path) -> None:
    tree(
        tmp_path,
        _DOT_gitignore="!\nx{a,b}\n\\#note\na/**/z\n*.o\n",
        xa="",
        sub___DOT_gitignore="!*.o\n",
        sub__kept_DOT_o="",
        lost_DOT_o="",
        a__b__z="",
        a__y="",
    )
    (tmp_path / "x{a,b}").touch()
    (tmp_path / "#note").touch()
    found = text_of(call(FindTool(), tmp_path, pattern="*")).split("\n")
    assert found == [".gitignore", "a/", "a/b/", "a/y", "sub/", "sub/.gitignore", "sub/kept.o", "xa"]


def test_find_looks_into_an_excluded_folder_that_was_named(tmp_path: Path) -> None:
    tree(tmp_path, _DOT_git__x="", _DOT_gitignore="build/\n*.log\n", build__a_DOT_py="", build__sub__b_DOT_py="")
    assert text_of(call(FindTool(), tmp_path, pattern="*.py", path="build")) == "a.py\nsub/b.py"
    assert text_of(call(FindTool(), tmp_path, pattern="*.py")) == "No files found matching pattern"


def test_find_stops_at_its_limit(tmp_path: Path) -> None:
    tree(tmp_path, a="", b="", c="")
    outcome = call(FindTool(), tmp_path, pattern="*", limit=2)
    assert text_of(outcome) == "a\nb\n\n[2 results limit reached. Use limit=4 for more, or a narrower pattern]"
    assert outcome.details == {"resultLimitReached": 2}


def test_find_uses_fd_where_it_can(tmp_path: Path) -> None:
    program = tmp_path / "bin/fd"
    program.parent.mkdir()
    program.write_text(FD)
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    assert text_of(run(FindTool(), context_in(tmp_path, PATH=path), pattern="*.py")) == "A.py\nb.py\nsub/"
    old = context_in(tmp_path, PATH=path, VPI_TEST_FD_FAILS="1")
    assert text_of(run(FindTool(), old, pattern="fd")) == "bin/fd"
    assert text_of(run(FindTool(), context_in(tmp_path, PATH=path), pattern="bin/*")) == "bin/fd"


def test_grep_shows_matches_with_context(tmp_path: Path) -> None:
    tree(tmp_path, a_DOT_py="one\ntwo\nthree\nfour\nfive\n", b_DOT_txt="THREE\r\n", _DOT_git__x="three")
    assert text_of(call(GrepTool(), tmp_path, pattern="thr.e")) == "a.py:3: three"
    assert text_of(call(GrepTool(), tmp_path, pattern="three", context=1)) == (
        "a.py-2- two\na.py:3: three\na.py-4- four"
    )
    assert text_of(call(GrepTool(), tmp_path, pattern="three", ignoreCase=True)) == "a.py:3: three\nb.txt:1: THREE"
    assert text_of(call(GrepTool(), tmp_path, pattern="thr.e", literal=True)) == "No matches found"
    assert text_of(call(GrepTool(), tmp_path, pattern="three", ignoreCase=True, glob="*.txt")) == "b.txt:1: THREE"
    assert text_of(call(GrepTool(), tmp_path, pattern="o$", path="a.py")) == "a.py:2: two"
    assert text_of(call(GrepTool(), tmp_path, pattern="--literal", literal=True)) == "No matches found"


def test_grep_respects_gitignore_and_sees_hidden_files(tmp_path: Path) -> None:
    tree(tmp_path, _DOT_gitignore="*.log\n", _DOT_env="hit\n", a_DOT_log="hit\n", src__b="hit\n", _DOT_git__x="hit\n")
    assert text_of(call(GrepTool(), tmp_path, pattern="hit")) == ".env:1: hit\nsrc/b:1: hit"


@pytest.mark.parametrize("tool", search_tools(), ids=lambda tool: tool.spec.name)
def test_a_long_list_is_cut_by_its_bytes(tmp_path: Path, tool: Tool) -> None:
    for number in range(400):
        (tmp_path / f"{'x' * 200}{number:03}").write_text("x\n")
    outcome = call(tool, tmp_path, pattern="x*", limit=1000)
    text = text_of(outcome)
    assert outcome.details is not None
    kept = outcome.details["truncation"]["outputLines"]
    assert text.endswith("\n\n[50.0KB limit reached]")
    assert len(text.split("\n")) == kept + 2 and 200 < kept < 400
    assert outcome.details["truncation"]["totalLines"] == 400


def test_grep_skips_binary_files_and_shows_bad_bytes(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"hit\0")
    (tmp_path / "latin").write_bytes(b"hit caf\xe9\n")
    assert text_of(call(GrepTool(), tmp_path, pattern="hit")) == "latin:1: hit caf\ufffd"


def test_grep_stops_at_its_limits(tmp_path: Path) -> None:
    tree(tmp_path, a="x\n" * 150, b="x" * 600 + "\n")
    outcome = call(GrepTool(), tmp_path, pattern="x", path="a")
    assert text_of(outcome).endswith(
        "a:100: x\n\n[100 matches limit reached. Use limit=200 for more, or a narrower pattern]"
    )
    assert outcome.details == {"matchLimitReached": 100}
    outcome = call(GrepTool(), tmp_path, pattern="x", path="b")
    assert text_of(outcome) == (
        f"b:1: {'x' * 500}... [truncated]\n\n[Some lines cut to 500 characters. Use read to see them whole]"
    )
    assert outcome.details == {"linesTruncated": True}


def test_grep_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"The search failed: invalid pattern"):
        call(GrepTool(), tmp_path, pattern="(")
    with pytest.raises(ToolError, match=r"Path not found: .*nope"):
        call(GrepTool(), tmp_path, pattern="x", path="nope")


def test_a_module_of_the_project_is_not_run(tmp_path: Path) -> None:
    tree(tmp_path, json_DOT_py="open('was_run', 'w')", a="hit\n")
    assert text_of(call(GrepTool(), tmp_path, pattern="hit", glob="a")) == "a:1: hit"
    assert not (tmp_path / "was_run").exists()


def test_an_endless_pattern_can_be_cancelled(tmp_path: Path) -> None:
    tree(tmp_path, a="a" * 60 + "\n")

    async def cancelled() -> float:
        task = asyncio.create_task(GrepTool().run({"pattern": "(a+)+$b"}, without_helpers(tmp_path)))
        await asyncio.sleep(0.3)
        begin = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begin

    assert asyncio.run(cancelled()) < PATIENCE


def test_grep_uses_ripgrep_where_there_is_one(tmp_path: Path) -> None:
    program = tmp_path / "bin/rg"
    program.parent.mkdir()
    program.write_text(RIPGREP)
    program.chmod(0o755)
    seen = tmp_path / "arguments"
    path = f"{program.parent}:{os.environ['PATH']}"
    context = context_in(tmp_path, PATH=path, VPI_TEST_ARGUMENTS=str(seen))
    text = text_of(run(GrepTool(), context, pattern="-x", glob="*.c", context=2, literal=True, ignoreCase=True))
    assert text == "-/bad<0xFF>:7: hit"
    assert seen.read_text().split("\n")[:-1] == [
        "--json",
        "--no-config",
        "--hidden",
        "--no-require-git",
        "--sort=path",
        "--ignore-case",
        "--fixed-strings",
        "--context=2",
        "--glob=*.c",
        "--glob=!.git",
        "--regexp=-x",
        "--",
        ".",
    ]


def found_by(program: str, folder: Path, pattern: str, line: bytes, span: tuple[int, int]) -> ToolOutcome:
    """Search a file of one line by the own search, or with what ripgrep says of that line."""
    (folder / "a").write_bytes(line + b"\n")
    if program == "own":
        return call(GrepTool(), folder, pattern=pattern)
    data = {
        "path": {"text": "./a"},
        "lines": {"text": line.decode() + "\n"},
        "line_number": 1,
        "submatches": [{"start": span[0], "end": span[1]}, {"start": 0, "end": 1}],
    }
    (folder / "events").write_text(json.dumps({"type": "match", "data": data}) + "\n")
    rg = folder / "bin/rg"
    rg.parent.mkdir()
    rg.write_text(f"#!/bin/sh\ncat {folder}/events\n")
    rg.chmod(0o755)
    return run(GrepTool(), context_in(folder, PATH=f"{rg.parent}:{os.environ['PATH']}"), pattern=pattern)


@pytest.mark.parametrize("program", ["own", "rg"])
@pytest.mark.parametrize(
    ("before", "match", "after", "shown"),
    [
        (
            "a" * 100_000,
            "needle",
            "b" * 20_000,
            f"[99753 characters cut] ...{'a' * 247}needle{'b' * 247}... [19753 characters cut]",
        ),
        ("é" * 1000, "needle", "", f"[506 characters cut] ...{'é' * 494}needle"),
        ("é" * 600, "needle", "b" * 10, f"[116 characters cut] ...{'é' * 484}needle{'b' * 10}"),
        ("é" * 494, "needle", "b" * 900, f"{'é' * 494}needle... [truncated]"),
        ("a" * 1000, "x" * 900, "b" * 50, f"[1000 characters cut] ...{'x' * 500}... [450 characters cut]"),
        ("", "x" * 900, "", f"{'x' * 500}... [truncated]"),
    ],
    ids=["in the middle", "at the end", "near the end", "at the beginning", "longer than the part", "the whole line"],
)
def test_a_long_line_is_shown_around_its_match(
    tmp_path: Path, program: str, before: str, match: str, after: str, shown: str
) -> None:
    start, end = len(before.encode()), len((before + match).encode())
    outcome = found_by(program, tmp_path, "needle|x+", (before + match + after).encode(), (start, end))
    assert text_of(outcome) == f"a:1: {shown}\n\n[Some lines cut to 500 characters. Use read to see them whole]"
    assert outcome.details == {"linesTruncated": True}


def test_a_long_line_that_is_no_utf8_and_one_beside_a_match_are_cut_as_well(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff" * 1000 + b"needle" + b"\xff" * 1000 + b"\n" + b"c" * 600 + b"\n")
    bad = "\ufffd" * 247
    text = text_of(call(GrepTool(), tmp_path, pattern="needle", context=1))
    assert text.split("\n")[:2] == [
        f"a:1: [753 characters cut] ...{bad}needle{bad}... [753 characters cut]",
        f"a-2- {'c' * 500}... [truncated]",
    ]


@pytest.mark.parametrize("gap", range(225, 256, 5))
def test_the_part_of_a_long_line_never_begins_or_ends_within_a_secret(tmp_path: Path, gap: int) -> None:
    secret = "SECRET-1234567890"
    (tmp_path / "a").write_text(f"{'a' * 5000}{secret}{'a' * gap}needle{'b' * gap}{secret}{'b' * 5000}\n")

    def mask(text: str) -> str:
        return text.replace(secret, "***")

    context = without_helpers(tmp_path)._replace(mask=mask)
    shown = text_of(run(GrepTool(), context, pattern="needle")).split("\n")[0]
    part = re.fullmatch(r"a:1: \[\d+ characters cut\] \.\.\.(.*)\.\.\. \[\d+ characters cut\]", shown)
    assert part is not None
    assert set(part[1].replace(secret, "").replace("needle", "", 1)) == {"a", "b"}


@pytest.mark.parametrize("tool", search_tools(), ids=lambda tool: tool.spec.name)
@pytest.mark.parametrize("limit", [0, -1, -1e300, 0.5])
def test_a_limit_below_one_is_refused(tmp_path: Path, tool: Tool, limit: float) -> None:
    with pytest.raises(ToolError, match=r"^Invalid limit: -?[\de+]+; it must be at least 1$"):
        call(tool, tmp_path, pattern="x", limit=limit)


@pytest.mark.parametrize("tool", search_tools(), ids=lambda tool: tool.spec.name)
@pytest.mark.parametrize("limit", [math.nan, math.inf, True, "2"])
def test_a_limit_that_is_no_finite_number_is_refused(tmp_path: Path, tool: Tool, limit: object) -> None:
    with pytest.raises(ToolError, match=r"^Invalid limit: must be a finite number$"):
        call(tool, tmp_path, pattern="x", limit=limit)


@pytest.mark.parametrize("limit", [2.9, 1e300, 10**400], ids=lambda value: str(value)[:9])
def test_a_limit_may_be_broken_and_of_any_size(tmp_path: Path, limit: float) -> None:
    tree(tmp_path, x1="x\n", x2="x\n")
    assert text_of(call(GrepTool(), tmp_path, pattern="x", limit=limit)) == "x1:1: x\nx2:1: x"
    assert text_of(call(FindTool(), tmp_path, pattern="x*", limit=limit)) == "x1\nx2"
    assert text_of(call(LsTool(), tmp_path, limit=limit)) == "x1\nx2"


@pytest.mark.parametrize(
    ("context", "shown"),
    [(-1, "a:2: x"), (0.9, "a:2: x"), (1.9, "a-1- 1\na:2: x\na-3- 3"), (1e300, "a-1- 1\na:2: x\na-3- 3")],
)
def test_context_may_be_broken_and_of_any_size(tmp_path: Path, context: float, shown: str) -> None:
    tree(tmp_path, a="1\nx\n3\n")
    assert text_of(call(GrepTool(), tmp_path, pattern="x", context=context)) == shown
    with pytest.raises(ToolError, match=r"^Invalid context: must be a finite number$"):
        call(GrepTool(), tmp_path, pattern="x", context=math.nan)


@pytest.mark.parametrize("tool", search_tools(), ids=lambda tool: tool.spec.name)
def test_a_place_that_cannot_be_searched_is_named(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone")
    os.mkfifo(tmp_path / "fifo")
    for path, message in [
        ("gone", "^Path not found: .*/gone$"),
        ("nowhere", "^Path not found: .*/nowhere$"),
        ("file/below", "^Path not found: .*/file/below$"),
        ("x" * 300, "^ENAMETOOLONG: file name too long: "),
        ("loop", "^ELOOP: "),
        ("fifo", "^Not a (directory|regular file): .*/fifo$"),
    ]:
        with pytest.raises(ToolError, match=message):
            call(tool, tmp_path, pattern="x", path=path)


def test_a_bad_link_hides_no_other_entry(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "long").symlink_to("x" * 300)
    (tmp_path / "a").write_text("hit\n")
    (tmp_path / "b").symlink_to(".")
    assert text_of(call(LsTool(), tmp_path)) == "a\nb/\ngone\nlong\nloop"
    assert text_of(call(FindTool(), tmp_path, pattern="*")) == "a\nb\ngone\nlong\nloop"
    assert text_of(call(GrepTool(), tmp_path, pattern="hit")) == "a:1: hit"
