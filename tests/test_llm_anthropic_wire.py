from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from llm_kit import Canned
from llm_server import Peer, serving
from patience import PATIENCE

from vikingpi.decode import Json
from vikingpi.errors import AuthFailed, BadResponse, ContextTooLong, ProviderError, RateLimited
from vikingpi.llm.anthropic_wire import AnthropicWire, messages_url, request_headers
from vikingpi.llm.assemble import MessageBuilder
from vikingpi.llm.base import Delta, Model, Price, Request, TextDelta, UsageDelta
from vikingpi.messages import AssistantMessage, Cost, TextPart, ThinkingPart, ToolCall, Usage, user_text
from vikingpi.net import HttpTransport

GOLDEN = Path(__file__).parent / "data" / "sse"
REQUEST = Request("be short", (user_text("hello", 1),), ())


def model(base_url: str = "http://model.test", compat: Json | None = None) -> Model:
    return Model(
        provider="anthropic",
        id="claude-x",
        api="anthropic-messages",
        base_url=base_url,
        api_key="sk-ant-secret-123456",
        headers={"X-Team": "blue"},
        context_window=200_000,
        max_tokens=4096,
        reasoning=True,
        images=True,
        price=Price(1.0, 5.0, 0.1, 1.25),
        compat=compat or {},
        key_source="$ANTHROPIC_API_KEY",
    )


def event(kind: str, **data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


START = event("message_start", message={"id": "m1", "usage": {"input_tokens": 10, "output_tokens": 1}})
TEXT = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
WORD = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Half"})
STOP = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
END = event("message_stop")


def deltas(transport: Canned, request: Request = REQUEST, target: Model | None = None) -> list[Delta]:
    async def main() -> list[Delta]:
        wire = AnthropicWire(transport, lambda: 1_000_000.0)
        return [delta async for delta in wire.stream(target or model(), request)]

    return asyncio.run(main())


def answer(*pieces: bytes | None) -> AssistantMessage:
    builder = MessageBuilder(model(), "off", lambda: 0)
    for delta in deltas(Canned(pieces)):
        builder.feed(delta)
    return builder.finish()


def failure(status: int, body: object, headers: Mapping[str, str] | None = None) -> ProviderError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ProviderError) as caught:
        deltas(Canned([data], status, headers or {}))
    return caught.value


def golden(name: str, size: int) -> AssistantMessage:
    data = (GOLDEN / f"{name}.sse").read_bytes()
    return answer(*(data[start : start + size] for start in range(0, len(data), size)))


@pytest.mark.parametrize("size", [100_000, 7])
@pytest.mark.parametrize(
    ("name", "content", "usage", "reason"),
    [
        (
            "messages-tools",
            (
                ThinkingPart("The listing first — 先.", "EqQBCgIYAh=="),
                TextPart("I look at both."),
                ToolCall("toolu_01A", "bash", {"command": "ls 你"}),
                ToolCall("toolu_01B", "read", {"path": "a.txt"}),
            ),
            Usage(25, 91, 4000, 300, 40),
            "toolUse",
        ),
        (
            "messages-hidden",
            (
                ThinkingPart("", "c2VhbGVk"),
                ThinkingPart("", "ZW5jcnlwdGVk", redacted=True),
                ThinkingPart("", "bW9yZQ==", redacted=True),
                TextPart("Done."),
            ),
            Usage(50, 12),
            "stop",
        ),
        (
            "messages-compatible",
            (ThinkingPart("Hm."), ToolCall("call_0", "ls", {"path": "src"})),
            Usage(80, 9, 20),
            "toolUse",
        ),
        ("messages-cut", (TextPart("Once upon"),), Usage(50, 4096), "length"),
    ],
)
def test_answers_of_each_kind(name: str, content: tuple[object, ...], usage: Usage, reason: str, size: int) -> None:
    message = golden(name, size)
    assert message.content == content
    assert message.usage._replace(cost=Cost()) == usage
    assert message.stop_reason == reason
    assert message.response_id in ("msg_01", "chat-7")


def test_reads_and_writes_of_the_cache_have_their_own_price() -> None:
    assert golden("messages-tools", 1000).usage.cost == Cost(25 / 1e6, 455 / 1e6, 400 / 1e6, 375 / 1e6)


def test_input_tokens_are_known_before_the_first_word() -> None:
    first = deltas(Canned([START, TEXT, WORD, STOP, END]))[0]
    assert isinstance(first, UsageDelta) and first.usage.input == 10


def test_the_request_goes_to_the_endpoint_with_key_version_and_headers() -> None:
    transport = Canned([START, STOP, END])
    deltas(transport, target=model("http://model.test/"))
    method, url, headers, body = transport.asked[0]
    assert (method, url) == ("POST", "http://model.test/v1/messages")
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-ant-secret-123456", "2023-06-01")
    assert headers["x-team"] == "blue" and "authorization" not in headers and "anthropic-beta" not in headers
    assert json.loads(body or b"")["messages"][0]["content"][0]["text"] == "hello"


def test_a_base_url_with_its_version_is_taken_too() -> None:
    assert messages_url("http://proxy.test/v1/") == "http://proxy.test/v1/messages"


def test_a_gateway_gets_the_key_as_a_bearer_token() -> None:
    for target in (model(compat={"authHeader": True}), model()._replace(key_source="$ANTHROPIC_AUTH_TOKEN")):
        headers = request_headers(target)
        assert headers["authorization"] == "Bearer sk-ant-secret-123456" and "x-api-key" not in headers


def test_thinking_by_budget_is_asked_for_between_calls_too() -> None:
    transport = Canned([START, STOP, END])
    deltas(transport, REQUEST._replace(thinking_level="low"))
    assert transport.asked[0][2]["anthropic-beta"] == "interleaved-thinking-2025-05-14"


