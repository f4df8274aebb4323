package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/testkit/build"
)

// setUIDs makes the fake API give every object it creates a UID and a time, as a
// real one does. It stands before the loops under test.
func setUIDs(_ context.Context, s *shared) (func(context.Context) error, error) {
	var serial atomic.Int64
	s.client.(*fake.Clientset).PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || action.GetSubresource() != "" {
			return false, nil, nil
		}
		if object, err := meta.Accessor(create.GetObject()); err == nil && object.GetUID() == "" {
			object.SetUID(types.UID(fmt.Sprintf("made-%d", serial.Add(1))))
			object.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
		}
		return false, nil, nil
	})
	return untilDone, nil
}

// setAgents makes every bound Pod Ready, as its node would, save those of an image
// that never is.
func setAgents(ctx context.Context, s *shared) (func(context.Context) error, error) {
	serve := func(_, pod *v1.Pod) {
		if pod.Spec.NodeName == "" || len(pod.Status.Conditions) > 0 || pod.Spec.Containers[0].Image == "daemon:bad" {
			return
		}
		running := pod.DeepCopy()
		build.SetReady(running, s.clock.Now())
		_, _ = s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, running, metav1.UpdateOptions{})
	}
	_, err := s.informers.Core().V1().Pods().Informer().AddEventHandler(handle(serve, func(*v1.Pod) {}))
	return untilDone, err
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

var daemonLoops = []loop{{"uids", setUIDs}, {"ledger", setLedger}, {"agents", setAgents}, {"daemons", setDaemons}}

func (w *world) set(name string) *appsv1.DaemonSet {
	w.Helper()
	set, err := w.client.AppsV1().DaemonSets("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatalf("reading the set %s: %v", name, err)
	}
	return set
}

func (w *world) updateSet(name string, change func(*appsv1.DaemonSet)) {
	w.Helper()
	set := w.set(name).DeepCopy()
	change(set)
	set.Generation++
	if _, err := w.client.AppsV1().DaemonSets("default").Update(w.Context(), set, metav1.UpdateOptions{}); err != nil {
		w.Fatalf("updating the set %s: %v", name, err)
	}
}

// daemonPods are node=image of all Pods, in order of node.
func (w *world) daemonPods() string {
	w.Helper()
	list, err := w.client.CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatalf("listing Pods: %v", err)
	}
	var all []string
	for _, pod := range list.Items {
		all = append(all, pod.Spec.NodeName+"="+strings.TrimPrefix(pod.Spec.Containers[0].Image, "daemon:"))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (w *world) expectPods(want string) {
	w.Helper()
	if got := w.daemonPods(); got != want {
		w.Errorf("the Pods are %q, should be %q", got, want)
	}
}

func TestDaemonsCoverEveryNode(t *testing.T) {
	set := build.DaemonSet("logd")
	inWorld(t, daemonLoops, []runtime.Object{set, worldNode("a"), worldNode("b")}, func(w *world) {
		w.expectPods("a=v1 b=v1")
		if n := w.writes("create", "pods", "binding"); n != 0 {
			t.Errorf("%d bindings; a daemon's Pod takes one write", n)
		}
		status := w.set("logd").Status
		if status.NumberAvailable != 2 || status.UpdatedNumberScheduled != 2 || status.ObservedGeneration != 1 {
			t.Errorf("status is %+v, should say two available and updated", status)
		}
		if got := w.messages("SuccessfulCreate", "logd"); len(got) != 1 || !strings.HasPrefix(got[0], "Created pods (2): logd-") {
			t.Errorf("events are %q, should be one for both Pods", got)
		}
		node := worldNode("c")
		if _, err := w.client.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.expectPods("a=v1 b=v1 c=v1")
	})
}

func TestDaemonsAreUpdatedAndTakenBack(t *testing.T) {
	set := build.DaemonSet("logd")
	inWorld(t, daemonLoops, []runtime.Object{set, worldNode("a"), worldNode("b"), worldNode("c")}, func(w *world) {
		w.updateSet("logd", build.Image("daemon:v2"))
		w.settle()
		w.expectPods("a=v2 b=v2 c=v2")
		w.updateSet("logd", build.Image("daemon:bad"))
		w.settle()
		w.expectPods("a=bad b=v2 c=v2")
		if status := w.set("logd").Status; status.NumberUnavailable != 1 || status.UpdatedNumberScheduled != 1 {
			t.Errorf("status is %+v, should say one updated and unavailable", status)
		}
		w.updateSet("logd", build.Image("daemon:v2"))
		w.settle()
		w.expectPods("a=v2 b=v2 c=v2")
		revisions, err := w.client.AppsV1().ControllerRevisions("default").List(w.Context(), metav1.ListOptions{})
		if err != nil || len(revisions.Items) != 3 {
			t.Errorf("%d revisions (%v), should be three", len(revisions.Items), err)
		}
	})
}

func TestC47AFailingCreateStopsTheGrowthOfTheBatch(t *testing.T) {
	objects := []runtime.Object{build.DaemonSet("logd")}
	for i := range 200 {
		objects = append(objects, worldNode(fmt.Sprintf("n%03d", i)))
	}
	var refused, open atomic.Int64
	refuse := func(_ context.Context, s *shared) (func(context.Context) error, error) {
		s.client.(*fake.Clientset).PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if open.Load() == 1 {
				return false, nil, nil
			}
			refused.Add(1)
			return true, nil, apierrors.NewForbidden(v1.Resource("pods"), "", fmt.Errorf("exceeded quota"))
		})
		return untilDone, nil
	}
	loops := append(slices.Clone(daemonLoops), loop{"refusal", refuse})
	inWorld(t, loops, objects, func(w *world) {
		// At most one burst under way when the first error came, then one at a time.
		if n := refused.Load(); n == 0 || n > 50 {
			t.Errorf("%d creates were tried against a closed door, should be few", n)
		}
		if got := w.messages("FailedCreate", "logd"); len(got) == 0 || !strings.Contains(got[0], "exceeded quota") {
			t.Errorf("events are %q, should say why", got)
		}
		open.Store(1)
		w.pass(2 * time.Minute)
		if got := len(strings.Fields(w.daemonPods())); got != 200 {
			t.Errorf("%d Pods once the door is open, should be 200", got)
		}
		if n := w.writes("create", "pods", ""); n > 300 {
			t.Errorf("%d creates in all for 200 Pods", n)
		}
	})
}

