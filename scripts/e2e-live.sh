#!/usr/bin/env bash
# The live acceptance: six one-shot turns of one session, judged by the bytes that reached the model and by what the
# store holds. `scripts/e2e-live.sh --help` says which server and model it runs on.
set -euo pipefail
project=$(CDPATH='' cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && printf %s "$PWD")
. "$project/scripts/common.sh"
make_ready run
exec "$venv/bin/python" "$project/scripts/live/e2e.py" "$@"
