"""All that the agent is given from outside; a test hands in fakes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from vikingpi.agent.hooks import Emit, HookChain
from vikingpi.config.model import Settings
from vikingpi.llm.base import Model, ProviderFor
from vikingpi.session.file import SessionLog
from vikingpi.tools.base import Tool, ToolContext
from vikingpi.values import NamedTuple


def now_ms() -> int:
    """Return the ms since the epoch."""
    return time.time_ns() // 1_000_000


class AgentDeps(NamedTuple):
    """`system` gives the system prompt without what hooks append. `tool_context` takes the function that shows a
    running tool's output. `clock` returns ms since the epoch, `sleep` takes seconds. `expand` gives what is sent for a
    text that was queued."""

    session: SessionLog
    model: Model
    thinking_level: str
    provider_for: ProviderFor
    tools: tuple[Tool, ...]
    hooks: HookChain
    emit: Emit
    settings: Settings
    system: Callable[[], str]
    tool_context: Callable[[Callable[[str], None]], ToolContext]
    clock: Callable[[], int] = now_ms
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    expand: Callable[[str], str] = str
