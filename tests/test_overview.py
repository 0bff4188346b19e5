from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_kit import assistant, call, user

from vikingpi.tokens import estimate
from vikingpi.viking.base import MessageKind, StoreMessage
from vikingpi.viking.overview import SECTIONS, TRUNCATED, acceptable, cut_sections, extract

FILLER = "The quick brown fox jumped over lazy dogs while it rained all day long. "


def section(overview: str, name: str) -> list[str]:
    body = overview.split(f"## {name}\n", 1)[1].split("\n## ", 1)[0]
    return [line.removeprefix("- ") for line in body.splitlines() if line and line != "(none)"]


def of(*messages: StoreMessage, previous: str = "", budget: int = 3000) -> str:
    return extract(previous, messages, budget)


def test_an_overview_has_its_title_and_all_sections_in_order() -> None:
    overview = of(user("Fix the login page", "e1"))
    assert overview.startswith("# Working Memory\n")
    assert re.findall(r"^## (.+)$", overview, re.MULTILINE) == list(SECTIONS)
    assert acceptable(overview)


def test_no_messages_make_an_empty_but_acceptable_overview() -> None:
    overview = of()
    assert acceptable(overview)
    assert all(section(overview, name) == [] for name in SECTIONS)


def test_what_the_user_asks_states_and_corrects_is_kept_in_their_words() -> None:
    overview = of(
        user("Rename foo to bar in the parser", "e1"),
        user("The codename is ORCHID-7731.", "e2"),
        user("No, keep foo as an alias", "e3"),
        user("网关端口是7071。", "e4"),
    )
    assert section(overview, "Session Title") == ["Rename foo to bar in the parser"]
    assert section(overview, "Task & Goals") == ["User: Rename foo to bar in the parser"]
    assert section(overview, "Key Facts & Decisions") == [
        "User: The codename is ORCHID-7731.",
        "User: 网关端口是7071。",
    ]
    assert "User: No, keep foo as an alias" in section(overview, "Errors & Corrections")


def test_files_and_commands_are_named_with_how_they_ended() -> None:
    overview = of(
        user("go", "e1"),
        assistant(
            "",
            "e2",
            call("read", {"path": "src/a.py"}, "text"),
            call("edit", {"path": "src/a.py", "edits": []}, "done"),
            call("write", {"path": "src/b.py", "content": "x"}, "done"),
            call("bash", {"command": "pytest -q"}, "....\n12 passed in 3 s\n"),
            call("grep", {"pattern": "foo"}, ""),
        ),
    )
    assert section(overview, "Files & Context") == [
        "read: src/a.py",
        "changed: src/a.py (edited)",
        "changed: src/b.py (written)",
        "ran: `pytest -q` -> 12 passed in 3 s",
        'ran: `grep {"pattern": "foo"}` -> ok',
    ]


def test_a_failure_is_kept_with_what_followed() -> None:
    failing = call("bash", {"command": "make"}, "gcc: no such file\n\nCommand exited with code 2", "error")
    overview = of(assistant("", "e1", failing), assistant("", "e2", call("bash", {"command": "make -k"}, "built")))
    assert section(overview, "Errors & Corrections") == [
        "`make` failed: gcc: no such file (Command exited with code 2); then `make -k` worked"
    ]
    assert section(overview, "Open Issues") == []


def test_a_failure_that_nothing_follows_is_an_open_issue() -> None:
    overview = of(assistant("", "e1", call("bash", {"command": "make"}, "boom", "error")))
    assert section(overview, "Open Issues") == ["Failed last: `make`"]


def test_answers_are_the_current_state_and_an_unanswered_request_is_open() -> None:
    overview = of(user("What is 2+2?", "e1"), assistant("It is 4.", "e2"), user("And 3+3?", "e3"))
    assert section(overview, "Current State") == ["Asked: What is 2+2? | Answer: It is 4."]
    assert section(overview, "Open Issues") == ["Not answered yet: And 3+3?"]


def test_an_answer_in_the_next_archive_closes_the_open_request() -> None:
    first = of(user("And 3+3?", "e1"))
    second = of(assistant("It is 6.", "e2"), previous=first)
    assert section(second, "Open Issues") == []
    assert section(second, "Current State") == ["Asked: And 3+3? | Answer: It is 6."]


