"""The seam between the agent loop and a model: values, the stream of deltas, the Provider protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from vikingpi.decode import Json
from vikingpi.messages import Message, StopReason, ToolSpec, Usage
from vikingpi.values import NamedTuple


class Price(NamedTuple):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class Model(NamedTuple):
    """One model of one provider. `api` chooses the wire: openai-completions, anthropic-messages, litellm,
    scripted. `compat` holds provider quirks (`maxTokensField`, `reasoningField`, `supportsUsage`). `key_source` says
    where the key came from, for messages."""

    provider: str
    id: str
    api: str
    base_url: str
    api_key: str
    headers: dict[str, str]
    context_window: int
    max_tokens: int
    reasoning: bool
    images: bool
    price: Price
    compat: Json
    key_source: str = ""


class Request(NamedTuple):
    """One request; everything in it is already valid for any provider."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    thinking_level: str = "off"
    max_tokens: int | None = None
    session_id: str = ""


class TextDelta(NamedTuple):
    text: str


class ThinkingDelta(NamedTuple):
    """`signature` is the JSON field it came in (chat completions) or a proof that ends the block.

    A `redacted` block comes whole: its text is empty, its signature what the provider has hidden.
    """

    text: str
    signature: str | None = None
    redacted: bool = False


class CallDelta(NamedTuple):
    """A piece of a tool call. `key` tells calls of one answer apart and is the same for all pieces of one."""

    key: str
    id: str = ""
    name: str = ""
    arguments: str = ""


class UsageDelta(NamedTuple):
    """The newest figures replace the older ones; cost is computed from the model's price by the wire."""

    usage: Usage


class Finish(NamedTuple):
    """The finish marker; a stream that ends without one is an error."""

    reason: StopReason
    raw: str
    response_id: str | None = None


Delta = TextDelta | ThinkingDelta | CallDelta | UsageDelta | Finish


class Provider(Protocol):
    def stream(self, model: Model, request: Request) -> AsyncIterator[Delta]:
        """Make one request and yield its pieces; UsageDelta may come after Finish.

        Raise a ProviderError when the model cannot answer, BadResponse when the stream ends without Finish.
        Never retry. Closing the iterator, or cancelling the task that awaits it, closes the connection.
        """
        ...


class ProviderFor(Protocol):
    def __call__(self, model: Model) -> Provider:
        """Return the provider that speaks `model.api`."""
        ...
