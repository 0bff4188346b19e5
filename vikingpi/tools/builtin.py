"""The tools that the program brings along."""

from __future__ import annotations

from vikingpi.tools.base import Tool
from vikingpi.tools.bash import BashTool
from vikingpi.tools.edit import EditTool
from vikingpi.tools.find import FindTool
from vikingpi.tools.grep import GrepTool
from vikingpi.tools.ls import LsTool
from vikingpi.tools.read import ReadTool
from vikingpi.tools.write import WriteTool


def builtin_tools() -> tuple[Tool, ...]:
    """Make those that are on unless the user says otherwise, in the order in which models see them."""
    return (ReadTool(), BashTool(), EditTool(), WriteTool())


def search_tools() -> tuple[Tool, ...]:
    """Make those that are on only when asked for by name."""
    return (GrepTool(), FindTool(), LsTool())
