"""Read messages into the lines of an overview's sections. Pure and deterministic; nothing is added to what was said."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.viking.base import StoreMessage
from vikingpi.viking.facts import (
    asks,
    condense,
    cut_line,
    fact_subject,
    is_acknowledgement,
    is_change,
    is_correction,
    is_open,
    is_switch,
    one_line,
    open_ends,
    sentences,
    stated,
    tool_facts,
    valued,
)
from vikingpi.viking.words import telling, terms

Lines = dict[str, list[str]]

NOT_ANSWERED = "Not answered yet: "
FAILED_LAST = "Failed last: "

_MASKED = "[masked:"
_HEAD, _TAIL = 4000, 2000
_SHORT = 160
_CHANGES = {"edit": "edited", "write": "written"}
_NAMES_FAILURE = r"FAILED |E {2,}\S|fatal: |(?:[\w.]*(?:Error|Exception)|error(?:\[\w+\])?|panic)\b.*?: "


def digest(messages: Sequence[StoreMessage], known: str, asked: str = "", still_open: Sequence[str] = ()) -> Lines:
    """Return the new lines of each section; facts that `known` or an earlier line already says are left out.

    `asked` is a request from before these messages which they may answer, `still_open` what was to be done before
    them: of that the open issues keep what no answer speaks of.
    """
    reader = _Reader(known, asked, still_open)
    for message in messages:
        text = "\n".join(as_str(part.get("text")) for part in message.parts if part.get("type") == "text").strip()
        if message.role == "assistant":
            reader.assistant(text, [part for part in message.parts if part.get("type") == "tool"])
        elif text and message.kind == "tool_transport":
            reader.note(text)
        elif text:
            reader.user(text)
    return reader.finish()


class _Reader:
    """Walks through a conversation once, in order."""

    def __init__(self, known: str, asked: str, still_open: Sequence[str]) -> None:
        self._said = _folded(known)
        self._title = ""
        self._state: list[str] = []
        self._goals: list[str] = []
        self._facts: list[str] = []
        self._files: list[str] = []
        self._errors: list[str] = []
        self._issues = list(still_open)
        self._asked = asked
        self._answer = ""
        self._failed = ""

    def user(self, text: str) -> None:
        """Take a user's message: a statement, a correction or a task."""
        answers = asks(self._answer) and not asks(text)
        self._end_turn()
        self._asked = one_line(text, 120)
        self._title = self._title or _title(text)
        self._follow(f'the user said "{one_line(text, 120)}"')
        head, facts = condense(text)
        # What is taken back may be a value too: "actually, we use another one".
        told = stated(text) or is_switch(text)
        if is_correction(text) and not (told and is_change(text)):
            self._errors.append(f"User: {head}")
        elif told or (answers and not is_acknowledgement(text)):
            self._facts.append(f"User: {head}")
        elif not is_acknowledgement(text):
            self._goals.append(f"User: {head}")
        self._said += "\n" + _folded(head)
        for fact in facts:
            self._fact("User", fact)
        self._issues += [f"User: {one}" for one in open_ends(text)]

    def note(self, text: str) -> None:
        """Take what stands in the user role without being the user's words."""
        head, facts = condense(text, whole=200)
        self._files.append(f"noted: {one_line(head, 200)}")
        for fact in (*facts, *valued(text)):
            self._fact("Output", fact)

    def assistant(self, text: str, calls: Sequence[Json]) -> None:
        if text:
            self._answer = one_line(condense(text, whole=240).head, 240)
            self._follow(f'the agent said "{one_line(text, 120)}"')
            for fact in valued(text):
                if not is_open(fact):
                    self._fact("Agent", fact)
            self._settle(text)
            self._issues += open_ends(text)
        for call in calls:
            self._call(as_str(call.get("tool_name"), "tool"), as_dict(call.get("tool_input")), call)

    def finish(self) -> Lines:
        asked = self._asked if not self._answer else ""
        self._end_turn()
        if asked:
            self._issues.append(f"{NOT_ANSWERED}{asked}")
        if self._failed:
            self._issues.append(f"{FAILED_LAST}{self._failed}")
        self._follow("")
        return {
            "Session Title": [self._title] if self._title else [],
            "Current State": self._state,
            "Task & Goals": self._goals,
            "Key Facts & Decisions": self._facts,
            "Files & Context": self._files,
            "Errors & Corrections": self._errors,
            "Open Issues": self._issues,
        }

    def _end_turn(self) -> None:
        if self._answer and not is_acknowledgement(self._answer):
            self._state.append(f"Asked: {self._asked} | Answer: {self._answer}" if self._asked else self._answer)
        self._asked = self._answer = ""

    def _call(self, name: str, given: Json, call: Json) -> None:
        output = as_str(call.get("tool_output"))
        subject = _subject(name, given)
        if as_str(call.get("tool_status")) == "error":
            self._follow(f"{subject} failed too")
            self._failed = subject
            self._errors.append(f"{subject} failed: {_failure(output)}")
            return
        self._follow(f"{subject} worked")
        path = as_str(given.get("path"))
        if name in _CHANGES and path:
            self._files.append(f"changed: {path} ({_CHANGES[name]})")
        elif name == "read" and path:
            self._files.append(f"read: {path}")
        else:
            self._files.append(f"ran: {subject} -> {_outcome(output) or 'ok'}")
        for fact in tool_facts(_ends(output)):
            self._fact("Output", fact)

    def _follow(self, what: str) -> None:
        """Complete the newest failure with what came after it."""
        if self._failed and what:
            self._errors[-1] += f"; then {what}"
        self._failed = ""

    def _settle(self, text: str) -> None:
        """Take off the open issues that an answer speaks of without saying that they are open."""
        if not self._issues:
            return
        told = [frozenset(terms(one)) for one in sentences(text) if not is_open(one)]
        self._issues = [issue for issue in self._issues if not any(_speaks_of(issue, words) for words in told)]

    def _fact(self, who: str, fact: str) -> None:
        # A value that was masked is no value any more.
        if _MASKED in fact:
            return
        folded = _folded(fact)
        if not re.search(rf"(?<![\w-]){re.escape(folded)}(?![\w-])", self._said):
            self._facts.append(f"{who}: {fact}")
            self._said += "\n" + folded


