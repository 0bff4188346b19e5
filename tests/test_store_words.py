from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vikingpi.viking.words import matches, passages, query_terms, terms


def finds(query: str, text: str) -> bool:
    present = frozenset(terms(text))
    return all(matches(term, present) for term in query_terms(query))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("maxRetryCount", "let maxRetryCount = 3"),
        ("max_retry_count", "let maxRetryCount = 3"),
        ("retry count", "MAX_RETRY_COUNT=3"),
        ("HTTPServer", "class HTTPServerFactory"),
        ("config_loader", "src/app/config_loader.py"),
        ("loader", "src/app/config_loader.py"),
        ("src/app", "src/app/config_loader.py"),
        ("ORCHID-7731", "codename is orchid-7731."),
        ("7731", "codename is ORCHID-7731."),
        ("v2.3", "release v2.3 is out"),
        ("deploying", "it was deployed"),
        ("policies", "one policy"),
        ("stopped", "stop it"),
        ("caching", "the cache"),
        ("cafe", "Café au lait"),
        ("部署", "新的部署窗口"),
        ("窗口", "新的部署窗口"),
        ("口", "新的部署窗口"),
        ("署", "新的部署窗口"),
        ("サーバ", "本番サーバーの設定"),
        ("서버", "운영 서버는 여기"),
        ("ＡＢＣ１２３", "abc123 in half width"),
        ("ключ", "Секретный ключ здесь"),
    ],
)
def test_a_query_meets_a_text(query: str, text: str) -> None:
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"), [("署部", "新的部署窗口"), ("retry limit", "maxRetryCount"), ("7732", "ORCHID-7731")]
)
def test_a_query_misses_another_text(query: str, text: str) -> None:
    assert not finds(query, text)


def test_words_that_say_nothing_are_not_looked_for() -> None:
    assert query_terms("What is the port of this gateway?") == ("port", "gateway")


def test_a_query_of_nothing_but_such_words_is_taken_as_it_is() -> None:
    assert query_terms("to be or not to be") == ("to", "be", "or", "not")


def test_a_long_query_is_bounded() -> None:
    assert len(query_terms(" ".join(f"word{n}x" for n in range(500)))) == 32


@given(st.text(max_size=400))
def test_a_text_is_found_by_itself(text: str) -> None:
    assert finds(text, text)


@given(st.text(max_size=200))
def test_terms_hold_no_character_that_an_index_could_split_at(text: str) -> None:
    assert all(term and not any(char.isspace() or char in '"*^:()' for char in term) for term in terms(text))


@given(st.text(alphabet="ab \n。.", max_size=6000))
def test_passages_cover_a_text_without_gaps(text: str) -> None:
    spans = passages(text)
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert all(0 < stop - start <= 1000 for start, stop in spans)
    covered = spans[-1][1] if spans else 0
    assert not text[covered:].strip()
    assert not spans or spans[0][0] == 0
