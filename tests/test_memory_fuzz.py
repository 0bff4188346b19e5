from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from vikingpi.memory.scope import Memory
from vikingpi.memory.tools import Sources, memory_tools
from vikingpi.messages import AssistantMessage, TextPart, ToolCall, ToolResultMessage, Usage, user_text
from vikingpi.net import HttpTransport
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog, memory_session
from vikingpi.takeover.capture import CaptureOptions, message_of, units
from vikingpi.tools.base import ToolContext
from vikingpi.viking.base import StoreMessage
from vikingpi.viking.embedded_memory import EmbeddedMemory
from vikingpi.viking.embedded_sessions import EmbeddedSessions

OPTIONS = CaptureOptions(24_000, 1_000_000, "", str)
# Every code point, lone surrogates too: a broken terminal or file gives them.
TEXT = st.text(st.characters(codec=None), min_size=1, max_size=200)
TURN = st.tuples(TEXT, TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=2))


def session_of(turns: list[tuple[str, str, str, dict[str, str]]]) -> SessionLog:
    log = memory_session("/work")
    for number, (asked, output, answered, arguments) in enumerate(turns):
        log.append_message(user_text(asked, 1))
        call = ToolCall(f"c{number}", "bash", arguments)
        log.append_message(
            AssistantMessage((TextPart("look"), call), "openai-completions", "p", "m", Usage(), "toolUse", 1)
        )
        log.append_message(ToolResultMessage(f"c{number}", "bash", (TextPart(output),), False, 1))
        log.append_message(AssistantMessage((TextPart(answered),), "openai-completions", "p", "m", Usage(), "stop", 1))
    return log


def ignore(text: str) -> None:
    return None


def captured(branch: tuple[Entry, ...]) -> list[StoreMessage]:
    """What takeover would deliver, by way of the ledger."""
    made = [message_of(branch, unit, OPTIONS) for unit in units(branch)]
    return [StoreMessage.from_json(message.to_json()) for message in made]


@settings(max_examples=40, deadline=None)
@given(turns=st.lists(TURN, min_size=1, max_size=3), query=st.text(max_size=80))
def test_any_text_goes_through_capture_search_archive_and_expand(
    turns: list[tuple[str, str, str, dict[str, str]]], query: str
) -> None:
    log = session_of(turns)

    async def branch() -> tuple[Entry, ...]:
        return log.branch()

    async def scene(folder: Path) -> None:
        sessions, transport = EmbeddedSessions(folder / "store.db", lambda: 0), HttpTransport()
        memory = EmbeddedMemory(sessions.file, lambda: 0, transport)
        messages = captured(log.branch())
        await sessions.ensure_session("pi-gen")
        await sessions.add_messages("pi-gen", messages)
        receipt = await sessions.commit("pi-gen", 0)
        assert receipt is not None
        archive = await sessions.archive("pi-gen", 1) if messages else None
        assert archive is None or archive.messages == tuple(messages)
        sources = Sources(Memory(memory, "", "", str, lambda: False), sessions, branch, lambda: "pi-gen")
        tools = {tool.spec.name: tool for tool in memory_tools(sources)}
        context = ToolContext(folder, {}, ignore, 1.0, folder)
        for text in (query or "x", *(word for turn in turns for word in turn[:3])):
            await memory.find(text)
            if text.strip():
                await tools["viking_search"].run({"query": text}, context)
        for number in range(1, len(turns) + 1):
            await tools["viking_archive_expand"].run({"user_turn": number}, context)
        await sessions.close()
        await transport.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scene(Path(folder)))
