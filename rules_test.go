// Package rules_test holds the repository's own laws as tests, so that a breach
// is a failing test with its reason and not a remark in a review.
package rules_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "muster.dev/muster/"

// pureRooms decide; they are handed the world and the time as values.
var pureRooms = []string{
	"internal/reason", "internal/coverage", "internal/daemonset",
	"internal/placement", "internal/nodelife", "internal/podplan",
}

// pureImports is what a pure room may import besides the standard library's
// value packages and other pure rooms: the API's types and Kubernetes' own
// functions over them.
var pureImports = []string{
	"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/component-helpers/", "k8s.io/utils/",
}

// impureStandard are the parts of the standard library that reach for the world.
var impureStandard = []string{
	"context", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand",
	"net", "net/http", "os", "os/exec", "io/fs", "sync", "sync/atomic", "syscall",
}

// impureCalls read a clock or wait on one.
var impureCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
}

// doors says which packages outside the standard library only certain rooms may
// import, and why: each is a seam that the rest of the tree stays independent of.
var doors = []struct {
	imports string
	rooms   []string
	why     string
}{
	{"k8s.io/kubernetes/", []string{"internal/apiserver", "internal/control/stock"},
		"Kubernetes' own server code stays behind these rooms, so that they can be replaced by leaner ones"},
	{"go.etcd.io/etcd/", []string{"internal/store", "internal/apiserver"},
		"only the store knows what keeps the objects"},
	{"k8s.io/cri-api/", []string{"internal/runtime", "internal/agent", "internal/host", "internal/hollow"},
		"only the node's side speaks to a container runtime"},
	{"k8s.io/cri-client/pkg", []string{"internal/runtime", "internal/agent", "internal/host"},
		"only the node's side speaks to a container runtime"},
	{"k8s.io/kubectl/pkg/cmd", []string{"internal/cli", "internal/apiserver"},
		"kubectl the command is a verb of the command line; what it has of libraries is open to all"},
	{module + "internal/apiserver", []string{"internal/up", "internal/testkit", "internal/apiserver"},
		"every other room speaks client-go to the API"},
	{module + "internal/cli", []string{"cmd/muster", "internal/cli"},
		"the command line asks the rooms, never the other way round"},
	{module + "internal/podplan", []string{"internal/agent", "internal/hollow", "internal/podplan"},
		"what to do next for a Pod is decided on its node"},
	{module + "internal/testkit", []string{"test", "internal/testkit"},
		"test helpers stay out of the product (test files are free to use them)"},
}

// source is one Go file of the tree.
type source struct {
	path string // slash-separated, from the root
	room string // its directory
	test bool
	file *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var found []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || path == "test/upstream") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		found = append(found, source{path: path, room: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"), file: file})
		return nil
	})
	if err != nil {
		t.Fatalf("reading the tree: %v", err)
	}
	return found
}

func imports(file *ast.File) []string {
	paths := make([]string, 0, len(file.Imports))
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// within says that path is one of the rooms or lies below one.
func within(path string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool {
		return path == room || strings.HasPrefix(path, strings.TrimSuffix(room, "/")+"/")
	})
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, src := range sources(t) {
		if src.test && !strings.HasSuffix(src.file.Name.Name, "_test") {
			continue
		}
		said[src.room] = said[src.room] || src.file.Doc != nil
	}
	for room, ok := range said {
		if !ok {
			t.Errorf("package %s has no doc comment: a newcomer reads there what it decides or owns, and what it never does", room)
		}
	}
}

func TestPureRoomsImportNoWorld(t *testing.T) {
	for _, src := range sources(t) {
		if src.test || !within(src.room, pureRooms) {
			continue
		}
		for _, path := range imports(src.file) {
			standard := !strings.Contains(strings.SplitN(path, "/", 2)[0], ".")
			switch {
			case standard && slices.Contains(impureStandard, path):
				t.Errorf("%s imports %s: a pure room is handed the world as values, or its decisions cannot be replayed", src.path, path)
			case standard, within(path, pureImports):
			case strings.HasPrefix(path, module) && within(strings.TrimPrefix(path, module), pureRooms):
			default:
				t.Errorf("%s imports %s: pure rooms know only the API's types and one another", src.path, path)
			}
		}
	}
}

func TestPureRoomsTellNoTimeAndStartNothing(t *testing.T) {
	for _, src := range sources(t) {
		if src.test || !within(src.room, pureRooms) {
			continue
		}
		ast.Inspect(src.file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: a pure room answers and returns", src.path)
			case *ast.ChanType:
				t.Errorf("%s uses a channel: a pure room answers and returns", src.path)
			case *ast.SelectorExpr:
				if pkg, ok := node.X.(*ast.Ident); ok && slices.Contains(impureCalls[pkg.Name], node.Sel.Name) {
					t.Errorf("%s calls %s.%s: time is an argument in a pure room, so that a decision can be tested and replayed", src.path, pkg.Name, node.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestDoorsStayShut(t *testing.T) {
	for _, src := range sources(t) {
		if src.test {
			continue
		}
		for _, path := range imports(src.file) {
			for _, door := range doors {
				if (path == door.imports || strings.HasPrefix(path, strings.TrimSuffix(door.imports, "/")+"/")) && !within(src.room, door.rooms) {
					t.Errorf("%s imports %s: only %s may, since %s", src.path, path, strings.Join(door.rooms, ", "), door.why)
				}
			}
		}
	}
}

func TestNoUnfinishedBusiness(t *testing.T) {
	for _, src := range sources(t) {
		for _, group := range src.file.Comments {
			for _, word := range []string{"TODO", "FIXME", "XXX"} {
				if strings.Contains(group.Text(), word) {
					t.Errorf("%s has a %s: finish it, or open an issue and leave the code clean", src.path, word)
				}
			}
		}
	}
}
