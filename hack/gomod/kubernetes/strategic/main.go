// Command strategic answers what Kubernetes makes of strategic merge patches. It reads lines of JSON,
// {"kind": "Pod", "base": {...}, "patch": {...}}, and writes each with "result", or "error" if the library refuses.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

type vector struct {
	Kind   string          `json:"kind"`
	Base   json.RawMessage `json:"base"`
	Patch  json.RawMessage `json:"patch"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

var kinds = map[string]any{"Pod": corev1.Pod{}, "Service": corev1.Service{}, "Node": corev1.Node{}}

// merge turns a panic (the library's answer to nulls in lists) into an error.
func merge(v vector) (result []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return strategicpatch.StrategicMergePatch(v.Base, v.Patch, kinds[v.Kind])
}

func main() {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var v vector
		if err := json.Unmarshal(in.Bytes(), &v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		result, err := merge(v)
		if err != nil {
			v.Error = err.Error()
		} else {
			v.Result = result
		}
		if err := out.Encode(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
