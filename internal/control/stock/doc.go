// Package stock runs those of Kubernetes' own controllers whose work is not
// muster's: the end of namespaces, garbage collection by owner, service accounts
// and their tokens, the root certificate in every namespace, quota, certificate
// requests, the endpoints of Services and the sums of cluster roles.
//
// They are used as libraries, unchanged, over a client in this process. Only
// kinds that the API server serves are watched: what to watch is read from its
// discovery, again and again, so that custom kinds take part. The package decides
// nothing itself; Pods, nodes and daemons are none of its business.
//
// Its tests stand in internal/control/stock/stock_test.go and need a whole API
// server.
package stock
