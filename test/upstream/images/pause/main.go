// Command pause does nothing until it is asked to end. It stands in for the
// suite's pause image; the sandboxes of muster's Pods have their own.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	<-asked
}