def test_what_is_still_to_do_is_an_open_issue() -> None:
    overview = of(assistant("The parser works. TODO: update the docs.", "e1"))
    assert section(overview, "Open Issues") == ["TODO: update the docs."]


def test_what_the_user_says_is_not_done_yet_is_open_and_a_question_is_not() -> None:
    overview = of(
        user("The load test has not been run yet. Is anything else still open?", "e1"), assistant("No.", "e2")
    )
    assert section(overview, "Open Issues") == ["User: The load test has not been run yet."]


def test_an_answer_that_speaks_of_an_open_issue_closes_it_also_in_a_later_archive() -> None:
    first = of(assistant("Still to do: honour Retry-After on 429. TODO: update the docs.", "e1"))
    assert len(section(first, "Open Issues")) == 2
    second = of(assistant("Now 429 is retried and Retry-After is honoured.", "e2"), previous=first)
    assert section(second, "Open Issues") == ["TODO: update the docs."]
    third = of(assistant("The docs still need an update.", "e3"), previous=second)
    assert "TODO: update the docs." in section(third, "Open Issues")
    assert section(of(assistant("I updated the docs.", "e4"), previous=second), "Open Issues") == []


def test_of_one_value_only_the_newest_is_kept_and_the_users_word_stands_above_others() -> None:
    facts = ["The gateway port is 8443.", "Now the gateway port is 9090.", "现在部署窗口是周五。"]
    first = of(user("部署窗口是周四。", "e0"), *(user(text, f"e{n}") for n, text in enumerate(facts, 1)))
    assert section(first, "Key Facts & Decisions") == [
        "User: Now the gateway port is 9090.",
        "User: 现在部署窗口是周五。",
    ]
    second = of(assistant("The gateway port is 7070.", "e5"), previous=first)
    assert section(second, "Key Facts & Decisions")[0] == "User: Now the gateway port is 9090."
    third = of(user("Our gateway port is 6060.", "e6"), previous=second)
    assert section(third, "Key Facts & Decisions") == ["User: 现在部署窗口是周五。", "User: Our gateway port is 6060."]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Backups of gateway are kept for 53 days.", "Backups of gateway are encrypted with AES256."),
        ("It is 8443.", "It is 9090."),
        ("The port of a is 1.", "The port of b is 1."),
        ("The owner is Ada.", "The owner is on leave until 5 May."),
    ],
)
def test_facts_that_are_not_two_values_of_one_thing_are_both_kept(one: str, other: str) -> None:
    overview = of(user(one, "e1"), user(other, "e2"))
    assert one in overview
    assert other in overview


def test_a_failure_is_named_and_a_short_output_shown_whole() -> None:
    failed = "14 items\nE       assert 16 == 8\nFAILED tests/test_a.py::test_cap - assert 16 == 8\n1 failed in 0.4s\n"
    overview = of(
        assistant("", "e1", call("bash", {"command": "pytest"}, f"{failed}\nCommand exited with code 1", "error")),
        assistant("", "e2", call("bash", {"command": "git commit -m x"}, "[main 4be91c2] x\n 9 files changed\n")),
    )
    line = section(overview, "Errors & Corrections")[0]
    assert "FAILED tests/test_a.py::test_cap - assert 16 == 8; 1 failed in 0.4s (Command exited with code 1)" in line
    assert "ran: `git commit -m x` -> [main 4be91c2] x 9 files changed" in section(overview, "Files & Context")


def test_of_a_pasted_log_and_of_pasted_code_only_a_few_lines_are_kept() -> None:
    log = "\n".join(
        f"2026-11-30T10:00:{n:02d}Z INFO parse took {n} ms file=src/mod{'abcdefgh'[n % 8]}.ts" for n in range(60)
    )
    code = "\n".join(f"const value_{'abcdefgh'[n % 8]} = {n};" for n in range(60))
    for pasted in (log, code):
        overview = of(user(f"Why is this slow?\n{pasted}\nThe limit of it is 500 ms.", "e1"))
        assert len(section(overview, "Key Facts & Decisions")) <= 9
        assert "User: The limit of it is 500 ms." in section(overview, "Key Facts & Decisions")
    answer = f"Here it is:\n```ts\n{code}\n```\nThe limit of it is 500 ms."
    overview = of(assistant(answer, "e1"))
    assert section(overview, "Key Facts & Decisions") == ["Agent: The limit of it is 500 ms."]


