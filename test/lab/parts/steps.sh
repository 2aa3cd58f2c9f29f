# shellcheck shell=bash
# How the lab, and the node that uses these too, say what they do, wait and give up.
program=${program:-lab}

fail() {
  if [[ -n ${step_open:-} ]]; then echo; fi
  printf '%s: %s\n' "$program" "$*" >&2
  exit 1
}

# step NAME COMMAND...: runs it, says how long it took.
step() {
  local name=$1 start end
  shift
  start=${EPOCHREALTIME/./}
  printf '%s: %-42s' "$program" "$name"
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
