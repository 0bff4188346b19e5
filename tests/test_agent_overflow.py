"""A window that is smaller than what is known of it, over both wires as real servers refuse it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from agent_lab import Lab, outline, over_http
from llm_server import Peer, serving
from vpi_lab import lab

from vikingpi.decode import Json
from vikingpi.events import CompactionEnd
from vikingpi.llm.base import Model, Price
from vikingpi.messages import AssistantMessage

TAKEN = 9000


def error(message: str, **more: object) -> Json:
    return {"error": {"message": message, **more}}


ANTHROPIC: Json = {
    "type": "error",
    **error("prompt is too long: 9000 tokens > 8000 maximum", type="invalid_request_error"),
}
REFUSALS: dict[str, tuple[int, bytes]] = {
    "openai": (
        400,
        json.dumps(error("maximum context length is 8192 tokens", code="context_length_exceeded")).encode(),
    ),
    "gemini": (
        400,
        json.dumps([error("input token count (9) exceeds the maximum number of tokens", code=400)]).encode(),
    ),
    "llamacpp": (400, json.dumps(error("try increasing it", type="exceed_context_size_error", n_ctx=8192)).encode()),
    "proxy": (413, b"<html><title>413 Request Entity Too Large</title></html>"),
    "in the stream": (200, b"data: " + json.dumps(error("context_length_exceeded")).encode() + b"\n\n"),
    "anthropic": (400, json.dumps(ANTHROPIC).encode()),
    "anthropic in the stream": (200, b"event: error\ndata: " + json.dumps(ANTHROPIC).encode() + b"\n\n"),
}


def handle(peer: Peer) -> None:
    while (seen := peer.request()) is not None:
        api = "anthropic" if seen.path.endswith("/messages") else "openai"
        refusal = REFUSALS[seen.path.split("/")[1].replace("%20", " ")]
        if len(json.dumps(json.loads(seen.body)["messages"])) > TAKEN:
            kind = "text/event-stream" if refusal[0] == 200 else "application/json"
            peer.answer(*refusal, f"content-type: {kind}\r\n")
        else:
            peer.answer(200, SAID[api], "content-type: text/event-stream\r\n")


SAID = {
    "openai": b'data: {"choices":[{"index":0,"delta":{"content":"short"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    "anthropic": b'data: {"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}\n\n'
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"short"}}\n\n'
    b'data: {"type":"content_block_stop","index":0}\n\n'
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n\n'
    b'data: {"type":"message_stop"}\n\n',
}


def ask(kind: str, *prompts: str) -> tuple[Lab, AssistantMessage | None, int]:
    """Ask a server that refuses in this way; count its requests too."""
    api = "anthropic-messages" if "anthropic" in kind else "openai-completions"
    with serving(handle) as server:
        url = f"{server.url}/{kind.replace(' ', '%20')}"
        model = Model("mine", "m", api, url, "key", {}, 128_000, 1000, False, False, Price(), {})
        lab = Lab([], model=model)
        return lab, asyncio.run(over_http(lab, *prompts)), len(server.seen)


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_window_that_is_full_is_compacted_and_the_work_goes_on(kind: str) -> None:
    lab, answer, requests = ask(kind, "x" * 6000, "y" * 6000, "go on")
    assert answer is not None and (answer.text, answer.stop_reason) == ("short", "stop")
    ends = [end for end in lab.of(CompactionEnd) if isinstance(end, CompactionEnd)]
    assert [(end.reason, end.error) for end in ends] == [("overflow", "")]
    assert requests == 5


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_prompt_that_never_fits_is_one_plain_error_with_the_provider_s_words(kind: str) -> None:
    lab, answer, requests = ask(kind, "hello", "z" * 12_000)
    assert answer is not None and answer.stop_reason == "error"
    text = answer.error_message or ""
    assert text.startswith("The request does not fit the context window of m (128000 tokens) even after a compaction.")
    assert "the newest prompt about 3000" in text and text.endswith(last_words(kind))
    assert lab.agent.last_error is not None and "contextWindow in models.json" in lab.agent.last_error.hint
    assert (len(lab.of(CompactionEnd)), requests) == (1, 4)


def last_words(kind: str) -> str:
    words = {"proxy": "mine answered 413: 413 Request Entity Too Large", "gemini": "the maximum number of tokens"}
    return words.get(kind, "")


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_after_a_prompt_that_did_not_fit_the_session_goes_on(kind: str) -> None:
    lab, answer, _ = ask(kind, "hello", "z" * 12_000, "never mind")
    assert answer is not None and (answer.text, answer.stop_reason) == ("short", "stop")
    assert [outline(one) for one in lab.stored()][1:] == ["u:never mind", "a:short"]


@pytest.mark.parametrize("declared", [8000, 128_000], ids=["known", "larger than it is"])
def test_a_turn_that_outgrows_the_window_again_and_again_is_finished(tmp_path: Path, declared: int) -> None:
    sizes, refused = [1900] * 6 + [3200], list[int]()
    asked = iter(range(1, 100))

    def handle(peer: Peer) -> None:
        while (seen := peer.request()) is not None:
            body = json.loads(seen.body)
            tokens = len(json.dumps(body["messages"])) // 4
            if tokens > 8000:
                refused.append(tokens)
                peer.answer(*REFUSALS["openai"], "content-type: application/json\r\n")
                continue
            delta: Json = {"content": "## Goal\ncount"}
            if "tools" in body:
                number = next(asked)
                command = f"echo {number} >> ran; seq 1 {sizes[number - 1]}" if number <= len(sizes) else ""
                function = {"name": "bash", "arguments": json.dumps({"command": command})}
                call = {"index": 0, "id": f"c{number}", "function": function}
                delta = {"tool_calls": [call]} if command else {"content": "finished"}
            chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
            peer.answer(200, f"data: {json.dumps(chunk)}\n\n".encode(), "content-type: text/event-stream\r\n")

    with lab(tmp_path) as made, serving(handle) as server:
        made.models(server.url, models=[{"id": "scripted", "contextWindow": declared, "maxTokens": 1000}])
        made.write("config.json", {"compaction": {"reserveTokens": 2000, "keepRecentTokens": 1500}})
        done = made.run("-p", "--store", "off", "count")
        assert (done.returncode, done.stdout) == (0, b"finished\n"), done.stderr
        assert (made.work / "ran").read_text().split() == [str(number) for number in range(1, 8)]
    assert done.stderr.count(b"context: compacted") >= 2
    assert bool(refused) == (declared > 8000)
