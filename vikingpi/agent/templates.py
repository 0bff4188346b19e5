"""Prompt templates and skills: `/name arguments` becomes the text that is sent and stored.

A template is `NAME.md` in a folder `prompts`. Its text may hold `$1`, `$2` .., `$@` or `$ARGUMENTS` (all of them),
`${1:-default}` and `${@:N}` or `${@:N:L}` (L arguments from the N-th on). A skill is `NAME/SKILL.md` in a folder
`skills`; the model is told its name, description and path, and `/skill:NAME arguments` sends the whole of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vikingpi.agent.frontmatter import read_page
from vikingpi.values import NamedTuple

_PLACE = re.compile(r"\$(?:(\d+)|(@|ARGUMENTS)|\{(\d+):-([^}]*)\}|\{@:(\d+)(?::(\d+))?\})")
_CALL = re.compile(r"/(\S+)(?:\s+(.*))?\Z", re.DOTALL)
SKILL_PREFIX = "skill:"


class Template(NamedTuple):
    name: str
    description: str
    text: str


class Skill(NamedTuple):
    """`path` is the absolute path of its SKILL.md."""

    name: str
    description: str
    path: str


class Library(NamedTuple):
    """What `/name` can call, by name."""

    templates: Mapping[str, Template] = {}
    skills: Mapping[str, Skill] = {}

    def names(self) -> tuple[tuple[str, str], ...]:
        """Return (name without the slash, description), for completion."""
        skills = ((SKILL_PREFIX + name, skill.description) for name, skill in self.skills.items())
        return (*((one.name, one.description) for one in self.templates.values()), *skills)

    def expand(self, prompt: str) -> str:
        """Return what is sent for a prompt: a call is expanded, anything else stays as it is."""
        called = _CALL.match(prompt)
        if called is None:
            return prompt
        name, given = called[1], (called[2] or "").strip()
        if name in self.templates:
            return fill(self.templates[name].text, split_arguments(given))
        skill = self.skills.get(name.removeprefix(SKILL_PREFIX)) if name.startswith(SKILL_PREFIX) else None
        page = read_page(Path(skill.path)) if skill is not None else None
        if skill is None or page is None:
            return prompt
        folder = Path(skill.path).parent
        note = f"Relative paths in this skill are relative to {folder}."
        block = f'<skill name="{skill.name}" location="{skill.path}">\n{note}\n\n{page.text}\n</skill>'
        return f"{block}\n\n{given}" if given else block


def find_templates(folders: Iterable[Path]) -> dict[str, Template]:
    """Read the templates of the folders; of two with one name the first counts."""
    found: dict[str, Template] = {}
    for path in (path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.md"))):
        page = read_page(path)
        if page is not None and page.text and " " not in path.stem:
            first = page.text.partition("\n")[0]
            found.setdefault(path.stem, Template(path.stem, page.head.get("description") or first[:80], page.text))
    return found


def find_skills(folders: Iterable[Path]) -> dict[str, Skill]:
    """Read the heads of the skills; one without a description is none, of two with one name the first counts."""
    found: dict[str, Skill] = {}
    for path in (path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*/SKILL.md"))):
        page = read_page(path)
        if page is not None and page.head.get("description"):
            name = page.head.get("name") or path.parent.name
            found.setdefault(name, Skill(name, page.head["description"], str(path.absolute())))
    return found


def skills_text(skills: Iterable[Skill]) -> str:
    """Write what the model is told about skills; empty without any."""
    lines = [f"- {skill.name}: {skill.description} ({skill.path})" for skill in skills]
    if not lines:
        return ""
    lead = (
        "Instructions for special tasks. When a task fits one, read its file first and follow it; paths in it are"
        " relative to its folder."
    )
    return "\n".join([lead, *lines])


def split_arguments(text: str) -> list[str]:
    """Split at blanks outside of quotes; a text with an unclosed quote at every blank."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def fill(text: str, arguments: Sequence[str]) -> str:
    """Put arguments into the text of a template; a missing one is empty."""

    def value(found: re.Match[str]) -> str:
        number, everything, optional, default, start, length = found.groups()
        if number or optional:
            place = int(number or optional) - 1
            return arguments[place] if 0 <= place < len(arguments) else default or ""
        if everything:
            return " ".join(arguments)
        first = max(0, int(start) - 1)
        return " ".join(arguments[first : first + int(length) if length else None])

    return _PLACE.sub(value, text)
