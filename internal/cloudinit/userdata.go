package cloudinit

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// configDir is where squid's configuration ends up. It lies under /etc/squid because Ubuntu's AppArmor
// profile lets squid read nothing else, and beside the package's own squid.conf, so that an upgrade of
// the package asks no question. cloud-init writes a directory beside it, which egress-setup moves into
// place whole.
const configDir = "/etc/squid/egress"

// cloudConfig holds cloud-init's keys that we use.
type cloudConfig struct {
	Hostname          string      `json:"hostname"`
	ManageEtcHosts    string      `json:"manage_etc_hosts"`
	Locale            bool        `json:"locale"`          // false: generating one takes a minute without KVM
	SSHGenKeyTypes    []string    `json:"ssh_genkeytypes"` // an RSA key takes long without KVM
	SSHAuthorizedKeys []string    `json:"ssh_authorized_keys,omitempty"`
	BootCmd           [][]string  `json:"bootcmd"`
	WriteFiles        []writeFile `json:"write_files"`
	RunCmd            [][]string  `json:"runcmd"`
}

type writeFile struct {
	Path        string `json:"path"`
	Owner       string `json:"owner"`
	Permissions string `json:"permissions"`
	Content     string `json:"content"`
}

// holdSquid keeps an image's own squid from starting on the first boot, with a configuration that is
// not ours. It runs before systemd gets to squid.
const holdSquid = "[ -e " + configDir + "/squid.conf ] || systemctl --no-block stop squid.service 2>/dev/null || true"

func (p plan) userData(squidConf, guard string) (provider.Secret, error) {
	writeFiles, err := p.writeFiles(squidConf, guard)
	if err != nil {
		return nil, err
	}
	body, err := yaml.Marshal(cloudConfig{
		Hostname:          p.Hostname,
		ManageEtcHosts:    "localhost",
		SSHGenKeyTypes:    []string{"ed25519"},
		SSHAuthorizedKeys: p.SSHKeys,
		BootCmd:           [][]string{{"sh", "-c", holdSquid}},
		WriteFiles:        writeFiles,
		RunCmd:            [][]string{{"/usr/local/sbin/egress-setup"}},
	})
	if err != nil {
		return nil, fmt.Errorf("write the user-data as YAML: %w", err)
	}
	return append([]byte("#cloud-config\n"), body...), nil
}

func (p plan) writeFiles(squidConf, guard string) ([]writeFile, error) {
	staged := func(name, content string) writeFile {
		return writeFile{Path: configDir + ".new/" + name, Owner: "root:proxy", Permissions: "0640", Content: content}
	}
	out := []writeFile{
		staged("squid.conf", squidConf),
		staged("passwd", p.passwords()),
		staged("guard.nft", guard),
		staged("guarded-names", lines(p.GuardedNames)),
	}
	fixed := []struct{ name, path, permissions string }{
		{"egress-guard", "/usr/local/sbin/egress-guard", "0755"},
		{"egress-setup", "/usr/local/sbin/egress-setup", "0755"},
		{"squid.service.d-egress.conf", "/etc/systemd/system/squid.service.d/egress.conf", "0644"},
	}
	if len(p.GuardedNames) > 0 {
		fixed = append(fixed, []struct{ name, path, permissions string }{
			{"egress-guard.service", "/etc/systemd/system/egress-guard.service", "0644"},
			{"egress-guard.timer", "/etc/systemd/system/egress-guard.timer", "0644"},
		}...)
	}
	for _, f := range fixed {
		content, err := files.ReadFile("files/" + f.name)
		if err != nil {
			return nil, fmt.Errorf("read an embedded file: %w", err)
		}
		out = append(out, writeFile{Path: f.path, Owner: "root:root", Permissions: f.permissions, Content: string(content)})
	}
	return out, nil
}

// lines ends each text with a line break.
func lines(texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(text + "\n")
	}
	return b.String()
}
