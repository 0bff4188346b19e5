from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llm_server import Peer, serving

from vikingpi.decode import Json
from vikingpi.llm.base import Model, Price, Request
from vikingpi.llm.litellm_bridge import LiteLLMBridge, arguments, litellm_name, routed
from vikingpi.messages import AssistantMessage, TextPart, ThinkingPart, Usage, user_text

GOLDEN = Path(__file__).parent / "data" / "sse"

# litellm is imported once, in a process of its own: it takes seconds, warns, and would stay in this one.
SCRIPT = """
import warnings; warnings.simplefilter("ignore")
import asyncio, json, os, socket, sys, time, urllib.request
connects = []
real = socket.socket.connect
def connect(self, address):
    connects.append(address)
    return real(self, address)
socket.socket.connect = connect
from vikingpi.errors import ProviderError
from vikingpi.llm.assemble import MessageBuilder
from vikingpi.llm.base import Model, Price, Request
from vikingpi.llm.litellm_bridge import LiteLLMBridge, load_litellm
from vikingpi.messages import ToolSpec, user_text
assert "litellm" not in sys.modules
before = dict(os.environ)
load_litellm()
out = {"import_connects": len(connects), "env_kept": dict(os.environ) == before, "loads": []}
tool = ToolSpec("bash", "run", {"type": "object", "properties": {"command": {"type": "string"}}})
bridge = LiteLLMBridge(out["loads"].append)

async def ask(path, provider="openai", id="gpt-5.2"):
    url = sys.argv[1] + path
    model = Model(provider, id, "litellm", url, "sk-secret-123", {}, 9000, 99, True, True, Price(1, 2), {}, "$K")
    builder = MessageBuilder(model, "off", lambda: 0)
    try:
        async for delta in bridge.stream(model, Request("sys", (user_text("hi", 1),), (tool,), "low")):
            builder.feed(delta)
    except ProviderError as error:
        return {"kind": type(error).__name__, "text": str(error), "retryable": error.retryable,
                "after": getattr(error, "retry_after", None), "hint": error.hint}
    message = builder.finish()
    usage = message.usage
    return {"text": message.text, "calls": [(c.id, c.name, c.arguments) for c in message.calls],
            "thinking": [(p.thinking, p.signature) for p in message.content if hasattr(p, "thinking")],
            "reason": message.stop_reason,
            "usage": [usage.input, usage.output, usage.cache_read, usage.cache_write]}

def held():
    with urllib.request.urlopen(sys.argv[1] + "/held") as answer:
        return json.load(answer)

async def cancelled(path, provider, id):
    # the seconds until the caller goes on, and until the server has lost the connection
    task = asyncio.create_task(ask(path, provider, id))
    while path not in held():
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)
    started = time.monotonic()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        heard = time.monotonic() - started
    while path in held() and time.monotonic() < started + 5:
        await asyncio.sleep(0.02)
    return heard, time.monotonic() - started

async def main():
    for name in ("openai", "deepseek", "401", "429", "400", "503", "cut", "ended"):
        out[name] = await ask("/" + name)
    out["full name"] = await ask("/openai/full", "mine", "openai/lm")
    out["no name"] = await ask("/never", "mine", "lm")
    out["anthropic"] = await ask("/anthropic", "anthropic", "claude-sonnet-4-6")
    for path, *model in (
        ("/hang", "openai", "gpt-5.2"), ("/stall/openai", "openai", "gpt-5.2"), ("/stall/deepseek", "deepseek", "d"),
        ("/stall/anthropic", "anthropic", "claude-sonnet-4-6"), ("/hang/2", "anthropic", "claude-sonnet-4-6"),
    ):
        out["cancelled " + path] = await cancelled(path, *model)

asyncio.run(main())
print(json.dumps(out))
"""

ERRORS: dict[str, tuple[Json, str]] = {
    "401": ({"error": {"message": "Incorrect API key sk-secret-123", "code": "invalid_api_key"}}, ""),
    "429": ({"error": {"message": "slow down"}}, "Retry-After: 3\r\n"),
    "400": ({"error": {"message": "maximum context length is 8", "code": "context_length_exceeded"}}, ""),
    "503": ({"error": {"message": "busy"}}, ""),
}


