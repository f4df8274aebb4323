package reason

// table is filled by one file per subject (placement.go, pod.go, …), so that a
// code, its text and its remedy stand side by side.
var table = merge(podTable, placementTable, daemonTable, volumeTable, nodeTable, nodelifeTable)

func merge(parts ...map[Code]entry) map[Code]entry {
	all := map[Code]entry{}
	for _, part := range parts {
		for code, line := range part {
			if _, twice := all[code]; twice {
				panic("reason code defined twice: " + string(code))
			}
			all[code] = line
		}
	}
	return all
}
