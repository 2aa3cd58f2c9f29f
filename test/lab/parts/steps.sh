# shellcheck shell=bash
# How the lab says what it does, waits and gives up.

fail() {
  if [[ -n ${step_open:-} ]]; then echo; fi
  printf 'lab: %s\n' "$*" >&2
  exit 1
}

# step NAME COMMAND...: runs it, says how long it took.
step() {
  local name=$1 start end
  shift
  start=${EPOCHREALTIME/./}
  printf 'lab: %-42s' "$name"
  step_open=1
  "$@"
  step_open=
  end=${EPOCHREALTIME/./}
  printf ' %4d.%d s\n' $(((end - start) / 1000000)) $(((end - start) / 100000 % 10))
}

# wait_for SECONDS WHAT LOG COMMAND...: repeats the command until it succeeds.
wait_for() {
  local limit=$1 what=$2 log=$3 deadline=$((SECONDS + $1))
  shift 3
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= deadline)); then
      fail "$what did not happen within $limit s; read $log"
    fi
    sleep 0.1
  done
}

# write_file PATH: standard input becomes the file, whole or not at all.
write_file() {
  cat >"$1.new"
  mv "$1.new" "$1"
}
