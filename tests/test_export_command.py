import io
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from export_kit import Page, every_kind, log_of, page, state
from session_kit import HEADER, SAMPLES, answer, entry, parsed, session_file, user
from test_commands_choices import FakeChooser, call, play
from vpi_lab import MODEL_KEY, Lab, Tty, lab

from vikingpi.app.app import App
from vikingpi.app.export import run_export
from vikingpi.app.options import RunOptions
from vikingpi.decode import Json
from vikingpi.errors import ConfigError, SessionError, VpiError
from vikingpi.takeover.state import fingerprint, view
from vikingpi.viking.ledger import CommitRow, open_ledger

SECRET = "sk-ant-api03-AbCdEf123456-789_xyzABCD"


class Result:
    """What came of `vpi --export`: what it wrote to its two streams."""

    def __init__(self, folder: Path, *words: str, config: Json | None = None) -> None:
        home = folder / "home"
        home.mkdir(exist_ok=True)
        (home / "config.json").write_text(json.dumps(config or {}))
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        out, err = io.StringIO(), io.StringIO()
        env = {"VPI_HOME": str(home), "HOME": str(folder), "PATH": "/usr/bin:/bin", "MY_API_TOKEN": "correct-horse-42"}
        options = RunOptions(words=words[1:], export=words[0])
        assert run_export(options, env, self.work, out, err) == 0
        self.path = Path(out.getvalue().removesuffix("\n"))
        self.err = err.getvalue()


def text_in(path: Path) -> str:
    return Page(path.read_text()).text


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_session_is_exported_beside_where_one_works_and_never_overwritten(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("01", None, f"key {SECRET} and correct-horse-42"), answer("02", "01"))
    before = path.read_bytes()
    first, second = Result(tmp_path, str(path)), Result(tmp_path, str(path))
    assert first.path == first.work / f"vpi-session-{path.stem}.html"
    assert second.path == first.work / f"vpi-session-{path.stem}-2.html"
    assert mode(first.path) == 0o600
    shown = Page(first.path.read_text())
    assert SECRET not in shown.html
    assert "correct-horse-42" not in shown.html
    assert first.err == "secrets masked in it: 2\n"
    assert path.read_bytes() == before


