# shellcheck shell=bash
# What the demo's scripts share. Sourced.

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
demo_dir=${LAB_DIR:=$root/.lab}/demo
export LAB_DIR
stage=$root/hack/stage

# timed NAME FUNCTION...: a stage that is a function of this script.
timed() {
  local name=$1 start rc
  shift
  start=$(date +%s)
  echo "==> $name"
  set +e
  (set -e; "$@")
  rc=$?
  set -e
  "$stage" --record "$name" $(($(date +%s) - start)) "$rc"
}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# The password is the demo's own: the lab is reachable from this machine only.
demo_user=demo
demo_password=demo-password

# show COMMAND...: prints a command as the reader would type it, and runs it.
show() {
  printf '\033[36m$ %s\033[0m\n' "$*"
  "$@"
}

# request PROXY-URL: one request to the origin; prints what the origin says it saw.
request() { curl --silent --show-error --fail --max-time 30 --proxy "$1" "$LAB_ORIGIN_URL"; }

# passes_as PROXY-URL ADDRESS: the origin must have seen ADDRESS.
passes_as() {
  local seen
  seen=$(request "$1")
  if [ "$seen" != "$2" ]; then
    echo "the origin saw '$seen', and the proxy's VM has the address '$2'" >&2
    return 1
  fi
  echo "the origin saw $seen: the VM's own address"
}

need_root() {
  [ "$(id -u)" = 0 ] || { echo "$1 needs root: it starts KVM hosts in namespaces of their own" >&2; exit 1; }
}

# two_hosts: make gives LAB_HOSTS its default of one; the demo has a Proxy on each of two.
two_hosts() {
  if [ "${LAB_HOSTS:-1}" -lt 2 ]; then LAB_HOSTS=2; fi
  export LAB_HOSTS
}

# foundation: the packages, the image and the running lab, each with its time.
foundation() {
  $stage packages ./hack/packages curl jq
  $stage image make --no-print-directory image
  $stage lab-up ./test/lab/lab up
  # shellcheck disable=SC1091
  . "$LAB_DIR/lab.env"
  mkdir -p "$demo_dir"
  chmod 700 "$demo_dir"
}

# two_proxies: applies two, waits for them, and sends a request through each. kubectl and KUBECONFIG are set.
two_proxies() {
  local name url
  say "Two Proxies, one on each host"
  sed "s|@ORIGIN@|$LAB_ORIGIN_CIDR|; s|@USER@|$demo_user|; s|@PASSWORD@|$demo_password|" hack/demo/proxies.yaml > "$demo_dir/proxies.yaml"
  show kubectl apply -f "$demo_dir/proxies.yaml"
  timed ready show kubectl wait --for=condition=Ready --timeout=10m proxy/berlin-1 proxy/berlin-2

  say "What is there"
  show kubectl get eproxy,ph

  say "A request through each, with the URL of its Secret"
  for name in berlin-1 berlin-2; do
    url=$(kubectl get secret "$name-proxy" -o jsonpath='{.data.http_proxy}' | base64 -d)
    timed "curl-$name" passes_as "$url" "$(kubectl get eproxy "$name" -o jsonpath='{.status.address}')"
  done
}
