#!/bin/sh
# Installs the QEMU guest agent where it is missing, and starts it: it is how the guest's address is
# found. Nothing here may fail the boot, so every step goes on after an error.

# Distributions keep the program in one of two places, not all of them on a script's PATH.
have_agent() {
	command -v qemu-ga >/dev/null 2>&1 || [ -x /usr/sbin/qemu-ga ] || [ -x /usr/bin/qemu-ga ]
}

install_agent() {
	if command -v apt-get >/dev/null 2>&1; then
		export DEBIAN_FRONTEND=noninteractive
		# Another apt may run at first boot: wait for its lock.
		apt-get -q -o DPkg::Lock::Timeout=300 update
		apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install qemu-guest-agent
	elif command -v dnf >/dev/null 2>&1; then
		dnf -q -y install qemu-guest-agent
	elif command -v zypper >/dev/null 2>&1; then
		zypper -q -n install qemu-guest-agent
	elif command -v apk >/dev/null 2>&1; then
		apk add -q qemu-guest-agent
	else
		echo "qemu-guest-agent is missing and no known package manager is here" >&2
	fi
}

start_agent() {
	if command -v systemctl >/dev/null 2>&1; then
		# On Debian the unit has no install section, so enable may have nothing to do.
		systemctl enable qemu-guest-agent >/dev/null 2>&1
		systemctl start --no-block qemu-guest-agent
	elif command -v rc-service >/dev/null 2>&1; then
		rc-update add qemu-guest-agent default >/dev/null 2>&1
		rc-service qemu-guest-agent start
	fi
}

have_agent || install_agent
start_agent
exit 0
