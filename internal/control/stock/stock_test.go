package stock_test

import (
	"context"
	"os"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/control/stock"
	"muster.dev/muster/internal/testkit/server"
)

// TestMain ends the server that the tests share; each starts its own controllers.
func TestMain(m *testing.M) { os.Exit(server.RunTests(m)) }

// patience is how long a test waits for a controller.
const patience = 60 * time.Second

// cluster starts the controllers beside the shared server, for one test.
func cluster(t *testing.T) (*server.Server, kubernetes.Interface) {
	t.Helper()
	s := server.Shared(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stock.Run(ctx, stock.Config{Client: s.Client(), PKI: s.PKI}) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the controllers ended with: %v", err)
			}
		case <-time.After(patience):
			t.Error("the controllers do not end")
		}
	})
	c, err := kubernetes.NewForConfig(s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func waitFor(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !check() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// namespace makes a namespace and waits for what every namespace gets.
func namespace(t *testing.T, c kubernetes.Interface, name string) {
	t.Helper()
	ctx := soon(t)
	if _, err := c.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the default service account", func() bool {
		_, err := c.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// configMap makes a config map that belongs to owners.
func configMap(t *testing.T, c kubernetes.Interface, namespace, name string, owners ...*v1.ConfigMap) *v1.ConfigMap {
	t.Helper()
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, o := range owners {
		block := true
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &block})
	}
	made, err := c.CoreV1().ConfigMaps(namespace).Create(soon(t), m, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func gone(t *testing.T, c kubernetes.Interface, namespace, name string) bool {
	t.Helper()
	_, err := c.CoreV1().ConfigMaps(namespace).Get(soon(t), name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}
