package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"muster.dev/muster/internal/agent/spec"
	"muster.dev/muster/internal/runtime"
)

// maxOutput is how much of a probe's answer is kept for events, in bytes.
const maxOutput = 10 << 10

// result is what one probe found.
type result struct {
	ok     bool
	output string
}

// handle carries out one probe. An error says that it could not be carried out,
// which is not the container's failure.
func (w *watch) handle(ctx context.Context, probe *v1.Probe, timeout time.Duration) (result, error) {
	switch {
	case probe.Exec != nil:
		return w.exec(ctx, probe.Exec.Command, timeout)
	case probe.HTTPGet != nil:
		return w.httpGet(ctx, probe.HTTPGet, timeout)
	case probe.TCPSocket != nil:
		return w.tcp(ctx, probe.TCPSocket, timeout)
	case probe.GRPC != nil:
		return w.grpc(ctx, probe.GRPC, timeout)
	}
	return result{}, fmt.Errorf("missing probe handler for %s:%s", w.pod.Name, w.container.Name)
}

// exec runs a command in the container; it succeeds by exit code 0.
func (w *watch) exec(ctx context.Context, command []string, timeout time.Duration) (result, error) {
	expanded := make([]string, len(command))
	for i, word := range command {
		expanded[i] = spec.Expand(word, w.literal)
	}
	answer, err := w.manager.options.Runtime.ExecSync(ctx, w.target.ContainerID, expanded, timeout)
	if errors.Is(err, runtime.ErrTimedOut) {
		return result{output: fmt.Sprintf("command timed out: %q timed out after %s", expanded, timeout)}, nil
	}
	if err != nil {
		return result{}, err
	}
	output := append(answer.Stdout, answer.Stderr...)
	return result{ok: answer.ExitCode == 0, output: string(output[:min(len(output), maxOutput)])}, nil
}

// literal looks up the container's variables that stand in the manifest itself.
func (w *watch) literal(name string) (string, bool) {
	for i := len(w.container.Env) - 1; i >= 0; i-- {
		if variable := w.container.Env[i]; variable.Name == name && variable.ValueFrom == nil {
			return variable.Value, true
		}
	}
	return "", false
}

// tcp succeeds when the port accepts a connection.
func (w *watch) tcp(ctx context.Context, action *v1.TCPSocketAction, timeout time.Duration) (result, error) {
	port, err := w.port(action.Port)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(w.host(action.Host), port))
	if err != nil {
		return result{output: err.Error()}, nil
	}
	// The connection has served its purpose; how it closes says nothing.
	_ = connection.Close()
	return result{ok: true}, nil
}

func (w *watch) host(own string) string {
	if own != "" {
		return own
	}
	return w.target.PodIP
}

// port is the number of a port that a probe gives by number or by name.
func (w *watch) port(port intstr.IntOrString) (string, error) {
	if port.Type == intstr.Int {
		return validPort(port.IntValue())
	}
	for _, named := range w.container.Ports {
		if named.Name == port.StrVal {
			return validPort(int(named.ContainerPort))
		}
	}
	number, err := strconv.Atoi(port.StrVal)
	if err != nil {
		return "", fmt.Errorf("couldn't find port named %q in container %s", port.StrVal, w.container.Name)
	}
	return validPort(number)
}

func validPort(number int) (string, error) {
	if number < 1 || number > 65535 {
		return "", fmt.Errorf("invalid port number: %d", number)
	}
	return strconv.Itoa(number), nil
}
