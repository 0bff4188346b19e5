"""Pages of strangers: what they say, and that reading one takes time in proportion to its size."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from vikingpi.llm.failures import read_error
from vikingpi.memory.guard import barred
from vikingpi.messages import ToolCall
from vikingpi.viking import facts
from vikingpi.viking.webtext import readable

HTML = "text/html; charset=utf-8"
PIECES = (
    *(
        "<script ",
        "<script></script",
        "x<",
        "<h1>",
        "<h1>a</h2>",
        "<title>",
        "<title ",
        "<pre>",
        "<pre><a",
        "<pre></pre ",
    ),
    *("<!--", "<!-->", "<!doctype ", "<nav>", "<nav></nav", "<svg/>", "<p>", "<a", "&", "&#1", "&lt", "<li><ul>", "</"),
    *("<style></style ", "<td", "<head>", "\n ", "<noscript>a</noscript ", "<div ", '"', "<a b='"),
)
STATEMENTS = ("called ", "is now ", "a is /", "x = ", "`", "1", "not a ", "http://", "Error.", "remember ")


def page(html: str) -> str:
    return readable(html.encode(), HTML)


def seconds(work: Callable[[str], object], text: str) -> float:
    taken: list[float] = []
    for _ in range(2):
        start = time.thread_time()
        work(text)
        taken.append(time.thread_time() - start)
    return min(taken)


def grows_with_its_size(work: Callable[[str], object], piece: str, size: int) -> bool:
    """Whether eight times the text takes about eight times as long, and not sixty-four times."""
    small = seconds(work, piece * (size // len(piece)))
    large = seconds(work, piece * (8 * size // len(piece)))
    return large < 0.2 or large < 30 * max(small, 0.002)


@pytest.mark.parametrize("piece", PIECES)
def test_a_page_takes_time_in_proportion_to_its_size(piece: str) -> None:
    assert grows_with_its_size(lambda text: page(f"<p>a</p>{text}"), piece, 24_000)


def test_a_page_of_the_most_allowed_size_is_read_at_once() -> None:
    start = time.thread_time()
    assert page("<p>a</p><script>" + "x<" * (5 * 1024 * 512)) == "a"
    assert time.thread_time() - start < 5


@pytest.mark.parametrize("piece", ["<title ", "<title>", "<script>", "<script ", "<a", "<style></style "])
def test_an_error_page_takes_time_in_proportion_to_its_size(piece: str) -> None:
    assert grows_with_its_size(lambda text: read_error(500, {}, text.encode()), piece, 12_000)


@pytest.mark.parametrize("piece", STATEMENTS)
def test_looking_for_facts_takes_time_in_proportion_to_the_text(piece: str) -> None:
    assert grows_with_its_size(facts.condense, piece, 4_000)
    assert grows_with_its_size(facts.valued, piece, 4_000)


@pytest.mark.parametrize("piece", ["sudo cat ", "cat          ", "grep -a "])
def test_judging_a_command_takes_bounded_time(piece: str) -> None:
    command = f"{piece * 20_000}; viking://"
    assert seconds(lambda text: barred(ToolCall("1", "bash", {"command": text})), command) < 5


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a < b and <b>bold</b> &lt;i&gt; x<i>y</i> z</p>", "a < b and bold <i> xy z"),
        ("<h2> Two<div>lines</div></h2><p>text</p>", "## Two lines\n\ntext"),
        ("<p>seen<script>unclosed", "seen"),
        ("<p>seen<nav>unclosed", "seenunclosed"),
        ("a<!-- hidden <p> -->b", "ab"),
        ("a<!-- unclosed", "a<!-- unclosed"),
        ("<pre>x = 1\n  <b>y</b> &amp; z</pre>", "```\nx = 1\n  y & z\n```"),
        ("<head><title>T</title><style>x</style></head><p>b", "# T\n\nb"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a | b |"),
        (f"<p>a &#{'9' * 10_000};", "a \ufffd"),
        ("<h1></h1><p>only", "only"),
    ],
)
def test_a_page_reads_as_a_browser_would_show_it(html: str, text: str) -> None:
    assert page(html) == text
