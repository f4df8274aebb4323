package apiserver

import (
	"runtime/debug"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"
)

// effectiveVersion is Kubernetes' own, with an honest name: the Kubernetes
// release whose behaviour this API has, marked as muster's assembly of it.
type effectiveVersion struct{ compatibility.EffectiveVersion }

func (v effectiveVersion) Info() *apimachineryversion.Info {
	info := *v.EffectiveVersion.Info()
	info.GitVersion = Version()
	info.GitCommit, info.GitTreeState, info.BuildDate = "", "", ""
	return &info
}

// Version is what the API server answers when asked for its version, for
// example "v1.37.2+muster".
func Version() string {
	const suffix = "+muster"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version + suffix
			}
		}
	}
	return "v" + baseversion.DefaultKubeBinaryVersion + ".0" + suffix
}
