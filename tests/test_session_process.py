"""Sessions over several real processes: damage, a second writer, another model, texts that break line readers."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from llm_server import Peer, serving
from patience import PATIENCE, eventually
from session_kit import HEADER, answer, lines, user
from vpi_lab import Lab, lab

from vikingpi.app.options import RunOptions
from vikingpi.app.sessions import open_chosen, session_folder
from vikingpi.config.paths import Paths
from vikingpi.errors import ConfigError

OFF = ("--store", "off")


def session_of(made: Lab) -> Path:
    (path,) = (made.home / "sessions").rglob("*.jsonl")
    return path


def texts(body: dict[str, Any]) -> list[str]:
    """The texts of a request's messages, without the system's."""
    return [text_in(message["content"]) for message in body["messages"] if message["role"] != "system"]


def text_in(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def both_models(made: Lab, *ids: str) -> None:
    made.models(made.model_url, models=[{"id": id, "contextWindow": 128000, "maxTokens": 4096} for id in ids])


def test_the_model_of_a_resumed_session_is_that_of_the_flag_then_its_own_then_the_default(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        both_models(made, "scripted", "other")
        assert made.run(*OFF, "--model", "local/other", "-p", "SAY: one").stderr == b""
        made.write("config.json", {"defaultModel": "local/scripted"})
        assert made.run(*OFF, "-c", "-p", "SAY: two").stderr == b""
        changed = made.run(*OFF, "-c", "--model", "local/scripted", "-p", "SAY: three").stderr
        assert changed == b"the session used local/other; now local/scripted\n"
        assert [body["model"] for body in made.requests()] == ["other", "other", "scripted"]


def test_a_session_whose_model_is_gone_says_so_and_goes_on_with_another(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        made.run(*OFF, "-p", "SAY: one")
        entry = {
            "baseUrl": f"{made.model_url}/v1",
            "api": "openai-completions",
            "apiKey": "k",
            "models": [{"id": "new"}],
        }
        made.write("models.json", {"providers": {"elsewhere": entry}})
        done = made.run(*OFF, "-c", "-p", "SAY: two")
        assert (done.returncode, done.stdout) == (0, b"two\n")
        assert done.stderr == b"the session's model local/scripted is not available, using elsewhere/new\n"


def test_a_command_is_told_which_session_it_is_run_for(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        made.run(*OFF, "-p", 'RUN: echo "$VPI_SESSION_ID $VPI_SESSION_FILE"\nSAY: done')
        path = session_of(made)
        header = json.loads(path.read_text().splitlines()[0])
        assert texts(made.requests()[-1])[2] == f"{header['id']} {path}\n"
        made.run(*OFF, "--no-session", "-p", 'RUN: echo "[$VPI_SESSION_FILE]"')
        assert texts(made.requests()[-1])[2] == "[]\n"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "flags", [["-c"], ["--session", "old"], ["--fork", "old"], ["--session-id", "old"]], ids=" ".join
)
def test_a_session_of_an_old_version_goes_on_with_all_of_it(tmp_path: Path, version: int, flags: list[str]) -> None:
    talk = [
        user("u1", None, "first"),
        answer("a1", "u1", "said"),
        user("u2", "a1", "second"),
        answer("a2", "u2", "more"),
    ]
    if version == 1:
        for value in talk:
            del value["id"], value["parentId"]
    header = {**HEADER, "id": "old", "cwd": str(tmp_path / "work"), "version": version}
    if version == 1:
        del header["version"]
    with lab(tmp_path) as made:
        made.run(*OFF, "-p", "SAY: for the folder")
        path = session_of(made).with_name("2025-01-01T00-00-00-000Z_old.jsonl")
        session_of(made).unlink()
        path.write_bytes(lines(header, *talk))
        before = path.read_bytes()
        done = made.run(*OFF, *flags, "--model", "local/scripted", "-p", "SAY: again")
        assert (done.returncode, done.stdout) == (0, b"again\n")
        assert texts(made.requests()[-1]) == ["first", "said", "second", "more", "SAY: again"]
        assert path.read_bytes().startswith(before)
        assert (path.read_bytes() == before) == (flags[0] == "--fork")


def test_a_second_process_gets_a_session_of_its_own_and_says_so(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        made.run(*OFF, "-p", "SAY: one")
        path = session_of(made)
        holder = made.start(*OFF, "-c", "-p", "STALL: 100 SAY: never")
        try:
            assert eventually(lambda: len(made.requests()) == 2)
            refused = made.run(*OFF, "--session", str(path), "-p", "x")
            forked = made.run(*OFF, "-c", "-p", "SAY: mine")
        finally:
            holder.terminate()
            holder.communicate(timeout=PATIENCE)
        assert refused.returncode == 2 and str(holder.pid).encode() in refused.stderr
        assert (forked.returncode, forked.stdout) == (0, b"mine\n") and forked.stderr
        (other,) = set((made.home / "sessions").rglob("*.jsonl")) - {path}
        assert json.loads(other.read_text().splitlines()[0])["parentSession"] == str(path)
        again = made.run(*OFF, "--session", str(path), "-p", "SAY: free again")
        assert (again.returncode, again.stderr) == (0, b"")


def test_a_fork_may_be_given_an_id_that_is_free(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        made.run(*OFF, "-p", "SAY: one", "--session-id", "first")
        done = made.run(*OFF, "--fork", "first", "--session-id", "my.copy", "-p", "SAY: two")
        assert (done.returncode, done.stdout) == (0, b"two\n")
        assert texts(made.requests()[-1]) == ["SAY: one", "one", "SAY: two"]
        (copy,) = (made.home / "sessions").rglob("*_my.copy.jsonl")
        assert json.loads(copy.read_text().splitlines()[0])["parentSession"].endswith("_first.jsonl")
        taken = made.run(*OFF, "--fork", "first", "--session-id", "my.copy", "-p", "x")
        assert taken.returncode == 2 and taken.stderr.startswith(b"error: there is a session my.copy already\n")


WISHES: dict[str, dict[str, Any]] = {
    "--no-session": {"no_session": True},
    "--session": {"session": "x"},
    "--fork": {"fork": "x"},
    "--continue": {"continue_session": True},
    "--resume": {"resume": True},
    "--session-id": {"session_id": "x"},
}
PAIRS = [pair for pair in combinations(WISHES, 2) if set(pair) != {"--fork", "--session-id"}]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids="+".join)
def test_two_sessions_at_once_are_refused(tmp_path: Path, one: str, other: str) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    options = RunOptions(**WISHES[one], **WISHES[other])
    with pytest.raises(ConfigError, match=f"^{one} and {other} cannot go together$"):
        open_chosen(options, session_folder("", paths, tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "cwd",
    ["/nowhere", "x" * 300, "a\0b", "\ud83d", "/dev/null", ""],
    ids=["gone", "long", "nul", "half", "file", "none"],
)
def test_a_session_whose_folder_cannot_be_used_is_opened_here(tmp_path: Path, cwd: str) -> None:
    folder = session_folder("", Paths(tmp_path, tmp_path, tmp_path), tmp_path)
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines(HEADER | {"cwd": cwd}, user("u1", None)))
    opened = open_chosen(RunOptions(session=str(path)), folder)
    opened.session.close()
    if cwd:
        assert opened.cwd is None and opened.notices[0].endswith(f"is gone; working in {tmp_path}")
    else:
        assert opened.cwd == tmp_path and not opened.notices


@pytest.mark.parametrize("path", ["2026-11-30T09-50-49-583Z_abc_abc.jsonl", "2026-11-30T09-50-49-583Z_abcd.jsonl"])
def test_a_session_id_is_that_whole_id_and_no_other(tmp_path: Path, path: str) -> None:
    folder = session_folder(str(tmp_path / "sessions"), Paths(tmp_path, tmp_path, tmp_path), tmp_path)
    folder.path.mkdir()
    (folder.path / path).write_bytes(lines(HEADER | {"id": path.partition("_")[2].removesuffix(".jsonl")}))
    (folder.path / "notes.jsonl").write_bytes(lines(HEADER | {"id": "renamed"}, user("u1", None)))
    begun = open_chosen(RunOptions(session_id="abc"), folder)
    begun.session.close()
    assert (begun.reason, begun.session.id) == ("startup", "abc")
    found = open_chosen(RunOptions(session_id="renamed"), folder)
    found.session.close()
    assert (found.reason, found.session.path) == ("resume", folder.path / "notes.jsonl")


@pytest.mark.parametrize("damage", ["torn", "nul inside", "nul behind"])
def test_a_damaged_file_goes_on_with_every_whole_line(tmp_path: Path, damage: str) -> None:
    with lab(tmp_path) as made:
        made.run(*OFF, "-p", *(f"SAY: answer {number}" for number in range(3)))
        path = session_of(made)
        data = path.read_bytes()
        lines = data.splitlines(keepends=True)
        path.write_bytes(
            {
                "torn": data[:-40],
                "nul inside": b"".join([*lines[:-2], b"\0" * 512 + b"\n", *lines[-2:]]),
                "nul behind": data + b"\0" * 1728,
            }[damage]
        )
        done = made.run(*OFF, "-c", "-p", "SAY: again")
        assert (done.returncode, done.stdout) == (0, b"again\n")
        sent = texts(made.requests()[-1])
        assert sent[:4] == ["SAY: answer 0", "answer 0", "SAY: answer 1", "answer 1"]
        assert sent[-1] == "SAY: again" and ("answer 2" in sent) == (damage != "torn")
        behind = path.read_bytes()[len(data) - 40 :].split(b"\n")[1:]
        assert all(json.loads(line) for line in behind if line.strip(b"\0"))


def test_separators_inside_a_text_come_back_exactly(tmp_path: Path) -> None:
    said = "a\u2028b\u0085c\x0bd\x0ce\x1cf\x1dg"
    with lab(tmp_path) as made:
        (made.work / "odd.txt").write_text(said)
        made.run(*OFF, "-p", f"{said}\nRUN: cat odd.txt\nSAY: {said}")
        made.run(*OFF, "-c", "-p", "SAY: again")
        sent = texts(made.requests()[-1])
    assert sent[0].startswith(said) and sent[2:4] == [said, said]


def test_half_a_character_of_the_model_breaks_nothing(tmp_path: Path) -> None:
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"x\\ud83d"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

    def handle(peer: Peer) -> None:
        while peer.request() is not None:
            peer.answer(200, piece, "content-type: text/event-stream\r\n")

    with lab(tmp_path) as made, serving(handle) as server:
        made.models(server.url)
        for words in (["-p", "hi"], ["-c", "-p", "again"]):
            done = made.run(*OFF, *words)
            assert (done.returncode, done.stdout, done.stderr) == (0, "x\ufffd\n".encode(), b"")
        assert texts(json.loads(server.seen[-1].body)) == ["hi", "x\ufffd", "again"]


def test_a_summary_that_says_nothing_does_not_hold_a_resumed_session_up(tmp_path: Path) -> None:
    def handle(peer: Peer) -> None:
        while (seen := peer.request()) is not None:
            body = json.loads(seen.body)
            text = "" if "tools" not in body else "answer " * 2000
            delta = json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]})
            peer.answer(200, f"data: {delta}\n\ndata: [DONE]\n\n".encode(), "content-type: text/event-stream\r\n")

    with lab(tmp_path) as made, serving(handle) as server:
        made.models(server.url, models=[{"id": "scripted", "contextWindow": 8000, "maxTokens": 2000}])
        made.write("config.json", {"compaction": {"reserveTokens": 2000, "keepRecentTokens": 500}})
        made.run(*OFF, "-p", "one")
        done = made.run(*OFF, "-c", "-p", "two")
    assert done.returncode == 0 and done.stdout.startswith(b"answer answer")
    assert b"not compacted: The summary failed: it is empty" in done.stderr
