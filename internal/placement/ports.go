package placement

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// anyAddress is the host address that stands for all of them.
const anyAddress = "0.0.0.0"

// hostPort is one port of the node that a Pod takes for itself.
type hostPort struct {
	protocol v1.Protocol
	address  string
	port     int32
}

func (p hostPort) String() string {
	return fmt.Sprintf("%s %s:%d", p.protocol, p.address, p.port)
}

// clashes: same protocol and port, and the same address or one that stands for all.
func (p hostPort) clashes(other hostPort) bool {
	return p.protocol == other.protocol && p.port == other.port &&
		(p.address == other.address || p.address == anyAddress || other.address == anyAddress)
}

// hostPorts are those of the containers that run together: app containers and
// sidecars. An ordinary init step has ended before anything could reach it.
func hostPorts(pod *v1.Pod) []hostPort {
	var ports []hostPort
	collect := func(container *v1.Container) {
		for _, p := range container.Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := hostPort{protocol: p.Protocol, address: p.HostIP, port: p.HostPort}
			if port.protocol == "" {
				port.protocol = v1.ProtocolTCP
			}
			if port.address == "" {
				port.address = anyAddress
			}
			ports = append(ports, port)
		}
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		if container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways {
			collect(container)
		}
	}
	for i := range pod.Spec.Containers {
		collect(&pod.Spec.Containers[i])
	}
	return ports
}

func fitsPorts(r *Request, room *NodeRoom) []reason.Reason {
	for _, wanted := range r.ports {
		for taken := range room.ports {
			if wanted.clashes(taken) {
				return []reason.Reason{{Code: reason.HostPortTaken, Object: wanted.String(), Detail: room.holderOf(taken)}}
			}
		}
	}
	return nil
}
