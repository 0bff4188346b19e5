"""3,000 session files in one folder: going on with the newest, and listing them all."""

import statistics
from collections.abc import Iterator

from figures import Figure, Single
from lab import MODEL, Lab
from paired import compare, run
from session_files import write_session

FILES = 3_000
HELLO = ("-c", "-p", "SAY: hello again")


def measure(lab: Lab) -> Iterator[Figure]:
    many, one = lab.folder / "many", lab.folder / "one"
    newest = [write_session(many, 10, lab.work, number=number) for number in range(1, FILES + 1)][-1]
    alone = write_session(one, 10, lab.work)
    ours = lab.vpi("--session-dir", str(many), *HELLO, home="many-home", says="hello again")
    ours = ours._replace(before=newest.reset)
    single = lab.vpi("--session-dir", str(one), *HELLO, home="many-home", says="hello again")
    single = single._replace(before=alone.reset)
    theirs = lab.real_pi("--session-dir", str(many), "--model", MODEL, *HELLO, home="many-pi", says="hello again")
    theirs = theirs._replace(before=newest.reset)
    yield compare(f"-c among {FILES:,} sessions", ours, theirs, lab.pairs, budget=0.6, memory_budget=0.45)
    yield compare("-c", ours, single, lab.pairs, budget=None, sides=(f"among {FILES:,}", "alone"))
    listing = lab.vpi("sessions", "--all", VPI_SESSION_DIR=str(many))
    run(listing)
    times = [run(listing).wall for _ in range(5)]
    yield Single(f"listing {FILES:,} sessions", statistics.median(times), "ms", 2000, "head and tail of each file")
