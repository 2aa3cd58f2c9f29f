package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSlug_asGitHubMakesThem(t *testing.T) {
	cases := map[string]struct {
		reason   string
		headings []string
		want     []string
	}{
		"punctuation": {
			reason:   "everything but letters, digits, hyphens and underscores goes",
			headings: []string{"4.20 The table of `axis` codes", "What's in it, and why?", "not_found (error-code)"},
			want:     []string{"420-the-table-of-axis-codes", "whats-in-it-and-why", "not_found-error-code"},
		},
		"repeated": {
			reason:   "the second of one name gets a number",
			headings: []string{"Limits", "Limits", "Limits"},
			want:     []string{"limits", "limits-1", "limits-2"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			slugs := slugger{}
			var got []string
			for _, heading := range tc.headings {
				got = append(got, slugs.slug(heading))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want, +got):\n%s", tc.reason, diff)
			}
		})
	}
}
