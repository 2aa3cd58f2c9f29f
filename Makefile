# `make help` lists the targets. Everything that a target needs, it installs or builds itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# One set of flags for build, vet, lint and tests, and for hack/k8s: each other set would compile the
# Kubernetes libraries once more, minutes on a new machine. Only -race needs a set of its own.
export GOFLAGS ?= -mod=readonly -trimpath
export CGO_ENABLED ?= 0
TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
GOTESTSUM := $(TOOL) gotestsum --format pkgname-and-test-fails --
STAGE := ./hack/stage
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

LAB_DIR ?= $(CURDIR)/.lab
LAB_HOSTS ?= 1
export LAB_DIR LAB_HOSTS

# What tests run beside Go: a C compiler for the race detector, squid for the proxy's configuration,
# xorriso, qemu-img and the schema checks of libvirt-clients as independent readers of what we write.
TEST_PACKAGES := gcc libc6-dev squid nftables xorriso qemu-utils libvirt-clients iproute2 openssh-client shellcheck curl jq

##@ Start here

.PHONY: help
help: ## This list.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## The whole product on this machine, as it is deployed: a lab, a node, the operator as a Pod, two Proxies, a request through each (needs root).
	@./hack/demo/up

.PHONY: demo-host
demo-host: ## The quicker way: a control plane without a node, and the operator as a process of this machine (needs root).
	@./hack/demo/host

.PHONY: demo-shell
demo-shell: ## The same without Kubernetes: two VMs made with egressctl, and a request through each (needs root).
	@./hack/demo/shell

.PHONY: demo-down
demo-down: ## Remove everything that the demo made, and prove that nothing is left.
	@./hack/demo/down

.PHONY: test
test: ## Every test there is but the long ones, with each stage's time (needs root).
	@./hack/test

##@ Build

.PHONY: build
build: ## Build bin/operator and bin/egressctl.
	go build -ldflags "$(LDFLAGS)" -o bin/operator ./cmd
	go build -ldflags "$(LDFLAGS)" -o bin/egressctl ./cmd/egressctl

.PHONY: k8s
k8s: ## Build the real control plane and node (etcd, kube-apiserver, kubelet, kubectl and others) into bin/k8s.
	./hack/k8s/build
	go build -o bin/controlplane ./test/controlplane/cmd

.PHONY: image
image: ## Build the egress image (Debian, cloud-init, guest agent, squid), once per recipe.
	./test/lab/image build

.PHONY: image-files
image-files: ## The files of the operator's image for amd64 and arm64, and its bills of materials: what docker build needs.
	./hack/operator-image files

.PHONY: image-operator
image-operator: ## Build the operator's image for amd64 and arm64, without a daemon: bin/operator-image/operator.tar.
	./hack/operator-image build

.PHONY: manifests
manifests: ## Generate the CRDs and the operator's role under config/ from the Go sources.
	$(TOOL) controller-gen crd paths=./api/... output:crd:artifacts:config=config/crd/bases

.PHONY: generate
generate: ## Generate deep copies, apply configurations and docs/api-reference.md.
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt applyconfiguration:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) crd-ref-docs --source-path=api/v1alpha1 --config=hack/api-reference.yaml --renderer=markdown --output-path=docs/api-reference.md --log-level=ERROR

##@ Check

.PHONY: lint
lint: generated-check tidy-check ## golangci-lint with .golangci.yml, shellcheck, and the generated files' freshness.
	@./hack/packages shellcheck gcc libc6-dev
	$(TOOL) golangci-lint run ./...
	shellcheck -x -P SCRIPTDIR -P . $$(git ls-files | xargs grep -lE '^#!/(usr/bin/env bash|bin/(ba)?sh)')

.PHONY: fmt
fmt: ## Format the Go files.
	$(TOOL) golangci-lint fmt ./...

.PHONY: vet
vet: ## go vet with every build tag.
	go vet ./...
	go vet -tags=integration ./...
	go vet -tags=e2e ./...
	go vet -tags=lab ./...

.PHONY: docs-check
docs-check: ## Every link, path, target, test, flag and symbol that the documents name exists.
	go run ./hack/docscheck

.PHONY: contract-check
contract-check: ## Every MUST of the contract's sections 2 and 8 has a case in the conformance suite.
	go run ./hack/contractcheck

.PHONY: generated-check
generated-check: manifests generate ## Nothing generated is stale.
	@changed=$$(git status --porcelain -- api config docs/api-reference.md); \
	if [ -n "$$changed" ]; then echo "stale, run 'make manifests generate' and commit:"; echo "$$changed"; exit 1; fi

.PHONY: tidy-check
tidy-check: ## go.mod and go.sum hold what is used, and nothing else.
	go mod tidy -diff

.PHONY: test-packages
test-packages: ## Install the Debian packages that tests need.
	@./hack/packages $(TEST_PACKAGES)

.PHONY: test-unit
test-unit: ## Unit tests with the race detector.
	CGO_ENABLED=1 $(GOTESTSUM) -race -timeout 15m ./...