def test_a_sentence_that_begins_like_code_is_still_said() -> None:
    said = [
        "for staging use port 8443 (the old one)",
        "let us say the cap is 8",
        "from now on the port is 9090: keep it",
    ]
    overview = of(assistant("\n".join(said), "e1"))
    assert section(overview, "Key Facts & Decisions") == [f"Agent: {one}" for one in said[1:]]
    whole = of(user("\n".join([*said, "x" * 400]), "e1"))
    assert all(one in whole for one in said)


@pytest.mark.parametrize(
    "text", ["Wait, it is 1200", "hmm wait, that was taken", "等等，不对，是 1200", "oh no, undo that"]
)
def test_second_thoughts_are_corrections(text: str) -> None:
    assert section(of(user(text, "e1")), "Errors & Corrections") == [f"User: {text}"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The deploy window is Tuesday 14:00.", "Change of plan: the deploy window moved to Thursday 10:00."),
        ("The gateway port is 8443.", "The gateway port is 9443 now."),
        ("The build number is B12.", "The build number has changed to B13."),
        ("网关超时是30秒。", "网关超时改成45秒。"),
        ("备份时间是周五。", "备份时间改到周六。"),
    ],
)
def test_a_changed_value_takes_the_place_of_the_old_one_also_in_a_later_archive(old: str, new: str) -> None:
    for overview in (of(user(old, "e1"), user(new, "e2")), of(user(new, "e2"), previous=of(user(old, "e1")))):
        assert section(overview, "Key Facts & Decisions") == [f"User: {new}"]
        assert old not in overview
        assert section(overview, "Task & Goals") == section(overview, "Errors & Corrections") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("We use MySQL for the ledger.", "We moved from MySQL to Postgres."),
        ("The cache is Redis on port 6380.", "Actually, forget Redis: we use RabbitMQ"),
        ("We deploy with Ansible, always.", "OK we use Terraform after all. Ansible is slow"),
    ],
)
def test_a_change_that_cannot_replace_stands_behind_the_old_fact_as_later(old: str, new: str) -> None:
    between = user("The codename is ORCHID.", "e2")
    expected = [f"User: {old}", f"User, later: {new}", "User: The codename is ORCHID."]
    at_once = of(user(old, "e1"), between, user(new, "e3"))
    apart = of(user(new, "e3"), previous=of(user(old, "e1"), between))
    again = of(user(new, "e4"), assistant("ok", "e5"), previous=apart)
    assert section(at_once, "Key Facts & Decisions") == expected
    assert section(apart, "Key Facts & Decisions") == expected
    assert sorted(section(again, "Key Facts & Decisions")) == sorted(expected)


def test_a_request_to_change_something_is_a_task() -> None:
    said = ["Move the parser to lib", "Please change the colour to red", "Have we moved to Postgres?"]
    overview = of(*(user(text, f"e{n}") for n, text in enumerate(said)))
    assert section(overview, "Task & Goals") == [f"User: {text}" for text in said]


def test_a_title_holds_no_value_that_can_grow_old() -> None:
    assert section(of(user("The gateway port is 8443.", "e1")), "Session Title") == ["gateway port"]


def test_what_answers_a_question_of_the_agent_is_a_decision() -> None:
    overview = of(user("Add a cache", "e1"), assistant("Redis or memcached?", "e2"), user("the first one", "e3"))
    assert section(overview, "Key Facts & Decisions") == ["User: the first one"]
    assert section(overview, "Task & Goals") == ["User: Add a cache"]


def test_an_answer_that_only_says_that_it_was_read_is_left_out() -> None:
    overview = of(user("The codename is ORCHID.", "e1"), assistant("Noted.", "e2"), user("y", "e3"))
    assert section(overview, "Current State") == section(overview, "Task & Goals") == []
    assert overview.count("ORCHID") == 1 + overview.split("## Current State")[0].count("ORCHID")


