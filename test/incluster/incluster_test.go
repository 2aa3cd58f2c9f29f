//go:build e2e

// Package incluster runs the operator as its users do: from its image and the shipped manifests, as a Pod of
// a real node, against the lab. The node is the test's own, and must leave nothing behind.
package incluster

import (
	"testing"
)

// TestInCluster is one story; its steps build on each other.
func TestInCluster(t *testing.T) {
	s := newStory(t)
	steps := []struct {
		name string
		run  func(*testing.T, *story)
	}{
		{"NodeIsReady", nodeIsReady},
		{"ShippedManifestsRunTheImage", shippedManifests},
		{"PodIsRestricted", podIsRestricted},
		{"SecretAndProvidersFileArriveInTheRunningPod", secretAndProviders},
		{"SampleIsApplied", sampleApplied},
		{"KeyAndProvidersFileChangeWithoutARestart", keyRotated},
		{"SampleIsReady", sampleReady},
		{"RequestPassesThroughTheProxy", requestPasses},
		{"TwoReplicasHaveOneLeader", twoReplicas},
		{"LeaderKilledInTheMiddleOfACreate", killedInCreate},
		{"PodKilledInTheMiddleOfADelete", killedInDelete},
		{"EveryVerbOfTheRoleIsUsed", everyVerbUsed},
		{"NoOtherVerbIsAllowed", noOtherVerb},
		{"DeletedLeavesNothingOnTheHosts", deletedLeavesNothing},
		{"DeleteOfTheManifestsLeavesNothingInTheCluster", manifestsDeleted},
		{"NodeLeavesNothing", nodeLeavesNothing},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { s.timed(t, step.run) }) {
			t.Fatalf("%s failed: what follows builds on it. The operator's log:\n%s", step.name, s.operatorLog())
		}
	}
}
