# shellcheck shell=bash
# lab down: nothing that runs stays.

down() {
  local option=${1:-}
  if [[ -n $option && $option != --purge ]]; then fail "down knows --purge, not $option"; fi
  if [[ -d $LAB_DIR ]]; then lock; fi
  if [[ -n $(machines) ]]; then
    step "stopping $(machines | xargs)" stop_all
  else
    echo "lab: nothing runs"
  fi
  if [[ -d $LAB_DIR ]]; then
    rm -rf "$LAB_DIR/hosts" "$LAB_DIR/fabric" "$LAB_DIR/providers.yaml" "$LAB_DIR/lab.env" "$LAB_DIR/index"
  fi
  if [[ $option == --purge ]]; then
    rm -rf "$LAB_DIR"
    echo "lab: $LAB_DIR removed; images stay, see: image --help"
  fi
}

# Hosts first, so that none of them sees its network go.
stop_all() {
  local machine
  for machine in $(running_hosts) fabric; do stop_machine "$machine"; done
}

# A link that is another lab's is not ours to wait for.
root_link_is_gone() {
  local alias=/sys/class/net/$root_link/ifalias
  [[ ! -e $alias || $(<"$alias") != "$LAB_DIR" ]]
}

lock() {
  exec 9>"$LAB_DIR/lock"
  flock --timeout 300 9 || fail "another lab command has held $LAB_DIR/lock for 5 minutes"
}
