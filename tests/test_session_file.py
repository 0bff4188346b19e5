import json
import os
import resource
import stat
from pathlib import Path

import pytest
from session_kit import HEADER, SAMPLES, answer, entry, ids, opened, parsed, session_file, user

from vikingpi.errors import SessionError
from vikingpi.messages import AssistantMessage, TextPart, Usage, user_text
from vikingpi.session.file import SessionLog, create_session, fork_session, memory_session, open_session
from vikingpi.session.tree import build_context, labels_of, name_of

NOW = 1796032249.583
ANSWER = AssistantMessage((TextPart("ok"),), "a", "p", "m", Usage(1, 2), "stop", 5)


def created(folder: Path, **fields: str) -> SessionLog:
    return create_session(folder / "sessions", "/srv/app", folder / "locks", clock=lambda: NOW, **fields)


def path_of(log: SessionLog) -> Path:
    assert log.path is not None
    return log.path


def test_the_file_appears_with_the_first_message_and_holds_what_came_before(tmp_path: Path) -> None:
    log = created(tmp_path)
    log.append("model_change", {"provider": "lab", "modelId": "m1"})
    log.append_custom("note", {"n": 1})
    assert not path_of(log).exists()
    log.append_message(user_text("hi", 5))
    header, *entries = parsed(path_of(log))
    assert header == {
        "type": "session",
        "version": 3,
        "id": log.id,
        "timestamp": "2026-11-30T09:50:49.583Z",
        "cwd": "/srv/app",
    }
    assert [found["type"] for found in entries] == ["model_change", "custom", "message"]
    assert [found["parentId"] for found in entries] == [None, entries[0]["id"], entries[1]["id"]]
    assert all(len(found["id"]) == 16 for found in entries)
    assert path_of(log).name == f"2026-11-30T09-50-49-583Z_{log.id}.jsonl"


def test_a_session_without_a_message_leaves_nothing(tmp_path: Path) -> None:
    log = created(tmp_path)
    log.append("session_info", {"name": "x"})
    log.sync()
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_ids_are_version_7_uuids_in_time_order(tmp_path: Path) -> None:
    early = created(tmp_path).id
    late = create_session(tmp_path, "/", tmp_path, clock=lambda: NOW + 1).id
    assert early < late
    assert [len(part) for part in early.split("-")] == [8, 4, 4, 4, 12]
    assert early[14] == "7"
    assert early[19] in "89ab"
    assert int(early.replace("-", "")[:12], 16) == int(NOW * 1000)


def test_a_given_id_is_used_and_a_bad_one_refused(tmp_path: Path) -> None:
    log = created(tmp_path, session_id="my.session-1")
    assert log.id == "my.session-1"
    log.close()
    for bad in ("../evil", "-x", "a b", "x" * 300, "a."):
        with pytest.raises(SessionError, match="is not a session id"):
            created(tmp_path, session_id=bad)


def test_an_entry_is_one_line_whatever_stands_in_it(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\r\nh\x00i \U0001f600"
    log = created(tmp_path)
    before = log.append_message(user_text(text, 5))
    log.close()
    again = open_session(path_of(log), tmp_path / "locks")
    assert path_of(log).read_bytes().count(b"\n") == 2
    assert build_context(again.branch()) == (user_text(text, 5, before.id),)


def test_the_returned_entry_equals_what_is_read_back(tmp_path: Path) -> None:
    log = created(tmp_path)
    data = {"list": [1, 2], "text": "lone \ud83d"}
    log.append_custom("state", data)
    log.append_message(ANSWER)
    data["list"] = []
    log.close()
    assert open_session(path_of(log), tmp_path / "locks").entries == log.entries
    assert log.entries[0].raw["data"] == {"list": [1, 2], "text": "lone \ufffd"}


def test_moving_the_leaf_makes_a_branch_and_a_second_root(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None), answer("a1", "u1"), user("u2", "a1")))
    log.move_leaf("a1")
    branch = log.append_message(user_text("other", 1))
    assert ids(log) == ["u1", "a1", branch.id]
    assert [found.id for found in log.branch_to("u2")] == ["u1", "a1", "u2"]
    log.move_leaf(None)
    assert log.leaf_id is None
    root = log.append_message(user_text("new root", 1))
    assert root.parent_id is None
    assert ids(log) == [root.id]
    with pytest.raises(SessionError, match="no entry nowhere"):
        log.move_leaf("nowhere")


