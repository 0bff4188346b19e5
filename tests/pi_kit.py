"""Real pi and real vpi on the same session files, before one scripted model that remembers every request."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import model_server

from vikingpi.decode import Json, as_dict, as_list, as_str
from vikingpi.messages import OVERVIEW_MARKER

PROJECT = Path(__file__).resolve().parent.parent
MODELS = {"mine": ("m1", "small"), "lab": ("fake",), "claude": ("c1",)}
# What each program says in front of images that tools gave, on a wire whose tool results take none.
_IMAGES = ("Images from the tool results above:", "Attached image(s) from tool result:")
_SUMMARY = re.compile(r"<summary>(.*)</summary>", re.DOTALL)


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Lab:
    """`modules` is the node_modules folder that holds pi and Node 22."""

    def __init__(self, folder: Path, modules: Path, address: str) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.pi_sessions = folder / "agent" / "sessions"
        self._modules = modules
        self._address = address
        self.project.mkdir()
        self._write(folder / "agent" / "models.json", self._models())

    def pi(self, *args: str, stdin: str | None = None) -> Done:
        """Run pi in the project's folder."""
        return self._run([*self.pi_command(), *args], self.pi_env(), stdin)

    def pi_command(self) -> list[str]:
        main = self._modules / "@earendil-works" / "pi-coding-agent" / "dist" / "cli.js"
        return [str(self._modules / "node" / "bin" / "node"), str(main), "--offline"]

    def pi_env(self) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        return {**base, "PI_CODING_AGENT_DIR": str(self.folder / "agent"), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def vpi(self, *args: str, config: Json | None = None) -> Done:
        """Run vpi in the project's folder, without a store unless the arguments say so."""
        return self._run([sys.executable, "-m", "vikingpi", *self._vpi_args(args)], self.vpi_env(config), None)

    def vpi_killed(self, *args: str, after: Callable[[], bool]) -> None:
        """Run vpi and end it with SIGTERM once `after` holds."""
        command = [sys.executable, "-m", "vikingpi", *self._vpi_args(args)]
        with subprocess.Popen(
            command, cwd=self.project, env=self.vpi_env(None), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as process:
            self._wait_for(after)
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)

    def vpi_env(self, config: Json | None) -> dict[str, str]:
        home = self.folder / "vpi"
        self._write(home / "models.json", self._models())
        self._write(home / "config.json", {"defaultModel": "mine/m1", **(config or {})})
        base = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}
        return {**base, "VPI_HOME": str(home), "PYTHONPATH": str(PROJECT)}

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def requests(self) -> list[Json]:
        """All requests of an agent so far, each with its `path` and `body`."""
        with urllib.request.urlopen(f"{self._address}/requests?kind=agent", timeout=10) as answer:
            return [as_dict(one) for one in json.load(answer)]

    def sent(self, run: Any) -> list[Json]:
        """Call `run` and return the messages of the last request it made, without the system's."""
        before = len(self.requests())
        done: Done = run()
        assert done.code == 0, done.err
        made = self.requests()[before:]
        assert made, f"no request: {done.err}"
        messages = as_list(as_dict(made[-1].get("body")).get("messages"))
        if as_str(made[-1].get("path")).endswith("/messages"):
            return [block for message in messages for block in blocks(message)]
        return [norm for norm in map(normal, messages) if norm]

    def _vpi_args(self, args: tuple[str, ...]) -> list[str]:
        store = [] if "--store" in args else ["--store", "off"]
        return [*store, *args]

    def _run(self, command: list[str], env: dict[str, str], stdin: str | None) -> Done:
        feed: Any = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        done = subprocess.run(
            command, cwd=self.project, env=env, capture_output=True, text=True, timeout=60, check=False, **feed
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def _models(self) -> Json:
        def provider(names: tuple[str, ...]) -> Json:
            cost = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}
            limits = {"contextWindow": 128_000, "maxTokens": 8000, "reasoning": True, "input": ["text", "image"]}
            models = [{"id": name, "name": name, "cost": cost, **limits} for name in names]
            return {"baseUrl": f"{self._address}/v1", "api": "openai-completions", "apiKey": "x", "models": models}

        found = {name: provider(models) for name, models in MODELS.items()}
        found["claude"].update(baseUrl=self._address, api="anthropic-messages")
        return {"providers": found}

    def _write(self, path: Path, value: Json) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < until, "what was waited for did not happen"
            time.sleep(0.05)


@contextlib.contextmanager
def running(folder: Path, modules: Path) -> Generator[Lab]:
    """Start the model for one lab."""
    server = model_server.serve(0, None)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Lab(folder, modules, f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def normal(message: Any) -> Json:
    """Bring a chat message into one form; empty for a system message.

    The two programs introduce a summary with sentences of their own; the summary itself is compared.
    """
    raw = as_dict(message)
    role = as_str(raw.get("role"))
    if role in ("system", "developer"):
        return {}
    made: Json = {"role": role, "text": _text(raw.get("content"))}
    if images := [part for part in map(as_dict, as_list(raw.get("content"))) if part.get("type") == "image_url"]:
        made["images"] = [as_dict(part.get("image_url")).get("url") for part in images]
    if calls := as_list(raw.get("tool_calls")):
        made["calls"] = [_call(as_dict(call)) for call in calls]
    for key in ("tool_call_id", "reasoning_content", "reasoning"):
        if raw.get(key):
            made[key] = raw[key]
    return made


def blocks(message: Any) -> list[Json]:
    """Bring a message of the messages API into one block per part; neighbours of one role may be one message or two."""
    raw = as_dict(message)
    content = raw.get("content")
    found: list[Json] = []
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else map(as_dict, as_list(content)):
        made = {key: value for key, value in block.items() if key not in ("cache_control", "text", "content")}
        if not made.get("is_error"):
            made.pop("is_error", None)
        if "text" in block or "content" in block:
            made["text"] = _text([block]) if "text" in block else _text(block["content"])
        found.append({"role": raw.get("role"), **made})
    return found


def _call(call: Json) -> Json:
    function = as_dict(call.get("function"))
    return {"id": call.get("id"), "name": function.get("name"), "arguments": json.loads(as_str(function["arguments"]))}


def _text(content: object) -> str:
    if isinstance(content, str):
        text = content
    else:
        text = "".join(as_str(part.get("text")) for part in map(as_dict, as_list(content)))
    found = _SUMMARY.search(text)
    if found:
        return "summary: " + found.group(1).replace(OVERVIEW_MARKER, "").strip()
    return _IMAGES[0] if text in _IMAGES else text.strip()
