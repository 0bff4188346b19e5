"""Resume: what a session costs that has grown long, against a short one, and against pi."""

import shutil
from collections.abc import Callable, Iterator

from figures import Compared, Figure, Skipped
from lab import MODEL, Lab
from paired import Command, compare
from session_files import Ending, SessionFile, write_session

HELLO = ("-p", "SAY: hello again")
SAID = "hello again"


def measure(lab: Lab) -> Iterator[Figure]:
    for ending in ("takeover", "compaction"):
        short = ours(lab, session(lab, 10, ending))
        for entries, budget in ((1_000, 1.1), (10_000, 1.1), (100_000, 1.1), (1_000_000, 1.15)):
            long = ours(lab, session(lab, entries, ending))
            yield against_short(lab, entries, ending, long, short, budget)
            shutil.rmtree(lab.cache / "sessions" / f"{ending}-{entries}")
    pairs = max(3, lab.pairs // 3)
    for entries, budget in ((10, None), (1_000, None), (10_000, None), (100_000, 1.5)):
        whole = session(lab, entries, "")
        name = f"resume of the full history, {entries:,} entries"
        yield compare(f"{name}, new to the store", ours(lab, whole), theirs(lab, whole), pairs, budget=budget)
    off = ours(lab, whole, "--store", "off")
    yield compare(f"{name}, without a store", off, theirs(lab, whole), pairs, budget=budget)
    shutil.rmtree(lab.cache / "sessions")
    yield Skipped("resume of the full history, 1,000,000 entries", "no model takes such a request, and pi no such file")


def against_short(lab: Lab, entries: int, ending: Ending, long: Command, short: Command, budget: float) -> Compared:
    name, sides = f"resume with a {ending}", (f"{entries:,}", "10 entries")
    return compare(name, long, short, lab.pairs, budget=budget, memory_budget=budget, sides=sides)


def session(lab: Lab, entries: int, ending: Ending) -> SessionFile:
    """Make a session; where all of it is sent, its texts are short, so that the request does not outweigh the rest."""
    folder = lab.cache / "sessions" / f"{ending or 'whole'}-{entries}"
    shutil.rmtree(folder, ignore_errors=True)
    return write_session(folder, entries, lab.work, ending, words=4 if ending else 0)


def ours(lab: Lab, file: SessionFile, *flags: str) -> Command:
    command = lab.vpi("--session", str(file.path), *flags, *HELLO, home="resume", says=SAID)
    return command._replace(before=fresh(lab, file))


def theirs(lab: Lab, file: SessionFile) -> Command:
    command = lab.real_pi("--session", str(file.path), "--model", MODEL, *HELLO, home="resume-pi", says=SAID)
    return command._replace(before=file.reset)


def fresh(lab: Lab, file: SessionFile) -> Callable[[], None]:
    """Give what makes each run the first one: the file as it was, no ledger and no store."""

    def reset() -> None:
        file.reset()
        for path in (lab.folder / "resume").glob("*.db*"):
            path.unlink()

    return reset
