import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vpi_lab import Lab, Tty, lab


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path) as one:
        yield one


def files(runs: Lab) -> dict[str, list[dict[str, Any]]]:
    """The entries of each session file, by its first prompt."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in (runs.home / "sessions").rglob("*.jsonl"):
        entries = [json.loads(line) for line in path.read_text().splitlines()][1:]
        first = next(entry for entry in entries if entry.get("message", {}).get("role") == "user")
        found[first["message"]["content"][0]["text"]] = entries
    return found


def start(runs: Lab, *words: str, ready: str = "mem ", columns: int = 100, rows: int = 30) -> Tty:
    tty = Tty(runs, *words, columns=columns, rows=rows)
    tty.wait(ready)
    tty.read(0.3)
    return tty


def say(tty: Tty, text: str, until: str) -> str:
    tty.send(text)
    tty.read(0.15)
    tty.send("\r")
    return tty.wait(until)


def test_resume_searches_previews_renames_deletes_and_opens(runs: Lab) -> None:
    for name in ("alpha", "beta", "gamma"):
        assert runs.run("-p", f"SAY: about {name}", "--store", "off").returncode == 0
    tty = start(runs, "-r", "--store", "off", ready="Ctrl+D delete")
    try:
        tty.send("beta")
        tty.wait("> SAY: about beta")
        tty.send("\x12")
        tty.wait("new name:")
        tty.send("second\r")
        tty.wait("renamed to second")
        tty.send("\x1b")
        tty.read(0.3)
        tty.send("alpha")
        tty.wait("1/1")
        tty.send("\x04")
        tty.wait("for good?")
        tty.send("n")
        tty.read(0.2)
        assert "SAY: about alpha" in files(runs)
        tty.send("\x04")
        tty.wait("for good?")
        tty.send("y")
        tty.wait("deleted")
        assert sorted(files(runs)) == ["SAY: about beta", "SAY: about gamma"]
        tty.send("\x1b")
        tty.read(0.3)
        tty.send("second\r")
        tty.wait("Session second.")
        say(tty, "SAY: and more", "\nand more")
        tty.send("\x04")
        assert tty.end() == 0
    finally:
        tty.close()
    texts = [entry["message"]["content"][0]["text"] for entry in files(runs)["SAY: about beta"] if "message" in entry]
    assert texts[-2] == "SAY: and more"
    assert b"\x1b[?1049l" in tty.raw


def test_the_tree_labels_and_moves_and_writes_nothing_else(runs: Lab) -> None:
    tty = start(runs)
    try:
        say(tty, "SAY: one", "\none")
        say(tty, "SAY: two", "\ntwo")
        tty.read(0.5)
        say(tty, "/tree", "Session tree (talk)")
        tty.send("\x1b[A")
        tty.send("\x0c")
        tty.wait("label:")
        tty.send("here\r")
        tty.wait("[here]")
        before = len(runs.entries())
        tty.send("\r")
        tty.wait("left behind")
        tty.read(0.9)
        tty.send("\r")
        tty.wait("Your prompt is in the editor")
        tty.read(0.2)
        assert len(runs.entries()) == before
        assert runs.entries()[-1]["label"] == "here"
        tty.send(" again")
        tty.read(0.2)
        tty.send("\r")
        tty.wait("\ntwo again")
        tty.read(0.5)
        tty.send("\x04")
        assert tty.end() == 0
    finally:
        tty.close()
    users = {
        entry["message"]["content"][0]["text"]: entry["parentId"]
        for entry in runs.entries()
        if entry.get("message", {}).get("role") == "user"
    }
    assert list(users) == ["SAY: one", "SAY: two", "SAY: two again"]


def test_a_fork_and_a_model_are_chosen_from_lists(runs: Lab) -> None:
    models = [{"id": name, "contextWindow": 128000, "maxTokens": 4096} for name in ("scripted", "second-model")]
    runs.models(runs.model_url, models=models)
    tty = start(runs, columns=80, rows=16)
    try:
        say(tty, "SAY: one", "\none")
        say(tty, "SAY: two", "\ntwo")
        tty.read(0.3)
        say(tty, "/model", "type to search")
        tty.send("second")
        tty.wait("1/1")
        tty.send("\r")
        tty.wait("local/second-model ·")
        assert runs.entries()[-1]["type"] == "model_change"
        say(tty, "/fork", "Fork before a prompt")
        tty.send("\r")
        tty.wait("A fork: session")
        tty.send(" or three")
        tty.read(0.2)
        tty.send("\r")
        tty.wait("\ntwo or three")
        tty.read(0.5)
        tty.send("\x04")
        assert tty.end() == 0
    finally:
        tty.close()
    texts = [entry["message"]["content"][0]["text"] for entry in runs.entries() if "message" in entry]
    assert texts[::2] == ["SAY: one", "SAY: two or three"]
    answers = [entry["message"]["model"] for entry in runs.entries() if entry.get("message", {}).get("model")]
    assert answers == ["scripted", "second-model"]


def test_words_behind_a_command_with_a_list_are_what_it_searches_for(runs: Lab) -> None:
    for name in ("alpha", "beta"):
        assert runs.run("-p", f"SAY: about {name}", "--store", "off").returncode == 0
    tty = start(runs, "--store", "off", ready="OV -")
    try:
        say(tty, "SAY: first one", "\nfirst one")
        say(tty, "SAY: second one", "\nsecond one")
        for line, title, found in (
            ("/tree second SAY", "Session tree", "> SAY: second one"),
            ("/fork first say", "Fork before", "> SAY: first one"),
            ("/model local scr", "Model", "> local/scripted"),
            ("/resume about beta", "Resume a session", "> SAY: about beta"),
            ("/resume nothing-like-it", "Resume a session", "nothing matches"),
        ):
            screen = say(tty, line, title)
            screen = tty.wait(found)
            assert line.partition(" ")[2] in screen
            tty.send("\x1b")
            tty.read(0.3)
            tty.send("\x1b")
            tty.wait("OV -")
            tty.read(0.3)
        say(tty, "/resume /no/such.jsonl", "session file /no/such.jsonl does not exist")
        say(tty, "/model nonsense", "nonsense")
        say(tty, "/resume about beta", "> SAY: about beta")
        tty.send("\r")
        tty.wait("\nabout beta\n")
        tty.send("\x04")
        assert tty.end() == 0
    finally:
        tty.close()


def test_escape_leaves_a_list_and_everything_is_as_it_was(runs: Lab) -> None:
    tty = start(runs)
    try:
        tty.send("/tree")
        tty.read(0.2)
        tty.send("\r")
        tty.wait("nothing was said yet")
        tty.send("\x1b")
        tty.wait("mem ")
        tty.read(0.2)
        tty.send("still here")
        tty.wait("> still here")
        tty.send("\x03")
        tty.read(0.1)
        tty.send("\x04")
        assert tty.end() == 0
    finally:
        tty.close()


def test_a_signal_ends_the_program_while_a_list_is_open(runs: Lab) -> None:
    tty = start(runs, "-r", ready="no other session here")
    try:
        tty.process.terminate()
        assert tty.end() == 143
    finally:
        tty.close()
    assert tty.raw.rindex(b"\x1b[?1049l") > tty.raw.rindex(b"\x1b[?1049h")


def test_a_choice_without_a_terminal_is_refused(runs: Lab) -> None:
    done = runs.run("-r", "hello")
    assert done.returncode == 2
    assert b"needs a terminal" in done.stderr


def test_a_list_of_sessions_and_the_newest_one_are_not_both_opened(runs: Lab) -> None:
    tty = Tty(runs, "-r", "-c")
    try:
        tty.wait("error: --continue and --resume cannot go together")
        assert tty.end() == 2
    finally:
        tty.close()


def test_a_session_of_another_folder_is_resumed_in_that_folder(runs: Lab) -> None:
    here, there = runs.work, runs.folder / "there"
    there.mkdir()
    runs.work = there
    assert runs.run("-p", "SAY: from there", "--store", "off").returncode == 0
    runs.work = here
    tty = start(runs, "-r", "--store", "off", ready="no other session here", columns=160)
    try:
        tty.send("\t")
        tty.wait("> SAY: from there")
        tty.send("\r")
        tty.wait(f"Commands run in {there} now.")
        say(tty, "!pwd", f"\n{there}\n")
        assert tty.text().rstrip().split("\n")[-1].startswith(f"{there} · ")
    finally:
        tty.close()


def test_a_prompt_that_is_typed_before_the_start_is_sent(runs: Lab) -> None:
    tty = Tty(runs)
    try:
        tty.send("SAY: early bird\r")
        tty.wait("\nearly bird")
    finally:
        tty.close()


def test_several_lines_that_are_typed_before_the_start_wait_in_the_editor(runs: Lab) -> None:
    tty = Tty(runs)
    try:
        tty.send("SAY: one\rSAY: two\rand")
        tty.wait("> SAY: one\n  SAY: two\n  and")
        tty.read(0.5)
        assert "\none" not in tty.text()
    finally:
        tty.close()
