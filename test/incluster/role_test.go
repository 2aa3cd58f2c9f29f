//go:build e2e

package incluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

const account = "system:serviceaccount:" + namespace + ":" + operator

// may is everything that the operator may do: the verbs of a resource, in every namespace or, where a name
// is given, on that object of its own namespace only.
var may = []struct {
	resource string // with its group, as kubectl names it
	verbs    string
	own      bool   // in its own namespace only
	name     string // of the one object; empty for all
}{
	{resource: "proxies.egress.hrajfrisbee.cz", verbs: "list watch patch"},
	{resource: "proxies.egress.hrajfrisbee.cz/status", verbs: "patch"},
	{resource: "proxies.egress.hrajfrisbee.cz/finalizers", verbs: "update"},
	{resource: "providerhealths.egress.hrajfrisbee.cz", verbs: "list watch create delete"},
	{resource: "providerhealths.egress.hrajfrisbee.cz/status", verbs: "patch"},
	{resource: "secrets", verbs: "get create update"},
	{resource: "events.events.k8s.io", verbs: "create"},
	{resource: "events", verbs: "create", own: true},
	{resource: "leases.coordination.k8s.io", verbs: "create", own: true},
	{resource: "leases.coordination.k8s.io", verbs: "get update", own: true, name: "egress-proxies-operator.egress.hrajfrisbee.cz"},
	{resource: "configmaps", verbs: "create", own: true},
	{resource: "configmaps", verbs: "get", own: true, name: "egress-proxies-operator-identity"},
}

// everyVerbUsed reads the API server's audit log: what the operator asked for since it was installed, and
// was given.
func everyVerbUsed(t *testing.T, s *story) {
	// Another password: the kept hash is made anew, and the Secret with the URLs.
	s.kubectl(t, "patch", "secret", sample+"-auth", "-p", `{"stringData":{"password":"changed"}}`)
	// Secrets are not watched: a pause that ends has the operator look at once.
	s.kubectl(t, "annotate", "eproxy", sample, v1alpha1.AnnotationPaused+"=true")
	s.kubectl(t, "annotate", "eproxy", sample, v1alpha1.AnnotationPaused+"-")
	var used map[string]bool
	s.eventually(t, "the changed password is written down", time.Minute, func(context.Context) bool {
		used = s.auditLog(t)
		return used["update secrets"]
	})
	for _, m := range may {
		for verb := range strings.FieldsSeq(m.verbs) {
			what := verb + " " + m.resource
			if _, known := unasked[what]; !known && !used[what] {
				t.Errorf("the operator may %s and never does: take it from config/rbac/role.yaml", what)
			}
		}
	}
}

// unasked is what the operator needs, and does not ask this API server for.
var unasked = map[string]string{
	"update proxies.egress.hrajfrisbee.cz/finalizers": "admission asks for it, when an object gets an owner whose deletion it may block " +
		"(OwnerReferencesPermissionEnforcement, which this node has switched on)",
	"list proxies.egress.hrajfrisbee.cz":         "a watch brings the list with it, but not from API servers before 1.34",
	"list providerhealths.egress.hrajfrisbee.cz": "a watch brings the list with it, but not from API servers before 1.34",
}

