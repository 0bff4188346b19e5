from pathlib import Path

import pytest
from session_kit import SAMPLES, answer, entry, opened, session_file, user

from vikingpi.decode import Json
from vikingpi.messages import AssistantMessage, Cost, Message, TextPart, ToolResultMessage, Usage, UserMessage, text_of
from vikingpi.session.reader import read_session
from vikingpi.session.tree import (
    BRANCH_LEAD,
    COMPACTION_LEAD,
    build_context,
    labels_of,
    model_of,
    name_of,
    thinking_of,
    totals_of,
)


def context(folder: Path, *entries: Json) -> tuple[Message, ...]:
    return build_context(opened(session_file(folder, *entries)).branch())


def shown(folder: Path, *entries: Json) -> list[str | None]:
    return [message.entry_id for message in context(folder, *entries)]


def compaction(entry_id: str, parent: str, kept: str, summary: str = "short") -> Json:
    return entry("compaction", entry_id, parent, summary=summary, firstKeptEntryId=kept, tokensBefore=9, fromHook=False)


def bash(parent: str | None, **fields: object) -> Json:
    base: Json = {"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 0, "timestamp": 77}
    return entry("message", "b1", parent, message={**base, **fields})


def system(entry_id: str, parent: str | None) -> Json:
    return entry("message", entry_id, parent, message={"role": "system", "content": "", "timestamp": 1})


TURNS = (user("u1", None), answer("a1", "u1"), user("u2", "a1"), answer("a2", "u2"), user("u3", "a2"))


def test_a_compaction_stands_for_what_it_swallowed(tmp_path: Path) -> None:
    messages = context(tmp_path, *TURNS, compaction("c1", "u3", "a2"), answer("a3", "c1"))
    assert [message.entry_id for message in messages] == ["c1", "a2", "u3", "a3"]
    assert isinstance(messages[0], UserMessage)
    assert messages[0].kind == "compaction"
    assert text_of(messages[0]) == f"{COMPACTION_LEAD}\n\n<summary>\nshort\n</summary>"


@pytest.mark.parametrize("kept", ["", "nowhere", "c1", "a3"])
def test_a_compaction_that_kept_nothing_known_keeps_nothing(tmp_path: Path, kept: str) -> None:
    assert shown(tmp_path, *TURNS, compaction("c1", "u3", kept), answer("a3", "c1")) == ["c1", "a3"]


def test_an_older_compaction_in_the_kept_range_says_nothing(tmp_path: Path) -> None:
    entries = (*TURNS, compaction("c1", "u3", "u2"), answer("a3", "c1"), compaction("c2", "a3", "u3"))
    assert shown(tmp_path, *entries) == ["c2", "u3", "a3"]


def test_a_compaction_by_the_context_store_begins_with_its_marker(tmp_path: Path) -> None:
    overview = "[OpenViking Session Context]\n# Working Memory"
    first = context(tmp_path, *TURNS, compaction("c1", "u3", "u3", overview))[0]
    assert text_of(first).startswith("[OpenViking Session Context]\n")
    assert text_of(first).endswith("<summary>\n# Working Memory\n</summary>")


def test_system_messages_and_unknown_roles_are_left_out(tmp_path: Path) -> None:
    odd = entry("message", "o1", "s1", message={"role": "oracle", "content": "x"})
    assert shown(tmp_path, system("s1", None), odd, user("u1", "o1")) == ["u1"]


def test_an_edit_drops_or_replaces_and_the_latest_one_counts(tmp_path: Path) -> None:
    result = entry(
        "message",
        "r1",
        "a1",
        message={"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": [], "isError": False},
    )
    edits = (
        entry("context_edit", "e1", "r1", targetId="a1", replacement={"content": [{"type": "text", "text": "first"}]}),
        entry("context_edit", "e2", "e1", targetId="r1", replacement={"content": "shorter"}),
        entry("context_edit", "e3", "e2", targetId="u1", replacement=None),
        entry("context_edit", "e4", "e3", targetId="a1", replacement={"content": [{"type": "text", "text": "last"}]}),
    )
    messages = context(tmp_path, user("u1", None), answer("a1", "u1"), result, *edits)
    assert [message.entry_id for message in messages] == ["a1", "r1"]
    assert isinstance(messages[0], AssistantMessage)
    assert messages[0].model == "m1"
    assert isinstance(messages[1], ToolResultMessage)
    assert [text_of(message) for message in messages] == ["last", "shorter"]


def test_an_edit_that_makes_no_sense_changes_nothing(tmp_path: Path) -> None:
    edits = (
        entry("context_edit", "e1", "u1", targetId="u1", replacement="gone"),
        entry("context_edit", "e2", "e1", targetId="nowhere", replacement=None),
        entry("context_edit", "e3", "e2"),
    )
    assert shown(tmp_path, user("u1", None), *edits) == ["u1"]


def test_custom_messages_and_branch_summaries_speak_as_the_user(tmp_path: Path) -> None:
    messages = context(
        tmp_path,
        entry("custom_message", "c1", None, customType="x", content="from an extension", display=False),
        entry("branch_summary", "b1", "c1", fromId="root", summary="tried"),
        entry("custom", "d1", "b1", customType="x", data={}),
        entry("custom_message", "c2", "d1", customType="x", content=""),
    )
    assert [(message.entry_id, getattr(message, "kind", None)) for message in messages] == [
        ("c1", "custom"),
        ("b1", "branch"),
    ]
    assert [text_of(message) for message in messages] == [
        "from an extension",
        f"{BRANCH_LEAD}\n\n<summary>\ntried\n</summary>",
    ]
    assert messages[0].timestamp == 1796032249600


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "Ran `ls`\n```\na\n\n```"),
        ({"output": ""}, "Ran `ls`\n(no output)"),
        ({"exitCode": 2}, "Ran `ls`\n```\na\n\n```\n\nCommand exited with code 2"),
        ({"cancelled": True, "exitCode": None}, "Ran `ls`\n```\na\n\n```\n\n(command cancelled)"),
        ({"truncated": True}, "Ran `ls`\n```\na\n\n```\n\n[Output truncated.]"),
        (
            {"truncated": True, "fullOutputPath": "/tmp/all.log"},
            "Ran `ls`\n```\na\n\n```\n\n[Output truncated. Full output: /tmp/all.log]",
        ),
        ({"output": "```\n"}, "Ran `ls`\n````\n```\n\n````"),
    ],
)
def test_a_command_of_the_user_is_told(tmp_path: Path, fields: Json, text: str) -> None:
    (message,) = context(tmp_path, bash(None, **fields))
    assert text_of(message) == text
    assert (message.timestamp, getattr(message, "kind", None)) == (77, "bash")


