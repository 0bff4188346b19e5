import json
from pathlib import Path

import pytest
from session_kit import HEADER, SAMPLES, answer, entry, ids, lines, opened, parsed, session_file, user

from vikingpi.decode import Json
from vikingpi.errors import SessionError
from vikingpi.messages import user_text
from vikingpi.session.file import open_session
from vikingpi.session.reader import read_end, read_session
from vikingpi.session.tree import build_context

SAMPLE = next(sample for sample in SAMPLES if sample.stem == "tool-call-ok")


def test_every_prefix_of_a_file_opens_and_goes_on(tmp_path: Path) -> None:
    whole = SAMPLE.read_bytes()
    path = tmp_path / "s.jsonl"
    for size in (*range(300), *range(300, len(whole), 41), *range(len(whole) - 60, len(whole) + 1)):
        path.write_bytes(whole[:size])
        log = open_session(path, tmp_path / "locks", cwd="/srv/app")
        complete = whole[:size].count(b"\n") + (1 if size == len(whole) else 0)
        leaf = log.leaf_id
        assert len(log.entries) >= max(0, complete - 2)
        added = log.append_message(user_text("next", 1))
        log.close()
        again = open_session(path, tmp_path / "locks", cwd="/srv/app", whole_below=0)
        again.close()
        assert path.read_bytes().startswith(whole[:size])
        assert added.parent_id == leaf
        assert again.leaf_id == added.id
        assert again.id == log.id


def test_a_torn_last_line_is_ignored_and_closed(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None), answer("a1", "u1"))
    path.write_bytes(path.read_bytes()[:-40])
    log = opened(path)
    assert log.notices == ("the last line of the session file is torn; it is ignored",)
    added = log.append_message(user_text("next", 1))
    assert added.parent_id == "u1"
    *_, torn, last = path.read_bytes().splitlines()
    assert json.loads(last)["id"] == added.id
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(torn)


def test_a_good_last_line_without_newline_counts(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None))
    path.write_bytes(path.read_bytes()[:-1])
    log = opened(path)
    assert log.notices == ()
    log.append_message(user_text("next", 1))
    assert [found["type"] for found in parsed(path)] == ["session", "message", "message"]


def test_nul_bytes_in_the_middle_hide_nothing(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None))
    path.write_bytes(path.read_bytes() + b"\0" * 512 + b"\n" + lines(answer("a1", "u1")))
    log = opened(path)
    assert ids(log) == ["u1", "a1"]
    assert log.notices == ("skipped 1 unreadable line in the session file (the first is line 3)",)


def test_nul_bytes_before_an_entry_on_its_line_do_not_hide_it(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None))
    path.write_bytes(path.read_bytes() + b"\0" * 100 + lines(answer("a1", "u1")))
    assert ids(opened(path)) == ["u1", "a1"]


def test_nul_bytes_at_the_end_are_closed(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None), tail=b"\0" * 1728)
    log = opened(path)
    assert len(log.notices) == 1
    added = log.append_message(user_text("next", 1))
    log.close()
    again = opened(path)
    assert ids(again) == ["u1", added.id]
    assert len(again.notices) == 1


def test_garbage_lines_are_counted(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None))
    path.write_bytes(
        path.read_bytes() + b"garbage\n[1,2]\n\n7\n" + b'{"a":' * 100_000 + b"\n" + lines(answer("a1", "u1"))
    )
    log = opened(path)
    assert ids(log) == ["u1", "a1"]
    assert log.notices == ("skipped 4 unreadable lines in the session file (the first is line 3)",)


def test_a_line_with_a_byte_that_is_no_utf8_is_kept(tmp_path: Path) -> None:
    path = session_file(tmp_path)
    path.write_bytes(path.read_bytes() + lines(user("u1", None, "a?b")).replace(b"a?b", b"a\xffb"))
    assert build_context(opened(path).branch()) == (user_text("a\ufffdb", 1000, "u1"),)


