package kvm2

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// numbered is the request for one of many instances.
func numbered(n int) provider.CreateRequest {
	return testRequest(func(req *provider.CreateRequest) {
		req.Name = fmt.Sprintf("%s-%d", testName, n)
		req.UID = uuid.NewSHA1(uuid.NameSpaceURL, []byte(req.Name)).String()
	})
}

// R2.1.1 and R2.2.6: twenty calls at once have the outcomes that each has alone.
func TestContract_twentyInstancesAtOnce(t *testing.T) {
	const instances = 20
	r := newRig(t)
	ids := make([]string, instances)
	var calls sync.WaitGroup
	for n := range instances {
		calls.Go(func() {
			id, err := r.Create(t.Context(), numbered(n))
			if err != nil {
				t.Errorf("create instance %d: %v", n, err)
				return
			}
			ids[n] = id
			inst, err := r.Get(t.Context(), id)
			if err != nil || inst.UID != numbered(n).UID {
				t.Errorf("get of instance %d gives the UID %q, %v, want its own", n, inst.UID, err)
			}
		})
	}
	calls.Wait()
	if got := len(r.host.domainNames()); got != instances {
		t.Errorf("%d domains, want %d: one for each request", got, instances)
	}
	for n := range instances {
		calls.Go(func() {
			if err := r.Delete(t.Context(), ids[n]); err != nil {
				t.Errorf("delete instance %d: %v", n, err)
			}
		})
	}
	calls.Wait()
	if left := append(r.host.domainNames(), own(r.host)...); len(left) != 0 {
		t.Errorf("left on the host: %v", left)
	}
}

// R2.1.6: whatever the calls' outcome, what they needed is given back.
func TestContract_callsLeaveNothingBehind(t *testing.T) {
	r := newRig(t)
	round := func() {
		r.mustCreate(t, testRequest())
		if _, err := r.Get(t.Context(), testID); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Get(t.Context(), "not an ID"); err == nil {
			t.Fatal("a malformed ID is accepted")
		}
		if _, err := r.ListByTag(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Check(t.Context())
		if err := r.Delete(t.Context(), testID); err != nil {
			t.Fatal(err)
		}
	}
	round() // the connection that is kept
	links, conns, goroutines := r.dialer.openLinks(), r.host.open(), runtime.NumGoroutine()
	const rounds = 20
	for range rounds {
		round()
	}
	if got := r.dialer.openLinks(); got != links {
		t.Errorf("%d SSH connections after %d rounds, %d after one", got, rounds, links)
	}
	if got := r.host.open(); got != conns {
		t.Errorf("%d libvirt connections after %d rounds, %d after one", got, rounds, conns)
	}
	if got := runtime.NumGoroutine(); got > goroutines+2 { // the runtime has some of its own
		t.Errorf("%d goroutines after %d rounds, %d after one", got, rounds, goroutines)
	}
}

// R2.2.23: a name may have every length and form that a DNS label has.
func TestContract_everyLegalName(t *testing.T) {
	names := map[string]string{
		"shortest":      "a",
		"digits":        "42",
		"longest":       strings.Repeat("a", 63),
		"hyphens":       "a--b-0",
		"like a seed":   "vm-seed",
		"like a base":   "kvm2-base-" + strings.Repeat("0", 53),
		"every letter":  "abcdefghijklmnopqrstuvwxyz-0123456789",
		"starts with 0": "0a",
	}
	for reason, name := range names {
		t.Run(reason, func(t *testing.T) {
			r := newRig(t)
			before := r.host.volumeNames(testPool)
			id := r.mustCreate(t, testRequest(func(req *provider.CreateRequest) { req.Name = name }))
			if inst, err := r.Get(t.Context(), id); err != nil || inst.Name != name {
				t.Errorf("get gives the name %q, %v, want %q", inst.Name, err, name)
			}
			if err := r.Delete(t.Context(), id); err != nil {
				t.Errorf("delete: %v", err)
			}
			if diff := cmp.Diff(before, r.host.volumeNames(testPool)); diff != "" {
				t.Errorf("volumes after the delete: -want, +got:\n%s", diff)
			}
		})
	}
}

// R2.6.9: a check looks and changes nothing.
func TestContract_checkChangesNothing(t *testing.T) {
	r := newRig(t)
	r.mustCreate(t, testRequest())
	r.host.forget()
	r.Check(t.Context())
	if got := writes(r.host.recorded()); len(got) != 0 {
		t.Errorf("the check made calls that change something: %v", got)
	}
}

// R8.3.3: user-data is in no span, whether the create succeeds or any of its calls fails.
func TestContract_userDataReachesNoSpan(t *testing.T) {
	const sentinel = "S3NTINEL-user-data"
	req := testRequest(func(req *provider.CreateRequest) {
		req.CloudInit = provider.Secret("#cloud-config\n# " + sentinel + "\n")
	})
	spans := recordSpans(t)
	for k := 0; ; k++ { // 0 is without a fault
		r := newRig(t)
		if k > 0 {
			r.host.arm(fault{nth: k, err: errors.New("no")})
		}
		ctx, span := tracing.Start(t.Context(), "caller")
		_, err := providerOn(t, observingDialer{r.dialer}, r.host).Create(ctx, req)
		span.End()
		if k == 0 && err != nil {
			t.Fatal(err)
		}
		if len(r.host.recorded()) < k {
			break // that many calls are not made
		}
	}
	if len(spans.Ended()) == 0 {
		t.Fatal("no span was recorded: this test looks for the wrong thing")
	}
	if text := spanText(spans); strings.Contains(text, sentinel) {
		t.Errorf("a span holds user-data:\n%s", text)
	}
}

// spanText is everything that a span exporter could see.
func spanText(spans *tracetest.SpanRecorder) string {
	var out strings.Builder
	for _, s := range spans.Ended() {
		fmt.Fprintln(&out, s.Name(), s.Attributes(), s.Events(), s.Status())
	}
	return out.String()
}

// R8.3.6: the query of an image's URL may be a signature. It is in no error, log line or span.
func TestContract_urlsAreShownWithoutCredentials(t *testing.T) {
	const sentinel = "S3NTINEL-signature"
	answers := map[string]http.HandlerFunc{
		"the image": func(w http.ResponseWriter, _ *http.Request) {
			content := qcow2Bytes(64 << 10)
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content)
		},
		"gone":     func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"busy":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"no image": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/egress.qcow2?signature="+sentinel, http.StatusFound)
		},
		"hangs up": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			h := newFakeHost("beelink")
			entry := testConfig(t, h)
			img := testImage(t)
			img.URL = server.URL + "/egress.qcow2?signature=" + sentinel
			entry.KVM2.Images["egress"] = img
			spans, log := recordSpans(t), &logLines{}
			p := newProvider(entry, provider.Options{Owner: testOwner, Log: log.logger(10)}, observingDialer{newFakeDialer(h)})
			_, err := p.Create(t.Context(), testRequest())
			if closeErr := p.Close(); closeErr != nil {
				t.Error(closeErr)
			}
			if (err == nil) != (name == "the image") {
				t.Fatalf("create: %v", err)
			}
			told := fmt.Sprint(err) + "\n" + log.text() + "\n" + spanText(spans)
			if !strings.Contains(told, "kvm2.download") {
				t.Fatal("no transfer was traced: this test looks for the wrong thing")
			}
			if strings.Contains(told, sentinel) {
				t.Errorf("the query of the URL is told:\n%s", told)
			}
		})
	}
}
