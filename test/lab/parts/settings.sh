# shellcheck shell=bash
# Where the lab is and which addresses it uses. Sourced with $here set to test/lab.

repo=$(readlink -f "$here/../..")
LAB_DIR=$(readlink -m "${LAB_DIR:-$repo/.lab}")
# It goes into YAML, shell lines and settings of three programs.
if [[ ! $LAB_DIR =~ ^[A-Za-z0-9/_.+@-]+$ ]]; then
  echo "lab: LAB_DIR is '$LAB_DIR': use a directory without spaces and quotes" >&2
  exit 2
fi

# Which of sixteen address ranges. Once a lab is there, its own.
if [[ -z ${LAB_INDEX:-} && -r $LAB_DIR/index ]]; then LAB_INDEX=$(<"$LAB_DIR/index"); fi
LAB_INDEX=${LAB_INDEX:-0}
if [[ ! $LAB_INDEX =~ ^([0-9]|1[0-5])$ ]]; then
  echo "lab: LAB_INDEX is '$LAB_INDEX', it must be 0 to 15" >&2
  exit 2
fi

LAB_HOSTS=${LAB_HOSTS:-1}
if [[ ! $LAB_HOSTS =~ ^([1-9]|[1-4][0-9])$ ]]; then
  echo "lab: LAB_HOSTS is '$LAB_HOSTS', it must be 1 to 49" >&2
  exit 2
fi

# RFC 2544's range, so that nothing meets a user's own LAN.
lan_net=198.18.$((8 * LAB_INDEX))
lan_cidr=$lan_net.0/24
router_ip=$lan_net.1       # DHCP, DNS, image server
root_ip=$lan_net.2         # this machine's end
guest_cidr=$lan_net.128/25 # DHCP gives from here; nobody else reaches the origin
origin_net=198.18.$((8 * LAB_INDEX + 1))
origin_cidr=$origin_net.0/24
origin_ip=$origin_net.10
# A second address of the origin, in a range that a proxy must never reach. It exists in the lab's own
# namespaces only.
private_ip=10.127.$LAB_INDEX.10

image_port=8080
image_base=http://$router_ip:$image_port
root_link=lab$LAB_INDEX # this machine's end of the cable into the lab

ssh_user=egress
pool=default
bridge=br0
socket=/run/libvirt/libvirt-sock

host_ip() { printf '%s.%d' "$lan_net" $((10 + ${1#kvm})); }
host_names() { seq -f 'kvm%.0f' 1 "$1"; }
