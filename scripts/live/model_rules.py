"""What the scripted model says; see model_server.py for the directives. No I/O, no clock.

A fact is a sentence of the form "<name> is <VALUE>" (name in any script; the value begins with no small letter),
"<名>是<值>" or "<名>は<値>", or a line that begins with "Remember:".
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Json = dict[str, Any]
Kind = Literal["agent", "summary", "extraction", "planning", "embeddings", "other"]

SERVER_MODEL = "scripted-server"
FACTS = "Key Facts & Decisions"
FEW = 20
# How vpi asks for an overview.
CHAT_WRITER = "You keep the working memory of a coding session"
SECTIONS = (
    "Session Title",
    "Current State",
    "Task & Goals",
    FACTS,
    "Files & Context",
    "Errors & Corrections",
    "Open Issues",
)
_SPACED = re.compile(r"(?<![\w-])(?P<name>[^\W\d_][\w-]{1,40}) is (?P<value>[^\s.,;:!?\"'`)\]}。、，；]+)")
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_UNSPACED = re.compile(rf"(?P<name>[{_CJK}]{{2,12}}?)[是は](?P<value>[^\s.,;:!?\"'`)\]}}。、，；：！？]+)")
_REMEMBER = re.compile(r"^\s*(?:\[user\]: )?Remember: (?P<line>.+)$", re.MULTILINE)
_TOO_LONG = re.compile(rf'"{FACTS}" has \d+ bullets[^<]*MUST be consolidated')
_STEP = re.compile(r"\bRUN: (?P<command>.+)|\bCALL: (?P<tool>\w+) (?P<arguments>\{.*\})")


class Call(NamedTuple):
    name: str
    arguments: Json


class Said(NamedTuple):
    """One message of a request; "tool" is a tool result on either wire."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str


class Request(NamedTuple):
    model: str
    messages: tuple[Said, ...]
    tools: frozenset[str]


