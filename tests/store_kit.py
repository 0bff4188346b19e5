"""What the tests of the stores share: messages to store and a transport that plays a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from vikingpi.decode import Json
from vikingpi.net import BODY_LIMIT, Reply, StreamReply
from vikingpi.viking.base import MessageKind, StoreMessage

STAMP = "2026-03-01T10:00:00.000Z"


def user(text: str, mark: str, kind: MessageKind = "") -> StoreMessage:
    return StoreMessage("user", ({"type": "text", "text": text},), STAMP, mark, (mark,), kind=kind)


def assistant(text: str, mark: str, *calls: Json) -> StoreMessage:
    texts: tuple[Json, ...] = ({"type": "text", "text": text},) if text else ()
    return StoreMessage("assistant", (*texts, *calls), STAMP, mark, (mark,))


def call(name: str, given: Json, output: str, status: str = "completed") -> Json:
    return {
        "type": "tool",
        "tool_id": "call-1",
        "tool_name": name,
        "tool_input": given,
        "tool_output": output,
        "tool_status": status,
    }


class Sent(NamedTuple):
    method: str
    url: str
    headers: Mapping[str, str]
    body: Json
    timeout: float


Answer = Reply | Exception | Callable[[Sent], Reply]


class ScriptedTransport:
    """Answers the requests in order and keeps them."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.sent: list[Sent] = []
        self._answers = list(answers)

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float = 40,
        limit: int = BODY_LIMIT,
    ) -> Reply:
        sent = Sent(method, url, headers or {}, json.loads(body) if body else {}, timeout)
        self.sent.append(sent)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else answer(sent)

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float = 40,
    ) -> AbstractAsyncContextManager[StreamReply]:
        raise NotImplementedError(f"{method} {url}")

    async def close(self) -> None:
        raise AssertionError("the transport belongs to whoever made it")


def ok(result: object, status: int = 200) -> Reply:
    return Reply(status, {"x-request-id": "req-1"}, json.dumps({"status": "ok", "result": result}).encode())


def failed(status: int, code: str, message: str, details: Json | None = None, **headers: str) -> Reply:
    error: Json = {"code": code, "message": message, "details": details}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, names, json.dumps({"status": "error", "result": None, "error": error}).encode())


def raw(status: int, body: str, **headers: str) -> Reply:
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body.encode())
