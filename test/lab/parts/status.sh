# shellcheck shell=bash
# lab status: what runs, as a table or as JSON.

status() {
  case "${1:-} ${2:-}" in
  ' ') status_json | status_table ;;
  '-o json') status_json ;;
  *) fail "status knows -o json, not: $*" ;;
  esac
}

status_json() {
  local host
  {
    jq -n --arg dir "$LAB_DIR" --argjson index "$LAB_INDEX" --arg lan "$lan_cidr" --arg guests "$guest_cidr" \
      --arg origin "$origin_cidr" --arg images "$image_base" --arg fabric "$(init_of fabric)" \
      '{dir: $dir, index: $index, running: ($fabric != ""), lan: $lan, guests: $guests, origin: $origin,
        images: $images, fabricPID: ($fabric | if . == "" then null else tonumber end)}'
    leases_json
    for host in $(running_hosts); do host_json "$host"; done
  } | jq -s '.[0] + {leases: .[1], hosts: .[2:]}'
}

# Who has which address, as dnsmasq gave it: a list of {mac, address, name}.
leases_json() {
  local leases=$LAB_DIR/fabric/leases
  if [[ ! -r $leases ]]; then
    echo '[]'
    return
  fi
  jq -R -s 'split("\n") | map(select(. != "") | split(" ") | {mac: .[1], address: .[2], name: .[3]})' "$leases"
}

host_json() {
  local host=$1 init
  init=$(init_of "$host")
  jq -n --arg name "$host" --arg address "$(host_ip "$host")" --argjson pid "$init" \
    --argjson processes "$(inside "$host" bash -c 'set -- /proc/[0-9]*; echo $#')" \
    --arg domains "$(host_virsh "$host" list --all)" --arg volumes "$(host_virsh "$host" vol-list "$pool")" '
    def rows: split("\n")[2:] | map(select(test("\\S")) | [splits("\\s+") | select(. != "")]);
    {name: $name, address: $address, pid: $pid, processes: $processes,
     domains: ($domains | rows | map({name: .[1], state: (.[2:] | join(" "))})),
     volumes: ($volumes | rows | map(.[0]))}'
}

host_virsh() {
  local host=$1
  shift
  inside "$host" timeout 20 virsh --connect qemu:///system "$@" 2>/dev/null || true
}

status_table() {
  jq -r '
    "lab in \(.dir): \(if .running then "up" else "down" end)",
    "LAN \(.lan), guests \(.guests), origin \(.origin), images \(.images)",
    (.hosts[] | "\(.name)  \(.address)  pid \(.pid)  \(.processes) processes  \(.domains | length) domains  \(.volumes | length) volumes",
      (.domains[] | "  domain  \(.name)  \(.state)"), (.volumes[] | "  volume  \(.)")),
    (.leases[] | "guest \(.name)  \(.address)  \(.mac)")'
}