class Reply(NamedTuple):
    """`delay` and `stall` are seconds before and in the middle of the answer; `cut` breaks it off there.

    `thought` comes first, then `hidden`: a thought that a provider shows to nobody (Anthropic messages only).
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    delay: float = 0.0
    stall: float = 0.0
    status: int = 200
    cut: bool = False
    kind: Kind = "agent"
    thought: str = ""
    hidden: str = ""


class Control(NamedTuple):
    """What POST /control sets; modes are those of `server_answer`."""

    summary_delay: float = 0.0
    summary_mode: Literal["ok", "blank", "fail", "garbage", "long", "cut"] = "ok"
    extraction_mode: Literal["ok", "fail", "garbage"] = "ok"
    fail_status: int = 400
    agent_delay: float = 0.0


class Fact(NamedTuple):
    name: str
    value: str
    sentence: str


def facts(text: str) -> list[Fact]:
    """Find the facts of a text in the order of their first mention; a repeated sentence counts once."""
    found = [
        (match.start(), Fact(match["name"], match["value"], match[0]))
        for pattern in (_SPACED, _UNSPACED)
        for match in pattern.finditer(text)
        if not match["value"][0].islower()
    ]
    return list(dict.fromkeys(fact for _, fact in sorted(found, key=lambda pair: pair[0])))


def sentences(text: str) -> list[str]:
    """Give what a summary of `text` must keep: its facts and its "Remember:" lines, without repetition."""
    lines = [match["line"].strip() for match in _REMEMBER.finditer(text)]
    return lines + [fact.sentence for fact in facts(text) if not any(fact.sentence in line for line in lines)]


def between(text: str, tag: str) -> str:
    """Give the text inside the first `<tag>` element, or nothing; later prose may name the tag again."""
    _, _, rest = text.partition(f"<{tag}>")
    return rest.rpartition(f"</{tag}>")[0]


def document(kept: Sequence[str]) -> str:
    """Write an overview of seven sections that holds what was kept."""
    bodies = dict.fromkeys(SECTIONS, "Nothing to note.")
    bodies["Session Title"] = "Scripted session"
    bodies["Current State"] = f"{len(kept)} facts are on record."
    bodies[FACTS] = "\n".join(f"- {line}" for line in kept) or "Nothing to note."
    return "# Working Memory\n\n" + "\n\n".join(f"## {name}\n{body}" for name, body in bodies.items())


def updates(text: str) -> Json:
    """Decide per section how an overview changes: the facts of the new content are appended, the rest stays.

    Of a section that a server calls too long it takes but a few new lines; that one is written anew in fewer lines.
    """
    known = between(text, "current_wm")
    new = [line for line in sentences(between(text, "new_content") or text) if line not in known]
    sections: Json = {name: {"op": "KEEP"} for name in SECTIONS}
    old = bullets(known) if _TOO_LONG.search(text) else []
    if new and old:
        sections[FACTS] = {"op": "UPDATE", "content": "\n".join(f"- {line}" for line in joined(old + new))}
    elif new:
        sections[FACTS] = {"op": "APPEND", "items": new}
    return {"sections": sections}


def bullets(overview: str) -> list[str]:
    """Give the facts of an overview, line by line."""
    section = overview.partition(f"## {FACTS}\n")[2].partition("\n## ")[0]
    return [line[2:].strip() for line in section.splitlines() if line.startswith("- ")]


def joined(lines: Sequence[str]) -> list[str]:
    """Join neighbours until there are at most `FEW` lines; nothing is left out."""
    kept = list(lines)
    while len(kept) > FEW:
        kept = [" ".join(kept[at : at + 2]) for at in range(0, len(kept), 2)]
    return kept


def checkpoints(text: str, kept: Sequence[str]) -> list[str]:
    """Give one summary for each checkpoint that the prompt numbers."""
    numbers = {int(number) for number in re.findall(r"checkpoint_source[^>\d]{0,20}(\d+)", text)}
    return ["; ".join(kept) or "Nothing to note."] * (max(numbers) + 1 if numbers else 0)


def summary(text: str, tools: frozenset[str], control: Control) -> Reply:
    """Answer a request for an overview in the way that the mode asks for."""
    base = Reply(delay=control.summary_delay, kind="summary")
    if control.summary_mode == "fail":
        return base._replace(status=control.fail_status)
    if control.summary_mode == "blank":
        return base
    if control.summary_mode == "garbage":
        return base._replace(text="no overview today")
    if control.summary_mode == "cut":
        return base._replace(text=document([]), cut=True)
    if CHAT_WRITER in text:
        known = between(text, "document")
        kept = bullets(known) + [line for line in sentences(between(text, "messages")) if line not in known]
        # Much too long, and yet with every fact in it.
        filler = [f"filler {number} of a text that is too long" for number in range(300)]
        return base._replace(text=document(kept + filler if control.summary_mode == "long" else kept))
    kept = sentences(between(text, "previous_working_memory") + "\n" + (between(text, "session_content") or text))
    if "update_working_memory" in tools:
        arguments = updates(text)
        if marks := checkpoints(text, kept):
            arguments["checkpoint_summaries"] = marks
        return base._replace(calls=(Call("update_working_memory", arguments),))
    if "create_working_memory" in tools:
        arguments = {"working_memory": document(kept), "checkpoint_summaries": checkpoints(text, kept)}
        return base._replace(calls=(Call("create_working_memory", arguments),))
    return base._replace(text=document(kept))


def server_answer(request: Request, control: Control) -> Reply | None:
    """Answer a prompt of an OpenViking 0.5 server; None: it is none of those."""
    text = "\n".join(said.text for said in request.messages)
    if (
        CHAT_WRITER in text
        or request.tools & {"update_working_memory", "create_working_memory"}
        or "7-section structure" in text
    ):
        return summary(text, request.tools, control)
    if "sdk.commit()" in text:
        if control.extraction_mode == "fail":
            return Reply(status=control.fail_status, kind="extraction")
        return Reply("sdk.commit()" if control.extraction_mode == "ok" else "no program today", kind="extraction")
    if "`queries`" in text:
        return Reply('{"queries": []}', kind="planning")
    if request.model == SERVER_MODEL:
        return Reply("\n".join(sentences(text)) or "Nothing to note.", kind="other")
    return None


def steps(text: str, tools: frozenset[str]) -> list[Call]:
    """List the tool calls that a prompt asks for, in their order; those of undeclared tools are left out."""
    calls: list[Call] = []
    for match in _STEP.finditer(text):
        name = match["tool"] or "bash"
        arguments = json.loads(match["arguments"]) if match["tool"] else {"command": match["command"].strip()}
        if name in tools:
            calls.append(Call(name, arguments))
    return calls


def spoken(prompt: str, everything: str) -> str:
    """Say what is left to say once no tool is to be called: the answer to a question, or an acknowledgement."""
    if said := re.search(r"\bSAY: (.+)", prompt):
        return said[1]
    if big := re.search(r"\bBIG: (\d+)", prompt):
        size = int(big[1])
        return ("all work and no play " * (size // 21 + 1))[:size]
    question = prompt.rstrip()
    if question.endswith(("?", "？", "؟")):
        last = question.splitlines()[-1]
        answers = [fact.value for fact in facts(everything) if fact.name in last]
        return answers[-1] if answers else "UNKNOWN"
    kept = sentences(prompt)
    return "Noted." + "".join(f" {line}." for line in kept)[:2000]


def agent_answer(request: Request, control: Control, failures: dict[str, int]) -> Reply:
    """Obey the directives of the last user message; `failures` counts per message how often it failed already."""
    users = [index for index, said in enumerate(request.messages) if said.role == "user"]
    last = users[-1] if users else len(request.messages) - 1
    prompt = request.messages[last].text if request.messages else ""
    if fail := re.search(r"\bFAIL: (\d{3})(?: x(\d+))?", prompt):
        count = failures.get(prompt, 0)
        if count < int(fail[2] or 1):
            failures[prompt] = count + 1
            return Reply(status=int(fail[1]))
    slow, stall = (re.search(rf"\b{word}: ([\d.]+)", prompt) for word in ("SLOW", "STALL"))
    thought, hidden = (re.search(rf"\b{word}: (.+)", prompt) for word in ("THINK", "HIDDEN"))
    base = Reply(
        delay=control.agent_delay + (float(slow[1]) if slow else 0.0),
        stall=float(stall[1]) if stall else 0.0,
        cut=bool(re.search(r"\bCUT\b", prompt)),
        thought=thought[1] if thought else "",
        hidden=hidden[1] if hidden else "",
    )
    done = sum(said.role == "tool" for said in request.messages[last + 1 :])
    calls = steps(prompt, request.tools)
    if "TOGETHER" in prompt and calls and not done:
        return base._replace(calls=tuple(calls))
    if done < len(calls):
        return base._replace(calls=(calls[done],))
    return base._replace(text=spoken(prompt, "\n".join(said.text for said in request.messages)))


def answer(request: Request, control: Control, failures: dict[str, int]) -> Reply:
    """Decide what to answer to a chat request."""
    return server_answer(request, control) or agent_answer(request, control, failures)
