from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vikingpi.errors import BadResponse
from vikingpi.llm.sse import Decoder, Event


def decode(*pieces: bytes) -> list[Event]:
    decoder = Decoder()
    out: list[Event] = []
    for piece in pieces:
        out += decoder.feed(piece)
    return out + decoder.close()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_at_lf_cr_or_crlf(end: bytes) -> None:
    data = end.join([b"event: x", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert decode(data) == [Event("1\n2", "x"), Event("3")]


def test_other_separators_are_content() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei"
    assert decode(f"data: {text}\n\n".encode()) == [Event(text)]


def test_a_crlf_cut_in_two_is_one_line_end() -> None:
    assert decode(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [Event("a\nb")]


def test_comments_unknown_fields_and_events_without_data_are_left_out() -> None:
    assert decode(b": keep-alive\n\nid: 4\nretry: 10\n\nevent: ping\n\ndata: x\n\n") == [Event("x")]


def test_only_one_space_after_the_colon_is_dropped() -> None:
    assert decode(b"data:  two\n\ndata:none\n\ndata\n\n") == [Event(" two"), Event("none"), Event("")]


def test_a_byte_order_mark_is_dropped() -> None:
    assert decode(b"\xef\xbb", b"\xbfdata: x\n\n") == [Event("x")]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert decode(b"data: a\xffb\xf0\x9f\n\n") == [Event("a\ufffdb\ufffd")]


def test_the_end_of_the_stream_completes_the_last_event() -> None:
    assert decode(b"data: a\n\ndata: b") == [Event("a"), Event("b")]


def test_events_are_given_as_soon_as_they_are_complete() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\ndata") == [Event("a")]


def test_an_endless_event_is_an_error() -> None:
    decoder = Decoder(limit=1000)
    with pytest.raises(BadResponse, match="too large"):
        for _ in range(100):
            decoder.feed(b"data: " + b"x" * 100)


def test_an_endless_number_of_data_lines_is_an_error() -> None:
    decoder = Decoder(limit=1000)
    with pytest.raises(BadResponse, match="too large"):
        for _ in range(100):
            decoder.feed(b"data: " + b"x" * 100 + b"\n")


def test_many_small_events_are_no_large_event() -> None:
    decoder = Decoder(limit=100)
    assert sum(len(decoder.feed(b"data: 0123456789\n\n")) for _ in range(500)) == 500


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), max_size=5),
    st.sampled_from(["\n", "\r", "\r\n"]),
    st.data(),
)
def test_the_cuts_between_pieces_do_not_matter(texts: list[str], end: str, data: st.DataObject) -> None:
    stream = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decode(*pieces) == decode(stream) == [Event(text) for text in texts]
