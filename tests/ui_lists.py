"""The lists of the chat over fixed data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from ui_fake import MODEL, FakeApp, text_answer

from vikingpi.app.first_run import FirstRun
from vikingpi.app.options import RunOptions
from vikingpi.app.wiring import prepare
from vikingpi.commands.chooser import Chooser, Option
from vikingpi.commands.controls import Controls
from vikingpi.commands.model import model_choices
from vikingpi.commands.resume import session_choices
from vikingpi.commands.settings import setting_choices
from vikingpi.commands.tree import tree_choices
from vikingpi.config.model import ApprovalMode, Settings, Tools
from vikingpi.llm.base import Model, Price
from vikingpi.llm.catalog import LocalServer
from vikingpi.messages import ToolCall, user_text
from vikingpi.net import HttpTransport
from vikingpi.session import navigate
from vikingpi.session.catalog import SessionInfo
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog, memory_session
from vikingpi.session.navigate import TreeRow

FILE = Path("/home/me/.config/vpi/config.json")
NAMES = ("resume", "tree", "model", "settings", "first")


class Sessions:
    def list(self, *, everywhere: bool) -> tuple[SessionInfo, ...]:
        now = time.time()
        said = (
            (330, "gateway 界面", "why does the gateway drop connections after an hour?", 42),
            (
                7300,
                "",
                "Überblick 🎉 with 漢字 and a first prompt that is too long for one line of forty columns",
                7,
            ),
            (90_000, "", "", 0),
        )
        return tuple(
            SessionInfo(Path(f"/s/{n}.jsonl"), f"id-{n}", "/srv/app", "", now - ago, 1, name, text, count or None, "")
            for n, (ago, name, text, count) in enumerate(said)
        )

    def preview(self, path: Path) -> str:
        return "> why does the gateway drop connections after an hour?\n\nThe idle timeout of the proxy is 3600 s. 界面"

    def rename(self, path: Path, name: str) -> None: ...

    def delete(self, path: Path) -> None: ...

    async def resume(self, session: str | Path) -> None: ...


class Tree:
    def __init__(self) -> None:
        self.log: SessionLog = memory_session("/srv/app")
        for text in ("why does the gateway drop connections?", "and with 漢字 🎉?"):
            self.log.append_message(user_text(text, 1))
            self.log.append_message(text_answer(f"about {text}"))
        second = self.log.entries[2]
        call = ToolCall("c", "bash", {"command": "ls"})
        self.log.append_message(text_answer("")._replace(content=(call,)))
        navigate.set_label(self.log, second.id, "here")
        self.log.move_leaf(self.log.entries[1].id)
        self.log.append_message(user_text("another way", 2))

    def name(self, name: str) -> None: ...

    def rows(self) -> tuple[TreeRow, ...]:
        return navigate.tree_rows(self.log)

    def label(self, entry_id: str, label: str) -> None: ...

    def prompts(self) -> tuple[Entry, ...]:
        return navigate.user_entries(self.log)

    def leaves(self, entry_id: str) -> int:
        return 0

    async def fork(self, entry_id: str) -> str:
        return ""

    async def clone(self) -> None: ...

    async def go_to(self, entry_id: str, summary: str | None) -> str:
        return ""


class Models:
    @property
    def usable(self) -> Sequence[Model]:
        big = Model("anthropic", "claude-x", "", "", "", {}, 1_000_000, 1, True, True, Price(2, 10), {})
        return (MODEL, big, MODEL._replace(provider="ollama", id="llama3:70b-instruct-q4_K_M", context_window=8192))

    def find(self, pattern: str) -> tuple[Model, str | None]:
        return MODEL, None


class Approval:
    mode: ApprovalMode = "ask"

    def choose(self, mode: ApprovalMode) -> None: ...


class Export:
    def place(self, target: str) -> Path:
        return Path(target)

    async def write(self, path: Path, *, replace: bool) -> str:
        return ""


class Stored:
    file = FILE
    own = Settings(default_model="anthropic/claude-x", recall_limit=7)

    def read(self) -> Settings:
        return self.own._replace(recall_limit=5, tools=Tools(bash_timeout=30.0), recall_peer_scope="actor")

    def source(self, key: str) -> str:
        return {
            "defaultModel": str(FILE),
            "recallLimit": "/srv/app/.vpi/config.json",
            "recallPeerScope": "OPENVIKING_RECALL_PEER_SCOPE",
            "tools.bashTimeout": str(FILE),
        }.get(key, "")

    def store(self, key: str, value: object | None) -> Settings:
        return self.read()


async def show(app: FakeApp, chooser: Chooser, name: str) -> str:
    """Show a list, with `text` a line, or with `ask` and a number a question about a diff of so many lines."""
    if name == "text":
        return f"given: {given}" if (given := await chooser.text("What else?")) is not None else "left"
    if name.startswith("ask"):
        body = "\n".join(f"{'-+ '[n % 3]}{n} {'漢字' * (n % 9)} changed d{n}" for n in range(int(name[3:] or 0)))
        return await chooser.confirm("Go on?", body, (Option("yes", "yes"), Option("no", "no"))) or "left"
    controls = Controls(Sessions(), Tree(), Models(), Approval(), Export(), Stored())
    if name == "first":
        prepared = prepare(RunOptions(), {"VPI_HOME": "/home/me/.vpi", "HOME": "/home/me"}, Path("/"))
        servers = (LocalServer("ollama", 9), LocalServer("lmstudio", 9))
        transport = HttpTransport()
        picked = await FirstRun(prepared, "vpi needs a model: no model is configured.", transport, servers).choose(
            chooser.choose
        )
        await transport.close()
        return picked
    choices = {
        "resume": lambda: session_choices(app, controls),
        "tree": lambda: tree_choices(controls),
        "model": lambda: model_choices(app, controls.models),
        "settings": lambda: setting_choices(app, controls),
    }[name]()
    return await chooser.choose(choices) or ""
