# shellcheck shell=bash
# lab up: from whatever there is to a lab that answers.

up() {
  local host begun=${EPOCHREALTIME/./} wanted running fresh=0
  [[ $(id -u) == 0 ]] || fail "up needs root (namespaces, a bridge, libvirtd); run it with sudo"
  "$here/packages" lab
  build_image
  mkdir -p "$LAB_DIR/bin" "$LAB_DIR/hosts"
  lock
  refuse_other_lab
  # A lab has one number for its life.
  if [[ -n $(holder fabric) && $(<"$LAB_DIR/index") != "$LAB_INDEX" ]]; then
    fail "this lab runs with LAB_INDEX=$(<"$LAB_DIR/index"); to change it: lab down, then lab up"
  fi

  if ! fabric_is_whole; then
    stop_all
    fresh=1
    echo "$LAB_INDEX" >"$LAB_DIR/index"
    step "lab server" build_labserver
    step "does KVM work here" find_accelerator
    make_client_key
    step "fabric (LAN, DHCP, DNS, images, origin)" fabric_up
  fi
  running=$(running_hosts)
  wanted=$({ echo "$running" && host_names "$LAB_HOSTS"; } | sed '/^$/d' | sort -uV)
  for host in $wanted; do
    if ! host_is_whole "$host"; then
      stop_machine "$host"
      fresh=1
      step "$host (sshd, libvirtd)" start_host "$host"
    fi
  done
  # shellcheck disable=SC2086 # host names are words
  write_providers $wanted
  # shellcheck disable=SC2086
  write_env $wanted
  if ((fresh == 0)); then echo "lab: was up already"; fi
  begun=$((${EPOCHREALTIME/./} - begun))
  printf 'lab: up with %s in %d.%d s; domains run on %s\n' "${wanted//$'\n'/, }" \
    $((begun / 1000000)) $((begun / 100000 % 10)) "$(accelerator_words)"
  printf 'lab: files in %s; next: source %s/lab.env\n' "$LAB_DIR" "$LAB_DIR"
}

build_image() {
  "$here/image" build
  image_file=$("$here/image" path)
  image_sha256=$("$here/image" sha256)
  image_dir=$(dirname "$(dirname "$image_file")")
}

build_labserver() {
  command -v go >/dev/null || fail "go is not in PATH; the lab's servers are built with it"
  (cd "$repo" && CGO_ENABLED=0 go build -trimpath -o "$LAB_DIR/bin/labserver" ./test/lab/labserver)
}

fabric_up() {
  prepare_fabric
  start_fabric
}

fabric_is_whole() { [[ -n $(holder fabric) && -e /sys/class/net/$root_link ]] && tcp_open "$router_ip" "$image_port"; }

host_is_whole() { [[ -n $(holder "$1") ]] && libvirt_answers "$1" >/dev/null 2>&1; }

accelerator_words() {
  case $(accelerator) in
  kvm) echo "KVM" ;;
  *) echo "QEMU's emulation (no usable /dev/kvm here: a boot takes a minute, not seconds)" ;;
  esac
}
