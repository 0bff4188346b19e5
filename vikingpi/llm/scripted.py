"""A provider that plays a script; for tests, examples and the demo."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Sequence

from vikingpi.decode import Json
from vikingpi.errors import BadResponse, ContextTooLong, VpiError
from vikingpi.llm.base import (
    CallDelta,
    Delta,
    Finish,
    Model,
    Price,
    Request,
    TextDelta,
    ThinkingDelta,
    UsageDelta,
)
from vikingpi.llm.cost import priced
from vikingpi.llm.openai_body import build_body, encode, prompt_tokens
from vikingpi.messages import StopReason, Usage
from vikingpi.tokens import estimate
from vikingpi.values import NamedTuple

_WORD = re.compile(r"\s*\S+|\s+")
_ARGUMENT_PIECE = 24


class ScriptedCall(NamedTuple):
    """`raw` replaces the arguments by a text that need not be JSON; an empty id is made up."""

    name: str
    arguments: Json
    id: str = ""
    raw: str = ""


class Step(NamedTuple):
    """One response. Thinking, text and calls come in this order, then `error` is raised, if there is one.

    `delay` is the time in s before the first piece, `pause` between two pieces. `usage` None means estimated,
    with what is equal to the request before counted as read from the cache. `cut` ends the stream without a
    finish marker.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    error: VpiError | None = None
    delay: float = 0.0
    pause: float = 0.0
    usage: Usage | None = None
    reason: StopReason | None = None
    cut: bool = False


Script = Sequence[Step] | Callable[[Request], Step]


class ScriptedProvider:
    """Plays one step per request; `requests` and `bodies` (as chat completions) hold what was asked.

    `enforce_window` makes a request that is estimated above the model's window fail as with a real provider.
    """

    def __init__(self, script: Script, *, enforce_window: bool = False) -> None:
        self.requests: list[Request] = []
        self.bodies: list[Json] = []
        self._script = script
        self._enforce_window = enforce_window

    def __call__(self, model: Model) -> ScriptedProvider:
        """Serve every model: the provider is its own ProviderFor."""
        return self

    async def stream(self, model: Model, request: Request) -> AsyncGenerator[Delta]:
        turn = len(self.requests)
        usage = self._record(model, request)
        if self._enforce_window and usage.total > model.context_window:
            raise ContextTooLong(
                f"the request has about {usage.total} tokens, the window {model.context_window}", status=400
            )
        step = self._step(turn, request)
        await asyncio.sleep(step.delay)
        for index, piece in enumerate(_pieces(step, turn)):
            if index:
                await asyncio.sleep(step.pause)
            yield piece
        if step.error is not None:
            raise step.error
        if step.cut:
            raise BadResponse("the answer ended before its finish marker", retryable=True)
        usage = usage._replace(output=_output_tokens(step), reasoning=estimate(step.thinking))
        yield UsageDelta(step.usage if step.usage is not None else priced(usage, model.price))
        reason = step.reason or ("toolUse" if step.calls else "stop")
        yield Finish(reason, "tool_calls" if reason == "toolUse" else reason, f"scripted-{turn + 1}")

    def _step(self, turn: int, request: Request) -> Step:
        if callable(self._script):
            return self._script(request)
        if turn >= len(self._script):
            raise BadResponse(f"the script has {len(self._script)} steps, this is request {turn + 1}")
        return self._script[turn]

    def _record(self, model: Model, request: Request) -> Usage:
        body: Json = json.loads(encode(build_body(model, request)))
        before = self.bodies[-1] if self.bodies else {}
        self.requests.append(request)
        self.bodies.append(body)
        total = prompt_tokens(body["messages"], request.tools)
        if (before.get("model"), before.get("tools")) != (body["model"], body.get("tools")):
            return Usage(input=total)
        same = 0
        for old, new in zip(before["messages"], body["messages"], strict=False):
            if old != new:
                break
            same += 1
        cached = prompt_tokens(body["messages"][:same], request.tools) if same else 0
        return Usage(input=total - cached, cache_read=cached)


def scripted_model(
    id: str = "scripted",
    *,
    context_window: int = 128_000,
    max_tokens: int = 16_384,
    reasoning: bool = True,
    images: bool = True,
    price: Price = Price(1.0, 2.0, 0.1, 1.25),  # noqa: B008 - an immutable value
) -> Model:
    """Return a model of the provider "scripted"."""
    return Model(
        provider="scripted",
        id=id,
        api="scripted",
        base_url="",
        api_key="",
        headers={},
        context_window=context_window,
        max_tokens=max_tokens,
        reasoning=reasoning,
        images=images,
        price=price,
        compat={},
    )


def _pieces(step: Step, turn: int) -> list[Delta]:
    out: list[Delta] = [ThinkingDelta(word, "reasoning_content") for word in _WORD.findall(step.thinking)]
    out += [TextDelta(word) for word in _WORD.findall(step.text)]
    for number, call in enumerate(step.calls):
        key = str(number)
        out.append(CallDelta(key, call.id or f"call_{turn + 1}_{number + 1}", call.name))
        text = call.raw or json.dumps(call.arguments, ensure_ascii=False)
        for start in range(0, len(text), _ARGUMENT_PIECE):
            out.append(CallDelta(key, arguments=text[start : start + _ARGUMENT_PIECE]))
    return out


def _output_tokens(step: Step) -> int:
    calls = sum(estimate(call.name + (call.raw or json.dumps(call.arguments))) for call in step.calls)
    return estimate(step.thinking) + estimate(step.text) + calls