@pytest.mark.parametrize("pieces", [[START, TEXT, WORD], [START, TEXT, WORD, None], [START, TEXT, WORD, END], [b""]])
def test_an_answer_without_finish_marker_is_an_error_to_be_retried(pieces: list[bytes | None]) -> None:
    with pytest.raises(BadResponse) as caught:
        answer(*pieces)
    assert caught.value.retryable


def test_a_connection_that_breaks_after_the_finish_marker_does_no_harm() -> None:
    assert answer(START, TEXT, WORD, STOP, None).text == "Half"


def test_events_of_unknown_kinds_are_passed_over() -> None:
    odd = event("content_block_start", index=3, content_block={"type": "server_tool_use", "id": "s", "name": "web"})
    more = event("content_block_delta", index=3, delta={"type": "input_json_delta", "partial_json": "{"})
    assert answer(START, event("ping"), odd, more, event("news"), TEXT, WORD, STOP, END).content == (TextPart("Half"),)


def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    opened = event("content_block_start", index=0, content_block={"type": "tool_use", "id": "a", "name": "bash"})
    broken = event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '{"command": "l'})
    reason = event("message_delta", delta={"stop_reason": "tool_use"}, usage={})
    assert answer(START, opened, broken, reason, END).calls == (ToolCall("a", "bash", {}, '{"command": "l'),)


def test_a_call_without_arguments() -> None:
    opened = event("content_block_start", index=0, content_block={"type": "tool_use", "id": "a", "name": "ls"})
    reason = event("message_delta", delta={"stop_reason": "tool_use"}, usage={})
    assert answer(START, opened, event("content_block_stop", index=0), reason, END).calls == (ToolCall("a", "ls", {}),)


def test_an_answer_that_was_not_streamed() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "p"},
        {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}},
    ]
    usage = {"input_tokens": 5, "output_tokens": 6}
    whole = {"type": "message", "id": "m", "content": content, "stop_reason": "tool_use", "usage": usage}
    message = answer(json.dumps(whole).encode())
    assert message.content == (ThinkingPart("hm", "p"), ToolCall("a", "bash", {"command": "ls"}))
    assert (message.usage.input, message.usage.output, message.stop_reason) == (5, 6, "toolUse")


def test_a_refusal_is_an_error_that_is_not_retried() -> None:
    with pytest.raises(BadResponse, match="refusal") as caught:
        answer(START, TEXT, WORD, event("message_delta", delta={"stop_reason": "refusal"}, usage={}), END)
    assert not caught.value.retryable


def said(kind: str, text: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("kind", "text", "error", "retryable"),
    [
        ("overloaded_error", "Overloaded", BadResponse, True),
        ("api_error", "Internal server error", BadResponse, True),
        ("rate_limit_error", "Number of request tokens has exceeded your per-minute limit", RateLimited, True),
        ("authentication_error", "invalid x-api-key", AuthFailed, False),
        ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ContextTooLong, False),
        ("invalid_request_error", "messages.1: all messages must have content", BadResponse, False),
    ],
)
def test_errors_inside_the_stream(kind: str, text: str, error: type[ProviderError], retryable: bool) -> None:
    with pytest.raises(error, match=text.split(" ")[0]) as caught:
        answer(START, TEXT, WORD, b"event: error\ndata: " + json.dumps(said(kind, text)).encode() + b"\n\n")
    assert caught.value.retryable is retryable


def test_an_overloaded_provider_is_retryable_and_its_wait_is_kept() -> None:
    error = failure(529, said("overloaded_error", "Overloaded"))
    assert (type(error), error.retryable) == (BadResponse, True)
    assert str(error) == "anthropic answered 529: Overloaded (overloaded_error)"
    limited = failure(429, said("rate_limit_error", "slow down"), {"retry-after": "17"})
    assert isinstance(limited, RateLimited) and limited.retry_after == 17


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length",
    ],
)
def test_overflow_is_recognised(text: str) -> None:
    assert isinstance(failure(400, said("invalid_request_error", text)), ContextTooLong)
    assert isinstance(failure(413, said("request_too_large", "Request exceeds the maximum size")), ContextTooLong)


def test_a_refused_key_says_where_it_came_from_and_is_not_shown() -> None:
    error = failure(401, said("authentication_error", "invalid x-api-key sk-ant-secret-123456"))
    assert isinstance(error, AuthFailed) and "secret" not in str(error) and "$ANTHROPIC_API_KEY" in error.hint


def test_used_up_credit_is_not_retried() -> None:
    error = failure(400, said("invalid_request_error", "Your credit balance is too low to access the API"))
    assert not error.retryable and "credit" in error.hint


def test_a_web_page_is_one_line() -> None:
    assert str(failure(502, b"<html><head><title>502 Bad\n Gateway</title></head></html>")).endswith(
        ": 502 Bad Gateway"
    )
    with pytest.raises(BadResponse, match="web page: Sign in"):
        answer(b"<!doctype html><title>Sign in</title>")


def test_over_real_http_closing_hangs_up() -> None:
    closed = threading.Event()

    def handle(peer: Peer) -> None:
        peer.request()
        peer.begin_stream()
        peer.chunk(START + TEXT + WORD)
        if peer.wait_closed():
            closed.set()

    async def main(url: str) -> list[Delta]:
        transport = HttpTransport()
        stream = AnthropicWire(transport).stream(model(url), REQUEST)
        try:
            return [await anext(stream) for _ in range(3)]
        finally:
            await stream.aclose()
            await transport.close()

    with serving(handle) as server:
        assert asyncio.run(main(server.url))[-1] == TextDelta("Half")
        assert closed.wait(PATIENCE)
        assert server.seen[0].path == "/v1/messages"
