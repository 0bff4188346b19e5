import asyncio
import io
import os
from collections.abc import AsyncIterator, Sequence

import pytest
from ui_fake import FakeApp, replay, text_answer, user_events

from vikingpi.errors import SessionError
from vikingpi.events import (
    BoundaryAdvanced,
    CommitFailed,
    Event,
    HookFailed,
    MessageEnd,
    MessageUpdate,
    Notice,
    RetryEnd,
    RetryStart,
    TurnStart,
)
from vikingpi.messages import AssistantMessage, ImagePart, TextPart, ThinkingPart, Usage
from vikingpi.ui.lines import failure_of, line_of, seconds, tokens
from vikingpi.ui.plain import Prompt, run_print


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(
    app: FakeApp, *texts: str, out: io.StringIO | None = None, prompts: Sequence[Prompt] = ()
) -> tuple[int, str, str]:
    out, err = out or io.StringIO(), io.StringIO()
    code = asyncio.run(run_print(app, prompts or [(text, ()) for text in texts], out, err))
    return code, out.getvalue(), err.getvalue()


def test_the_answer_goes_to_stdout_byte_for_byte() -> None:
    assert run(FakeApp(replay(text_answer("Acknowledged.  \x1b[1m"))), "hello") == (
        0,
        "Acknowledged.  \x1b[1m\n",
        "",
    )


def test_each_text_block_ends_with_a_newline() -> None:
    message = text_answer("one")._replace(content=(TextPart("one"), TextPart("two\n")))
    assert run(FakeApp(replay(message)), "hello")[1] == "one\ntwo\n\n"


def test_a_terminal_gets_no_control_sequences_of_the_model() -> None:
    code, out, _ = run(FakeApp(replay(text_answer("a\x1b[2Jb\x07c"))), "hello", out=Terminal())
    assert code == 0
    assert "\x1b" not in out
    assert "\x07" not in out


def test_only_the_last_of_several_answers_is_printed() -> None:
    app = FakeApp(replay(text_answer("first"), text_answer("second")))
    assert run(app, "a", "b") == (0, "second\n", "")
    assert app.submitted == ["a", "b"]


def test_images_go_with_their_prompt() -> None:
    app = FakeApp(replay(text_answer("seen")))
    run(app, prompts=[("look", (ImagePart("aGk=", "image/png"),))])
    assert app.images == [(ImagePart("aGk=", "image/png"),)]


@pytest.mark.parametrize(
    ("reason", "error", "line"),
    [
        ("error", "401: bad key", "error: 401: bad key\n"),
        ("aborted", None, "error: aborted\n"),
    ],
)
def test_a_failed_answer_is_an_error_and_ends_the_run(reason: str, error: str | None, line: str) -> None:
    failed = text_answer("part", "error" if reason == "error" else "aborted", error)
    app = FakeApp(replay(failed, text_answer("never")))
    assert run(app, "a", "b") == (1, "part\n", line)
    assert app.submitted == ["a"]


def test_an_answer_cut_by_length_is_printed_and_fails() -> None:
    code, out, err = run(FakeApp(replay(text_answer("half", "length"))), "a")
    assert (code, out) == (1, "half\n")
    assert err.startswith("error: the answer was cut")
    assert "\nhint: " in err


def test_a_session_that_cannot_be_written_is_an_error_with_its_hint() -> None:
    app = FakeApp(replay(SessionError("cannot write x", hint="free some space")))
    assert run(app, "a") == (1, "", "error: cannot write x\nhint: free some space\n")


def test_no_answer_at_all_is_not_a_success() -> None:
    async def play(app: FakeApp, text: str) -> AsyncIterator[Event]:
        for event in user_events(text):
            yield event

    assert run(FakeApp(play), "a") == (1, "", "error: there was no answer\n")


@pytest.mark.parametrize(
    "content", [(), (TextPart(" \n"),), (ThinkingPart("hm"),)], ids=["nothing", "blank", "thought"]
)
def test_an_answer_that_says_nothing_is_no_success(content: tuple[TextPart | ThinkingPart, ...]) -> None:
    code, out, err = run(FakeApp(replay(text_answer("")._replace(content=content))), "a")
    assert (code, out.strip()) == (1, "")
    assert err == "error: the model's answer is empty\nhint: ask again, or choose another model\n"


