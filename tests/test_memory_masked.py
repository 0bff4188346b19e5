from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from openviking_fake import Fake, openviking
from test_memory_hooks import FakeMemoryStore
from vpi_lab import Lab, Tty, lab

from vikingpi.errors import StoreRejected
from vikingpi.memory.masked import MaskedMemory
from vikingpi.redact import Redactor
from vikingpi.viking.base import MemoryStore, Node, RecallQuery

SECRET = "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
PLAIN = "key0plain0without0shape77"
OLD = f"viking://user/default/memories/entities/{SECRET}.md"

Ask = Callable[[MemoryStore, str], Awaitable[object]]

WORDS: dict[str, Ask] = {
    "recall": lambda store, text: store.search_context(RecallQuery(text, 2000, 10, 0.35)),
    "a search": lambda store, text: store.find(text),
    "the place of a search": lambda store, text: store.find("x", scope=f"viking://resources/{text}"),
    "a memory": lambda store, text: store.write(f"the token is {text}", "entities"),
    "a kind of memory": lambda store, text: store.write("x", text),
    "the reason for a resource": lambda store, text: store.add_resource("https://a.test/x", text),
}
ADDRESSES: dict[str, Ask] = {
    "reading": lambda store, text: store.read(f"viking://resources/{text}/x"),
    "listing": lambda store, text: store.list(f"viking://resources/{text}"),
    "describing": lambda store, text: store.stat(f"viking://resources/a-{text}.md"),
    "deleting": lambda store, text: store.delete(f"viking://user/default/memories/events/{text}.md"),
    "a web address": lambda store, text: store.add_resource(f"https://a.test/x?token={text}"),
    "a local path": lambda store, text: store.add_resource(f"/tmp/{text}/x"),
}


def masked(store: FakeMemoryStore) -> MaskedMemory:
    return MaskedMemory(store, lambda text: Redactor(known=[PLAIN]).mask(text)[0])


@pytest.mark.parametrize("secret", [SECRET, PLAIN])
@pytest.mark.parametrize("name", WORDS)
def test_a_secret_in_words_does_not_reach_the_store(name: str, secret: str) -> None:
    store = FakeMemoryStore()
    asyncio.run(_done(WORDS[name](masked(store), secret)))
    assert len(store.asked) == 1
    assert secret not in store.asked[0]


@pytest.mark.parametrize("secret", [SECRET, PLAIN])
@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_with_a_secret_is_refused(name: str, secret: str) -> None:
    store = FakeMemoryStore()
    with pytest.raises(StoreRejected, match="holds a secret"):
        asyncio.run(_done(ADDRESSES[name](masked(store), secret)))
    assert secret not in "\n".join(store.asked)


class _Leaked(FakeMemoryStore):
    """A store that an unmasked name got into."""

    async def list(self, uri: str, *, peer: str = "") -> tuple[Node, ...]:
        await super().list(uri)
        return (Node(OLD, False, "", 1, ""),)


def test_what_a_store_holds_already_can_be_looked_at_and_deleted() -> None:
    store = _Leaked()
    assert asyncio.run(_done(masked(store).delete(OLD.replace("user/default", "~")))) == 1
    asyncio.run(_done(masked(store).read(OLD)))
    assert [asked.partition(" ")[0] for asked in store.asked] == ["list", "delete", "list", "read"]


async def _done(work: Awaitable[object]) -> object:
    return await work


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path) as made:
        made.config()
        made.env["OV_DEBUG_LOG"] = str(made.home / "debug.log")
        yield made


@pytest.fixture
def server() -> Iterator[Fake]:
    with openviking() as fake:
        yield fake


def stays_home(runs: Lab, server: Fake) -> None:
    for secret in (SECRET, SECRET[4:], PLAIN):
        assert secret not in server.text()
        assert [name for name, data in runs.kept().items() if secret.encode() in data] == []


@pytest.mark.parametrize(
    "words",
    [
        ("search", "what", "opens", SECRET),
        ("search", PLAIN),
        ("search", "--project", SECRET),
        ("add", f"the token is {SECRET}"),
        ("add", "--category", "profile", PLAIN),
        ("add", f"https://a.test/?key={SECRET}"),
        ("show", f"viking://resources/{SECRET}"),
        ("list", f"viking://resources/{PLAIN}"),
        ("forget", f"viking://resources/{SECRET}"),
    ],
)
def test_words_on_the_command_line_are_masked(runs: Lab, server: Fake, words: tuple[str, ...]) -> None:
    done = runs.run("memory", *words, OPENVIKING_URL=server.url, OPENVIKING_API_KEY=PLAIN)
    assert b"Traceback" not in done.stderr
    bodies = [text.partition("\n\n")[2] for text in server.received]
    refused = b"holds a secret" in done.stderr
    assert refused or any("[masked:" in body for body in bodies), done.stderr
    server.received = [
        f"{text.partition(chr(10))[0]}\n{body}" for text, body in zip(server.received, bodies, strict=True)
    ]
    stays_home(runs, server)


def test_the_name_of_the_folder_is_masked_on_the_command_line_too(runs: Lab, server: Fake) -> None:
    runs.work = runs.folder / SECRET
    runs.work.mkdir()
    runs.run("memory", "add", "--project", "x", OPENVIKING_URL=server.url)
    assert server.received
    stays_home(runs, server)


@pytest.mark.parametrize("name", ["notes.txt", f"{SECRET}.txt"])
def test_a_file_that_is_taken_in_is_masked(runs: Lab, server: Fake, name: str) -> None:
    (runs.work / "in").mkdir()
    (runs.work / "in" / name).write_text(f"DB_PASSWORD=pl4ntedPw\ntoken {SECRET}\n")
    runs.run("memory", "add", "./in", OPENVIKING_URL=server.url)
    assert "[masked:" in server.text()
    done = runs.run("memory", "add", "./in", "--store", "embedded")
    assert done.returncode == 0, done.stderr
    assert "pl4ntedPw" not in server.text()
    assert [file for file, data in runs.kept().items() if b"pl4ntedPw" in data] == []
    stays_home(runs, server)


def test_what_is_asked_in_a_chat_and_by_the_model_is_masked(runs: Lab, server: Fake) -> None:
    calls = {
        "viking_search": {"query": SECRET, "scope": f"viking://resources/{SECRET}"},
        "viking_read": {"uri": f"viking://resources/{SECRET}"},
        "viking_browse": {"action": "list", "uri": f"viking://resources/{SECRET}"},
        "viking_remember": {"content": f"the token is {SECRET}", "category": "events"},
        "viking_forget": {"query": SECRET},
        "viking_add_resource": {"url": f"https://a.test/{SECRET}", "reason": SECRET},
        "viking_archive_expand": {"archive_id": SECRET},
    }
    lines = [f"CALL: {name} {json.dumps(given)}" for name, given in calls.items()]
    env = {"OPENVIKING_URL": server.url}
    done = runs.run("-p", "\n".join([*lines, f'CALL: viking_forget {{"uri": "viking://resources/{SECRET}"}}']), env=env)
    assert done.returncode == 0, done.stderr
    terminal = Tty(runs, "-c", env=env)
    try:
        terminal.wait("ctx")
        terminal.send(f"/viking search {SECRET}\r")
        terminal.wait("was not searched")
        terminal.send("\x04")
        assert terminal.end() == 0
    finally:
        terminal.close()
    assert server.text().count("/api/v1/search/find") >= 2
    assert "[masked:github:" in server.text()
    stays_home(runs, server)
