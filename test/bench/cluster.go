package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds every wait: what takes longer is lost.
const patience = 2 * time.Minute

// cluster is one `muster up` with everything of its own.
type cluster struct {
	binary string
	dir    string // its data directory
	logs   string // of its Pods
	flags  []string
}

// newCluster chooses ports and a Pod network that are this process's own.
func newCluster(binary, dir string) (*cluster, error) {
	api, err := freePort()
	if err != nil {
		return nil, err
	}
	agent, err := freePort()
	if err != nil {
		return nil, err
	}
	c := &cluster{binary: binary, dir: filepath.Join(dir, "data"), logs: filepath.Join(dir, "logs")}
	c.flags = []string{"up", "--detach", "--data-dir", c.dir, "--node-name", "node-1",
		"--listen", ":" + api, "--agent-port", agent, "--pod-cidr", podNetwork(),
		"--pod-logs-dir", c.logs, "--container-logs-dir", filepath.Join(dir, "links")}
	return c, nil
}

func podNetwork() string {
	return fmt.Sprintf("10.%d.%d.0/24", 180+os.Getpid()/250%60, os.Getpid()%250)
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// run runs a verb of the binary.
func (c *cluster) run(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.binary, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running muster %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// up starts the cluster and returns when its node is Ready.
func (c *cluster) up(ctx context.Context) error { return c.run(ctx, c.flags...) }

// stop ends muster as Ctrl-C does; containerd and the containers stay.
func (c *cluster) stop() error {
	pid, err := c.pid()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping muster: %w", err)
	}
	lock, err := os.Open(filepath.Join(c.dir, "lock"))
	if err != nil {
		return fmt.Errorf("waiting for muster to stop: %w", err)
	}
	defer lock.Close()
	for {
		// The kernel gives the lock once its holder is gone.
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// purge takes everything away, also after a measure that was interrupted.
func (c *cluster) purge() error {
	return c.run(context.Background(), "down", "--purge", "--data-dir", c.dir)
}

// pid is the process of muster.
func (c *cluster) pid() (int, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "lock"))
	if err != nil {
		return 0, fmt.Errorf("finding muster's process: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// containerdPID is the process of the cluster's containerd.
func (c *cluster) containerdPID() (int, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "containerd", "process.json"))
	if err != nil {
		return 0, fmt.Errorf("finding containerd's process: %w", err)
	}
	var record struct{ PID int }
	if err := json.Unmarshal(text, &record); err != nil {
		return 0, fmt.Errorf("finding containerd's process: %w", err)
	}
	return record.PID, nil
}

func (c *cluster) socket() string { return filepath.Join(c.dir, "containerd", "containerd.sock") }

// client speaks to the API as a user does: over TLS, by the kubeconfig.
func (c *cluster) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	return client, nil
}
