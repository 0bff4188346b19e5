"""What `vpi demo` prints."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from vikingpi.app.demo import DemoError, DemoResult, RequestFigures, play
from vikingpi.errors import ConfigError, VpiError
from vikingpi.events import BoundaryAdvanced, Event, MessageEnd, Notice, ToolEnd
from vikingpi.messages import AssistantMessage
from vikingpi.private import private_dir
from vikingpi.safetext import one_line, plain

WIDTH = 100
_OWN_MODEL = """\
Now with a model of your own:
  export OPENAI_API_KEY=...        or ANTHROPIC_API_KEY, OPENROUTER_API_KEY, DEEPSEEK_API_KEY, GEMINI_API_KEY
  vpi                              chat here; vpi -p "..." answers once; vpi -c goes on where you left off
  export OPENVIKING_URL=...        lets an OpenViking server keep the long-term context instead
"""


def run_demo(rest: Sequence[str], out: TextIO) -> int:
    """Play the demo and print what happened; `--keep DIR` leaves session, ledger and request bodies there."""
    if "--help" in rest:
        out.write("vpi demo [--keep DIR]: show a takeover with a scripted model, without any network\n")
        return 0
    keep = _keep(rest)
    folder = keep or Path(tempfile.mkdtemp(prefix="vpi-demo-"))
    try:
        if keep is not None:
            _prepare(keep)
        out.write("vpi demo: a scripted model, real tools, the embedded store, no network.\n\n")
        result = asyncio.run(play(folder, lambda event: _event(event, out), lambda prompt: _prompt(prompt, out)))
        _summary(result, out)
        if keep is not None:
            out.write(f"Kept in {keep}: {result.session_file.relative_to(keep)}, outbox.db, store.db, bodies.jsonl\n")
        return 0
    except DemoError as error:
        raise VpiError(f"the demo failed: {error}", hint="run it with --keep DIR and look at bodies.jsonl") from error
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _keep(rest: Sequence[str]) -> Path | None:
    words = [part for word in rest for part in (word.split("=", 1) if word.startswith("--keep=") else [word])]
    if not words:
        return None
    if words[0] != "--keep" or len(words) != 2 or not words[1]:
        raise ConfigError("vpi demo takes only --keep DIR")
    return Path(words[1]).expanduser().absolute()


def _prepare(keep: Path) -> None:
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise ConfigError(f"{keep} is not an empty folder", hint="name a folder that does not exist yet")
    private_dir(keep)


def _prompt(prompt: str, out: TextIO) -> None:
    out.write(f"> {prompt}\n")


def _event(event: Event, out: TextIO) -> None:
    match event:
        case ToolEnd(call, result):
            shown = call.arguments.get("command") or call.arguments.get("path") or ""
            mark = "failed" if result.is_error else "ok"
            out.write(f"  {call.name} {one_line(str(shown), 60)} ({mark})\n")
        case MessageEnd(AssistantMessage() as message) if message.text:
            out.write(f"  {plain(message.text)}\n")
        case BoundaryAdvanced(covered, before, after):
            turns = "turn 1 is" if covered == 1 else f"turns 1-{covered} are"
            out.write(f"\ncontext: {turns} now an overview (~{before} -> ~{after} tokens)\n\n")
        case Notice(text):
            out.write(f"  {plain(text)}\n")
        case _:
            pass


def _summary(result: DemoResult, out: TextIO) -> None:
    out.write("\n")
    _request("Before the takeover", result.before, out)
    _request("After it", result.after, out)
    out.write("The overview that stands for the covered turns:\n")
    for line in result.overview.splitlines():
        out.write(f"  | {one_line(line, WIDTH)}\n")
    saved = 100 - round(100 * result.after.tokens / result.before.tokens)
    out.write(
        f"\nRequest {result.after.number} has {saved} % fewer tokens than request {result.before.number}, "
        f"and the facts are still there: {plain(result.answer)}\n\n{_OWN_MODEL}"
    )


def _request(title: str, request: RequestFigures, out: TextIO) -> None:
    out.write(f"{title}: request {request.number}, {request.messages} messages, {request.tokens} tokens\n")
    for line in request.lines:
        out.write(f"  {one_line(line, WIDTH)}\n")
    out.write("\n")
