package spec

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// serviceEnv is what services tell a container: those of its namespace where the
// Pod wants service links, and always the API server. The API server's stand for
// its real address rather than the kubernetes Service's, which needs a proxy on
// the node to lead anywhere.
func serviceEnv(in ContainerInput) map[string]string {
	env := map[string]string{}
	if ptr.Deref(in.Pod.Spec.EnableServiceLinks, true) {
		for i := range in.Services {
			if in.Services[i].Namespace == in.Pod.Namespace && in.Services[i].Name != "kubernetes" {
				addService(env, &in.Services[i])
			}
		}
	}
	if in.Node.APIHost != "" {
		addService(env, apiService(in.Node))
	}
	return env
}

// apiService is the kubernetes Service as if it had the API server's own address.
func apiService(node Node) *v1.Service {
	port, err := strconv.ParseInt(node.APIPort, 10, 32)
	if err != nil {
		port = 443
	}
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec: v1.ServiceSpec{ClusterIP: node.APIHost, Ports: []v1.ServicePort{
			{Name: "https", Port: int32(port), Protocol: v1.ProtocolTCP},
		}},
	}
}

func addService(env map[string]string, service *v1.Service) {
	if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == v1.ClusterIPNone || len(service.Spec.Ports) == 0 {
		return
	}
	name, ip := envName(service.Name), service.Spec.ClusterIP
	env[name+"_SERVICE_HOST"] = ip
	env[name+"_SERVICE_PORT"] = fmt.Sprint(service.Spec.Ports[0].Port)
	for i, port := range service.Spec.Ports {
		if port.Name != "" {
			env[name+"_SERVICE_PORT_"+envName(port.Name)] = fmt.Sprint(port.Port)
		}
		addServicePort(env, name, ip, port, i == 0)
	}
}

// addServicePort adds the variables in the style of container links.
func addServicePort(env map[string]string, name, ip string, port v1.ServicePort, first bool) {
	protocol := string(port.Protocol)
	if protocol == "" {
		protocol = string(v1.ProtocolTCP)
	}
	number := fmt.Sprint(port.Port)
	address := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, number)
	if first {
		env[name+"_PORT"] = address
	}
	prefix := name + "_PORT_" + number + "_" + strings.ToUpper(protocol)
	env[prefix] = address
	env[prefix+"_PROTO"] = strings.ToLower(protocol)
	env[prefix+"_PORT"] = number
	env[prefix+"_ADDR"] = ip
}

func envName(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
