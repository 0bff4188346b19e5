"""Puts the program together: everything but user interface objects is made here."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vikingpi.agent.deps import AgentDeps
from vikingpi.agent.hooks import AgentHooks, HookChain, StartReason
from vikingpi.agent.loop import Agent
from vikingpi.agent.prompt import find_context_files, system_prompt
from vikingpi.agent.templates import Library, skills_text
from vikingpi.app.app import App, MemoryControl, Parts, TakeoverControl
from vikingpi.app.approval import Approval
from vikingpi.app.context import History, SessionContext, session_ref, whole_branch
from vikingpi.app.leftovers import sweep
from vikingpi.app.memory import build_memory, memory_of
from vikingpi.app.models import ModelChoice, choose_model, first_words, open_key
from vikingpi.app.options import RunOptions
from vikingpi.app.resources import Places, find_library, system_file
from vikingpi.app.seals import make_seal
from vikingpi.app.secrets import REDACT_OFF, make_redactor, mask_of
from vikingpi.app.sessions import (
    Folder,
    Opened,
    learn_start,
    new_session,
    open_chosen,
    session_folder,
)
from vikingpi.app.stores import BYPASSED, OpenStore, StoreChoice, build_takeover, choose_store, open_store
from vikingpi.commands.chooser import Asker
from vikingpi.config.load import bypassed, load
from vikingpi.config.model import Settings
from vikingpi.config.paths import PROJECT_FOLDER, Paths, home_of, locate
from vikingpi.config.trust import is_trusted
from vikingpi.debuglog import open_log
from vikingpi.errors import ConfigError, StoreError
from vikingpi.events import Event, Notice
from vikingpi.extensions.loader import Loaded, find_extensions, load_extensions
from vikingpi.http_thread import origin_of, sent_openly
from vikingpi.llm.base import Model, ProviderFor
from vikingpi.llm.registry import Catalog, find_provider, load_catalog
from vikingpi.memory.overview_writer import ModelInUse, ModelWriter
from vikingpi.messages import ToolSpec, Usage
from vikingpi.net import HttpTransport, Transport
from vikingpi.private import kept_random
from vikingpi.session.entries import usage_to_json
from vikingpi.session.file import SessionLog, append_later
from vikingpi.tools.base import Tool, ToolContext
from vikingpi.tools.builtin import builtin_tools, search_tools
from vikingpi.values import NamedTuple

if TYPE_CHECKING:
    from vikingpi.tools.sandbox import Sandbox

Mode = Literal["repl", "print"]
Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Prepared(NamedTuple):
    """Everything that is read before a session is opened; `first` is True while nothing was ever kept."""

    options: RunOptions
    env: Mapping[str, str]
    cwd: Path
    paths: Paths
    settings: Settings
    folder: Folder
    store: StoreChoice
    catalog: Catalog
    notices: tuple[str, ...]
    extensions: Loaded = Loaded()
    library: Library = Library()
    trusted: bool = False
    sandbox: Sandbox | None = None
    first: bool = False


class Seams(NamedTuple):
    """What a test or the demo may replace. Without `model_overviews` no overview is written by the model."""

    transport: Transport
    provider_for: ProviderFor
    model: Model | None = None
    model_overviews: bool = True


def prepare(options: RunOptions, env: Mapping[str, str], cwd: Path) -> Prepared:
    """Read configuration and model catalogue; ConfigError when something in them is wrong."""
    paths = locate(env)
    trusted = is_trusted(paths, cwd, options.trust)
    loaded = load(paths, cwd, env, trusted=trusted)
    settings = loaded.settings
    choice = choose_store(options.store, settings, loaded.endpoint, bypassed=bypassed(cwd, settings.bypass_patterns))
    if options.store == "openviking" and choice.endpoint is None:
        raise ConfigError(
            "no OpenViking server is configured", hint="set OPENVIKING_URL, or openviking.url in config.json"
        )
    notices = loaded.problems
    if choice.endpoint is not None and choice.endpoint.api_key and sent_openly(choice.endpoint.url):
        notices += (f"the OpenViking key is sent unencrypted to {origin_of(choice.endpoint.url)}; use https://",)
    if choice.why:
        notices += (f"the context store is off: {choice.why}",)
    elif choice.kind != "off" and not settings.capture_redact and not options.no_session:
        notices += (REDACT_OFF,)
    folder = session_folder(options.session_dir or settings.session_dir, paths, cwd)
    catalog = load_catalog(paths.models_file, paths.auth_file, env)
    notices += catalog.notices
    extensions = load_extensions(_extension_files(options, paths, cwd, trusted=trusted))
    notices += extensions.notices
    library = find_library(_places(paths, cwd, env, trusted=trusted))
    notices += library.notices
    cage = _cage(paths, cwd, env, network=settings.tools.sandbox_network) if options.sandbox else None
    first = not (paths.config_file.exists() or paths.sessions.exists())
    found = (extensions, library, trusted, cage, first)
    return Prepared(options, env, cwd, paths, settings, folder, choice, catalog, notices, *found)


def _places(paths: Paths, cwd: Path, env: Mapping[str, str], *, trusted: bool) -> Places:
    return Places(paths, cwd, home_of(env), trusted)


def _extension_files(options: RunOptions, paths: Paths, cwd: Path, *, trusted: bool) -> tuple[Path, ...]:
    folders = [paths.extensions] if not options.no_extensions else []
    if trusted and folders:
        folders.append(cwd / PROJECT_FOLDER / "extensions")
    return find_extensions(folders, options.extensions, cwd)


def _cage(paths: Paths, cwd: Path, env: Mapping[str, str], *, network: bool) -> Sandbox:
    from vikingpi.tools.sandbox import make_sandbox

    hidden = (paths.config, paths.data, paths.state, home_of(env) / ".openviking")
    return make_sandbox(cwd, hidden, env, network=network)


def build_app(prepared: Prepared, mode: Mode, spawn: Spawn, seams: Seams | None = None) -> App:
    """Make the application; nothing is opened before its start()."""

    def loading(provider: str) -> None:
        if mode == "repl":
            app.emit(Notice(f"loading {provider}"))

    if seams is None:
        transport = HttpTransport()
        seams = Seams(transport, find_provider(transport, loading))
    builder = _Builder(prepared, mode, spawn, seams)
    app = App(prepared.settings, builder.open_parts, builder.close)
    builder.asker = lambda: app.asker
    builder.settings = lambda: app.settings
    app.approval = builder.approval
    app.library = prepared.library
    app.commands = prepared.extensions.commands(())
    for extension in prepared.extensions.extensions:
        app.subscribe(extension.hooks.tell)
    return app


class _Context(NamedTuple):
    """What a context store adds to a session."""

    hooks: tuple[AgentHooks, ...] = ()
    tools: tuple[Tool, ...] = ()
    control: TakeoverControl | None = None
    memory: MemoryControl | None = None
    notices: tuple[str, ...] = ()


class _Builder:
    """Opens one session after the other; the store and the ledger are opened once."""

    def __init__(self, prepared: Prepared, mode: Mode, spawn: Spawn, seams: Seams) -> None:
        self._prepared = prepared
        self._mode: Mode = mode
        self._spawn = spawn
        self._seams = seams
        self._store: OpenStore | None = None
        self._agent: Agent | None = None
        self._begun: ModelChoice | None = None
        self._folder: Folder = prepared.folder
        self.asker: Callable[[], Asker | None] = lambda: None
        self.settings: Callable[[], Settings] = lambda: prepared.settings
        kept = partial(kept_random, prepared.paths.data / "seal.key")
        self._seal = make_seal(kept if not prepared.options.no_session else partial(os.urandom, 16))
        self.approval = Approval(prepared.options.approve, prepared.settings.approval, lambda: self.asker(), self._seal)
        self._redactor = make_redactor(
            prepared.settings,
            prepared.paths,
            prepared.catalog,
            prepared.env,
            (prepared.options.api_key, prepared.settings.openviking.api_key),
            keep=prepared.store.kind != "off" and not prepared.options.no_session,
        )
        self._log, self._unlogged = open_log(prepared.env, lambda record: self._redactor.mask_json(record)[0])

    async def open_parts(
        self, reason: StartReason, emit: Callable[[Event], None], choose: Callable[[], Opened] | None = None
    ) -> Parts:
        """Open a session, the chosen one at start-up and an empty one later, and all that belongs to it."""
        prepared, options = self._prepared, self._prepared.options
        if choose is None:
            opener = new_session if reason == "new" else partial(open_chosen, options)
            choose = partial(opener, self._folder)
        opened = choose()
        session, folder = opened.session, self._folder.at(opened.cwd or self._folder.cwd)
        try:
            fixed = self._seams.model
            model = ModelChoice(fixed, "off") if fixed is not None else await self._choose(session, reason)
            notices = self._start_notices(reason, opened, model)
            ctx = SessionContext(session, lambda: self.settings(), emit)
            context = self._context_store(ctx, session, folder.cwd)
            if context.control is None or not self.settings().takeover.enabled:
                _unfold(session, captured=context.control is not None)
            tools = chosen_tools(options, (*context.tools, *prepared.extensions.tools))
        except BaseException:
            session.close()
            raise
        if options.name and reason == "startup" and session.known.name != options.name:
            session.append("session_info", {"name": options.name})
        for extension in prepared.extensions.extensions:
            extension.hooks.attach(ctx, lambda: whole_branch(session))
        self.approval.attach(session, folder.cwd, keep=self._agent is not None and reason in ("new", "fork"))
        extensions = (one.hooks for one in prepared.extensions.extensions)
        chain = HookChain((*context.hooks, *extensions, self.approval), ctx)
        self._folder = folder
        self._agent = agent = Agent(self._agent_deps(session, model, chain, tools, emit))
        if self._mode == "repl" and session.known.totals is None:
            self._spawn(learn_start(session))
        return Parts(
            session,
            agent,
            chain,
            context.control,
            model.model,
            model.thinking_level,
            (*notices, *context.notices),
            folder,
            opened.reason,
            context.memory,
        )

    async def _choose(self, session: SessionLog, reason: StartReason) -> ModelChoice:
        """A new session and a fork that begin in the chat go on with what is in use there.

        The flags of the start hold for a resumed session until the user has chosen otherwise.
        """
        prepared, transport, options = self._prepared, self._seams.transport, self._prepared.options
        if self._agent is not None and self._begun is not None:
            used = ModelChoice(self._agent.deps.model, self._agent.deps.thinking_level)
            if reason in ("new", "fork"):
                return used
            if used != self._begun:
                options = options._replace(model="", provider="", thinking=None, api_key="")
        chosen = await choose_model(options, prepared.catalog, self.settings(), session.branch(), transport)
        self._seams.provider_for(chosen.model)  # refuses a model whose api nobody speaks
        self._begun = self._begun or chosen._replace(notices=())
        return chosen

    async def close(self) -> None:
        """Close what all sessions share."""
        if self._store is not None:
            await self._store.store.close()
            self._store.ledger.database.close()
        await self._seams.transport.close()
        paths = self._prepared.paths
        sweep(paths.outputs, paths.locks, time.time())

    def _start_notices(self, reason: StartReason, opened: Opened, model: ModelChoice) -> tuple[str, ...]:
        first = self._prepared.notices if reason == "startup" else ()
        if reason == "startup" and self._mode == "repl" and self._prepared.first:
            first += (first_words(model.model),)
        if reason == "startup" and self._unlogged:
            first += (self._unlogged,)
        return (*first, *opened.notices, *model.notices, *open_key(model.model))

    def _context_store(self, ctx: SessionContext, session: SessionLog, cwd: Path) -> _Context:
        prepared = self._prepared
        if prepared.store.kind == "off" or prepared.options.no_session:
            return _Context()
        if prepared.options.store is None and bypassed(cwd, self.settings().bypass_patterns):
            return _Context(notices=(f"the context store is off: {BYPASSED}",))
        settings, paths, transport, log = self.settings(), prepared.paths, self._seams.transport, self._log
        try:
            if self._store is None:
                writer = ModelWriter(self._in_use, settings.takeover.overview_budget)
                self._store = open_store(
                    prepared.store,
                    settings,
                    paths,
                    transport,
                    log,
                    self._redactor,
                    self._mode,
                    writer if self._mode == "repl" and self._seams.model_overviews else None,
                )
        except StoreError as error:
            return _Context(notices=(f"the context store is off: {error}",))
        takeover = build_takeover(self._store, ctx, session_ref(session), cwd, prepared.env, self._spawn)
        kept = memory_of(self._store, settings, paths, transport, log, cwd, prepared.env)
        memory = build_memory(kept, self._store, takeover, ctx, History(session), self._seal)
        return _Context((takeover.hooks, memory.hooks), memory.tools, takeover.control, memory.control)

    def _in_use(self) -> ModelInUse | None:
        if self._agent is None:
            return None
        deps = self._agent.deps

        def spent(usage: Usage) -> None:
            append_later(deps.session, "usage", {"usage": usage_to_json(usage), "source": "overview"})

        return ModelInUse(deps.model, deps.provider_for, spent)

    def _agent_deps(
        self,
        session: SessionLog,
        model: ModelChoice,
        chain: HookChain,
        tools: tuple[Tool, ...],
        emit: Callable[[Event], None],
    ) -> AgentDeps:
        prepared, cwd = self._prepared, self._folder.cwd
        prompt = _system(prepared, cwd, [tool.spec for tool in tools])
        temp = prepared.paths.outputs / session.id
        env = {**prepared.env, "VPI_SESSION_ID": session.id, "VPI_SESSION_FILE": str(session.path or "")}

        sandbox = prepared.sandbox.at(cwd) if prepared.sandbox is not None else None
        mask = mask_of(self._redactor, self.settings())

        def tool_context(update: Callable[[str], None]) -> ToolContext:
            return ToolContext(cwd, env, update, self.settings().tools.bash_timeout, temp, sandbox, mask)

        return AgentDeps(
            session,
            model.model,
            model.thinking_level,
            self._seams.provider_for,
            tools,
            chain,
            emit,
            self.settings(),
            lambda: prompt,
            tool_context,
            expand=prepared.library.expand,
        )


def _unfold(session: SessionLog, *, captured: bool) -> None:
    """Read the history that only takeover would replace by its overview."""
    if session.known.covered or captured:
        session.known.load()


def chosen_tools(options: RunOptions, more: tuple[Tool, ...] = ()) -> tuple[Tool, ...]:
    """Give the tools of a run, those of memory and extensions last; of two with one name the later one counts.

    ConfigError for a name that no tool has.
    """
    if options.no_tools:
        return ()
    if not options.tools:
        return tuple({tool.spec.name: tool for tool in (*builtin_tools(), *more)}.values())
    names = [name.strip() for name in options.tools.split(",") if name.strip()]
    if not names:
        raise ConfigError("--tools names no tool", hint="--no-tools gives the model none")
    known = {tool.spec.name: tool for tool in (*builtin_tools(), *search_tools(), *more)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"no tool is called {', '.join(unknown)}", hint=f"there are {', '.join(known)}")
    return tuple(tool for name, tool in known.items() if name in names)


def _system(prepared: Prepared, cwd: Path, specs: list[ToolSpec]) -> str:
    options = prepared.options
    context = () if options.no_context_files else find_context_files(prepared.paths.config, cwd)
    places = _places(prepared.paths, prepared.cwd, prepared.env, trusted=prepared.trusted)
    return system_prompt(
        str(cwd),
        specs,
        replacement=_text_or_file(options.system_prompt) or system_file(places, "SYSTEM.md"),
        append=_text_or_file(options.append_system_prompt) or system_file(places, "APPEND_SYSTEM.md"),
        context=context,
        skills=skills_text(prepared.library.skills.values()),
    )


def _text_or_file(value: str) -> str:
    """A value that names an existing file stands for its text."""
    if not value or "\n" in value or len(value) > 1024 or not os.path.isfile(value):  # noqa: PTH113 - any text may come
        return value
    try:
        return Path(value).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"cannot read {value}: {error.strerror or error}") from error
