# shellcheck shell=bash
# One KVM host: its state directory, its services' settings, its start.

host_state() { printf '%s/hosts/%s' "$LAB_DIR" "$1"; }

# uuid_of NAME: the same UUID for the same name, for ever (RFC 4122, version 5's form).
uuid_of() {
  local hash
  hash=$(sha1sum <<<"$1")
  printf '%s-%s-5%s-a%s-%s' "${hash:0:8}" "${hash:8:4}" "${hash:13:3}" "${hash:17:3}" "${hash:20:12}"
}

host_keys() {
  local host=$1 kind keys=$LAB_DIR/ssh/hosts/$1
  mkdir -p "$keys"
  for kind in ed25519 ecdsa rsa; do
    if [[ ! -s $keys/ssh_host_${kind}_key ]]; then
      ssh-keygen -q -t "$kind" -N '' -C "$host.lab.test" -f "$keys/ssh_host_${kind}_key"
    fi
  done
}

# prepare_host NAME: an empty host, with nothing of an earlier one.
prepare_host() {
  local host=$1 state
  state=$(host_state "$host")
  rm -rf "$state"
  mkdir -p "$state"/{home/.ssh,ssh} "$state"/etc/libvirt/storage/autostart \
    "$state"/var/{lib/libvirt/images,cache/libvirt,log/libvirt/qemu}
  chmod 711 "$state/var/lib/libvirt" "$state/var/lib/libvirt/images"

  host_keys "$host"
  cp "$LAB_DIR/ssh/hosts/$host/"* "$state/ssh/"
  cp "$LAB_DIR/ssh/id_ed25519.pub" "$state/home/.ssh/authorized_keys"
  chmod 700 "$state/home" "$state/home/.ssh"

  write_file "$state/sshd_config" <<EOF
ListenAddress $(host_ip "$host"):22
HostKey /run/lab/state/ssh/ssh_host_ed25519_key
HostKey /run/lab/state/ssh/ssh_host_ecdsa_key
HostKey /run/lab/state/ssh/ssh_host_rsa_key
PidFile /run/sshd.pid
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
LogLevel VERBOSE
EOF
  write_file "$state/etc/libvirt/libvirtd.conf" <<EOF
host_uuid = "$(uuid_of "$host.$LAB_INDEX.lab.test")"
unix_sock_group = "libvirt"
unix_sock_rw_perms = "0770"
auth_unix_rw = "none"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
EOF
  write_file "$state/etc/libvirt/qemu.conf" <<EOF
security_driver = "none"
cgroup_controllers = []
EOF
  write_file "$state/etc/libvirt/storage/$pool.xml" <<EOF
<pool type='dir'>
  <name>$pool</name>
  <uuid>$(uuid_of "$pool.$host.$LAB_INDEX.lab.test")</uuid>
  <target>
    <path>/var/lib/libvirt/images</path>
  </target>
</pool>
EOF
  ln -s "../$pool.xml" "$state/etc/libvirt/storage/autostart/$pool.xml"
}

# power_on NAME: starts the host with the disks that it has.
power_on() {
  local host=$1 state init address
  state=$(host_state "$host")
  address=$(host_ip "$host")
  start_holder "$host" "$state/init.log" "$host" "$state" "$lan_net" "${address##*.}" \
    "$(accelerator)"
  init=$(init_of "$host")
  # The cable: one end into the switch, the other into the host.
  on_network fabric ip link add "$host" type veth peer name uplink
  on_network fabric ip link set "$host" master lan
  on_network fabric ip link set "$host" up
  nsenter --target "$(init_of fabric)" --net -- ip link set uplink netns "$init"
  wait_for 30 "sshd of $host" "$state/sshd.log and $state/init.log" tcp_open "$address" 22
  wait_for 60 "libvirt of $host" "$state/var/log/libvirt/libvirtd.log and $state/init.log" libvirt_answers "$host"
}

# As the user who logs in, through the socket, as a real client comes.
libvirt_answers() { ssh_to "$1" virsh --connect qemu:///system pool-info "$pool"; }

ssh_to() {
  local host=$1
  shift
  ssh -F none -i "$LAB_DIR/ssh/id_ed25519" -o UserKnownHostsFile="$LAB_DIR/ssh/known_hosts" \
    -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5 -o BatchMode=yes -n \
    "$ssh_user@$(host_ip "$host")" "$@"
}

start_host() {
  prepare_host "$1"
  write_known_hosts
  power_on "$1"
}
