package fake

import (
	"container/heap"
	"time"

	"k8s.io/utils/clock"
)

// timers runs functions at their times by one clock timer, so that a simulated
// node without anything due costs no goroutine. Its methods are called with the
// runtime's lock held, and the functions are called with it too.
type timers struct {
	clock clock.WithDelayedExecution
	fire  func() // takes the lock and calls due
	queue timerQueue
	armed clock.Timer
	seq   int
}

type timed struct {
	at  time.Time
	seq int // keeps equal times in the order they were set
	do  func()
}

func (t *timers) after(d time.Duration, do func()) {
	t.seq++
	heap.Push(&t.queue, timed{at: t.clock.Now().Add(d), seq: t.seq, do: do})
	t.arm()
}

// due runs what is due and arms the timer for the rest.
func (t *timers) due() {
	for now := t.clock.Now(); len(t.queue) > 0 && !t.queue[0].at.After(now); {
		heap.Pop(&t.queue).(timed).do()
	}
	t.arm()
}

func (t *timers) arm() {
	if t.armed != nil {
		t.armed.Stop()
		t.armed = nil
	}
	if len(t.queue) > 0 {
		t.armed = t.clock.AfterFunc(max(0, t.queue[0].at.Sub(t.clock.Now())), t.fire)
	}
}

type timerQueue []timed

func (q timerQueue) Len() int { return len(q) }
func (q timerQueue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].seq < q[j].seq
}
func (q timerQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timerQueue) Push(x any)   { *q = append(*q, x.(timed)) }
func (q *timerQueue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = timed{}
	*q = (*q)[:len(*q)-1]
	return last
}