def test_the_mask_is_the_one_of_the_data_folder_and_can_be_turned_off(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("01", None, SECRET), answer("02", "01", f"{SECRET} progression"))
    first, second = Result(tmp_path, str(path)), Result(tmp_path, str(path))
    assert first.path.read_text().partition("Transcript")[2] == second.path.read_text().partition("Transcript")[2]
    bare = Result(tmp_path, str(path), "bare.html", config={"captureRedact": False})
    assert SECRET in bare.path.read_text()
    assert "captureRedact is false" in bare.err
    assert "captureRedact is false" in Page(bare.path.read_text()).text
    ruled = Result(tmp_path, str(path), "ruled.html", config={"redact": {"rules": ["prog[a-z]+ssion"]}})
    assert "[masked:rule:" in ruled.path.read_text()


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        (("nosuch",), SessionError, "no session nosuch"),
        (("nosuch.jsonl",), SessionError, "does not exist"),
        (("{text}",), SessionError, "is not a session file"),
        (("{session}", "there.html"), SessionError, "exists already"),
        (("{session}", "/dev/null"), SessionError, "exists already"),
        (("{session}", "missing/x.html"), SessionError, "cannot write"),
        (("{session}", "~nobody-is-called-so/x.html"), SessionError, "cannot be a file"),
        (("{session}", "a" * 300), SessionError, "cannot be a file"),
        (("{session}", "nul\0.html"), SessionError, "cannot be a file"),
        (("{session}", "one.html", "two.html"), ConfigError, "one file"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    tmp_path: Path, words: tuple[str, ...], error: type[VpiError], says: str
) -> None:
    path = session_file(tmp_path, user("01", None))
    (tmp_path / "text.txt").write_text("no session\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "there.html").write_text("mine")
    given = [word.format(session=path, text=tmp_path / "text.txt") for word in words]
    with pytest.raises(error, match=says) as caught:
        Result(tmp_path, *given)
    assert caught.value.hint
    assert [(file.name, file.read_text()) for file in (tmp_path / "work").iterdir()] == [("there.html", "mine")]


def test_an_open_commit_is_found_in_the_ledger_which_stays_as_it_is(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("01", None), answer("02", "01"), user("03", "02"), answer("04", "03"))
    (tmp_path / "home").mkdir()
    outbox = tmp_path / "home" / "outbox.db"
    ledger = open_ledger(outbox)
    store = ledger.stores.get("someone")
    for session in (str(HEADER["id"]), "another-session"):
        generation = ledger.generations.open(store.id, f"pi-{session}", session, "", 0)
        ledger.commits.begin(generation.id, CommitRow("02", 1, 0, 10, 1000, None, 0, "", ""))
    ledger.database.close()
    before = outbox.read_bytes()
    assert text_in(Result(tmp_path, str(path)).path).count("A commit of the first user turn is open") == 1
    assert outbox.read_bytes() == before
    outbox.write_bytes(b"no database at all" * 100)
    assert "A commit of" not in text_in(Result(tmp_path, str(path)).path)


def test_a_folder_takes_the_page_and_a_link_is_not_written_through(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("01", None))
    (tmp_path / "pages").mkdir()
    assert Result(tmp_path, str(path), str(tmp_path / "pages")).path.parent == tmp_path / "pages"
    (tmp_path / "link.html").symlink_to(tmp_path / "elsewhere.html")
    with pytest.raises(SessionError, match="exists already"):
        Result(tmp_path, str(path), str(tmp_path / "link.html"))
    assert not (tmp_path / "elsewhere.html").exists()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_branch_is_copied_as_a_session_file(tmp_path: Path, sample: Path) -> None:
    copied = Result(tmp_path, str(sample), "copy.jsonl").path
    before, after = log_of(sample), log_of(copied)
    kept = [one for one in before.branch() if one.type != "label"]
    assert [one.id for one in after.branch()][: len(kept)] == [one.id for one in kept]
    assert [one.raw.get("message") for one in after.branch()][: len(kept)] == [one.raw.get("message") for one in kept]
    assert [one.parent_id for one in after.entries] == [None, *(one.id for one in after.entries)][:-1]
    assert (after.id, after.cwd, after.known.name) == (before.id, before.cwd, before.known.name)
    assert mode(copied) == 0o600
    assert page(copied).text.count("User turn") == page(sample).text.partition("Other branches")[0].count("User turn")


def test_a_copied_branch_is_masked_keeps_labels_and_the_boundary(tmp_path: Path) -> None:
    entries = [user("01", None, "one"), answer("02", "01", f"the key is {SECRET}")]
    log = log_of(session_file(tmp_path, *entries))
    entries.append(state("03", "02", "02", fingerprint=fingerprint(log.entries[1])))
    entries += [user("04", "03", "two"), answer("05", "04"), user("06", "01", "elsewhere")]
    entries += [entry("label", "07", "06", targetId="02", label="look"), answer("08", "04", "two again")]
    path = session_file(tmp_path, *entries)
    copied = log_of(Result(tmp_path, str(path), "copy.jsonl").path)
    assert SECRET not in json.dumps([one.raw for one in copied.entries])
    assert [one.id for one in copied.entries[:5]] == ["01", "02", "03", "04", "08"]
    assert copied.entries[5].raw["targetId"] == "02"
    shown = view(copied.branch())
    assert (shown.covered, shown.reset) == (1, "")
    assert parsed(path)[0] == HEADER


def test_export_in_the_chat_asks_before_it_overwrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def work(app: App) -> None:
        await app.submit("a prompt of mine")
        told = await call(app, "export")
        made = Path(told.split("`")[1])
        assert made.name.startswith("vpi-session-")
        assert "a prompt of mine" in text_in(made)
        assert mode(made) == 0o600
        other = tmp_path / "my page.html"
        other.write_text("mine")
        other.chmod(0o644)
        with pytest.raises(SessionError, match="exists already"):
            await call(app, "export", "my page.html")
        app.chooser = FakeChooser("no", None, "yes")
        assert "Nothing was written" in await call(app, "export", '"my page.html"')
        assert "Nothing was written" in await call(app, "export", "my page.html")
        assert other.read_text() == "mine"
        assert "Written to" in await call(app, "export", "my page.html")
        assert "a prompt of mine" in other.read_text()
        assert mode(other) == 0o600
        with pytest.raises(SessionError, match="is not a file"):
            await call(app, "export", "/dev/null")
        assert "Written to" in await call(app, "export", "~/branch.jsonl")

    monkeypatch.setenv("HOME", str(tmp_path))
    play(tmp_path, work)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert log_of(tmp_path / "branch.jsonl").branch()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path) as made:
        yield made


def test_the_program_exports_what_it_has_made(runs: Lab) -> None:
    runs.umask = 0
    runs.config()
    for words in (("-p", f"SAY: I know {MODEL_KEY}"), ("-c", "-p", "and now?"), ("-c", "-p", "and then?")):
        assert runs.run(*words).returncode == 0
    session = runs.entries()[-1]
    done = runs.run("--export", next((runs.home / "sessions").rglob("*.jsonl")).stem.partition("_")[2], "page.html")
    assert (done.returncode, done.stdout) == (0, f"{runs.work / 'page.html'}\n".encode())
    shown = Page((runs.work / "page.html").read_text())
    assert "now part of the overview" in shown.text
    assert MODEL_KEY not in shown.html
    assert mode(runs.work / "page.html") == 0o600
    assert runs.entries()[-1] == session
    again = runs.run("--export", "nosuch")
    assert (again.returncode, again.stdout) == (2, b"")
    assert b"hint: " in again.stderr


def test_the_chat_exports(runs: Lab) -> None:
    terminal = Tty(runs, "--store", "off", columns=200)
    try:
        terminal.wait("scripted")
        terminal.send("SAY: hello there\r")
        terminal.wait("hello there")
        terminal.send("/export here.html\r")
        terminal.wait("Written to")
        terminal.send("/quit\r")
        assert terminal.end() == 0
    finally:
        terminal.close()
    assert "hello there" in Page((runs.work / "here.html").read_text()).text


def test_every_kind_of_entry_survives_the_copy(tmp_path: Path) -> None:
    copied = log_of(Result(tmp_path, str(session_file(tmp_path, *every_kind())), "copy.jsonl").path)
    assert len(copied.branch()) == len(every_kind()) - 2
