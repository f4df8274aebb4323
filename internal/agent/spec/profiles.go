package spec

import (
	"errors"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// seccompProfile is which system calls a container may make; without a profile, all
// that its capabilities allow.
func seccompProfile(profile *v1.SeccompProfile, node Node) (*cri.SecurityProfile, error) {
	if profile == nil || profile.Type == v1.SeccompProfileTypeUnconfined {
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}, nil
	}
	if profile.Type == v1.SeccompProfileTypeRuntimeDefault {
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}, nil
	}
	if ptr.Deref(profile.LocalhostProfile, "") == "" {
		return nil, errors.New("localhostProfile must be set if seccompProfile type is Localhost")
	}
	return &cri.SecurityProfile{
		ProfileType:  cri.SecurityProfile_Localhost,
		LocalhostRef: filepath.Join(node.SeccompRoot, *profile.LocalhostProfile),
	}, nil
}

// apparmorProfile is the container's AppArmor profile; nil leaves it to the runtime.
func apparmorProfile(profile *v1.AppArmorProfile) (*cri.SecurityProfile, error) {
	if profile == nil {
		return nil, nil
	}
	switch profile.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}, nil
	case v1.AppArmorProfileTypeUnconfined:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}, nil
	case v1.AppArmorProfileTypeLocalhost:
		if ptr.Deref(profile.LocalhostProfile, "") == "" {
			return nil, errors.New("missing localhost apparmor profile name")
		}
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: *profile.LocalhostProfile}, nil
	}
	return nil, fmt.Errorf("unknown apparmor profile type: %q", profile.Type)
}
