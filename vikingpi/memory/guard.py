"""Keeps `viking://` addresses away from tools that work on files."""

from __future__ import annotations

import re
from functools import cache

from vikingpi.decode import as_str
from vikingpi.messages import ToolCall

# Compiled at first use: a run without tools has no use for them.
_regex = cache(re.compile)
_FILE_TOOLS = ("read", "edit", "write", "grep", "find", "ls")
_ADDRESS = r"(?i)\s*[\"']?viking:/"
_LOOKED_AT = 16_000
# A command that reads or changes files, and one of its words, from its beginning, is such an address.
_COMMAND = (
    r"(?i)(?:^|[;&|(\n]|\b(?:sudo|xargs|then|do|exec)\s)\s*"
    r"(?:cat|bat|head|tail|less|more|ls|tree|stat|file|wc|find|du|cp|mv|rm|mkdir|touch|cd|open|curl|wget"
    r"|(?:e|f)?grep\s+(?:-\S+\s+)*+(?:\"[^\"]*\"|'[^']*'|\S+)|rg\s+(?:-\S+\s+)*+(?:\"[^\"]*\"|'[^']*'|\S+))"
    r"\s(?:[^;&|\n]*?\s)?[\"']?viking://"
)


def barred(call: ToolCall) -> str:
    """Return why a call must not run, with the tool to use instead, or "" when it may."""
    if call.name in _FILE_TOOLS and _regex(_ADDRESS).match(as_str(call.arguments.get("path"))):
        instead = {"ls": "viking_browse", "find": "viking_browse", "grep": "viking_search"}
        tool = instead.get(call.name, "viking_read" if call.name == "read" else "viking_remember")
        return f"viking:// addresses are in the context store, not in the file system; use {tool}"
    command = as_str(call.arguments.get("command")) if call.name == "bash" else ""
    if "viking://" in command.lower() and _regex(_COMMAND).search(command[:_LOOKED_AT]):
        return (
            "viking:// addresses are in the context store, where commands cannot reach; use viking_read, viking_browse"
            " or viking_search"
        )
    return ""
