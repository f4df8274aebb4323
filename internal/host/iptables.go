package host

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Chains that every user of the portmap plugin on a machine shares.
var sharedChains = []string{"CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK"}

// releaseRules removes the address-translation rules that the CNI plugins made
// for those of our network's Pods that are stale.
func releaseRules(ctx context.Context, l layout, stale func(id string) bool) error {
	return editNAT(ctx, func(rules string) string { return staleRules(rules, l.network, stale) })
}

// removeSharedRules removes the chains that all hostPorts of a machine share,
// when none is left.
func removeSharedRules(ctx context.Context) error { return editNAT(ctx, unusedSharedRules) }

// editNAT applies what edit makes of the nat table, looking again when the table
// changed under it: others use it too.
func editNAT(ctx context.Context, edit func(rules string) string) error {
	save, restore := findTool("iptables-save").path, findTool("iptables-restore").path
	if save == "" || restore == "" {
		return nil // without iptables there are no rules
	}
	var failed error
	for range 3 {
		rules, err := output(ctx, "", save, "-t", "nat")
		if err != nil {
			return fmt.Errorf("listing hostPort rules: %w", err)
		}
		input := edit(rules)
		if input == "" {
			return nil
		}
		if _, failed = output(ctx, input, restore, "--noflush", "-w"); failed == nil {
			return nil
		}
	}
	return fmt.Errorf("releasing hostPort rules: %w", failed)
}

// The plugins mark their rules with a comment that names network and container.
var ruleOwner = regexp.MustCompile(`name: \\"([^"\\]*)\\" id: \\"([^"\\]*)\\"`)

// staleRules works out, from `iptables-save -t nat`, the input of
// `iptables-restore --noflush` that removes one CNI network's rules for stale
// owners, with their private chains. It is empty when there is nothing to do.
func staleRules(rules, network string, stale func(id string) bool) string {
	var removed, chains []string
	for _, line := range strings.Split(rules, "\n") {
		rule, found := strings.CutPrefix(line, "-A ")
		owner := ruleOwner.FindStringSubmatch(rule)
		if !found || owner == nil || owner[1] != network || !stale(owner[2]) {
			continue
		}
		if target := jumpTarget(rule); private(target) {
			chains = append(chains, target)
		}
		// A private chain goes whole, also one that nothing leads to: a removal that
		// was cut short takes the way to it first.
		if chain, _, _ := strings.Cut(rule, " "); private(chain) {
			chains = append(chains, chain)
		} else {
			removed = append(removed, "-D "+rule)
		}
	}
	return restoreInput(removed, chains)
}

// private says that a chain was made for one Pod.
func private(chain string) bool {
	return strings.HasPrefix(chain, "CNI-") && !slices.Contains(sharedChains, chain)
}

// unusedSharedRules works out the same for the shared chains, when no hostPort
// uses them.
func unusedSharedRules(rules string) string {
	var removed, chains []string
	for _, line := range strings.Split(rules, "\n") {
		if name, found := strings.CutPrefix(line, ":"); found {
			if name, _, _ = strings.Cut(name, " "); slices.Contains(sharedChains, name) {
				chains = append(chains, name)
			}
		}
		rule, found := strings.CutPrefix(line, "-A ")
		if found && strings.HasPrefix(rule, "CNI-HOSTPORT-DNAT ") {
			return "" // somebody has a hostPort
		}
		if found && slices.Contains(sharedChains, jumpTarget(rule)) {
			removed = append(removed, "-D "+rule)
		}
	}
	return restoreInput(removed, chains)
}

func jumpTarget(rule string) string {
	_, after, _ := strings.Cut(rule, " -j ")
	target, _, _ := strings.Cut(after, " ")
	return target
}

func restoreInput(removed, chains []string) string {
	if len(removed)+len(chains) == 0 {
		return ""
	}
	slices.Sort(chains)
	chains = slices.Compact(chains)
	lines := append([]string{"*nat"}, removed...)
	for _, action := range []string{"-F ", "-X "} {
		for _, chain := range chains {
			lines = append(lines, action+chain)
		}
	}
	return strings.Join(append(lines, "COMMIT", ""), "\n")
}

// forwardRules let Pods' packets through where the machine forwards none by
// default, as it does with some firewalls and with Docker.
func forwardRules(l layout) [][]string {
	var rules [][]string
	for _, direction := range []string{"-i", "-o"} {
		rules = append(rules, []string{"FORWARD", direction, l.bridge, "-m", "comment", "--comment", l.network, "-j", "ACCEPT"})
	}
	return rules
}

func allowForwarding(ctx context.Context, l layout) error {
	iptables := findTool("iptables").path
	for _, rule := range forwardRules(l) {
		if _, err := output(ctx, "", iptables, append([]string{"-w", "-C"}, rule...)...); err == nil {
			continue // it is there
		}
		if _, err := output(ctx, "", iptables, append([]string{"-w", "-I"}, rule...)...); err != nil {
			return fmt.Errorf("letting Pods' packets through: %w", err)
		}
	}
	return nil
}

func disallowForwarding(ctx context.Context, l layout) error {
	iptables := findTool("iptables").path
	if iptables == "" {
		return nil
	}
	for _, rule := range forwardRules(l) {
		for { // a start that was cut short may have put it twice
			if _, err := output(ctx, "", iptables, append([]string{"-w", "-C"}, rule...)...); err != nil {
				break // it is not there
			}
			if _, err := output(ctx, "", iptables, append([]string{"-w", "-D"}, rule...)...); err != nil {
				return fmt.Errorf("removing our forwarding rule: %w", err)
			}
		}
	}
	return nil
}
