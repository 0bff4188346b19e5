from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

PROJECT = Path(__file__).resolve().parent.parent
COMPROMISED = {"litellm": {"1.82.7", "1.82.8", "1.107.0", "1.107.1"}}


def locked() -> dict[str, tuple[Version, list[str], str]]:
    """Version, hashes and marker by name."""
    text = (PROJECT / "requirements-dev.lock").read_text().replace("\\\n", " ")
    found: dict[str, tuple[Version, list[str], str]] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            head, *hashes = line.split("--hash=")
            spec, _, marker = head.partition(";")
            name, _, version = spec.strip().partition("==")
            found[name.strip()] = (Version(version.strip()), [each.strip() for each in hashes], marker.strip())
    return found


def wanted() -> list[Requirement]:
    data = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in (*data["dependencies"], *data["optional-dependencies"]["dev"])]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_fits_what_the_project_asks_for() -> None:
    found = locked()
    for requirement in wanted():
        assert requirement.specifier.contains(found[plain(requirement.name)][0]), requirement.name


def test_every_locked_package_has_hashes_and_nothing_else_is_in_the_file() -> None:
    found = locked()
    assert len(found) > 60
    for name, (_, hashes, _) in found.items():
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), name
    text = (PROJECT / "requirements-dev.lock").read_text()
    assert not re.search(r"https?://|git\+|--(?:index|extra|find|trusted)|^-e", text, re.MULTILINE)


@pytest.mark.parametrize("name", COMPROMISED)
def test_no_compromised_release_is_locked(name: str) -> None:
    assert str(locked()[name][0]) not in COMPROMISED[name]


def installed(name: str, folders: list[str]) -> set[str]:
    """Every version of a package that lies in some folders, also one that another hides."""
    found = metadata.distributions(name=name, path=folders)
    return {each.version for each in found}


@pytest.mark.parametrize("name", COMPROMISED)
def test_no_compromised_release_is_installed(name: str) -> None:
    assert installed(name, sys.path) & COMPROMISED[name] == set()


def test_a_compromised_release_is_noticed(tmp_path: Path) -> None:
    for number, version in enumerate(("1.108.0", "1.82.8")):
        folder = tmp_path / str(number) / f"litellm-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: litellm\nVersion: {version}\n")
    assert installed("litellm", [str(tmp_path / "0"), str(tmp_path / "1")]) & COMPROMISED["litellm"] == {"1.82.8"}


def test_every_bound_of_the_development_tools_has_an_upper_end() -> None:
    for requirement in wanted():
        assert {"<", ">="} <= {each.operator for each in requirement.specifier}, requirement.name
