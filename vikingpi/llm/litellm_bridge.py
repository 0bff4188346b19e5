"""Every provider that has no wire of its own, through litellm: the one file that names it.

litellm takes seconds to import, so that happens with the first request to such a model. It lives in a daemon thread
with an event loop of its own, where what it computes between two pieces holds nobody up; an abort cancels the call
there, which closes its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from vikingpi.decode import Json, as_dict, as_int, as_list, as_str
from vikingpi.errors import BadResponse, ContextTooLong, ProviderError, Unreachable
from vikingpi.llm.anthropic_body import begins_with_overview
from vikingpi.llm.base import Delta, Model, Request, ThinkingDelta
from vikingpi.llm.failures import Said, masked, provider_error
from vikingpi.llm.http_stream import SILENCE, ended_early
from vikingpi.llm.openai_body import build_body, encode
from vikingpi.llm.openai_wire import Answer

_PREFIXES = {"google-generative-ai": "gemini"}
# Read by litellm while it is imported: no download of its price list, no `.env` of the current folder, no telemetry.
_QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "CRITICAL",
    "LITELLM_TELEMETRY": "False",
}
_UNREACHED = ("APIConnectionError", "ConnectError", "ConnectTimeout", "Timeout", "ReadTimeout")
_MARK = {"cache_control": {"type": "ephemeral"}}


class LiteLLMBridge:
    """Provider over litellm; `on_load` is told the provider's name before the first import."""

    def __init__(self, on_load: Callable[[str], None] | None = None) -> None:
        self._on_load = on_load
        self._loaded = False
        self._home: asyncio.AbstractEventLoop | None = None

    async def stream(self, model: Model, request: Request) -> AsyncGenerator[Delta]:
        """Make one request and yield its pieces."""
        if not self._loaded and self._on_load is not None:
            self._on_load(model.provider)
        self._loaded = True
        if self._home is None:
            self._home = _new_home()
        call = _Call(arguments(model, request), model)
        running = asyncio.run_coroutine_threadsafe(call.make(), self._home)
        answer = Answer(model, time.time)
        try:
            async for chunk in call.chunks():
                for delta in answer.chunk(chunk):
                    yield delta
                for delta in _proofs(chunk):
                    yield delta
        finally:
            running.cancel()
        for delta in answer.end():
            yield delta


def litellm_name(model: Model) -> str:
    """Return the model's name as litellm knows it: `<its provider>/<id>`."""
    if model.provider == "litellm":
        return model.id
    own = as_str(model.compat.get("litellmProvider"))
    return f"{own or _PREFIXES.get(model.api) or model.provider}/{model.id}"


def routed(name: str, id: str, known: Collection[str]) -> str:
    """Return `name`, or the id alone where that begins with a provider of litellm's and the name does not."""
    strange = name.partition("/")[0] not in known
    return id if strange and "/" in id and id.partition("/")[0] in known else name


def arguments(model: Model, request: Request) -> Json:
    """Return the keyword arguments of `litellm.completion`."""
    body: Json = json.loads(encode(build_body(model, request)))
    name = litellm_name(model)
    if "anthropic/" in name or "claude" in name:
        _mark_cache(as_list(body.get("messages")), begins_with_overview(request.messages))
    found: Json = {
        **body,
        "model": name,
        "timeout": SILENCE,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
        "stream_options": {"include_usage": True},
    }
    if model.base_url:
        found["api_base"] = model.base_url
    if model.api_key:
        found["api_key"] = model.api_key
    if model.headers:
        found["extra_headers"] = dict(model.headers)
    return found


def load_litellm() -> Any:
    """Import litellm without network, telemetry or chatter."""
    added = {name: value for name, value in _QUIET.items() if name not in os.environ}
    os.environ.update(added)
    try:
        import litellm
    finally:
        for name in added:
            os.environ.pop(name, None)
    litellm.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


