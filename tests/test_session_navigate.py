from pathlib import Path

import pytest
from session_kit import answer, ids, opened, session_file, user

from vikingpi.errors import SessionError
from vikingpi.messages import text_of, user_text
from vikingpi.session.file import SessionLog
from vikingpi.session.navigate import (
    add_branch_summary,
    edit_context,
    left_behind,
    pick,
    set_label,
    set_name,
    tree_rows,
    user_entries,
)
from vikingpi.session.tree import BRANCH_LEAD, build_context


def branched(folder: Path) -> SessionLog:
    """u1 a1 goes on as u2 a2 and, the present branch, as u3 a3."""
    said = (user("u1", None, "one"), answer("a1", "u1"), user("u2", "a1", "two"), answer("a2", "u2"))
    return opened(session_file(folder, *said, user("u3", "a1", "three"), answer("a3", "u3")))


def test_the_tree_is_shown_parents_first_and_deeper_where_it_branches(tmp_path: Path) -> None:
    log = branched(tmp_path)
    set_label(log, "a2", "kept")
    rows = tree_rows(log)
    assert [(row.entry.id, row.depth) for row in rows[:6]] == [
        ("u1", 0),
        ("a1", 0),
        ("u2", 1),
        ("a2", 1),
        ("u3", 1),
        ("a3", 1),
    ]
    assert [row.entry.id for row in rows if row.on_branch] == ["u1", "a1", "u3", "a3", rows[-1].entry.id]
    assert [row.label for row in rows if row.label] == ["kept"]
    assert [row.entry.type for row in rows if row.is_leaf] == ["label"]


def test_a_tree_with_a_second_root_and_a_broken_parent_shows_everything(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("u1", None), user("u2", None), answer("a9", "gone")))
    assert [(row.entry.id, row.depth) for row in tree_rows(log)] == [("u1", 1), ("u2", 1), ("a9", 1)]


def test_a_long_tree_needs_no_deep_stack(tmp_path: Path) -> None:
    chain = [user(f"u{n}", f"u{n - 1}" if n else None) for n in range(3000)]
    rows = tree_rows(opened(session_file(tmp_path, *chain)))
    assert len(rows) == 3000
    assert {row.depth for row in rows} == {0}


def test_a_user_message_is_picked_for_a_new_wording_and_anything_else_as_it_is(tmp_path: Path) -> None:
    log = branched(tmp_path)
    assert pick(log, "u2") == ("a1", "two")
    assert pick(log, "u1") == (None, "one")
    assert pick(log, "a2") == ("a2", "")
    with pytest.raises(SessionError, match="no entry nowhere"):
        pick(log, "nowhere")
    assert [found.id for found in user_entries(log)] == ["u1", "u3"]


def test_what_is_left_behind_ends_at_the_common_ancestor(tmp_path: Path) -> None:
    log = branched(tmp_path)
    assert [found.id for found in left_behind(log, "a2")] == ["u3", "a3"]
    assert [found.id for found in left_behind(log, None)] == ["u1", "a1", "u3", "a3"]
    assert left_behind(log, "a3") == ()


def test_a_branch_summary_stands_below_the_new_leaf_and_names_the_old_one(tmp_path: Path) -> None:
    log = branched(tmp_path)
    left = left_behind(log, "a1")
    log.move_leaf("a1")
    assert log.moved
    made = add_branch_summary(log, left, "three was a dead end", {"details": {}})
    assert not log.moved
    assert (made.parent_id, made.raw["fromId"]) == ("a1", "a3")
    assert text_of(build_context(log.branch())[-1]) == f"{BRANCH_LEAD}\n\n<summary>\nthree was a dead end\n</summary>"


def test_labels_and_names_can_be_given_and_taken_away(tmp_path: Path) -> None:
    log = branched(tmp_path)
    assert set_label(log, "u1", " start ").raw["label"] == "start"
    assert "label" not in set_label(log, "u1", "").raw
    assert [row.label for row in tree_rows(log) if row.label] == []
    set_name(log, " deploy ")
    assert log.known.name == "deploy"
    set_name(log, "")
    assert log.known.name == ""
    with pytest.raises(SessionError, match="no entry"):
        set_label(log, "nowhere", "x")


def test_a_context_edit_changes_what_the_model_sees_and_not_the_file(tmp_path: Path) -> None:
    log = branched(tmp_path)
    edit_context(log, "u3", "three, shorter")
    edit_context(log, "a1", None)
    assert [text_of(message) for message in build_context(log.branch())] == ["one", "three, shorter", "ok"]
    found = log.get("u3")
    assert found is not None
    assert found.raw["message"]["content"][0]["text"] == "three"
    with pytest.raises(SessionError, match="not on the present branch"):
        edit_context(log, "u2", "x")


def test_after_a_move_only_a_message_settles_the_leaf(tmp_path: Path) -> None:
    log = branched(tmp_path)
    log.move_leaf("a1")
    set_label(log, "a1", "here")
    assert log.moved
    log.append_message(user_text("four", 1))
    assert not log.moved
    assert ids(log)[:2] == ["u1", "a1"]