def test_blank_lines_crlf_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        b"\n\r\n\xef\xbb\xbf" + lines(HEADER, user("u1", None), answer("a1", "u1")).replace(b"\n", b"\r\n")
    )
    log = opened(path)
    assert log.id == HEADER["id"]
    assert ids(log) == ["u1", "a1"]
    assert log.notices == ()


def test_a_missing_parent_ends_the_history_with_a_notice(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None), user("u2", "lost"), answer("a2", "u2")))
    assert ids(log) == ["u2", "a2"]
    assert log.notices == ("entry lost is missing: the history before it cannot be reached",)


def test_a_parent_cycle_ends_the_history_with_a_notice(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", "a1"), answer("a1", "u1")))
    assert ids(log) == ["u1", "a1"]
    assert log.notices == ("entry a1 is its own ancestor: the history before it cannot be reached",)


def test_an_entry_that_is_its_own_parent_stands_alone(tmp_path: Path) -> None:
    assert ids(opened(session_file(tmp_path, user("x", "x")))) == ["x"]


def test_an_entry_without_id_is_named_and_does_not_cost_the_history(tmp_path: Path) -> None:
    nameless = user("", "a1")
    del nameless["id"]
    log = opened(session_file(tmp_path, user("u1", None), answer("a1", "u1"), nameless))
    assert log.leaf_id == "a1"
    assert log.notices == ("ignored 1 line(s) of the session file that have no entry id",)


def test_an_id_that_occurs_twice_is_named(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None), answer("a1", "u1", "old"), answer("a1", "u1", "new")))
    assert log.notices == ("1 entry id(s) occur twice in the session file; the later one counts",)
    assert "new" in str(build_context(log.branch()))
    assert ids(log) == ["u1", "a1"]


def test_an_unknown_type_stays_in_the_tree(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None), entry("hologram", "h1", "u1"), answer("a1", "h1")))
    assert ids(log) == ["u1", "h1", "a1"]
    assert [message.entry_id for message in build_context(log.branch())] == ["u1", "a1"]
    assert log.notices == ()


@pytest.mark.parametrize("tail", ["custom", "label", "session_info", "usage", "hologram"])
def test_late_metadata_on_an_old_branch_does_not_move_the_leaf(tmp_path: Path, tail: str) -> None:
    late = entry(tail, "x1", "u1")
    log = opened(session_file(tmp_path, user("u1", None), answer("a1", "u1"), user("u2", "a1"), late))
    assert log.leaf_id == "u2"
    assert log.notices == (f"the last entry ({tail}) is on an older branch; going on at the newest message",)
    assert log.append_message(user_text("next", 1)).parent_id == "u2"


def test_metadata_below_the_newest_message_stays_on_the_branch(tmp_path: Path) -> None:
    state = entry("custom", "s1", "u2", customType="ov-takeover", data={})
    late = entry("label", "x1", "u1", targetId="u1", label="x")
    log = opened(session_file(tmp_path, user("u1", None), user("u2", "u1"), state, late))
    assert ids(log) == ["u1", "u2", "s1"]
    assert opened_leaf(tmp_path / "b", user("u1", None), state | {"parentId": "u1"}) == "s1"


def test_a_branch_that_was_summarised_is_where_the_file_goes_on(tmp_path: Path) -> None:
    summary = entry("branch_summary", "b1", "u1", fromId="u2", summary="tried")
    label = entry("label", "l1", "b1", targetId="b1", label="x")
    assert opened_leaf(tmp_path / "a", user("u1", None), user("u2", "u1"), summary) == "b1"
    assert opened_leaf(tmp_path / "b", user("u1", None), user("u2", "u1"), summary, label) == "l1"


def opened_leaf(folder: Path, *entries: Json) -> str | None:
    folder.mkdir()
    log = opened(session_file(folder, *entries))
    assert log.notices == ()
    return log.leaf_id


