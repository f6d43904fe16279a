// Command reflector keeps a collection in step with an API server by client-go's reflector, and writes what it sees as
// lines of JSON: {"verb": "replace", "names": [...]} for a list, then "add", "update" and "delete" with one name each.
//
//	reflector GROUP VERSION PLURAL NAMESPACE
//
// The group "core" is the one without a name. With KUBE_FEATURE_WatchListClient=true, which is client-go's own switch,
// the list comes as the beginning of a watch.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"sort"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Verb  string   `json:"verb"`
	Names []string `json:"names"`
}

// lines is a store that keeps nothing: it writes.
type lines struct{ out *json.Encoder }

func (l lines) say(verb string, objects ...any) error {
	names := []string{}
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		names = append(names, accessor.GetName())
	}
	sort.Strings(names)
	return l.out.Encode(line{verb, names})
}

func (l lines) Add(object any) error                        { return l.say("add", object) }
func (l lines) Update(object any) error                     { return l.say("update", object) }
func (l lines) Delete(object any) error                     { return l.say("delete", object) }
func (l lines) Replace(objects []any, version string) error { return l.say("replace", objects...) }
func (l lines) Resync() error                               { return nil }

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: reflector GROUP VERSION PLURAL NAMESPACE")
	}
	group, version, plural, namespace := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	if group == "core" {
		group = ""
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil,
	).ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	objects := client.Resource(schema.GroupVersionResource{
		Group: group, Version: version, Resource: plural,
	}).Namespace(namespace)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, options)
		},
	}
	reflector := cache.NewReflectorWithOptions(
		source, &unstructured.Unstructured{}, lines{json.NewEncoder(os.Stdout)}, cache.ReflectorOptions{},
	)
	reflector.RunWithContext(ctx)
}
