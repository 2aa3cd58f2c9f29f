package kvm2

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// cloudInitStatus is the file in which cloud-init says how far it is, and maxStatus as much of it as is
// read. Its command line tool says the same; reading a file starts nothing in the guest.
const (
	cloudInitStatus = "/run/cloud-init/status.json"
	maxStatus       = 64 << 10
)

// GuestReport asks the guest's agent for what cloud-init ended with.
func (p *Provider) GuestReport(ctx context.Context, id string) (provider.GuestReport, error) {
	ctx, log := p.begin(ctx, "guest-report")
	report, err := p.guestReport(ctx, id)
	if err != nil {
		return provider.GuestReport{}, p.failed(ctx, classify, "guest report of "+clip(id), err)
	}
	log.V(1).Info("guest asked", "id", id, "state", report.State)
	return report, nil
}

func (p *Provider) guestReport(ctx context.Context, id string) (provider.GuestReport, error) {
	f, err := p.lookUp(ctx, id)
	if err != nil {
		return provider.GuestReport{}, err
	}
	switch {
	case !f.info.Active:
		return untold("the VM does not run"), nil
	case !f.info.AgentConnected:
		return untold("the guest agent is not connected: the guest has not come that far, or has none"), nil
	}
	content, err := readGuestFile(ctx, f.conn, f.dom, cloudInitStatus)
	if isAnswer(err) {
		logr.FromContextOrDiscard(ctx).V(2).Info("the guest agent does not tell", "domain", f.dom.Name, "answer", clip(err.Error()))
		return untold(whyUntold(err)), nil
	}
	if err != nil {
		return provider.GuestReport{}, err
	}
	return parseCloudInit(content), nil
}

func untold(why string) provider.GuestReport {
	return provider.GuestReport{State: provider.GuestUnknown, Message: why}
}

// whyUntold goes by the agent's own words, of which nothing is repeated.
func whyUntold(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "disabled"), strings.Contains(text, "not allowed"):
		return "the guest's distribution does not let its agent read files"
	case strings.Contains(text, "No such file"):
		return "the guest has no status of cloud-init"
	}
	return "the guest agent does not answer"
}

// readGuestFile reads the start of a file in the guest. An agent that answers nonsense has no content.
func readGuestFile(ctx context.Context, c backend, d domain, path string) ([]byte, error) {
	var handle int
	if err := askAgent(ctx, c, d, "guest-file-open", map[string]any{"path": path, "mode": "r"}, &handle); err != nil {
		return nil, err
	}
	var read struct {
		Content string `json:"buf-b64"`
	}
	err := askAgent(ctx, c, d, "guest-file-read", map[string]any{"handle": handle, "count": maxStatus}, &read)
	// A handle that stays open costs the guest a descriptor, and this call no result.
	if closeErr := askAgent(ctx, c, d, "guest-file-close", map[string]any{"handle": handle}, &struct{}{}); closeErr != nil && err == nil {
		logr.FromContextOrDiscard(ctx).V(2).Info("a file in the guest was not closed", "domain", d.Name)
	}
	if err != nil {
		return nil, err
	}
	content, _ := base64.StdEncoding.DecodeString(read.Content) // of nonsense, what comes out does not parse
	return content, nil
}

// askAgent runs one command of the agent's protocol and reads its result into out.
func askAgent(ctx context.Context, c backend, d domain, command string, arguments map[string]any, out any) error {
	request, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return err
	}
	answer, err := c.QEMUDomainAgentCommand(ctx, d, string(request))
	if err != nil {
		return fmt.Errorf("ask the guest agent of %s: %w", d.Name, err)
	}
	_ = json.Unmarshal([]byte(answer), &struct { // what a guest says may be anything; out stays empty then
		Return any `json:"return"`
	}{out})
	return nil
}
