// What `helm template` and `helm lint` do, without what they need for talking to clusters and registries: the stock
// program compiles those, too, which takes minutes. The chart loader, the engine, the check of values and the lint
// rules are Helm's own.
//
//	helm template CHART [--name N] [--namespace NS] [--values FILE] [--include-crds]
//	helm lint CHART [--namespace NS] [--values FILE]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

var (
	flags       = flag.NewFlagSet("helm", flag.ExitOnError)
	name        = flags.String("name", "tfoperator", "name of the release")
	namespace   = flags.String("namespace", "default", "namespace of the release")
	valuesFile  = flags.String("values", "", "YAML file with values")
	includeCRDs = flags.Bool("include-crds", false, "print the chart's CRDs, too")
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 {
		return errors.New("usage: helm template|lint CHART [flags]")
	}
	_ = flags.Parse(arguments[2:]) // ends the process on an error
	values := map[string]interface{}{}
	if *valuesFile != "" {
		text, err := os.ReadFile(*valuesFile)
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, &values); err != nil {
			return err
		}
	}
	switch arguments[0] {
	case "template":
		return template(arguments[1], values)
	case "lint":
		return check(arguments[1], values)
	}
	return fmt.Errorf("unknown command %q", arguments[0])
}

func template(folder string, values map[string]interface{}) error {
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return err
	}
	release := chartutil.ReleaseOptions{Name: *name, Namespace: *namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	if *includeCRDs {
		for _, crd := range chart.CRDObjects() {
			fmt.Printf("---\n# Source: %s\n%s\n", crd.Filename, crd.File.Data)
		}
	}
	paths := make([]string, 0, len(files))
	for file, text := range files {
		if path.Ext(file) == ".yaml" && strings.TrimSpace(text) != "" {
			paths = append(paths, file)
		}
	}
	sort.Strings(paths)
	for _, file := range paths {
		fmt.Printf("---\n# Source: %s\n%s\n", file, files[file])
	}
	return nil
}

func check(folder string, values map[string]interface{}) error {
	found := lint.All(folder, values, *namespace, true)
	for _, message := range found.Messages {
		fmt.Println(message)
	}
	// Anything above the advice to have an icon.
	if found.HighestSeverity > support.InfoSev {
		return errors.New("the chart has mistakes")
	}
	return nil
}
