package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
)

// chaosSteps are the init steps of the Pod that suffers, in order.
var chaosSteps = []string{"a", "b", "c"}

// TestOrderHoldsInChaos lets everything go wrong at random times - agents die in
// the middle of a change, sandboxes and containers too, ended containers vanish,
// the runtime and the API go away - and checks at every start what must never be
// otherwise. When it calms down, the Pod becomes Ready.
func TestOrderHoldsInChaos(t *testing.T) {
	const seeds = 25
	starts := 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *testNode) {
				c := &chaos{testNode: n, rand: rand.New(rand.NewPCG(uint64(seed), 1)), t: t}
				n.script = c.started
				c.run()
				starts += len(c.runs)
			})
		})
	}
	if starts < seeds*10 {
		t.Errorf("only %d starts: the chaos is too tame to show anything", starts)
	}
}

// chaos is one Pod's bad day and the witness of its order.
type chaos struct {
	*testNode
	t   *testing.T
	pod *v1.Pod

	mu   sync.Mutex // guards what follows
	rand *rand.Rand
	runs []*witnessed
	calm bool
}

// witnessed is one start and how it goes on.
type witnessed struct {
	id      string
	sandbox uint32
	name    string
	ends    time.Time // zero: not by itself
	code    int32
	cut     bool // ended by someone else before
}

func (r *witnessed) over(now time.Time) bool {
	return r.cut || (!r.ends.IsZero() && !r.ends.After(now))
}
func (r *witnessed) done(now time.Time) bool { return !r.cut && r.over(now) && r.code == 0 }

// started checks a start against all that went before, and decides how it goes on.
func (c *chaos) started(s fake.Start) fake.Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, name, sandbox := time.Now(), s.Config.Metadata.Name, s.Sandbox.Metadata.Attempt
	step := slices.Index(chaosSteps, name)
	for _, r := range c.runs {
		r.cut = r.cut || r.id == s.ID // the runtime broke that start off
	}
	before := chaosSteps
	if step >= 0 {
		before = chaosSteps[:step]
	}
	for _, earlier := range before {
		if !c.doneLocked(sandbox, earlier, now) {
			c.t.Errorf("%s starts in sandbox %d before %s is done there", name, sandbox, earlier)
		}
	}
	if step >= 0 && c.doneLocked(sandbox, name, now) {
		c.t.Errorf("%s runs again in sandbox %d", name, sandbox)
	}
	for _, r := range c.runs {
		if r.sandbox == sandbox && !r.over(now) {
			c.t.Errorf("%s starts while %s runs in sandbox %d", name, r.name, sandbox)
		}
	}
	run, seen := fake.Run{Delay: time.Duration(c.rand.IntN(20)) * time.Millisecond}, &witnessed{id: s.ID, sandbox: sandbox, name: name}
	if step >= 0 {
		run.Ends, run.After = true, time.Duration(c.rand.IntN(3000))*time.Millisecond
		if !c.calm && c.rand.IntN(4) == 0 {
			run.ExitCode = 1
		}
		seen.ends, seen.code = now.Add(run.Delay+run.After), run.ExitCode
	}
	c.runs = append(c.runs, seen)
	return run
}

func (c *chaos) doneLocked(sandbox uint32, name string, now time.Time) bool {
	return slices.ContainsFunc(c.runs, func(r *witnessed) bool {
		return r.sandbox == sandbox && r.name == name && r.done(now)
	})
}

// run is the bad day and the calm after it.
func (c *chaos) run() {
	c.api.before(func(*v1.Pod) error {
		if c.lucky(3) {
			return errors.New("the API is busy")
		}
		return nil
	})
	stop := c.doomedAgent()
	c.pod = testPod(inits(chaosSteps...), apps("main"))
	c.api.create(c.t, c.pod)
	for range 40 {
		time.Sleep(time.Duration(c.number(1500)) * time.Millisecond)
		synctest.Wait()
		switch c.number(7) {
		case 0, 1:
			stop()
			c.removeSomething()
			stop = c.doomedAgent()
		case 2:
			c.loseSandbox()
		case 3:
			c.killSomething()
		case 4:
			c.removeSomething()
		case 5:
			c.runtime.Disconnect()
			time.Sleep(time.Duration(c.number(3000)) * time.Millisecond)
			c.runtime.Connect()
		}
	}
	stop()
	c.mu.Lock()
	c.calm = true
	c.mu.Unlock()
	c.api.before(nil)
	defer c.start(c.t)()
	c.await(c.t, c.pod, 20*time.Minute, "Ready after the chaos", ready)
}

// doomedAgent starts an agent that dies at one of its next changes.
func (c *chaos) doomedAgent() (stop func()) {
	config := c.config
	config.Runtime = &mortal{
		Runtime: c.runtime, left: 1 + c.number(12), after: c.lucky(2), killed: make(chan struct{}),
		lag: func() time.Duration { return time.Duration(c.number(20)) * time.Millisecond },
	}
	return c.startOn(c.t, config)
}

func (c *chaos) loseSandbox() {
	held, err := c.runtime.Pod(c.t.Context(), c.pod.UID)
	if err != nil || len(held.Sandboxes) == 0 {
		return
	}
	c.cut(func(r *witnessed) bool { return r.sandbox == held.Sandboxes[0].Attempt })
	c.runtime.LoseSandbox(held.Sandboxes[0].ID)
}

func (c *chaos) killSomething() {
	held, err := c.runtime.Pod(c.t.Context(), c.pod.UID)
	if err != nil {
		return
	}
	for _, container := range held.Containers {
		if container.State == runtime.Running {
			c.cut(func(r *witnessed) bool { return r.name == container.Name })
			c.runtime.Kill(container.ID, 137, "Error")
			return
		}
	}
}

// removeSomething takes an ended container away behind the agent's back, once some
// agent has seen its end.
func (c *chaos) removeSomething() {
	held, err := c.runtime.Pod(c.t.Context(), c.pod.UID)
	if err != nil {
		return
	}
	memory := &journal{path: dirs{root: c.config.RootDir}.journal(c.pod.UID), facts: newFacts()}
	if _, err := memory.read(); err != nil {
		c.t.Fatal(err)
	}
	for _, container := range held.Containers {
		if container.State == runtime.Exited && memory.facts.attempts[container.ID].State == podplan.RunExited {
			if err := c.runtime.RemoveContainer(c.t.Context(), container.ID); err != nil {
				c.t.Error(err)
			}
			return
		}
	}
}

// cut marks runs that end now by another's hand.
func (c *chaos) cut(which func(*witnessed) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.runs {
		if which(r) && !r.over(time.Now()) {
			r.cut = true
		}
	}
}

func (c *chaos) number(below int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(below)
}

func (c *chaos) lucky(oneIn int) bool { return c.number(oneIn) == 0 }
