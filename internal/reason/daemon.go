package reason

// Reasons that concern a daemon and its rollout: what coverage and daemonset say.
const (
	// RolloutHeld: an update waits because its budget of unavailable Pods is spent.
	RolloutHeld Code = "RolloutHeld"
)

var daemonTable = map[Code]entry{
	RolloutHeld: {
		text:   "the update waits: {count} Pod(s) unavailable, maxUnavailable is {asked}",
		remedy: "repair or delete the nodes named, or raise maxUnavailable",
	},
}
