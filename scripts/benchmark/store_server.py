"""A real OpenViking server for the rows that need one, with the lab's scripted model behind it."""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.request
from collections.abc import Generator
from typing import Any

from lab import PROJECT, Lab
from paired import Unavailable

sys.path.append(str(PROJECT / "scripts" / "live"))
import openviking_dev

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextlib.contextmanager
def openviking(lab: Lab, name: str) -> Generator[str]:
    """Give the address of a server of its own per `name`; Unavailable when it cannot be had."""
    with openviking_server(lab, name) as server:
        yield server.url


@contextlib.contextmanager
def openviking_server(lab: Lab, name: str) -> Generator[openviking_dev.Server]:
    """Give a server of its own per `name`; Unavailable when it cannot be had."""
    folder = lab.folder / name
    try:
        server = openviking_dev.start(folder, model_url=lab.model_url)
    except (openviking_dev.LabError, OSError) as error:
        raise Unavailable(f"no OpenViking server: {error}") from error
    try:
        yield server
    finally:
        openviking_dev.stop(folder)


def control_model(lab: Lab, **settings: float) -> None:
    """Change what the scripted model does, such as `summaryDelay`."""
    body: dict[str, Any] = settings
    request = urllib.request.Request(f"{lab.model_url}/control", data=json.dumps(body).encode())
    DIRECT.open(request, timeout=10).close()
