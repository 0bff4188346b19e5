"""From RunOptions to a user interface and an exit code."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO

from vikingpi.agent.attach import attach_files
from vikingpi.app.app import App
from vikingpi.app.limits import limits_of
from vikingpi.app.listing import models_text
from vikingpi.app.options import RunOptions
from vikingpi.app.standard_input import Piped, read_piped
from vikingpi.app.wiring import Mode, Prepared, build_app, prepare
from vikingpi.errors import ConfigError, NoModel, VpiError
from vikingpi.messages import ImagePart
from vikingpi.ui.interrupts import SIGNALS, Interrupts
from vikingpi.ui.json_mode import run_json
from vikingpi.ui.plain import run_print, write

# A long session makes many objects that stay: looking at them again and again costs a third of its resume. In a chat
# a key waits for that, 0.5 ms for the youngest 1,000 and 2 ms for ten times as many: all are looked at once in 200,000,
# before what cannot be reached any more takes 30 MB.
COLLECT_AFTER = (20_000, 20, 50)
COLLECT_IN_CHAT = (1_000, 10, 20)
Prompt = tuple[str, tuple[ImagePart, ...]]


def run_options(options: RunOptions) -> int:
    """Run the program and return the exit code; ConfigError and SessionError before anything ran."""
    chat = not options.print_answer and options.mode == "text" and _is_terminal(sys.stdin, sys.stdout)
    if chat and not options.export and not options.list_models:
        return _run_options(options, sys.stdout, interactive=True)
    out = sys.stdout
    with redirect_stdout(sys.stderr):  # standard output is for the answer; an extension's print() goes beside it
        return _run_options(options, out, interactive=chat)


def _run_options(options: RunOptions, out: TextIO, *, interactive: bool) -> int:
    env, cwd = dict(os.environ), _working_directory()
    if options.export:
        from vikingpi.app.export import run_export

        return run_export(options, env, cwd, out, sys.stderr)
    if interactive and not options.list_models:
        from vikingpi.ui.trust_question import ask_trust

        options = ask_trust(options, env, cwd, sys.stdin, out)
    prepared = prepare(options, env, cwd)
    if options.list_models:
        write(out, asyncio.run(models_text(prepared.catalog, " ".join(options.words))))
        return 0
    limits = limits_of(options)
    if interactive and any(limits):
        raise ConfigError("a limit is for runs without a chat", hint="add -p or --mode json")
    if options.resume and not interactive:
        raise ConfigError(
            "--resume needs a terminal to choose on", hint="-c goes on with the newest session, --session ID with any"
        )
    if interactive:
        return _chat(prepared, _prompts(options, Piped(""), cwd))
    piped = read_piped(0, has_prompt=bool(options.words))
    if piped.notice:
        write(sys.stderr, f"{piped.notice}\n")
    prompts = _prompts(options, piped, cwd)
    if not prompts:
        raise ConfigError("there is nothing to do: no message and no standard input", hint='try: vpi -p "hello"')
    return _play(prepared, "print", prompts, out)


def _chat(prepared: Prepared, prompts: Sequence[Prompt]) -> int:
    """Run the chat; where no model can be used, let the user choose one first."""
    try:
        return _play(prepared, "repl", prompts, sys.stdout)
    except NoModel as error:
        from vikingpi.ui.desk import is_dumb
        from vikingpi.ui.first_run import DEMO, first_model

        if is_dumb(prepared.env):
            raise
        picked = asyncio.run(first_model(prepared, f"vpi needs a model: {error}."))
        if isinstance(picked, int):
            return picked
        if not picked:
            raise
    if picked == DEMO:
        from vikingpi.ui.demo_view import run_demo

        return run_demo((), sys.stdout)
    chosen = f"{picked} is your default model now; /model chooses another, /settings lists more, vpi doctor checks all"
    prepared = prepare(prepared.options, prepared.env, prepared.cwd)
    return _play(prepared._replace(notices=(*prepared.notices, chosen)), "repl", prompts, sys.stdout)


def _play(prepared: Prepared, mode: Mode, prompts: Sequence[Prompt], out: TextIO) -> int:
    main = _run(prepared, mode, prompts, out)
    if not prepared.extensions.extensions:
        return asyncio.run(main)
    from vikingpi.extensions.ending import run

    return run(main)


async def _run(prepared: Prepared, mode: Mode, prompts: Sequence[Prompt], out: TextIO) -> int:
    """Run one user interface. A signal cancels it, a second one ends the process; all is closed in any case."""
    failures: list[VpiError | OSError] = []
    interrupts = Interrupts()
    interrupts.watch()
    code = 1
    gc.freeze()
    gc.set_threshold(*COLLECT_IN_CHAT if mode == "repl" else COLLECT_AFTER)
    gc.enable()
    try:
        async with asyncio.TaskGroup() as group:
            app, reason = None, "signal"
            try:
                app = build_app(prepared, mode, group.create_task)
                code = await _interface(app, prepared, mode, prompts, interrupts, out)
                reason = "quit"
            except (VpiError, OSError) as error:
                failures.append(error)
            finally:
                if app is not None:
                    await app.close(reason)
    except asyncio.CancelledError:
        stopped = interrupts.caught
        if stopped is None:
            raise
        if mode == "print":
            write(sys.stderr, f"stopped by {stopped.name}\n")
        return SIGNALS[stopped]
    if failures:
        raise failures[0]
    return code


async def _interface(
    app: App, prepared: Prepared, mode: Mode, prompts: Sequence[Prompt], interrupts: Interrupts, out: TextIO
) -> int:
    if mode == "repl":
        from vikingpi.app.chat import equip
        from vikingpi.ui.actions import Places
        from vikingpi.ui.repl import run_repl

        equip(app, prepared)
        places = Places(prepared.paths.history, prepared.paths.state / "images")
        return await run_repl(app, prompts, places, interrupts, first="/resume" if prepared.options.resume else "")
    show = run_json if prepared.options.mode == "json" else run_print
    return await show(app, prompts, out, sys.stderr, app.start, limits_of(prepared.options))


def _prompts(options: RunOptions, piped: Piped, cwd: Path) -> list[Prompt]:
    """Join piped text, files and the first message; further messages are prompts of their own."""
    files = [word[1:] for word in options.words if word.startswith("@") and len(word) > 1]
    messages = [word for word in options.words if not (word.startswith("@") and len(word) > 1)]
    attached = attach_files(files, cwd)
    pieces = [piped.text, attached.text.rstrip("\n"), messages[0] if messages else ""]
    first = "\n\n".join(piece for piece in pieces if piece.strip())
    prompts: list[Prompt] = [(first, attached.images)] if first or attached.images else []
    return [*prompts, *((message, ()) for message in messages[1:] if message.strip())]


def _is_terminal(*streams: object) -> bool:
    return all(getattr(stream, "isatty", lambda: False)() for stream in streams)


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError("the current folder does not exist any more", hint="change to another folder") from error
