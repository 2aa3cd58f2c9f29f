package kvm2

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package when a goroutine outlives the tests: connections must not leak.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
