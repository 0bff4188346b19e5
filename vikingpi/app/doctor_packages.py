"""What `vpi doctor` says of the packages that vpi was installed with."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata

from vikingpi.app.doctor_checks import Answer

COMPROMISED = {"litellm": re.compile(r"1\.82\.[78]|1\.107\..*")}


def check_packages(
    requires: Callable[[str], list[str] | None] = metadata.requires, version: Callable[[str], str] = metadata.version
) -> Answer:
    """Name the installed versions of what vpi needs; bad where one is missing or known to steal secrets."""
    try:
        wanted = [line for line in requires("vikingpi") or () if "extra ==" not in line]
    except metadata.PackageNotFoundError:
        return Answer("vpi is not installed, it runs from its source")
    versions: dict[str, str] = {}
    for name in sorted(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in wanted):
        try:
            versions[name] = version(name)
        except metadata.PackageNotFoundError:
            return Answer(f"{name} is missing", bad=True, hint="install vikingpi again")
    for name, pattern in COMPROMISED.items():
        if pattern.fullmatch(found := versions.get(name, "")):
            hint = "remove this environment, install vikingpi again and replace every key that was used on this machine"
            return Answer(f"{name} {found} is a compromised release that steals keys", bad=True, hint=hint)
    return Answer(", ".join(f"{name} {found}" for name, found in versions.items()))
