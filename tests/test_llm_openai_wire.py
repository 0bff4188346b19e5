from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from llm_kit import Canned
from llm_server import Peer, answering, free_port, serving
from patience import PATIENCE

from vikingpi.decode import Json
from vikingpi.errors import (
    AuthFailed,
    BadResponse,
    ContextTooLong,
    ProviderError,
    RateLimited,
    Unreachable,
)
from vikingpi.llm.assemble import MessageBuilder
from vikingpi.llm.base import Delta, Model, Price, Request, TextDelta
from vikingpi.llm.failures import provider_error, read_error
from vikingpi.llm.openai_wire import OpenAIWire, read_usage
from vikingpi.llm.retry import decide
from vikingpi.messages import (
    AssistantMessage,
    Cost,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
    user_text,
)
from vikingpi.net import HttpTransport

GOLDEN = Path(__file__).parent / "data" / "sse"
REQUEST = Request("be short", (user_text("hello", 1),), ())


def model(base_url: str = "http://model.test/v1", *, price: Price | None = None, compat: Json | None = None) -> Model:
    return Model(
        provider="acme",
        id="m1",
        api="openai-completions",
        base_url=base_url,
        api_key="sk-secret-123456",
        headers={"X-Team": "blue"},
        context_window=100_000,
        max_tokens=4096,
        reasoning=True,
        images=True,
        price=price or Price(1.0, 2.0, 0.5, 4.0),
        compat=compat or {},
        key_source="$ACME_API_KEY",
    )


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta: Json, finish: str | None = None, **more: object) -> bytes:
    return event({"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


STOP = chunk({}, "stop")
DONE = b"data: [DONE]\n\n"


def deltas(transport: Canned, target: Model | None = None) -> list[Delta]:
    async def main() -> list[Delta]:
        wire = OpenAIWire(transport, lambda: 1_000_000.0)
        return [delta async for delta in wire.stream(target or model(), REQUEST)]

    return asyncio.run(main())


def answer(*pieces: bytes | None, target: Model | None = None) -> AssistantMessage:
    builder = MessageBuilder(target or model(), "off", lambda: 0)
    for delta in deltas(Canned(pieces), target):
        builder.feed(delta)
    return builder.finish()


def failure(status: int, body: object, headers: Mapping[str, str] | None = None) -> ProviderError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ProviderError) as caught:
        deltas(Canned([data], status, headers or {}))
    return caught.value


def golden(name: str, size: int = 10_000) -> AssistantMessage:
    data = (GOLDEN / f"{name}.sse").read_bytes()
    return answer(*(data[start : start + size] for start in range(0, len(data), size)))


def call(id: str, name: str, **arguments: str) -> ToolCall:
    return ToolCall(id, name, dict(arguments))


PLAIN = Usage(100, 20)


@pytest.mark.parametrize("size", [10_000, 7])
@pytest.mark.parametrize(
    ("name", "content", "usage", "reason"),
    [
        (
            "openai",
            (
                TextPart("Let me look — 你好."),
                call("call_a", "bash", command="ls"),
                call("call_b", "read", path="a.txt"),
            ),
            Usage(36, 20, 64, 0, 8),
            "toolUse",
        ),
        (
            "deepseek",
            (ThinkingPart("Thinking.", "reasoning_content"), TextPart("Done.")),
            Usage(36, 20, 64),
            "stop",
        ),
        ("openrouter", (ThinkingPart("Hm.", "reasoning"), TextPart("Answer.")), PLAIN, "stop"),
        ("mistral", (ThinkingPart("Well."), TextPart("Bonjour.")), PLAIN, "stop"),
        (
            "gemini",
            (call("f-1", "bash", command="pwd"), call("f-2", "bash", command="ls")),
            PLAIN,
            "toolUse",
        ),
        ("ollama", (call("call_x", "read", path="b"),), PLAIN, "toolUse"),
        ("llamacpp", (TextPart("Hi there"),), PLAIN, "stop"),
        ("groq", (ThinkingPart("So.", "reasoning"), TextPart("Yes.")), PLAIN, "stop"),
        ("xai", (ThinkingPart("Ok.", "reasoning_content"), TextPart("Sure.")), Usage(90, 50, 10, 0, 30), "stop"),
    ],
)
def test_answers_of_each_kind_of_provider(
    name: str, content: tuple[object, ...], usage: Usage, reason: str, size: int
) -> None:
    message = golden(name, size)
    assert message.content == content
    assert message.usage._replace(cost=Cost()) == usage
    assert (message.stop_reason, message.response_id) == (reason, "chatcmpl-1")


def test_cost_comes_from_the_price() -> None:
    cost = golden("openai").usage.cost
    assert cost == Cost(36 / 1e6, 40 / 1e6, 32 / 1e6, 0)


def test_a_model_without_price_takes_the_cost_that_the_provider_names() -> None:
    data = (GOLDEN / "openrouter.sse").read_bytes()
    assert answer(data, target=model(price=Price())).usage.cost.total == 0.0042


def test_the_request_goes_to_the_endpoint_with_key_and_headers() -> None:
    transport = Canned([chunk({"content": "x"}, "stop")])
    deltas(transport, model("http://model.test/v1/"))
    method, url, headers, body = transport.asked[0]
    assert (method, url) == ("POST", "http://model.test/v1/chat/completions")
    assert headers["authorization"] == "Bearer sk-secret-123456"
    assert headers["x-team"] == "blue"
    assert json.loads(body or b"")["messages"][-1] == {"role": "user", "content": "hello"}


def tool(*pieces: Json) -> tuple[ToolCall, ...]:
    return answer(*(chunk({"tool_calls": [piece]}) for piece in pieces), chunk({}, "tool_calls"), DONE).calls


def piece(arguments: object, **more: object) -> Json:
    name = more.pop("name", None)
    return {"function": {**({"name": name} if name else {}), "arguments": arguments}, **more}


def test_a_call_without_index() -> None:
    calls = tool(piece("", id="a", name="bash"), piece('{"command":'), piece('"ls"}'))
    assert calls == (call("a", "bash", command="ls"),)


def test_two_calls_without_index_are_told_apart_by_id() -> None:
    calls = tool(
        piece('{"command":', id="a", name="bash"),
        piece('{"path":', id="b", name="read"),
        piece('"ls"}', id="a"),
        piece('"x"}', id="b"),
    )
    assert calls == (call("a", "bash", command="ls"), call("b", "read", path="x"))


def test_two_whole_calls_without_index_and_id() -> None:
    calls = tool(piece('{"command":"1"}', name="bash"), piece('{"command":"2"}', name="bash"))
    assert [c.arguments for c in calls] == [{"command": "1"}, {"command": "2"}]
    assert len({c.id for c in calls}) == 2
    assert all(c.id for c in calls)


def test_an_index_of_zero_for_every_call() -> None:
    calls = tool(
        piece('{"command":"1"}', index=0, id="a", name="bash"),
        piece('{"command":"2"}', index=0, id="b", name="bash"),
    )
    assert calls == (call("a", "bash", command="1"), call("b", "bash", command="2"))


def test_alternating_pieces_by_index() -> None:
    calls = tool(
        piece("", index=0, id="a", name="bash"),
        piece("", index=1, id="b", name="bash"),
        piece('{"command":', index=0),
        piece('{"command":', index=1),
        piece('"1"}', index=0),
        piece('"2"}', index=1),
    )
    assert calls == (call("a", "bash", command="1"), call("b", "bash", command="2"))


def test_the_name_in_every_piece_and_a_new_id_in_every_piece() -> None:
    calls = tool(piece('{"comm', index=0, name="bash"), piece('and":"1"', index=0, name="bash"), piece("}", index=0))
    assert [(c.name, c.arguments) for c in calls] == [("bash", {"command": "1"})]
    calls = tool(piece('{"command":', index=0, id="a", name="bash"), piece('"1"}', index=0, id="z"))
    assert calls == (call("a", "bash", command="1"),)


def test_arguments_as_an_object_and_none_at_all() -> None:
    assert tool(piece({"command": "ls"}, id="a", name="bash")) == (call("a", "bash", command="ls"),)
    assert tool(piece(None, id="a", name="list")) == (call("a", "list"),)


def test_several_calls_in_one_chunk() -> None:
    both = [piece('{"a":"1"}', id="a", name="x"), piece('{"a":"2"}', id="b", name="x")]
    assert answer(chunk({"tool_calls": both}, "tool_calls")).calls == (
        call("a", "x", a="1"),
        call("b", "x", a="2"),
    )


def test_the_old_function_call() -> None:
    calls = answer(
        chunk({"function_call": {"name": "bash", "arguments": '{"command":'}}),
        chunk({"function_call": {"arguments": '"ls"}'}}),
        chunk({}, "function_call"),
    ).calls
    assert [(c.name, c.arguments) for c in calls] == [("bash", {"command": "ls"})]


def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    assert tool(piece('{"command": ls}', id="a", name="bash")) == (ToolCall("a", "bash", {}, '{"command": ls}'),)


@pytest.mark.parametrize(
    "pieces",
    [
        [chunk({"content": "half"})],
        [chunk({"content": "half"}), DONE],
        [chunk({"tool_calls": [piece('{"comm', id="a", name="bash")]})],
        [chunk({"content": "half"}), None],
        [DONE],
        [b""],
    ],
)
def test_an_answer_without_finish_marker_is_an_error_to_be_retried(pieces: list[bytes | None]) -> None:
    with pytest.raises(BadResponse) as caught:
        deltas(Canned(pieces))
    assert caught.value.retryable


def test_a_connection_that_breaks_after_the_finish_marker_does_no_harm() -> None:
    assert answer(chunk({"content": "whole"}), STOP, None).text == "whole"


def test_usage_after_the_finish_marker_is_read() -> None:
    message = answer(chunk({"content": "x"}), STOP, event({"choices": [], "usage": {"prompt_tokens": 7}}), DONE)
    assert message.usage.input == 7


def test_an_answer_that_was_not_streamed() -> None:
    whole: Json = {
        "id": "r1",
        "choices": [{"message": {"content": "hi", "tool_calls": []}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    message = answer(json.dumps(whole, indent=1).encode())
    assert (message.text, message.usage.total) == ("hi", 4)


def test_length_is_kept_even_with_a_call() -> None:
    message = answer(chunk({"tool_calls": [piece('{"a', id="a", name="bash")]}), chunk({}, "length"))
    assert (message.stop_reason, message.raw_stop_reason, message.calls[0].broken) == (
        "length",
        "length",
        '{"a',
    )


@pytest.mark.parametrize("word", ["content_filter", "SAFETY", "PROHIBITED_CONTENT", "SPII", "sensitive", "refusal"])
def test_a_filtered_answer_is_an_error_that_is_not_retried(word: str) -> None:
    with pytest.raises(BadResponse, match=word) as caught:
        answer(chunk({"content": "x"}), chunk({}, word))
    assert not caught.value.retryable and caught.value.hint


@pytest.mark.parametrize("word", ["error", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL", "abort"])
def test_an_answer_that_the_server_broke_off_is_an_error_to_be_retried(word: str) -> None:
    with pytest.raises(BadResponse, match=word) as caught:
        answer(chunk({"content": "x"}), chunk({}, word))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "The server had an error", "type": "server_error"}, BadResponse, True),
        ({"code": 502, "message": "Provider returned error"}, BadResponse, True),
        ({"code": 429, "message": "slow down"}, RateLimited, True),
        ({"code": "rate_limit_exceeded", "message": "Rate limit"}, RateLimited, True),
        ({"code": "context_length_exceeded", "message": "too many"}, ContextTooLong, False),
        ({"message": "bad tool", "type": "invalid_request_error"}, BadResponse, False),
        ("overloaded", BadResponse, True),
    ],
)
def test_errors_inside_the_stream(error: object, kind: type[ProviderError], retryable: bool) -> None:
    with pytest.raises(kind) as caught:
        deltas(Canned([chunk({"content": "half"}), event({"error": error}), DONE]))
    assert caught.value.retryable is retryable


def test_a_piece_that_is_no_json_is_an_error() -> None:
    with pytest.raises(BadResponse, match="no JSON"):
        deltas(Canned([b"data: {oops\n\n"]))


def test_a_web_page_instead_of_an_answer_names_the_base_url() -> None:
    with pytest.raises(BadResponse, match="web page: Welcome") as caught:
        deltas(Canned([b"<html><head><title>Welcome</title>", b"</head></html>"]))
    assert "http://model.test/v1" in caught.value.hint


def test_refused_keys_say_where_the_key_came_from_and_do_not_show_it() -> None:
    error = failure(401, {"error": {"message": "Incorrect API key: sk-secret-123456", "code": "invalid_api_key"}})
    assert isinstance(error, AuthFailed)
    assert "sk-secret" not in str(error)
    assert "$ACME_API_KEY" in error.hint
    assert not error.retryable


def test_an_html_error_page_becomes_one_line() -> None:
    page = b"<html>\n<style>a{}</style><body><h1>502\nBad   Gateway</h1><hr>nginx</body></html>"
    error = failure(502, page)
    assert str(error) == "acme answered 502: 502 Bad Gateway nginx"
    assert error.retryable


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (404, False), (422, False), (408, True), (500, True), (503, True)]
)
def test_which_statuses_are_retryable(status: int, retryable: bool) -> None:
    error = failure(status, {"error": {"message": "no"}})
    assert isinstance(error, BadResponse)
    assert (error.status, error.retryable) == (status, retryable)


