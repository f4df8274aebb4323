// Command muster keeps every node covered: it runs a cluster that keeps exactly
// one Pod of each daemon on every eligible node, and says which node lacks which
// and why. This package turns arguments into a call of internal/cli; it decides
// nothing.
package main

import (
	"os"

	"muster.dev/muster/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args))
}