.PHONY: test-squid
test-squid: ## The rendered proxy configuration in a real squid, in a network namespace (needs root).
	$(GOTESTSUM) -tags=integration -timeout 10m -count=1 ./internal/cloudinit/... ./internal/probe/...

.PHONY: test-integration-kvm2
test-integration-kvm2: ## The kvm2 provider against the host that KVM2_TEST_* name, or the running lab.
	@. ./hack/lab-env && $(GOTESTSUM) -tags=integration -count=1 -run TestKVM2 -timeout 40m ./internal/provider/kvm2/

.PHONY: test-lab-kvm2
test-lab-kvm2: ## kvm2's way to libvirt alone, and creates cut off at each call, on the running lab.
	@. ./hack/lab-env && $(GOTESTSUM) -tags=lab -count=1 -run 'TestTransport|TestLab_' -parallel 6 -timeout 20m ./internal/provider/kvm2/

.PHONY: test-conformance-kvm2
test-conformance-kvm2: ## The contract's suite on kvm2 over the running lab's libvirtd and sshd: about six minutes.
	@. ./hack/lab-env && $(GOTESTSUM) -tags=integration -count=1 -run 'TestConformanceOnLibvirtd$$' -timeout 60m ./internal/provider/kvm2/

.PHONY: conformance
conformance: ## Make docs/conformance.md: the contract's suite on the fake, on kvm2 over its fake, and on kvm2 over the running lab.
	@. ./hack/lab-env && rm -rf bin/conformance && mkdir -p bin/conformance && export CONFORMANCE_JSON=$(CURDIR)/bin/conformance && \
	  go test -count=1 -run 'TestConformance$$' ./internal/provider/fake && \
	  mv bin/conformance/TestConformance.json bin/conformance/1-fake.json && \
	  go test -count=1 -run 'TestConformance$$' ./internal/provider/kvm2 && \
	  mv bin/conformance/TestConformance.json bin/conformance/2-kvm2.json && \
	  go test -count=1 -tags=integration -run 'TestConformanceOnLibvirtd$$' -timeout 60m ./internal/provider/kvm2 && \
	  go run ./hack/conformancedoc bin/conformance > bin/conformance.md && mv bin/conformance.md docs/conformance.md

.PHONY: test-long
test-long: ## 200 create, get, delete cycles of kvm2 that must leave nothing, on the running lab: about five minutes.
	@. ./hack/lab-env && KVM2_TEST_CYCLES=200 $(GOTESTSUM) -tags=integration -count=1 -run TestKVM2_cyclesLeaveNothing -timeout 40m ./internal/provider/kvm2/

.PHONY: test-ctl
test-ctl: ## egressctl against the running lab: killed, run again, and every fault that it must name.
	@. ./hack/lab-env && $(GOTESTSUM) -tags=integration -count=1 -timeout 30m ./test/ctl/...

.PHONY: test-controllers
test-controllers: k8s ## The controllers and the manifests on a real API server, with the operator's own role.
	$(GOTESTSUM) -tags=integration -count=1 -timeout 15m ./internal/controller/... ./internal/providerhealth/... ./test/manifests/...

.PHONY: test-e2e
test-e2e: build k8s ## A Proxy from apply to a request through it and back to nothing, on the running lab.
	@. ./hack/lab-env && $(GOTESTSUM) -tags=e2e -count=1 -timeout 30m ./test/e2e/

.PHONY: test-image
test-image: ## The operator's image: two builds have one digest, and nothing is in it that should not be.
	$(GOTESTSUM) -tags=integration -count=1 -timeout 30m ./test/image/

.PHONY: test-in-cluster
test-in-cluster: k8s ## The operator's image from the shipped manifests, as a Pod of a real node, on the running lab (needs root).
	ARCHES=amd64 ./hack/operator-image build
	@. ./hack/lab-env && $(TOOL) gotestsum --format standard-verbose -- -tags=e2e -count=1 -timeout 30m ./test/incluster/

.PHONY: test-lab
test-lab: ## The lab leaves nothing behind (starts and ends a lab of its own).
	$(GOTESTSUM) -tags=lab -count=1 -timeout 15m ./test/lab/...

##@ The lab: KVM hosts on this machine

.PHONY: lab-up
lab-up: image ## Start the lab: LAB_HOSTS hosts (1), with libvirtd, QEMU, sshd, a bridge, DHCP, an origin.
	./test/lab/lab up

.PHONY: lab-down
lab-down: node-down ## End the lab; nothing of it stays but LAB_DIR and the image.
	./test/lab/lab down

.PHONY: lab-status
lab-status: ## Hosts, domains, volumes and addresses of the lab.
	./test/lab/lab status

.PHONY: lab-shell
lab-shell: ## A shell inside a host of the lab: HOST (kvm1).
	./test/lab/lab shell $(or $(HOST),kvm1)

##@ The node: Kubernetes beside the lab

.PHONY: node-up
node-up: k8s lab-up ## Start a real node on the lab's switch: control plane, kubelet, containerd (needs root).
	./test/node/node up

.PHONY: node-down
node-down: ## End the node; nothing of it stays.
	./test/node/node down

.PHONY: clean
clean: ## Remove what was built, the egress image included.
	rm -rf bin