def test_a_masked_value_in_an_answer_or_output_is_no_fact() -> None:
    masked = "api_key = [masked:openai:1a2b]"
    overview = of(
        user("look", "e1"),
        assistant(f"{masked}\nThe port is 8443.", "e2", call("bash", {"command": "env"}, f"{masked}\n" + "x\n" * 200)),
    )
    assert section(overview, "Key Facts & Decisions") == ["Agent: The port is 8443."]


def test_code_keeps_its_blanks() -> None:
    command = "printf 'a:\\n    b: 1'  > x.yml"
    overview = of(user("Write `if x:\n    y`  here", "e1"), assistant("", "e2", call("bash", {"command": command}, "")))
    assert "Write `if x:     y` here" in overview
    assert f"`{command}`" in overview


def test_a_mere_acknowledgement_is_no_goal() -> None:
    said = ["ok", "y", "yeah, got it", "Great, thanks!", "好的。", "ok, what about the tests?"]
    overview = of(*(user(text, f"e{n}") for n, text in enumerate(said)))
    assert section(overview, "Task & Goals") == ["User: ok, what about the tests?"]


def test_facts_come_from_answers_and_outputs_too() -> None:
    overview = of(
        user("look", "e1"),
        assistant("The server listens on 7071. Nice weather today.", "e2"),
        assistant("", "e3", call("bash", {"command": "cat x"}, "codename is ORCHID\n项目是北斗\n")),
    )
    facts = section(overview, "Key Facts & Decisions")
    assert facts == ["Agent: The server listens on 7071.", "Output: codename is ORCHID", "Output: 项目是北斗"]


def test_earlier_facts_survive_ten_archives_and_nothing_is_said_twice() -> None:
    overview = ""
    for number in range(10):
        overview = of(
            user(f"name-{number} is Value{number}", f"u{number}"),
            assistant("Acknowledged. " + f"name-{number} is Value{number}", f"a{number}"),
            previous=overview,
        )
    for number in range(10):
        assert sum(f"name-{number} is Value{number}" in one for one in section(overview, "Key Facts & Decisions")) == 1
    lines = [one for one in overview.splitlines() if one.startswith("- ") and "name-0" not in one]
    assert len(set(lines)) == len(lines)


def test_a_shorter_fact_is_not_taken_for_the_longer_one() -> None:
    overview = of(user("port is 7071", "e1"), assistant("Now the port is 70", "e2"), assistant("port is 70", "e3"))
    assert "Agent: Now the port is 70" in section(overview, "Key Facts & Decisions")


def test_of_a_file_or_command_only_the_newest_line_is_kept() -> None:
    first = of(assistant("", "e1", call("bash", {"command": "make"}, "1 warning"), call("read", {"path": "a"}, "")))
    second = of(assistant("", "e2", call("bash", {"command": "make"}, "clean")), previous=first)
    assert section(second, "Files & Context") == ["read: a", "ran: `make` -> clean"]


@pytest.mark.parametrize("glue", ["", "\n", " "])
def test_a_long_filler_is_cut_and_the_facts_in_it_are_kept(glue: str) -> None:
    text = (
        f"Please read this. {FILLER * 25}The codename is ORCHID-7731. {glue}{FILLER * 25}"
        f"Use tabs in makefiles. See /etc/app/main.conf or https://docs.test/x?y=1. LIMIT = 42 {glue}"
        f"{FILLER * 5} 网关端口是七千零七十一。 {FILLER * 5}"
    )
    overview = of(user(text, "e1"))
    for fact in ("Please read this.", "ORCHID-7731", "Use tabs", "/etc/app/main.conf", "https://docs.test/x?y=1"):
        assert fact in overview
    assert "LIMIT = 42" in overview
    assert "网关端口是七千零七十一" in overview
    assert overview.count("lazy dogs") <= 8
    assert len(overview) < 2000


def test_a_fact_in_text_without_any_punctuation_is_found() -> None:
    words = "lorem ipsum dolor sit amet " * 80
    overview = of(user(f"{words}the codename is ORCHID-7731 {words}", "e1"))
    assert "the codename is ORCHID-7731" in overview
    assert len(overview) < 1500


def test_lines_that_differ_by_a_number_only_are_filler() -> None:
    overview = of(user("\n".join(f"row {number} of the table" for number in range(400)), "e1"))
    assert overview.count("of the table") < 30


