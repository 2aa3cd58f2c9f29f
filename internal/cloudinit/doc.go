// Package cloudinit renders the user-data that makes a Debian or Ubuntu cloud image a squid forward
// proxy. It is pure: no clock, no network, no file, and the same Spec gives the same bytes.
//
// What a proxy must never reach is closed twice, from the same list of ranges:
//
//   - squid.conf refuses it with 403. squid looks at every address of the name's answer, so one
//     forbidden record is enough. But squid resolves again to connect, so a name that changes its
//     answer in between gets past this lock.
//   - An nftables rule refuses every connection that squid's user opens to such an address. It sees
//     the address connected to, whatever the name said, and knows the machine's own addresses as they
//     are at that moment. squid does not start without it.
package cloudinit