def test_an_overloaded_provider_is_retryable() -> None:
    assert failure(529, {"type": "error", "error": {"type": "overloaded_error"}}).retryable


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "3"}, {}, 3.0),
        ({"retry-after": "Mon, 12 Jan 1970 13:46:50 GMT"}, {}, 10.0),
        ({"retry-after": "Tue, 13 Jan 1970 00:00:20 GMT", "date": "Tue, 13 Jan 1970 00:00:00 GMT"}, {}, 20.0),
        ({"x-ratelimit-reset": "60"}, {}, None),
        ({"x-ratelimit-reset": "2000007200", "x-ratelimit-remaining": "3"}, {}, None),
        ({"retry-after-ms": "1500"}, {}, 1.5),
        ({}, {"error": {"message": "x", "retry_after_seconds": 7}}, 7.0),
        ({}, {"error": {"message": "x"}, "retry_after": 4.5}, 4.5),
        ({}, {"error": {"message": "Please try again in 1m2.5s. Visit"}}, 62.5),
        ({}, {"error": {"message": "try again in 350ms"}}, 0.35),
        ({}, [{"error": {"message": "quota", "details": [{"retryDelay": "34s"}]}}], 34.0),
        ({"retry-after": "soon"}, {"error": "slow"}, None),
    ],
)
def test_the_wait_that_a_provider_asks_for(headers: dict[str, str], body: object, seconds: float | None) -> None:
    error = failure(429, body, headers)
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds
    assert error.retryable


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"x-ratelimit-reset": "2000007200"}, {}),
        ({"x-ratelimit-reset": "2000007200000"}, {}),
        ({}, {"error": {"message": "limit", "metadata": {"headers": {"X-RateLimit-Reset": "2000007200000"}}}}),
        ({}, {"error": {"type": "usage_limit", "resets_at": 2_000_007_200}}),
    ],
)
def test_a_limit_that_ends_at_a_moment_far_off_is_not_waited_for(headers: dict[str, str], body: Json) -> None:
    error = provider_error(model(), read_error(429, headers, json.dumps(body).encode()), 2_000_000_000.0)
    assert isinstance(error, RateLimited) and decide(error, 1, 0) is None
    assert error.retry_after == 7200 and "it asks to wait 2 h" in str(error) and error.hint