def _subject(name: str, given: Json) -> str:
    """Name a call: the command of a shell, the path of a file, else the tool and its arguments."""
    if command := as_str(given.get("command")):
        # The blanks of a command may be what it is about.
        line = re.sub(r"\s*\n", " ", command.strip())
        return f"`{cut_line(line, 160)}`"
    if name in (*_CHANGES, "read") and given.get("path"):
        return f"{name} {one_line(as_str(given['path']), 160)}"
    arguments = json.dumps(given, ensure_ascii=False, sort_keys=True) if given else ""
    return f"`{one_line(f'{name} {arguments}', 160)}`"


def _title(text: str) -> str:
    """Name a session by what it begins with; of a value only what it is the value of, which does not grow old."""
    return one_line(fact_subject(one_line(text)) or text, 80)


def _last_line(output: str) -> str:
    """Return the last line that says something, with the one before it when it only gives the exit code."""
    lines = [line for line in output[-_TAIL:].splitlines() if line.strip()]
    if len(lines) > 1 and lines[-1].startswith("Command "):
        return f"{one_line(lines[-2], 160)} ({one_line(lines[-1], 60)})"
    return one_line(lines[-1], 160) if lines else ""


def _failure(output: str) -> str:
    """Return what names a failure, and the last line where that is another one."""
    last = _last_line(output)
    lines = [line.strip() for line in output[-_TAIL:].splitlines()]
    named = next((line for line in reversed(lines) if re.match(_NAMES_FAILURE, line)), "")
    return last if not named or one_line(named, 160) in last else f"{one_line(named, 160)}; {last}"


def _outcome(output: str) -> str:
    """Return a short output as a whole, of a longer one the last line."""
    lines = [line for line in output[:_SHORT].splitlines() if any(map(str.isalnum, line))]
    return one_line(" ".join(lines), _SHORT) if len(output) < _SHORT else _last_line(output)


@cache
def _open_words() -> frozenset[str]:
    """Give the words that say that something is open, which say nothing of what it is."""
    return frozenset(terms("user todo fixme next step still need open missing fail remaining yet unresolved blocked"))


def _speaks_of(issue: str, words: frozenset[str]) -> bool:
    """Whether nearly all that an issue is about is among the words of a sentence."""
    about = telling(frozenset(terms(issue))) - _open_words()
    return len(about) > 1 and len(about & words) >= 0.75 * len(about)


def _ends(output: str) -> str:
    return output if len(output) <= _HEAD + _TAIL else f"{output[:_HEAD]}\n{output[-_TAIL:]}"


def _folded(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines()).casefold().rstrip(".")
