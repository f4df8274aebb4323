package agent

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// clients are the agent's ways to the API server. Each has a rate of its own, so
// that a burst of events holds up no status, and neither holds up a heartbeat.
type clients struct {
	pods, events, node kubernetes.Interface
}

func newClients(c Config) (made clients, err error) {
	if c.client != nil {
		return clients{pods: c.client, events: c.client, node: c.client}, nil
	}
	if made.pods, err = newClient(c.Client, 100); err != nil {
		return made, err
	}
	if made.events, err = newClient(c.Client, 50); err != nil {
		return made, err
	}
	made.node, err = newClient(c.Client, 10)
	return made, err
}

// newClient makes a client of so many requests a second, twice that in a burst.
func newClient(config *rest.Config, rate float32) (kubernetes.Interface, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), "muster-agent")
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS, config.Burst = rate, int(2*rate)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making API client: %w", err)
	}
	return client, nil
}
