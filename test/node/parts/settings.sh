# shellcheck shell=bash
# Where the node is and which addresses it uses. Sourced after the lab's own settings.

node_dir=$LAB_DIR/node
bin_dir=$repo/bin/k8s
kubeconfig=$node_dir/admin.kubeconfig
# Of the lab's LAN: hosts have .11 to .59, guests .128 and up. Pods stand on the LAN themselves, so that
# they reach hosts and guests without a route or a translation.
node_ip=$lan_net.3
pods_first=$lan_net.64
pods_last=$lan_net.119
service_cidr=10.0.0.0/24
service_ip=10.0.0.1 # of the Service "kubernetes": an address of the node itself, so no kube-proxy is needed
node_name=node1
pause_image=lab.test/pause

# The node has a mark of its own, so that the lab's commands do not take it for a host.
tag() {
  if [[ $1 == node ]]; then printf 'egress-node:%s' "$LAB_DIR"; else printf 'egress-lab:%s:%s' "$1" "$LAB_DIR"; fi
}

# in_node COMMAND...: the same as the lab's inside, and in the node's cgroup namespace.
in_node() {
  local init
  init=$(init_of node)
  if [[ -z $init ]]; then fail "it does not run; see: node up"; fi
  # shellcheck disable=SC2016 # expanded by that shell
  nsenter --target "$init" --mount --net --pid --uts --ipc --cgroup -- \
    /bin/bash -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@" 9>&-
}

env_lines() {
  [[ -r $kubeconfig ]] || fail "the node is not up; run: node up"
  cat <<EOF
export KUBECONFIG='$kubeconfig'
export NODE_DIR='$node_dir'
export NODE_NAME='$node_name'
export PATH='$bin_dir':"\$PATH"
EOF
}
