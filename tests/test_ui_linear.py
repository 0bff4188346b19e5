"""Text of any kind passes through the chat's printing in linear time."""

import time
from collections.abc import Callable

import pytest

from vikingpi import events, safetext
from vikingpi.messages import TextPart, ToolCall, ToolResultMessage, user_text
from vikingpi.ui.arriving import MOST_PAINTED, Arriving
from vikingpi.ui.blocks import Splitter
from vikingpi.ui.input import typed
from vikingpi.ui.lines import Line
from vikingpi.ui.pastes import Pastes
from vikingpi.ui.printer import Printer, user_rows
from vikingpi.ui.render import Painter
from vikingpi.ui.rows import FULL, results
from vikingpi.ui.theme import Theme
from vikingpi.ui.transcript import LIVE_THOUGHT, Transcript

SIZE, TIMES = 3_000, 16
KINDS = (
    "这是 一段 中文 word ",
    "中",
    "word ",
    " ",
    "e\u0301",
    "\x1b[31mx",
    "\u200d",
    "a\n",
    "- a\n",
    "\t",
    "[paste #1 ",
)


def printer() -> Printer:
    return Printer(lambda lines, gap: None, lambda: 80, Painter(Theme("none", "ansi_dark")))


def cleaned(text: str) -> None:
    cleaner = safetext.Cleaner()
    for at in range(0, len(text), 20):
        cleaner.feed(text[at : at + 20])


def streamed(text: str) -> None:
    splitter, seen = Splitter(), 0
    for at in range(0, len(text), 20):
        splitter.feed(text[at : at + 20])
        seen += splitter.idle
    splitter.close()
    assert seen <= len(text)


def thought(text: str) -> None:
    """Each look costs the same once there is more than is shown, which is so from the beginning here."""
    live = Transcript(printer())
    live.event(events.MessageUpdate("thinking_delta", 0, (text * (LIVE_THOUGHT // len(text) + 1))[:LIVE_THOUGHT]))
    for at in range(0, len(text), 20):
        live.event(events.MessageUpdate("thinking_delta", 0, text[at : at + 20]))
        if at % 1000 == 0:
            live.live(80)
    live.event(events.MessageUpdate("thinking_end", 0, text))


class Counting(Painter):
    """Counts the characters that are painted."""

    painted = 0

    def markdown(self, text: str, columns: int) -> list[str]:
        self.painted += len(text)
        return super().markdown(text, columns)


def in_one_piece(text: str) -> None:
    """An answer without a line break, whole in one frame."""
    answer = Arriving(printer())
    answer.feed(text)
    answer.give()
    answer.live(80)
    answer.ends()


def called(text: str) -> None:
    call, result = ToolCall("c", "bash", {"command": text}), ToolResultMessage("c", "t", (TextPart(text),), False, 0)
    printer().rows(results(call, result))
    printer().text(results(call, result, FULL))


def pasted(text: str) -> None:
    pastes = Pastes()
    pastes.unfold(pastes.fold(typed(text)) + text)


PATHS: dict[str, Callable[[str], object]] = {
    "plain": safetext.plain,
    "literal": safetext.literal,
    "one line": lambda text: safetext.one_line(text, len(text)),
    "wrapped": lambda text: safetext.wrapped(text, 80),
    "wrapped at blanks": lambda text: safetext.wrapped(text, 80, break_words=False),
    "broken": lambda text: safetext.broken(text, 80),
    "cleaned in pieces": cleaned,
    "streamed": streamed,
    "thought": thought,
    "prompt": lambda text: printer().prose(user_rows(user_text(text, 0), "user"), hang=2),
    "notice": lambda text: printer().line(Line(text, hint=text)),
    "call": called,
    "paste": pasted,
    "in one piece": in_one_piece,
}


def spent(path: Callable[[str], object], text: str) -> float:
    """The least time of three, at least a tenth of a millisecond: below that only the clock is measured."""
    least = float("inf")
    for _ in range(3):
        started = time.process_time()
        path(text)
        least = min(least, time.process_time() - started)
    return max(least, 1e-4)


@pytest.mark.parametrize("name", PATHS)
def test_text_sixteen_times_as_long_takes_no_more_than_some_times_as_long(name: str) -> None:
    for kind in KINDS:
        short = kind * (SIZE // len(kind))
        assert spent(PATHS[name], short * TIMES) < 5 * TIMES * spent(PATHS[name], short), kind


@pytest.mark.parametrize("kind", ["word ", "x", "中文"])
def test_a_frame_of_an_answer_without_line_breaks_looks_at_a_bounded_part_of_it(kind: str) -> None:
    painter, shown = Counting(Theme("none", "ansi_dark")), list[str]()
    answer = Arriving(Printer(lambda lines, gap: shown.extend(lines), lambda: 80, painter))
    text = kind * (400_000 // len(kind))
    answer.feed(text)
    for _ in range(3):
        before = painter.painted
        answer.give()
        answer.live(80)
        assert painter.painted - before < 4 * MOST_PAINTED
    assert len(shown) > 3 * MOST_PAINTED // 80 - 30
    answer.ends()
    assert painter.painted < 1.5 * len(text)
    assert "".join(shown).replace(" ", "") == text.replace(" ", "")
    assert shown == printer().painter.markdown(text, 80)


def test_the_rows_of_a_long_paragraph_are_painted_in_linear_time() -> None:
    paint = printer().painter.markdown
    assert spent(lambda text: paint(text, 4), "x" * 256_000) < 32 * spent(lambda text: paint(text, 4), "x" * 16_000)


def test_a_thought_of_half_a_megabyte_is_not_copied_for_each_of_its_pieces() -> None:
    def arrives(length: int) -> None:
        live = Transcript(printer())
        for _ in range(length // 4):
            live.event(events.MessageUpdate("thinking_delta", 0, "hmm "))

    assert spent(lambda text: arrives(512_000), "") < 12 * spent(lambda text: arrives(64_000), "")