def test_a_used_up_quota_is_not_retryable_and_names_the_time() -> None:
    error = failure(429, {"error": {"type": "usage_limit_reached", "resets_in_seconds": 13872}})
    assert not error.retryable
    assert "3 h 52 min" in str(error)
    assert not failure(429, {"error": {"message": "m", "code": "insufficient_quota"}}).retryable


def test_quota_words_with_a_short_wait_are_a_rate_limit() -> None:
    text = "You exceeded your current quota. Please retry in 20.5s."
    error = failure(429, {"error": {"message": text}})
    assert isinstance(error, RateLimited)
    assert (error.retryable, error.retry_after) == (True, 20.5)


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Input is too long for requested model.",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "Please reduce the length of the messages or completion.",
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens",
        "the request exceeds the available context size, try increasing it",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "prompt too long; exceeded max context length by 12 tokens",
        "Invalid request: Your request exceeded model token limit: 131072",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "invalid params, context window exceeds limit",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        "too many tokens",
        "Too many input tokens: 140000 > 128000",
        "prompt token count of 130512 exceeds the limit of 128000",
        "Prompt has 40,000 tokens, but the configured context size is 32,768 tokens",
        "Context Window exceeded for given call. No fallback model group provided",
        "litellm.ContextWindowExceededError: m1",
        "model_context_window_exceeded",
        "Prompt exceeds max length",
        "token limit exceeded",
    ],
)
def test_overflow_is_recognised_in_each_wording(text: str) -> None:
    error = failure(400, {"error": {"message": text, "type": "invalid_request_error"}})
    assert isinstance(error, ContextTooLong)
    assert not error.retryable
    with pytest.raises(ContextTooLong):
        deltas(Canned([event({"error": {"message": text}}), DONE]))


