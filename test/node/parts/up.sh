# shellcheck shell=bash
# node up: from whatever there is to a node that is Ready.

up() {
  local begun=${EPOCHREALTIME/./}
  [[ $(id -u) == 0 ]] || fail "up needs root (namespaces, cgroups, containers); run it with sudo"
  [[ -n $(init_of fabric) ]] || fail "it stands on the lab's switch, and no lab runs in $LAB_DIR; run: make lab-up"
  [[ -x $bin_dir/kubelet ]] || fail "$bin_dir/kubelet is missing; run: make k8s"
  if node_is_whole; then
    echo "node: was up already"
    return
  fi
  "$repo/hack/packages" containerd runc containernetworking-plugins iproute2 util-linux openssl jq
  step "what an earlier one left" down_quietly
  step "pause image" build_pause
  step "certificates and settings" prepare
  step "namespaces, network" start_node
  step "API server" wait_for 120 "the API server" "$node_dir/log/kube-apiserver.log and init.log" api_answers
  step "node is Ready" wait_for 120 "a Ready node" "$node_dir/log/kubelet.log" node_is_ready
  step "default ServiceAccount" wait_for 60 "the default ServiceAccount" "$node_dir/log/kube-controller-manager.log" \
    kubectl get serviceaccount default
  step "pause image into the node" import_pause
  begun=$((${EPOCHREALTIME/./} - begun))
  printf 'node: %s is Ready after %d.%d s; next: eval "$(test/node/node env)"\n' "$node_name" \
    $((begun / 1000000)) $((begun / 100000 % 10))
}

kubectl() { "$bin_dir/kubectl" --kubeconfig "$kubeconfig" "$@"; }
api_answers() { kubectl --request-timeout=2s get --raw /readyz; }
node_is_ready() { kubectl wait --for=condition=Ready --timeout=1s "node/$node_name"; }
node_is_whole() { [[ -n $(holder node) ]] && cable_is_there && api_answers >/dev/null 2>&1 && node_is_ready >/dev/null 2>&1; }
cable_is_there() { on_network fabric ip link show node >/dev/null 2>&1; }

down_quietly() { down >/dev/null; }

# The process that holds a Pod's namespaces open, as an image: built once.
build_pause() {
  local archive=$repo/bin/pause.tar
  if [[ $archive -nt $node_home/pause/main.go && $archive -nt $node_home/pause/Dockerfile ]]; then return; fi
  (
    cd "$repo"
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o bin/pause/pause ./test/node/pause
    ./hack/buildah bud --quiet --format oci --file test/node/pause/Dockerfile --tag localhost/pause:1 bin/pause >/dev/null
    ./hack/buildah push --quiet localhost/pause:1 "oci-archive:$archive.new:1"
    mv "$archive.new" "$archive"
  )
}

import_pause() { import "$repo/bin/pause.tar" "$pause_image" >/dev/null; }

prepare() {
  mkdir -p "$node_dir"
  make_certificates
  write_settings
}

start_node() {
  local log=$node_dir/log/init.log init
  (
    exec 9>&-
    enter_cgroups
    exec setsid unshare --mount --net --pid --uts --ipc --cgroup --fork --kill-child --mount-proc \
      -- /bin/bash "$node_home/init/node" "$(tag node)" "$node_dir" "$bin_dir" "$node_name" "$lan_net" "$node_ip" \
      "$service_ip" "$service_cidr"
  ) </dev/null >"$log" 2>&1 &
  disown
  wait_for 10 "the start of the node's first process" "$log" has_init node
  init=$(init_of node)
  on_network fabric ip link add node type veth peer name uplink
  on_network fabric ip link set node master lan
  on_network fabric ip link set node up
  nsenter --target "$(init_of fabric)" --net -- ip link set uplink netns "$init"
}
