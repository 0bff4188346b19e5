import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ui_terminal import CHILD, PATIENCE


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_resizing_in_tmux_leaves_every_word_once_and_one_editor(tmp_path: Path) -> None:
    def tmux(*arguments: str) -> str:
        command = ["tmux", "-f", os.devnull, "-S", str(tmp_path / "socket"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout

    def wait(text: str) -> str:
        end = time.monotonic() + PATIENCE
        while text not in (screen := tmux("capture-pane", "-p", "-J", "-S", "-")):
            assert time.monotonic() < end, screen
            time.sleep(0.05)
        return screen

    root = Path(__file__).parent.parent
    env = [f"UI_TEST_LOG={tmp_path / 'log'}", f"PYTHONPATH={root}", "LANG=C.UTF-8"]
    tmux("-u", "new-session", "-d", "-x", "80", "-y", "24", "env", *env, sys.executable, str(CHILD), str(tmp_path))
    try:
        wait("OV ✓")
        tmux("send-keys", "SLOW 120", "Enter")
        wait("w9")
        for size in ("60x24", "40x24", "40x12", "100x30", "45x15", "80x24"):
            columns, rows = size.split("x")
            tmux("resize-window", "-x", columns, "-y", rows)
            time.sleep(0.15)
        wait("w119")
        time.sleep(0.2)
        screen = tmux("capture-pane", "-p", "-J", "-S", "-")
    finally:
        tmux("kill-server")
    assert re.findall(r"\bw(\d+)", screen) == [str(n) for n in range(120)]
    assert screen.count("OV ✓") == 1
    assert len(re.findall(r"^──", screen, re.MULTILINE)) == 2
