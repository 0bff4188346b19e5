"""What a run was asked to do. One line a flag: the field, its type, its names, its help."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple


class Flag(NamedTuple):
    """Names on the command line and a line of help; an empty `names` is the list of words."""

    help: str
    names: tuple[str, ...] = ()
    metavar: str = ""


def _flag(help: str, *names: str, metavar: str = "") -> Flag:
    return Flag(help, names, metavar)


Store = Literal["auto", "openviking", "embedded", "off"]
Mode = Literal["text", "json"]
Thinking = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]


class RunOptions(NamedTuple):
    """`words` are messages and @files in the order given; None and "" mean: not given."""

    words: Annotated[tuple[str, ...], _flag("Messages; @FILE puts a file in front of the first one.")] = ()
    api_key: Annotated[str, _flag("Key for the model's provider, for this run.", "--api-key", metavar="KEY")] = ""
    append_system_prompt: Annotated[
        str, _flag("Text or file to add to the system prompt.", "--append-system-prompt")
    ] = ""
    continue_session: Annotated[bool, _flag("Go on with the newest session of this folder.", "--continue", "-c")] = (
        False
    )
    fork: Annotated[str, _flag("Begin a new session from a copy of another one.", "--fork", metavar="SESSION")] = ""
    list_models: Annotated[bool, _flag("List the models that can be used.", "--list-models")] = False
    mode: Annotated[
        Mode, _flag("Output of a one-shot run: the answer's text, or every event as JSON Lines.", "--mode")
    ] = "text"
    model: Annotated[str, _flag("Model: provider/id, part of an id, id:thinking.", "--model")] = ""
    name: Annotated[str, _flag("Name of the session.", "--name", "-n")] = ""
    no_context_files: Annotated[bool, _flag("Do not read AGENTS.md and CLAUDE.md.", "--no-context-files")] = False
    no_session: Annotated[bool, _flag("Keep the session in memory; write and capture nothing.", "--no-session")] = False
    no_tools: Annotated[bool, _flag("Give the model no tools.", "--no-tools")] = False
    print_answer: Annotated[bool, _flag("Answer the prompt and exit.", "--print", "-p")] = False
    provider: Annotated[str, _flag("Provider of the model.", "--provider")] = ""
    session: Annotated[str, _flag("Open a session by path, id or the beginning of an id.", "--session")] = ""
    session_dir: Annotated[str, _flag("Folder of session files.", "--session-dir", metavar="DIR")] = ""
    session_id: Annotated[str, _flag("Open the session with this id, or create it.", "--session-id", metavar="ID")] = ""
    store: Annotated[Store | None, _flag("Where long-term context is kept.", "--store")] = None
    system_prompt: Annotated[str, _flag("Text or file in place of the system prompt.", "--system-prompt")] = ""
    thinking: Annotated[Thinking | None, _flag("Thinking level of the model.", "--thinking")] = None
    tools: Annotated[str, _flag("Tools to give the model, separated by commas.", "--tools", "-t", metavar="NAMES")] = ""
    trust: Annotated[
        bool | None, _flag("Trust, or not, this folder's .vpi settings and code for this run.", "--trust/--no-trust")
    ] = None
    version: Annotated[bool, _flag("Print the version and exit.", "--version", "-v")] = False
