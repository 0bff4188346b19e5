from __future__ import annotations

from pathlib import Path

import pytest
from vpi_lab import Lab

from vikingpi.app.models import open_key
from vikingpi.app.options import RunOptions
from vikingpi.app.wiring import prepare
from vikingpi.http_thread import sent_openly
from vikingpi.llm.base import Model, Price


@pytest.mark.parametrize(
    ("url", "openly"),
    [
        ("http://ov.example", True),
        ("http://10.0.0.5:1933", True),
        ("ov.example:1933", True),
        ("http://localhost.evil.example", True),
        ("http://127.0.0.1.evil.example", True),
        ("http://127.0.0.1@evil.example", True),
        ("https://ov.example", False),
        ("HTTPS://ov.example", False),
        ("http://127.0.0.1:1933", False),
        ("http://[::1]:1933", False),
        ("http://localhost:8000/v1", False),
    ],
)
def test_plain_http_to_another_machine_is_open(url: str, openly: bool) -> None:
    assert sent_openly(url) is openly


@pytest.mark.parametrize(
    ("url", "key", "warned"),
    [
        ("http://ov.example", "k", True),
        ("http://ov.example", "", False),
        ("https://ov.example", "k", False),
        ("http://127.0.0.1:9", "k", False),
    ],
)
def test_a_key_over_plain_http_is_warned_of(tmp_path: Path, url: str, key: str, warned: bool) -> None:
    runs = Lab(tmp_path, "http://127.0.0.1:9")
    env = {"VPI_HOME": str(runs.home), "HOME": str(tmp_path), "OPENVIKING_URL": url, "OPENVIKING_API_KEY": key}
    notices = prepare(RunOptions(), env, runs.work).notices
    assert [notice for notice in notices if "unencrypted" in notice] == (
        [f"the OpenViking key is sent unencrypted to {url}; use https://"] if warned else []
    )
    model = Model("p", "m", "openai-completions", f"{url}/v1", key, {}, 1, 1, False, False, Price(), {})
    assert open_key(model) == ((f"the key of p is sent unencrypted to {url}; use https://",) if warned else ())
