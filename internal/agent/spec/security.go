package spec

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// What the runtime hides of the kernel, unless procMount is Unmasked.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
		"/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// sandboxSecurity is the security context of the Pod's sandbox.
func sandboxSecurity(pod *v1.Pod) *cri.LinuxSandboxSecurityContext {
	security := &cri.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(pod, ""),
		Privileged:       anyPrivileged(pod),
		// The sandbox's own process needs nothing that the profile forbids.
		Seccomp: &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
	}
	of := pod.Spec.SecurityContext
	if of == nil {
		return security
	}
	security.RunAsUser, security.RunAsGroup = userValue(of.RunAsUser), nil
	if of.RunAsUser != nil {
		security.RunAsGroup = userValue(of.RunAsGroup)
	}
	security.SelinuxOptions = selinux(of.SELinuxOptions)
	security.SupplementalGroups, security.SupplementalGroupsPolicy = groups(of)
	return security
}

// containerSecurity is the security context of a container: the container's own
// settings over the Pod's.
func containerSecurity(in ContainerInput) (*cri.LinuxContainerSecurityContext, error) {
	of := effective(in.Pod, in.Container)
	if err := verifyNonRoot(in, of); err != nil {
		return nil, err
	}
	seccomp, err := seccompProfile(of.SeccompProfile, in.Node)
	if err != nil {
		return nil, err
	}
	apparmor, err := apparmorProfile(of.AppArmorProfile)
	if err != nil {
		return nil, err
	}
	security := &cri.LinuxContainerSecurityContext{
		NamespaceOptions: namespaces(in.Pod, in.Target),
		SelinuxOptions:   selinux(of.SELinuxOptions),
		Privileged:       ptr.Deref(of.Privileged, false),
		ReadonlyRootfs:   ptr.Deref(of.ReadOnlyRootFilesystem, false),
		NoNewPrivs:       !ptr.Deref(of.AllowPrivilegeEscalation, true),
		RunAsGroup:       userValue(of.RunAsGroup),
		Seccomp:          seccomp,
		Apparmor:         apparmor,
		Capabilities:     capabilities(of.Capabilities),
	}
	setUser(security, of.RunAsUser, in.ImageUser)
	if ptr.Deref(of.ProcMount, v1.DefaultProcMount) != v1.UnmaskedProcMount {
		security.MaskedPaths = slices.Clone(maskedPaths)
		security.ReadonlyPaths = slices.Clone(readonlyPaths)
	}
	if in.Pod.Spec.SecurityContext != nil {
		security.SupplementalGroups, security.SupplementalGroupsPolicy = groups(in.Pod.Spec.SecurityContext)
	}
	return security, nil
}

// effective lays the container's security context over the Pod's.
func effective(pod *v1.Pod, container *v1.Container) v1.SecurityContext {
	var of v1.SecurityContext
	if container.SecurityContext != nil {
		of = *container.SecurityContext
	}
	if pod.Spec.SecurityContext == nil {
		return of
	}
	under := pod.Spec.SecurityContext
	of.RunAsUser = orElse(of.RunAsUser, under.RunAsUser)
	of.RunAsGroup = orElse(of.RunAsGroup, under.RunAsGroup)
	of.RunAsNonRoot = orElse(of.RunAsNonRoot, under.RunAsNonRoot)
	of.SELinuxOptions = orElse(of.SELinuxOptions, under.SELinuxOptions)
	of.SeccompProfile = orElse(of.SeccompProfile, under.SeccompProfile)
	of.AppArmorProfile = orElse(of.AppArmorProfile, under.AppArmorProfile)
	return of
}

func orElse[T any](own, under *T) *T {
	if own != nil {
		return own
	}
	return under
}

// verifyNonRoot refuses a container that must not run as root and would, or might.
func verifyNonRoot(in ContainerInput, of v1.SecurityContext) error {
	if !ptr.Deref(of.RunAsNonRoot, false) {
		return nil
	}
	where := fmt.Sprintf("(pod: %q, container: %s)", podFullName(in.Pod), in.Container.Name)
	switch {
	case of.RunAsUser != nil && *of.RunAsUser == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy %s", where)
	case of.RunAsUser != nil:
		return nil
	case in.ImageUser.Username != "" && in.ImageUser.UID == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", in.ImageUser.Username, where)
	case ptr.Deref(in.ImageUser.UID, 0) == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", where)
	}
	return nil
}

func podFullName(pod *v1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// setUser names the user outright even where the image decides, because a group
// alone is not a valid answer to the runtime.
func setUser(security *cri.LinuxContainerSecurityContext, asked *int64, image User) {
	switch {
	case asked != nil:
		security.RunAsUser = userValue(asked)
	case image.UID == nil && image.Username != "":
		security.RunAsUsername = image.Username
	default:
		security.RunAsUser = &cri.Int64Value{Value: ptr.Deref(image.UID, 0)}
	}
}

// namespaces says which namespaces of the kernel the Pod shares with the host, and
// whether its containers share one process namespace (target: with one container).
func namespaces(pod *v1.Pod, target string) *cri.NamespaceOption {
	options := &cri.NamespaceOption{
		Network: hostOrPod(pod.Spec.HostNetwork),
		Ipc:     hostOrPod(pod.Spec.HostIPC),
		Pid:     cri.NamespaceMode_CONTAINER,
	}
	switch {
	case pod.Spec.HostPID:
		options.Pid = cri.NamespaceMode_NODE
	case target != "":
		options.Pid, options.TargetId = cri.NamespaceMode_TARGET, target
	case ptr.Deref(pod.Spec.ShareProcessNamespace, false):
		options.Pid = cri.NamespaceMode_POD
	}
	return options
}

func hostOrPod(host bool) cri.NamespaceMode {
	if host {
		return cri.NamespaceMode_NODE
	}
	return cri.NamespaceMode_POD
}

// groups are the supplemental groups, fsGroup among them, so that the Pod may
// write to the volumes that belong to it.
func groups(of *v1.PodSecurityContext) ([]int64, cri.SupplementalGroupsPolicy) {
	var list []int64
	if of.FSGroup != nil {
		list = append(list, *of.FSGroup)
	}
	list = append(list, of.SupplementalGroups...)
	if ptr.Deref(of.SupplementalGroupsPolicy, v1.SupplementalGroupsPolicyMerge) == v1.SupplementalGroupsPolicyStrict {
		return list, cri.SupplementalGroupsPolicy_Strict
	}
	return list, cri.SupplementalGroupsPolicy_Merge
}

func capabilities(of *v1.Capabilities) *cri.Capability {
	if of == nil {
		return nil
	}
	names := func(list []v1.Capability) []string {
		out := make([]string, len(list))
		for i, name := range list {
			out[i] = string(name)
		}
		return out
	}
	return &cri.Capability{AddCapabilities: names(of.Add), DropCapabilities: names(of.Drop)}
}

func selinux(of *v1.SELinuxOptions) *cri.SELinuxOption {
	if of == nil {
		return nil
	}
	return &cri.SELinuxOption{User: of.User, Role: of.Role, Type: of.Type, Level: of.Level}
}

func anyPrivileged(pod *v1.Pod) bool {
	privileged := func(c v1.Container) bool {
		return c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false)
	}
	return slices.ContainsFunc(pod.Spec.InitContainers, privileged) || slices.ContainsFunc(pod.Spec.Containers, privileged)
}

func userValue(id *int64) *cri.Int64Value {
	if id == nil {
		return nil
	}
	return &cri.Int64Value{Value: *id}
}
