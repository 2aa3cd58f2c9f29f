# The operator's image: a static binary and CA certificates on an empty base, an unprivileged user, nothing
# else. `make image-operator` builds it with buildah. With Docker:
#
#   make image-files && docker build -t egress-proxies-operator .
#
# The files come from outside and nothing runs in here, so any machine builds it for every architecture,
# and the same files give the same image.
FROM scratch
ARG TARGETARCH
COPY --chown=0:0 --chmod=0444 bin/operator-image/root/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --chown=0:0 --chmod=0555 bin/operator-image/root/operator-${TARGETARCH} /operator
USER 65532:65532
ENTRYPOINT ["/operator"]
