from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from attempts import ATTEMPTS, LOOK_ALIKES, SERVICE, tell, traces
from openviking_fake import Fake, openviking
from vpi_lab import Lab, lab

# What is escaped, or left out of what is shown.
NOT_SAID = {
    "the key inside of base64",
    "invisible characters inside",
    "colours inside",
    "across the beginning of what is shown of a long line",
    "a header across the beginning",
    "in an image",
}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Fake]]:
    with lab(tmp_path_factory.mktemp("store")) as runs, openviking() as server:
        tell(runs, server.url)
        yield runs, server


def test_the_story_was_told_delivered_and_archived(story: tuple[Lab, Fake]) -> None:
    runs, server = story
    said = runs.session_text()
    for name, attempt in ATTEMPTS.items():
        if name not in NOT_SAID:
            assert json.dumps(attempt.secret)[1:-1] in said, name
    archived = json.dumps([session["archives"] for session in server.sessions.values()])
    assert archived.count("tool_output") >= len(ATTEMPTS)
    assert '"customType":"ov-takeover"' in said


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_planted_secret_stays_at_home(story: tuple[Lab, Fake], name: str) -> None:
    runs, server = story
    bodies = "\n".join(text.partition("\n\n")[2] for text in server.received).encode()
    states = [line for line in runs.session_text().split("\n") if '"customType":"ov-takeover"' in line]
    assert states
    for trace in traces(ATTEMPTS[name].secret):
        assert trace not in bodies
        assert [file for file, data in runs.kept().items() if trace in data] == []
        assert trace not in "\n".join(states).encode()


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_only_looks_like_a_secret_is_stored_as_it_was_said(story: tuple[Lab, Fake], name: str) -> None:
    assert json.dumps(LOOK_ALIKES[name])[1:-1] in story[1].text()


def test_one_secret_has_one_mask_in_every_process(story: tuple[Lab, Fake]) -> None:
    runs, server = story
    done = runs.run("-p", "-c", f"again {SERVICE}", OPENVIKING_URL=server.url)
    assert done.returncode == 0, done.stderr
    mask = next(line for line in server.text().split("\\n") if line.startswith("MY_SERVICE_TOKEN=")).partition("=")[2]
    assert mask.startswith("[masked:")
    assert f"again {mask}" in server.text()
