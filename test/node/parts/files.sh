# shellcheck shell=bash
# The settings of the node's programs.

write_settings() {
  mkdir -p "$node_dir"/{cni,log,etcd,kubelet,containerd}
  # Who asked for what is what the tests of the operator's role read.
  write_file "$node_dir/audit-policy.yaml" <<EOF
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:egress-system"]
- level: None
EOF
  write_file "$node_dir/resolv.conf" <<EOF
nameserver $router_ip
EOF
  write_file "$node_dir/cni/10-lan.conflist" <<EOF
{
  "cniVersion": "1.0.0",
  "name": "lan",
  "plugins": [{
    "type": "bridge",
    "bridge": "cni0",
    "ipam": {
      "type": "host-local",
      "ranges": [[{"subnet": "$lan_cidr", "rangeStart": "$pods_first", "rangeEnd": "$pods_last", "gateway": "$node_ip"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
EOF
  # Debian 12 has containerd 1.6 (settings version 2), later ones containerd 2, which reads it too.
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE a score cannot be lowered below one's own.
  write_file "$node_dir/containerd.toml" <<EOF
version = 2
root = "$node_dir/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/run/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$pause_image:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$node_dir/cni"
EOF
  # syncFrequency: changes of ConfigMaps and Secrets reach a running Pod within seconds, not a minute.
  # failCgroupV1, failSwapOn, oomScoreAdj: so that it runs on machines that are no servers.
  write_file "$node_dir/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
seccompDefault: true
makeIPTablesUtilChains: false
syncFrequency: 5s
volumeStatsAggPeriod: 10s
resolvConf: $node_dir/resolv.conf
tlsCertFile: $node_dir/pki/kubelet-serving.crt
tlsPrivateKeyFile: $node_dir/pki/kubelet-serving.key
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $node_dir/pki/ca.crt}
authorization: {mode: Webhook}
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
EOF
}
