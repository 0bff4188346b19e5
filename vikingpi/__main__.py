import sys
from pathlib import Path

# `python -m` looks for modules in the current folder first, and that may be anybody's.
if not sys.flags.safe_path and not Path(sys.path[0]).samefile(Path(__file__).parent.parent):
    del sys.path[0]

from vikingpi.cli import main

main()
