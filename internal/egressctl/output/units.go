package output

import (
	"fmt"
	"time"
)

// Bytes writes n with a binary unit and at most one decimal: "512 B", "1.5 MiB", "435 MiB".
func Bytes(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/step, []string{"KiB", "MiB", "GiB", "TiB"}
	for value >= step && len(units) > 1 {
		value, units = value/step, units[1:]
	}
	if value < 10 {
		return fmt.Sprintf("%.1f %s", value, units[0])
	}
	return fmt.Sprintf("%.0f %s", value, units[0])
}

// Elapsed writes d in whole seconds: "45s", "3m05s", "1h02m".
func Elapsed(d time.Duration) string {
	d = d.Truncate(time.Second)
	hours, minutes, seconds := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}

// Age writes how long ago something was made, in its largest unit: "45s", "12m", "5h", "3d". A moment
// in the future, by another clock, is "0s"; the zero moment is "".
func Age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	d := max(now.Sub(then), 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