class _Call:
    """One litellm call, made in litellm's thread and heard in the loop that made this object."""

    def __init__(self, call: Json, model: Model) -> None:
        self._call = call
        self._model = model
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Json | ProviderError | None] = asyncio.Queue()

    async def chunks(self) -> AsyncGenerator[Json]:
        while (item := await self._items.get()) is not None:
            if isinstance(item, ProviderError):
                raise item
            yield item

    async def make(self) -> None:
        """Make the call and hand over its chunks; a cancellation closes the connection."""
        stream: Any = None
        try:
            litellm = load_litellm()
            known = {str(getattr(one, "value", one)) for one in litellm.provider_list}
            name = routed(self._call["model"], self._model.id, known)
            stream = await litellm.acompletion(**{**self._call, "model": name})
            async for chunk in stream:
                self._post(chunk.model_dump(exclude_none=True))
        except Exception as error:  # noqa: BLE001 - litellm lets through whatever the SDKs below it raise
            self._post(_failure(self._model, error))
        finally:
            self._post(None)
            if stream is not None:
                await stream.aclose()

    def _post(self, item: Json | ProviderError | None) -> None:
        with contextlib.suppress(RuntimeError):  # the program ends and has closed its loop
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)


class _Daemons(ThreadPoolExecutor):
    """Runs each piece of work in a daemon thread, so that none of them can hold the end of the program."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 - handed to who waits
                    future.set_exception(error)

        threading.Thread(target=work, name="vpi-litellm-work", daemon=True).start()
        return future


def _new_home() -> asyncio.AbstractEventLoop:
    """Start the thread of litellm and return its event loop."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Daemons())
    loop.set_exception_handler(lambda loop, context: None)  # tasks of litellm's own that nobody waits for

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    threading.Thread(target=run, name="vpi-litellm", daemon=True).start()
    return loop


def _failure(model: Model, error: Exception) -> ProviderError:
    """Map by name and status: litellm's exceptions carry `status_code`, `message` and the response."""
    kind = type(error).__name__
    text = " ".join(_without_prefix(as_str(getattr(error, "message", "")) or str(error)).split())[:600]
    if kind == "ContextWindowExceededError":
        told = f"{model.provider}: {masked(text, model)}"
        return ContextTooLong(told, status=400, hint="run /compact or start a new session")
    if "Stream ended before a finish_reason" in text:
        return ended_early(model)  # litellm's own words, with a status that no server has sent
    if "LLM Provider NOT provided" in text:
        return BadResponse(
            f"litellm knows no provider {litellm_name(model).partition('/')[0]!r}",
            hint="name the provider as litellm does, or give its name in front of the model's id, like openai/my-model",
        )
    if kind in _UNREACHED or text.startswith("Connection error"):
        told = f"{model.provider} cannot be reached: {masked(text, model)}"
        return Unreachable(told, hint="check the network and the base URL", retryable=True)
    status = as_int(getattr(error, "status_code", 0))
    if not status:
        return BadResponse(f"litellm failed for {model.provider}: {kind}: {masked(text, model)}")
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", None) or {}
    said = Said(status, text, {name.lower(): value for name, value in headers.items()}, {})
    return provider_error(model, said, time.time())


def _without_prefix(text: str) -> str:
    """Drop `litellm.RateLimitError: RateLimitError: OpenAIException - `."""
    while True:
        head, colon, rest = text.partition(": ")
        if not colon or " " in head or not head.endswith(("Error", "Timeout")):
            break
        text = rest
    head, dash, rest = text.partition("Exception - ")
    return rest if dash and head.isalnum() else text


def _proofs(chunk: Json) -> Iterable[Delta]:
    """Yield the signatures of thinking blocks (Anthropic), which must be sent back with them."""
    choices = as_list(chunk.get("choices"))
    delta = as_dict(as_dict(choices[0]).get("delta")) if choices else {}
    for block in as_list(delta.get("thinking_blocks")):
        signature = as_str(as_dict(block).get("signature"))
        if signature:
            yield ThinkingDelta("", signature)


def _mark_cache(messages: list[Any], overview: bool) -> None:
    """Mark the system prompt, the overview, the end of the request before this one, and the end as cache points."""
    said = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    first = 1 if messages and messages[0]["role"] == "system" else 0
    places = {0, len(messages) - 1, *([first] if overview else []), *([said[-1] - 1] if said else [])}
    for place in sorted(places & set(range(len(messages)))):
        message = messages[place]
        text = as_str(as_dict(message).get("content"))
        parts = as_list(as_dict(message).get("content"))
        if text:
            message["content"] = [{"type": "text", "text": text, **_MARK}]
        elif parts and parts[-1].get("type") == "text":
            parts[-1].update(_MARK)