def test_an_excluded_command_is_not_told(tmp_path: Path) -> None:
    assert shown(tmp_path, bash(None, excludeFromContext=True)) == []


def test_failed_answers_and_orphans_are_left_to_the_request(tmp_path: Path) -> None:
    orphan = entry("message", "r1", "a1", message={"role": "toolResult", "toolCallId": "x", "content": []})
    assert shown(tmp_path, user("u1", None), answer("a1", "u1", stopReason="error"), orphan) == ["u1", "a1", "r1"]


def test_model_and_thinking_come_from_the_later_of_change_and_answer(tmp_path: Path) -> None:
    changes = (
        entry("model_change", "m1", None, provider="p1", modelId="x"),
        entry("thinking_level_change", "t1", "m1", thinkingLevel="high"),
        user("u1", "t1"),
        answer("a1", "u1", thinkingLevel="low"),
        entry("model_change", "m2", "a1", provider="p2", modelId="y"),
        entry("thinking_level_change", "t2", "m2", thinkingLevel="max"),
    )
    branch = opened(session_file(tmp_path, *changes)).branch()
    assert [model_of(branch[:size]) for size in (0, 1, 4, 5)] == [None, ("p1", "x"), ("lab", "m1"), ("p2", "y")]
    assert [thinking_of(branch[:size]) for size in (0, 2, 4, 6)] == [None, "high", "low", "max"]


