# shellcheck shell=bash
# node down: no process, mount, link, cgroup or file stays.

down() {
  if [[ -n $(holder node) ]]; then step "stopping node" stop_node; else echo "node: nothing runs"; fi
  pull_cable
  wait_for 30 "the end of its cgroups" "$(left_cgroups | head -1)" remove_cgroups
  rm -rf "$node_dir"
}

stop_node() {
  local pid init
  pid=$(holder node)
  init=$(init_of node)
  # The first process of a process namespace takes all others with it; only KILL reaches it.
  kill -KILL ${init:+"$init"} "$pid" 2>/dev/null || true
  wait_for 60 "the end of its processes" "the process list" is_gone node "$pid" "$init"
}

# The kernel keeps a network for minutes where a connection's other end went without a word, and the cable
# with it. Nobody waits for that.
pull_cable() {
  if [[ -n $(init_of fabric) ]] && cable_is_there; then on_network fabric ip link delete node; fi
}
