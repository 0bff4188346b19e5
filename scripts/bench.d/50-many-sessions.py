"""3,000 session files in one folder: going on with the newest, and listing them all."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from figures import Figure
from lab import MODEL, Lab
from paired import Command, compare
from session_files import SessionFile, write_session

FILES = 3_000


class Budgets(TypedDict):
    budget: float
    memory_budget: float


BUDGETS = Budgets(budget=0.6, memory_budget=0.45)
HELLO = ("-c", "-p", "SAY: hello again")


def measure(lab: Lab) -> Iterator[Figure]:
    many, one = lab.folder / "many", lab.folder / "one"
    newest = [write_session(many, 10, lab.work, number=number) for number in range(1, FILES + 1)][-1]
    alone = write_session(one, 10, lab.work)
    ours = lab.vpi("--session-dir", str(many), *HELLO, home="many-home", says="hello again")
    ours = ours._replace(before=newest.reset)
    single = lab.vpi("--session-dir", str(one), *HELLO, home="many-home", says="hello again")
    single = single._replace(before=alone.reset)
    yield compare("-c", ours, single, lab.pairs, budget=None, sides=(f"among {FILES:,}", "alone"))
    listing = lab.vpi("sessions", "--all", VPI_SESSION_DIR=str(many), says=newest.path.stem.partition("_")[2])
    yield compare(f"-c among {FILES:,} sessions", ours, theirs(lab, many, newest), lab.pairs, **BUDGETS)
    yield compare(f"listing {FILES:,} sessions", listing, pis_listing(lab, many), lab.pairs, **BUDGETS)


def theirs(lab: Lab, many: Path, newest: SessionFile) -> Command:
    command = lab.real_pi("--session-dir", str(many), "--model", MODEL, *HELLO, home="many-pi", says="hello again")
    return command._replace(before=newest.reset)


def pis_listing(lab: Lab, many: Path) -> Command:
    """Give a run of pi's own function behind its list of sessions, which it shows on a terminal only."""
    node, cli, *_ = lab.real_pi(home="many-pi").argv
    module = Path(cli).parent.parent / "core" / "session-manager.js"
    script = (
        f"import {{ SessionManager }} from {json.dumps(module.as_uri())};"
        f"console.log((await SessionManager.listAll({json.dumps(str(many))})).length)"
    )
    command = lab.real_pi(home="many-pi", says=str(FILES))
    return command._replace(argv=(node, "--input-type=module", "-e", script))
