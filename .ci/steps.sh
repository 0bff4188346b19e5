# Shared by .ci/run and .ci/nightly; sourced with `project` set.

# run_steps NAME [--beside FILE] FILE...: run the executables among the files, print how each ended, exit with 1 if one
# failed. The one that is run `--beside` the others shows its output at the end: it and they wait most of the time.
run_steps() {
  local name=$1 step beside='' pid=0 out=''
  passed=0 failed=0
  shift
  cd "$project" || exit 1
  # What the machine has set up for its user must not decide what is checked.
  for step in "${!OPENVIKING_@}" "${!OV_@}" "${!E2E_@}"; do unset "$step"; done
  if [[ ${1-} == --beside ]]; then
    beside=$2
    shift 2
    out=$(mktemp)
    "$beside" </dev/null >"$out" 2>&1 &
    pid=$!
    trap 'kill '"$pid"' 2>/dev/null; rm -f -- "'"$out"'"' EXIT
  fi
  for step in "$@"; do
    [[ -f $step && -x $step ]] || continue
    echo "=== ${step#"$project"/}"
    began=$SECONDS
    "$step" </dev/null
    ended "$step" $?
  done
  if [[ -n $beside ]]; then
    began=0
    wait "$pid"
    step=$?
    echo "=== ${beside#"$project"/}"
    cat -- "$out"
    ended "$beside" "$step"
  fi
  echo "$name: $passed passed, $failed failed in $SECONDS s"
  ((failed == 0)) || exit 1
}

# ended FILE CODE: count a step and print how it ended; `began` is when.
ended() {
  if (($2 == 0)); then
    passed=$((passed + 1))
    echo "=== ${1#"$project"/}: passed in $((SECONDS - began)) s"
  else
    failed=$((failed + 1))
    echo "=== ${1#"$project"/}: FAILED with exit code $2 after $((SECONDS - began)) s"
  fi
}