def test_a_takeover_state_tells_model_thinking_and_name_where_nothing_newer_does(tmp_path: Path) -> None:
    data = {"model": {"provider": "p", "id": "m"}, "thinkingLevel": "low", "name": "From the state"}
    branch = opened(
        session_file(tmp_path, entry("custom", "s1", None, customType="ov-takeover", data=data), user("u1", "s1"))
    ).branch()
    assert (model_of(branch), thinking_of(branch), name_of(branch)) == (("p", "m"), "low", "From the state")


def test_the_newest_name_counts_and_may_be_cleared(tmp_path: Path) -> None:
    log = opened(
        session_file(
            tmp_path,
            entry("session_info", "s1", None, name="one"),
            user("u1", "s1"),
            entry("session_info", "s2", "u1", name=" two "),
            entry("session_info", "s3", "u1", name=""),
        )
    )
    assert [name_of(log.entries[:size]) for size in (0, 1, 3, 4)] == ["", "one", "two", ""]


def test_labels_may_be_cleared(tmp_path: Path) -> None:
    log = opened(
        session_file(
            tmp_path,
            user("u1", None),
            entry("label", "l1", "u1", targetId="u1", label="a"),
            entry("label", "l2", "l1", targetId="u2", label="b"),
            entry("label", "l3", "l2", targetId="u1"),
        )
    )
    assert labels_of(log.entries) == {"u2": "b"}


def test_totals_count_every_branch_and_every_summary(tmp_path: Path) -> None:
    log = opened(
        session_file(
            tmp_path,
            user("u1", None),
            answer("a1", "u1"),
            answer("a2", "u1"),
            entry("branch_summary", "b1", "u1", summary="x", usage={"input": 5, "cost": {"input": 1}}),
        )
    )
    assert totals_of(log.entries) == Usage(25, 4, cost=Cost(2.0, 0.5))


def test_totals_equal_the_footer_of_pi() -> None:
    sample = next(sample for sample in SAMPLES if sample.stem == "interactive-full")
    entries = read_session(sample).entries
    before_tree = next(i for i, found in enumerate(entries) if found.type == "label")
    totals = totals_of(entries[:before_tree])
    assert (round(totals.input / 1000, 1), totals.output) == (4.9, 120)


def test_the_context_of_a_real_session_reads_as_pi_sent_it() -> None:
    sample = next(sample for sample in SAMPLES if sample.stem == "retry")
    messages = build_context(read_session(sample).entries)
    assert [type(message).__name__ for message in messages] == ["UserMessage", "AssistantMessage"]
    assert messages[1].content == (TextPart("fine "),)


def test_a_result_behind_a_compaction_still_follows_its_call(tmp_path: Path) -> None:
    call: list[Json] = [{"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}]
    result: Json = {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "content": [], "isError": False}
    entries = (
        user("u1", None),
        user("u2", "u1"),
        answer("a2", "u2", content=call, stopReason="toolUse"),
        compaction("c1", "a2", "u2"),
        entry("message", "r2", "c1", message=result),
        answer("a3", "r2"),
        compaction("c2", "a3", "u2"),
    )
    assert shown(tmp_path, *entries) == ["c2", "u2", "a2", "r2", "a3"]


def test_a_growing_branch_gives_the_messages_it_would_give_at_once(tmp_path: Path) -> None:
    log = opened(session_file(tmp_path, user("a", None), answer("b", "a"), user("c", "b", "more")))
    before = build_context(log.branch())
    edit = {"targetId": "a", "replacement": {"content": "changed"}}
    steps = [
        log.append("message", {"message": user("x", None, "new")["message"]}),
        log.append("context_edit", edit),
        log.append("compaction", {"summary": "short", "firstKeptEntryId": "c", "tokensBefore": 1}),
        log.append("message", {"message": answer("y", None)["message"]}),
    ]
    for count in range(len(steps) + 1):
        branch = log.branch()[: 3 + count]
        grown = build_context(branch)
        build_context(())
        assert build_context(branch) == grown
    assert build_context(log.branch()[:3]) == before
    log.close()