def test_a_newer_version_opens_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines(HEADER | {"version": 99}, user("u1", None)))
    before = path.read_bytes()
    log = opened(path)
    log.append_message(user_text("next", 1))
    assert path.read_bytes().startswith(before)
    assert log.notices == ("the file has version 99, newer than 3; what is unknown in it is ignored",)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_prefix_of_a_file_opens_whatever_its_version_and_its_blanks(tmp_path: Path, version: int) -> None:
    hook = entry("message", "h1", "u1", message={"role": "hookMessage", "content": "from a hook", "timestamp": 3})
    whole = lines(HEADER | {"version": version}, user("u1", None), hook, answer("a1", "h1"))
    path = tmp_path / "s.jsonl"
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        complete = whole[: size + 1].count(b"\n")  # a line is whole without its newline too
        assert len(read_session(path).entries) == max(0, complete - 1)
        assert read_end(path, whole_below=0).entries == read_session(path).entries


def old_file(folder: Path, header: Json, *entries: Json) -> Path:
    path = folder / "old.jsonl"
    path.write_bytes(lines(header, *entries))
    return path


def test_version_1_gets_ids_and_parents_that_stay_the_same(tmp_path: Path) -> None:
    header = {key: value for key, value in HEADER.items() if key != "version"}
    talk = [user("", None, "one"), answer("", None, "two"), user("", None, "three")]
    for value in talk:
        del value["id"], value["parentId"]
    swallowed = {"type": "compaction", "summary": "short", "firstKeptEntryIndex": 2, "tokensBefore": 9}
    path = old_file(tmp_path, header, *talk[:2], swallowed, talk[2])
    before = path.read_bytes()
    log = opened(path)
    first = [(found.id, found.parent_id) for found in log.branch()]
    assert [parent for _, parent in first] == [None, *(name for name, _ in first[:-1])]
    texts = [str(message.content[0]) for message in build_context(log.branch())]
    assert ["short" in texts[0], "two" in texts[1], "three" in texts[2]] == [True, True, True]
    added = log.append_message(user_text("next", 1))
    log.close()
    assert path.read_bytes().startswith(before)
    again = opened(path)
    assert [(found.id, found.parent_id) for found in again.branch()] == [*first, (added.id, first[-1][0])]


def test_version_2_hook_messages_become_custom_ones(tmp_path: Path) -> None:
    hook = entry("message", "h1", None, message={"role": "hookMessage", "content": "from a hook", "timestamp": 3})
    context = build_context(opened(old_file(tmp_path, HEADER | {"version": 2}, hook)).branch())
    assert context == (user_text("from a hook", 3, "h1")._replace(kind="custom"),)


def test_an_empty_file_becomes_a_session_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    log = open_session(path, tmp_path / "locks", cwd="/srv/app")
    assert log.fresh
    assert log.notices == ()
    log.append("model_change", {"provider": "p", "modelId": "m"})
    assert path.read_bytes() == b""
    log.append_message(user_text("hi", 1))
    log.close()
    assert [found["type"] for found in parsed(path)] == ["session", "model_change", "message"]
    assert opened(path).id == log.id


def test_two_processes_in_one_empty_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    first, second = (open_session(path, tmp_path / "locks", cwd="/srv/app") for _ in range(2))
    first.append_message(user_text("hi", 1))
    with pytest.raises(SessionError, match="another program"):
        second.append_message(user_text("hi", 1))
    assert len(parsed(path)) == 2


@pytest.mark.parametrize("content", [b"just text\n", b"\0" * 50, b'{"type":"message","id":"a"}\n', b"hello", b"{}\n"])
def test_what_is_no_session_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(content)
    with pytest.raises(SessionError, match="is not a session file"):
        opened(path)
    assert path.read_bytes() == content
    assert not (tmp_path / "locks").exists()


def test_what_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="does not exist"):
        opened(tmp_path / "none.jsonl")
    with pytest.raises(SessionError, match="is not a file"):
        opened(tmp_path)


def test_a_header_without_cwd_or_with_a_strange_id_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines({"type": "session", "version": 3, "id": "../../evil"}, user("u1", None)))
    log = open_session(path, tmp_path / "locks", cwd="/here")
    log.close()
    assert log.cwd == "/here"
    assert "/" not in log.id
    assert any(log.id in notice for notice in log.notices)
    assert opened(path).id == log.id
