from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from attempts import ATTEMPTS, LOOK_ALIKES, tell, traces
from vpi_lab import Lab, lab

URL = os.environ.get("VPI_TEST_OPENVIKING_URL", "")
FOLDER = os.environ.get("VPI_TEST_OPENVIKING_DIR", "")
ASKED = "ghp_zY8xW7vU6tS5rQ4pO3nM2lK1jI0hG9fE8dC7"
TAKEN_IN = "t4kenInPassw0rd"
NOTICED = "unm4skedPassw0rd"

pytestmark = [pytest.mark.live, pytest.mark.skipif(not FOLDER, reason="VPI_TEST_OPENVIKING_DIR names no server's data")]


class Story(NamedTuple):
    """What was told, what the server keeps of it and logs, names included, and what it asked of its model."""

    runs: Lab
    kept: bytes
    asked: bytes


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with lab(tmp_path_factory.mktemp("live")) as runs:
        tell(runs, URL)
        ask_memory(runs)
        runs.config(captureRedact=False)
        for text in (f"DB_PASSWORD={NOTICED}", "codename is BETA", "port is P7072"):
            assert runs.run("-p", "-c", text, OPENVIKING_URL=URL).returncode == 0
        settle()
        yield Story(runs, server_data(), upstream())


def ask_memory(runs: Lab) -> None:
    """Say a secret in every place where a user or a model asks memory for something."""
    (runs.work / "in").mkdir()
    (runs.work / "in" / f"{ASKED}.txt").write_text(f"DB_PASSWORD={TAKEN_IN}\n{ASKED}\n")
    env = {"OPENVIKING_URL": URL}
    for words, code in (
        (("add", f"the token is {ASKED}"), 0),
        (("add", "./in"), 0),
        (("add", f"https://a.test/?key={ASKED}"), 1),
        (("search", ASKED), 0),
        (("search", "--project", f"what opens {ASKED}"), 0),
        (("show", f"viking://resources/{ASKED}"), 1),
        (("forget", f"viking://resources/{ASKED}"), 1),
    ):
        done = runs.run("memory", *words, env=env)
        assert done.returncode == code, (words, done.stderr)
    calls = {
        "viking_search": {"query": ASKED, "scope": f"viking://resources/{ASKED}"},
        "viking_read": {"uri": f"viking://resources/{ASKED}"},
        "viking_browse": {"action": "list", "uri": f"viking://resources/{ASKED}"},
        "viking_remember": {"content": f"the token is {ASKED}", "category": "events"},
        "viking_forget": {"query": ASKED},
        "viking_add_resource": {"url": f"https://a.test/{ASKED}", "reason": ASKED},
    }
    lines = [f"CALL: {name} {json.dumps(given)}" for name, given in calls.items()]
    done = runs.run("-p", "-c", "\n".join(lines), env=env)
    assert done.returncode == 0, done.stderr


def upstream() -> bytes:
    """Everything that the server asked of its own model."""
    model = json.loads((Path(FOLDER) / "server.json").read_text())["model_url"]
    with urllib.request.urlopen(f"{model}/requests", timeout=20) as answer:
        return answer.read()


def settle() -> None:
    """Wait until the server has stopped working on what it was given."""
    size, since, limit = 0, time.monotonic(), time.monotonic() + 60
    while time.monotonic() - since < 2 and time.monotonic() < limit:
        if (now := len(upstream())) != size:
            size, since = now, time.monotonic()
        time.sleep(0.2)


def server_data() -> bytes:
    files = [path for path in Path(FOLDER).rglob("*") if path.is_file()]
    return b"\n".join(part for path in files for part in (str(path).encode(), path.read_bytes()))


def test_the_story_reached_the_server_and_its_model(story: Story) -> None:
    for place in (story.kept, story.asked):
        assert b"[masked:openai:" in place
        assert b"P7071" in place
        assert NOTICED.encode() in place
    said = story.runs.session_text()
    assert '"archiveId":"archive_001"' in said.replace(" ", "")
    assert TAKEN_IN not in said


@pytest.mark.parametrize("name", [*ATTEMPTS, "what was asked of memory", "what was taken in"])
def test_a_planted_secret_is_nowhere_on_the_server(story: Story, name: str) -> None:
    secret = {"what was asked of memory": ASKED, "what was taken in": TAKEN_IN}.get(name) or ATTEMPTS[name].secret
    for trace in traces(secret):
        assert trace not in story.kept, trace
        assert trace not in story.asked, trace


# The server itself takes out of archives what is assigned to a name such as api_key.
@pytest.mark.parametrize("name", [name for name in LOOK_ALIKES if name != "code"])
def test_what_only_looks_like_a_secret_is_there(story: Story, name: str) -> None:
    assert json.dumps(LOOK_ALIKES[name])[1:-1].encode() in story.kept
