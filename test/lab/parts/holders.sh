# shellcheck shell=bash
# The processes that a lab consists of. Each of its machines (the fabric, and the hosts) is one tree below
# an unshare that holds all its namespaces; its command line names the machine and the lab. So what runs is
# read from /proc and nowhere else: there is no state that could be stale.

# tag MACHINE: the argument that marks a holder of this lab.
tag() { printf 'egress-lab:%s:%s' "$1" "$LAB_DIR"; }

# holder MACHINE: the holder's process id, or nothing.
holder() {
  local file
  while read -r file; do
    # Others may name the tag too, such as the grep that looks for it.
    if [[ $(<"${file%cmdline}comm") == unshare ]]; then basename "${file%/cmdline}"; fi
  done < <(grep -lzxF -e "$(tag "$1")" /proc/[0-9]*/cmdline 2>/dev/null) 2>/dev/null
}

# init_of MACHINE: the process id of its first process, or nothing.
init_of() {
  local pid children
  pid=$(holder "$1")
  if [[ -z $pid ]]; then return; fi
  read -r children _ <"/proc/$pid/task/$pid/children" || true
  printf '%s' "${children:-}"
}

# machines: the names of those that run.
machines() {
  local argument
  cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep '^egress-lab:' | sort -u |
    while IFS= read -r argument; do
      argument=${argument#egress-lab:}
      if [[ ${argument#*:} == "$LAB_DIR" && -n $(holder "${argument%%:*}") ]]; then echo "${argument%%:*}"; fi
    done
}

running_hosts() { machines | grep '^kvm' | sort -V || true; }

# start_holder MACHINE LOG ARGUMENT...: starts init/fabric or init/host in namespaces of its own. Neither
# the terminal nor a lock of this shell is held by it.
start_holder() {
  local machine=$1 log=$2 program
  shift 2
  case $machine in fabric) program=$here/init/fabric ;; *) program=$here/init/host ;; esac
  setsid unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc \
    -- /bin/bash "$program" "$(tag "$machine")" "$@" </dev/null >"$log" 2>&1 9>&- &
  disown
  wait_for 10 "the start of $machine's first process" "$log" has_init "$machine"
}

has_init() { [[ -n $(init_of "$1") ]]; }

# stop_machine MACHINE: ends it and everything in it, and waits until all is gone.
stop_machine() {
  local pid init
  pid=$(holder "$1")
  if [[ -z $pid ]]; then return; fi
  init=$(init_of "$1")
  # The first process of a process namespace takes all others with it; only KILL reaches it.
  kill -KILL ${init:+"$init"} "$pid" 2>/dev/null || true
  wait_for 60 "the end of $1's processes" "the process list" is_gone "$1" "$pid" "$init"
  # The kernel takes a network namespace apart a moment after its last process, and cables with it.
  wait_for 60 "the end of $1's network" "ip link in the fabric" cable_is_gone "$1"
}

# cable_is_gone MACHINE: no cable leads to it, neither from the fabric nor from here.
cable_is_gone() {
  if [[ $1 == fabric ]]; then
    root_link_is_gone
  else
    [[ -z $(init_of fabric) ]] || ! on_network fabric ip link show "$1"
  fi
}

is_gone() { [[ -z $(holder "$1") && ! -d /proc/$2 && (-z $3 || ! -d /proc/$3) ]]; }

# inside MACHINE COMMAND...: runs it in the machine's namespaces, in this directory where it exists there.
inside() {
  local init
  init=$(init_of "$1")
  if [[ -z $init ]]; then fail "$1 does not run; see: lab status"; fi
  shift
  # shellcheck disable=SC2016 # expanded by that shell
  nsenter --target "$init" --mount --net --pid --uts --ipc -- \
    /bin/bash -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@" 9>&-
}

# on_network MACHINE COMMAND...: the same, but in its network only.
on_network() {
  local init
  init=$(init_of "$1")
  if [[ -z $init ]]; then fail "$1 does not run; see: lab status"; fi
  shift
  nsenter --target "$init" --net -- "$@"
}
