// Package proxy takes one Proxy to one instance: finalizer and ID first, then the instance, its
// address, a request through it, and the Secret with its URLs; one file per step.
//
// Nothing here waits for a backend. Work on instances runs as jobs outside the reconcile workers, at
// most one for each Proxy and a bounded number for each host; a finished job wakes its Proxy's
// reconcile, which turns what was seen into status and decides on the next job.
package proxy