// auditLog gives "verb resource" of the operator's requests that succeeded, and fails on one that was refused.
func (s *story) auditLog(t *testing.T) map[string]bool {
	t.Helper()
	file, err := os.Open(filepath.Join(s.nodeDir, "log", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	used := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Subresource, APIGroup, Namespace, Name string }
			ResponseStatus struct{ Code int }
		}
		if !bytes.HasSuffix(lines.Bytes(), []byte("}")) {
			break // it is being written
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		ref := event.ObjectRef
		if event.User.Username != account || ref.Resource == "" {
			continue
		}
		what := event.Verb + " " + resourceName(ref.APIGroup, ref.Resource, ref.Subresource)
		switch {
		case event.ResponseStatus.Code == 403:
			t.Errorf("the operator asked for what it may not: %s %s/%s", what, ref.Namespace, ref.Name)
		case event.ResponseStatus.Code < 300:
			used[what] = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return used
}

func resourceName(group, resource, subresource string) string {
	if group != "" {
		resource += "." + group
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	return resource
}

// noOtherVerb asks the API server's authorizer about every verb of every resource that there is, and tries
// some as the operator.
func noOtherVerb(t *testing.T, s *story) {
	var want []string
	for _, m := range may {
		for verb := range strings.FieldsSeq(m.verbs) {
			want = append(want, question{verb, m.resource, namespace, m.name}.String())
			if !m.own {
				want = append(want, question{verb, m.resource, "default", m.name}.String())
			}
		}
	}
	slices.Sort(want)
	asked, allowed := s.allowed(t)
	if diff := cmp.Diff(want, allowed); diff != "" {
		t.Errorf("what the operator may do, of %d questions: -want, +allowed:\n%s", asked, diff)
	}
	t.Logf("%d questions, %d allowed", asked, len(allowed))
	s.refusedAsTheOperator(t)
}

// question is one verb on one resource; name is empty for any object.
type question struct{ verb, resource, namespace, name string }

func (q question) String() string {
	return q.verb + " " + q.resource + " in " + q.namespace + " " + q.name
}

// allowed asks all questions, and gives their number and those that were answered with yes.
func (s *story) allowed(t *testing.T) (asked int, yes []string) {
	t.Helper()
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(s.config).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"proxies.egress.hrajfrisbee.cz/finalizers": true}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for _, r := range list.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			names[resourceName(group, resource, sub)] = true
		}
	}
	questions := make(chan question)
	go func() {
		defer close(questions)
		for name := range names {
			for verb := range strings.FieldsSeq("get list watch create update patch delete deletecollection") {
				for _, where := range []string{namespace, "default"} {
					questions <- question{verb, name, where, ""}
				}
			}
		}
		for _, m := range may {
			if m.name != "" {
				for verb := range strings.FieldsSeq("get list watch create update patch delete") {
					questions <- question{verb, m.resource, namespace, m.name}
				}
			}
		}
	}()
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for q := range questions {
				// What every ServiceAccount may, such as asking what it may, is not the operator's.
				allowed := s.review(t, namespace, operator, q) && !s.review(t, "default", "default", q)
				mu.Lock()
				asked++
				if allowed {
					yes = append(yes, q.String())
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	slices.Sort(yes)
	// A create without a name is a create of any name.
	return asked, slices.DeleteFunc(slices.Compact(yes), func(q string) bool {
		return strings.HasPrefix(q, "create ") && !strings.HasSuffix(q, " ")
	})
}

// review asks the authorizer about a ServiceAccount.
func (s *story) review(t *testing.T, where, account string, q question) bool {
	t.Helper()
	resource, sub, _ := strings.Cut(q.resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + where + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + where, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: q.verb, Group: group, Resource: resource, Subresource: sub, Namespace: q.namespace, Name: q.name,
		},
	}}
	if err := s.api.Create(t.Context(), review); err != nil {
		t.Errorf("%s: %v", q, err)
	}
	return review.Status.Allowed
}

// refusedAsTheOperator sends a few requests with the operator's own token.
func (s *story) refusedAsTheOperator(t *testing.T) {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if err := s.api.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operator}}, request); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken = request.Status.Token
	as, err := client.New(config, client.Options{Scheme: s.api.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	pod := s.pods(t.Context())[0]
	for name, request := range map[string]func() error{
		"list Secrets": func() error { return as.List(t.Context(), &corev1.SecretList{}) },
		"read a ConfigMap": func() error {
			return as.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "egress-proxies-providers"}, &corev1.ConfigMap{})
		},
		"delete its Pod": func() error { return as.Delete(t.Context(), &pod) },
		"delete a Proxy": func() error {
			return as.Delete(t.Context(), &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: sample}})
		},
		"read nodes": func() error { return as.List(t.Context(), &corev1.NodeList{}) },
		"delete a user's Secret": func() error {
			return as.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: sample + "-auth"}})
		},
	} {
		if err := request(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it to be refused", name, err)
		}
	}
}