def test_a_body_that_is_too_large_is_an_overflow() -> None:
    assert isinstance(failure(413, b""), ContextTooLong)


@pytest.mark.parametrize(
    "text",
    [
        "Too many tokens, please wait before trying again.",
        "too many tokens per minute",
        "Rate limit reached: too many tokens (TPM 30000)",
        "Too many tokens per day, reset at midnight",
        "daily token limit exceeded",
        "Token limit exceeded, try again in 20s",
        "ThrottlingException: Too many tokens",
        "invalid tool schema",
        "max_tokens is too large",
        "max_tokens exceeds the limit of 4096",
        "output token count of 9000 exceeds the limit of 4096",
        "number of tools exceeds the limit of 128",
        "image size exceeds the limit of 5242880 bytes",
    ],
)
def test_other_refusals_are_no_overflow(text: str) -> None:
    for status in (400, 429):
        assert not isinstance(failure(status, {"error": {"message": text}}), ContextTooLong)
    with pytest.raises(ProviderError) as caught:
        deltas(Canned([event({"error": {"message": text}}), DONE]))
    assert not isinstance(caught.value, ContextTooLong)


def test_a_code_that_is_the_type_too_is_said_once() -> None:
    twice = {"error": {"message": "no money", "code": "insufficient_quota", "type": "insufficient_quota"}}
    assert str(failure(400, twice)).endswith("no money (insufficient_quota)")


