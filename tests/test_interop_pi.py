"""Session files travel between vpi and the real pi. Needs node_modules with pi and Node in VPI_TEST_PI."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pi_kit import Lab, running
from session_kit import SAMPLES

from vikingpi.decode import Json, as_dict
from vikingpi.messages import AssistantMessage, Cost, TextPart, ThinkingPart, Usage, user_text
from vikingpi.session.file import SessionLog, create_session, open_session
from vikingpi.session.navigate import add_branch_summary, left_behind, set_label, set_name

MODULES = os.environ.get("VPI_TEST_PI", "")
pytestmark = [pytest.mark.live, pytest.mark.skipif(not MODULES, reason="VPI_TEST_PI names no node_modules with pi")]
STATUS = "/128k"
NEXT = "and what comes next?"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), Path(MODULES)) as made:
        yield made


def said_by_vpi(lab: Lab, name: str, *prompts: str, config: Json | None = None, store: str = "off") -> Path:
    """Let vpi hold a conversation in a session of this id, one process per prompt."""
    folder = lab.folder / "sessions" / name
    for prompt in prompts:
        lab.vpi("--store", store, "--session-dir", str(folder), "--session-id", name, "-p", prompt, config=config)
    (path,) = folder.glob("*.jsonl")
    return path


def text(lab: Lab) -> Path:
    return said_by_vpi(lab, "text", "The codename is ZED1.", "Which codename?")


def tools(lab: Lab) -> Path:
    return said_by_vpi(lab, "tools", "RUN: echo one\nRUN: exit 3", 'CALL: read {"path": "nowhere"}')


def aborted(lab: Lab) -> Path:
    folder = lab.folder / "sessions" / "aborted"
    (lab.project / "began").unlink(missing_ok=True)
    lab.vpi_killed("--session-dir", str(folder), "-p", "RUN: touch began; sleep 30", after="began")
    (path,) = folder.glob("*.jsonl")
    return path


def failed(lab: Lab) -> Path:
    return said_by_vpi(lab, "failed", "The port is 7070.", "FAIL: 400 x9")


def retried(lab: Lab) -> Path:
    return said_by_vpi(lab, "retried", "FAIL: 503 x1")


def compacted(lab: Lab) -> Path:
    config: Json = {"compaction": {"keepRecentTokens": 300, "reserveTokens": 125_000}}
    return said_by_vpi(
        lab, "compacted", "The codename is ZED1. BIG: 9000", "BIG: 6000", "Which codename?", config=config
    )


def covered(lab: Lab) -> Path:
    config: Json = {"takeover": {"tokenThreshold": 30, "keepRecentTurns": 1, "wait": "overview", "overviewPollMs": 10}}
    prompts = ("The codename is ZED1.", "The port is 7070.", "The day is Monday.")
    return said_by_vpi(lab, "covered", *prompts, config=config, store="embedded")


def by_hand(lab: Lab, name: str) -> SessionLog:
    log = create_session(lab.folder / "sessions" / name, str(lab.project), lab.folder / "locks")
    log.append("model_change", {"provider": "mine", "modelId": "m1"})
    log.append("thinking_level_change", {"thinkingLevel": "low"})
    return log


def answer(*parts: TextPart | ThinkingPart) -> AssistantMessage:
    return AssistantMessage(parts, "openai-completions", "mine", "m1", Usage(10, 2, cost=Cost(0.1, 0.2)), "stop", 5)


def thinking(lab: Lab) -> Path:
    log = by_hand(lab, "thinking")
    log.append_message(user_text("think", 1))
    log.append_message(answer(ThinkingPart("hmm, \U0001f600", "reasoning_content"), TextPart("thought")))
    log.close()
    assert log.path is not None
    return log.path


def branched(lab: Lab) -> Path:
    log = by_hand(lab, "branched")
    first = log.append_message(user_text("one", 1))
    reply = log.append_message(answer(TextPart("answer one")))
    log.append_message(user_text("two", 1))
    log.append_message(answer(TextPart("answer two")))
    left = left_behind(log, reply.id)
    log.move_leaf(reply.id)
    add_branch_summary(log, left, "two was tried", {})
    set_label(log, first.id, "start")
    set_name(log, "branches")
    for excluded in (False, True):
        shell: Json = {"role": "bashExecution", "command": "ls", "output": "a\nb\n", "exitCode": 2 if excluded else 0}
        flags: Json = {"cancelled": False, "truncated": False, "excludeFromContext": excluded, "timestamp": 1}
        log.append("message", {"message": {**shell, **flags}})
    log.append_message(user_text("three \u2028 \U0001f600", 1))
    log.append_message(answer(TextPart("answer three")))
    log.close()
    assert log.path is not None
    return log.path


KINDS: tuple[Callable[[Lab], Path], ...] = (
    text,
    tools,
    aborted,
    failed,
    retried,
    compacted,
    covered,
    thinking,
    branched,
)


def both_send_the_same(lab: Lab, written: Path, name: str) -> None:
    """Each program goes on with a copy; the two lists of messages are equal and the old bytes stay."""
    for_pi, for_vpi = lab.file(f"{name}-pi"), lab.file(f"{name}-vpi")
    before = written.read_bytes()
    for copy in (for_pi, for_vpi):
        copy.write_bytes(before)
    pis = lab.sent(lambda: lab.pi("--session", str(for_pi), "-p", NEXT))
    ours = lab.sent(lambda: lab.vpi("--session", str(for_vpi), "-p", NEXT))
    assert ours == pis
    assert for_vpi.read_bytes().startswith(before)
    assert ours[-1]["text"] == NEXT


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_pi_goes_on_with_what_vpi_wrote(lab: Lab, kind: Callable[[Lab], Path]) -> None:
    written = kind(lab)
    both_send_the_same(lab, written, kind.__name__)
    assert lab.file(f"{kind.__name__}-pi").read_bytes().startswith(written.read_bytes())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_vpi_goes_on_with_what_pi_wrote(lab: Lab, sample: Path) -> None:
    header, rest = sample.read_bytes().split(b"\n", 1)
    moved = {**as_dict(json.loads(header)), "cwd": str(lab.project)}
    written = lab.file(sample.stem)
    written.write_bytes(json.dumps(moved).encode() + b"\n" + rest)
    both_send_the_same(lab, written, sample.stem)


def test_the_two_take_turns_on_one_file(lab: Lab) -> None:
    path = said_by_vpi(lab, "turns", "The codename is ZED1.")
    for number in range(2):
        for program in (lab.pi, lab.vpi):
            before = path.read_bytes()
            done = program("--session", str(path), "-p", f"RUN: echo {number}")
            assert (done.code, done.err) == (0, "")
            assert path.read_bytes().startswith(before)
    log = open_session(path, lab.folder / "locks")
    log.close()
    ids = [entry.id for entry in log.entries]
    assert log.notices == ()
    assert len(ids) == len(set(ids))
    assert [entry.id for entry in log.entries if entry.parent_id is None] == ids[:1]
    assert [entry.id for entry in log.branch()] == ids


def test_each_finds_the_newest_session_of_the_other(lab: Lab) -> None:
    done = lab.pi("-p", "The codename is PIFIRST.")
    assert done.code == 0, done.err
    (folder,) = lab.pi_sessions.iterdir()
    sent = lab.sent(lambda: lab.vpi("--session-dir", str(folder), "-c", "-p", "go on, vpi"))
    assert sent[0]["text"] == "The codename is PIFIRST."
    sent = lab.sent(lambda: lab.pi("-c", "-p", "go on, pi"))
    assert [one["text"] for one in sent if one["role"] == "user"][1:] == ["go on, vpi", "go on, pi"]


def test_the_terminal_program_of_pi_shows_what_vpi_wrote(lab: Lab) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux")
    files = sorted((lab.folder / "sessions").glob("*/*.jsonl"))
    assert files
    env = {**lab.pi_env(), "TMUX_TMPDIR": str(lab.folder)}
    tmux = ["tmux", "-L", "interop", "-f", "/dev/null"]
    try:
        for number, path in enumerate(files):
            new = ["new-session", "-d", "-s", f"s{number}", "-x", "150", "-y", "40", "-c", str(lab.project)]
            command = [*lab.pi_command(), "--tui-mode", "regular", "--session", str(path)]
            subprocess.run([*tmux, *new, *command], env=env, check=True, timeout=20)
        pages = [_page(tmux, env, number) for number in range(len(files))]
        for path, page in zip(files, pages, strict=True):
            assert STATUS in page, f"pi shows no status for {path.name}: {page}"
            assert "TypeError" not in page, path.name
    finally:
        subprocess.run([*tmux, "kill-server"], env=env, check=False, timeout=20)


def _page(tmux: list[str], env: dict[str, str], number: int) -> str:
    """Give what a terminal shows as soon as the status line is there."""
    capture = [*tmux, "capture-pane", "-p", "-t", f"s{number}"]
    until = time.monotonic() + 20
    while True:
        page = subprocess.run(capture, env=env, capture_output=True, text=True, check=False).stdout
        if STATUS in page or time.monotonic() > until:
            return page
        time.sleep(0.2)