def test_an_answer_before_the_last_that_says_nothing_is_warned_of() -> None:
    told = "warning: the model's answer is empty\nhint: ask again, or choose another model\n"
    assert run(FakeApp(replay(text_answer(""), text_answer("second"))), "a", "b") == (0, "second\n", told)


@pytest.mark.parametrize("content", [(), (ThinkingPart("so much"),)], ids=["nothing", "thought"])
def test_an_output_limit_before_the_first_word_is_named(content: tuple[ThinkingPart, ...]) -> None:
    code, out, err = run(FakeApp(replay(text_answer("", "length")._replace(content=content))), "a")
    assert (code, out) == (1, "")
    assert err.startswith("error: the model reached its output limit before it answered\nhint: raise maxTokens")


def test_everything_else_is_one_line_each_on_stderr() -> None:
    app = FakeApp(
        replay(
            [
                TurnStart(),
                Notice("store is down:\nno route", "warning", "check the address"),
                RetryStart(1, 3, 2000, "503 overloaded"),
                HookFailed("Memory", "turn_end", "KeyError: 'x'"),
                CommitFailed("refused"),
                BoundaryAdvanced(12, 31_200, 2800),
                MessageUpdate("text_delta", 0, "not for stderr"),
                MessageEnd(text_answer("done")),
            ]
        )
    )
    code, out, err = run(app, "a")
    assert (code, out) == (0, "done\n")
    lines = err.splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("warning: store is down:")
    assert lines[0].endswith("no route")
    assert lines[1:] == [
        "hint: check the address",
        "warning: retry 1/3 in 2.0 s: 503 overloaded",
        "warning: Memory.turn_end failed and was skipped: KeyError: 'x'",
        "warning: context store: not archived: refused",
        "hint: the full history stays in the request",
        "context: turns 1-12 are now an overview (31.2k -> 2.8k tokens)",
    ]


def test_an_error_that_a_notice_has_explained_is_not_said_twice() -> None:
    failed = text_answer("", "error", "no key for lab")
    notice = Notice("no key for lab", "error", "set LAB_KEY")
    code, _, err = run(FakeApp(replay([notice, MessageEnd(failed)])), "a")
    assert (code, err) == (1, "error: no key for lab\nhint: set LAB_KEY\n")


def test_what_happens_while_the_session_opens_is_reported() -> None:
    app = FakeApp(replay(text_answer("ok")))
    app.parts.notices = ("line 3 of the session file is damaged",)
    err = io.StringIO()

    async def start() -> None:
        app.emit(Notice("forked from s1"))

    asyncio.run(run_print(app, [("a", ())], io.StringIO(), err, start))
    assert err.getvalue() == "forked from s1\nline 3 of the session file is damaged\n"


def test_a_reader_that_went_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        err = io.StringIO()
        code = asyncio.run(run_print(FakeApp(replay(text_answer("ok"))), [("a", ())], out, err))
        out.write("more")
    assert (code, err.getvalue()) == (0, "")


def test_what_the_stream_cannot_encode_is_replaced() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "latin-1", newline="")
    asyncio.run(run_print(FakeApp(replay(text_answer("é 界 \ud83d"))), [("a", ())], out, io.StringIO()))
    assert raw.getvalue() == b"\xe9 ? ?\n"


def test_figures_are_short() -> None:
    counts = (0, 950, 2800, 12_345, 99_960, 128_000, 999_900, 1_250_000)
    assert [tokens(n) for n in counts] == ["0", "950", "2.8k", "12.3k", "100k", "128k", "1M", "1.2M"]
    assert [seconds(ms) for ms in (400, 12_000, 185_000)] == ["0.4 s", "12 s", "3 min 05 s"]


def test_a_full_window_is_not_blamed_on_the_output_limit() -> None:
    cut = AssistantMessage((), "a", "p", "m", Usage(), "length", 1, raw_stop_reason="model_context_window_exceeded")
    line = failure_of(cut)
    assert line is not None and "context window is full" in line.text and "maxTokens" not in line.hint
    other = failure_of(cut._replace(raw_stop_reason="max_tokens"))
    assert other is not None and "output limit" in other.text


@pytest.mark.parametrize(("attempt", "text"), [(1, "gave up after 1 retry"), (3, "gave up after 3 retries")])
def test_retries_are_counted_in_words_that_fit(attempt: int, text: str) -> None:
    line = line_of(RetryEnd(False, attempt, "x"))
    assert line is not None and line.text == text