@pytest.mark.parametrize("entries", [[{}], [None], [{}, {"index": 1}], [{"function": {"arguments": ""}}]])
def test_an_empty_entry_is_no_call(entries: Json) -> None:
    message = answer(chunk({"content": "done", "tool_calls": entries}), chunk({}, "tool_calls"))
    assert (message.text, message.calls, message.stop_reason) == ("done", (), "stop")


def test_an_empty_entry_takes_nothing_from_the_call_beside_it() -> None:
    entries = [{}, {"id": "a", "function": {"name": "bash", "arguments": "{}"}}, None]
    message = answer(chunk({"tool_calls": entries}), chunk({}, "tool_calls"))
    assert [(call.id, call.name, call.arguments) for call in message.calls] == [("a", "bash", {})]


def test_a_window_that_is_full_is_told_by_its_own_finish_reason() -> None:
    message = answer(chunk({"content": "half"}), chunk({}, "model_context_window_exceeded"))
    assert (message.stop_reason, message.raw_stop_reason) == ("length", "model_context_window_exceeded")


@pytest.mark.parametrize(
    "usage", [{}, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, {"prompt_tokens": None}]
)
def test_usage_of_zeros_is_no_usage(usage: Json) -> None:
    assert read_usage(usage, model()) is None


def test_usage_with_the_total_only() -> None:
    usage = read_usage({"total_tokens": 50}, model())
    assert usage is not None
    assert (usage.input, usage.total) == (50, 50)


def test_a_refused_local_server_is_named_with_what_to_do() -> None:
    async def main(port: int) -> None:
        transport = HttpTransport()
        try:
            async for _ in OpenAIWire(transport).stream(model(f"http://127.0.0.1:{port}/v1"), REQUEST):
                pass
        finally:
            await transport.close()

    port = free_port()
    with pytest.raises(Unreachable, match="acme cannot be reached") as caught:
        asyncio.run(main(port))
    assert f"http://127.0.0.1:{port}/v1" in caught.value.hint
    assert not caught.value.retryable


def test_over_real_http_pieces_come_as_they_are_sent_and_closing_hangs_up() -> None:
    closed = threading.Event()

    def handle(peer: Peer) -> None:
        peer.request()
        peer.begin_stream()
        peer.chunk(chunk({"content": "first"}))
        if peer.wait_closed():
            closed.set()

    async def main(url: str) -> Delta:
        transport = HttpTransport()
        stream = OpenAIWire(transport).stream(model(url), REQUEST)
        try:
            return await anext(stream)
        finally:
            await stream.aclose()
            await transport.close()

    with serving(handle) as server:
        assert asyncio.run(main(server.url)) == TextDelta("first")
        assert closed.wait(PATIENCE)


def test_over_real_http_the_connection_is_kept_between_requests() -> None:
    async def main(url: str) -> None:
        transport = HttpTransport()
        for _ in range(2):
            assert [d async for d in OpenAIWire(transport).stream(model(url), REQUEST)]
        await transport.close()

    with serving(answering(200, chunk({"content": "x"}, "stop") + DONE)) as server:
        asyncio.run(main(server.url))
        assert server.connections == 1


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109}, (20, 9, 80)),
        ({"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 189}, (100, 9, 80)),
        ({"prompt_tokens": 60, "completion_tokens": 9}, (60, 9, 80)),
    ],
    ids=["in the prompt", "beside it, by the total", "more than the prompt"],
)
def test_cached_tokens_count_once_wherever_the_server_counts_them(usage: Json, read: tuple[int, ...]) -> None:
    found = read_usage({**usage, "prompt_tokens_details": {"cached_tokens": 80}}, model())
    assert found is not None and (found.input, found.output, found.cache_read) == read
