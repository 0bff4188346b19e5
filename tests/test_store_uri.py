from __future__ import annotations

import pytest

from vikingpi.errors import StoreRejected
from vikingpi.viking.uri import check_deletable, check_session_name, check_uri, segment, with_query


@pytest.mark.parametrize("name", ["a", "pi-0199-abc__1f2e3d4c", "...", "A.b_c-9", "x" * 200])
def test_session_names_that_are_allowed(name: str) -> None:
    assert check_session_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a b", "a:b", "a\n", "é", "x" * 201])
def test_session_names_that_are_refused(name: str) -> None:
    with pytest.raises(StoreRejected):
        check_session_name(name)


@pytest.mark.parametrize(
    ("uri", "checked"),
    [
        ("viking://user/u/memories/profile.md", "viking://user/u/memories/profile.md"),
        (" viking://resources/a b/ ", "viking://resources/a b"),
        ("viking://", "viking://"),
        ("viking://~", "viking://~"),
        ("viking://resources/资料", "viking://resources/资料"),
    ],
)
def test_addresses_that_are_allowed(uri: str, checked: str) -> None:
    assert check_uri(uri) == checked


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "http://x/y",
        "/etc/passwd",
        "viking:/user",
        "viking://user/../other",
        "viking://user/./u",
        "viking://user//u",
        "viking://user/%2e%2e/u",
        "viking://user/a%2fb",
        "viking://user/a\\b",
        "viking://user/a\nb",
        "viking://user/a%00b",
        "viking:///user",
    ],
)
def test_addresses_that_are_refused(uri: str) -> None:
    with pytest.raises(StoreRejected):
        check_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "viking://user/u/memories/profile.md",
        "viking://user/u/memories/entities/orchid.md",
        "viking://user/u/memories/entities/orchid",
        "viking://~/memories/preferences/tabs.md",
        "viking://user/u/sessions/pi-1",
        "viking://resources/manual",
        "viking://resources/manual/part-1.md",
        "viking://agent/a/memories/cases/one.md",
    ],
)
def test_one_thing_may_be_deleted(uri: str) -> None:
    assert check_deletable(uri) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "viking://",
        "viking://~",
        "viking://~/",
        "viking://~/memories",
        "viking://~/sessions",
        "viking://user",
        "viking://user/u",
        "viking://user/u/",
        "viking://user/u/memories",
        "viking://user/u/memories/entities",
        "viking://user/u/memories/entities/",
        "viking://user/u/sessions",
        "viking://resources",
        "viking://agent",
        "viking://agent/a/memories",
        "viking://session/a/b/c/d",
        "viking://~/~/~/~",
        "viking://user/u/memories/../../x.md",
    ],
)
def test_everything_at_once_may_not_be_deleted(uri: str) -> None:
    with pytest.raises(StoreRejected):
        check_deletable(uri)


def test_segments_and_queries_are_encoded() -> None:
    assert segment("a/b ?#é") == "a%2Fb%20%3F%23%C3%A9"
    assert with_query("/x", {"uri": "viking://~/a&b", "n": 3}) == "/x?uri=viking%3A%2F%2F~%2Fa%26b&n=3"
    assert with_query("/x", {}) == "/x"
