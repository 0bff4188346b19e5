"""A to-do list that the model keeps and /todos shows: vpi -e examples/todo.py

The list stands in the session file, so `vpi -c` and every branch of the session have their own.
"""

from vikingpi.agent.hooks import HookContext
from vikingpi.decode import Json
from vikingpi.extensions.api import Extension
from vikingpi.tools.base import ToolContext

KIND = "todo"


def setup(vpi: Extension) -> None:
    items: list[str] = []

    def restore(event: Json, ctx: HookContext) -> None:
        lists = [entry.raw["data"]["items"] for entry in ctx.branch() if entry.raw.get("customType") == KIND]
        items[:] = lists[-1] if lists else []

    def change(arguments: Json, context: ToolContext) -> str:
        done = set(arguments.get("done", []))
        items[:] = [item for item in items if item not in done] + arguments.get("add", [])
        vpi.append_entry(KIND, {"items": list(items)})
        return show("")

    def show(argument: str) -> str:
        return "\n".join(f"- {item}" for item in items) or "Nothing to do."

    def remind(event: Json, ctx: HookContext) -> Json | None:
        return {"systemAppend": f"<todo>\n{show('')}\n</todo>"} if items else None

    texts: Json = {"type": "array", "items": {"type": "string"}}
    schema: Json = {"type": "object", "properties": {"add": texts, "done": texts}, "additionalProperties": False}
    vpi.on("session_start", restore)
    vpi.on("before_agent_start", remind)
    vpi.register_tool("todo", "Add items to the to-do list, or take off what is done.", schema, change)
    vpi.register_command("todos", "show the to-do list", show)
