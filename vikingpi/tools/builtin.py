"""The tools that are on unless the user says otherwise."""

from __future__ import annotations

from vikingpi.tools.base import Tool
from vikingpi.tools.bash import BashTool
from vikingpi.tools.edit import EditTool
from vikingpi.tools.read import ReadTool
from vikingpi.tools.write import WriteTool


def builtin_tools() -> tuple[Tool, ...]:
    """Make them, in the order in which models see them."""
    return (ReadTool(), BashTool(), EditTool(), WriteTool())
