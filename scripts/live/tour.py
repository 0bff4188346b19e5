#!/usr/bin/env python3
"""A conversation of 60 user turns in a real tmux, with the embedded store and the scripted model.

    python scripts/live/tour.py [FOLDER]

Every screen is kept as a file of FOLDER/screens (a new folder below the temporary one, if none is given). Checked are
that each turn's answer comes, that every screen is whole (one editor, one status bar, no traceback, no debris of
escape sequences), that takeover says what it replaced, and that a resumed chat shows the end and knows the beginning.
The exit code is 1 when something is missing.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import model_server
from tmux_screen import Tmux

PROJECT = Path(__file__).resolve().parent.parent.parent
VPI = [sys.executable, "-m", "vikingpi"]
TURNS = 60
VALUES = 31
TAKEOVER = {"tokenThreshold": 300, "keepRecentTurns": 3, "overviewPollMs": 100}
COLOURS = "\x1b[31mred\x1b[0m \x1b]0;title\x07and \x1b[2Jplain\n"
_BROKEN = re.compile(r"Traceback|\x1b|\^\[|\[\?\d+[hl]|\[\d*(?:;\d+)*m")
_ANSWERING = 0.9


class Tour:
    """Types, looks and keeps what it sees. `turns` counts what the model was told."""

    def __init__(self, tmux: Tmux, folder: Path) -> None:
        self.tmux = tmux
        self.turns = 0
        self._screens = folder
        self._count = 0

    def look(self, label: str, *, chat: bool = True) -> None:
        """Keep the screen once it is whole; `chat` tells whether the editor and the status bar are there."""
        self._count += 1
        name = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:40]
        try:
            self.tmux.wait("a whole screen", lambda: is_whole(self.tmux.screen(), chat=chat))
        finally:
            (self._screens / f"{self._count:03}-{name}.txt").write_text(self.tmux.screen())

    def send(self, text: str) -> None:
        """Send a prompt without waiting for its answer."""
        self.tmux.type(text)
        self.tmux.keys("Enter")
        self.turns += 1

    def turn(self, text: str, answer: str = "Noted.") -> None:
        """Send a prompt and see its answer."""
        self.send(text)
        self.answered(text, answer)

    def answered(self, text: str, answer: str) -> None:
        """Wait until nothing runs any more and a line after a prompt begins with its answer."""
        self.tmux.wait(f"the answer {answer!r} to {text!r}", lambda: self._idle() and answer in self._after(text))
        self.look(text)

    def command(self, text: str, shown: str, *, chat: bool = True) -> None:
        """Run a command and see what it shows."""
        self.tmux.type(text)
        self.tmux.keys("Enter")
        self.see(shown, text, chat=chat)

    def press(self, *keys: str, shown: str, label: str, chat: bool = True) -> None:
        self.tmux.keys(*keys)
        self.see(shown, label, chat=chat)

    def see(self, shown: str, label: str, *, chat: bool = True) -> None:
        """Wait for a text on the screen."""
        self.tmux.wait(repr(shown), lambda: shown in self.tmux.screen())
        self.look(label, chat=chat)

    def _idle(self) -> bool:
        return "esc aborts" not in self.tmux.screen()

    def _after(self, text: str) -> str:
        everything = self.tmux.everything()
        return everything[everything.rfind(f"\n> {text.splitlines()[0][:30]}") :]


def is_whole(screen: str, *, chat: bool) -> bool:
    """Tell whether a screen has nothing broken on it and, in the chat, one editor above one status bar."""
    if _BROKEN.search(screen):
        return False
    lines = screen.rstrip().split("\n")
    rules = [line for line in lines if line.startswith("──")]
    bars = [line for line in lines if " mem " in line or line.startswith("mem ")]
    return not chat or (len(rules) == 2 and bars == lines[-1:])


def begin(tour: Tour) -> None:
    """Facts, Markdown, tools."""
    tour.turn("hello")
    tour.turn("The port is 7071. Remember: deploys are on Tuesday")
    tour.turn("SAY: # Title", "Title")
    tour.turn("RUN: ls -la")
    tour.turn("RUN: seq 1 200")
    tour.press("C-o", shown="results are shown in full", label="unfolded")
    tour.press("C-o", shown="results are folded", label="folded")
    tour.turn('CALL: write {"path": "b.py", "content": "import os\\n\\nprint(os.getcwd())\\n"}')
    tour.turn('CALL: edit {"path": "b.py", "edits": [{"oldText": "getcwd", "newText": "getpid"}]}')
    tour.turn('CALL: read {"path": "b.py"}')
    tour.turn("RUN: exit 3")
    tour.turn("RUN: cat colours")


def interrupt(tour: Tour) -> None:
    """Steering, queueing, aborting, failures."""
    tour.send("SLOW: 2")
    tour.see("esc aborts", "while it works")
    tour.turn("a steering text")
    tour.send("SLOW: 2 again")
    tour.see("esc aborts", "while it works again")
    tour.tmux.type("a queued text")
    tour.press("M-Enter", shown="follow-up: a queued text", label="queued")
    tour.turns += 1
    tour.answered("a queued text", "Noted.")
    tour.send("RUN: echo begun; sleep 20")
    tour.see("\nbegun", "while a command runs")
    tour.press("Escape", shown="aborted", label="aborted")
    tour.turn("FAIL: 400", "error: local answered 400")
    tour.turn("FAIL: 500 x1")
    tour.turn("漢字 🎉 wide text: 界面 is 漢字")


def ask(tour: Tour) -> None:
    """A question about a call, answered, refused, and a text sent meanwhile."""
    tour.press("M-m", shown="approval ask", label="approval")
    tour.send("RUN: echo needs a yes")
    tour.see("4. no, and say why", "asked about a command", chat=False)
    time.sleep(_ANSWERING)
    tour.tmux.keys("1")
    tour.answered("RUN: echo needs a yes", "Noted.")
    edit = 'CALL: edit {"path": "b.py", "edits": [{"oldText": "import os", "newText": "import os, sys"}]}'
    tour.send(edit)
    tour.see("edit b.py?", "asked about an edit", chat=False)
    tour.tmux.type("say it first")
    tour.press("Enter", shown="steering: say it first", label="sent while asked", chat=False)
    tour.turns += 1
    tour.tmux.keys("Escape")
    tour.answered("say it first", "Noted.")
    for mode in ("edits", "read-only", "off"):
        tour.press("M-m", shown=f"approval {mode}", label=mode)


def edit(tour: Tour) -> None:
    """The user's own commands, completion, pastes, other sizes of the window."""
    tour.command("!echo from the shell", "\nfrom the shell")
    tour.command("!!echo secret", "\nsecret")
    tour.command("!false", "(exit 1)")
    tour.tmux.type("look at @colo")
    tour.see("\n> colours", "completion of a file")
    tour.press("Tab", shown="look at @colours", label="completed")
    tour.tmux.keys("Enter")
    tour.turns += 1
    tour.answered("look at @colours", "Noted.")
    tour.tmux.paste("\n".join(f"pasted line {n}" for n in range(60)))
    tour.see("[paste #1 60 lines]", "a long paste")
    tour.tmux.keys("Enter")
    tour.turns += 1
    tour.answered("pasted line 0", "Noted.")
    for columns, rows in ((60, 30), (40, 20), (120, 40)):
        tour.tmux.resize(columns, rows)
        time.sleep(1)
        tour.look(f"{columns} columns")
        tour.turn(f"SAY: {'word ' * 40}at {columns}", "word word")
    tour.turn("BIG: 3000", "all work and no play")