def test_the_branch_is_the_same_object_until_it_changes(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None)))
    first = log.branch()
    assert log.branch() is first
    log.append_message(ANSWER)
    assert len(log.branch()) == 2
    assert len(first) == 1


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_files_and_folders_are_private_under_any_umask(tmp_path: Path, mask: int) -> None:
    old = os.umask(mask)
    try:
        log = created(tmp_path / "deep" / "data")
        log.append_message(user_text("hi", 1))
    finally:
        os.umask(old)
    log.sync()
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep").rglob("*")}
    assert found == {
        "data": 0o700,
        "sessions": 0o700,
        "locks": 0o700,
        path_of(log).name: 0o600,
        f"{log.id}.lock": 0o600,
    }
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir(mode=0o755)
    (tmp_path / "sessions").chmod(0o755)
    created(tmp_path).append_message(user_text("hi", 1))
    assert stat.S_IMODE((tmp_path / "sessions").stat().st_mode) == 0o755


def test_a_session_in_memory_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = memory_session("/srv/app")
    log.append_message(user_text("hi", 1))
    log.sync()
    log.close()
    assert log.path is None
    assert len(log.branch()) == 1
    assert list(tmp_path.iterdir()) == []


def test_writing_after_close_is_an_error(tmp_path: Path) -> None:
    log = created(tmp_path)
    log.append_message(user_text("hi", 1))
    log.close()
    log.close()
    with pytest.raises(SessionError, match="is closed"):
        log.append_message(ANSWER)


def test_a_folder_that_cannot_be_written_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    log = created(tmp_path)
    with pytest.raises(SessionError, match="cannot write session file") as caught:
        log.append_message(user_text("hi", 1))
    assert caught.value.hint
    assert log.branch() == ()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None)))
    before = path_of(log).read_bytes()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, old[1]))
    try:
        with pytest.raises(SessionError, match="cannot write session file"):
            log.append_message(user_text("x" * 500, 1))
        assert path_of(log).read_bytes() == before
        assert log.leaf_id == "u1"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    log.append_message(ANSWER)
    assert [found.get("parentId") for found in parsed(path_of(log))[1:]] == [None, "u1"]


def test_a_full_disk_at_the_first_message_leaves_no_file_and_the_message_can_be_sent_again(tmp_path: Path) -> None:
    log = created(tmp_path)
    log.append("model_change", {"provider": "p", "modelId": "m"})
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))
    try:
        with pytest.raises(SessionError):
            log.append_message(user_text("x" * 500, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert not path_of(log).exists()
    log.append_message(user_text("again", 1))
    assert [found["type"] for found in parsed(path_of(log))] == ["session", "model_change", "message"]


def test_a_file_that_was_deleted_meanwhile_is_an_error_and_not_a_silent_loss(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None)))
    log.append_message(ANSWER)
    path_of(log).unlink()
    with pytest.raises(SessionError, match="was deleted"):
        log.append_message(user_text("hi", 1))


