"""The way to a first model: what was found on this machine, what is missing, and a choice that is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from vikingpi.app.doctor import keys_found
from vikingpi.app.doctor_checks import check_model
from vikingpi.app.wiring import Prepared
from vikingpi.commands.chooser import Act, Choices, Option
from vikingpi.commands.model import about_model, name_of
from vikingpi.config.change import change
from vikingpi.config.jsonfile import read_object, write_object
from vikingpi.decode import as_dict
from vikingpi.llm.catalog import LOCAL_SERVERS, LocalServer
from vikingpi.llm.local import with_local_servers
from vikingpi.llm.models_file import plain_key
from vikingpi.llm.registry import Catalog, ProviderSetup, load_catalog
from vikingpi.net import Transport

DEMO, AGAIN, OWN = "demo", "again", "own"
NAMED = 4
_OWN = """\
{"providers": {"my": {"baseUrl": "http://127.0.0.1:8000/v1", "api": "openai-completions",
  "apiKey": "$MY_KEY", "models": [{"id": "my-model", "contextWindow": 128000, "maxTokens": 8192}]}}}"""


class FirstRun:
    """Offers models and ways to get one; `why` says why none can be used as it is. `servers` are looked for."""

    def __init__(
        self, prepared: Prepared, why: str, transport: Transport, servers: Sequence[LocalServer] = LOCAL_SERVERS
    ) -> None:
        self._prepared = prepared
        self._transport = transport
        self._servers = servers
        self._why = why
        self._found: Catalog = prepared.catalog
        self._refused = ""

    async def choose(self, show: Callable[[Choices], Awaitable[str | None]]) -> str:
        """Let the user choose a model and keep it as the default; DEMO if they want that, empty if they left.

        ConfigError when a file of the user's is broken or cannot be written.
        """
        while True:
            await self._look()
            picked = await show(self._choices())
            if picked is None or picked == DEMO:
                return picked or ""
            if picked == AGAIN:
                self._why = "Looked again."
                continue
            if await self._answers(picked):
                change(self._prepared.paths.config_file, "defaultModel", picked)
                return picked

    async def _look(self) -> None:
        names = [server.name for server in self._servers]
        self._found = await with_local_servers(self._catalog(), self._transport, self._servers, names)

    def _catalog(self) -> Catalog:
        paths = self._prepared.paths
        return load_catalog(paths.models_file, paths.auth_file, self._prepared.env)

    async def _answers(self, picked: str) -> bool:
        """Ask the provider once; what it refuses is told, and taken all the same when it is chosen again."""
        model = next(model for model in self._found.models if name_of(model) == picked)
        answer = await check_model(self._transport, model)
        if not answer.bad or picked == self._refused:
            return True
        self._refused = picked
        self._why = (
            f"{picked}: {answer.text}. {answer.hint or 'Try another one'}; Enter once more takes it all the same."
        )
        return False

    def _choices(self) -> Choices:
        usable = self._found.usable
        at = self._refused or (name_of(usable[0]) if usable else "")
        return Choices(lambda: "Choose a model", self._options, at=at, enter=self._enter, head=self._head)

    def _head(self) -> str:
        prepared, found = self._prepared, self._found
        local = {server.name: server.port for server in self._servers}
        keys = [line for line in keys_found(found) if line.partition(":")[0] not in local]
        running = [setup.name for setup in found.setups.values() if setup.name in local]
        looked = ", ".join(f"{name} on {port}" for name, port in local.items())
        store, endpoint = prepared.store.kind, prepared.store.endpoint
        memory = f"OpenViking on {endpoint.url}" if endpoint is not None else str(prepared.paths.store_db)
        lines = [
            self._why,
            f"Keys: {'; '.join(keys) or f'none, neither in the environment nor in {prepared.paths.auth_file}'}",
            f"On this machine: {', '.join(running) or f'no model server ({looked})'}",
            f"Memory: {memory if store != 'off' else 'off'}",
        ]
        return "\n".join(lines)

    def _options(self) -> list[Option]:
        found = self._found
        models = [Option(name_of(one), name_of(one), about_model(one), one.key_source) for one in found.usable]
        return [*models, *self._unready(), *self._others()]

    def _unready(self) -> Iterator[Option]:
        for setup in self._found.setups.values():
            names = [model.id for model in self._found.models if model.provider == setup.name]
            if setup.ready or not names:
                continue
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            label = f"{setup.name}: {', '.join(names[:NAMED])}{more}"
            lack = f"needs {setup.key.missing or next(iter(setup.key_variables), 'a key')}"
            preview = partial(_ways, setup, self._prepared.paths.auth_file)
            # Its first model takes the place of the line once the key is there.
            yield Option(f"{setup.name}/{names[0]}", label, lack, " ".join(names), preview)

    def _others(self) -> Iterator[Option]:
        models = self._prepared.paths.models_file
        yield Option(
            OWN, "an endpoint of your own", "models.json", "openai compatible vllm", lambda: f"{models}:\n{_OWN}"
        )
        again = "Start Ollama, LM Studio or llama.cpp, or write models.json or auth.json, then look again."
        yield Option(AGAIN, "look again", "", "ollama lm studio llama.cpp local server", lambda: again)
        yield Option(DEMO, "look around without a model", "vpi demo", "", lambda: "Plays a script and needs no key.")

    def _enter(self, key: str) -> Act | None:
        if key == OWN:
            return _says("write the file that is shown above, then look again")
        setup = self._found.setups.get(key.partition("/")[0])
        if setup is None or setup.ready:
            return None
        if setup.key.missing:
            return _says(f"leave, export {setup.key.missing}=..., and start vpi again")
        return Act("enter", "asks for the key", self._keep, asks=f"key of {setup.name}", secret=True)

    def _keep(self, option: str, text: str) -> str:
        """Keep a key and offer the provider's models."""
        provider, path = option.partition("/")[0], self._prepared.paths.auth_file
        key = plain_key(text, "the terminal")
        if not key:
            return "no key was given"
        kept = read_object(path) or {}
        write_object(path, {**kept, provider: {**as_dict(kept.get(provider)), "apiKey": key}}, private=True)
        before, fresh = self._found, self._catalog()
        local = {name: setup for name, setup in before.setups.items() if name not in fresh.setups}
        models = (model for model in before.models if model.provider in local)
        self._found = fresh._replace(setups={**fresh.setups, **local}, models=(*models, *fresh.models))
        return f"the key is kept in {path}; choose a model of {provider}"


def _says(told: str) -> Act:
    def run(key: str, text: str) -> str:
        return told

    return Act("enter", "says how", run)


def _ways(setup: ProviderSetup, auth_file: Path) -> str:
    if setup.key.missing:
        return f"models.json takes its key from ${setup.key.missing}, which is not set."
    variables = " or ".join(f"export {name}=..." for name in setup.key_variables)
    way = f"{variables} before the start, or give the key here" if variables else "Give the key here"
    return f"{way}: it is kept in {auth_file}, which only you can read."
