from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from store_kit import Answer, ScriptedTransport, failed, ok, raw, user

from vikingpi.decode import Json
from vikingpi.errors import ConfigError, Interrupted, NotConnected, StoreRejected, StoreUnreachable
from vikingpi.net import Reply
from vikingpi.viking.base import CommitReceipt
from vikingpi.viking.http import HttpApi, normalise_endpoint, retry_after
from vikingpi.viking.http_sessions import HttpSessions

T = TypeVar("T")

KEY = "ov-user-key-0123456789"
SESSION = {"created_at": "2026-01-01T00:00:00.000Z", "message_count": 1, "commit_count": 0, "total_message_count": 1}


def store_with(*answers: Answer, **options: Any) -> tuple[HttpSessions, ScriptedTransport]:
    transport = ScriptedTransport(answers)
    return HttpSessions(HttpApi(transport, "http://ov.test:1933", api_key=KEY, **options)), transport


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def unreachable(work: Coroutine[Any, Any, object]) -> StoreUnreachable:
    with pytest.raises(StoreUnreachable) as caught:
        run(work)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return caught.value


def rejected(work: Coroutine[Any, Any, object]) -> StoreRejected:
    with pytest.raises(StoreRejected) as caught:
        run(work)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return caught.value


def adding(*answers: Answer) -> Coroutine[Any, Any, object]:
    store, _ = store_with(*answers)
    return store.add_messages("pi-1", [user("hello", "e1")])


def test_a_refused_connection_stored_nothing() -> None:
    assert not unreachable(adding(NotConnected("connection refused"))).may_have_stored


def test_a_broken_request_may_have_been_stored() -> None:
    assert unreachable(adding(Interrupted("no answer within 40 s"))).may_have_stored


@pytest.mark.parametrize("status", [408, 500, 501, 502, 503, 504, 520])
def test_a_server_error_may_have_stored(status: int) -> None:
    assert unreachable(adding(failed(status, "INTERNAL", "boom"))).may_have_stored
    assert unreachable(adding(raw(status, "<html>bad gateway</html>"))).may_have_stored


def test_too_many_requests_stored_nothing_and_names_the_wait() -> None:
    error = unreachable(adding(failed(429, "RESOURCE_EXHAUSTED", "slow down", retry_after="7")))
    assert not error.may_have_stored
    assert error.retry_after == 7


def test_a_lock_conflict_can_be_tried_again_and_another_conflict_cannot() -> None:
    error = unreachable(adding(failed(409, "CONFLICT", "locked", {"retryable": True})))
    assert not error.may_have_stored
    refusal = rejected(adding(failed(409, "CONFLICT", "no", {"retryable": False})))
    assert (refusal.status, refusal.code) == (409, "CONFLICT")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 412, 413, 422])
def test_another_refusal_says_what_the_server_said(status: int) -> None:
    error = rejected(adding(failed(status, "SOME_CODE", "this is why")))
    assert (error.status, error.code, error.denied) == (status, "SOME_CODE", status in (401, 403))
    assert "this is why" in str(error)


def test_a_wrong_key_gets_a_hint() -> None:
    assert "key" in rejected(adding(failed(401, "UNAUTHENTICATED", "Invalid API key"))).hint


def test_a_key_that_the_server_repeats_is_masked() -> None:
    assert "***" in str(rejected(adding(failed(401, "UNAUTHENTICATED", f"bad key {KEY}\nsee the log"))))
    assert "***" in str(unreachable(adding(Interrupted(f"sent Bearer {KEY}"))))


def test_a_long_error_text_is_cut() -> None:
    assert "…" in str(rejected(adding(failed(400, "INVALID_ARGUMENT", "x\r\n\x1b[2J" * 100_000))))


@pytest.mark.parametrize("status", [400, 404, 405])
def test_a_page_of_another_server_is_no_refusal_of_the_message(status: int) -> None:
    error = unreachable(adding(raw(status, "<html>not here</html>", content_type="text/html")))
    assert not error.may_have_stored
    assert "OpenViking" in error.hint


def test_a_route_that_the_server_does_not_have_is_no_missing_session() -> None:
    store, _ = store_with(failed(404, "NOT_FOUND", "Not Found"), raw(404, '{"detail":"Not Found"}'))
    assert not unreachable(store.session_status("pi-1")).may_have_stored
    unreachable(store.session_status("pi-1"))


def test_a_refusal_in_another_form_is_still_a_refusal() -> None:
    assert "too long" in str(rejected(adding(raw(422, '{"detail":"too long"}'))))
    assert rejected(adding(raw(413, "<html>too large</html>"))).status == 413