def test_lines_are_short_and_single() -> None:
    overview = of(user("a\r\nb\x0bc\u2028d " + "x" * 5000, "e1"), assistant("y" * 5000, "e2"))
    assert max(map(len, overview.splitlines())) < 500


def test_text_that_is_not_the_users_is_noted_as_such() -> None:
    overview = of(user("Ran `ls`\nport is 7071", "e1", kind="tool_transport"))
    assert section(overview, "Task & Goals") == []
    assert section(overview, "Session Title") == []
    assert "noted: Ran `ls` port is 7071" in section(overview, "Files & Context")
    assert "Output: port is 7071" in section(overview, "Key Facts & Decisions")


def test_a_seed_is_taken_over_like_the_overview_that_it_is() -> None:
    earlier = of(user("The codename is ORCHID-7731", "e1"), assistant("", "e2", call("read", {"path": "a"}, "")))
    seed = user(f"[earlier overview]\n{earlier}", "seed:pi-1__00ff00ff", kind="tool_transport")
    again = of(seed, user("Go on", "e3"))
    assert section(again, "Session Title") == ["The codename is ORCHID-7731"]
    assert section(again, "Key Facts & Decisions") == ["User: The codename is ORCHID-7731"]
    assert "read: a" in section(again, "Files & Context")
    assert "earlier overview" not in again


def test_a_seed_in_free_words_is_kept_as_facts() -> None:
    summary = "[earlier overview]\n## Goal\nShip the parser\n\n## Progress\n- [x] lexer\n"
    overview = of(user(summary, "seed:g", kind="tool_transport"), user("Go on", "e1"))
    facts = section(overview, "Key Facts & Decisions")
    assert [one for one in facts if "Ship the parser" in one or "lexer" in one] == ["Ship the parser", "[x] lexer"]


def test_an_overview_that_a_model_wrote_is_merged_section_by_section() -> None:
    previous = "# Working Memory\n\n## Session Title\nParser work\n\n## Open Issues\n* flaky test\n\n"
    previous += "## Errors & Corrections\nnone"
    overview = of(user("Go on", "e1"), previous=previous)
    assert section(overview, "Session Title") == ["Parser work"]
    assert "flaky test" in section(overview, "Open Issues")
    assert section(overview, "Errors & Corrections") == []


