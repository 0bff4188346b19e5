"""Session files travel between vpi and the real pi. Needs node_modules with pi and Node in VPI_TEST_PI."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
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
from vikingpi.session.tree import labels_of, name_of, totals_of

MODULES = os.environ.get("VPI_TEST_PI", "")
pytestmark = [pytest.mark.live, pytest.mark.skipif(not MODULES, reason="VPI_TEST_PI names no node_modules with pi")]
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
STATUS = "/128k"
NEXT = "and what comes next?"
ASKED = ("get_state", "get_session_stats", "get_tree")


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
    began = lab.project / "began"
    lab.vpi_killed("--session-dir", str(folder), "-p", "RUN: touch began; sleep 30", after=began.exists)
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


def thought(lab: Lab) -> Path:
    return said_by_vpi(lab, "thought", "THINK: first this\nRUN: echo one", "THINK: then that\nSAY: done")


def stopped(lab: Lab) -> Path:
    """An abort in the middle of an answer, and a prompt after it."""
    folder = lab.folder / "sessions" / "stopped"
    before = len(lab.requests())

    def half_said() -> bool:
        time.sleep(0.3)
        return len(lab.requests()) > before

    lab.vpi_killed("--session-dir", str(folder), "-p", "SAY: one two three four\nSTALL: 30", after=half_said)
    (path,) = folder.glob("*.jsonl")
    lab.vpi("--session", str(path), "-p", "The port is 7070.")
    return path


def pictured(lab: Lab) -> Path:
    (lab.project / "dot.png").write_bytes(PNG)
    return said_by_vpi(lab, "pictured", "@dot.png", 'CALL: read {"path": "dot.png"}')


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
    thought,
    stopped,
    pictured,
    branched,
)


def both_send_the_same(lab: Lab, written: Path, name: str, *more: str) -> list[Json]:
    """Each program goes on with a copy; the two lists of messages are equal and the old bytes stay."""
    for_pi, for_vpi = lab.file(f"{name}-pi"), lab.file(f"{name}-vpi")
    before = written.read_bytes()
    for copy in (for_pi, for_vpi):
        copy.write_bytes(before)
    pis = lab.sent(lambda: lab.pi(*more, "--session", str(for_pi), "-p", NEXT))
    ours = lab.sent(lambda: lab.vpi(*more, "--session", str(for_vpi), "-p", NEXT))
    assert ours == pis
    assert for_vpi.read_bytes().startswith(before)
    assert ours[-1]["text"] == NEXT
    return ours


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_pi_goes_on_with_what_vpi_wrote(lab: Lab, kind: Callable[[Lab], Path]) -> None:
    written = kind(lab)
    both_send_the_same(lab, written, kind.__name__)
    assert lab.file(f"{kind.__name__}-pi").read_bytes().startswith(written.read_bytes())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_vpi_goes_on_with_what_pi_wrote(lab: Lab, sample: Path) -> None:
    both_send_the_same(lab, moved(lab, sample), sample.stem)


def moved(lab: Lab, sample: Path) -> Path:
    """Copy a session that pi wrote elsewhere into the project's folder."""
    header, rest = sample.read_bytes().split(b"\n", 1)
    written = lab.file(sample.stem)
    written.write_bytes(json.dumps({**as_dict(json.loads(header)), "cwd": str(lab.project)}).encode() + b"\n" + rest)
    return written


CLAUDE = ("--model", "claude/c1", "--thinking", "high")
THOUGHTS = (
    "THINK: first this\nRUN: echo one",
    "THINK: then that\nHIDDEN: c2VjcmV0\nSAY: done",
    'HIDDEN: ZGVlcA==\nRUN: echo two\nCALL: read {"path": "nowhere"}\nTOGETHER',
)


@pytest.mark.parametrize("reader", ["claude", "mine"])
@pytest.mark.parametrize("writer", ["pi", "vpi"])
def test_signed_and_hidden_thoughts_go_back_to_their_model_only(lab: Lab, writer: str, reader: str) -> None:
    name = f"{writer}-thoughts-{reader}"
    written = lab.file(name)
    for prompt in THOUGHTS:
        run = lab.pi if writer == "pi" else lab.vpi
        if writer == "pi" or written.exists():
            done = run(*CLAUDE, "--session", str(written), "-p", prompt)
        else:
            done = run(*CLAUDE, "--session-dir", str(lab.folder / name), "-p", prompt)
            next((lab.folder / name).iterdir()).rename(written)
        assert done.code == 0, done.err
    sent = both_send_the_same(lab, written, name, *(CLAUDE if reader == "claude" else ("--model", "mine/m1")))
    kinds = [block.get("type") for block in sent]
    proofs = [block for block in sent if "signature" in block or "data" in block]
    if reader == "claude":
        assert (kinds.count("thinking"), kinds.count("redacted_thinking")) == (3, 3)
        assert all(block.get("signature") or block.get("data") for block in proofs)
    else:
        assert proofs == [] and "reasoning_content" not in json.dumps(sent)


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


