import re
from collections.abc import Sequence

import pytest
from ui_fake import answer, text_answer

from vikingpi import events
from vikingpi.app.shell import ShellRun
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    user_text,
)
from vikingpi.ui.lines import Line
from vikingpi.ui.printer import Printer
from vikingpi.ui.render import Painter
from vikingpi.ui.rows import Row, heads, results, running
from vikingpi.ui.theme import Theme
from vikingpi.ui.transcript import Transcript

PLAIN = Painter(Theme("none", "ansi_dark"))


def result(
    text: str, *, is_error: bool = False, ms: int | None = None, details: dict[str, str] | None = None
) -> ToolResultMessage:
    return ToolResultMessage("c", "t", (TextPart(text),), is_error, 0, details, ms)


def shown(call: ToolCall, outcome: ToolResultMessage) -> list[str]:
    return [row.text for row in results(call, outcome)]


def test_a_command_shows_its_last_lines_and_a_long_time() -> None:
    call = ToolCall("c", "bash", {"command": "seq 9"})
    output = "".join(f"{n}\n" for n in range(1, 10))
    assert shown(call, result(output, ms=3000)) == ["$ seq 9", "... (4 earlier lines)", *"56789", "took 3.0 s"]
    assert shown(call, result("1\n", ms=30)) == ["$ seq 9", "1"]


def test_a_long_command_is_folded_and_hides_nothing() -> None:
    call = ToolCall("c", "bash", {"command": "a\nb\nc\nd\ne\x1b[8mf"})
    assert [row.text for row in heads(call)] == ["$ a", "  b", "  c", "  d", "  ... (1 more line)"]
    hidden = ToolCall("c", "bash", {"command": "ls \x1b[8m; rm x"})
    assert "\x1b" not in heads(hidden)[0].text
    assert "[8m" in heads(hidden)[0].text


def test_reading_shows_path_range_and_size() -> None:
    assert shown(ToolCall("c", "read", {"path": "a.py"}), result("x\ny\n")) == ["read a.py (2 lines)"]
    part = ToolCall("c", "read", {"path": "a.py", "offset": 5, "limit": 10})
    assert shown(part, result("x")) == ["read a.py:5-14 (1 line)"]


def test_writing_shows_the_first_lines() -> None:
    call = ToolCall("c", "write", {"path": "a", "content": "\n".join("abcdefg")})
    assert shown(call, result("ok")) == ["write a", *"abcde", "... (2 more lines)"]


