// Package nodelife decides what becomes of a node by its signs of life, and of
// the Pods that nobody will end any more.
//
//	        status says True           no sign of life for the grace period
//	Ready  <------------------ * ---------------------------------> Unknown
//	  ^                        |                                       |
//	  |                        | status says False                     |
//	  |                        v                                       |
//	  +--------------------- NotReady <--------------------------------+
//	                                      only the node's own status leads back
//
// Conditions become the standard taints. A node that is silent has Pods whose
// readiness nobody vouches for, so they are not Ready; a node that still speaks
// speaks for its Pods itself, whatever it says of its own condition.
//
// The package owns the taints and conditions named in it and leaves all others
// as they are. It never reads the API, never writes and never evicts; what is
// due later comes back as a time. Its tests are tables beside it.
package nodelife
