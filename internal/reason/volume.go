package reason

// Reasons why a Pod's volumes are not in place: what the agent's volume room says.
const (
	// FailedMount is Kubernetes' word for a volume that could not be set up (yet).
	FailedMount Code = "FailedMount"
	// VolumeNotPermitted: the node may not read what the volume is made of (yet).
	VolumeNotPermitted Code = "VolumeNotPermitted"
	// UnsupportedVolume: a kind of volume that muster never acts on.
	UnsupportedVolume Code = "UnsupportedVolume"
)

var volumeTable = map[Code]entry{
	FailedMount: {
		text:   `MountVolume.SetUp failed for volume "{object}" : {detail}`,
		remedy: "create or repair what the volume refers to; it is tried again by itself",
	},
	VolumeNotPermitted: {
		text:   `MountVolume.SetUp failed for volume "{object}" : {detail}`,
		remedy: "none just after the Pod was bound: the node's permission follows the binding; if it lasts, check the node's credentials",
	},
	UnsupportedVolume: {
		text:   `volume "{object}" waits: muster does not act on {detail}`,
		remedy: "replace {detail} by emptyDir, hostPath, configMap, secret, projected or downwardAPI, or remove the volume",
	},
}