def test_a_redirect_is_not_followed_and_shows_no_secrets() -> None:
    error = unreachable(adding(raw(302, "", location="https://me:pw@login.test/start?token=abc")))
    assert error.may_have_stored
    assert "https://login.test/start" in str(error)
    assert "pw" not in str(error)
    assert "abc" not in str(error)


@pytest.mark.parametrize(
    "body",
    [
        "<html>welcome</html>",
        "",
        "null",
        "[]",
        '"ok"',
        '{"status":"ok"}',
        '{"status":1,"result":{}}',
        '{"status":"error","error":{"code":"X","message":"odd"}}',
        '{"status":"ok","result":',
        "[" * 200_000,
        "\ufeff{}",
        "NaN",
    ],
)
def test_success_without_the_servers_form_may_have_stored(body: str) -> None:
    assert unreachable(adding(raw(200, body, content_type="text/html"))).may_have_stored


def test_bytes_that_are_no_text_are_no_answer() -> None:
    assert unreachable(adding(Reply(200, {}, b"\xff\xfe\x00" * 100))).may_have_stored


@pytest.mark.parametrize("result", [{}, {"added": 0}, {"added": "1"}, [], None, 7])
def test_a_batch_is_confirmed_only_by_the_number_of_messages(result: object) -> None:
    assert unreachable(adding(ok(result))).may_have_stored


def test_a_look_changes_nothing_whatever_happens_to_it() -> None:
    for answer in (Interrupted("broken"), raw(502, ""), raw(200, "<html>"), raw(302, "")):
        store, _ = store_with(answer)
        assert not unreachable(store.session_status("pi-1")).may_have_stored


def test_requests_carry_identity_marks_and_time_limits() -> None:
    store, transport = store_with(ok({"added": 1}), ok(SESSION), account="acme", user="ann", version="9.9")
    message = user("grüße", "e1", kind="user_query")._replace(peer_id="-w")
    run(store.add_messages("pi-1", [message]))
    run(store.session_status("pi-1"))
    post, get = transport.sent
    assert (post.method, post.url) == ("POST", "http://ov.test:1933/api/v1/sessions/pi-1/messages/batch")
    assert post.headers == {
        "user-agent": "openviking-memory-vpi/9.9",
        "accept": "application/json",
        "authorization": f"Bearer {KEY}",
        "x-openviking-account": "acme",
        "x-openviking-user": "ann",
        "content-type": "application/json",
    }
    assert post.body == {"messages": [message.to_json()]}
    assert (post.timeout, get.timeout) == (40, 10)
    assert "content-type" not in get.headers


def test_without_a_key_no_authorization_is_sent() -> None:
    transport = ScriptedTransport([ok(SESSION)])
    run(HttpSessions(HttpApi(transport, "http://ov.test")).session_status("pi-1"))
    assert set(transport.sent[0].headers) == {"user-agent", "accept"}


def test_a_lone_surrogate_does_not_break_the_request() -> None:
    store, transport = store_with(ok({"added": 1}))
    run(store.add_messages("pi-1", [user("a\ud83db", "e1")]))
    assert transport.sent[0].body["messages"][0]["parts"][0]["text"] == "a\ufffdb"


def test_each_request_is_logged_without_secrets() -> None:
    records: list[Json] = []
    store, _ = store_with(ok(SESSION), NotConnected("refused"), failed(503, "UNAVAILABLE", "x"), log=records.append)
    run(store.session_status("pi-1"))
    unreachable(store.add_messages("pi-1", [user("secret text", "e1")]))
    unreachable(store.unfinished_task("pi-1"))
    assert [(one["method"], one["path"], one["status"]) for one in records] == [
        ("GET", "/api/v1/sessions/pi-1", 200),
        ("POST", "/api/v1/sessions/pi-1/messages/batch", 0),
        ("GET", "/api/v1/tasks", 503),
    ]
    assert records[0]["request_id"] == "req-1"
    assert records[1]["error"] == "refused"
    assert all(isinstance(one["ms"], int) for one in records)
    assert KEY not in json.dumps(records)
    assert "secret text" not in json.dumps(records)


def test_a_session_is_made_with_working_memory_and_without_automatic_commits() -> None:
    store, transport = store_with(ok({"session_id": "pi-1"}), ok(SESSION))
    status = run(store.ensure_session("pi-1"))
    assert transport.sent[0].body == {
        "session_id": "pi-1",
        "memory_policy": {"working_memory": {"enabled": True}},
        "auto_commit_policy": None,
    }
    assert (status.created_at, status.total_messages) == (SESSION["created_at"], 1)