def test_an_edit_is_a_diff() -> None:
    call = ToolCall("c", "edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]})
    rows = results(call, result("ok", details={"diff": " 1 a\n-2 x\n+2 y"}))
    assert [(row.text, row.style) for row in rows[1:]] == [(" 1 a", "dim"), ("-2 x", "removed"), ("+2 y", "added")]
    assert shown(call, result("ok")) == ["edit a", "-x", "+y"]


def test_a_failed_call_shows_why() -> None:
    rows = results(ToolCall("c", "read", {"path": "a"}), result("no such file", is_error=True))
    assert [(row.text, row.style) for row in rows] == [("read a", "tool"), ("no such file", "error")]


def test_other_tools_show_their_arguments_on_one_line() -> None:
    call = ToolCall("c", "viking_search", {"query": "a\nb", "limit": 3})
    assert heads(call)[0].text == "viking_search query=a b limit=3"
    assert heads(ToolCall("c", "bash", {}, '{"comm'))[0].text == 'bash {"comm'


def test_images_of_a_result_are_counted() -> None:
    image = ToolResultMessage("c", "read", (ImagePart("", "image/png"),), False, 0)
    assert shown(ToolCall("c", "read", {"path": "a.png"}), image) == ["read a.png", "(1 image)"]


def test_a_running_command_shows_how_long() -> None:
    call = ToolCall("c", "bash", {"command": "x"})
    assert [row.text for row in running(call, "a\n", 2500)] == ["$ x", "a", "elapsed 2.0 s"]


class Shown:
    """Keeps what was printed."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, lines: Sequence[str], gap: bool) -> None:
        self.lines += [*([""] if gap else []), *lines]

    def plain(self) -> list[str]:
        """The lines without their codes."""
        return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in self.lines]


def transcript() -> tuple[Transcript, Shown]:
    out = Shown()
    return Transcript(Printer(out, lambda: 80, PLAIN)), out


def test_only_the_open_block_is_live() -> None:
    live, out = transcript()
    live.event(events.MessageStart(text_answer("")))
    live.event(events.MessageUpdate("text_delta", 0, "done\n\nop"))
    live.event(events.MessageUpdate("text_delta", 0, "en"))
    assert out.lines == ["", "done"]
    assert live.live(80) == ["open"]
    live.event(events.MessageEnd(text_answer("done\n\nopen")))
    assert out.lines == ["", "done", "", "open"]
    assert live.live(80) == []


def test_an_escape_sequence_cut_over_two_pieces_does_no_harm() -> None:
    live, out = transcript()
    for piece in ("a\x1b[3", "1mb\x1b[", "2Jc", "\x1b]0;x", "\x07"):
        live.event(events.MessageUpdate("text_delta", 0, piece))
    live.event(events.MessageEnd(text_answer("x")))
    assert "ab\u241b[2Jc" in "".join(out.lines)
    assert "\x07" not in "".join(out.lines)
    assert "\x1b]" not in "".join(out.lines)


def test_a_thought_is_live_and_then_one_line() -> None:
    live, out = transcript()
    live.event(events.MessageUpdate("thinking_delta", 0, "a\nb\nc\nd"))
    assert [line for line in live.live(80) if "c" in line]
    live.event(events.MessageUpdate("text_delta", 1, "so"))
    assert "thought for 0.0 s" in out.lines[-1]
    assert live.live(80) == ["so"]


def test_parallel_tools_have_a_row_each() -> None:
    live, out = transcript()
    first, second = ToolCall("1", "bash", {"command": "a"}), ToolCall("2", "read", {"path": "b"})
    live.event(events.ToolStart(first))
    live.event(events.ToolStart(second))
    live.event(events.ToolUpdate(first, "out\n"))
    assert len(live.live(80)) == 3
    assert live.ticking
    live.event(events.ToolEnd(second, result("x")))
    assert any("read b (1 line)" in line for line in out.lines)
    live.event(events.AgentSettled(True))
    assert live.live(80) == []
    assert not live.ticking


def test_an_aborted_and_a_cut_answer_say_so() -> None:
    live, out = transcript()
    live.event(events.MessageEnd(text_answer("", "aborted")))
    live.event(events.MessageEnd(text_answer("x", "length")))
    assert any("aborted" in line for line in out.lines)
    assert any("error: the answer was cut" in line for line in out.lines)


def test_an_answer_that_says_nothing_is_named() -> None:
    live, out = transcript()
    live.event(events.MessageEnd(text_answer("")))
    assert out.plain() == ["", "error: the model's answer is empty", "hint: ask again, or choose another model"]


def test_a_countdown_that_is_aborted_says_so_and_one_that_failed_gave_up() -> None:
    live, out = transcript()
    live.event(events.RetryEnd(False, 2, "Operation aborted"))
    assert out.plain() == ["", "aborted"]
    live.event(events.RetryEnd(False, 3, "503: overloaded"))
    assert out.plain()[-1] == "warning: gave up after 3 retries"


def test_the_past_shows_the_last_turns_only() -> None:
    live, out = transcript()
    messages: list[Message] = []
    for n in range(5):
        messages += [user_text(f"question {n}", 0), text_answer(f"answer {n}")]
    messages.insert(0, UserMessage((TextPart("## overview"),), 0, kind="overview"))
    live.past(messages, 2, {})
    text = "\n".join(out.lines)
    assert "(3 earlier turns)" in text
    assert "question 2" not in text
    assert "question 3" in text and "answer 4" in text
    assert "overview" not in text


@pytest.mark.parametrize(
    "run",
    [
        ShellRun("ls", "file\n", 0),
        ShellRun("echo `x`\nfalse", "\n".join(map(str, range(50))), 3),
        ShellRun("sleep 9", "", None, cancelled=True),
        ShellRun("yes", "y", 0, truncated=True, full_output_path="/tmp/all"),
    ],
)
def test_a_past_command_of_the_users_reads_like_it_did_when_it_was_live(run: ShellRun) -> None:
    told = UserMessage((TextPart("Ran `it`"),), 0, "r1", "bash")
    past, shown_past = transcript()
    past.past([user_text("hello", 0), told], 3, {"r1": run})
    live, shown_live = transcript()
    live.event(events.MessageEnd(user_text("hello", 0)))
    live.shell_ended(run)
    assert shown_past.plain() == shown_live.plain()
    assert f"! {run.command.split(chr(10))[0]}" in shown_past.plain()


def conversation() -> list[Message]:
    """A prompt whose calls went well, were refused, were aborted and failed, and an answer with Markdown."""
    outcomes = [("1\n2\n3\n4\n5\n6\n7", False), ("The user refused this call.", True), ("Command aborted", True)]
    calls = [ToolCall(str(n), "bash", {"command": f"run {n}"}) for n in range(3)]
    calls.append(ToolCall("3", "read", {"path": "a.py"}))
    outcomes.append(("no such file", True))
    return [
        user_text("do it", 0),
        answer(*calls, reason="toolUse"),
        *(
            ToolResultMessage(call.id, call.name, (TextPart(text),), is_error, 0, None, 30)
            for call, (text, is_error) in zip(calls, outcomes, strict=True)
        ),
        text_answer("**bold** and\n\n```\ncode\n```"),
        user_text("again", 0),
        text_answer("", "aborted", "Operation aborted"),
        user_text("and again", 0),
        text_answer("", "error", "500: broken"),
        user_text("more", 0),
        text_answer("cut", "length"),
    ]


def test_the_past_reads_like_it_did_when_it_was_live() -> None:
    past, shown_past = transcript()
    past.past(conversation(), 9, {})
    live, shown_live = transcript()
    calls: dict[str, ToolCall] = {}
    for message in conversation():
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.calls}
            live.event(events.MessageUpdate("text_delta", 0, message.text))
        if isinstance(message, ToolResultMessage):
            live.event(events.ToolEnd(calls[message.tool_call_id], message))
        live.event(events.MessageEnd(message))
    text = "\n".join(shown_past.plain())
    for said in ("The user refused this call.", "Command aborted", "Operation aborted", "no such file", "4\n5\n6\n7"):
        assert said in text
    assert "\nerror: 500: broken\n" in text
    assert "\nbold and\n" in text
    seen, then = ([line for line in shown.plain() if line] for shown in (shown_past, shown_live))
    assert [line for line in seen if "500" not in line] == then


def test_what_unfolds_is_of_the_session_that_is_open() -> None:
    live, out = transcript()
    live.event(events.MessageUpdate("thinking_delta", 0, "old thought"))
    live.event(events.MessageEnd(text_answer("fine")))
    live.event(events.ToolEnd(ToolCall("c", "bash", {"command": "x"}), result("old\n" * 9)))
    for messages in ([], [user_text("hello", 0), text_answer("plain")]):
        live.past(messages, 3, {})
        out.lines.clear()
        live.toggle_results()
        live.toggle_thoughts()
        assert out.lines == []
        live.toggle_results()
        live.toggle_thoughts()
    live.past(conversation(), 9, {})
    out.lines.clear()
    live.toggle_results()
    assert out.plain() == ["", "$ run 0", *"1234567"]


def test_of_a_long_past_answer_the_end_is_shown() -> None:
    live, out = transcript()
    live.past([user_text("hello", 0), text_answer("\n\n".join(f"line {n}" for n in range(100)))], 3, {})
    assert "... (80 earlier lines)" in out.plain()
    assert out.plain()[-1] == "line 99"
    assert "line 79" not in out.plain()


def test_a_notice_waits_until_the_block_that_arrives_is_whole() -> None:
    live, out = transcript()
    live.event(events.MessageUpdate("text_delta", 0, "```python\nx = 1\n"))
    live.event(events.BoundaryAdvanced(12, 31_200, 2800))
    assert out.plain() == []
    live.event(events.MessageUpdate("text_delta", 0, "y = 2\n```\n"))
    live.event(events.MessageEnd(text_answer("done")))
    assert out.plain() == [
        "",
        "```python",
        "x = 1",
        "y = 2",
        "```",
        "",
        "context: turns 1-12 are now an overview (31.2k -> 2.8k tokens)",
    ]


def test_folded_results_of_the_last_prompt_that_had_any_can_be_seen() -> None:
    live, out = transcript()
    call = ToolCall("c", "bash", {"command": "seq 9"})
    live.event(events.ToolEnd(call, result("".join(f"{n}\n" for n in range(1, 10)))))
    live.event(events.MessageEnd(user_text("next", 0)))
    live.event(events.MessageEnd(text_answer("fine")))
    out.lines.clear()
    assert live.toggle_results()
    assert out.plain() == ["", "$ seq 9", *"123456789"]
    assert not live.toggle_results()


def test_what_is_cut_by_the_width_of_the_window_unfolds_too() -> None:
    live, out = transcript()
    live.event(events.ToolEnd(ToolCall("c", "bash", {"command": "x"}), result("y" * 100)))
    assert out.plain()[-1] == "y" * 77 + "..."
    live.toggle_results()
    assert out.plain()[-1] == "y" * 100


def test_a_long_command_is_shown_whole() -> None:
    live, out = transcript()
    command = "echo " + "a" * 100 + "; rm -r x"
    live.event(events.ToolEnd(ToolCall("c", "bash", {"command": command}), result("")))
    assert "".join(line.strip() for line in out.plain()) == f"$ {command}"


def test_a_long_line_is_broken_at_its_blanks_and_addresses_stay_whole() -> None:
    lines: list[str] = []
    printer = Printer(lambda shown, gap: lines.extend(shown), lambda: 20, PLAIN)
    printer.line(Line("the key is refused by https://api.example.org/v1 now", "info", "check the key of lab"))
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in lines] == [
        "the key is refused",
        "by",
        "https://api.example.org/v1",
        "now",
        "hint: check the key",
        "of lab",
    ]


def test_what_the_user_said_is_broken_at_blanks_and_hangs() -> None:
    lines: list[str] = []
    printer = Printer(lambda shown, gap: lines.extend(shown), lambda: 12, PLAIN)
    printer.prose([Row("> one two three four", "user"), Row("  \tfive", "user")], hang=2)
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in lines] == ["> one two", "  three four", "      five"]
