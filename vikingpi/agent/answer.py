"""One request to the model, from the first delta to the finished message."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from vikingpi.agent.context import message_tokens, overhead
from vikingpi.agent.deps import AgentDeps
from vikingpi.errors import ContextTooLong, ProviderError
from vikingpi.events import MessageUpdate
from vikingpi.llm.assemble import MessageBuilder
from vikingpi.llm.base import Model, Request
from vikingpi.messages import AssistantMessage, Message, ToolResultMessage, Usage, UserMessage

ABORTED = "Operation aborted"


async def listen(
    deps: AgentDeps, request: Request, builder: MessageBuilder, show: Callable[[MessageUpdate], None]
) -> None:
    """Feed the answer to `builder`, giving each change to `show`; raise ProviderError."""
    stream = deps.provider_for(deps.model).stream(deps.model, request)
    try:
        async for delta in stream:
            for update in builder.feed(delta):
                show(update)
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def finished(builder: MessageBuilder) -> AssistantMessage:
    """Return the message; one that the provider itself ended as an error says so."""
    answer = builder.finish()
    if answer.stop_reason not in ("error", "aborted") or answer.error_message:
        return answer
    raw = answer.raw_stop_reason or answer.stop_reason
    return builder.partial("error", f"The provider ended the answer with {raw!r}")


def aborted_answer(deps: AgentDeps) -> AssistantMessage:
    """Make the empty message that says a run was aborted between two answers."""
    return error_answer(deps, ABORTED)._replace(stop_reason="aborted")


def error_answer(deps: AgentDeps, error: str) -> AssistantMessage:
    """Make an empty message for what failed without an answer."""
    return AssistantMessage(
        content=(),
        api=deps.model.api,
        provider=deps.model.provider,
        model=deps.model.id,
        usage=Usage(),
        stop_reason="error",
        timestamp=deps.clock(),
        error_message=error,
        thinking_level=deps.thinking_level,
    )


def overflowed(answer: AssistantMessage, error: ProviderError | None, model: Model, counted: int) -> bool:
    """Whether the window was too small: the provider said so, or it ended an answer because it was full.

    `counted` is the usage of request and answer in tokens, 0 where it is not to be believed.
    """
    if error is not None:
        return isinstance(error, ContextTooLong)
    full = 0 < model.context_window <= counted
    return answer.stop_reason == "length" and (full or answer.raw_stop_reason == "model_context_window_exceeded")


def too_big(model: Model, request: Request, why: str, refusal: ProviderError) -> ContextTooLong:
    """Make the error that says which parts of a refused request are the large ones; `why` nothing helps."""
    fixed, said = overhead(request.system, request.tools).tokens, _sum(request.messages, lambda message: True)
    parts = [
        ("the system prompt and the tools", fixed),
        ("the summary of earlier turns", _sum(request.messages, _is_summary)),
        ("the newest prompt", _newest_prompt(request.messages)),
        ("the largest tool result", _largest_result(request.messages)),
        ("all messages", _sum(request.messages, lambda message: not _is_summary(message))),
    ]
    named = ", ".join(f"{name} about {tokens}" for name, tokens in parts if tokens)
    window = f" ({model.context_window} tokens)" if model.context_window > 0 else ""
    text = f"The request does not fit the context window of {model.id}{window} {why}. In tokens: {named}."
    if fixed + said < model.context_window // 2:
        hint = "the server takes less than this: correct the model's contextWindow in models.json, or raise it there"
    else:
        hint = "shorten what is too big, or choose a model with a larger window"
    return ContextTooLong(f"{text} {refusal}", status=refusal.status, hint=hint)


def _sum(messages: Sequence[Message], counts: Callable[[Message], bool]) -> int:
    return sum(message_tokens(message) for message in messages if counts(message))


def _is_summary(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.kind in ("overview", "compaction")


def _newest_prompt(messages: Sequence[Message]) -> int:
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.kind == "user":
            return message_tokens(message)
    return 0


def _largest_result(messages: Sequence[Message]) -> int:
    return max((message_tokens(one) for one in messages if isinstance(one, ToolResultMessage)), default=0)