def test_a_torn_line_of_another_writer_is_closed_before_the_next_entry(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None)))
    first = log.append_message(ANSWER)
    with path_of(log).open("ab") as other:
        other.write(b'{"type":"label","id":"x')
    second = log.append_message(user_text("next", 1))
    log.close()
    assert ids(opened(path_of(log))) == ["u1", first.id, second.id]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_what_pi_wrote_opens_and_goes_on_without_changing_a_byte(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    before = sample.read_bytes()
    path.write_bytes(before)
    log = opened(path)
    context = build_context(log.branch())
    assert log.notices == ()
    assert log.leaf_id == json.loads(before.splitlines()[-1])["id"]
    assert not log.fresh
    assert context
    added = log.append_message(user_text("and on", 1))
    log.sync()
    log.close()
    after = path.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == before.count(b"\n") + 1
    again = opened(path)
    assert build_context(again.branch()) == (*context, user_text("and on", 1, added.id))
    assert len({found.id for found in again.entries}) == len(again.entries)
    assert sum(found.parent_id is None for found in again.entries) == 1


def test_a_fork_keeps_ids_and_names_its_parent(tmp_path: Path) -> None:
    source = session_file(tmp_path, user("u1", None), answer("a1", "u1"), user("u2", "a1"))
    fork = fork_session(source, tmp_path / "forks", "/elsewhere", tmp_path / "locks")
    header = parsed(path_of(fork))[0]
    assert header["parentSession"] == str(source)
    assert header["cwd"] == fork.cwd == "/elsewhere"
    assert header["id"] == fork.id != HEADER["id"]
    assert ids(fork) == ["u1", "a1", "u2"]
    assert fork.fresh
    added = fork.append_message(ANSWER)
    assert added.parent_id == "u2"
    assert source.read_bytes().count(b"\n") == 4


def test_a_fork_ends_at_the_leaf_or_where_it_is_told(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None), answer("a1", "u1"), user("u2", "a1")))
    log.move_leaf("a1")
    assert ids(fork_session(log, tmp_path / "f", "/", tmp_path / "locks")) == ["u1", "a1"]
    assert ids(fork_session(log, tmp_path / "f", "/", tmp_path / "locks", at="u1")) == ["u1"]
    with pytest.raises(SessionError, match="no entry"):
        fork_session(log, tmp_path / "f", "/", tmp_path / "locks", at="zz")


def test_a_locked_session_can_be_forked(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None)))
    added = log.append_message(ANSWER)
    assert ids(fork_session(path_of(log), tmp_path / "f", "/", tmp_path / "locks")) == ["u1", added.id]


def test_a_fork_keeps_name_and_labels_from_other_branches(tmp_path: Path) -> None:
    source = session_file(
        tmp_path,
        user("u1", None),
        answer("a1", "u1"),
        user("u2", "a1"),
        entry("session_info", "s1", "u2", name="Fancy"),
        entry("label", "l1", "s1", targetId="a1", label="here"),
        entry("label", "l2", "l1", targetId="u2", label="not on the way"),
        user("u3", "a1"),
    )
    fork = fork_session(source, tmp_path / "f", "/", tmp_path / "locks")
    assert ids(fork)[:3] == ["u1", "a1", "u3"]
    assert name_of(fork.entries) == "Fancy"
    assert labels_of(fork.entries) == {"a1": "here"}


def test_a_fork_tells_what_could_not_be_read(tmp_path: Path) -> None:
    source = session_file(tmp_path, user("u1", None), tail=b"garbage\n")
    fork = fork_session(source, tmp_path / "f", "/", tmp_path / "locks")
    assert fork.notices == ("skipped 1 unreadable line in the session file (the first is line 3)",)
    assert b"garbage" not in path_of(fork).read_bytes()


def test_a_fork_of_a_session_that_was_never_written_names_no_parent(tmp_path: Path) -> None:
    fork = fork_session(created(tmp_path), tmp_path / "f", "/", tmp_path / "locks")
    fork.append_message(user_text("hi", 1))
    assert "parentSession" not in parsed(path_of(fork))[0]


def test_a_fork_with_a_takeover_state_is_not_fresh(tmp_path: Path) -> None:
    state = entry("custom", "c1", "u1", customType="ov-takeover", data={"coveredUserTurns": 0})
    source = session_file(tmp_path, user("u1", None), state)
    assert not fork_session(source, tmp_path / "f", "/", tmp_path / "locks").fresh


def test_a_fork_without_a_message_waits_for_one(tmp_path: Path) -> None:
    source = session_file(tmp_path, entry("model_change", "m1", None, provider="p", modelId="m"), user("u1", "m1"))
    fork = fork_session(source, tmp_path / "f", "/", tmp_path / "locks", at="m1")
    assert not path_of(fork).exists()
    fork.append_message(user_text("hi", 1))
    assert [found["type"] for found in parsed(path_of(fork))] == ["session", "model_change", "message"]


def test_a_folder_with_a_bad_byte_in_its_name_is_no_obstacle(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    folder.mkdir()
    log = create_session(folder, str(folder), tmp_path / "locks")
    log.append_message(user_text("hi", 1))
    log.close()
    again = open_session(path_of(log), tmp_path / "locks")
    assert again.cwd == f"{tmp_path}/bad\ufffd"
