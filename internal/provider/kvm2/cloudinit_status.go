package kvm2

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// cloudInitStages are cloud-init's, in the order in which they run.
var cloudInitStages = []string{"init-local", "init", "modules-config", "modules-final"}

// cloudInitModules are the modules that may be named. An error's text is the guest's and may hold a
// command line with a password in it; so may what stands in the place of a module's name.
var cloudInitModules = strings.Fields(`ansible apk_configure apt_configure apt_pipelining bootcmd byobu ca_certs
	chef disable_ec2_metadata disk_setup fan final_message growpart grub_dpkg install_hotplug keyboard
	keys_to_console landscape locale lxd mcollective migrator mounts ntp package_update_upgrade_install
	phone_home power_state_change puppet raspberry_pi resizefs resolv_conf rh_subscription rsyslog runcmd
	salt_minion scripts_per_boot scripts_per_instance scripts_per_once scripts_user scripts_vendor
	seed_random set_hostname set_passwords snap spacewalk ssh ssh_authkey_fingerprints ssh_import_id timezone
	ubuntu_autoinstall ubuntu_drivers ubuntu_pro update_etc_hosts update_hostname users_groups
	wireguard write_files write_files_deferred yum_add_repo zypper_add_repo`)

// failedModule finds the module in an error: "('runcmd', RuntimeError(...))".
var failedModule = regexp.MustCompile(`^\('([-a-z0-9_]{1,64})',`)

// maxFailed is how many failures a report names.
const maxFailed = 16

// parseCloudInit reads status.json. Whatever it holds, names that are known and states come out.
func parseCloudInit(content []byte) provider.GuestReport {
	var status struct {
		V1 map[string]json.RawMessage `json:"v1"`
	}
	if err := json.Unmarshal(content, &status); err != nil || status.V1 == nil {
		return untold("the guest's status of cloud-init cannot be read")
	}
	var stage string
	_ = json.Unmarshal(status.V1["stage"], &stage) // null is none
	var failed []string
	ended := false
	for _, name := range cloudInitStages {
		var s struct {
			Errors   []string `json:"errors"`
			Finished float64  `json:"finished"`
		}
		_ = json.Unmarshal(status.V1[name], &s) // a stage that has not begun has nothing
		for _, e := range s.Errors {
			failed = append(failed, name+failedPart(e))
		}
		ended = name == "modules-final" && s.Finished > 0
	}
	failed = slices.Compact(failed)
	report := provider.GuestReport{Failed: failed[:min(len(failed), maxFailed)]}
	switch {
	case stage != "" || !ended:
		report.State, report.Message = provider.GuestRunning, "cloud-init is not done yet"
		if slices.Contains(cloudInitStages, stage) {
			report.Stage, report.Message = stage, "cloud-init is in its stage "+stage
		}
	case len(failed) > 0:
		report.State = provider.GuestFailed
	default:
		report.State, report.Message = provider.GuestDone, "cloud-init is done"
	}
	if len(failed) > 0 {
		text := "errors in " + strings.Join(report.Failed, ", ")
		if report.State == provider.GuestFailed {
			report.Message = "cloud-init ended with " + text
		} else {
			report.Message += ", with " + text
		}
	}
	return report
}

// failedPart names the module of an error, where it is one of cloud-init's own.
func failedPart(text string) string {
	m := failedModule.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	if name := strings.ReplaceAll(m[1], "-", "_"); slices.Contains(cloudInitModules, name) {
		return "/" + name
	}
	return ""
}