def test_a_session_without_memories_names_no_types_of_them() -> None:
    store, transport = store_with(ok({}), ok(SESSION))
    run(store.ensure_session("pi-1", memories=False))
    assert transport.sent[0].body["memory_policy"] == {"working_memory": {"enabled": True}, "memory_types": []}


def test_a_session_that_exists_is_taken_as_it_is() -> None:
    store, _ = store_with(failed(409, "ALREADY_EXISTS", "exists"), ok(SESSION))
    assert run(store.ensure_session("pi-1")).live_messages == 1


def test_a_session_that_is_gone_after_it_was_made_is_an_outage() -> None:
    store, _ = store_with(ok({}), failed(404, "NOT_FOUND", "Session pi-1 not found"))
    assert not unreachable(store.ensure_session("pi-1")).may_have_stored


def test_a_session_without_a_total_says_so() -> None:
    store, _ = store_with(ok({**SESSION, "total_message_count": None}))
    status = run(store.session_status("pi-1"))
    assert status is not None
    assert status.total_messages is None


@pytest.mark.parametrize("field", ["created_at", "message_count", "commit_count"])
@pytest.mark.parametrize("value", [None, True, -1, [], {}, ""])
def test_figures_of_the_wrong_type_are_no_figures(field: str, value: object) -> None:
    store, _ = store_with(ok({**SESSION, field: value}))
    unreachable(store.session_status("pi-1"))


def committing(result: Json) -> tuple[CommitReceipt | None, Json]:
    store, transport = store_with(ok(result))
    return run(store.commit("pi-1", 20_000)), transport.sent[0].body


ACCEPTED = {"status": "accepted", "task_id": "t-1", "archive_uri": "viking://user/u/sessions/pi-1/history/archive_012"}


def test_a_commit_asks_for_an_overview_and_keeps_what_the_server_allows() -> None:
    receipt, body = committing({**ACCEPTED, "effective_enable_working_memory": True})
    assert body == {"keep_recent_count": 10_000, "enable_working_memory": True}
    assert receipt == CommitReceipt(True, "t-1", 12, True)


def test_a_server_of_before_makes_overviews_without_saying_so() -> None:
    receipt, _ = committing(ACCEPTED)
    assert receipt is not None
    assert receipt.makes_overview


def test_a_server_that_makes_no_overview_is_believed() -> None:
    receipt, _ = committing({**ACCEPTED, "effective_enable_working_memory": False})
    assert receipt is not None
    assert not receipt.makes_overview


def test_a_skipped_commit_has_nothing_to_wait_for() -> None:
    receipt, _ = committing({"status": "skipped", "task_id": None, "archive_uri": None, "reason": "no_messages"})
    assert receipt == CommitReceipt(False)


@pytest.mark.parametrize("result", [{}, {"status": "accepted"}, {**ACCEPTED, "archive_uri": "x"}, {"status": "later"}])
def test_a_commit_without_an_archive_may_have_been_accepted(result: Json) -> None:
    store, _ = store_with(ok(result))
    assert unreachable(store.commit("pi-1", 0)).may_have_stored


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("pending", "pending"),
        ("running", "pending"),
        ("cancelling", "pending"),
        ("unheard of", "pending"),
        (None, "pending"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("cancelled", "failed"),
    ],
)
def test_states_of_a_task(status: object, state: str) -> None:
    store, transport = store_with(ok({"status": status}), ok([{"status": "completed"}, {"status": status}]))
    assert run(store.task("t-1")) == state
    assert run(store.unfinished_task("pi-1")) == (state == "pending")
    assert transport.sent[1].url.endswith("/api/v1/tasks?resource_id=pi-1&task_type=session_commit")


def test_a_forgotten_task_is_gone() -> None:
    store, _ = store_with(failed(404, "NOT_FOUND", "Task not found or expired"))
    assert run(store.task("t-1")) == "gone"


@pytest.mark.parametrize("result", [{}, None, "x", {"tasks": []}])
def test_tasks_that_are_no_list_are_no_answer(result: object) -> None:
    store, _ = store_with(ok(result))
    unreachable(store.unfinished_task("pi-1"))


def test_an_archive_of_another_number_is_not_taken() -> None:
    store, _ = store_with(ok({"archive_id": "archive_001", "overview": "old", "messages": []}))
    unreachable(store.archive("pi-1", 2))


def test_an_archive_survives_fields_of_the_wrong_type() -> None:
    messages = [None, 7, {"source_message_ids": "e0"}, {"source_message_ids": ["e1", None], "parts": [None]}]
    store, _ = store_with(ok({"archive_id": "archive_002", "overview": None, "messages": messages}))
    archive = run(store.archive("pi-1", 2))
    assert archive is not None
    assert (archive.overview, archive.number) == ("", 2)
    assert "e1" in archive.marks


