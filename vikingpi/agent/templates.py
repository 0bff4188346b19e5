"""Prompt templates and skills: `/name arguments` becomes the text that is sent and stored.

A template is `NAME.md` in a folder `prompts`. Its text may hold `$1`, `$2` .., `$@` or `$ARGUMENTS` (all of them),
`${1:-default}` and `${@:N}` or `${@:N:L}` (L arguments from the N-th on). A skill is `NAME/SKILL.md` in a folder
`skills`; the model is told its name, description and path, and `/skill:NAME arguments` sends the whole of it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from vikingpi.agent.frontmatter import Page, read_page
from vikingpi.values import NamedTuple

_PLACE = re.compile(r"\$(?:(\d+)|(@|ARGUMENTS)|\{(\d+):-([^}]*)\}|\{@:(\d+)(?::(\d+))?\})")
_CALL = re.compile(r"/(\S+)(?:\s+(.*))?\Z", re.DOTALL)
SKILL_PREFIX = "skill:"
# What the agents that read such files agree on; TOLD_LIMIT is ours, for all skills together.
NAME_LIMIT, DESCRIPTION_LIMIT, TOLD_LIMIT = 64, 1024, 60_000
_NAME = rf"\w[\w.-]{{0,{NAME_LIMIT - 1}}}"
Tell = Callable[[str], None]


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
    """What `/name` can call, by name; `notices` say which files are not as they were meant."""

    templates: Mapping[str, Template] = {}
    skills: Mapping[str, Skill] = {}
    notices: tuple[str, ...] = ()

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
        if skill is None or not isinstance(page, Page):
            return prompt
        folder = Path(skill.path).parent
        note = f"Relative paths in this skill are relative to {folder}."
        block = f'<skill name="{skill.name}" location="{skill.path}">\n{note}\n\n{page.text}\n</skill>'
        return f"{block}\n\n{given}" if given else block


def find_templates(folders: Iterable[Path], tell: Tell) -> dict[str, Template]:
    """Read the templates of the folders; of two with one name the first counts."""
    found: dict[str, Template] = {}
    places: dict[str, Path] = {}
    for path, page in _pages(folders, "*.md", tell):
        name, first = path.stem, page.text.partition("\n")[0]
        if not page.text:
            tell(f"{path} is left out: it is empty")
        elif re.search(r"\s", name):
            tell(f"{path} is left out: nobody can call a name with a blank")
        elif name in found:
            tell(f"{path} is left out: {places[name]} has the same name")
        else:
            places[name] = path
            about = _one_line(page.head.get("description", "") or first[:80])
            found[name] = Template(name, about[:DESCRIPTION_LIMIT], page.text)
    return found


def find_skills(folders: Iterable[Path], tell: Tell) -> dict[str, Skill]:
    """Read the heads of the skills; one without a description is none, of two with one name the first counts."""
    found: dict[str, Skill] = {}
    room = TOLD_LIMIT
    for path, page in _pages(folders, "*/SKILL.md", tell):
        skill = _skill(path.absolute(), page)
        if isinstance(skill, Skill) and skill.name in found:
            skill = f"{found[skill.name].path} has the same name"
        if isinstance(skill, Skill) and room < sum(map(len, skill)):
            skill = f"the descriptions of the skills before it fill {TOLD_LIMIT} characters of the system prompt"
        if isinstance(skill, str):
            tell(f"{path} is left out: {skill}")
            continue
        room -= sum(map(len, skill))
        found[skill.name] = skill
        for note in _notes(skill, page, path.parent.name):
            tell(f"{path} {note}")
    return found


def _pages(folders: Iterable[Path], pattern: str, tell: Tell) -> Iterator[tuple[Path, Page]]:
    """Read the files that fit, each once; tell of those that are of no use."""
    seen: set[str] = set()
    for path in (path for folder in folders if folder.is_dir() for path in sorted(folder.glob(pattern))):
        if (real := os.path.realpath(path)) in seen:
            continue
        seen.add(real)
        page = read_page(path)
        if isinstance(page, str):
            tell(f"{path} is left out: {page}")
        else:
            yield path, page


def _skill(path: Path, page: Page) -> Skill | str:
    """Make the skill of a page, or say why it is none."""
    about = _one_line(page.head.get("description", ""))
    name = next((one for one in (page.head.get("name", ""), path.parent.name) if re.fullmatch(_NAME, one)), "")
    if not about:
        return "it has no description; write `description: ...` between two lines --- at its top"
    if not name:
        return f"its name must be letters, digits, -, _ and ., at most {NAME_LIMIT} of them"
    if not str(path).isprintable() or re.search('[<>"]', str(path)):
        return "its path has a character that cannot stand in the system prompt"
    return Skill(name, about if len(about) <= DESCRIPTION_LIMIT else f"{about[: DESCRIPTION_LIMIT - 3]}...", str(path))


def _notes(skill: Skill, page: Page, folder: str) -> Iterator[str]:
    """Say what was made of a skill otherwise than it is written."""
    given = page.head.get("name", "")
    if given not in ("", skill.name):
        yield f"is called {skill.name}: a name is letters, digits, -, _ and ., at most {NAME_LIMIT} of them"
    elif skill.name != folder:
        yield f"is called {skill.name} by its head, and {folder} by its folder; /skill:{skill.name} calls it"
    if len(_one_line(page.head["description"])) > DESCRIPTION_LIMIT:
        yield f"has a description that is cut: {DESCRIPTION_LIMIT} characters are the most"


def _one_line(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def skills_text(skills: Iterable[Skill]) -> str:
    """Write what the model is told about skills; empty without any."""
    lines = [f"- {skill.name}: {_escaped(skill.description)} ({skill.path})" for skill in skills]
    if not lines:
        return ""
    lead = (
        "Instructions for special tasks. When a task fits one, read its file first and follow it; paths in it are"
        " relative to its folder."
    )
    return "\n".join([lead, *lines])


def _escaped(text: str) -> str:
    """What looks like a tag would end the section that it stands in."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
