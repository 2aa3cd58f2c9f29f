# shellcheck shell=bash
# The files that everything else uses: keys, known_hosts, providers.yaml, lab.env.

make_client_key() {
  mkdir -p "$LAB_DIR/ssh"
  chmod 700 "$LAB_DIR/ssh"
  if [[ ! -s $LAB_DIR/ssh/id_ed25519 ]]; then
    ssh-keygen -q -t ed25519 -N '' -C lab -f "$LAB_DIR/ssh/id_ed25519"
  fi
}

# Every host that has keys, by address and by name.
write_known_hosts() {
  local directory host
  for directory in "$LAB_DIR"/ssh/hosts/*/; do
    host=$(basename "$directory")
    sed "s/^/$(host_ip "$host"),$host.lab.test /; s/ [^ ]*\.lab\.test$//" "$directory"/*.pub
  done | write_file "$LAB_DIR/ssh/known_hosts"
}

image_url() { printf '%s/images/%s/egress.qcow2' "$image_base" "$(basename "$(dirname "$image_file")")"; }

# write_providers HOST...
write_providers() {
  local host
  {
    cat <<EOF
# Written by the lab. One entry, all its hosts; a host's name is its zone.
checkURL: http://origin.lab.test/
providers:
- name: lab
  type: kvm2
  kvm2:
    hosts:
EOF
    for host in "$@"; do
      echo "    - {name: $host, address: $(host_ip "$host"), port: 22, user: $ssh_user, socket: $socket, pool: $pool, bridge: $bridge}"
    done
    cat <<EOF
    sshKeyFile: $LAB_DIR/ssh/id_ed25519
    knownHostsFile: $LAB_DIR/ssh/known_hosts
    machineTypes:
      small: {vcpus: 2, memoryMiB: 1024, diskSizeGb: 4}
    images:
      egress: {url: "$(image_url)", sha256: "$image_sha256", firmware: uefi, format: qcow2}
EOF
  } | write_file "$LAB_DIR/providers.yaml"
}

# write_env HOST...: shell lines, for a person to source and for make to include.
write_env() {
  local names="$*"
  write_file "$LAB_DIR/lab.env" <<EOF
export KVM2_TEST_HOST='$(host_ip kvm1)'
export KVM2_TEST_USER='$ssh_user'
export KVM2_TEST_SSH_KEY='$LAB_DIR/ssh/id_ed25519'
export KVM2_TEST_KNOWN_HOSTS='$LAB_DIR/ssh/known_hosts'
export KVM2_TEST_BRIDGE='$bridge'
export KVM2_TEST_IMAGE_URL='$(image_url)'
export KVM2_TEST_IMAGE_SHA256='$image_sha256'
export KVM2_TEST_POOL='$pool'
export KVM2_TEST_SOCKET='$socket'
export LAB_DIR='$LAB_DIR'
export LAB_INDEX='$LAB_INDEX'
export LAB_HOSTS='$#'
export LAB_HOST_NAMES='$names'
export LAB_PROVIDERS='$LAB_DIR/providers.yaml'
export LAB_IMAGE_BASE='$image_base'
export LAB_WWW='$LAB_DIR/www'
export LAB_LAN_CIDR='$lan_cidr'
export LAB_GUEST_CIDR='$guest_cidr'
export LAB_ORIGIN_URL='http://origin.lab.test/'
export LAB_ORIGIN_HTTPS_URL='https://origin.lab.test/'
export LAB_ORIGIN_CIDR='$origin_cidr'
export LAB_ORIGIN_IP='$origin_ip'
export LAB_CA='$LAB_DIR/ca/ca.pem'
EOF
}