def test_marks_are_read_from_the_context_first_and_then_from_the_archives_since() -> None:
    store, transport = store_with(
        ok({"messages": [{"source_message_ids": ["e5"]}]}),
        ok({**SESSION, "commit_count": 3}),
        failed(404, "NOT_FOUND", "Archive archive_002 not found"),
        ok({"archive_id": "archive_003", "messages": [{"source_message_ids": ["e4"]}]}),
    )
    assert run(store.marks("pi-1", 1)) == {"e4", "e5"}
    assert [sent.url.removeprefix("http://ov.test:1933/api/v1/sessions/pi-1") for sent in transport.sent] == [
        "/context?token_budget=10000000",
        "",
        "/archives/archive_002",
        "/archives/archive_003",
    ]


def test_a_mad_count_of_archives_does_not_keep_us_asking() -> None:
    archives = [failed(404, "NOT_FOUND", "Archive not found")] * 200
    store, transport = store_with(ok({"messages": []}), ok({**SESSION, "commit_count": 10**12}), *archives)
    assert run(store.marks("pi-1", 0)) == frozenset()
    assert len(transport.sent) == 202


def test_a_context_without_messages_is_no_answer() -> None:
    store, _ = store_with(ok({"messages": None}))
    unreachable(store.marks("pi-1", 0))


def health_of(*answers: Answer, **options: Any) -> tuple[str, str, str]:
    store, _ = store_with(*answers, **options)
    health = run(store.health())
    assert health.endpoint == "http://ov.test:1933"
    return health.version, health.account, health.user


def plain(**fields: object) -> Reply:
    return raw(200, json.dumps({"status": "ok", "healthy": True, "version": "0.5.2", **fields}))


def test_in_dev_mode_the_configured_identity_holds() -> None:
    assert health_of(plain(auth_mode="dev")) == ("0.5.2", "default", "default")
    assert health_of(plain(auth_mode="dev", user_id="x"), account="acme", user="ann") == ("0.5.2", "acme", "ann")


def test_with_keys_the_server_says_whose_key_it_is() -> None:
    answer = plain(auth_mode="api_key", account_id="acme", user_id="bob", role="user")
    assert health_of(answer, account="other", user="ann") == ("0.5.2", "acme", "bob")


def test_where_health_names_nobody_the_status_is_asked() -> None:
    answers = (plain(auth_mode="trusted"), ok({"initialized": True, "user": "cy"}))
    assert health_of(*answers, account="acme") == ("0.5.2", "acme", "cy")


def test_a_missing_key_is_found_out_at_once() -> None:
    store, _ = store_with(plain(auth_mode="api_key"), failed(401, "UNAUTHENTICATED", "Missing API Key"))
    assert rejected(store.health()).denied


def test_a_root_key_is_refused_with_a_hint() -> None:
    store, _ = store_with(plain(auth_mode="api_key", account_id="a", user_id="u", role="root"))
    error = rejected(store.health())
    assert error.denied
    assert "user key" in error.hint


def test_a_server_that_is_not_healthy_is_an_outage() -> None:
    for answer in (plain(healthy=False), plain(status="starting"), raw(200, "<html>"), raw(200, "[]"), raw(503, "")):
        store, _ = store_with(answer)
        unreachable(store.health())


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://Host:1933/", "http://host:1933"),
        ("HTTPS://Host:443/base/", "https://host/base"),
        ("http://host:80/api/v1/", "http://host"),
        ("host:1933", "http://host:1933"),
        (" http://me:pw@host ", "http://host"),
        ("http://[::1]:1933", "http://[::1]:1933"),
    ],
)
def test_an_endpoint_has_one_form(url: str, normal: str) -> None:
    assert normalise_endpoint(url) == normal


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "http://", "http://host:port", "http://h ost", "http://[::1", "a\nb"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        normalise_endpoint(url)


def test_a_password_in_a_wrong_address_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        normalise_endpoint("ftp://me:pw@host")
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("key", ["a\nb", "ключ", "a\x00"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpApi(ScriptedTransport([]), "http://ov.test", api_key=key)
    assert key not in str(caught.value)


def test_a_key_written_as_a_header_is_understood() -> None:
    transport = ScriptedTransport([ok(SESSION)])
    run(HttpSessions(HttpApi(transport, "http://ov.test", api_key=" Bearer  abc ")).session_status("pi-1"))
    assert transport.sent[0].headers["authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("999999999", 86400.0),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("Thu, 99 Jan 1970 00:02:00 GMT", None),
    ],
)
def test_retry_after_in_seconds_and_as_a_date(value: str, seconds: float | None) -> None:
    assert retry_after(value, 100.0) == seconds
