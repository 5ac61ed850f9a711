// in_order makes Go files of one package walk their maps in the order of the keys.
//
// Go walks a map in a random order. What a library answers by chance cannot be compared; with this
// it gives one of the answers that it might give, always the same one.
//
//	in_order FOLDER FILE...
//
// The files are changed where they are, and a file with the function that they call is put beside.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

const helper = `package %s

import (
	"iter"
	"reflect"
	"slices"
)

func inOrder[M ~map[K]V, K comparable, V any](m M) iter.Seq2[K, V] {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b K) int { return inOrderCompare(reflect.ValueOf(a), reflect.ValueOf(b)) })
	return func(yield func(K, V) bool) {
		for _, key := range keys {
			if value, there := m[key]; there && !yield(key, value) {
				return
			}
		}
	}
}

func inOrderCompare(a, b reflect.Value) int {
	switch a.Kind() {
	case reflect.String:
		if a.String() == b.String() {
			return 0
		} else if a.String() < b.String() {
			return -1
		}
		return 1
	case reflect.Struct:
		for at := 0; at < a.NumField(); at++ {
			if found := inOrderCompare(a.Field(at), b.Field(at)); found != 0 {
				return found
			}
		}
		return 0
	default:
		return int(a.Int() - b.Int())
	}
}
`

// nothing is imported: the maps that matter are of the package's own types
type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

func main() {
	folder, names := os.Args[1], os.Args[2:]
	files := token.NewFileSet()
	packages, err := parser.ParseDir(files, folder, func(info os.FileInfo) bool {
		return !strings.HasSuffix(info.Name(), "_test.go")
	}, 0)
	if err != nil {
		log.Fatal(err)
	}
	for name, parsed := range packages {
		if name == "main" {
			continue
		}
		var all []*ast.File
		for _, file := range parsed.Files {
			all = append(all, file)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		config := types.Config{Importer: nothing{}, Error: func(error) {}}
		_, _ = config.Check(name, files, all, info)
		for _, each := range names {
			path := filepath.Join(folder, each)
			rewrite(files, path, parsed.Files[path], info)
		}
		text := fmt.Sprintf(helper, name)
		if err := os.WriteFile(filepath.Join(folder, "in_order.go"), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

func rewrite(files *token.FileSet, path string, file *ast.File, info *types.Info) {
	source, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	inserted := map[int]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if loop, is := node.(*ast.RangeStmt); is {
			if found := info.Types[loop.X].Type; found != nil {
				if _, is := found.Underlying().(*types.Map); is {
					inserted[files.Position(loop.X.Pos()).Offset] = "inOrder("
					inserted[files.Position(loop.X.End()).Offset] = ")"
				}
			} else {
				log.Printf("%s: left as it is: its type is of another package", files.Position(loop.Pos()))
			}
		}
		return true
	})
	offsets := make([]int, 0, len(inserted))
	for offset := range inserted {
		offsets = append(offsets, offset)
	}
	sort.Ints(offsets)
	var text strings.Builder
	last := 0
	for _, offset := range offsets {
		text.Write(source[last:offset])
		text.WriteString(inserted[offset])
		last = offset
	}
	text.Write(source[last:])
	log.Printf("%s: %d loops over maps", path, len(offsets)/2)
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		log.Fatal(err)
	}
}
