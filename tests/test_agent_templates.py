from pathlib import Path

import pytest

from vikingpi.agent.frontmatter import parse_page
from vikingpi.agent.templates import Library, find_skills, find_templates, skills_text

TEXT = "Review $1 in ${2:-main}: $@ | $ARGUMENTS | ${@:2} | ${@:2:1} | $9 costs $5"


def folder(place: Path, **files: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / f"{name}.md").write_text(text)
    return place


def skill(place: Path, name: str, text: str) -> Path:
    path = place / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("/review", "Review  in main:  |  |  |  |  costs "),
        ("/review a.py", "Review a.py in main: a.py | a.py |  |  |  costs "),
        ("/review 'a b' dev x", "Review a b in dev: a b dev x | a b dev x | dev x | dev |  costs "),
        ("/review it's", "Review it's in main: it's | it's |  |  |  costs "),
        ("/review\n$1", "Review $1 in main: $1 | $1 |  |  |  costs "),
        ("/other a", "/other a"),
        ("/etc/hosts is odd", "/etc/hosts is odd"),
        (" /review a", " /review a"),
        ("", ""),
    ],
)
def test_a_template_is_filled_with_what_follows_its_name(tmp_path: Path, prompt: str, sent: str) -> None:
    library = Library(find_templates([folder(tmp_path, review=TEXT)]))
    assert library.expand(prompt) == sent


def test_the_first_of_two_templates_with_one_name_counts(tmp_path: Path) -> None:
    mine = folder(tmp_path / "a", fix="---\ndescription: Mine\n---\nfix it", empty="")
    theirs = folder(tmp_path / "b", fix="theirs", plain="\n\nFirst line\nsecond")
    library = Library(find_templates([mine, tmp_path / "nowhere", theirs]))
    assert library.expand("/fix") == "fix it"
    assert library.names() == (("fix", "Mine"), ("plain", "First line"))


def test_a_skill_is_named_to_the_model_and_sent_whole_when_called(tmp_path: Path) -> None:
    path = skill(tmp_path, "pdf", "---\nname: pdf-tools\ndescription: >\n  Reads\n  PDF files\n---\nUse pdftotext.\n")
    skill(tmp_path, "nameless", "no head at all")
    skills = find_skills([tmp_path])
    assert list(skills) == ["pdf-tools"]
    assert skills_text(skills.values()).endswith(f"\n- pdf-tools: Reads PDF files ({path})")
    assert skills_text([]) == ""
    library = Library({}, skills)
    assert library.names() == (("skill:pdf-tools", "Reads PDF files"),)
    sent = library.expand("/skill:pdf-tools read a.pdf")
    assert sent.startswith(f'<skill name="pdf-tools" location="{path}">\n')
    assert "\n\nUse pdftotext.\n</skill>\n\nread a.pdf" in sent
    assert library.expand("/skill:pdf-tools").endswith("</skill>")
    assert library.expand("/pdf-tools") == "/pdf-tools"
    path.unlink()
    assert library.expand("/skill:pdf-tools x") == "/skill:pdf-tools x"


@pytest.mark.parametrize(
    ("text", "head", "rest"),
    [
        ("---\na: 1\nb: 'two: 2'\n---\nrest", {"a": "1", "b": "two: 2"}, "rest"),
        ("---\na: 1", {}, "---\na: 1"),
        ("---\na: 1\n---more\nrest", {}, "---\na: 1\n---more\nrest"),
        ("---\n# note: x\nlist:\n  - one\n- two\n---", {"list": "- one"}, ""),
        ("rest\n---\na: 1\n---", {}, "rest\n---\na: 1\n---"),
    ],
)
def test_a_head_is_read_only_where_it_is_one(text: str, head: dict[str, str], rest: str) -> None:
    assert parse_page(text) == (head, rest)
