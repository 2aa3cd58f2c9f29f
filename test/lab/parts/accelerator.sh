# shellcheck shell=bash
# Whether KVM can be used here. /dev/kvm and a yes from QEMU say little: some nested machines have both and
# then fail in the firmware's first instructions. So the firmware is started once.

find_accelerator() {
  # What the shell says of a QEMU that aborted is not news for the user.
  if kvm_boots_firmware 2>/dev/null; then echo kvm; else echo qemu; fi >"$LAB_DIR/accelerator"
}

accelerator() { cat "$LAB_DIR/accelerator"; }

kvm_boots_firmware() {
  local console=$LAB_DIR/kvm-probe.log pid status=1
  [[ ${LAB_KVM:-auto} != off && -r /dev/kvm && -w /dev/kvm ]] || return 1
  qemu-system-x86_64 -machine q35 -accel kvm -cpu host -m 256 -nodefaults -display none -nic none \
    -bios /usr/share/ovmf/OVMF.fd -serial "file:$console" -monitor none </dev/null >"$console.qemu" 2>&1 9>&- &
  pid=$!
  for ((i = 0; i < 100; i++)); do
    if [[ -s $console ]]; then status=0; fi
    if ((status == 0)) || [[ ! -d /proc/$pid ]] || grep -qs 'KVM internal error' "$console.qemu"; then break; fi
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  return "$status"
}
