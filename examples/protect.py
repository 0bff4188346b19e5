"""Keeps the model's hands off some files: vpi -e examples/protect.py

Put it into the folder `extensions` of vpi's configuration to have it always.
"""

from pathlib import PurePath

from vikingpi.agent.hooks import HookContext
from vikingpi.decode import Json
from vikingpi.extensions.api import Extension

PROTECTED = (".env", "*.pem", "id_rsa*")


def setup(vpi: Extension) -> None:
    def check(event: Json, ctx: HookContext) -> Json | None:
        path = str(event["input"].get("path", ""))
        if event["toolName"] in ("read", "write", "edit") and any(PurePath(path).match(name) for name in PROTECTED):
            return {"block": True, "reason": f"{path} is protected. Ask the user for what you need from it."}
        return None

    vpi.on("tool_call", check)
