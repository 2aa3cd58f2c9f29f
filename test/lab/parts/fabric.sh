# shellcheck shell=bash
# The LAN, its services and the cable to this machine.

prepare_fabric() {
  local state=$LAB_DIR/fabric
  rm -rf "$state"
  mkdir -p "$state" "$LAB_DIR/ca" "$LAB_DIR/www" "$LAB_DIR/bin"
  if [[ ! -s $LAB_DIR/ca/ca.pem || -n $(find "$LAB_DIR/ca/ca.pem" -mtime +60) ]]; then
    "$LAB_DIR/bin/labserver" ca -dir "$LAB_DIR/ca" \
      -names "origin.lab.test,private.lab.test,$origin_ip,$private_ip"
  fi
  # Whatever is not of the lab does not exist: no question leaves it.
  write_file "$state/dnsmasq.conf" <<EOF
user=root
interface=lan
except-interface=lo
bind-interfaces
no-hosts
no-resolv
no-ping
log-dhcp
log-facility=-
dhcp-authoritative
dhcp-range=$lan_net.128,$lan_net.250,255.255.255.0,12h
dhcp-leasefile=$state/leases
dhcp-option=option:router,$router_ip
dhcp-option=option:dns-server,$router_ip
domain=lab.test
address=/#/
host-record=router.lab.test,images.lab.test,$router_ip
host-record=origin.lab.test,$origin_ip
host-record=private.lab.test,$private_ip
host-record=loopback.lab.test,127.0.0.1
host-record=linklocal.lab.test,169.254.169.254
host-record=mapped.lab.test,::ffff:$private_ip
host-record=hypervisor.lab.test,$(host_ip kvm1)
$(for host in $(host_names 49); do echo "host-record=$host.lab.test,$(host_ip "$host")"; done)
EOF
}

start_fabric() {
  local init state=$LAB_DIR/fabric
  start_holder fabric "$state/init.log" "$LAB_DIR" "$lan_net" "$origin_net" "$private_ip" \
    "$router_ip:$image_port" "$image_dir"
  init=$(init_of fabric)
  wait_for 10 "the LAN" "$state/init.log" on_network fabric ip link show lan

  # This machine's end of the cable says whose it is.
  ip link add "$root_link" type veth peer name to-root netns "$init"
  ip link set "$root_link" alias "$LAB_DIR"
  on_network fabric ip link set to-root master lan
  on_network fabric ip link set to-root up
  ip address add "$root_ip/24" dev "$root_link"
  ip link set "$root_link" up
  # Asked for from here, the origin is refused by the lab's router: without this route the question would
  # go out to the machine's own gateway.
  ip route add "$origin_cidr" via "$router_ip" dev "$root_link"

  wait_for 10 "the image server" "$state/images.log" tcp_open "$router_ip" "$image_port"
  wait_for 10 "the origin" "$state/origin.log" on_network fabric \
    bash -c "exec 3<>/dev/tcp/$origin_ip/80"
  wait_for 10 "DNS" "$state/dnsmasq.log" tcp_open "$router_ip" 53
}

tcp_open() { timeout 2 bash -c "exec 3<>/dev/tcp/$1/$2"; }

# The link of our number belongs to a lab in another directory.
refuse_other_lab() {
  local owner
  if [[ ! -e /sys/class/net/$root_link ]]; then return; fi
  owner=$(<"/sys/class/net/$root_link/ifalias")
  if [[ $owner == "$LAB_DIR" ]]; then return; fi
  fail "LAB_INDEX $LAB_INDEX is used by the lab in ${owner:-an unknown place};" \
    "end it with: LAB_DIR=${owner:-...} $here/lab down   or choose another number: LAB_INDEX=1"
}