func TestAStatusIsWrittenOncePerBurstAndSurvivesConflicts(t *testing.T) {
	objects := []runtime.Object{build.DaemonSet("logd")}
	for i := range 100 {
		objects = append(objects, worldNode(fmt.Sprintf("n%03d", i)))
	}
	var conflicts atomic.Int64
	conflict := func(_ context.Context, s *shared) (func(context.Context) error, error) {
		s.client.(*fake.Clientset).PrependReactor("update", "daemonsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() != "status" || conflicts.Add(1) > 2 {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(appsv1.Resource("daemonsets"), "logd", fmt.Errorf("changed"))
		})
		return untilDone, nil
	}
	inWorld(t, append(slices.Clone(daemonLoops), loop{"conflicts", conflict}), objects, func(w *world) {
		if got := w.set("logd").Status; got.NumberAvailable != 100 || got.ObservedGeneration != 1 {
			t.Errorf("status is %+v, should say 100 available", got)
		}
		// Created, and Ready in one or a few bursts of news; two tries were refused.
		if n := w.writes("update", "daemonsets", "status"); n > 10 {
			t.Errorf("the status of one set was written %d times for 100 Pods", n)
		}
	})
}

func TestAPodThatCannotBeBoundIsCreatedUnbound(t *testing.T) {
	full := worldPod("full", "4", onNode("a"))
	set := build.DaemonSet("logd", func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Resources = worldPod("x", "1").Spec.Containers[0].Resources
	})
	inWorld(t, daemonLoops, []runtime.Object{set, worldNode("a"), full}, func(w *world) {
		list, _ := w.client.CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{LabelSelector: "app=logd"})
		if len(list.Items) != 1 || list.Items[0].Spec.NodeName != "" {
			t.Fatalf("Pods are %+v, should be one, left to placement", list.Items)
		}
		if got := w.set("logd").Status; got.DesiredNumberScheduled != 1 || got.CurrentNumberScheduled != 1 || got.NumberReady != 0 {
			t.Errorf("status is %+v", got)
		}
	})
}

func TestAStrangerWithTheNameIsLeftAloneAndSaid(t *testing.T) {
	set := build.DaemonSet("logd", build.Selecting("role=x"))
	node := worldNode("a", func(node *v1.Node) { node.Labels["role"] = "x" })
	name := daemonset.PodName(set, node.UID, "")
	stranger := worldPod(name, "1", onNode("b"))
	inWorld(t, daemonLoops, []runtime.Object{set, node, worldNode("b"), stranger}, func(w *world) {
		got := w.messages("FailedCreate", "logd")
		if len(got) == 0 || !strings.Contains(got[0], "another object has this Pod's name") {
			t.Errorf("events are %q, should say that the name is taken", got)
		}
		if w.pod(name).UID != stranger.UID {
			t.Error("the stranger is gone")
		}
		if got := w.set("logd").Status; got.DesiredNumberScheduled != 1 || got.CurrentNumberScheduled != 0 {
			t.Errorf("status is %+v, should lack the one Pod", got)
		}
		w.deletePod(name)
		w.pass(2 * time.Minute)
		w.expectPods("a=v1")
	})
}

func TestC14ASurgeThatCannotEndIsWarnedOfOnce(t *testing.T) {
	set := build.DaemonSet("logd", build.Selecting("no=where"), build.Budget("0", "1"), func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 9100, ContainerPort: 9100}}
	})
	inWorld(t, daemonLoops, []runtime.Object{set, worldNode("a")}, func(w *world) {
		w.updateNode("a", func(node *v1.Node) { node.Labels["more"] = "news" })
		w.settle()
		got := w.messages("HostPortSurge", "logd")
		if len(got) != 1 || !strings.Contains(got[0], "container main asks for a host port") {
			t.Errorf("events are %q, should warn once", got)
		}
	})
}

func TestC19And37UsersMoveDaemonsByHand(t *testing.T) {
	set := build.DaemonSet("logd", build.Selecting("role=x"))
	labelled := func(node *v1.Node) { node.Labels["role"] = "x" }
	inWorld(t, daemonLoops, []runtime.Object{set, worldNode("a", labelled), worldNode("b", labelled)}, func(w *world) {
		w.expectPods("a=v1 b=v1")
		w.updateNode("b", func(node *v1.Node) { delete(node.Labels, "role") })
		w.settle()
		w.expectPods("a=v1")
		if got := w.set("logd").Status; got.DesiredNumberScheduled != 1 || got.NumberMisscheduled != 0 {
			t.Errorf("status is %+v, should want one", got)
		}
	})
}
