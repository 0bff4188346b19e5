"""Settings: one line per key. The JSON key is the field name in camel case, a group is an object of its own.

`Annotated[type, low, high]` gives the allowed range (numbers) or the allowed words (`Literal`). Loading clamps
numbers into their range and falls back to the default for what has the wrong type.
"""

from typing import Annotated, Literal, NamedTuple

ApprovalMode = Literal["off", "ask", "edits", "read-only"]
APPROVAL_MODES: tuple[ApprovalMode, ...] = ("off", "ask", "edits", "read-only")


class Compaction(NamedTuple):
    enabled: bool = True
    keep_recent_tokens: Annotated[int, 0, 10_000_000] = 20_000
    reserve_tokens: Annotated[int, 0, 10_000_000] = 16_384


class OpenViking(NamedTuple):
    account: str = ""
    api_key: str = ""
    url: str = ""
    user: str = ""


class Redact(NamedTuple):
    rules: tuple[str, ...] = ()


class Takeover(NamedTuple):
    enabled: bool = True
    keep_recent_turns: Annotated[int, 0, 100] = 3
    overview_budget: Annotated[int, 100, 50_000] = 3000
    overview_poll_max: Annotated[int, 1, 120] = 15
    overview_poll_ms: Annotated[int, 0, 60_000] = 2000
    token_threshold: Annotated[int, 1, 1_000_000] = 30_000
    wait: Literal["none", "commit", "overview"] = "commit"


class Tools(NamedTuple):
    bash_timeout: Annotated[float, 1, 86_400] = 600.0
    sandbox_network: bool = False


class Settings(NamedTuple):
    approval: ApprovalMode = "off"
    bypass_patterns: tuple[str, ...] = ()
    capture_assistant_turns: bool = True
    capture_max_length: Annotated[int, 200, 100_000] = 24_000
    capture_redact: bool = True
    capture_tool_max_chars: Annotated[int, 200, 1_000_000] = 1_000_000
    capture_tool_results: bool = True
    commit_keep_recent_count: Annotated[int, 0, 1000] = 10
    commit_token_threshold: Annotated[int, 1000, 1_000_000] = 20_000
    compaction: Compaction = Compaction()
    default_model: str = ""
    default_thinking_level: Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"] = "off"
    enabled: bool = True
    log_level: Literal["error", "warning", "info", "debug"] = "error"
    min_query_length: Annotated[int, 1, 64] = 3
    openviking: OpenViking = OpenViking()
    peer_id: str = ""
    profile_token_budget: Annotated[int, 500, 50_000] = 10_000
    recall_enabled: bool = True
    recall_limit: Annotated[int, 1, 50] = 10
    recall_peer_scope: Literal["all", "actor"] = "all"
    recall_token_budget: Annotated[int, 200, 50_000] = 2000
    redact: Redact = Redact()
    resume_context_budget: Annotated[int, 1024, 128_000] = 32_000
    score_threshold: Annotated[float, 0, 1] = 0.35
    session_dir: str = ""
    show_thoughts: bool = False
    store: Literal["auto", "openviking", "embedded", "off"] = "auto"
    sync_turns: bool = True
    takeover: Takeover = Takeover()
    theme: Literal["auto", "dark", "light"] = "auto"
    tools: Tools = Tools()
    workspace_peer: bool = True
