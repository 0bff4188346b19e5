"""What a run was asked to do: one line a flag, sorted, with its type, help and names."""

from typing import Annotated, Literal, NamedTuple


class Flag:
    """A line of help, then the names on the command line; without names it is the list of words."""

    def __init__(self, help: str, *names: str, metavar: str = "") -> None:
        self.help = help
        self.names = names
        self.metavar = metavar


Approve = Literal["off", "ask", "edits", "read-only"]
Level = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
Mode = Literal["text", "json"]
Store = Literal["auto", "openviking", "embedded", "off"]
Switch = bool | None
Words = tuple[str, ...]


class RunOptions(NamedTuple):
    """Empty and None mean that a flag was not given. `words` are messages and @files in the order given."""

    words: Annotated[Words, Flag("Messages; @FILE puts a file in front of the first one.")] = ()
    api_key: Annotated[str, Flag("Key for the model's provider, for this run.", "--api-key", metavar="KEY")] = ""
    append_system_prompt: Annotated[str, Flag("Text or file to add to the prompt.", "--append-system-prompt")] = ""
    approve: Annotated[Approve | None, Flag("Which tool calls wait for a yes.", "--approve")] = None
    continue_session: Annotated[bool, Flag("Go on with this folder's newest session.", "--continue", "-c")] = False
    export: Annotated[str, Flag("Write a session as an HTML page and exit.", "--export", metavar="SESSION")] = ""
    extensions: Annotated[Words, Flag("Load an extension file (repeatable).", "--extension", "-e", metavar="FILE")] = ()
    fork: Annotated[str, Flag("Begin with a copy of another session.", "--fork", metavar="SESSION")] = ""
    list_models: Annotated[bool, Flag("List the models, or those that a message fits.", "--list-models")] = False
    max_cost: Annotated[float | None, Flag("Stop a run that has cost so many US dollars.", "--max-cost")] = None
    max_tokens: Annotated[int | None, Flag("Stop a run that has used so many tokens.", "--max-tokens")] = None
    max_turns: Annotated[int | None, Flag("Stop a run after so many answers of the model.", "--max-turns")] = None
    mode: Annotated[Mode, Flag("Print the answer, or every event as JSON Lines.", "--mode")] = "text"
    model: Annotated[str, Flag("Model: provider/id, part of an id, id:thinking.", "--model")] = ""
    name: Annotated[str, Flag("Name of the session.", "--name", "-n")] = ""
    no_context_files: Annotated[bool, Flag("Do not read AGENTS.md and CLAUDE.md.", "--no-context-files")] = False
    no_extensions: Annotated[bool, Flag("Load only the extensions named by -e.", "--no-extensions")] = False
    no_session: Annotated[bool, Flag("Write and capture nothing.", "--no-session")] = False
    no_tools: Annotated[bool, Flag("Give the model no tools.", "--no-tools")] = False
    print_answer: Annotated[bool, Flag("Answer the prompt and exit.", "--print", "-p")] = False
    provider: Annotated[str, Flag("Provider of the model.", "--provider")] = ""
    resume: Annotated[bool, Flag("Choose a session to go on with.", "--resume", "-r")] = False
    sandbox: Annotated[bool, Flag("Run commands in bubblewrap: only this folder, no network.", "--sandbox")] = False
    session: Annotated[str, Flag("Open a session: a path, an id or the beginning of one.", "--session")] = ""
    session_dir: Annotated[str, Flag("Folder of session files.", "--session-dir", metavar="DIR")] = ""
    session_id: Annotated[str, Flag("Open the session with this id, or create it.", "--session-id", metavar="ID")] = ""
    store: Annotated[Store | None, Flag("Where long-term context is kept.", "--store")] = None
    system_prompt: Annotated[str, Flag("Text or file in place of the system prompt.", "--system-prompt")] = ""
    thinking: Annotated[Level | None, Flag("Thinking level of the model.", "--thinking")] = None
    time_limit: Annotated[str, Flag("Stop a run after a time: 90, 15m, 1h30m.", "--time-limit", metavar="TIME")] = ""
    tools: Annotated[str, Flag("Tools for the model, separated by commas.", "--tools", "-t", metavar="NAMES")] = ""
    trust: Annotated[Switch, Flag("Trust this folder's .vpi settings for this run.", "--trust/--no-trust")] = None
    version: Annotated[bool, Flag("Print the version and exit.", "--version", "-v")] = False
