package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/apiserver"
	"muster.dev/muster/internal/testkit/server"
)

// serveUntilKilled is the other process of TestKillLosesNothingAcknowledged: it
// writes objects and says so, one line each, until it is killed.
func serveUntilKilled(dir string) {
	s, err := server.Open(dir, apiserver.Options{})
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	c, err := kubernetes.NewForConfig(s.Client())
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		name := fmt.Sprint("written-", i)
		_, err := c.CoreV1().ConfigMaps("default").Create(context.Background(), &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"i": fmt.Sprint(i)}}, metav1.CreateOptions{})
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println(name)
	}
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	const enough = 200
	dir := t.TempDir()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), crashDir+"="+dir)
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	var acknowledged []string
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		name := lines.Text()
		if !strings.HasPrefix(name, "written-") {
			t.Fatalf("the other process says %q", name)
		}
		acknowledged = append(acknowledged, name)
		if len(acknowledged) == enough && !killed {
			killed = true // what it had said before still comes through the pipe
			if err := process.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := process.Wait(); err == nil || len(acknowledged) < enough {
		t.Fatalf("it ended by itself after %d writes: %v", len(acknowledged), err)
	}

	s := open(t, dir)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	list, err := owner(t, s).CoreV1().ConfigMaps("default").List(soon(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{}
	for _, m := range list.Items {
		there[m.Name] = m.Data["i"]
	}
	for i, name := range acknowledged {
		if there[name] != fmt.Sprint(i) {
			t.Errorf("%s was acknowledged and is %q", name, there[name])
		}
	}
}
