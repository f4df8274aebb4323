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
// for our network's Pods that are not live.
func releaseRules(ctx context.Context, l layout, live func(id string) bool) error {
	save, restore := findTool("iptables-save").path, findTool("iptables-restore").path
	if save == "" || restore == "" {
		return nil // without iptables there are no rules
	}
	// Looked at twice: shared chains are empty only after the first round.
	for range 2 {
		rules, err := output(ctx, "", save, "-t", "nat")
		if err != nil {
			return fmt.Errorf("listing hostPort rules: %w", err)
		}
		edit := staleRules(rules, l.network, live)
		if edit == "" {
			return nil
		}
		if _, err := output(ctx, edit, restore, "--noflush", "-w"); err != nil {
			return fmt.Errorf("releasing hostPort rules: %w", err)
		}
	}
	return nil
}

// The plugins mark their rules with a comment that names network and container.
var ruleOwner = regexp.MustCompile(`name: \\"([^"\\]*)\\" id: \\"([^"\\]*)\\"`)

// staleRules works out, from `iptables-save -t nat`, the input of
// `iptables-restore --noflush` that removes the rules of one CNI network whose
// owners are not live, with their chains; and the shared chains once nobody uses
// hostPorts. It is empty when there is nothing to do.
func staleRules(rules, network string, live func(id string) bool) string {
	var removed, chains []string
	used := false // somebody has a hostPort
	sharedPresent := false
	for _, line := range strings.Split(rules, "\n") {
		if name, found := strings.CutPrefix(line, ":"); found {
			name, _, _ = strings.Cut(name, " ")
			sharedPresent = sharedPresent || slices.Contains(sharedChains, name)
			continue
		}
		rule, found := strings.CutPrefix(line, "-A ")
		if !found {
			continue
		}
		owner := ruleOwner.FindStringSubmatch(rule)
		if owner == nil || owner[1] != network || live(owner[2]) {
			used = used || strings.HasPrefix(rule, "CNI-HOSTPORT-DNAT ")
			continue
		}
		if target := jumpTarget(rule); strings.HasPrefix(target, "CNI-") && !slices.Contains(sharedChains, target) {
			chains = append(chains, target)
		}
		chain, _, _ := strings.Cut(rule, " ")
		if !strings.HasPrefix(chain, "CNI-") || slices.Contains(sharedChains, chain) {
			removed = append(removed, "-D "+rule)
		} // a private chain is flushed whole
	}
	if len(removed) == 0 && !used && sharedPresent {
		removed, chains = sharedRules(rules)
	}
	return restoreInput(removed, chains)
}

// sharedRules are the jumps into the shared chains, and the chains.
func sharedRules(rules string) (removed, chains []string) {
	for _, line := range strings.Split(rules, "\n") {
		if name, found := strings.CutPrefix(line, ":"); found {
			if name, _, _ = strings.Cut(name, " "); slices.Contains(sharedChains, name) {
				chains = append(chains, name)
			}
		}
		if rule, found := strings.CutPrefix(line, "-A "); found && slices.Contains(sharedChains, jumpTarget(rule)) {
			removed = append(removed, "-D "+rule)
		}
	}
	return removed, chains
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