def test_when_room_is_short_commands_go_before_answers_and_the_users_words_go_last() -> None:
    messages: list[StoreMessage] = []
    for number in range(40):
        messages += [
            user(f"Please handle the item called thing-{number}", f"u{number}"),
            assistant(
                f"I handled item {number} in the usual manner and it went well enough.",
                f"a{number}",
                call("bash", {"command": f"handle thing-{number}"}, "fine"),
            ),
        ]
    full = estimate(extract("", messages, 6000))
    counts = [
        (
            overview.count("ran: `handle"),
            overview.count("| Answer: I handled"),
            overview.count("User: Please handle"),
        )
        for overview in (extract("", messages, budget) for budget in (6000, full - 150, full // 2, full // 5))
    ]
    assert counts[0] == (40, 40, 40)
    assert counts[1][0] < 40
    assert counts[1][1:] == (40, 40)
    assert counts[2][0] == 0
    assert counts[2][1] < 40
    assert counts[2][2] == 40
    assert counts[3][1] <= 2
    assert 0 < counts[3][2] < 40
    assert "User: Please handle the item called thing-39" in extract("", messages, full // 5)


MONOTONOUS = ["a", "a-", "a_", "是", "a/", "x=", "is_", "1.", '"', "`", "no_", "a.b-"]


@pytest.mark.parametrize("piece", [*MONOTONOUS, "x = ", "is ", "a is ", "no ", "\n", " "])
def test_no_text_takes_long(piece: str) -> None:
    text = piece * (24_000 // len(piece)) + "x"
    started = time.process_time()
    overview = of(user(text, "e1"), assistant(text, "e2", call("bash", {"command": text}, text, "error")))
    assert time.process_time() - started < 3
    assert estimate(overview) <= 3000


TEXTS = st.text(
    st.sampled_from("ab7 .:=/\n`是。?#-\ufffd") | st.characters(codec="utf-8"), max_size=200
) | st.sampled_from(
    [FILLER, "codename is ORCHID", "use tabs", "## Current State", "# Working Memory", "(none)", "- x", "ran: y -> z"]
)


def _with_call(text: str, command: str, output: str, status: str) -> StoreMessage:
    return assistant(text, "e2", call("bash", {"command": command, "path": command}, output, status))


STATUSES = st.sampled_from(["completed", "error"])
KINDS: st.SearchStrategy[MessageKind] = st.sampled_from(("", "tool_transport"))
MESSAGES = st.lists(
    st.builds(user, TEXTS, st.sampled_from(["e1", "seed:g"]), KINDS)
    | st.builds(_with_call, TEXTS, TEXTS, TEXTS, STATUSES),
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(first=MESSAGES, second=MESSAGES, budget=st.integers(100, 1500))
def test_any_conversation_gives_an_acceptable_overview_within_the_budget(
    first: list[StoreMessage], second: list[StoreMessage], budget: int
) -> None:
    previous = extract("", first, budget)
    overview = extract(previous, second, budget)
    assert overview == extract(previous, second, budget)
    assert acceptable(overview)
    assert estimate(overview) <= budget
    assert [one for one in overview.splitlines() if one.startswith("## ")] == [f"## {name}" for name in SECTIONS]


def test_an_overview_within_the_budget_is_not_cut() -> None:
    text = of(user("The codename is ORCHID-7731", "e1"))
    assert cut_sections(text, estimate(text)) == text


def test_cutting_keeps_each_heading_and_the_short_sections() -> None:
    text = (
        "# Working Memory\n\n## Current State\nshort\n\n## Key Facts & Decisions\n"
        + "- fact\n" * 2000
        + "\n## Open Issues\nlast\n"
    )
    cut = cut_sections(text, 200)
    assert estimate(cut) <= 200
    assert estimate(cut) > 150
    assert cut.endswith("\n" + TRUNCATED)
    for line in ("# Working Memory", "## Current State", "short", "## Key Facts & Decisions", "## Open Issues", "last"):
        assert line in cut.splitlines()


def test_a_heading_in_a_code_fence_is_text() -> None:
    text = "## A\n```\n## not a heading\n" + "x\n" * 2000 + "```\n## B\nb\n"
    cut = cut_sections(text, 60)
    assert "## A" in cut
    assert "## B" in cut
    assert estimate(cut) <= 60


@pytest.mark.parametrize("text", ["word " * 2000, "是" * 2000, "## a\n" * 2000])
def test_a_text_without_sections_or_of_headings_only_is_cut_plainly(text: str) -> None:
    cut = cut_sections(text, 100)
    assert estimate(cut) <= 100
    assert cut.startswith(text[:4])
    assert cut.endswith(TRUNCATED)


@settings(max_examples=80, deadline=None)
@given(
    bodies=st.lists(st.text(max_size=400), min_size=1, max_size=7),
    budget=st.integers(100, 800),
)
def test_a_cut_is_within_the_budget_and_has_every_heading(bodies: list[str], budget: int) -> None:
    text = "".join(
        f"## {name}\n{body.replace('#', '').replace('`', '').replace('~', '')}\n"
        for name, body in zip(SECTIONS, bodies, strict=False)
    )
    cut = cut_sections(text, budget)
    assert estimate(cut) <= budget
    assert [one for one in cut.split("\n") if one.startswith("## ")] == [
        f"## {name}" for name in SECTIONS[: len(bodies)]
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n\t",
        "blah blah",
        "# Working Memory",
        "## Unknown Heading\ntext",
        "# Session Summary\n\n**Overview**: 1 turns, 2 messages",
        "\n# Session Summary\n\n**Overview**: 3 turns\n\n## Current State\nnone",
        "text with ## Current State inside",
        "### Current State",
        "[Directory overview is not ready]",
    ],
)
def test_overviews_that_cannot_stand_for_history(text: str) -> None:
    assert not acceptable(text)


@pytest.mark.parametrize("name", SECTIONS)
def test_one_known_section_is_enough(name: str) -> None:
    assert acceptable(f"# Working Memory\n\n## {name}\nsomething")
