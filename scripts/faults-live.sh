#!/usr/bin/env bash
# Takeover under faults on a real OpenViking: kills, a frozen or dying server, foreign commits, bad overviews.
set -euo pipefail
project=$(CDPATH='' cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && printf %s "$PWD")
. "$project/scripts/common.sh"
make_ready run
exec "$venv/bin/python" "$project/scripts/live/faults.py" "$@"