@pytest.mark.parametrize("name", ["branched", "compacted", "tools"])
def test_pi_sees_the_name_the_labels_and_the_totals_that_vpi_sees(lab: Lab, name: str) -> None:
    (path,) = (lab.folder / "sessions" / name).glob("*.jsonl")
    copy = copied(lab, path, "looked-at")
    log = open_session(copy, lab.folder / "looked-at" / "locks")
    log.close()
    asked = "".join(json.dumps({"type": kind}) + "\n" for kind in ASKED)
    told = lab.pi("--mode", "rpc", "--session", str(copy), stdin=asked).out
    answers = [json.loads(line) for line in told.split("\n") if line]
    state, stats, tree = (next(one["data"] for one in answers if one.get("command") == kind) for kind in ASKED)
    totals = totals_of(log.entries)
    assert state.get("sessionName", "") == name_of(log.entries)
    assert (stats["tokens"]["input"], stats["tokens"]["output"]) == (totals.input, totals.output)
    assert stats["cost"] == pytest.approx(totals.cost.total)
    assert sorted(labels_in(tree["tree"])) == sorted(labels_of(log.entries).items())


def labels_in(nodes: list[Json]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if node.get("label"):
            yield node["entry"]["id"], node["label"]
        yield from labels_in(node.get("children", []))


def test_the_terminal_program_of_pi_goes_on_with_what_vpi_wrote(lab: Lab) -> None:
    written = sorted((lab.folder / "sessions").glob("*/*.jsonl"))
    assert len(written) == len(KINDS) + 1
    with Terminals(lab, "interop-pi", lab.pi_env()) as terminals:
        for path in written:
            terminals.open([*lab.pi_command(), "--tui-mode", "regular"], copied(lab, path, "pi-terminal"))
        terminals.all_go_on(STATUS)


def test_the_terminal_program_of_vpi_goes_on_with_what_pi_wrote(lab: Lab) -> None:
    env = {**lab.vpi_env(None), "TERM": "xterm-256color"}
    with Terminals(lab, "interop-vpi", env) as terminals:
        for sample in SAMPLES:
            path = copied(lab, moved(lab, sample), "vpi-terminal")
            terminals.open([sys.executable, "-m", "vikingpi", "--store", "off"], path)
        terminals.all_go_on("%)")


def copied(lab: Lab, path: Path, folder: str) -> Path:
    copy = lab.folder / folder / path.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(path.read_bytes())
    return copy


class Terminals:
    """One terminal per session file, all of one program."""

    def __init__(self, lab: Lab, name: str, env: dict[str, str]) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("there is no tmux")
        self._tmux = ["tmux", "-L", name, "-f", "/dev/null"]
        self._env = {**env, "TMUX_TMPDIR": str(lab.folder)}
        self._folder = str(lab.project)
        self._files: list[Path] = []

    def __enter__(self) -> Terminals:
        return self

    def __exit__(self, *_: object) -> None:
        self._run("kill-server", check=False)

    def open(self, command: list[str], path: Path) -> None:
        name = f"s{len(self._files)}"
        size = ["-x", "150", "-y", "40", "-c", self._folder]
        self._run("new-session", "-d", "-s", name, *size, *command, "--session", str(path))
        self._files.append(path)

    def all_go_on(self, status: str) -> None:
        """Type a prompt into each once `status` is shown, and see it answered, stored and no crash."""
        for number, path in enumerate(self._files):
            page = self._page(number, lambda page: status in page)
            assert status in page, f"no status for {path.name}: {page}"
            self._run("send-keys", "-t", f"s{number}", "-l", NEXT)
            self._run("send-keys", "-t", f"s{number}", "Enter")
        for number, path in enumerate(self._files):
            page = self._page(number, lambda page, path=path: answered(path))
            assert answered(path), f"no answer in {path.name}: {page}"
            assert "TypeError" not in page and "Traceback" not in page, path.name

    def _page(self, number: int, until: Callable[[str], bool]) -> str:
        """Give what a terminal shows as soon as that holds, or after a time."""
        limit = time.monotonic() + 30
        while True:
            page = self._run("capture-pane", "-p", "-t", f"s{number}", check=False)
            if until(page) or time.monotonic() > limit:
                return page
            time.sleep(0.2)

    def _run(self, *args: str, check: bool = True) -> str:
        command = [*self._tmux, *args]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=check, timeout=20)
        return done.stdout


def answered(path: Path) -> bool:
    """Whether the newest message is a whole answer to the prompt that was typed."""
    values = [as_dict(json.loads(line)) for line in path.read_bytes().splitlines() if line.endswith(b"}")]
    said = [as_dict(value.get("message")) for value in values if value.get("type") == "message"]
    said = [message for message in said if message.get("role") in ("user", "assistant")]
    return NEXT in json.dumps(said[-2].get("content")) and said[-1].get("stopReason") == "stop"
