package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"muster.dev/muster/internal/coverage"
)

// news makes a handler of the two things that can be learnt of an object: how it
// is now, and that it is gone.
func news[T any](set, remove func(*T)) cache.ResourceEventHandler {
	changed := func(object any) {
		if typed, ok := object.(*T); ok {
			set(typed)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if typed, ok := object.(*T); ok {
				remove(typed)
			}
		},
	}
}

func (c *Cluster) wake(sets ...types.UID) {
	for _, set := range sets {
		c.Wake(set, false)
	}
}

func (c *Cluster) setNode(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake(c.matrix.SetNode(node)...)
}

func (c *Cluster) removeNode(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake(c.matrix.RemoveNode(node.UID)...)
}

func (c *Cluster) setDaemon(set *appsv1.DaemonSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.matrix.Daemon(set.UID)
	if held != nil && !newer(set, held) {
		return
	}
	c.matrix.SetDaemon(set)
	// What this program writes into the status comes back as news too.
	if held == nil || held.Generation != set.Generation || held.DeletionTimestamp == nil && set.DeletionTimestamp != nil {
		c.Wake(set.UID, true)
	} else {
		c.wake(set.UID)
	}
}

func (c *Cluster) removeDaemon(set *appsv1.DaemonSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.matrix.RemoveDaemon(set.UID)
	c.wake(set.UID)
}

func (c *Cluster) setPod(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unseen, pod.UID)
	c.setPodLocked(pod)
}

func (c *Cluster) setPodLocked(pod *v1.Pod) {
	if held := c.matrix.Pod(pod.UID); held != nil && !newer(pod, held) {
		return
	}
	if since, ok := c.deleting[pod.UID]; ok {
		if pod.DeletionTimestamp != nil {
			delete(c.deleting, pod.UID)
		} else {
			pod = stopping(pod, metav1.NewTime(since))
		}
	}
	c.wake(c.matrix.SetPod(pod)...)
	if metav1.GetControllerOfNoCopy(pod) == nil {
		c.setOrphanLocked(pod)
	} else {
		delete(c.orphans[pod.Namespace], pod.UID)
	}
}

// stopping is the Pod with its deletion in it.
func stopping(pod *v1.Pod, since metav1.Time) *v1.Pod {
	shallow := *pod
	shallow.DeletionTimestamp = &since
	return &shallow
}

func (c *Cluster) setOrphanLocked(pod *v1.Pod) {
	inNamespace := c.orphans[pod.Namespace]
	if inNamespace == nil {
		inNamespace = map[types.UID]*v1.Pod{}
		c.orphans[pod.Namespace] = inNamespace
	}
	held := inNamespace[pod.UID]
	inNamespace[pod.UID] = pod
	if held == nil {
		c.wakeNamespaceLocked(pod.Namespace)
	}
}

// wakeNamespaceLocked wakes the sets that might adopt something there.
func (c *Cluster) wakeNamespaceLocked(namespace string) {
	for _, uid := range c.matrix.Daemons() {
		if c.matrix.Daemon(uid).Namespace == namespace {
			c.wake(uid)
		}
	}
}

func (c *Cluster) removePod(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unseen, pod.UID)
	delete(c.deleting, pod.UID)
	delete(c.orphans[pod.Namespace], pod.UID)
	if len(c.orphans[pod.Namespace]) == 0 {
		delete(c.orphans, pod.Namespace)
	}
	c.wake(c.matrix.RemovePod(pod.UID)...)
}

func (c *Cluster) setRevision(revision *appsv1.ControllerRevision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	inNamespace := c.revisions[revision.Namespace]
	if inNamespace == nil {
		inNamespace = map[string]*appsv1.ControllerRevision{}
		c.revisions[revision.Namespace] = inNamespace
	}
	held := inNamespace[revision.Name]
	if held != nil && !newer(revision, held) {
		return
	}
	inNamespace[revision.Name] = revision
	if owner := metav1.GetControllerOfNoCopy(revision); owner != nil {
		c.wake(owner.UID)
	} else {
		c.wakeNamespaceLocked(revision.Namespace)
	}
}

func (c *Cluster) removeRevision(revision *appsv1.ControllerRevision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	inNamespace := c.revisions[revision.Namespace]
	if held := inNamespace[revision.Name]; held != nil && held.UID == revision.UID {
		delete(inNamespace, revision.Name)
	}
	if len(inNamespace) == 0 {
		delete(c.revisions, revision.Namespace)
	}
	if owner := metav1.GetControllerOfNoCopy(revision); owner != nil {
		c.wake(owner.UID)
	}
}

// wrote takes the API's answer to a write of ours into the matrix at once.
func (c *Cluster) wrote(pod *v1.Pod) {
	if trimmed, err := Trim(pod); err == nil {
		pod = trimmed.(*v1.Pod)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.matrix.Pod(pod.UID) == nil && coverage.OwnerOf(pod) != "" {
		c.unseen[pod.UID] = pod
	}
	c.setPodLocked(pod)
}

// ended takes an accepted deletion into the matrix at once.
func (c *Cluster) ended(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.matrix.Pod(pod.UID)
	if held == nil || held.DeletionTimestamp != nil {
		return
	}
	now := metav1.NewTime(c.Clock.Now())
	c.deleting[pod.UID] = now.Time
	c.wake(c.matrix.SetPod(stopping(held, now))...)
}