HELD: list[str] = []


def hold(peer: Peer, path: str) -> None:
    """Say nothing more until the client has hung up."""
    HELD.append(path)
    peer.wait_closed(20)
    HELD.remove(path)


def handle(peer: Peer) -> None:
    while (seen := peer.request()) is not None:
        name, *rest = seen.path.strip("/").split("/")
        if name == "held":
            peer.answer(200, json.dumps(HELD).encode())
            continue
        if name == "hang":
            hold(peer, "/hang/2" if rest[:1] == ["2"] else "/hang")
            return
        if name == "stall":
            peer.begin_stream()
            peer.chunk((GOLDEN / f"{rest[0]}.sse").read_bytes()[:700])
            hold(peer, f"/stall/{rest[0]}")
            return
        if name in ERRORS:
            body, headers = ERRORS[name]
            peer.answer(int(name), json.dumps(body).encode(), headers)
            continue
        data = (GOLDEN / f"{'openai' if name in ('cut', 'ended') else name}.sse").read_bytes()
        if name == "cut":
            peer.begin_stream()
            peer.chunk(data[:300])
            return
        if name == "ended":
            data = b"".join(data.partition(b"\n\n")[:2])
        peer.answer(200, data, "content-type: text/event-stream\r\n")


@pytest.fixture(scope="module")
def played() -> tuple[dict[str, Any], list[tuple[str, Json]]]:
    with serving(handle) as server:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, server.url], capture_output=True, timeout=120, check=False, text=True
        )
        assert done.returncode == 0, done.stderr
        sent = [(seen.path, json.loads(seen.body)) for seen in server.seen if seen.body]
    return json.loads(done.stdout), sent


def test_importing_it_makes_no_connection_and_leaves_the_environment(played: tuple[Any, Any]) -> None:
    assert (played[0]["import_connects"], played[0]["env_kept"]) == (0, True)
    assert played[0]["loads"] == ["openai"]


def test_text_calls_usage_and_thinking_come_through(played: tuple[Any, Any]) -> None:
    assert played[0]["openai"] == {
        "text": "Let me look — 你好.",
        "calls": [["call_a", "bash", {"command": "ls"}], ["call_b", "read", {"path": "a.txt"}]],
        "thinking": [],
        "reason": "toolUse",
        "usage": [36, 20, 64, 0],
    }
    assert played[0]["deepseek"]["thinking"] == [["Thinking.", "reasoning_content"]]


def test_anthropic_gets_cache_marks_and_gives_its_proofs(played: tuple[Any, Any]) -> None:
    assert played[0]["anthropic"] == {
        "text": "",
        "calls": [["toolu_1", "bash", {"command": "ls"}]],
        "thinking": [["Hmm", "c2lnbmF0dXJl"]],
        "reason": "toolUse",
        "usage": [10, 20, 50, 7],
    }
    body = next(body for path, body in played[1] if path.startswith("/anthropic"))
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("name", "kind", "retryable"),
    [
        ("401", "AuthFailed", False),
        ("429", "RateLimited", True),
        ("400", "ContextTooLong", False),
        ("503", "BadResponse", True),
    ],
)
def test_errors_are_mapped_as_on_the_direct_wire(
    played: tuple[Any, Any], name: str, kind: str, retryable: bool
) -> None:
    error = played[0][name]
    assert (error["kind"], error["retryable"]) == (kind, retryable)
    assert "sk-secret-123" not in error["text"]
    assert error["after"] == (3.0 if name == "429" else None)


def test_a_connection_that_breaks_is_a_retryable_error(played: tuple[Any, Any]) -> None:
    assert played[0]["cut"]["retryable"] is True
    ended = played[0]["ended"]
    assert (ended["retryable"], ended["text"]) == (True, "the answer of openai ended before its finish marker")


