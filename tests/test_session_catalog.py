import os
import time
from pathlib import Path

import pytest
from session_kit import HEADER, answer, entry, lines, user

from vikingpi.decode import Json
from vikingpi.errors import SessionError
from vikingpi.session.catalog import default_directory, find, list_sessions, newest


def put(folder: Path, session_id: str, age: float, *entries: Json, cwd: str = "/srv/app", tail: bytes = b"") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"2026-11-30T09-50-49-583Z_{session_id}.jsonl"
    path.write_bytes(lines({**HEADER, "id": session_id, "cwd": cwd}, *entries) + tail)
    when = 1_790_000_000 - age
    os.utime(path, (when, when))
    return path


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/srv/app/proj", "--srv-app-proj--"),
        ("/a b/c.d_e", "--a b-c.d_e--"),
        ("/c:\\x", "--c--x--"),
        ("/", "----"),
    ],
)
def test_the_folder_is_named_as_pi_names_it(cwd: str, name: str) -> None:
    assert default_directory(Path("/s"), cwd) == Path("/s") / name


def test_a_very_long_cwd_still_names_a_folder(tmp_path: Path) -> None:
    first, second = (default_directory(tmp_path, "/" + "/".join(["ordner-ü"] * 40) + end) for end in "ab")
    first.mkdir()
    assert first != second


def test_the_list_is_newest_first_with_name_text_and_count(tmp_path: Path) -> None:
    put(tmp_path, "old", 100, user("u1", None, "first question"), answer("a1", "u1"))
    put(
        tmp_path,
        "new",
        1,
        entry("session_info", "s0", None, name="wrong"),
        user("u1", "s0", "hello"),
        entry("session_info", "s1", "u1", name="Right"),
    )
    infos = list_sessions(tmp_path, None)
    assert [(info.id, info.name, info.first_text, info.messages) for info in infos] == [
        ("new", "Right", "hello", 1),
        ("old", "", "first question", 2),
    ]
    assert infos[0].mtime > infos[1].mtime
    assert infos[1].created == HEADER["timestamp"]


def test_a_long_file_is_described_by_its_ends(tmp_path: Path) -> None:
    filler = [answer(f"a{i}", None, "x" * 1000) for i in range(200)]
    system = entry("message", "s", None, message={"role": "system", "content": "y" * 60_000})
    path = put(
        tmp_path, "long", 1, system, user("u1", None, "after the system message"), *filler,
        entry("session_info", "n", None, name="At the end"), *filler[:5],
    )  # fmt: skip
    (info,) = list_sessions(tmp_path, None)
    assert (info.first_text, info.name, info.messages) == ("after the system message", "At the end", None)
    assert info.size == path.stat().st_size


def test_a_takeover_state_repeats_the_name(tmp_path: Path) -> None:
    filler = [answer(f"a{i}", None, "x" * 1000) for i in range(200)]
    state = entry("custom", "c", None, customType="ov-takeover", data={"name": "Kept"})
    put(tmp_path, "long", 1, entry("session_info", "s", None, name="Before"), *filler, state, answer("z", None))
    assert list_sessions(tmp_path, None)[0].name == "Kept"


def test_a_flat_folder_is_filtered_by_cwd(tmp_path: Path) -> None:
    mine = put(tmp_path, "mine", 50, user("u1", None))
    put(tmp_path, "other", 1, user("u1", None), cwd="/elsewhere")
    assert [info.id for info in list_sessions(tmp_path, "/srv/app")] == ["mine"]
    assert newest(tmp_path, "/srv/app") == mine
    assert newest(tmp_path, "/nowhere") is None


def test_the_newest_is_found_in_spite_of_damage(tmp_path: Path) -> None:
    put(tmp_path, "older", 100, user("u1", None))
    damaged = put(tmp_path, "damaged", 50, user("u1", None), tail=b"\0" * 1728)
    (tmp_path / "text.jsonl").write_text("no session")
    (tmp_path / "folder.jsonl").mkdir()
    assert newest(tmp_path, None) == damaged
    assert [info.id for info in list_sessions(tmp_path, None)] == ["damaged", "older"]


def test_a_folder_that_is_not_there_holds_no_sessions(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "none", None) == ()
    assert newest(tmp_path / "none", None) is None


def test_a_session_is_found_by_path_id_and_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "--here--", tmp_path / "--there--"
    first = put(here, "abc-1", 1, user("u1", None))
    second = put(here, "abc-12", 2, user("u1", None))
    away = put(there, "xyz", 3, user("u1", None))
    monkeypatch.chdir(here)
    assert find(first.name, here) == Path(first.name)
    assert find(str(away), here) == away
    assert find("abc-1", here) == first
    assert find("abc-12", here) == second
    assert find("xy", here, root=tmp_path) == away
    with pytest.raises(SessionError, match="2 sessions begin with abc"):
        find("abc", here)
    with pytest.raises(SessionError, match="no session xy"):
        find("xy", here)
    with pytest.raises(SessionError, match="does not exist"):
        find("./nothing.jsonl", here)
    with pytest.raises(SessionError):
        find("", here)


def test_a_renamed_file_is_found_by_the_id_in_its_header(tmp_path: Path) -> None:
    path = put(tmp_path, "the-id", 1, user("u1", None)).rename(tmp_path / "renamed.jsonl")
    assert find("the-id", tmp_path) == path


def test_many_long_files_are_listed_from_their_ends(tmp_path: Path) -> None:
    content = lines(HEADER, *(answer(f"a{i}", None, "x" * 900) for i in range(60)))
    for number in range(600):
        (tmp_path / f"2026_{number}.jsonl").write_bytes(content)
    start = time.process_time()
    assert newest(tmp_path, None) is not None
    middle = time.process_time()
    assert len(list_sessions(tmp_path, None)) == 600
    assert middle - start < 0.5
    assert time.process_time() - middle < 2
