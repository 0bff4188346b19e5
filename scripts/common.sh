# Shared by the scripts beside it: where the project and its virtual environment are, and how they are made ready.
# Sourced with `project` set to the project's folder; nothing here leaves the shell options changed.

venv=${VPI_VENV:-$project/.venv}

# Print the first Python 3.11 or newer, or say what is missing and fail. VPI_PYTHON names another one.
find_python() {
  local candidate
  for candidate in ${VPI_PYTHON:+"$VPI_PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  {
    echo "${0##*/}: no Python 3.11 or newer was found (python3 is $(python3 --version 2>/dev/null || echo 'not there'))"
    echo "hint: install Python 3.11 or newer, or name one: VPI_PYTHON=/path/to/python3.11"
  } >&2
  return 1
}

# Whether the environment was made for this folder, this pyproject.toml and this package version. Starts no process.
is_ready() {
  local stamp=$venv/.vpi-$1 made project_file package_file
  [[ -x $venv/bin/python && -f $stamp ]] || return 1
  IFS= read -r -d '' made <"$stamp"
  IFS= read -r -d '' project_file <"$project/pyproject.toml"
  IFS= read -r -d '' package_file <"$project/vikingpi/__init__.py"
  [[ $made == "$project"$'\n'"$project_file$package_file" ]]
}

# Make the environment ready for "run" (the program) or "dev" (the checks too); does nothing when it is.
make_ready() {
  local python
  is_ready "$1" && return 0
  python=$(find_python) || return 1
  "$python" -I "$project/scripts/environment.py" "$project" "$venv" "$1" "$python"
}
