//go:build tools

// Package upstream keeps what this module builds but never links in go.mod:
// Kubernetes' end-to-end suite, its test programs and the suite's runner.
package upstream

import (
	_ "github.com/onsi/ginkgo/v2/ginkgo"
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "k8s.io/kubernetes/test/images/nonewprivs"
)
