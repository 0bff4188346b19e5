# Shared by .ci/run and .ci/nightly; sourced with `project` set.

# run_steps NAME FILE...: run the executables among the files, print how each ended, exit with 1 if one failed.
run_steps() {
  local name=$1 step code passed=0 failed=0 begun
  shift
  cd "$project" || exit 1
  # What the machine has set up for its user must not decide what is checked.
  for step in "${!OPENVIKING_@}" "${!OV_@}" "${!E2E_@}"; do unset "$step"; done
  for step in "$@"; do
    [[ -f $step && -x $step ]] || continue
    echo "=== ${step#"$project"/}"
    begun=$SECONDS
    "$step" </dev/null
    code=$?
    if ((code == 0)); then
      passed=$((passed + 1))
      echo "=== ${step#"$project"/}: passed in $((SECONDS - begun)) s"
    else
      failed=$((failed + 1))
      echo "=== ${step#"$project"/}: FAILED with exit code $code after $((SECONDS - begun)) s"
    fi
  done
  echo "$name: $passed passed, $failed failed in $SECONDS s"
  ((failed == 0)) || exit 1
}