def choose(tour: Tour) -> None:
    """Commands, menus and lists; no turns."""
    for text, shown in (
        ("/name my tour", "my tour"),
        ("/session", "my tour"),
        ("/viking", "covered"),
        ("/help", "/viking"),
        ("/thinking", "think"),
    ):
        tour.command(text, shown)
    tour.tmux.type("/vi")
    tour.see("/viking", "menu of commands")
    tour.press("Tab", shown="> /viking", label="completed a command")
    tour.press("C-c", shown="──\n>\n──", label="cleared")
    for text, shown in (("/settings", "Settings"), ("/tree", "Session tree"), ("/model", "Model"), ("/fork", "Fork")):
        tour.command(text, shown, chat=False)
        tour.tmux.keys("Escape")
        tour.look(f"left {text}")


def remember(tour: Tour) -> None:
    """Turns that state a value each, and one that asks for an early one; takeover replaces most of them."""
    for number in range(VALUES):
        tour.turn(f"turn {number}: the value{number} is V{number}", f"Noted. value{number} is V{number}.")
    tour.turn("what is value3?", "V3")
    tour.command("/viking overview", "value3 is V3")
    if "now an overview (" not in tour.tmux.everything():
        raise AssertionError(f"takeover said nothing:\n{tour.tmux.everything()[-5000:]}")


def resume(tour: Tour) -> None:
    """Leave, and go on with the same session; the last turn asks for the first fact."""
    tour.tmux.keys("C-d")
    tour.tmux.wait("the end", lambda: "to go on: vpi --session" in tour.tmux.screen())
    tour.tmux("respawn-pane", "-k", *VPI, "-c")
    tour.see("> what is value3?\n\nV3", "resumed")
    tour.turn("what is the port?", "7071")


@contextmanager
def model() -> Generator[str]:
    """Run the scripted model for the block, and give its address."""
    server = model_server.serve(0, None)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def prepare(folder: Path, url: str) -> dict[str, str]:
    """Make the folders of a user with one model, and return their variables."""
    home, work = folder / "home", folder / "work"
    for made in (home, work, folder / "screens"):
        made.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    (work / "colours").write_text(COLOURS)
    models = [{"id": "scripted", "contextWindow": 128000, "maxTokens": 4096}]
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "tour-key", "models": models}
    (home / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
    (home / "config.json").write_text(json.dumps({"store": "embedded", "takeover": TAKEOVER}))
    for name in ("models.json", "config.json"):
        (home / name).chmod(0o600)
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(folder), "VPI_HOME": str(home), "PYTHONPATH": str(PROJECT), "LANG": "C.UTF-8"}


def said(sessions: Path) -> int:
    """Count the user turns in the session files."""
    entries = [json.loads(line) for path in sessions.rglob("*.jsonl") for line in path.read_text().splitlines()]
    return sum(entry.get("message", {}).get("role") == "user" for entry in entries)


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="vpi-tour-")).resolve()
    with model() as url:
        tmux = Tmux(folder, prepare(folder, url))
        tour = Tour(tmux, folder / "screens")
        tmux.open(VPI, folder / "work", 100, 36)
        try:
            tmux("set-option", "-g", "remain-on-exit", "on")
            tour.see("mem", "start")
            for part in (begin, interrupt, ask, edit, choose, remember, resume):
                part(tour)
        except AssertionError as error:
            print(f"tour: {error}\ntour: failed in turn {tour.turns}; the screens are in {folder}/screens")
            return 1
        finally:
            tmux.close()
    turns = said(folder / "home" / "sessions")
    print(f"tour: {turns} user turns, {len(list((folder / 'screens').iterdir()))} screens in {folder}/screens")
    return 0 if turns == tour.turns == TURNS else 1


if __name__ == "__main__":
    sys.exit(main())