def test_a_full_name_of_litellm_in_the_id_is_enough_and_without_any_the_fault_is_said(
    played: tuple[Any, Any],
) -> None:
    assert played[0]["full name"]["text"].startswith("Let me look")
    (body,) = (body for path, body in played[1] if path.startswith("/openai/full"))
    assert body["model"] == "lm"
    nameless = played[0]["no name"]
    assert (nameless["kind"], nameless["text"]) == ("BadResponse", "litellm knows no provider 'mine'")
    assert "openai/my-model" in nameless["hint"]


def test_a_request_is_made_once(played: tuple[Any, Any]) -> None:
    paths = [path for path, _ in played[1]]
    assert len(paths) == len(set(paths)) == 15


def test_an_abort_is_heard_at_once_and_closes_the_connection(played: tuple[Any, Any]) -> None:
    aborted = {name: times for name, times in played[0].items() if name.startswith("cancelled")}
    assert len(aborted) == 5
    for name, (heard, closed) in aborted.items():
        assert heard < 0.3, name
        assert closed < 1, name


def model(provider: str, id: str, api: str, compat: Json | None = None) -> Model:
    return Model(provider, id, api, "", "", {}, 1000, 100, True, False, Price(), compat or {})


def test_names_for_litellm() -> None:
    assert litellm_name(model("anthropic", "claude-x", "litellm")) == "anthropic/claude-x"
    assert litellm_name(model("google", "g", "litellm", {"litellmProvider": "gemini"})) == "gemini/g"
    assert litellm_name(model("anthropic", "c", "google-generative-ai")) == "gemini/c"
    assert litellm_name(model("litellm", "bedrock/x.y", "litellm")) == "bedrock/x.y"


def test_an_id_with_a_full_name_replaces_only_a_provider_that_litellm_does_not_know() -> None:
    known = {"openai", "openrouter", "anthropic"}
    assert routed("mine/openai/lm", "openai/lm", known) == "openai/lm"
    assert routed("openrouter/anthropic/c", "anthropic/c", known) == "openrouter/anthropic/c"
    assert routed("mine/org/lm", "org/lm", known) == "mine/org/lm"
    assert routed("gpt-x", "gpt-x", known) == "gpt-x"


def test_without_key_or_endpoint_litellm_uses_its_own() -> None:
    call = arguments(model("litellm", "bedrock/x", "litellm"), Request("", (user_text("hi", 1),), ()))
    assert call["model"] == "bedrock/x"
    assert not {"api_key", "api_base", "extra_headers"} & set(call)


def test_proofs_go_back_with_their_thinking() -> None:
    target = model("anthropic", "claude-x", "litellm")
    said = AssistantMessage(
        (ThinkingPart("hm", "proof"), TextPart("x")), "litellm", "anthropic", "claude-x", Usage(), "stop", 1
    )
    call = arguments(target, Request("", (user_text("hi", 1), said, user_text("go on", 2)), ()))
    blocks = call["messages"][1]["thinking_blocks"]
    assert blocks == [{"type": "thinking", "thinking": "hm", "signature": "proof"}]


def test_the_bridge_is_told_of_the_load_before_the_first_request_only() -> None:
    told: list[str] = []
    bridge = LiteLLMBridge(told.append)

    async def begin_and_leave() -> None:
        stream = bridge.stream(model("cohere", "c", "litellm"), Request("", (), ()))
        await stream.aclose()

    asyncio.run(begin_and_leave())
    assert told == []


def test_marks_stand_as_on_the_direct_wire() -> None:
    target = model("bedrock", "anthropic.claude-x", "litellm")
    overview = user_text("[OpenViking Session Context]\nold", 1)._replace(kind="overview")
    said = AssistantMessage((TextPart("yes"),), "litellm", "bedrock", "anthropic.claude-x", Usage(), "stop", 1)
    history = (overview, user_text("one", 2), said, user_text("two", 3), said, user_text("three", 4))
    messages = arguments(target, Request("sys", history, ()))["messages"]
    marked = [message["content"][0]["text"] for message in messages if isinstance(message["content"], list)]
    assert marked == ["sys", "[OpenViking Session Context]\nold", "two", "three"]
    plain = arguments(model("cohere", "c", "litellm"), Request("sys", history, ()))["messages"]
    assert all(isinstance(message["content"], str) for message in plain)
