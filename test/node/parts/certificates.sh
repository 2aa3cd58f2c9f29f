# shellcheck shell=bash
# The cluster's keys and certificates, and the kubeconfigs that hold them.

make_certificates() {
  local pki=$node_dir/pki
  mkdir -p "$pki"
  chmod 700 "$pki"
  printf '[req]\ndistinguished_name=name\n[name]\n' >"$pki/openssl.cnf"
  openssl req -x509 -config "$pki/openssl.cnf" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 \
    -keyout "$pki/ca.key" -out "$pki/ca.crt" -subj /CN=node -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign,digitalSignature -addext subjectKeyIdentifier=hash 2>>"$pki/log"
  openssl genrsa -out "$pki/sa.key" 2048 2>>"$pki/log"
  openssl rsa -in "$pki/sa.key" -pubout -out "$pki/sa.pub" 2>>"$pki/log"
  certificate apiserver /CN=kube-apiserver \
    "IP:$node_ip,IP:$service_ip,IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
  certificate kubelet-serving "/O=system:nodes/CN=system:node:$node_name" "IP:$node_ip,DNS:$node_name"
  certificate kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
  certificate admin /O=system:masters/CN=admin
  certificate kubelet "/O=system:nodes/CN=system:node:$node_name"
  certificate controller-manager /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  for client in admin kubelet controller-manager scheduler; do write_kubeconfig "$client"; done
}

# certificate NAME SUBJECT [ALTERNATIVE-NAMES]
certificate() {
  local pki=$node_dir/pki
  openssl req -x509 -config "$pki/openssl.cnf" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -days 90 \
    -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$pki/$1.key" -out "$pki/$1.crt" -subj "$2" \
    -addext basicConstraints=critical,CA:FALSE -addext keyUsage=critical,digitalSignature \
    -addext extendedKeyUsage=serverAuth,clientAuth ${3:+-addext "subjectAltName=$3"} 2>>"$pki/log"
}

# write_kubeconfig NAME: whole in itself, as NAME, for use from inside and outside the node.
write_kubeconfig() {
  local pki=$node_dir/pki
  (umask 077 && write_file "$node_dir/$1.kubeconfig") <<EOF
apiVersion: v1
kind: Config
current-context: node
clusters:
- name: node
  cluster:
    server: https://$node_ip
    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "$pki/$1.crt")
    client-key-data: $(base64 -w0 "$pki/$1.key")
contexts:
- name: node
  context: {cluster: node, user: $1}
EOF
}
